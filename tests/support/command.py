"""Runs the command as a user would, in surroundings of its own."""
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import time
from pathlib import Path


@dataclasses.dataclass
class Result:
    args: list
    rc: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def error(self):
        """The one line that a failure prints, without its "ballast: "."""
        lines = [l for l in self.err.splitlines() if not l.startswith("ballast: warning: ")]
        assert len(lines) == 1 and lines[0].startswith("ballast: "), f"not one error line: {self}"
        return lines[0].removeprefix("ballast: ")

    def warnings(self):
        mark = "ballast: warning: "
        return [l.removeprefix(mark) for l in self.err.splitlines() if l.startswith(mark)]

    def __str__(self):
        return f"{self.args}: exit {self.rc}\n{self.out[-2000:].decode(errors='replace')}\n{self.err[-2000:]}"


class Ballast:
    """ballast("model", "list") runs `ballast -q model list` on this store."""

    def __init__(self, binary, home, store=None, env=None, prefix=(), cwd=None):
        self.binary, self.home, self.prefix = str(binary), Path(home), list(prefix)
        self.store = Path(store) if store else self.home / "store"
        self.cwd = cwd or self.home
        self.env = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS") or k == "G_SLICE"},
            **(env or {}),
        }
        # A library that every run loads, beside what a test preloads.
        preloads = [os.environ.get("BALLAST_PRELOAD"), (env or {}).get("LD_PRELOAD")]
        preloads = list(dict.fromkeys(":".join(filter(None, preloads)).split(":")))
        if preloads != [""]:
            self.env["LD_PRELOAD"] = ":".join(preloads)

    def having(self, store=None, env=None, prefix=None, cwd=None):
        """The same command with another store, more environment, or run by another program."""
        return Ballast(self.binary, self.home, store or self.store, {**self.env, **(env or {})},
                       self.prefix if prefix is None else prefix, cwd or self.cwd)

    def line(self, *args):
        return [*self.prefix, self.binary, "--store", f"file://{self.store}", "-q", *map(os.fspath, args)]

    def start(self, *args, **kwargs):
        kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs}
        return subprocess.Popen(self.line(*args), env=self.env, cwd=self.cwd, **kwargs)

    def peak_mib(self, *args):
        """Runs it, and gives the most memory it had. What wait4 tells would begin with this process's own."""
        process = self.start(*args, stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            with contextlib.suppress(OSError), open(f"/proc/{process.pid}/status") as f:
                peak = max([peak, *(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))])
            time.sleep(0.01)
        assert process.returncode == 0, process.stderr.read()
        return peak

    def __call__(self, *args, rc=0, json=False, timeout=120):
        """Runs and checks the exit code: a number, several, or None for any that is no crash."""
        args = [*args, "--json"] if json else args
        done = subprocess.run(self.line(*args), env=self.env, cwd=self.cwd, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout)
        result = Result(list(map(os.fsdecode, args)), done.returncode, done.stdout, done.stderr.decode(errors="replace"))
        assert result.rc not in (99, 125, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS), result
        if rc is not None:
            assert result.rc in (rc if isinstance(rc, tuple) else (rc,)), f"wanted exit {rc}: {result}"
        return result

    def told(self, *args, rc=0):
        """What it prints without -q."""
        done = subprocess.run([word for word in self.line(*args) if word != "-q"], env=self.env, cwd=self.cwd,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        assert done.returncode == rc, done
        return done.stdout

    def fails(self, rc, *args, **kwargs):
        """Runs what must fail with this exit code and one line; returns the line."""
        return self(*args, rc=rc, **kwargs).error

    # Shorthands for what nearly every test does.
    def do_import(self, source, id, *args, **kwargs):
        return self("model", "import", source, "--checkpoint-id", id, *args, **kwargs)

    def verify(self, id, *args, **kwargs):
        return self("model", "verify", id, *args, **kwargs)

    def delete(self, id, *args, **kwargs):
        return self("model", "delete", id, *args, **kwargs)

    def status(self, id):
        """The checkpoint's status in the listing; None where it is not listed."""
        found = [c for c in self("model", "list", json=True).json["checkpoints"] if c["checkpoint_id"] == id]
        return found[0]["status"] if found else None
