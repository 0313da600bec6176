"""Runs a command with tests/fault/faultshim.c preloaded. scenes.py has what is run."""
import os
import time
from pathlib import Path


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

    def hit(self, line):
        path = self.counter.with_name(self.counter.name + ".name")
        return path.read_text(errors="surrogateescape").split("\n", 1)[line] if path.exists() else None

    @property
    def name(self):
        """The call that was killed or failed; None where the program made fewer."""
        return self.hit(0)

    @property
    def path(self):
        """The file or folder that the call was about; None likewise."""
        return self.hit(1)


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


def points(n, lane, n_lanes, is_long, first=1):
    """Which of the calls 1…n this lane takes: each, or every 5th."""
    step = 1 if is_long else 5
    return range(first + lane * step, n + 1, step * n_lanes)
