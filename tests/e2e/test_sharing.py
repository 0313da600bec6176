"""Equal files of different checkpoints share one object's bytes; and the room that imports ask for before they begin."""
import os
import shutil
import subprocess
import time

import pytest

from support import models
from support.faults import start_stopped
from support.scenes import object_file
from support.walker import walk

SHARD = "model-00001-of-00002.safetensors"
# Above the size at which recorded identities vouch for a donor.
BIG = 400 * 1024


@pytest.fixture
def revisions(make_model):
    """revisions(n): folders whose shards are the same, and whose other files are not."""
    def make(n, tensor_bytes=BIG):
        first = make_model("r1", tensor_bytes=tensor_bytes)
        made = [first]
        for i in range(2, n + 1):
            made.append(first.parent / f"r{i}")
            shutil.copytree(first, made[-1])
            (made[-1] / "config.json").write_text('{"revision": %d}' % i)
        return made
    return make


def settle():
    """An identity is recorded only of files that did not change in the last moments."""
    time.sleep(0.05)


def inode(ballast, id, path=SHARD):
    return object_file(ballast.store, id, path).stat().st_ino


def do_import(ballast, folder, id=None):
    return ballast.do_import(folder, id or folder.name, "--model-id", "org/m", "--revision", id or folder.name, json=True).json


def pulled(ballast, id):
    out = ballast.home / f"pulled-{id}"
    ballast("model", "pull", id, "--output", out)
    return models.contents(out)


def test_a_second_revision_writes_only_what_is_new(ballast, revisions, store_walk):
    first, second = revisions(2)
    assert do_import(ballast, first)["n_files_shared"] == 0
    held = store_walk().n_bytes
    result = do_import(ballast, second)
    assert result["n_files_written"] == 2  # config.json, and the empty file
    assert result["n_bytes_written"] == (second / "config.json").stat().st_size
    assert result["n_files_shared"] == result["n_files"] - 2
    assert result["n_bytes_shared"] == result["n_bytes"] - result["n_bytes_written"]
    assert store_walk().n_bytes - held < 20000
    assert inode(ballast, "r1") == inode(ballast, "r2")
    assert inode(ballast, "r1", "config.json") != inode(ballast, "r2", "config.json")
    for folder in (first, second):
        ballast.verify(folder.name, "--deep")
        assert pulled(ballast, folder.name) == models.contents(folder)
    store_walk().assert_clean()


def test_what_is_shared_is_told(ballast, revisions):
    first, second = revisions(2)
    do_import(ballast, first)
    assert "shared with other checkpoints: 6 files, 2.3 MiB" in ballast.told("model", "import", second)


@pytest.mark.parametrize("order", [["r1", "r2", "r3"], ["r3", "r2", "r1"], ["r2", "r3", "r1"]])
def test_deleting_one_harms_no_other(ballast, revisions, store_walk, order):
    folders = {f.name: f for f in revisions(3, tensor_bytes=4096)}
    for folder in folders.values():
        do_import(ballast, folder)
    assert len({inode(ballast, id) for id in folders}) == 1
    for n, id in enumerate(order):
        ballast.delete(id)
        for left in order[n + 1:]:
            ballast.verify(left, "--deep")
            assert pulled(ballast, left) == models.contents(folders[left])
            shutil.rmtree(ballast.home / f"pulled-{left}")
        store_walk().assert_clean()


@pytest.mark.parametrize("of_first, of_second", [(0o077, 0o022), (0o022, 0o077)])
def test_a_file_of_another_umask_is_not_shared(ballast, revisions, of_first, of_second):
    """The second checkpoint would be read by fewer, or its bytes by more, than its importer's umask says."""
    first, second = revisions(2)
    old = os.umask(of_first)
    try:
        do_import(ballast, first)
        os.umask(of_second)
        do_import(ballast, second)
    finally:
        os.umask(old)
    assert object_file(ballast.store, second.name, SHARD).stat().st_mode & 0o777 == 0o444 & ~of_second
    assert inode(ballast, first.name) != inode(ballast, second.name)


def test_the_same_files_under_another_name(ballast, model, store_walk):
    """All of it, in other places."""
    ballast.do_import(model, "a")
    (model / "config.json").rename(model / "renamed.json")
    result = ballast.do_import(model, "b", json=True).json
    assert result["n_files_written"] == 1 and result["n_bytes_written"] == 0
    assert inode(ballast, "a", "config.json") == inode(ballast, "b", "renamed.json")
    ballast.verify("b")
    store_walk().assert_clean()


def test_many_files_of_one_size(ballast, model):
    for i in range(200):
        (model / f"part-{i:03}.json").write_bytes(os.urandom(1000))
    ballast.do_import(model, "a")
    result = ballast.do_import(model, "b", json=True).json
    assert result["n_bytes_written"] == 0 and result["n_bytes_shared"] == result["n_bytes"]
    ballast.verify("b")


# --- damage does not spread


def damage_in_place(file, at, keep_time):
    """As a program does that writes through a link: size and file stay."""
    before = file.stat()
    file.chmod(0o644)
    with open(file, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))
    file.chmod(0o444)
    if keep_time:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("keep_time", [False, True])
@pytest.mark.parametrize("n_before", [1, 2])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_damaged_donor_gives_nothing(ballast, revisions, tmp_path, keep_time, n_before, is_known):
    """Whatever its times say, and whether one or two checkpoints have it; at a place that no sample meets."""
    *before, last = revisions(n_before + 1)
    for folder in before:
        do_import(ballast, folder)
    settle()
    for folder in before:
        ballast.verify(folder.name)
    if not is_known:
        shutil.rmtree(ballast.home / ".local/state/ballast")
    damage_in_place(object_file(ballast.store, "r1", SHARD), 700001, keep_time)
    result = do_import(ballast, last)
    assert any('checkpoint "r' in w and "ballast model verify" in w for w in result["warnings"]), result
    assert result["n_files_written"] == 3
    ballast.verify(last.name, "--deep")
    assert pulled(ballast, last.name) == models.contents(last)
    assert SHARD in ballast.verify("r1", rc=4).text
    # And what is right is where the damaged one gets its bytes from.
    damaged_inode = inode(ballast, "r1")
    result = do_import(ballast, before[0])
    assert result["outcome"] == "already-there" and result["mended"] == [SHARD]
    assert result["n_files_shared"] == 1 and result["n_bytes_written"] == 0
    assert inode(ballast, "r1") == inode(ballast, last.name) != damaged_inode
    ballast.verify("r1")


def test_a_donor_that_is_cut_short(ballast, revisions):
    first, second = revisions(2)
    do_import(ballast, first)
    file = object_file(ballast.store, "r1", SHARD)
    file.chmod(0o644)
    os.truncate(file, 1000)
    assert do_import(ballast, second)["n_files_written"] == 3
    ballast.verify("r2")


def test_bytes_that_differ_where_no_sample_looks(ballast, revisions, store_walk):
    """A wrong guess costs a second pass, no more; the object that was shared for a moment is not written to."""
    first, second = revisions(2)
    data = bytearray((second / SHARD).read_bytes())
    data[700001] ^= 1
    (second / SHARD).write_bytes(data)
    do_import(ballast, first)
    settle()
    ballast.verify("r1")
    result = do_import(ballast, second)
    assert result["n_files_written"] == 3 and not result["warnings"]
    assert inode(ballast, "r1") != inode(ballast, "r2")
    ballast.verify("r1")
    ballast.verify("r2")
    assert pulled(ballast, "r2") == models.contents(second)
    store_walk().assert_clean()


def test_lost_objects_are_shared_again(ballast, revisions, store_walk):
    first, second = revisions(2)
    do_import(ballast, first)
    do_import(ballast, second)
    for path in (SHARD, "tokenizer.json"):
        object_file(ballast.store, "r1", path).unlink()
    result = do_import(ballast, first)
    assert sorted(result["mended"]) == sorted([SHARD, "tokenizer.json"])
    assert result["n_files_shared"] == 2 and result["n_files_written"] == 0
    ballast.verify("r1")
    store_walk().assert_clean()


def test_files_in_pieces_give_and_take_nothing(ballast, revisions):
    first, second = revisions(2)
    ballast.do_import(first, "pieces", "--file-chunk-size", "100000")
    small = sum(f.stat().st_size for f in second.rglob("*") if f.is_file() and f.name != "config.json" and f.stat().st_size < 100000)
    small += (second / "1_Pooling/config.json").stat().st_size
    assert ballast.do_import(second, "whole", json=True).json["n_bytes_shared"] == small
    assert ballast.do_import(second, "more-pieces", "--file-chunk-size", "100000", json=True).json["n_bytes_shared"] < 20000
    for id in ("pieces", "whole", "more-pieces"):
        ballast.verify(id)


def test_what_is_not_ready_gives_nothing(ballast, revisions, shim):
    first, second = revisions(2)
    ballast.store.mkdir()
    process = start_stopped(ballast, shim, 45, "model", "import", first, "--checkpoint-id", "r1")
    process.kill()
    process.wait()
    assert ballast.status("r1") == "FAILED"
    assert do_import(ballast, second)["n_files_shared"] == 0
    do_import(ballast, first)
    ballast.verify("r1")
    ballast.verify("r2")


# --- where bytes cannot be shared


@pytest.mark.parametrize("kind, size, shares", [("tmpfs", 64, True), ("ext4", 128, True), ("xfs", 512, True), ("exfat", 64, False)])
def test_file_systems(ballast, loopfs, revisions, kind, size, shares):
    there = ballast.having(store=loopfs(kind, size) / "store")
    first, second = revisions(2)
    do_import(there, first)
    result = do_import(there, second)
    assert (result["n_files_shared"] > 0) == shares
    there.verify("r1", "--deep")
    there.verify("r2", "--deep")
    there.delete("r1")
    there.verify("r2", "--deep")
    assert pulled(there, "r2") == models.contents(second)
    if kind != "exfat":
        walk(there.store).assert_clean()


def test_objects_of_another_user(nobody, revisions):
    """Another user's file could be changed by its owner: its bytes are written anew, by root too."""
    owner = nobody.having(prefix=[])
    source = nobody.home.parent / "source"
    shutil.copytree(revisions(1, tensor_bytes=4096)[0], source)
    subprocess.run(["chmod", "-R", "a+rX", source], check=True)
    do_import(owner, source, "r1")
    for folder in (owner.store, *(p for p in owner.store.rglob("*") if p.is_dir())):
        folder.chmod(0o777)

    def assert_written(result):
        assert result["n_files_shared"] == 0 and result["n_files_written"] == result["n_files"]

    assert_written(do_import(nobody, source, "r2"))
    owner.delete("r1")
    assert_written(do_import(owner, source, "r3"))
    nobody.verify("r2")
    owner.verify("r3")


# --- room


def room_for(ballast, n_bytes):
    ballast("store", "set", "--max-bytes", str(n_bytes))


def unlike(make_model, n, tensor_bytes):
    return [make_model(f"m{i}", tensor_bytes=tensor_bytes, seed=100 + i) for i in range(n)]


def test_no_room_is_told_before_the_first_byte(ballast, model, store_walk):
    room_for(ballast, 10000)
    message = ballast.fails(1, "model", "import", model)
    assert "max_bytes" in message and "ballast prune" in message
    assert not list((ballast.store / "weight").rglob("files,*"))
    store_walk().assert_clean()


def test_shared_bytes_need_no_room(ballast, revisions, store_walk):
    first, second = revisions(2)
    do_import(ballast, first)
    room_for(ballast, store_walk().n_bytes + 200000)
    do_import(ballast, second)
    ballast.verify("r2")
    store_walk().assert_clean()


def test_a_wrong_guess_is_paid_for(ballast, revisions, store_walk):
    """The bytes seemed to be there, and are not: the import ends, and takes everything back."""
    first, second = revisions(2)
    data = bytearray((second / SHARD).read_bytes())
    data[700001] ^= 1
    (second / SHARD).write_bytes(data)
    do_import(ballast, first)
    held = store_walk().n_bytes
    room_for(ballast, held + 500000)
    assert "max_bytes" in ballast.fails(1, "model", "import", second, "--checkpoint-id", "r2")
    assert store_walk().n_bytes <= held + 1000 and ballast.status("r2") is None
    store_walk().assert_clean()
    ballast.verify("r1")
    room_for(ballast, held + 2000000)
    do_import(ballast, second)
    ballast.verify("r2")


def test_mending_asks_for_room(ballast, model, store_walk):
    ballast.do_import(model, "m")
    held = store_walk().n_bytes
    object_file(ballast.store, "m", SHARD).unlink()
    room_for(ballast, held - 5000)
    assert "max_bytes" in ballast.fails(1, "model", "import", model, "--checkpoint-id", "m")
    store_walk()
    room_for(ballast, held + 200000)
    ballast.do_import(model, "m")
    ballast.verify("m")
    store_walk().assert_clean()


def test_an_interrupted_import_goes_on_in_its_room(ballast, make_model, shim, tmp_path, store_walk):
    model = make_model("big", n_shards=4, tensor_bytes=BIG)
    total = sum(f.stat().st_size for f in model.rglob("*") if f.is_file())
    room_for(ballast, total + 200000)
    process = start_stopped(ballast, shim, 60, "model", "import", model, "--checkpoint-id", "m")
    process.kill()
    process.wait()
    assert ballast.status("m") == "FAILED"
    ballast.do_import(model, "m")
    ballast.verify("m")
    assert store_walk().n_bytes <= total + 200000
    store_walk().assert_clean()


def test_deleting_an_interrupted_import_gives_its_room_back(ballast, make_model, shim, store_walk):
    first, second = unlike(make_model, 2, BIG)
    size = sum(f.stat().st_size for f in first.rglob("*") if f.is_file())
    room_for(ballast, size + size // 2)
    process = start_stopped(ballast, shim, 60, "model", "import", first, "--checkpoint-id", "m")
    assert "max_bytes" in ballast.fails(1, "model", "import", second, "--checkpoint-id", "n")
    process.kill()
    process.wait()
    assert list(ballast.store.rglob("reserved"))
    # What a dead import has reserved holds nobody up; what it has put does until it is deleted.
    ballast.delete("m")
    store_walk().assert_clean()
    ballast.do_import(second, "n")
    store_walk().assert_clean()


def used_bytes(store):
    """As a monitor sees it: every file once."""
    files = {}
    for folder, _, names in os.walk(store):
        for name in names:
            try:
                st = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            files[st.st_ino] = st.st_size
    return sum(files.values())


@pytest.mark.heavy
def test_eight_imports_into_room_for_three(ballast, make_model, store_walk):
    folders = unlike(make_model, 8, BIG)
    size = sum(f.stat().st_size for f in folders[0].rglob("*") if f.is_file())
    limit = 3 * size + size // 2
    room_for(ballast, limit)
    running = [ballast.start("model", "import", f, "--checkpoint-id", f.name) for f in folders]
    most = 0
    while any(p.poll() is None for p in running):
        most = max(most, used_bytes(ballast.store))
    codes = [p.returncode for p in running]
    errors = [p.communicate()[1].decode() for p in running]
    assert sorted(codes) == [0] * 3 + [1] * 5, errors
    assert all("max_bytes" in e for e, code in zip(errors, codes) if code == 1), errors
    assert most <= limit
    for folder, code in zip(folders, codes):
        if code == 0:
            ballast.verify(folder.name)
        else:
            assert ballast.status(folder.name) is None
    store_walk().assert_clean()


def test_bytes_that_change_behind_the_comparison_are_not_known_to_be_right(ballast, revisions):
    """Somebody writes through a hard link that he has outside while the import waits for the disk: the import must not
    record what is there then as what it compared, or quick verifications and further sharers would go by it."""
    first, second = revisions(2)
    do_import(ballast, first)
    outside = ballast.home / "outside"
    outside.hardlink_to(object_file(ballast.store, "r1", SHARD))
    slow = ballast.having(env={"BALLAST_TESTING": "1"})

    def line(*args):
        return [word.replace("file://", "fault:op=sync,n=1,delay-ms=1500:file://") for word in slow.line(*args)]

    process = subprocess.Popen(line("model", "import", second, "--checkpoint-id", "r2"), env=slow.env, cwd=slow.cwd)
    while not object_file(ballast.store, "r2", SHARD).exists():
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(0.5)
    with outside.open("r+b") as file:
        file.seek(BIG // 2)
        file.write(b"other bytes")
    assert process.wait(60) == 0
    done = subprocess.run(line("model", "verify", "r2", "--quick"), env=slow.env, cwd=slow.cwd, capture_output=True, text=True)
    assert done.returncode == 4 and SHARD in done.stdout, done.stdout + done.stderr


@pytest.mark.heavy
def test_many_checkpoints_of_many_small_files(ballast, tmp_path):
    """What may be shared is looked for in bounded memory."""
    source = tmp_path / "m"
    source.mkdir()
    for i in range(20_000):
        (source / f"{i:05}.json").write_text(f"{i:05}")
    ballast.do_import(source, "zq00", "--force")
    models_folder = ballast.store / "weight/models"
    text = (models_folder / "zq00/manifest").read_text()
    for i in range(1, 21):
        (models_folder / f"zq{i:02}").mkdir()
        (models_folder / f"zq{i:02}/manifest").write_text(text.replace("zq00", f"zq{i:02}"))
    # At 200 bytes for each, all of them are 84 MB.
    assert ballast.peak_mib("model", "import", source, "--checkpoint-id", "new", "--force") < 64
