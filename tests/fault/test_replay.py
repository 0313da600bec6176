"""Every state in which a disk could have been when the power went, between the flushes that ballast asked for.

Commands run on ext4 over a disk that logs each write and each flush. Then disks are built: all writes before a flush, and of those
behind it a part, up to a moment at which the power may have gone. Each is mounted and judged: what was acknowledged at that
moment is there, READY means whole, nothing but leftovers is left, and the command that was under way succeeds."""
import dataclasses
import os
import random

import pytest

from support import models
from support.command import Ballast
from support.replay import LoggedDisk, Mounted, Replay, build_flushlog, some_of
from support.walker import walk

N_CHECK, N_LONG, LANES = 20, 2000, 2


@dataclasses.dataclass
class Step:
    """One command, and what is there when it has succeeded."""

    args: list
    ids: set  # checkpoints
    refs: dict = dataclasses.field(default_factory=dict)  # {(model, ref): checkpoint}
    gone_rc: int = 0  # where it has nothing left to do
    needs_gc: bool = False  # before it is run again: prune leaves to gc what is not READY


def scenario(top):
    """A small store's life: revisions that share bytes, names that move, a pin, checkpoints that are deleted and pruned."""
    a1 = models.make_model(top / "a1", tensor_bytes=30_000)
    a2 = models.make_model(top / "a2", tensor_bytes=30_000)
    (a2 / "config.json").write_text('{"architectures": ["Test"], "seed": 77}')
    b = models.make_model(top / "b", n_shards=1, seed=5)
    main, dev = ("org/a", "main"), ("org/a", "dev")

    def load(source, id, model, revision="main"):
        return ["model", "import", source, "--checkpoint-id", id, "--model-id", model, "--revision", revision]

    return [
        Step(load(a1, "a1", "org/a"), {"a1"}, {main: "a1"}),
        Step(load(b, "b", "org/b"), {"a1", "b"}, {main: "a1", ("org/b", "main"): "b"}),
        Step(["model", "delete", "b"], {"a1"}, {main: "a1"}, gone_rc=3),
        Step(load(a2, "a2", "org/a", "dev"), {"a1", "a2"}, {main: "a1", dev: "a2"}),
        Step(["model", "tag", "--move", "a2", "main"], {"a1", "a2"}, {main: "a2", dev: "a2"}),
        Step(["model", "pin", "a2"], {"a1", "a2"}, {main: "a2", dev: "a2"}),
        Step(["model", "delete", "a1"], {"a2"}, {main: "a2", dev: "a2"}, gone_rc=3),
        Step(load(b, "b", "org/b"), {"a2", "b"}, {main: "a2", dev: "a2", ("org/b", "main"): "b"}),
        Step(["model", "verify", "b"], {"a2", "b"}, {main: "a2", dev: "a2", ("org/b", "main"): "b"}),
        Step(["prune", "--max-bytes", "200000", "--yes"], {"a2"}, {main: "a2", dev: "a2"}, needs_gc=True),
        Step(["gc", "--grace", "0"], {"a2"}, {main: "a2", dev: "a2"}),
    ]


def at_home(ballast, folder):
    """The command with its store and its local state on that disk."""
    return ballast.having(store=folder / "store", env={"BALLAST_STATE_DIR": str(folder / "state")})


@pytest.fixture(scope="module")
def logged(tmp_path_factory, binary):
    """(steps, the disk's base and log); made once by each process that runs these tests."""
    top = tmp_path_factory.mktemp("logged")
    steps = scenario(top)
    disk = LoggedDisk(build_flushlog(top), top)
    try:
        ballast = at_home(Ballast(binary, top), disk.path)
        disk.mark("0")
        for i, step in enumerate(steps, 1):
            ballast(*step.args)
            disk.mark(str(i))
    finally:
        disk.close()
    return steps, disk.base, disk.log


@pytest.mark.parametrize("lane", range(LANES))
def test_replay(lane, logged, ballast, tmp_path, is_long):
    steps, base, log = logged
    replay = Replay(base, log)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    started = replay.marks[0][0]
    windows = [w for w in replay.windows() if w[1] > started][lane::LANES]
    n = (N_LONG if is_long else N_CHECK) // LANES
    # Each window once, if there is time for all; then as many more as there are to be, where most is open.
    chosen = windows if n >= len(windows) else rng.sample(windows, n)
    sizes = [1 + len(replay.between(*w)) for w in windows]
    chosen = sorted(chosen + rng.choices(windows, sizes, k=n - len(chosen)))
    mounted, faults = Mounted(tmp_path / "disk"), []
    for i, (start, end) in enumerate(chosen):
        moment = end if i == 0 or chosen[i - 1] != (start, end) else rng.randint(start + 1, end)
        # The first of a window is what the flush made durable, and no more.
        kept = some_of(replay.between(start, moment), rng) if moment != end or rng.random() < 0.5 else []
        mounted.mount(replay.image(start, kept))
        try:
            judge(at_home(ballast, mounted.path), steps, int(replay.acknowledged(moment) or 0))
        except AssertionError as error:
            faults.append(f"seed {seed}: image {i}, flush {start}, {len(kept)} writes kept up to {moment}: {error}")
        finally:
            mounted.unmount()
    assert not faults, f"{len(faults)} of {len(chosen)} images: " + "\n\n".join(faults[:10])


def judge(ballast, steps, n_done):
    """The store after a power cut, when n_done steps had been acknowledged and the next one may have begun."""
    before = steps[n_done - 1] if n_done else Step([], set())
    after = steps[n_done] if n_done < len(steps) else before
    forget_lost_claims(ballast.store)
    found = walk(ballast.store)
    found.assert_no_orphans()
    ballast("fsck")
    for id in before.ids | after.ids:
        if id in before.ids & after.ids:
            assert found.statuses.get(id) == "READY", f"step {n_done}: {id} is lost: {found.statuses}"
        if found.statuses.get(id) == "READY":
            ballast.verify(id)
    assert found.statuses.keys() <= before.ids | after.ids, f"step {n_done}: it came back: {found.statuses}"
    for ref in before.refs.keys() & after.refs.keys():
        assert found.refs.get(ref) in (before.refs[ref], after.refs[ref]), f"step {n_done}: {ref}: {found.refs}"
    assert found.refs.keys() <= before.refs.keys() | after.refs.keys()
    if after is not before:
        if after.needs_gc:
            ballast("gc", "--grace", "0")
        ballast(*after.args, rc=(0, after.gone_rc))
        # What the making of store.json left belongs to no checkpoint; young, it may be a living command's.
        for temporary in ballast.store.glob(".tmp-*"):
            os.utime(temporary, (1, 1))
        ballast("gc", "--grace", "0")
        found = walk(ballast.store)
        found.assert_clean()
        assert set(found.statuses) == after.ids and found.refs == after.refs, f"step {n_done}, done again: {found}"
        for id in after.ids:
            ballast.verify(id)


def forget_lost_claims(store):
    """A claim is not made durable: what is left of it may name nobody, and the next command would watch it for 30 s."""
    for claim in store.glob("weight/models/*/claim*"):
        if claim.is_file() and not claim.read_bytes().startswith(b"{"):
            claim.unlink()
