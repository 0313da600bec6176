"""Eight processes at a time on one store, some of them killed at random moments."""
import random
import shutil
import time

from support import models
from support.walker import walk

N_PROCESSES = 8
IDS = ("a", "b", "c")


def random_command(rng, sources, out):
    id = rng.choice(IDS)
    return rng.choice([
        ["model", "import", sources[id], "--checkpoint-id", id],
        ["model", "import", sources[id], "--checkpoint-id", id, "--wait=5"],
        ["model", "pull", id, "--output", out],
        ["model", "verify", id],
        ["model", "delete", id],
        ["model", "list"],
    ])


def check_end(process, args, out, right):
    stdout, stderr = process.communicate(timeout=60)
    # 3: nothing there yet, or deleted just now. 4: deleted while it was read. 5: another's claim, or files in the way.
    assert process.returncode in (0, 3, 4, 5, -9), f"{args}: {process.returncode} {stdout} {stderr}"
    if args[1] == "pull" and process.returncode == 0:
        assert models.contents(out) == right[args[2]]


def test_race(ballast, tmp_path, is_long):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    sources = {id: models.make_model(tmp_path / id, seed=i, tensor_bytes=200_000) for i, id in enumerate(IDS)}
    right = {id: models.contents(folder) for id, folder in sources.items()}
    deadline = time.monotonic() + (600 if is_long else 20)
    running, n_started, n_good = [], 0, 0
    while running or time.monotonic() < deadline:
        while len(running) < N_PROCESSES and time.monotonic() < deadline:
            out = tmp_path / f"out-{n_started}"
            args = random_command(rng, sources, out)
            n_started += 1
            dies_at = time.monotonic() + rng.uniform(0.001, 0.06) if rng.random() < 0.3 else None
            running.append((ballast.start(*args), args, out, dies_at))
        time.sleep(0.001)
        for item in running[:]:
            process, args, out, dies_at = item
            if dies_at and time.monotonic() > dies_at:
                process.kill()
            if process.poll() is not None:
                running.remove(item)
                check_end(process, args, out, right)
                n_good += process.returncode == 0
                shutil.rmtree(out, ignore_errors=True)
    assert n_good > n_started / 10
    walk(ballast.store).assert_no_orphans()
    for id in IDS:
        ballast.do_import(sources[id], id)
        ballast.verify(id)
    walk(ballast.store).assert_clean()
    for id in IDS:
        ballast.delete(id)
    walk(ballast.store).assert_clean()
