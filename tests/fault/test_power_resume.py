"""A power cut after an import that went on from what a killed one had left, not yet flushed, in the page cache."""
from support import models

from test_power import cut_power


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
