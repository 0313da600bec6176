"""Eight processes at a time on one store, some of them killed at random moments."""
import os
import random
import shutil
import time

import pytest

from support import models
from support.walker import walk

N_PROCESSES = 8
IDS = ("a", "b", "c")
# Pinned and named by no command that removes: whatever happens to those that share their bytes, nothing may happen to them.
KEPT = ("kept-1", "kept-2")
SHARD = "model-00001-of-00002.safetensors"


class Race:
    """Runs random commands, eight at a time, and judges each as it ends."""

    def __init__(self, ballast, top, rng, weights):
        self.ballast, self.top, self.rng, self.weights = ballast, top, rng, weights
        self.sources = {id: models.make_model(top / f"source-{id}", seed=i, tensor_bytes=200_000)
                        for i, id in enumerate(IDS + KEPT)}
        # A shard of each kept one is in another, too, and "b" and "c" share one.
        for id, of in (("kept-1", "a"), ("kept-2", "b"), ("c", "b")):
            shutil.copy(self.sources[of] / SHARD, self.sources[id] / SHARD)
        self.right = {id: models.contents(folder) for id, folder in self.sources.items()}
        self.running, self.n_started, self.n_good = [], 0, 0

    def command(self, out):
        rng, id = self.rng, self.rng.choice(IDS)
        load = ["model", "import", self.sources[id], "--checkpoint-id", id, "--model-id", f"org/{id}"]
        table = {
            "import": load,
            "wait": [*load, "--wait=5"],
            "pull": ["model", "pull", rng.choice(IDS + KEPT), "--output", out, "--link=copy"],
            "link": ["model", "pull", rng.choice(IDS + KEPT), "--output", out, "--link=hardlink"],
            "verify": ["model", "verify", rng.choice(IDS + KEPT)],
            "quick": ["model", "verify", rng.choice(IDS + KEPT), "--quick"],
            "delete": ["model", "delete", id],
            "list": ["model", "list"],
            "tag": ["model", "tag", "--move", rng.choice(IDS + KEPT), "prod"],
            "pin": ["model", rng.choice(["pin", "unpin"]), id],
            "prune": ["prune", "--max-bytes", "1MiB", "--yes"],
            "gc": ["gc", "--grace", "0"],
            "fsck": ["fsck"],
            "stats": ["stats"],
            "import kept": ["model", "import", self.sources["kept-1"], "--checkpoint-id", "kept-1", "--model-id", "org/kept-1"],
        }
        return table[rng.choices(list(self.weights), self.weights.values())[0]]

    def start(self):
        out = self.top / f"out-{self.n_started}"
        args = self.command(out)
        self.n_started += 1
        dies_at = time.monotonic() + self.rng.uniform(0.001, 0.06) if self.rng.random() < 0.3 else None
        self.running.append((self.ballast.start(*args), args, out, dies_at))

    def reap(self):
        for item in self.running[:]:
            process, args, out, dies_at = item
            if dies_at and time.monotonic() > dies_at:
                process.kill()
            if process.poll() is not None:
                self.running.remove(item)
                self.check_end(process, args, out)
                self.n_good += process.returncode == 0
                shutil.rmtree(out, ignore_errors=True)

    def run(self, seconds):
        deadline = time.monotonic() + seconds
        while self.running or time.monotonic() < deadline:
            while len(self.running) < N_PROCESSES and time.monotonic() < deadline:
                self.start()
            time.sleep(0.001)
            self.reap()
        assert self.n_good > self.n_started / 10

    def check_end(self, process, args, out):
        stdout, stderr = process.communicate(timeout=60)
        what = f"{args}: {process.returncode} {stdout} {stderr}"
        # 3: nothing there yet, or deleted just now. 4: deleted while it was read. 5: another's claim, or files in the way.
        allowed = {"prune": (0, 1, 5, -9), "gc": (0, -9), "fsck": (0, -9), "stats": (0, -9)}.get(args[0], (0, 3, 4, 5, -9))
        if any(kept in args for kept in KEPT):
            # Two may want its claim at once.
            allowed = (0, -9) if args[1] in ("pull", "verify") else (0, 5, -9)
        assert process.returncode in allowed, what
        if "pull" in args and process.returncode == 0:
            assert models.contents(out) == self.right[args[2]], what


def collect(ballast):
    """gc, which leaves what is young to those who may still live."""
    for temporary in ballast.store.rglob(".tmp-*"):
        os.utime(temporary, (1, 1))
    ballast("gc", "--grace", "0")


SETS = {
    "checkpoints": {"import": 1, "wait": 1, "pull": 1, "verify": 1, "delete": 1, "list": 1},
    "upkeep": {"import": 6, "wait": 2, "pull": 2, "link": 3, "verify": 1, "quick": 2, "delete": 3, "list": 1, "tag": 2, "pin": 2,
               "prune": 2, "gc": 3, "fsck": 1, "stats": 1, "import kept": 1},
}


@pytest.mark.parametrize("name", SETS)
def test_race(name, ballast, tmp_path, is_long):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    race = Race(ballast, tmp_path, random.Random(seed), SETS[name])
    for id in KEPT:
        ballast.do_import(race.sources[id], id, "--model-id", f"org/{id}")
        ballast("model", "pin", id)
    race.run(600 if is_long else 15)
    walk(ballast.store).assert_no_orphans()
    for id in KEPT:
        ballast.verify(id)
    for id in IDS:
        ballast.do_import(race.sources[id], id, "--model-id", f"org/{id}")
        ballast.verify(id)
    collect(ballast)
    found = walk(ballast.store)
    found.assert_clean()
    assert found.statuses == {id: "READY" for id in IDS + KEPT}
    for id in IDS + KEPT:
        ballast.delete(id)
    collect(ballast)
    walk(ballast.store).assert_clean()
