"""ballast doctor: what it says of stores, file systems, users and limits."""
import json
import os
import subprocess

import pytest

from support.mounts import run


def checks(ballast, rc=0):
    """{name: (verdict, text)} of all lines."""
    document = ballast("doctor", rc=rc, json=True).json
    found = {c["name"]: (c["verdict"], c["text"]) for c in document["checks"]}
    assert len(found) == len(document["checks"]), "two lines of one name"
    assert document["n_problems"] == sum(v == "problem" for v, _ in found.values())
    for check in document["checks"]:
        assert check["verdict"] != "problem" or check["advice"], check
    return found


def names(folder):
    return sorted(os.listdir(folder))


FILE_SYSTEMS = {
    "ext4": {"hard links": "ok", "reflinks": "note", "O_DIRECT": "ok", "rename": "ok", "letter case": "ok"},
    "xfs": {"hard links": "ok", "reflinks": "ok", "O_DIRECT": "ok", "rename": "ok", "letter case": "ok"},
    "tmpfs": {"hard links": "ok", "reflinks": "note", "rename": "ok", "letter case": "ok"},
    "exfat": {"hard links": "note", "reflinks": "note", "rename": "note", "letter case": "note"},
}


@pytest.mark.parametrize("kind, size_mb", [("ext4", 64), ("xfs", 400), ("exfat", 64), ("tmpfs", 64)])
def test_file_systems(ballast, model, loopfs, kind, size_mb):
    ballast = ballast.having(store=loopfs(kind, size_mb) / "store")
    ballast.do_import(model, "m")
    before = names(ballast.store)
    found = checks(ballast)
    assert names(ballast.store) == before
    assert {name: found[name][0] for name in FILE_SYSTEMS[kind]} == FILE_SYSTEMS[kind]
    assert found["writing"][0] == found["locks"][0] == "ok"
    assert ("fuse" if kind == "exfat" else kind) in found["kind"][1]


def test_store_that_is_not_there(ballast):
    found = checks(ballast)
    assert found["there"][0] == "note" and "first import" in found["there"][1]
    assert not ballast.store.exists()
    assert "writing" not in found


def test_store_that_cannot_be_made(nobody, tmp_path):
    assert checks(nobody.having(store="/root-only/store"), rc=1)["there"][0] == "problem"


def test_folder_that_is_no_store(ballast):
    ballast.store.mkdir()
    (ballast.store / "notes.txt").write_text("mine")
    assert checks(ballast, rc=1)["there"][0] == "problem"
    assert names(ballast.store) == ["notes.txt"]


def test_store_of_a_later_version(ballast, model):
    ballast.do_import(model, "m")
    file = ballast.store / "store.json"
    text = json.loads(file.read_text())
    file.chmod(0o644)
    file.write_text(json.dumps({**text, "version": 2}))
    assert "newer" in checks(ballast, rc=1)["there"][1]
    text["features"]["read_only_compatible"] = ["later"]
    file.write_text(json.dumps(text))
    verdict, words = checks(ballast, rc=1)["writing"]
    assert verdict == "problem" and "feature" in words and "pull" in words


def test_read_only_mount(ballast, model, tmp_path):
    ballast.do_import(model, "m")
    run("mount", "--bind", ballast.store, ballast.store)
    run("mount", "-o", "remount,bind,ro", ballast.store)
    try:
        verdict, words = checks(ballast, rc=1)["writing"]
    finally:
        run("umount", ballast.store)
    assert verdict == "problem" and "read-only mount" in words and "pull" in words


def test_other_user(ballast, nobody, model):
    shared = nobody.home.parent / "store"
    ballast.having(store=shared).do_import(model, "m")
    before = names(shared)
    found = checks(nobody, rc=1)
    assert found["writing"][0] == "problem" and "this user" in found["writing"][1]
    assert "rename" not in found and names(shared) == before


def test_full_disk(ballast, model, private_mount):
    mount = private_mount("tmpfs", 2)
    ballast = ballast.having(store=mount.path / "store")
    ballast.do_import(model, "m")
    filler = os.open(mount.path / "filler", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError):
        while True:
            os.write(filler, bytes(4096))
    os.close(filler)
    found = checks(ballast, rc=1)
    assert found["room"][0] == "problem" and "full" in found["room"][1]
    assert found["writing"][0] == "problem"
    assert names(ballast.store) == ["store.json", "weight"]


def test_limit(ballast, model):
    ballast.do_import(model, "m")
    ballast("store", "set", "--max-bytes", "1")
    assert "limit" in checks(ballast, rc=1)["room"][1]
    ballast("store", "set", "--max-bytes", "1GiB")
    assert checks(ballast)["room"][0] == "ok"
    ballast("store", "set", "--max-bytes", "1PiB")
    assert checks(ballast)["room"][0] == "note"


def test_config_files(ballast):
    file = ballast.home / "config/ballast/config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"store": "/nowhere", "stroe": 1}')
    verdict, words = checks(ballast)["members"]
    assert verdict == "note" and "stroe" in words
    file.write_text("{")
    # --store names the store all the same.
    assert checks(ballast)["files"][0] == "note"
    done = subprocess.run([ballast.binary, "doctor"], env=ballast.env, capture_output=True, text=True)
    assert done.returncode == 1 and "config.json" in done.stdout


def test_limits_of_the_process(ballast):
    limited = ballast.having(prefix=["prlimit", "--nofile=100", "--fsize=1000000", "--"])
    found = checks(limited)
    assert found["open files"] == ("note", "at most 100")
    assert found["file size"][0] == "note"


@pytest.mark.plain
def test_memory(ballast):
    # Enough to start, less than commands may need.
    limited = ballast.having(prefix=["prlimit", "--as=60000000", "--"])
    assert checks(limited, rc=1)["memory"][0] == "problem"


def test_local_state(nobody):
    found = checks(nobody.having(env={"BALLAST_STATE_DIR": "/proc/nothing"}), rc=None)
    assert found["local state"][0] == "note"


def test_without_locks_that_conflict(ballast, model, preload):
    ballast.do_import(model, "m")
    free = ballast.having(env=preload("lockshim", BALLAST_LOCKS="free"))
    verdict, words = checks(free)["locks"]
    assert verdict == "note" and "30 s" in words


def test_killed_run_leaves_what_gc_removes(ballast, model, shim):
    ballast.do_import(model, "m")
    ballast("doctor")
    n_left = 0
    for at in range(1, 100):
        result = ballast.having(env=shim.env(ballast.store, "kill", at))("doctor", rc=None)
        left = list(ballast.store.glob(".tmp-*"))
        n_left += left != []
        # Young ones may be a living command's.
        for file in left:
            os.utime(file, (1, 1))
        ballast("fsck")
        if result.rc != -9:
            break
        ballast("gc", "--grace", "0")
        assert names(ballast.store) == ["store.json", "weight"]
    assert result.rc == 0 and n_left > 10


def test_words_for_people(ballast):
    text = ballast("doctor").text
    assert "store\n" in text and "  note     there: not yet" in text
