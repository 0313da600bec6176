"""Runs a command with tests/fault/faultshim.c preloaded, and scenes to run it in."""
import os
import shutil
import time
from pathlib import Path

from . import models
from .walker import walk


class Shim:
    def __init__(self, library, counter):
        self.library, self.counter = str(library), Path(counter)

    def env(self, root, deed, at, sticky=False):
        self.counter.unlink(missing_ok=True)
        self.counter.with_name(self.counter.name + ".name").unlink(missing_ok=True)
        env = {"LD_PRELOAD": self.library, "BALLAST_SHIM_ROOT": str(root), "BALLAST_SHIM_DO": deed,
               "BALLAST_SHIM_AT": str(at), "BALLAST_SHIM_COUNTER": str(self.counter)}
        return {**env, "BALLAST_SHIM_STICKY": "1"} if sticky else env

    @property
    def calls(self):
        return int.from_bytes(self.counter.read_bytes(), "little")

    @property
    def name(self):
        """The call that was killed or failed; None where the program made fewer."""
        path = self.counter.with_name(self.counter.name + ".name")
        return path.read_text() if path.exists() else None


def start_stopped(ballast, shim, at, *args):
    """Starts the command and returns when it stands still before its n-th change of a file; SIGCONT lets it go on."""
    process = ballast.having(env=shim.env(ballast.store, "stop", at)).start(*args)
    while not any(state(pid) == "T" for pid in family(process.pid)):
        assert process.poll() is None, f"it ended first: {process.communicate()}"
        time.sleep(0.001)
    return process


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return None


def family(pid):
    """The process and what it runs: the command is a child where another program starts it."""
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from family(int(child))


def signal_all(process, number):
    for pid in reversed(list(family(process.pid))):
        os.kill(pid, number)


class Scene:
    """A store with the checkpoint "other" in it, and one operation on the checkpoint "m", from a state that is set up once.

    operations: import (nothing there), resume (a killed import there), mend (a damaged READY one there), pull, delete."""

    def __init__(self, ballast, shim, top, operation):
        self.operation, self.shim = operation, shim
        self.start, self.work = Path(top) / "start", Path(top) / "work"
        self.start.mkdir()
        self.model = models.make_model(Path(top) / "model")
        self.other = models.make_model(Path(top) / "other", seed=2)
        at_start = ballast.having(store=self.start / "store", cwd=self.start)
        at_start.do_import(self.other, "other")
        self.ballast = ballast.having(store=self.work / "store", cwd=self.work)
        if operation != "import":
            at_start.do_import(self.model, "m")
        self.prepare(at_start)

    def prepare(self, at_start):
        if self.operation == "resume":
            at_start.delete("m")
            env = self.shim.env(self.start, "kill", 60)
            at_start.having(env=env).do_import(self.model, "m", rc=-9)
        elif self.operation == "mend":
            chunk = max((self.start / "store/weight/models/m").glob("files*"), key=lambda p: p.stat().st_size)
            data = bytearray(chunk.read_bytes())
            data[100] ^= 1
            chunk.chmod(0o644)
            chunk.write_bytes(data)
            chunk.chmod(0o444)

    def args(self):
        if self.operation == "pull":
            return ["model", "pull", "m", "--output", self.work / "out"]
        if self.operation == "delete":
            return ["model", "delete", "m"]
        return ["model", "import", self.model, "--checkpoint-id", "m"]

    def reset(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work, symlinks=True)

    def run(self, deed, at, sticky=False):
        """The operation once, from the start, with the fault; any exit code but a crash's."""
        self.reset()
        env = self.shim.env(self.work, deed, at, sticky)
        return self.ballast.having(env=env)(*self.args(), rc=None)

    def n_calls(self, deed):
        result = self.run(deed, 0)
        assert result.rc == 0, result
        return self.shim.calls

    def check_other(self):
        self.ballast.verify("other")

    def check_between(self):
        """What must hold at any moment: nothing is orphaned, READY means whole, no half file has a final name."""
        found = walk(self.ballast.store)
        found.assert_no_orphans()
        self.check_other()
        if found.statuses.get("m") == "READY" and self.operation != "mend":
            self.ballast.verify("m")
        if self.operation == "pull":
            right = models.contents(self.model)
            for path, digest in models.contents(self.work / "out").items():
                if not Path(path).name.startswith("."):
                    assert right.get(path) == digest, f"half a file: {path}"

    def check_after(self):
        """What must hold when the operation has succeeded."""
        found = walk(self.ballast.store)
        found.assert_clean()
        self.check_other()
        if self.operation == "delete":
            assert "m" not in found.statuses and "other" in found.statuses
        else:
            assert found.statuses["m"] == "READY"
            self.ballast.verify("m")
        if self.operation == "pull":
            assert models.contents(self.work / "out") == models.contents(self.model)

    def again(self):
        """The operation once more, without a fault."""
        gone = self.operation == "delete" and not list(self.ballast.store.glob("weight/models/m/*"))
        self.ballast(*self.args(), rc=3 if gone else 0)
        self.check_after()


def points(n, lane, n_lanes, is_long, first=1):
    """Which of the calls 1…n this lane takes: each, or every 5th."""
    step = 1 if is_long else 5
    return range(first + lane * step, n + 1, step * n_lanes)
