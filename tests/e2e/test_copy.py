"""Copy: a checkpoint from store to store."""
import json
import os
import shutil

import pytest

from support import models
from support.scenes import object_file
from support.walker import walk
from test_repair import WEIGHTS, chunk_of, flip, repair, rewrite


@pytest.fixture
def m(ballast, model):
    ballast.do_import(model, "m", "--model-id", "org/m")
    return model


@pytest.fixture
def second(ballast, tmp_path):
    return ballast.having(store=tmp_path / "second")


def copy(ballast, to, *args, **kwargs):
    return ballast("model", "copy", "m", "--to", to.store, *args, **kwargs)


def documents(ballast, id="m"):
    folder = ballast.store / "weight/models" / id
    return [json.loads((folder / name).read_text()) for name in ("manifest", "info", "digests")]


@pytest.mark.parametrize("args", [(), ("--file-chunk-size", "1000")])
def test_round_trip(ballast, second, m, tmp_path, args):
    result = copy(ballast, second, *args, json=True).json
    assert result["outcome"] == "copied" and result["n_files"] == len(models.contents(m))
    assert result["n_files_written"] + result["n_files_shared"] == result["n_files"]
    second.verify("m")
    second("model", "pull", "org/m", "--output", tmp_path / "out")
    assert models.contents(tmp_path / "out") == models.contents(m)
    walk(second.store).assert_clean()
    ours, theirs = documents(ballast), documents(second)
    assert theirs[1:] == ours[1:]
    for name in ("checkpoint_id", "model_id", "revision", "source_uri", "total_size", "status"):
        assert theirs[0][name] == ours[0][name]
    assert [f["sha256"] for f in theirs[0]["files"]] == [f["sha256"] for f in ours[0]["files"]]
    weights = next(f for f in theirs[0]["files"] if f["path"] == WEIGHTS)
    assert len(weights["chunks"]) == (1 if not args else -(-weights["size"] // 1000))


def test_chunked_to_whole(ballast, second, model):
    ballast.do_import(model, "m", "--file-chunk-size", "777")
    copy(ballast, second)
    second.verify("m")
    assert chunk_of(second, "m", WEIGHTS).read_bytes() == (model / WEIGHTS).read_bytes()


def test_again(ballast, second, m):
    copy(ballast, second)
    before = {p: (p.stat().st_ino, p.read_bytes()) for p in second.store.rglob("*,*")}
    result = copy(ballast, second, json=True).json
    assert result["outcome"] == "already-there" and result["n_files_written"] == 0 and result["mended"] == []
    assert {p: (p.stat().st_ino, p.read_bytes()) for p in second.store.rglob("*,*")} == before


def test_again_mends(ballast, second, m):
    """Bytes zeroed in place, with their length kept, are never taken for the file."""
    copy(ballast, second)
    bad = chunk_of(second, "m", WEIGHTS)
    rewrite(bad, bytes(bad.stat().st_size))
    chunk_of(second, "m", "config.json").unlink()
    rewrite(second.store / "weight/models/m/info", b"{")
    second.verify("m", rc=4)
    result = copy(ballast, second, json=True).json
    assert sorted(result["mended"]) == sorted(["the info object", WEIGHTS, "config.json"])
    second.verify("m")
    assert second.status("m") == "READY"
    assert documents(second)[1] == documents(ballast)[1]


def test_other_content_is_kept(ballast, second, m, make_model):
    second.do_import(make_model("other", seed=2), "m")
    before = models.contents(second.store / "weight")
    error = ballast.fails(5, "model", "copy", "m", "--to", second.store)
    assert "other content" in error and "--checkpoint-id" in error
    after = models.contents(second.store / "weight")
    assert {k: v for k, v in after.items() if "claim" not in k} == before
    copy(ballast, second, "--checkpoint-id", "m-2")
    second.verify("m-2")
    second.verify("m")


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
@pytest.mark.parametrize("args", [(), ("--file-chunk-size", "1000")])
def test_damage_does_not_spread(ballast, second, m, damage, args):
    bad = chunk_of(ballast, "m", WEIGHTS)
    if damage == "flip":
        flip(bad)
    elif damage == "cut":
        rewrite(bad, bad.read_bytes()[:50])
    else:
        bad.unlink()
    error = ballast.fails(4, "model", "copy", "m", "--to", second.store, *args)
    assert WEIGHTS in error and "repair" in error
    assert second.status("m") is None
    walk(second.store).assert_clean()
    # Known damage is refused before anything is made.
    ballast.verify("m", rc=4)
    assert "repair" in ballast.fails(4, "model", "copy", "m", "--to", second.store)
    repair(ballast)
    copy(ballast, second)
    second.verify("m")


def test_equal_files_of_the_target_are_shared(ballast, second, make_model, tmp_path):
    model = make_model("big", n_shards=1, tensor_bytes=700_000)
    other = shutil.copytree(model, tmp_path / "other")
    (other / "config.json").write_text("{}")
    ballast.do_import(model, "m")
    second.do_import(other, "other")
    path = "model.safetensors"
    result = copy(ballast, second, json=True).json
    assert chunk_of(second, "m", path).stat().st_ino == chunk_of(second, "other", path).stat().st_ino
    assert result["n_bytes_shared"] >= (model / path).stat().st_size
    second.verify("m")


def test_damage_of_the_target_does_not_spread(ballast, second, m, tmp_path):
    other = shutil.copytree(m, tmp_path / "other")
    second.do_import(other, "other")
    flip(chunk_of(second, "other", WEIGHTS))
    copy(ballast, second)
    second.verify("m")
    second.verify("other", rc=4)


def test_within_one_store(ballast, m, store_walk):
    result = ballast("model", "copy", "m", "--to", ballast.store, "--checkpoint-id", "m-2", json=True).json
    assert result["n_bytes_written"] == 0 and result["n_bytes_shared"] == result["n_bytes"]
    assert chunk_of(ballast, "m", WEIGHTS).stat().st_ino == chunk_of(ballast, "m-2", WEIGHTS).stat().st_ino
    ballast.verify("m-2")
    store_walk().assert_clean()
    ballast.delete("m")
    ballast.verify("m-2")


def test_onto_itself(ballast, m):
    assert ballast("model", "copy", "m", "--to", ballast.store, json=True).json["outcome"] == "already-there"
    ballast.verify("m")


def test_reflinks(ballast, loopfs, make_model):
    """Nothing is read: bytes that were damaged unseen come along as they are."""
    top = loopfs("xfs", 512)
    model = make_model("big", n_shards=1, tensor_bytes=1_000_000)
    first, second = ballast.having(store=top / "first"), ballast.having(store=top / "second")
    first.do_import(model, "m")
    result = copy(first, second, json=True).json
    size = (model / "model.safetensors").stat().st_size
    assert result["n_bytes_shared"] == size and result["n_bytes_written"] < 100_000
    second.verify("m")
    first.delete("m")
    second.verify("m")


def test_a_full_disk(ballast, m, loopfs, make_model):
    top = loopfs("tmpfs", 8)
    second = ballast.having(store=top / "second")
    copy(ballast, second)
    big = make_model("big", n_shards=1, tensor_bytes=7_000_000)
    ballast.do_import(big, "big")
    error = ballast.fails(1, "model", "copy", "big", "--to", second.store)
    assert "are free" in error
    assert second.status("big") is None
    walk(second.store).assert_clean()
    second.verify("m")


def test_a_limit(ballast, second, m):
    second("store", "set", "--max-bytes", "10000", rc=(0, 3))
    if not (second.store / "store.json").exists():
        copy(ballast, second, "--checkpoint-id", "first")
        second.delete("first")
        second("store", "set", "--max-bytes", "10000")
    error = ballast.fails(1, "model", "copy", "m", "--to", second.store)
    assert "limit" in error or "max" in error
    assert second.status("m") is None
    walk(second.store).assert_clean()


def test_wrong_use(ballast, second, m, tmp_path):
    assert "--to" in ballast.fails(2, "model", "copy", "m")
    assert "nope" in ballast.fails(3, "model", "copy", "nope", "--to", second.store)
    ballast.fails(2, "model", "copy", "m", "--to", second.store, "--checkpoint-id", "a/b")
    ballast.fails(2, "model", "copy", "m", "--to", second.store, "--file-chunk-size", "0")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    assert "folder" in ballast.fails(1, "model", "copy", "m", "--to", tmp_path / "folder")


def test_refs(ballast, second, m, make_model):
    second.do_import(make_model("other", seed=2), "older", "--model-id", "org/m")
    copy(ballast, second)
    refs = lambda id: second("model", "inspect", id, json=True).json["refs"]
    assert refs("m") == ["main"] and refs("older") == []
    second.do_import(make_model("third", seed=3), "newer", "--model-id", "org/m")
    copy(ballast, second)
    assert refs("newer") == ["main"] and refs("m") == []


def test_from_a_store_that_cannot_be_written(nobody, model, tmp_path):
    root = nobody.having(prefix=[])
    root.do_import(model, "m")
    to = nobody.home / "second"
    nobody("model", "copy", "m", "--to", to)
    nobody.having(store=to).verify("m")
    assert os.stat(to).st_uid == 65534


def test_again_into_a_store_that_cannot_be_written(nobody, model):
    """What is there is compared all the same."""
    root = nobody.having(prefix=[])
    root.do_import(model, "m")
    to = nobody.home.parent / "second"
    root("model", "copy", "m", "--to", to)
    assert nobody("model", "copy", "m", "--to", to, json=True).json["outcome"] == "already-there"
    object_file(to, "m", "config.json").unlink()
    assert 'model repair m' in nobody.fails(4, "model", "copy", "m", "--to", to)
