"""verify --quick and --subset, and what a verification records in the store and beside it."""
import hashlib
import json
import os
import struct
import time

import pytest


@pytest.fixture
def checked(ballast, make_model):
    """A store with "m", every file of which is known to be right."""
    ballast.do_import(make_model(n_shards=3), "m")
    time.sleep(0.05)
    ballast.verify("m")
    return ballast


@pytest.fixture
def shared(ballast, nobody, make_model):
    """The same in a place that another user, `nobody`, may enter."""
    here = ballast.having(store=nobody.store)
    here.do_import(make_model(n_shards=3), "m")
    time.sleep(0.05)
    here.verify("m")
    return here


def objects(ballast, id="m"):
    """Path of each file's object, by the file's path."""
    folder = ballast.store / "weight/models" / id
    names = [f["path"] for f in json.loads((folder / "manifest").read_bytes())["files"]]
    found = {n: folder / f"files,{hashlib.sha256(n.encode()).hexdigest()},chunks,00000000" for n in names}
    return {n: path for n, path in found.items() if path.exists()}


def largest(ballast, id="m"):
    return max(objects(ballast, id).items(), key=lambda item: item[1].stat().st_size)


def flip(path, offset=-1):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


def state(ballast, id="m"):
    file = ballast.store / "weight/models" / id / "state"
    return json.loads(file.read_bytes()) if file.exists() else None


def identities(ballast, id="m"):
    return next((ballast.home / ".local/state/ballast/identities").glob(f"*/{id}"), None)


def quick(ballast, *args, rc=0):
    return ballast.verify("m", "--quick", *args, rc=rc, json=True).json


def test_what_is_kept_is_as_documented(checked):
    """Local state, read by the words of docs/formats/local-state.md alone."""
    data = identities(checked).read_bytes()
    manifest = (checked.store / "weight/models/m/manifest").read_bytes()
    (n,) = struct.unpack_from("<Q", data, 48)
    assert data[:16] == b"ballast-ident-1\n" and data[16:48] == hashlib.sha256(manifest).digest()
    assert len(data) == 56 + 32 * n + 4
    kept = [struct.unpack_from("<QQqq", data, 56 + 32 * i) for i in range(n)]
    paths = objects(checked)
    wanted = []
    for record in json.loads(manifest)["files"]:
        if record["path"] in paths:
            st = paths[record["path"]].stat()
            wanted.append((st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns))
    assert kept == wanted
    url = f"file://{checked.store}"
    assert identities(checked).parent.name == hashlib.sha256(url.encode()).hexdigest()
    assert identities(checked).stat().st_mode & 0o777 == 0o600


def test_quick_reads_only_what_changed(checked):
    assert quick(checked)["n_files_read"] == 0
    path = largest(checked)[1]
    os.utime(path, ns=(1, 1))
    result = quick(checked)
    assert (result["n_files_read"], result["n_bytes_read"]) == (1, path.stat().st_size) and result["ok"]
    assert quick(checked)["n_files_read"] == 0


def test_quick_finds_a_write_through_another_name(checked, tmp_path):
    """A hard-linked pull that was written to: the bytes of the store changed with it."""
    checked("model", "pull", "m", "--output", "out", "--link=hardlink")
    assert quick(checked)["n_files_read"] == 0  # names came, bytes stayed
    name, path = largest(checked)
    flip(tmp_path / "out" / name)
    result = quick(checked, rc=4)
    assert result["n_files_read"] == 1 and result["degraded"]
    assert [f["path"] for f in result["findings"]] == [name]
    assert state(checked)["damaged"] == [name]


def test_quick_sees_a_time_that_was_set_back(checked):
    path = largest(checked)[1]
    st = path.stat()
    flip(path)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))
    assert not quick(checked, rc=4)["ok"]


@pytest.mark.parametrize("spoil", ["gone", "cut", "foreign", "writable", "link"])
def test_state_that_cannot_be_trusted_is_done_without(checked, spoil, tmp_path):
    file = identities(checked)
    n = len(objects(checked))
    if spoil == "gone":
        file.unlink()
    elif spoil == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif spoil == "foreign":
        os.chown(file, 65534, 65534)
    elif spoil == "writable":
        file.chmod(0o666)
    else:
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    assert quick(checked)["n_files_read"] == n
    assert quick(checked)["n_files_read"] == 0


def test_no_place_for_state(checked):
    """No home, or one where nothing can be made: everything is read, and nothing fails."""
    n = len(objects(checked))
    for env in ({"HOME": "/nonexistent"}, {"BALLAST_STATE_DIR": "/proc/none"}):
        homeless = checked.having(env=env)
        for _ in range(2):
            assert quick(homeless)["n_files_read"] == n


def test_where_state_is_kept(checked, tmp_path):
    for env, place in (({"BALLAST_STATE_DIR": str(tmp_path / "own")}, "own"),
                       ({"XDG_STATE_HOME": str(tmp_path / "xdg")}, "xdg/ballast")):
        quick(checked.having(env=env))
        assert list((tmp_path / place / "identities").glob("*/m"))
    checked.delete("m")
    assert identities(checked) is None


def test_full_check_records(checked):
    first = state(checked)
    assert first["checked_at"] > 0 and first["missing"] == [] == first["damaged"]
    name, path = largest(checked)
    small = min(objects(checked).items(), key=lambda item: item[1].stat().st_size)
    flip(path)
    small[1].rename(small[1].parent.parent / "aside")
    checked.verify("m", rc=4)
    assert state(checked)["missing"] == [small[0]] and state(checked)["damaged"] == [name]
    shown = checked("model", "inspect", "m", json=True).json
    assert shown["status"] == "DEGRADED" and shown["missing"] == [small[0]] and shown["damaged"] == [name]
    assert checked.status("m") == "DEGRADED"
    listed = checked("model", "list", "-v").text
    assert 'm: 1 file missing, 1 damaged ("ballast model repair m" mends it)' in listed


def test_degraded_is_not_given_out(checked, tmp_path):
    name, path = largest(checked)
    flip(path)
    checked.verify("m", rc=4)
    for line in (("pull", "m", "--output", "out"), ("cat", "m", name), ("materialize-file", "m", name, "f")):
        error = checked.fails(4, "model", *line)
        assert "DEGRADED: 1 file damaged" in error and '"ballast model repair m"' in error
    assert not (tmp_path / "out").exists() and not (tmp_path / "f").exists()
    # Names still mean it, and it can be looked at.
    assert checked("model", "inspect", "model", json=True).json["checkpoint_id"] == "m"
    flip(path)
    checked.verify("m")
    assert checked.status("m") == "READY"
    checked("model", "pull", "m", "--output", "out")


@pytest.mark.parametrize("option", [[], ["--quick"]])
def test_importing_again_mends_what_is_degraded(checked, tmp_path, option):
    flip(largest(checked)[1])
    checked.verify("m", rc=4)
    checked.do_import(tmp_path / "model", "m", *option)
    assert checked.status("m") == "READY"
    checked.verify("m")


def test_a_part_adds_and_takes_nothing_off(checked):
    name, path = largest(checked)
    other = next(n for n in objects(checked) if n != name)
    flip(path)
    before = state(checked)["checked_at"]
    checked.verify("m", "--include", other)
    assert state(checked)["damaged"] == [] and state(checked)["checked_at"] == before
    checked.verify("m", "--include", name, rc=4)
    assert state(checked)["damaged"] == [name]
    flip(path)
    result = checked.verify("m", "--include", name, json=True).json
    assert result["ok"] and result["degraded"]
    assert not quick(checked)["degraded"]


def test_subsets_cover_everything(ballast, make_model):
    ballast.do_import(make_model(n_shards=5), "m")
    for t in (1, 3, 40):
        runs = [ballast.verify("m", "--subset", f"{n}/{t}", json=True).json for n in range(1, t + 1)]
        whole = ballast.verify("m", json=True).json
        assert sum(r["n_files"] for r in runs) == whole["n_files"]
        assert sum(r["n_bytes"] for r in runs) == whole["n_bytes"]
    assert ballast.told("model", "verify", "m", "--subset", "1/3").startswith("verified 1/3 of m: all right\n")
    flip(largest(ballast)[1])
    bad = [ballast.verify("m", "--subset", f"{n}/3", "--deep", rc=(0, 4)).rc for n in (1, 2, 3)]
    assert sorted(bad) == [0, 0, 4]


@pytest.mark.parametrize("subset", ["0/3", "4/3", "1/0", "1", "/", "a/b", "1/1001", "-1/3", "1/3/5"])
def test_bad_subsets(ballast, subset):
    assert "--subset" in ballast.fails(2, "model", "verify", "m", "--subset", subset)


def test_a_store_that_cannot_be_written(shared, nobody):
    """Another user: finds what is wrong, records nothing, and is warned of nothing."""
    flip(largest(shared)[1])
    before = state(shared)
    found = nobody.verify("m", rc=4, json=True).json
    assert not found["ok"] and "read-only" in found["not_recorded"] and found["warnings"] == []
    assert state(shared) == before


def test_an_object_that_this_user_may_not_read(shared, nobody):
    """That says nothing about the bytes: the checkpoint is no worse for it."""
    store = shared.store
    for folder in (store, store / "weight", store / "weight/models", store / "weight/models/m"):
        folder.chmod(0o777)
    before = state(shared)
    largest(shared)[1].chmod(0o400)
    found = nobody.verify("m", rc=4, json=True).json
    assert [f["kind"] for f in found["findings"]] == ["unreadable"] and not found["degraded"]
    assert state(shared) == before


def test_a_damaged_state(checked, tmp_path):
    """Readers do without it and say so; the next verification writes it anew."""
    file = checked.store / "weight/models/m/state"
    file.chmod(0o644)
    file.write_text("{")
    assert checked("model", "pull", "m", "--output", "out").warnings()
    assert checked("model", "list").warnings() and checked.status("m") == "READY"
    assert "written anew" in checked.verify("m").warnings()[-1]
    assert state(checked)["checked_at"] > 0


def test_last_use(checked, tmp_path):
    file = checked.store / "weight/used/m"
    assert not file.exists()
    before = time.time()
    checked("model", "cat", "m", "config.json")
    used = json.loads(file.read_bytes())
    assert used["checkpoint_id"] == "m" and before <= used["used_at"] / 1e6 <= time.time()
    checked("model", "pull", "m", "--output", "out")
    again = json.loads(file.read_bytes())["used_at"]
    assert again > used["used_at"]
    assert checked("model", "inspect", "m", json=True).json["used_at"] == again // 1_000_000
    checked.delete("m")
    assert not file.exists()


def test_last_use_in_a_store_of_others(shared, nobody):
    done = nobody("model", "pull", "m", "--output", nobody.home / "out")
    assert done.err == "" and not (shared.store / "weight/used/m").exists()


def test_quick_is_quick(ballast, tmp_path):
    """100 files: at most 12 ms; the best of some runs, since others share the machine."""
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(100):
        (folder / f"{i:03}.bin").write_bytes(os.urandom(5000))
    ballast.do_import(folder, "many")
    time.sleep(0.05)
    ballast.verify("many")
    times = []
    for _ in range(10):
        start = time.perf_counter()
        assert ballast.verify("many", "--quick", json=True).json["n_files_read"] == 0
        times.append(time.perf_counter() - start)
    assert min(times) <= 0.012 or b"__asan_init" in open(ballast.binary, "rb").read()
