"""gc: what killed commands left, and not a byte more."""
import json
import os
import shutil
import signal
import time

import pytest

from support.faults import start_stopped
from support.scenes import object_file
from support.walker import walk
from test_fsck import kinds, leave_behind, make_failed, rewrite


@pytest.fixture
def full(ballast, make_model):
    """A READY checkpoint, and one of everything that gc removes."""
    ballast.do_import(make_model("a"), "a", "--model-id", "org/a")
    ballast.do_import(make_model("f", seed=2), "f", "--model-id", "org/f")
    ballast.do_import(make_model("n", seed=3), "n", "--model-id", "org/n")
    leave_behind(ballast.store, "f")
    (ballast.store / "weight/models/n/manifest").unlink()


def swept(ballast):
    found = walk(ballast.store)
    found.assert_clean()
    assert set(found.statuses) == {"a"}
    assert not (ballast.store / "weight/models/empty").exists()
    assert not (ballast.store / "weight/control/gc").exists() or kinds(ballast) == []
    ballast.verify("a")


def gc(ballast, *args):
    return ballast("gc", *args, json=True).json


def age(ballast, seconds):
    rewrite(ballast.store / "weight/control/gc",
            lambda r: r.update(candidates={k: v - seconds for k, v in r["candidates"].items()}))


def test_at_once(ballast, full):
    result = gc(ballast, "--grace", "0")
    assert result["n_removed"] == 7 and result["n_waiting"] == 0
    swept(ballast)
    assert gc(ballast, "--grace", "0")["n_removed"] == 0


def test_two_passes(ballast, full):
    result = gc(ballast)
    assert result["n_removed"] == 0 and result["n_waiting"] == 7
    assert abs(result["next_at"] - time.time() - 3600) < 60
    age(ballast, 3700)
    result = gc(ballast)
    assert result["n_removed"] == 7, [i for i in result["items"] if i["outcome"] != "removed"] or result["items"]
    swept(ballast)


def test_imported_meanwhile(ballast, full, tmp_path):
    """A FAILED checkpoint that somebody finishes before it is due."""
    gc(ballast)
    age(ballast, 3700)
    ballast.do_import(tmp_path / "f", "f", "--model-id", "org/f")
    gc(ballast)
    found = walk(ballast.store)
    assert found.statuses == {"a": "READY", "f": "READY"}
    ballast.verify("f")


def test_dry_run_changes_nothing(ballast, full):
    before = {p: p.lstat().st_mtime_ns for p in ballast.store.rglob("*")}
    assert gc(ballast, "--grace", "0", "--dry-run")["n_removed"] == 7
    assert {p: p.lstat().st_mtime_ns for p in ballast.store.rglob("*")} == before


def test_damaged_record(ballast, full):
    gc(ballast)
    file = ballast.store / "weight/control/gc"
    file.chmod(0o644)
    file.write_text("{")
    result = ballast("gc", json=True)
    assert len(result.warnings()) == 1 and result.json["n_waiting"] == 7


@pytest.mark.parametrize("value", ["1", "1x", "-1h", "1.5h", "", "99999999w"])
def test_bad_grace(ballast, value):
    assert "--grace" in ballast.fails(2, "gc", f"--grace={value}")


def test_foreign_things_stay(ballast, full):
    mine = [ballast.store / p for p in ("weight/models/f/notes.txt", "weight/models/a/.mine", "mine/x", "weight/others/x")]
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    gc(ballast, "--grace", "0")
    assert all(file.read_text() == "mine" for file in mine)
    # Among them even what failed stays: delete says so aloud.
    assert walk(ballast.store).statuses == {"a": "READY", "f": "FAILED"}


def test_read_only_store(nobody, ballast, make_model):
    ballast.having(store=nobody.store).do_import(make_model("a"), "a")
    assert "read-only" in nobody.fails(1, "gc")
    assert gc(nobody, "--dry-run")["n_removed"] == 0


@pytest.mark.parametrize("at", range(8, 96, 8))
def test_beside_an_import(ballast, make_model, shim, at):
    """At whatever moment: the import goes on and is whole."""
    ballast.do_import(make_model("a"), "a")
    source = make_model("c", seed=3)
    process = start_stopped(ballast, shim, at, "model", "import", source, "--checkpoint-id", "c")
    try:
        gc(ballast, "--grace", "0")
    finally:
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate()
    assert process.returncode == 0, err
    ballast.verify("c")
    walk(ballast.store).assert_clean()


@pytest.mark.parametrize("at", range(2, 40, 4))
def test_gc_that_stands_still(ballast, full, shim, at, tmp_path):
    """A gc is stopped at whatever moment, and others import what it was about to remove."""
    process = start_stopped(ballast, shim, at, "gc", "--grace", "0")
    try:
        ballast.do_import(tmp_path / "f", "f", "--model-id", "org/f", rc=(0, 5))
        ballast.do_import(tmp_path / "n", "n", "--model-id", "org/n", rc=(0, 5))
    finally:
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate()
    assert process.returncode == 0, err
    for id in ("f", "n"):
        ballast.do_import(tmp_path / id, id, "--model-id", f"org/{id}")
        ballast.verify(id)
    gc(ballast, "--grace", "0")
    walk(ballast.store).assert_clean()
    assert set(walk(ballast.store).statuses) == {"a", "f", "n"}


def test_four_at_once(ballast, full):
    runs = [ballast.start("gc", "--grace", "0") for _ in range(4)]
    for run in runs:
        out, err = run.communicate()
        assert run.returncode == 0, err
    gc(ballast, "--grace", "0")
    swept(ballast)


def test_beside_sharers(ballast, make_model, tmp_path):
    """What failed shared its bytes with what is READY: they stay."""
    source = make_model("a")
    shutil.copytree(source, tmp_path / "b")
    (tmp_path / "b/config.json").write_text('{"other": 1}')
    ballast.do_import(source, "a")
    ballast.do_import(tmp_path / "b", "b")
    assert object_file(ballast.store, "a").stat().st_ino == object_file(ballast.store, "b").stat().st_ino
    make_failed(ballast.store, "a")
    assert gc(ballast, "--grace", "0")["n_removed"] == 1
    ballast.verify("b")
    walk(ballast.store).assert_clean()


def test_claim_of_a_killed_import(ballast, make_model, shim):
    ballast.do_import(make_model("a"), "a")
    source = make_model("c")
    ballast.having(env=shim.env(ballast.store, "kill", 40))("model", "import", source, "--checkpoint-id", "c", rc=-9)
    assert ("leftover", "failed", "c") in kinds(ballast)
    gc(ballast, "--grace", "0")
    walk(ballast.store).assert_clean()
    assert not (ballast.store / "weight/models/c").exists()


def test_what_another_user_may_not_remove(nobody, ballast, make_model):
    """It is told, and the rest is removed."""
    root = ballast.having(store=nobody.store)
    for i, id in enumerate("abc"):
        root.do_import(make_model(id, seed=i), id)
        make_failed(nobody.store, id)
    for path in [nobody.store, *nobody.store.rglob("*")]:
        if path.relative_to(nobody.store).parts[:3] != ("weight", "models", "b"):
            os.chown(path, 65534, 65534)
    error = nobody.fails(1, "gc", "--grace", "0")
    assert "1 of what is left over" in error and "/b/" in error
    assert set(walk(nobody.store).statuses) == {"b"}
    gc(root, "--grace", "0")
    walk(nobody.store).assert_clean()


def test_store_that_is_not_there(ballast):
    for args in ([], ["--dry-run"], ["--grace", "0"]):
        ballast("gc", *args)
    assert not ballast.store.exists()


def test_nothing_to_remove(ballast, full):
    assert ballast.told("gc").splitlines()[-2] == "nothing to remove yet"
    ballast("gc", "--grace", "0")
    assert ballast.told("gc") == "nothing to remove\n"
