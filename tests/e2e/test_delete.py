"""Delete: all of one checkpoint, nothing of another."""
import json
import signal

import pytest

from support.walker import walk
from test_import import interrupt


@pytest.fixture
def two(ballast, make_model):
    ballast.do_import(make_model("a"), "a", "--model-id", "org/a")
    ballast.do_import(make_model("b", seed=2), "b", "--model-id", "org/b")


def gone(ballast, id):
    found = walk(ballast.store)
    found.assert_clean()
    assert id not in found.statuses
    assert not (ballast.store / "weight/models" / id).exists()


def test_delete(ballast, two):
    result = ballast.delete("a", json=True).json
    assert result["n_objects"] > 0 and result["n_bytes"] > 0
    gone(ballast, "a")
    ballast.verify("b")
    assert "a" in ballast.fails(3, "model", "delete", "a")


def test_by_model_id(ballast, two):
    ballast.delete("org/a")
    gone(ballast, "a")
    ballast.verify("org/b")


def test_exact_case_only(ballast, make_model):
    ballast.do_import(make_model("a"), "Name", "--model-id", "Org/Name")
    ballast.do_import(make_model("b", seed=2), "name", "--model-id", "org/name")
    ballast.delete("name")
    gone(ballast, "name")
    ballast.verify("Name")
    ballast.fails(3, "model", "delete", "NAME")
    ballast.verify("Org/Name")
    ballast.fails(3, "model", "verify", "org/name")


def test_what_several_names_mean(ballast, make_model):
    ballast.do_import(make_model("a"), "a", "--model-id", "org/m", "--revision", "v1")
    ballast.do_import(make_model("b", seed=2), "b", "--model-id", "org/m", "--revision", "v2")
    error = ballast.fails(2, "model", "delete", "org/m")
    assert "a" in error and "b" in error
    ballast.delete("org/m@v1")
    gone(ballast, "a")
    ballast.verify("b")


@pytest.mark.parametrize("fault", ["no JSON", "empty", "another's id", "wrong type", "zeros"])
def test_unreadable_manifest(ballast, two, fault):
    file = ballast.store / "weight/models/a/manifest"
    manifest = json.loads(file.read_bytes())
    file.chmod(0o644)
    if fault == "another's id":
        manifest["checkpoint_id"] = "b"
    elif fault == "wrong type":
        manifest["files"] = 7
    text = {"no JSON": "{", "empty": "", "zeros": "\0" * 5000}.get(fault, json.dumps(manifest))
    file.write_text(text)
    assert ballast.status("a") == "CORRUPT"
    for args in (["verify", "a"], ["pull", "a"], ["inspect", "a"]):
        assert '"a"' in ballast.fails((1, 4), "model", *args)
    ballast.delete("a")
    gone(ballast, "a")
    ballast.verify("b")


def test_manifest_of_a_newer_version(ballast, two):
    """What it means is not known, so nothing of it is touched."""
    file = ballast.store / "weight/models/a/manifest"
    manifest = json.loads(file.read_bytes())
    file.chmod(0o644)
    file.write_text(json.dumps({**manifest, "schema_version": 99}))
    before = sorted(p.name for p in file.parent.iterdir())
    for args in (["verify", "a"], ["pull", "a"], ["delete", "a"]):
        error = ballast.fails(1, "model", *args)
        assert '"a"' in error and "99" in error
    assert "nothing of it was touched" in error and "delete it again" not in error
    assert sorted(p.name for p in file.parent.iterdir()) == before
    ballast.verify("b")


def test_failed_import_is_deleted(ballast, shim, make_model):
    model = make_model("big", n_shards=8, n_tensors=2, tensor_bytes=4 << 20)
    interrupt(ballast, shim, model, signal.SIGINT)
    assert ballast.status("m") == "FAILED"
    ballast.delete("m")
    gone(ballast, "m")


def test_killed_delete_is_finished(ballast, make_model, shim):
    ballast.do_import(make_model("a"), "a")
    ballast.having(env=shim.env(ballast.store, "kill", 30))("model", "delete", "a", rc=-9)
    walk(ballast.store).assert_no_orphans()
    assert ballast.status("a") in ("FAILED", "DELETING")
    ballast.fails((3, 4, 5), "model", "pull", "a")
    ballast.delete("a")
    gone(ballast, "a")


def test_removal_that_fails_once_loses_nothing(ballast, make_model, tmp_path, shim):
    """An unlink that failed leaves its key in the manifest, so that the next delete finds it."""
    hit = 0
    for at in range(1, 200, 3):
        if ballast.status("a") is None:
            ballast.do_import(tmp_path / "a" if (tmp_path / "a").exists() else make_model("a"), "a")
        result = ballast.having(env=shim.env(ballast.store, "EIO", at))("model", "delete", "a", rc=None)
        if shim.name is None:
            break
        if shim.name.startswith("unlink"):
            hit += 1
            walk(ballast.store).assert_no_orphans()
            if result.rc != 0:
                ballast.delete("a", rc=(0, 3))
            gone(ballast, "a")
    assert hit > 0


def test_no_store_is_made_by_asking(ballast):
    ballast.fails(3, "model", "delete", "a")
    ballast.fails(3, "model", "verify", "a")
    assert ballast("model", "list", json=True).json["checkpoints"] == []
    assert not ballast.store.exists()


@pytest.mark.parametrize("args", [["model", "delete", "a"], ["prune", "--older-than", "0", "--yes"]])
def test_full_disk(ballast, make_model, private_mount, args):
    """Nothing can be removed without a claim, so it is said what helps; and then it helps."""
    mount = private_mount("tmpfs", 16)
    full = ballast.having(store=mount.path / "store")
    full.do_import(make_model("a"), "a")
    filler = mount.path / "filler"
    with pytest.raises(OSError):
        filler.write_bytes(bytes(16 << 20))
    assert "some KiB: free them" in full.fails(1, *args)
    full.verify("a", rc=(0, 1))
    filler.unlink()
    full(*args)
    gone(full, "a")
