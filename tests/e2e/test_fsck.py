"""fsck: what is damaged, lost, or left over, and nothing else."""
import json
import os
import signal
import time

import pytest

from support.faults import start_stopped
from support.scenes import object_file


@pytest.fixture
def two(ballast, make_model):
    ballast.do_import(make_model("a"), "a", "--model-id", "org/a")
    ballast.do_import(make_model("b", seed=2), "b", "--model-id", "org/b")


def kinds(ballast, rc=0):
    """[(severity, kind, checkpoint)] of what fsck finds, sorted."""
    findings = ballast("fsck", rc=rc, json=True).json["findings"]
    return sorted((f["severity"], f["kind"], f["checkpoint_id"] or "") for f in findings)


def rewrite(file, change):
    document = json.loads(file.read_bytes())
    change(document)
    file.chmod(0o644)
    file.write_text(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


def make_failed(store, id):
    rewrite(store / "weight/models" / id / "manifest", lambda m: m.update(status="FAILED", error="import in progress"))


def test_clean(ballast, two):
    assert kinds(ballast) == []
    ballast("model", "cat", "a", "config.json")
    assert kinds(ballast) == []
    assert ballast("fsck", json=True).json["n_ready"] == 2


def test_degraded_is_not_counted_as_ready(ballast, two):
    object_file(ballast.store, "a").unlink()
    assert ballast.told("fsck", rc=4).endswith("2 checkpoints, 1 READY, 1 lost\n")
    ballast.verify("a", rc=4)
    assert ballast.told("fsck", rc=4).endswith("2 checkpoints, 1 READY, 1 lost\n")


def test_no_store(ballast):
    assert kinds(ballast) == []
    assert not ballast.store.exists()


def test_lost_and_damaged(ballast, two):
    object_file(ballast.store, "a", "config.json").unlink()
    shard = object_file(ballast.store, "b")
    shard.chmod(0o644)
    os.truncate(shard, shard.stat().st_size - 1)
    assert kinds(ballast, 4) == [("damaged", "size", "b"), ("lost", "missing", "a")]
    lines = ballast("fsck", rc=4).text.splitlines()
    assert lines[0].startswith("damaged: b: ") and "ballast model repair b" in lines[0]
    assert lines[1].startswith("lost: a: config.json") and "ballast model repair a" in lines[1]


def test_what_verify_found(ballast, two):
    """fsck reads no data, but repeats what was recorded."""
    shard = object_file(ballast.store, "a")
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)
    assert kinds(ballast) == []
    ballast.verify("a", rc=4)
    assert kinds(ballast, 4) == [("damaged", "recorded", "a")]


def test_damaged_manifest(ballast, two):
    file = ballast.store / "weight/models/a/manifest"
    file.chmod(0o644)
    file.write_text("{")
    assert kinds(ballast, 4) == [("damaged", "manifest", "a")]


def test_dangling_ref(ballast, two):
    ref = next((ballast.store / "weight/refs").glob("*/*"))
    rewrite(ref, lambda r: r.update(checkpoint_id="gone"))
    assert kinds(ballast, 3) == [("dangling", "ref", "gone")]
    assert "ballast model tag" in ballast("fsck", rc=3).text


def leave_behind(store, failed):
    """A FAILED checkpoint, and what killed commands left beside "a"."""
    models = store / "weight/models"
    make_failed(store, failed)
    (models / "a/.tmp-00112233445566778899aabbccddeeff-0").write_text("half")
    os.utime(models / "a/.tmp-00112233445566778899aabbccddeeff-0", (1, 1))
    (models / "empty").mkdir()
    os.utime(models / "empty", (1, 1))
    object_file(store, "a", "config.json").with_name("files," + "0" * 64 + ",chunks,00000000").write_text("x")
    (store / "weight/used").mkdir(exist_ok=True)
    (store / "weight/used/gone").write_text("{}")


def test_leftovers(ballast, two):
    leave_behind(ballast.store, "b")
    assert kinds(ballast) == [("leftover", "failed", "b"), ("leftover", "folder", "empty"), ("leftover", "orphan", "a"),
                              ("leftover", "temporary", "a"), ("leftover", "used", "gone")]


def test_foreign(ballast, two):
    (ballast.store / "weight/models/a/notes.txt").write_text("mine")
    (ballast.store / "weight/models/.hidden").write_text("mine")
    (ballast.store / "mine").mkdir()
    (ballast.store / "mine/notes.txt").write_text("mine")
    (ballast.store / "weight/models/_no-id").mkdir()
    (ballast.store / "weight/models/_no-id/x").write_text("mine")
    for folder in ("", "weight", "weight/models"):
        (ballast.store / folder / "readme.txt").write_text("mine")
    (ballast.store / "weight/models/link").symlink_to("a")
    findings = ballast("fsck", json=True).json["findings"]
    assert {f["severity"] for f in findings} == {"foreign"}
    assert sorted(f["name"] for f in findings) == [
        "mine/", "readme.txt", "weight/models/.hidden", "weight/models/_no-id/", "weight/models/a/notes.txt",
        "weight/models/link", "weight/models/readme.txt", "weight/readme.txt"]


@pytest.mark.parametrize("at", [20, 40, 60, 80])
def test_beside_an_import(ballast, two, make_model, shim, at):
    process = start_stopped(ballast, shim, at, "model", "import", make_model("c", seed=3), "--checkpoint-id", "c")
    try:
        assert kinds(ballast) == []
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()
    assert kinds(ballast) == []


def test_beside_a_delete(ballast, two, shim):
    process = start_stopped(ballast, shim, 12, "model", "delete", "a")
    try:
        assert kinds(ballast) == []
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()


def test_many_times_beside_changes(ballast, two, make_model):
    """Checkpoints come and go: what is looked at while it changes is no fault."""
    source, until = make_model("c", seed=3, n_shards=1), time.monotonic() + 4
    while time.monotonic() < until:
        process = ballast.start("model", "import", source, "--checkpoint-id", "c")
        while process.poll() is None:
            assert kinds(ballast) == []
        process = ballast.start("model", "delete", "c")
        while process.poll() is None:
            assert kinds(ballast) == []


def test_reader_without_rights(nobody, make_model, tmp_path, ballast):
    """Another user's store, read-only: nothing is written, and what is not readable is told."""
    store = nobody.store
    ballast.having(store=store).do_import(make_model("a"), "a")
    before = sorted(store.rglob("*"))
    assert kinds(nobody) == []
    assert sorted(store.rglob("*")) == before
    (store / "weight/models/a/manifest").chmod(0o000)
    assert kinds(nobody, 4) == [("damaged", "unreadable", "a")]
