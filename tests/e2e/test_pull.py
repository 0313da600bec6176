"""Pull, materialize-file and cat: right bytes under final names, or nothing."""
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest

from support import models
from support.walker import walk
from test_import import chunk_of, overwrite


@pytest.fixture
def m(ballast, model):
    """The model's folder, imported as "m"."""
    ballast.do_import(model, "m", "--model-id", "org/Some-Model")
    return model


def pull(ballast, out, *args, **kwargs):
    return ballast("model", "pull", "m", "--output", out, *args, **kwargs)


def test_default_output(ballast, m, tmp_path):
    ballast("model", "pull", "m")
    assert models.contents(tmp_path / "Some-Model") == models.contents(m)


def test_complete_mark(ballast, m, tmp_path):
    pull(ballast, tmp_path / "out")
    mark = json.loads((tmp_path / "out/.ballast/pull.json").read_text())
    manifest = (ballast.store / "weight/models/m/manifest").read_bytes()
    assert mark["checkpoint_id"] == "m"
    assert hashlib.sha256(manifest).hexdigest() in json.dumps(mark)


def test_globs(ballast, m, tmp_path):
    pull(ballast, tmp_path / "out", "--include", "*.json", "--exclude", "model*")
    want = {p: d for p, d in models.contents(m).items() if p.endswith(".json") and not p.startswith("model")}
    assert models.contents(tmp_path / "out") == want and "1_Pooling/config.json" in want


def test_glob_that_matches_nothing(ballast, m, tmp_path):
    pull(ballast, tmp_path / "out", "--include", "*.gguf", rc=3)


def test_right_files_stay_extra_files_too(ballast, m, tmp_path):
    out = tmp_path / "out"
    pull(ballast, out)
    (out / "extra.txt").write_text("mine")
    (out / "tokenizer.json").unlink()
    before = {p: p.stat().st_ino for p in out.rglob("*.safetensors")}
    result = pull(ballast, out, json=True).json
    assert result["n_files_written"] == 1 and result["n_files_kept"] == result["n_files"] - 1
    assert {p: p.stat().st_ino for p in out.rglob("*.safetensors")} == before
    assert models.contents(out) == {**models.contents(m), "extra.txt": hashlib.sha256(b"mine").hexdigest()}


def test_different_files_are_refused_before_the_first_write(ballast, m, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "tokenizer.json").write_text("mine")
    error = pull(ballast, out, rc=5).error
    assert "tokenizer.json" in error and "--force" in error
    assert [p.name for p in out.iterdir()] == ["tokenizer.json"]
    # The same size, another byte.
    (out / "tokenizer.json").write_bytes(bytes(3000))
    pull(ballast, out, rc=5)
    pull(ballast, out, "--force")
    assert models.contents(out) == models.contents(m)


@pytest.mark.parametrize("obstacle", ["a folder where a file goes", "a file where a folder goes", "output is a file"])
def test_obstacles(ballast, m, tmp_path, obstacle):
    out = tmp_path / "out"
    if obstacle == "output is a file":
        out.write_text("x")
    else:
        out.mkdir()
        (out / "config.json").mkdir() if obstacle.startswith("a folder") else (out / "1_Pooling").write_text("x")
    pull(ballast, out, rc=(1, 2, 5)).error


def test_links_in_the_target_lead_nowhere(ballast, m, tmp_path):
    """Nothing is written outside the folder, whatever lies in it."""
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    (outside / "file").write_text("untouched")
    (out / "1_Pooling").symlink_to(outside)
    (out / "config.json").symlink_to(outside / "file")
    for force in ([], ["--force"]):
        pull(ballast, out, *force, rc=None)
        assert models.contents(outside) == {"file": hashlib.sha256(b"untouched").hexdigest()}


@pytest.mark.parametrize("umask, file, program, folder", [
    (0o002, 0o664, 0o775, 0o775), (0o027, 0o640, 0o750, 0o750), (0o077, 0o600, 0o700, 0o700)])
def test_modes(ballast, m, tmp_path, umask, file, program, folder):
    out = tmp_path / f"out-{umask}"
    old = os.umask(umask)
    try:
        pull(ballast, out)
    finally:
        os.umask(old)
    assert (out / "config.json").stat().st_mode & 0o777 == file
    assert (out / "run.sh").stat().st_mode & 0o777 == program
    assert (out / "1_Pooling").stat().st_mode & 0o777 == folder


# --- links


def test_hardlinks(ballast, m, tmp_path):
    result = pull(ballast, tmp_path / "out", "--link=hardlink", json=True).json
    assert result["link"] == "hardlink"
    assert (tmp_path / "out/tokenizer.json").stat().st_ino == chunk_of(ballast, "m", "tokenizer.json").stat().st_ino
    # A link would not be executable, as the object is not.
    assert os.access(tmp_path / "out/run.sh", os.X_OK)
    assert (tmp_path / "out/run.sh").stat().st_nlink == 1
    assert models.contents(tmp_path / "out") == models.contents(m)
    # The links change the objects' times, which must not look like damage.
    ballast.verify("m")


def test_symlinks(ballast, m, tmp_path):
    pull(ballast, tmp_path / "out", "--link=symlink")
    assert (tmp_path / "out/tokenizer.json").is_symlink()
    assert models.contents(tmp_path / "out") == models.contents(m)


def test_hardlink_across_file_systems(ballast, m, loopfs):
    error = pull(ballast, loopfs("ext4", 64) / "out", "--link=hardlink", rc=1).error
    assert "--link=copy" in error


def test_reflinks_on_xfs(ballast, model, loopfs):
    folder = loopfs("xfs", 400)
    ballast = ballast.having(store=folder / "store")
    source = models.make_model(folder / "model", tensor_bytes=8 << 20)
    ballast.do_import(source, "m")
    for option in ("--link=reflink", "--link=auto"):
        out = folder / option
        result = ballast("model", "pull", "m", f"--output={out}", option, "--verify", json=True).json
        assert result["link"] == "reflink"
        assert models.contents(out) == models.contents(source)
        extents = subprocess.run(["filefrag", "-v", out / "model-00001-of-00002.safetensors"], capture_output=True,
                                 text=True, check=True).stdout
        assert "shared" in extents
        (out / "model-00001-of-00002.safetensors").write_bytes(b"changed")
        ballast.verify("m")


def test_reflink_where_there_is_none(ballast, m, tmp_path, loopfs):
    folder = loopfs("ext4", 64)
    pull(ballast, folder / "out", "--link=reflink", rc=1).error
    assert pull(ballast, folder / "out", "--link=auto", json=True).json["link"] == "copy"


def test_linked_files_are_hashed_on_demand(ballast, m, tmp_path):
    chunk = chunk_of(ballast, "m", "tokenizer.json")
    overwrite(chunk, b"damaged", at=10)
    error = pull(ballast, tmp_path / "out", "--link=hardlink", "--verify", rc=4).error
    assert "tokenizer.json" in error
    assert not (tmp_path / "out/tokenizer.json").exists()


# --- damage and trouble


def test_damage_names_file_and_block(ballast, make_model, tmp_path):
    ballast.do_import(make_model("large", n_shards=1, n_tensors=1, tensor_bytes=10 << 20), "m")
    overwrite(chunk_of(ballast, "m", "model.safetensors"), b"damaged", at=9 << 20)
    error = pull(ballast, tmp_path / "out", rc=4).error
    assert "model.safetensors" in error and "block 2" in error
    assert not (tmp_path / "out/model.safetensors").exists()
    assert not (tmp_path / "out/.ballast/pull.json").exists()
    found = ballast.verify("m", rc=4, json=True).json["findings"]
    assert [(f["path"], f["kind"], f["block"]) for f in found] == [("model.safetensors", "block", 2)]


def test_full_target(ballast, make_model, loopfs):
    ballast.do_import(make_model("large", tensor_bytes=4 << 20), "m")
    out = loopfs("tmpfs", 8) / "out"
    error = pull(ballast, out, rc=1).error
    assert "space" in error or "free" in error
    found = models.contents(out) if out.exists() else {}
    assert not any(path.endswith(".safetensors") for path in found) or set(found) <= set(models.contents(out))
    assert not (out / ".ballast/pull.json").exists()


def test_unwritable_target(ballast, m, nobody, tmp_path):
    reader = nobody.having(store=ballast.store)
    os.chmod(tmp_path, 0o755)
    parent = tmp_path
    while parent != parent.parent:
        os.chmod(parent, parent.stat().st_mode | 0o055) if parent.stat().st_uid == 0 and str(parent) != "/" else None
        parent = parent.parent
    locked = nobody.home / "locked"
    locked.mkdir()
    error = reader.fails(1, "model", "pull", "m", "--output", locked / "out")
    assert "locked" in error


def test_killed_pull_leaves_no_half_file(ballast, make_model, tmp_path):
    model = make_model("large", n_shards=8, tensor_bytes=8 << 20)
    ballast.do_import(model, "m")
    right, out = models.contents(model), tmp_path / "out"
    process = ballast.start("model", "pull", "m", "--output", out)
    while process.poll() is None and len(list(out.glob("*"))) < 5:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = {p: d for p, d in models.contents(out).items() if not os.path.basename(p).startswith(".")}
    assert found.items() <= right.items()
    assert not (out / ".ballast/pull.json").exists()
    pull(ballast, out)
    assert models.contents(out) == right


def test_eight_at_once_into_one_folder(ballast, m, tmp_path):
    processes = [ballast.start("model", "pull", "m", "--output", tmp_path / "out") for _ in range(8)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert models.contents(tmp_path / "out") == models.contents(m)


def test_a_reader_keeps_its_bytes_through_delete(ballast, m, tmp_path):
    pull(ballast, tmp_path / "out", "--link=hardlink")
    ballast.delete("m")
    assert models.contents(tmp_path / "out") == models.contents(m)


# --- one file


def test_materialize_file(ballast, m, tmp_path):
    args = ["model", "materialize-file", "m", "1_Pooling/config.json", tmp_path / "deep/er/one.json"]
    ballast(*args)
    assert (tmp_path / "deep/er/one.json").read_bytes() == (m / "1_Pooling/config.json").read_bytes()
    ballast(*args)
    (tmp_path / "deep/er/one.json").write_text("mine")
    ballast.fails(5, *args)
    ballast(*args, "--force")
    assert (tmp_path / "deep/er/one.json").read_bytes() == (m / "1_Pooling/config.json").read_bytes()
    assert "nope" in ballast.fails(3, "model", "materialize-file", "m", "nope", tmp_path / "x")


def test_cat(ballast, m):
    data = (m / "tokenizer.json").read_bytes()
    cat = lambda *args, **kwargs: ballast("model", "cat", "m", "tokenizer.json", *args, **kwargs).out
    assert cat() == data
    assert cat("--range", "0-0") == data[:1]
    assert cat("--range", "10-19") == data[10:20]
    assert cat("--range", "2990-") == data[2990:]
    assert cat("--range=-7") == data[-7:]
    assert cat("--range", "2990-99999") == data[2990:]
    assert ballast("model", "cat", "m", "__init__.py").out == b""
    ballast.fails(2, "model", "cat", "m", "tokenizer.json", "--range", "3000-")
    ballast.fails(2, "model", "cat", "m", "tokenizer.json", "--range", "5-4")
    ballast.fails(3, "model", "cat", "m", "nope")


def test_cat_gives_no_wrong_byte(ballast, m):
    data = (m / "tokenizer.json").read_bytes()
    overwrite(chunk_of(ballast, "m", "tokenizer.json"), b"damaged", at=2000)
    for args in ([], ["--range", "1990-2010"], ["--range", "0-9"]):
        result = ballast("model", "cat", "m", "tokenizer.json", *args, rc=(0, 4))
        assert data.startswith(result.out) if not args else result.out in (b"", data[0:10])


def test_cat_into_a_closed_pipe(ballast, m):
    process = ballast.start("model", "cat", "m", "model-00001-of-00002.safetensors")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait() in (0, 1) and err.count(b"\n") <= 1


def test_what_was_pulled_is_read_by_others(ballast, make_model, tmp_path):
    import safetensors

    model = make_model("one", n_shards=1, n_tensors=5)
    ballast.do_import(model, "m")
    pull(ballast, tmp_path / "out")
    data = (tmp_path / "out/model.safetensors").read_bytes()
    names = [name for name, _ in safetensors.deserialize(data)]
    assert len(names) == 5


@pytest.mark.parametrize("name, bad, damage", [
    ("info", 0, (b'"schema_version":1', b'"schema_version":3')),
    ("digests", 0, (b'"schema_version":1', b'"schema_version":3')),
    ("info", 4, (b'"commit_from"', b'"commit_fron"')),
    ("digests", 4, (b'"crc32c"', b'"crc32d"')),
])
def test_our_own_objects_only_help(ballast, model, tmp_path, name, bad, damage):
    """A later version's info or digests, or damaged ones, are told, and the files come out right all the same."""
    ballast.do_import(model, "m")
    file = ballast.store / "weight/models/m" / name
    data = file.read_bytes()
    assert damage[0] in data
    file.chmod(0o644)
    file.write_bytes(data.replace(*damage))
    verify = ballast.verify("m", json=True, rc=bad)
    assert [f["kind"] for f in verify.json["findings"]] == ["warning" if bad == 0 else name]
    pull = ballast("model", "pull", "m", "--output", tmp_path / "out")
    assert f"{name} of checkpoint" in pull.err
    assert models.contents(tmp_path / "out") == models.contents(model)
    assert ballast("model", "cat", "m", "config.json").out == (model / "config.json").read_bytes()
