"""The local store: who may use it, on which file systems, in which format."""
import json
import mmap
import os
import shutil
import signal
import subprocess

import pytest

from support import models
from support.walker import walk
from test_import import chunk_of, interrupt, overwrite


def cycle(ballast, model, out):
    """Everything that one does with a checkpoint."""
    ballast.do_import(model, "m")
    ballast.verify("m")
    ballast("model", "pull", "m", "--output", out)
    assert models.contents(out) == models.contents(model)
    ballast.do_import(model, "m")
    walk(ballast.store).assert_clean()
    ballast.delete("m")
    walk(ballast.store).assert_clean()


@pytest.mark.parametrize("kind, size_mb", [("ext4", 64), ("xfs", 400), ("exfat", 64), ("tmpfs", 64)])
def test_file_systems(ballast, model, loopfs, kind, size_mb):
    """exFAT has no hard links, no renames that refuse to replace, no modes."""
    folder = loopfs(kind, size_mb)
    cycle(ballast.having(store=folder / "store"), model, folder / "out")


def test_killed_import_on_exfat(ballast, shim, make_model, loopfs):
    ballast = ballast.having(store=loopfs("exfat", 64) / "store")
    model = make_model(n_shards=8, n_tensors=1, tensor_bytes=2 << 20)
    interrupt(ballast, shim, model, signal.SIGKILL)
    walk(ballast.store).assert_no_orphans()
    ballast.do_import(model, "m")
    ballast.verify("m")
    walk(ballast.store).assert_clean()


def reads(reader, id, model, out):
    """Everything that does not write to the store."""
    assert reader.status(id) == "READY"
    reader("model", "inspect", id, "--files")
    reader("model", "inspect", id, "--tensors")
    reader.verify(id, "--deep")
    assert reader("model", "cat", id, "config.json").out == (model / "config.json").read_bytes()
    reader("model", "pull", id, "--output", out)
    assert models.contents(out) == models.contents(model)


def test_read_only_for_another_user(ballast, nobody, model, tmp_path):
    shared = nobody.home.parent / "store"
    ballast.having(store=shared).do_import(model, "m")
    before = sorted(map(str, shared.rglob("*")))
    reads(nobody, "m", model, nobody.home / "out")
    for args in (["import", nobody.home / "out", "--checkpoint-id", "n"], ["delete", "m"]):
        error = nobody.fails(1, "model", *args)
        assert "read-only" in error or "ermission" in error
    assert sorted(map(str, shared.rglob("*"))) == before


def test_read_only_mount(ballast, model, tmp_path, loopfs):
    ballast.do_import(model, "m")
    mount = tmp_path / "ro"
    mount.mkdir()
    subprocess.run(["mount", "--bind", ballast.store, mount], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", mount], check=True)
        reader = ballast.having(store=mount)
        reads(reader, "m", model, tmp_path / "out")
        for args in (["import", model, "--checkpoint-id", "n"], ["delete", "m"]):
            error = reader.fails(1, "model", *args)
            assert "ead-only" in error
    finally:
        subprocess.run(["umount", mount], check=True)


def test_store_that_moved(ballast, model, tmp_path):
    """Nothing in a store is an absolute path that must be there."""
    ballast.do_import(model, "m")
    right = models.contents(model)
    moved = tmp_path / "elsewhere/moved"
    moved.parent.mkdir()
    shutil.move(ballast.store, moved)
    shutil.rmtree(model)
    reader = ballast.having(store=moved)
    reader("model", "pull", "m", "--output", tmp_path / "out")
    assert models.contents(tmp_path / "out") == right


@pytest.mark.parametrize("umask, file, folder", [(0o022, 0o444, 0o755), (0o077, 0o400, 0o700), (0o002, 0o444, 0o775)])
def test_modes(ballast, model, umask, file, folder):
    old = os.umask(umask)
    try:
        ballast.do_import(model, "m")
    finally:
        os.umask(old)
    for path in (ballast.store / "weight").rglob("*"):
        assert path.stat().st_mode & 0o777 == (folder if path.is_dir() else file), path


def test_reader_that_maps_an_object_is_left_alone(ballast, model, tmp_path):
    """Objects are replaced by new files, never shortened or written in place."""
    ballast.do_import(model, "m")
    chunk = chunk_of(ballast, "m", "tokenizer.json")
    with open(chunk, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as view:
        overwrite(chunk, b"damaged")
        ballast.do_import(model, "m")
        assert view[:7] == b"damaged" and len(view) == 3000
        ballast.delete("m")
        assert view[:7] == b"damaged"


# --- the format


def edit_format(ballast, **members):
    file = ballast.store / "store.json"
    format = json.loads(file.read_text())
    file.chmod(0o644)
    file.write_text(json.dumps({**format, **members}))


def test_unknown_version_is_refused(ballast, model):
    ballast.do_import(model, "m")
    edit_format(ballast, version=999)
    for args in (["list"], ["verify", "m"], ["delete", "m"], ["import", model]):
        error = ballast.fails(1, "model", *args)
        assert "999" in error and str(ballast.store) in error


@pytest.mark.parametrize("kind, reads_work, writes_work", [
    ("compatible", True, True), ("read_only_compatible", True, False), ("incompatible", False, False)])
def test_unknown_features(ballast, model, kind, reads_work, writes_work):
    ballast.do_import(model, "m")
    file = json.loads((ballast.store / "store.json").read_text())
    assert kind in file["features"]
    edit_format(ballast, features={**file["features"], kind: ["from-the-future"]})
    verify = ballast.verify("m", rc=0 if reads_work else 1)
    delete = ballast.delete("m", rc=0 if writes_work else 1)
    for result, works in ((verify, reads_work), (delete, writes_work)):
        assert works or "from-the-future" in result.error or "read-only" in result.error


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"format":"other","version":1}', "\0" * 100, "[" * 100000])
def test_damaged_format_file(ballast, model, text):
    ballast.do_import(model, "m")
    (ballast.store / "store.json").chmod(0o644)
    (ballast.store / "store.json").write_text(text)
    assert "store.json" in ballast.fails((1, 4), "model", "list")


def test_folder_that_is_no_store(ballast, model, tmp_path):
    tmp = tmp_path / "documents"
    tmp.mkdir()
    (tmp / "letter.txt").write_text("dear")
    other = ballast.having(store=tmp)
    error = other.fails((1, 2), "model", "import", model, "--checkpoint-id", "m")
    assert str(tmp) in error
    assert [p.name for p in tmp.iterdir()] == ["letter.txt"]


def test_store_is_a_file(ballast, model, tmp_path):
    (tmp_path / "file").write_text("x")
    store = ballast.having(store=tmp_path / "file")
    for args in (["import", model, "--checkpoint-id", "m"], ["list"]):
        assert str(tmp_path / "file") in store.fails((1, 2, 5), "model", *args)


def test_many_checkpoints(ballast, make_model):
    model = make_model(n_shards=1, n_tensors=1, tensor_bytes=64)
    for i in range(30):
        ballast.do_import(model, f"m{i:02}", "--model-id", f"org/m{i % 3}")
    listed = [c["checkpoint_id"] for c in ballast("model", "list", json=True).json["checkpoints"]]
    assert listed == [f"m{i:02}" for i in range(30)]
    one = [c["checkpoint_id"] for c in ballast("model", "list", "org/m1", json=True).json["checkpoints"]]
    assert one == [f"m{i:02}" for i in range(1, 30, 3)]
