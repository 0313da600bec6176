"""Two at once: who works on a checkpoint, whether that is still so, and what happens when it is not."""
import os
import signal
import time

import pytest

from support import models
from support.walker import walk


@pytest.fixture
def big_model(make_model):
    return make_model("big", n_shards=8, n_tensors=2, tensor_bytes=16 << 20)


def start_and_stop(ballast, model):
    """An import of "m" that holds its claim and stands still."""
    process = ballast.start("model", "import", model, "--checkpoint-id", "m")
    folder = ballast.store / "weight/models/m"
    while process.poll() is None and not (folder.is_dir() and list(folder.glob("files,*"))):
        time.sleep(0.001)
    stop(process.pid)
    return process


def stop(pid):
    """SIGSTOP to the process and what it runs (the command is a child where something starts it)."""
    for child in children(pid):
        stop(child)
    os.kill(pid, signal.SIGSTOP)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return list(map(int, f.read().split()))


def end(process, number):
    pids = [process.pid, *children(process.pid)]
    for pid in reversed(pids):
        os.kill(pid, number)
    process.communicate(timeout=60)


def test_second_import_is_told_who(ballast, big_model):
    first = start_and_stop(ballast, big_model)
    try:
        for args in (["import", big_model, "--checkpoint-id", "m"], ["delete", "m"]):
            error = ballast.fails(5, "model", *args)
            assert f"process {first.pid}" in error and os.uname().nodename in error and "import" in error
        assert ballast.status("m") == "IMPORTING"
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 0
    ballast.verify("m")
    walk(ballast.store).assert_clean()


def test_wait(ballast, big_model):
    first = start_and_stop(ballast, big_model)
    second = ballast.start("model", "import", big_model, "--checkpoint-id", "m", "--wait")
    time.sleep(0.3)
    assert second.poll() is None
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 0 and second.wait(60) == 0
    ballast.verify("m")


def test_wait_has_an_end(ballast, big_model):
    first = start_and_stop(ballast, big_model)
    started = time.monotonic()
    ballast.fails(5, "model", "import", big_model, "--checkpoint-id", "m", "--wait=1")
    assert 1 <= time.monotonic() - started < 5
    end(first, signal.SIGKILL)


def test_other_checkpoints_do_not_wait(ballast, big_model, model):
    first = start_and_stop(ballast, big_model)
    ballast.do_import(model, "other")
    ballast.delete("other")
    end(first, signal.SIGKILL)


def test_dead_owner_is_replaced_at_once(ballast, big_model):
    end(start_and_stop(ballast, big_model), signal.SIGKILL)
    started = time.monotonic()
    ballast.do_import(big_model, "m")
    assert time.monotonic() - started < 10
    walk(ballast.store).assert_clean()


def test_owner_in_another_pid_namespace(ballast, big_model, other_pid_namespace):
    """Its pid means nothing to us; the lock tells whether it lives."""
    first = start_and_stop(ballast.having(prefix=other_pid_namespace), big_model)
    ballast.fails(5, "model", "import", big_model, "--checkpoint-id", "m")
    assert ballast.status("m") == "IMPORTING"
    end(first, signal.SIGKILL)
    started = time.monotonic()
    ballast.do_import(big_model, "m")
    assert time.monotonic() - started < 15
    walk(ballast.store).assert_clean()


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["free", "ENOLCK", "ENOSYS"])
def test_dead_owner_in_another_pid_namespace_without_locks(ballast, big_model, other_pid_namespace, preload, mode):
    """Only its heartbeat tells, so it is watched for 30 s, not for ever."""
    without_locks = ballast.having(env=preload("lockshim", BALLAST_LOCKS=mode))
    end(start_and_stop(without_locks.having(prefix=other_pid_namespace), big_model), signal.SIGKILL)
    started = time.monotonic()
    without_locks.do_import(big_model, "m")
    assert 25 < time.monotonic() - started < 60
    ballast.verify("m")
    walk(ballast.store).assert_clean()


@pytest.mark.heavy
def test_living_owner_in_another_pid_namespace_without_locks(ballast, make_model, other_pid_namespace, preload):
    """It stands still, and then goes on and finds that it lost its claim: it must not publish."""
    model = make_model("big", n_shards=8, n_tensors=2, tensor_bytes=16 << 20)
    without_locks = ballast.having(env=preload("lockshim", BALLAST_LOCKS="free"))
    first = start_and_stop(without_locks.having(prefix=other_pid_namespace), model)
    other = make_model("other", seed=3)
    without_locks.do_import(other, "m", rc=0)
    for pid in [*children(first.pid), first.pid]:
        os.kill(pid, signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 5, err
    ballast.verify("m")
    assert walk(ballast.store).statuses == {"m": "READY"}
    ballast("model", "pull", "m", "--output", ballast.home / "out")
    assert models.contents(ballast.home / "out") == models.contents(other)


@pytest.mark.parametrize("mode", ["free", "ENOLCK", "ENOSYS"])
def test_everything_works_without_locks(ballast, model, preload, mode, tmp_path):
    ballast = ballast.having(env=preload("lockshim", BALLAST_LOCKS=mode))
    ballast.do_import(model, "m")
    ballast.verify("m")
    ballast("model", "pull", "m", "--output", tmp_path / "out")
    assert models.contents(tmp_path / "out") == models.contents(model)
    ballast.delete("m")
    walk(ballast.store).assert_clean()


@pytest.mark.parametrize("mode", [None, "free"])
def test_four_writers_of_one_checkpoint(ballast, make_model, preload, mode):
    env = preload("lockshim", BALLAST_LOCKS=mode) if mode else {}
    ballast = ballast.having(env=env)
    model = make_model(tensor_bytes=1 << 20)
    processes = [ballast.start("model", "import", model, "--checkpoint-id", "m") for _ in range(4)]
    codes = []
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode in (0, 5), err
        codes.append(process.returncode)
    assert 0 in codes
    ballast.verify("m")
    walk(ballast.store).assert_clean()


@pytest.mark.parametrize("mode", [None, "free"])
def test_four_writers_that_wait(ballast, make_model, preload, mode):
    env = preload("lockshim", BALLAST_LOCKS=mode) if mode else {}
    ballast = ballast.having(env=env)
    model = make_model(tensor_bytes=1 << 20)
    processes = [ballast.start("model", "import", model, "--checkpoint-id", "m", "--wait=60") for _ in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
    ballast.verify("m")
    walk(ballast.store).assert_clean()
