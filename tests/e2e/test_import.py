"""Import: what goes in comes out, and what is unfit stays out, whole."""
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from support import models
from support.faults import start_stopped
from support.walker import walk


# Of the changes that an import of the "big" model makes: after some of its chunks, before the last.
SOME_DATA = 100


def pulled(ballast, id, tmp_path):
    out = tmp_path / f"pulled-{id}"
    ballast("model", "pull", id, "--output", out)
    return models.contents(out)


def snapshot(folder):
    """Every file with its inode and times: two equal ones mean that nothing was written."""
    return {str(p): (p.stat().st_ino, p.stat().st_mtime_ns, p.stat().st_size) for p in Path(folder).rglob("*")}


def chunk_of(ballast, id, path):
    """The one object of a file of the checkpoint."""
    manifest = json.loads((ballast.store / "weight/models" / id / "manifest").read_bytes())
    key = next(f for f in manifest["files"] if f["path"] == path)["chunks"][0]
    return ballast.store / "weight/models" / id / key.removeprefix(f"weight/models/{id}/").replace("/", ",")


def overwrite(file, data, at=0):
    file.chmod(0o644)
    with open(file, "r+b") as f:
        f.seek(at)
        f.write(data)
    file.chmod(0o444)


# --- what goes in comes out


def test_round_trip(ballast, model, tmp_path, store_walk):
    result = ballast.do_import(model, "m", json=True).json
    assert result["outcome"] == "imported"
    assert result["n_files"] == result["n_files_written"] == len(models.contents(model))
    assert ballast.status("m") == "READY"
    ballast.verify("m", "--deep")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)
    assert os.access(tmp_path / "pulled-m/run.sh", os.X_OK)
    assert not os.access(tmp_path / "pulled-m/config.json", os.X_OK)
    store_walk().assert_clean()


def test_all_minilm(ballast, minilm, tmp_path, store_walk):
    ballast.do_import(minilm, "minilm")
    ballast.verify("minilm", "--deep")
    got = pulled(ballast, "minilm", tmp_path)
    assert got == models.contents(minilm)
    # Two files of one name in different folders.
    assert got["config.json"] != got["1_Pooling/config.json"]
    store_walk().assert_clean()


def test_silero(ballast, silero, tmp_path):
    source = tmp_path / "silero"
    source.mkdir()
    shutil.copy(silero, source / "model.safetensors")
    ballast.do_import(source, "s")
    ballast.verify("s", "--deep")
    tensors = ballast("model", "inspect", "s", "--tensors", json=True).json
    assert len(tensors["tensors"]) == 15


def test_bytes_that_are_no_text(ballast, model, tmp_path):
    (model / "modeling.py").write_bytes("# Größe\n".encode("latin-1"))
    (model / "blob.json").write_bytes(bytes(range(256)))
    ballast.do_import(model, "m")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)


def test_deep_tree(ballast, model, tmp_path):
    (model / "a/b/c").mkdir(parents=True)
    for folder in ("a", "a/b", "a/b/c"):
        (model / folder / "config.json").write_text(folder)
    ballast.do_import(model, "m")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)


@pytest.mark.parametrize("size", ["1000", "4KiB", "1MB"])
def test_chunk_sizes(ballast, model, tmp_path, size, store_walk):
    ballast.do_import(model, "m", "--file-chunk-size", size)
    ballast.verify("m", "--deep")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)
    store_walk().assert_clean()


def test_two_splits_of_one_model(ballast, model, tmp_path):
    """Files that no index names are imported like any other."""
    tensors = {"x": ("F32", [2], b"12345678")}
    for name in ("consolidated.safetensors", "original/params.safetensors", "model-4bit.safetensors"):
        (model / name).parent.mkdir(exist_ok=True)
        (model / name).write_bytes(models.safetensors(tensors))
    ballast.do_import(model, "m")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)


def test_overlay_shard_is_a_warning(ballast, model):
    index = json.loads((model / "model.safetensors.index.json").read_text())
    name = next(iter(index["weight_map"]))
    overlay = "model-overlay.safetensors"
    (model / overlay).write_bytes(models.safetensors({name: ("BF16", [2], b"1234")}))
    base = index["weight_map"][name]
    index["weight_map"][name] = overlay
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    warnings = ballast.do_import(model, "m").warnings()
    assert any(overlay in w and base in w for w in warnings)
    deep = ballast.verify("m", "--deep", json=True).json
    assert any(f["kind"] == "warning" and overlay in f["text"] and base in f["text"] for f in deep["findings"])


# --- ids


def test_default_ids(ballast, make_model, tmp_path):
    plain = ballast("model", "import", make_model("My Model--x"), json=True).json
    assert (plain["model_id"], plain["revision"]) == ("My Model--x", "main")
    assert plain["checkpoint_id"] == "My-Model-x"

    commit = "0123456789abcdef0123456789abcdef01234567"
    source = models.make_model(tmp_path / f"hub/models--org--name/snapshots/{commit}")
    hub = ballast("model", "import", source, json=True).json
    assert (hub["model_id"], hub["checkpoint_id"], hub["commit"]) == ("org/name", "org__name-0123456789ab", commit)


def test_content_commit_is_the_content(ballast, make_model):
    a, b, c = make_model("a"), make_model("b"), make_model("c", seed=9)
    commits = [ballast.do_import(m, m.name, json=True).json["commit"] for m in (a, b, c)]
    assert commits[0] == commits[1] != commits[2]


@pytest.mark.parametrize("id", ["", ".", "..", "-x", ".x", "a/b", "a b", "ä", "a\n", "x" * 256, "../../etc/passwd"])
def test_bad_ids(ballast, model, id, store_walk):
    ballast.fails(2, "model", "import", model, f"--checkpoint-id={id}")
    assert not store_walk().reached.keys() - {ballast.store / "store.json"}


def test_longest_id(ballast, model, store_walk):
    ballast.do_import(model, "x" * 255)
    ballast.verify("x" * 255)
    ballast.delete("x" * 255)
    store_walk().assert_clean()


# --- once more


def test_again_writes_nothing(ballast, model):
    ballast.do_import(model, "m")
    before = snapshot(ballast.store / "weight/models/m")
    for option in ([], ["--quick"]):
        result = ballast.do_import(model, "m", *option, json=True).json
        assert (result["outcome"], result["n_files_written"], result["mended"]) == ("already-there", 0, [])
        objects = {k: v for k, v in snapshot(ballast.store / "weight/models/m").items()}
        assert objects == before


@pytest.mark.parametrize("option", [[], ["--quick"]])
def test_again_with_other_content(ballast, make_model, option):
    ballast.do_import(make_model("a"), "m")
    other = make_model("b", seed=2)
    error = ballast.fails(5, "model", "import", other, "--checkpoint-id", "m", *option)
    assert '"m"' in error and "delete" in error and "--checkpoint-id" in error
    ballast.verify("m")


@pytest.mark.parametrize("damage", ["zeroed", "gone", "short", "long"])
def test_again_mends(ballast, model, damage, tmp_path, store_walk):
    ballast.do_import(model, "m")
    path = "model-00001-of-00002.safetensors"
    chunk = chunk_of(ballast, "m", path)
    size = chunk.stat().st_size
    if damage == "gone":
        chunk.unlink()
    elif damage == "zeroed":
        overwrite(chunk, bytes(size))
    else:
        os.chmod(chunk, 0o644)
        os.truncate(chunk, size // 2 if damage == "short" else size + 1)
    out = tmp_path / "broken"
    error = ballast.fails(4, "model", "pull", "m", "--output", out)
    assert path in error and not (out / path).exists()
    found = ballast.verify("m", rc=4, json=True).json
    assert [f["path"] for f in found["findings"]] == [path] * len(found["findings"]) and found["findings"]
    assert ballast.status("m") == "DEGRADED"

    mended = ballast.do_import(model, "m", json=True).json
    assert [m for m in mended["mended"] if path in m] and mended["n_files_written"] == 1
    ballast.verify("m")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)
    store_walk().assert_clean()


# --- what is unfit stays out


def refused(ballast, source, *words, rc=4, options=()):
    """The import fails with one line that has these words, and leaves nothing."""
    error = ballast.fails(rc, "model", "import", source, "--checkpoint-id", "m", *options)
    for word in words:
        assert word in error, error
    found = walk(ballast.store)
    found.assert_clean()
    assert not found.statuses
    return error


def test_index_names_an_absent_shard(ballast, make_model):
    model = make_model(n_shards=3)
    (model / "model-00002-of-00003.safetensors").unlink()
    refused(ballast, model, "model-00002-of-00003.safetensors", "index")
    ballast.do_import(model, "m", "--force")
    ballast.verify("m")
    ballast.verify("m", "--deep", rc=4)


def test_shard_left_out_by_glob_is_only_named(ballast, model):
    result = ballast.do_import(model, "m", "--exclude", "*-00002-of-*")
    assert any("model-00002-of-00002.safetensors" in w for w in result.warnings())
    assert ballast.status("m") == "READY"


def test_no_such_source(ballast, model, tmp_path):
    refused(ballast, tmp_path / "nowhere", "nowhere", rc=3)
    refused(ballast, model / "1_Poolling", "1_Poolling", rc=3)
    refused(ballast, model / "config.json", "config.json", "folder", rc=2)


def test_empty_source(ballast, tmp_path):
    (tmp_path / "empty/sub").mkdir(parents=True)
    refused(ballast, tmp_path / "empty", "empty")


def test_nothing_matches(ballast, model):
    refused(ballast, model, options=["--include", "*.gguf"])


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 1234567\n"


@pytest.mark.parametrize("name, data, words", [
    ("empty", b"", ["empty"]),
    ("lfs", LFS, ["Git LFS", "1234567", "a" * 64]),
    ("pickle", b"\x80\x02}q\x00." + bytes(100), ["pickle"]),
    ("zip", b"PK\x03\x04" + bytes(100), ["zip"]),
    ("short", models.safetensors({"x": ("F32", [100], bytes(400))})[:-100], ["bytes"]),
    ("header only half", models.safetensors({"x": ("F32", [100], bytes(400))})[:30], ["header"]),
], ids=lambda p: p if isinstance(p, str) else "")
def test_no_model_file(ballast, model, name, data, words):
    (model / "extra.safetensors").write_bytes(data)
    refused(ballast, model, "extra.safetensors", *words)
    ballast.do_import(model, "m", "--force")
    ballast.verify("m")


def test_truncated_real_file(ballast, silero, tmp_path):
    source = tmp_path / "half"
    source.mkdir()
    data = silero.read_bytes()
    (source / "model.safetensors").write_bytes(data[:len(data) // 2])
    refused(ballast, source, "model.safetensors", str(len(data) // 2), "truncated", f"{len(data) - len(data) // 2} more")


def test_pickle_under_its_own_name_is_fine(ballast, model):
    (model / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(100))
    ballast.do_import(model, "m")


# --- links and special files


def test_links_inside_are_followed(ballast, model, tmp_path):
    (model / "link.json").symlink_to("config.json")
    (model / "chain.json").symlink_to("link.json")
    (model / "pooling").symlink_to("1_Pooling")
    (model / "1_Pooling/up.json").symlink_to("../config.json")
    (model / "absolute.json").symlink_to(model / "config.json")
    ballast.do_import(model, "m")
    got = pulled(ballast, "m", tmp_path)
    assert got == models.contents(model)
    assert got["link.json"] == got["chain.json"] == got["config.json"] == got["pooling/up.json"]


@pytest.mark.parametrize("target", ["../outside.txt", "/etc/hostname", "1_Pooling/../../outside.txt", "..", "/"])
def test_links_that_lead_out_are_refused(ballast, model, target):
    (model.parent / "outside.txt").write_text("secret")
    (model / "link").symlink_to(target)
    refused(ballast, model, '"link"', "symlink", target)


def test_dangling_link(ballast, model):
    (model / "link.json").symlink_to("tmp/blobs/x")
    refused(ballast, model, "dangling symlink", '"link.json"', "tmp/blobs/x")
    ballast.do_import(model, "m", "--exclude", "link.json")


def test_link_loops(ballast, model):
    (model / "loop").symlink_to("loop")
    refused(ballast, model, '"loop"')
    (model / "loop").unlink()
    (model / "1_Pooling/back").symlink_to("..")
    refused(ballast, model, "back", "symlink")


def test_source_may_be_a_link(ballast, model, tmp_path):
    (tmp_path / "alias").symlink_to(model)
    ballast.do_import(tmp_path / "alias", "m")
    assert pulled(ballast, "m", tmp_path) == models.contents(model)


def test_special_files(ballast, model):
    os.mkfifo(model / "pipe")
    refused(ballast, model, '"pipe"')
    (model / "pipe").unlink()
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(model / "sock"))
    refused(ballast, model, '"sock"')
    (model / "sock").unlink()
    os.mknod(model / "null", 0o600 | 0o020000, os.makedev(1, 3))
    refused(ballast, model, '"null"')


def test_left_out_and_named(ballast, model, tmp_path):
    right = models.contents(model)
    for name in (".git/config", ".cache/huggingface/download/x.metadata", ".cache/huggingface/download/x.lock",
                 ".locks/x", "blob.incomplete", ".ballast/pull.json", "1_Pooling/.git/HEAD"):
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text("{}")
    # Names that only look alike.
    for name in (".gitattributes", ".cache/other", "tokens.txt.lock", "incomplete"):
        (model / name).write_text(name)
        right[name] = models.contents(model)[name]
    result = ballast.do_import(model, "m", json=True).json
    for name in (".git", ".cache/huggingface", ".locks", "blob.incomplete", "1_Pooling/.git"):
        assert any(line.startswith(name) for line in result["left_out"]), name
    assert pulled(ballast, "m", tmp_path) == right


def test_include_and_exclude(ballast, model, tmp_path):
    ballast.do_import(model, "m", "--include", "*.json", "--exclude", "1_Pooling/")
    want = {p: d for p, d in models.contents(model).items() if p.endswith(".json") and not p.startswith("1_")}
    assert pulled(ballast, "m", tmp_path) == want


def test_dry_run(ballast, model):
    before = snapshot(ballast.store.parent)
    result = ballast.do_import(model, "m", "--dry-run", json=True).json
    assert result["outcome"] == "would-import" and result["n_files"] == len(models.contents(model))
    assert snapshot(ballast.store.parent) == before


def test_dry_run_tells_of_too_little_room(ballast, model):
    ballast("store", "set", "--max-bytes", "2KiB")
    result = ballast.do_import(model, "m", "--dry-run", json=True).json
    assert [w for w in result["warnings"] if "there is room for" in w]
    ballast("store", "set", "--max-bytes", "1GiB")
    assert ballast.do_import(model, "m", "--dry-run", json=True).json["warnings"] == []


# --- limits


@pytest.mark.heavy
def test_100_000_files(ballast, tmp_path, store_walk):
    source = tmp_path / "many"
    for i in range(100):
        (source / f"{i:03}").mkdir(parents=True)
        for j in range(1000):
            (source / f"{i:03}/{j:03}.json").write_bytes(b"%d" % j)
    assert ballast.do_import(source, "m", json=True, timeout=600).json["n_files"] == 100_000
    ballast.verify("m")
    ballast.delete("m")
    store_walk().assert_clean()
    (source / "one-more").touch()
    error = ballast.fails(2, "model", "import", source, "--checkpoint-id", "m")
    assert "100000" in error


# --- a source that changes


def test_source_that_keeps_changing(ballast, make_model):
    model = make_model(n_shards=1, n_tensors=4, tensor_bytes=8 << 20)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            with open(model / "model.safetensors", "r+b") as f:
                f.seek(-1, os.SEEK_END)
                f.write(b"x")
            time.sleep(0.001)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        refused(ballast, model, "model.safetensors", "chang", rc=(1, 4))
    finally:
        stop.set()
        thread.join()


def test_file_that_grows_at_the_wrong_moment(ballast, model, tmp_path):
    """A file that is never whole: every read of it finds more."""
    big = model / "growing.bin"
    big.write_bytes(bytes(1 << 20))
    stop = threading.Event()

    def grow():
        with open(big, "ab") as f:
            while not stop.is_set() and f.tell() < 1 << 28:
                f.write(bytes(4096))
                f.flush()

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        refused(ballast, model, "growing.bin", "chang", rc=(1, 4))
    finally:
        stop.set()
        thread.join()


# --- interrupted


def interrupt(ballast, shim, model, number):
    """An import of "m" that gets a signal when some of its data is there. Its exit code and messages."""
    ballast.store.mkdir(exist_ok=True)
    process = start_stopped(ballast, shim, SOME_DATA, "model", "import", model, "--checkpoint-id", "m")
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


@pytest.fixture
def big_model(make_model):
    return make_model("big", n_shards=8, n_tensors=2, tensor_bytes=4 << 20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_a_state_to_go_on_from(ballast, shim, big_model, number, tmp_path, store_walk):
    rc, err = interrupt(ballast, shim, big_model, number)
    assert rc == 130 and err.count("\n") == 1 and "again" in err, (rc, err)
    assert ballast.status("m") == "FAILED"
    store_walk().assert_clean()
    assert "again" in ballast.fails((4, 5), "model", "pull", "m", "--output", tmp_path / "no")
    result = ballast.do_import(big_model, "m", json=True).json
    assert 0 < result["n_files_written"] < result["n_files"]
    ballast.verify("m")
    store_walk().assert_clean()


def test_killed_import_goes_on_and_mends_a_damaged_survivor(ballast, shim, big_model, tmp_path, store_walk):
    rc, _ = interrupt(ballast, shim, big_model, signal.SIGKILL)
    assert rc == -signal.SIGKILL
    store_walk().assert_no_orphans()
    assert ballast.status("m") == "FAILED"
    survivors = [p for p in (ballast.store / "weight/models/m").glob("files,*") if p.stat().st_size > 1000]
    assert survivors
    kept = {p.name: p.stat().st_ino for p in survivors[1:]}
    overwrite(survivors[0], b"damaged", at=500)
    result = ballast.do_import(big_model, "m", json=True).json
    assert 0 < result["n_files_written"] < result["n_files"]
    for name, inode in kept.items():
        assert (ballast.store / "weight/models/m" / name).stat().st_ino == inode, "written again though it was right"
    ballast.verify("m")
    assert pulled(ballast, "m", tmp_path) == models.contents(big_model)
    store_walk().assert_clean()


def test_killed_import_then_delete(ballast, shim, big_model, store_walk):
    interrupt(ballast, shim, big_model, signal.SIGKILL)
    ballast.delete("m")
    found = store_walk()
    found.assert_clean()
    assert not found.statuses


def test_killed_import_then_another_model(ballast, shim, big_model, make_model, tmp_path, store_walk):
    """What the first one left and the second has no use for is removed."""
    interrupt(ballast, shim, big_model, signal.SIGKILL)
    other = make_model("other", n_shards=1, seed=5)
    ballast.do_import(other, "m")
    assert pulled(ballast, "m", tmp_path) == models.contents(other)
    store_walk().assert_clean()


# --- a store or source that does not do


def test_full_disk_is_seen_before_writing(ballast, make_model, loopfs):
    store = loopfs("tmpfs", 8) / "store"
    ballast = ballast.having(store=store)
    ballast.do_import(make_model("small"), "small")
    big = make_model("big", tensor_bytes=4 << 20)
    error = ballast.fails(1, "model", "import", big, "--checkpoint-id", "big")
    assert "space" in error or "free" in error
    ballast.verify("small")
    walk(store).assert_clean()
    assert walk(store).statuses == {"small": "READY"}


def test_disk_that_fills_meanwhile(ballast, make_model, preload, tmp_path, store_walk):
    """Room is there when it is asked for, and gone when it is needed."""
    ballast.do_import(make_model("small"), "small")
    big = make_model("big", seed=2, tensor_bytes=1 << 20)
    env = preload("faultshim", BALLAST_SHIM_ROOT=str(ballast.store), BALLAST_SHIM_COUNTER=str(tmp_path / "counter"),
                  BALLAST_SHIM_AT="25", BALLAST_SHIM_DO="ENOSPC", BALLAST_SHIM_STICKY="1")
    error = ballast.having(env=env).fails(1, "model", "import", big, "--checkpoint-id", "big")
    assert "space" in error
    ballast.verify("small")
    store_walk().assert_no_orphans()
    ballast.do_import(big, "big")
    store_walk().assert_clean()


def test_unreadable_source(nobody, make_model, tmp_path):
    source = models.make_model(nobody.home / "model")
    (source / "config.json").chmod(0)
    error = nobody.having(store=nobody.home / "store").fails(1, "model", "import", source, "--checkpoint-id", "m")
    assert "config.json" in error
    walk(nobody.home / "store").assert_clean()


# --- keeping only some of a revision's checkpoints


@pytest.fixture
def import_next(ballast, make_model):
    """Imports a new checkpoint of the model, c0, c1, …; times have seconds, and ids break ties."""
    made = []

    def do(*args, model_id="org/m", **kwargs):
        n = len(made)
        made.append(make_model(f"c{n}", seed=50 + n))
        return ballast.do_import(made[-1], f"c{n}", "--model-id", model_id, *args, json=True, **kwargs).json

    return do


def ids(ballast):
    return [c["checkpoint_id"] for c in ballast("model", "list", json=True).json["checkpoints"]]


def wait_for_next_second():
    time.sleep(1.01 - time.time() % 1)


def test_keep(ballast, import_next, store_walk):
    for _ in range(3):
        assert import_next()["pruned"] == []
        wait_for_next_second()
    result = import_next("--keep", "2")
    assert sorted(result["pruned"]) == ["c0", "c1"] and ids(ballast) == ["c2", "c3"]
    assert import_next("--keep", "2", model_id="org/other")["pruned"] == []
    assert import_next("--keep", "1", "--revision", "dev")["pruned"] == []
    assert ids(ballast) == ["c2", "c3", "c4", "c5"]
    store_walk().assert_clean()
    ballast.verify("c2")


def test_keep_spares(ballast, import_next, store_walk):
    """What is pinned, read, or named by another ref."""
    for _ in range(4):
        import_next()
        wait_for_next_second()
    ballast("model", "pin", "c0")
    ballast("model", "tag", "c1", "stable")
    result = import_next("--keep", "1")
    assert sorted(result["pruned"]) == ["c2", "c3"] and ids(ballast) == ["c0", "c1", "c4"]
    store_walk().assert_clean()


def test_keep_within_one_second(ballast, import_next):
    """What was just imported is the newest, whatever the ids."""
    wait_for_next_second()
    import_next()
    assert import_next("--keep", "1")["pruned"] == ["c0"] and ids(ballast) == ["c1"]


def test_keep_of_one_that_is_there(ballast, import_next, tmp_path):
    import_next()
    wait_for_next_second()
    import_next()
    again = ballast.do_import(tmp_path / "c0", "c0", "--model-id", "org/m", "--keep", "1", json=True).json
    assert again["outcome"] == "already-there" and ids(ballast) == ["c0", "c1"]


def test_a_dry_run_keeps_all(ballast, import_next):
    import_next()
    assert import_next("--keep", "1", "--dry-run")["pruned"] == [] and ids(ballast) == ["c0"]


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "99999999999"])
def test_keep_wants_a_number(ballast, model, value):
    assert "--keep" in ballast.fails(2, "model", "import", model, "--keep", value)


def test_a_later_versions_state_stays(ballast, model):
    ballast.do_import(model, "m")
    state = ballast.store / "weight/models/m/state"
    later = b'{"damaged":["config.json"],"missing":[],"pinned":true,"schema_version":99}'
    state.write_bytes(later)
    result = ballast.do_import(model, "m", json=True).json
    assert result["outcome"] == "already-there" and any("99" in w for w in result["warnings"])
    assert state.read_bytes() == later


# --- a store that cannot be written to


@pytest.fixture
def read_only(ballast, tmp_path):
    """The store behind a mount that refuses every change."""
    mount = tmp_path / "ro"

    def mounted():
        mount.mkdir()
        subprocess.run(["mount", "--bind", ballast.store, mount], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", mount], check=True)
        return ballast.having(store=mount)

    yield mounted
    if mount.exists():
        subprocess.run(["umount", mount], check=True)


def test_already_there_on_a_read_only_store(ballast, model, read_only):
    ballast.do_import(model, "m")
    there = read_only()
    for args in ([], ["--quick"]):
        assert there.do_import(model, "m", *args, json=True).json["outcome"] == "already-there"
    assert "ead-only" in there.fails(1, "model", "import", model, "--checkpoint-id", "n")
    (model / "tokenizer.json").write_bytes(b"x" * 3000)
    assert "tokenizer.json" in there.fails(5, "model", "import", model, "--checkpoint-id", "m")
    (model / "more").touch()
    assert "more" in there.fails(5, "model", "import", model, "--checkpoint-id", "m")


def test_damage_on_a_read_only_store(ballast, model, read_only):
    ballast.do_import(model, "m")
    overwrite(chunk_of(ballast, "m", "tokenizer.json"), b"x", 100)
    error = read_only().fails(4, "model", "import", model, "--checkpoint-id", "m")
    assert "tokenizer.json" in error and "ballast model repair m" in error


def test_already_there_for_a_user_without_rights(ballast, nobody, model):
    shared = nobody.home.parent / "store"
    ballast.having(store=shared).do_import(model, "m")
    source = nobody.home.parent / "source"
    shutil.copytree(model, source)
    subprocess.run(["chmod", "-R", "a+rX", source], check=True)
    assert nobody.do_import(source, "m", json=True).json["outcome"] == "already-there"
    nobody.fails(1, "model", "import", source, "--checkpoint-id", "n")
