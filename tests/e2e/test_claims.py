"""Two at once: who works on a checkpoint, whether that is still so, and what happens when it is not."""
import os
import signal
import time

import pytest

from support import models
from support.faults import signal_all, start_stopped
from support.walker import walk
from test_import import SOME_DATA


@pytest.fixture
def big_model(make_model):
    return make_model("big", n_shards=8, n_tensors=2, tensor_bytes=4 << 20)


@pytest.fixture
def stand_still(shim):
    """Starts an import of "m" that holds its claim, has written some data, and stands still."""
    def start(ballast, model):
        ballast.store.mkdir(exist_ok=True)
        return start_stopped(ballast, shim, SOME_DATA, "model", "import", model, "--checkpoint-id", "m")

    return start


def end(process):
    signal_all(process, signal.SIGKILL)
    process.communicate(timeout=60)


def test_second_import_is_told_who(ballast, stand_still, big_model):
    first = stand_still(ballast, big_model)
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


def test_wait(ballast, stand_still, big_model):
    first = stand_still(ballast, big_model)
    second = ballast.start("model", "import", big_model, "--checkpoint-id", "m", "--wait")
    time.sleep(0.3)
    assert second.poll() is None
    first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 0 and second.wait(60) == 0
    ballast.verify("m")


def test_wait_has_an_end(ballast, stand_still, big_model):
    first = stand_still(ballast, big_model)
    started = time.monotonic()
    ballast.fails(5, "model", "import", big_model, "--checkpoint-id", "m", "--wait=1")
    assert 1 <= time.monotonic() - started < 5
    end(first)


def test_other_checkpoints_do_not_wait(ballast, stand_still, big_model, model):
    first = stand_still(ballast, big_model)
    ballast.do_import(model, "other")
    ballast.delete("other")
    end(first)


def test_dead_owner_is_replaced_at_once(ballast, stand_still, big_model):
    end(stand_still(ballast, big_model))
    started = time.monotonic()
    ballast.do_import(big_model, "m")
    assert time.monotonic() - started < 10
    walk(ballast.store).assert_clean()


def test_owner_in_another_pid_namespace(ballast, stand_still, big_model, other_pid_namespace):
    """Its pid means nothing to us; the lock tells whether it lives."""
    first = stand_still(ballast.having(prefix=other_pid_namespace), big_model)
    ballast.fails(5, "model", "import", big_model, "--checkpoint-id", "m")
    assert ballast.status("m") == "IMPORTING"
    end(first)
    started = time.monotonic()
    ballast.do_import(big_model, "m")
    assert time.monotonic() - started < 15
    walk(ballast.store).assert_clean()


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["free", "ENOLCK", "ENOSYS"])
def test_dead_owner_in_another_pid_namespace_without_locks(ballast, stand_still, big_model, other_pid_namespace, preload, mode):
    """Only its heartbeat tells, so it is watched for 30 s, not for ever."""
    without_locks = ballast.having(env=preload("lockshim", BALLAST_LOCKS=mode))
    end(stand_still(without_locks.having(prefix=other_pid_namespace), big_model))
    started = time.monotonic()
    without_locks.do_import(big_model, "m")
    assert 25 < time.monotonic() - started < 60
    ballast.verify("m")
    walk(ballast.store).assert_clean()


@pytest.mark.heavy
def test_living_owner_in_another_pid_namespace_without_locks(ballast, stand_still, make_model, other_pid_namespace, preload):
    """It stands still, and then goes on and finds that it lost its claim: it must not publish."""
    model = make_model("big", n_shards=8, n_tensors=2, tensor_bytes=4 << 20)
    without_locks = ballast.having(env=preload("lockshim", BALLAST_LOCKS="free"))
    first = stand_still(without_locks.having(prefix=other_pid_namespace), model)
    other = make_model("other", seed=3)
    without_locks.do_import(other, "m", rc=0)
    signal_all(first, signal.SIGCONT)
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
