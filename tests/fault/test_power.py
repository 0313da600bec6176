"""Power cuts: the file system stops at once and forgets what was not flushed (FS_IOC_SHUTDOWN of ext4 on a loop device)."""
import fcntl
import os
import random
import struct
import threading
import time

from support import models
from support.walker import walk

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2


def cut_power(folder):
    fd = os.open(folder, os.O_RDONLY)
    fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    os.close(fd)


def forget_lost_claims(store):
    """A claim is not made durable. Where its bytes are lost, nothing tells whose it is, and the next command watches it for
    30 s (test_claims.py waits for that, this test has no time for it)."""
    for claim in store.glob("weight/models/*/claim"):
        if claim.stat().st_size == 0:
            claim.unlink()


class Worker(threading.Thread):
    """Imports and deletes one checkpoint after the other until a command fails; remembers what was acknowledged."""

    def __init__(self, ballast, sources, acknowledged, rng):
        super().__init__()
        self.ballast, self.sources, self.acknowledged, self.rng = ballast, sources, dict(acknowledged), rng
        self.open_id = None

    def run(self):
        while True:
            self.open_id = id = self.rng.choice(list(self.sources))
            if id in self.acknowledged:
                args = ["model", "delete", id]
            else:
                args = ["model", "import", self.sources[id], "--checkpoint-id", id]
            result = self.ballast(*args, rc=None)
            if result.rc != 0:
                self.result = result
                return
            if id in self.acknowledged:
                del self.acknowledged[id]
            else:
                self.acknowledged[id] = True


def test_power_cuts(ballast, private_mount, tmp_path, is_long):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    sources = {f"m{i}": models.make_model(tmp_path / f"m{i}", n_shards=1 + i, seed=i) for i in range(3)}
    mount = private_mount("ext4", 128)
    ballast = ballast.having(store=mount.path / "store")
    acknowledged = {}
    n_open_left_something = 0
    for cycle in range(1000 if is_long else 20):
        worker = Worker(ballast, sources, acknowledged, rng)
        worker.start()
        time.sleep(rng.uniform(0, 0.15))
        cut_power(mount.path)
        worker.join()
        assert worker.result.rc == 1, worker.result
        mount.unmount()
        mount.mount()

        forget_lost_claims(ballast.store)
        found = walk(ballast.store)
        found.assert_no_orphans()
        for id in sources:
            if id == worker.open_id:
                n_open_left_something += id in found.statuses
            elif id in worker.acknowledged:
                assert found.statuses.get(id) == "READY", f"cycle {cycle}: an acknowledged import is lost"
            else:
                assert id not in found.statuses, f"cycle {cycle}: an acknowledged delete came back"
        for id, status in found.statuses.items():
            if status == "READY":
                ballast.verify(id)
        ballast.do_import(sources[worker.open_id], worker.open_id)
        ballast.verify(worker.open_id)
        acknowledged = {**worker.acknowledged, worker.open_id: True}
    # Claims are not made durable: those of dead owners may stand there again until the next command.
    for id in sources:
        ballast.do_import(sources[id], id)
    walk(ballast.store).assert_clean()
    assert n_open_left_something > 0, "no cut fell into a command"
