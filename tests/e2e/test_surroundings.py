"""What surrounds a run: descriptors, limits, and stores that someone put something into."""
import os
import shutil
import subprocess
import time

import pytest

from support.scenes import object_file
from support.walker import walk


@pytest.mark.parametrize("closed", [(2,), (1, 2), (0, 1, 2)])
def test_messages_never_reach_a_file_of_the_store(ballast, model, closed):
    """Without standard descriptors the claim, or an object, would get their numbers."""
    closing = 'exec "$@" ' + " ".join(f"{fd}>&-" for fd in closed)
    slow = ballast.having(prefix=["sh", "-c", closing, "sh"], env={"BALLAST_TESTING": "1"})
    line = [word.replace("file://", "fault:op=sync,n=1,delay-ms=1000:file://") for word in
            slow.line("model", "import", model, "--checkpoint-id", "m")]
    process = subprocess.Popen(line, env=slow.env, cwd=slow.cwd)
    while not any((ballast.store / "weight/models/m").glob("claim")):
        assert process.poll() is None
        time.sleep(0.005)
    for fd in closed:
        assert os.readlink(f"/proc/{process.pid}/fd/{fd}") == "/dev/null"
    assert process.wait(60) == 0
    ballast.verify("m")
    walk(ballast.store).assert_clean()


def test_limit_of_file_size(ballast, model):
    """A write beyond the limit is an error that is told, not the signal's end."""
    limited = ballast.having(prefix=["sh", "-c", 'ulimit -f 8; exec "$@"', "sh"])
    (model / "big.bin").write_bytes(os.urandom(100_000))
    assert "File too large" in limited.fails(1, "model", "import", model, "--checkpoint-id", "m")
    assert ballast.status("m") is None
    ballast.do_import(model, "m")
    message = limited.fails(1, "model", "pull", "m", "--output", ballast.cwd / "out")
    assert "File too large" in message
    assert not (ballast.cwd / "out" / "big.bin").exists()


@pytest.mark.parametrize("operation", ["import", "delete"])
def test_link_in_place_of_a_checkpoint(ballast, make_model, operation):
    """What is done under the link's name would be done to the checkpoint behind it."""
    ballast.do_import(make_model("a"), "a")
    (ballast.store / "weight/models/b").symlink_to("a")
    args = ["import", make_model("b", seed=2), "--checkpoint-id"] if operation == "import" else ["delete"]
    message = ballast.fails(1, "model", *args, "b")
    assert "symbolic link" in message and '"weight/models/b"' in message
    ballast.verify("a")
    (ballast.store / "weight/models/b").unlink()
    walk(ballast.store).assert_clean()


@pytest.mark.parametrize("operation", ["import", "delete"])
def test_ids_that_the_file_system_takes_for_one(ballast, loopfs, make_model, operation):
    ballast = ballast.having(store=loopfs("exfat", 64) / "store")
    ballast.do_import(make_model("a"), "Qwen")
    args = ["import", make_model("b", seed=2), "--checkpoint-id"] if operation == "import" else ["delete"]
    message = ballast.fails(1, "model", *args, "qwen")
    assert "does not tell the two names apart" in message
    ballast.verify("Qwen")


@pytest.mark.parametrize("kind", ["fifo", "link"])
@pytest.mark.parametrize("name", ["manifest", "files,00,chunks,00000000", "info"])
def test_strange_things_among_the_objects_can_be_deleted(ballast, model, kind, name):
    ballast.do_import(model, "other")
    folder = ballast.store / "weight/models/m"
    folder.mkdir()
    if kind == "fifo":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("../other/manifest")
    assert ballast.status("m") in ("CORRUPT", "LEFTOVER")
    ballast.delete("m")
    assert not folder.exists()
    ballast.verify("other")


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_strange_thing_in_place_of_a_claim(ballast, model, kind):
    """It stops what needs the claim, and nothing else."""
    ballast.do_import(model, "other")
    folder = ballast.store / "weight/models/m"
    folder.mkdir()
    os.mkfifo(folder / "claim") if kind == "fifo" else (folder / "claim").mkdir()
    assert ballast.status("other") == "READY"
    assert "weight/models/m/claim" in ballast.fails(4, "model", "import", model, "--checkpoint-id", "m")
    # Beside what would make somebody ask who holds it.
    (folder / ".tmp-0-0").touch()
    (folder / "reserved").write_text('{"bytes":5,"from_bytes":0,"schema_version":1}')
    ballast("store", "set", "--max-bytes", "1GiB")
    ballast.do_import(model, "another")
    assert "weight/models/m/claim" in ballast("fsck", rc=4).text
    ballast("gc", "--grace", "0")
    assert (folder / ".tmp-0-0").exists()


def test_a_folder_that_this_user_may_not_look_into(ballast, nobody, model):
    """It is told, and the rest of the store is looked at."""
    here = ballast.having(store=nobody.store)
    here.do_import(model, "mine")
    here.do_import(model, "other")
    (here.store / "weight/models/mine").chmod(0o700)
    (object_file(here.store, "other", "config.json")).unlink()
    report = nobody("fsck", rc=4, json=True).json
    assert {(f["kind"], f["checkpoint_id"]) for f in report["findings"]} == {("unreadable", "mine"), ("missing", "other")}
    nobody("gc", "--dry-run")


def test_folder_exchanged_for_a_link_after_the_scan(ballast, model, tmp_path):
    """Whoever may write to the source must not make the importer, who may be root, read anything else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "config.json").write_bytes(b"secret".ljust((model / "1_Pooling/config.json").stat().st_size))
    # The claim comes right after the scan.
    line = [word.replace("file://", "fault:op=put-held,n=1,delay-ms=1500:file://") for word in
            ballast.line("model", "import", model, "--checkpoint-id", "m")]
    process = subprocess.Popen(line, env={**ballast.env, "BALLAST_TESTING": "1"}, stderr=subprocess.PIPE, cwd=ballast.cwd)
    time.sleep(0.5)
    (model / "1_Pooling").rename(tmp_path / "moved")
    (model / "1_Pooling").symlink_to(outside)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 4 and '"1_Pooling/config.json" leads out of the folder' in err
    assert ballast.status("m") is None


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_number_of_chunks(ballast, tmp_path):
    source = tmp_path / "m"
    source.mkdir()
    (source / "x.dat").write_bytes(os.urandom(100_000))

    # At 150 bytes a chunk, one list of all keys would be 14 MiB.
    assert ballast.peak_mib("model", "import", source, "--checkpoint-id", "m", "--file-chunk-size", "1") < 14
    assert ballast.peak_mib("model", "verify", "m") < 14
    assert ballast.peak_mib("model", "delete", "m") < 14
    assert ballast.status("m") is None


@pytest.mark.plain
def test_limit_of_threads(nobody, make_model, tmp_path):
    """One process is what the user may have: no more threads, no claim, no trace."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and folder.is_relative_to(tmp_path.parents[2]):
            folder.chmod(0o755)
    source = nobody.home / "m"
    shutil.copytree(make_model(), source)
    nobody.store.mkdir()
    os.chown(nobody.store, 65534, 65534)
    few = nobody.having(prefix=["prlimit", "--nproc=1", "--", *nobody.prefix])
    assert "thread" in few.fails(1, "model", "import", source, "--checkpoint-id", "m")
    assert nobody.status("m") is None
    nobody.do_import(source, "m")


def test_many_make_one_store(ballast, make_model):
    """Between looking for the format file and looking whether the folder is empty, another makes the store."""
    sources = [make_model(f"m{i}", n_shards=1, seed=i) for i in range(8)]
    for round in range(15):
        fresh = ballast.having(store=ballast.cwd / f"store-{round}")
        running = [fresh.start("model", "import", source, "--checkpoint-id", source.name) for source in sources]
        for process in running:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
