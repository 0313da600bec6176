"""Power cuts in scenes where what an import relies on was not written by itself, or not where it seems to be."""
import shutil
from pathlib import Path

from support import models

from test_power import cut_power

GOLDEN = Path(__file__).parents[2] / "docs/formats/golden"


def kill_before_sync(ballast, env, counter, model):
    """Imports m, killed when all its chunks are in place and none is flushed."""
    n_chunks = sum(1 for path in model.rglob("*") if path.is_file() and path.stat().st_size > 0)
    for at in range(1, 1000):
        counter.unlink(missing_ok=True)
        result = ballast.having(env={**env, "BALLAST_SHIM_AT": str(at)}).do_import(model, "m", rc=(-9, 0))
        assert result.rc == -9, "no kill fell behind the last chunk"
        if len(list((ballast.store / "weight/models/m").glob("files*"))) == n_chunks:
            return
        ballast.delete("m", rc=(0, 3))


def test_what_a_killed_import_left_becomes_durable(ballast, private_mount, preload, tmp_path):
    model = models.make_model(tmp_path / "m", n_shards=4, tensor_bytes=60000)
    mount = private_mount("ext4", 128)
    ballast = ballast.having(store=mount.path / "store")
    ballast.do_import(models.make_model(tmp_path / "other"), "other")
    counter = tmp_path / "counter"
    env = preload("faultshim", BALLAST_SHIM_ROOT=str(mount.path), BALLAST_SHIM_COUNTER=str(counter), BALLAST_SHIM_DO="kill")
    kill_before_sync(ballast, env, counter, model)
    assert ballast.status("m") == "FAILED"
    ballast.do_import(model, "m")
    cut_power(mount.path)
    mount.unmount()
    mount.mount()
    assert ballast.status("m") == "READY"
    ballast.verify("m")


def test_store_whose_folders_are_on_another_disk(ballast, private_mount, tmp_path):
    """So many objects are made durable by one syncfs, which must reach the disk that they are on."""
    model = models.make_model(tmp_path / "m")
    for i in range(200):
        (model / f"{i}.txt").write_text(f"{i}\n" * 100)
    mount = private_mount("ext4", 128)
    (mount.path / "weight").mkdir()
    ballast.store.mkdir()
    (ballast.store / "store.json").write_bytes((GOLDEN / "store.json").read_bytes())
    (ballast.store / "weight").symlink_to(mount.path / "weight")
    ballast.do_import(model, "m")
    cut_power(mount.path)
    mount.unmount()
    mount.mount()
    ballast.verify("m")


def test_files_that_a_pull_found_right_become_durable(ballast, private_mount, tmp_path):
    """The record says "complete" of them, too, whoever wrote them."""
    model = models.make_model(tmp_path / "m", tensor_bytes=60000)
    ballast.do_import(model, "m")
    mount = private_mount("ext4", 128)
    out = mount.path / "out"
    shutil.copytree(model, out)
    ballast("model", "pull", "m", "--output", out)
    cut_power(mount.path)
    mount.unmount()
    mount.mount()
    assert (out / ".ballast/pull.json").exists()
    assert models.contents(out) == models.contents(model)
