"""Repair: what is bad is put back from whatever has the right bytes, and nothing else is touched."""
import json
import os
import shutil
import subprocess
import time

import pytest

from support import models
from support.scenes import object_file

WEIGHTS = "model-00001-of-00002.safetensors"


@pytest.fixture
def m(ballast, model):
    ballast.do_import(model, "m")
    return model


def chunk_of(ballast, id, path, i=0):
    """The object of chunk i of a file of the checkpoint."""
    manifest = json.loads((ballast.store / "weight/models" / id / "manifest").read_bytes())
    key = next(f for f in manifest["files"] if f["path"] == path)["chunks"][i]
    return ballast.store / "weight/models" / id / key.removeprefix(f"weight/models/{id}/").replace("/", ",")


def rewrite(file, data):
    """Other bytes in the same inode."""
    file.chmod(0o644)
    file.write_bytes(data)
    file.chmod(0o444)


def flip(file, at=100):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    rewrite(file, data)


def repair(ballast, id="m", *args, **kwargs):
    return ballast("model", "repair", id, *args, **kwargs)


def state(ballast, id="m"):
    path = ballast.store / f"weight/models/{id}/state"
    return json.loads(path.read_text()) if path.exists() else {"missing": [], "damaged": []}


def objects(ballast, id="m"):
    """{name: inode} of a checkpoint's objects."""
    return {p.name: p.stat().st_ino for p in (ballast.store / f"weight/models/{id}").iterdir()}


def test_nothing_to_do(ballast, m):
    before = objects(ballast)
    assert repair(ballast, json=True).json["outcome"] == "nothing-to-do"
    assert {k: v for k, v in objects(ballast).items() if k in before and k != "state"} == before


def test_from_the_folder_that_was_imported(ballast, m, store_walk):
    damaged, lost = chunk_of(ballast, "m", WEIGHTS), chunk_of(ballast, "m", "tokenizer.json")
    flip(damaged)
    lost.unlink()
    before = objects(ballast)
    old = open(damaged, "rb")
    ballast.verify("m", rc=4)

    result = repair(ballast, json=True).json
    assert result["outcome"] == "repaired" and result["n_files_bad"] == result["n_files_mended"] == 2
    assert sorted(item["path"] for item in result["mended"]) == sorted([WEIGHTS, "tokenizer.json"])
    assert str(m) in result["mended"][0]["from"]
    assert result["n_bytes_written"] == sum((m / p).stat().st_size for p in (WEIGHTS, "tokenizer.json"))
    # A new file took the damaged one's place, and nothing else was touched.
    assert damaged.stat().st_ino != before[damaged.name] and old.read(101)[100] != (m / WEIGHTS).read_bytes()[100]
    after = objects(ballast)
    assert all(after[name] == inode for name, inode in before.items() if name not in (damaged.name, "state"))
    ballast.verify("m")
    assert not state(ballast)["missing"] and not state(ballast)["damaged"]
    store_walk().assert_clean()


def test_from_an_identical_file_of_the_store(ballast, m, tmp_path):
    other = shutil.copytree(m, tmp_path / "other")
    (other / "config.json").write_text("{}")
    ballast.do_import(other, "other")
    shutil.rmtree(m)
    chunk_of(ballast, "m", WEIGHTS).unlink()
    result = repair(ballast, json=True).json
    assert result["n_bytes_shared"] == (other / WEIGHTS).stat().st_size and result["n_bytes_written"] == 0
    assert chunk_of(ballast, "m", WEIGHTS).stat().st_ino == chunk_of(ballast, "other", WEIGHTS).stat().st_ino
    ballast.verify("m")


def test_damage_that_two_checkpoints_share(ballast, m, tmp_path):
    """Written through a pulled hard link: found in both, mended in both, and the copy of the damage is left alone."""
    other = shutil.copytree(m, tmp_path / "other")
    (other / "config.json").write_text("{}")
    ballast.do_import(other, "other")
    assert chunk_of(ballast, "m", WEIGHTS).stat().st_ino == chunk_of(ballast, "other", WEIGHTS).stat().st_ino
    ballast("model", "pull", "m", "--output", tmp_path / "out", "--link=hardlink")
    flip(tmp_path / "out" / WEIGHTS)

    for id in ("m", "other"):
        assert "block 0 " in ballast.verify(id, rc=4).text
    # Neither is a source for the other.
    shutil.move(m, tmp_path / "away")
    assert repair(ballast, "m", rc=4, json=True).json["left"][0]["path"] == WEIGHTS
    repair(ballast, "m", "--from", tmp_path / "away")
    ballast.verify("m")
    ballast.verify("other", rc=4)
    shutil.rmtree(other)
    result = repair(ballast, "other", json=True).json
    assert result["n_bytes_shared"] == (tmp_path / "away" / WEIGHTS).stat().st_size
    ballast.verify("other")
    assert (tmp_path / "out" / WEIGHTS).read_bytes() != (tmp_path / "away" / WEIGHTS).read_bytes()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_only_the_bad_chunks_are_written(ballast, tmp_path, make_model, damage):
    model = make_model(tensor_bytes=100_000, n_shards=1)
    ballast.do_import(model, "m", "--file-chunk-size", "64K")
    size = (model / "model.safetensors").stat().st_size
    bad = chunk_of(ballast, "m", "model.safetensors", 2)
    if damage == "gone":
        bad.unlink()
    elif damage == "cut":
        rewrite(bad, bad.read_bytes()[:100])
    else:
        flip(bad)
    before = objects(ballast)
    assert size > 3 * 65536
    assert repair(ballast, json=True).json["n_bytes_written"] == 65536
    after = objects(ballast)
    assert {n for n in before if after[n] != before[n]} <= {bad.name, "state"}
    ballast.verify("m")


@pytest.mark.parametrize("args", [(), ("--file-chunk-size", "5000")])
def test_from_another_store(ballast, m, tmp_path, args):
    second = ballast.having(store=tmp_path / "second")
    second.do_import(m, "m", *args)
    shutil.rmtree(m)
    flip(chunk_of(ballast, "m", WEIGHTS))
    chunk_of(ballast, "m", "config.json").unlink()
    repair(ballast, rc=4)
    for place in (tmp_path / "second", f"file://{tmp_path}/second"):
        repair(ballast, "m", "--from", place)
        ballast.verify("m")
        chunk_of(ballast, "m", WEIGHTS).unlink()


def test_another_store_that_has_it_under_another_id(ballast, m, tmp_path):
    ballast.having(store=tmp_path / "second").do_import(m, "else")
    shutil.rmtree(m)
    chunk_of(ballast, "m", WEIGHTS).unlink()
    repair(ballast, "m", "--from", tmp_path / "second")
    ballast.verify("m")


def test_what_cannot_be_mended_is_named_and_the_rest_is_mended(ballast, m):
    (m / WEIGHTS).write_bytes(b"x" * (m / WEIGHTS).stat().st_size)
    (m / "run.sh").write_text("longer than it was")
    for path in (WEIGHTS, "run.sh", "tokenizer.json"):
        chunk_of(ballast, "m", path).unlink()
    result = repair(ballast, rc=4, json=True).json
    assert result["outcome"] == "incomplete" and result["n_files_mended"] == 1
    left = {item["path"]: item["text"] for item in result["left"]}
    assert set(left) == {WEIGHTS, "run.sh"}
    assert "SHA-256" in left[WEIGHTS] and str(m) in left[WEIGHTS] and "--from" in left[WEIGHTS]
    assert "it has 18 bytes there, must have 10" in left["run.sh"]
    assert state(ballast)["missing"] == [WEIGHTS, "run.sh"]
    text = ballast.told("model", "repair", "m", rc=4)
    assert f'not mended: "{WEIGHTS}"' in text and "not repaired: m: 0 of 2 bad files mended" in text
    assert ballast.status("m") == "DEGRADED"


def test_a_source_with_other_bytes_replaces_nothing(ballast, m):
    bad = chunk_of(ballast, "m", WEIGHTS)
    flip(bad)
    before, inode = bad.read_bytes(), bad.stat().st_ino
    rewrite(m / WEIGHTS, b"y" * len(before))
    repair(ballast, rc=4)
    assert bad.read_bytes() == before and bad.stat().st_ino == inode


@pytest.mark.parametrize("name", ["digests", "info"])
@pytest.mark.parametrize("data", [b"", b"{", b'{"schema_version":1}'])
def test_digests_and_info(ballast, m, name, data):
    object = ballast.store / "weight/models/m" / name
    right = json.loads(object.read_text())
    rewrite(object, data)
    ballast.verify("m", rc=4)
    result = repair(ballast, json=True).json
    assert result["outcome"] == "repaired" and result[f"{name}_written"] and result["n_files_bad"] == 0
    ballast.verify("m")
    again = json.loads(object.read_text())
    if name == "digests":
        assert again == right
    else:
        assert again["refs"] == ["main"] and again["files"]["run.sh"]["executable"]
        assert again["commit"] == right["commit"] and again["source"] == right["source"]


def test_one_wrong_digest(ballast, m):
    object = ballast.store / "weight/models/m/digests"
    right = object.read_text()
    digests = json.loads(right)
    digests["files"][WEIGHTS]["crc"] = "00000000"
    rewrite(object, json.dumps(digests, sort_keys=True, separators=(",", ":")).encode())
    ballast.verify("m", rc=4)
    assert repair(ballast, json=True).json["digests_written"]
    assert json.loads(object.read_text()) == json.loads(right)


def test_dry_run(ballast, m):
    flip(chunk_of(ballast, "m", WEIGHTS))
    ballast.verify("m", rc=4)
    before = {p: p.read_bytes() for p in (ballast.store / "weight").rglob("*") if p.is_file()}
    result = repair(ballast, "m", "--dry-run", json=True).json
    assert result["outcome"] == "would-repair" and result["n_files_mended"] == 1
    assert {p: p.read_bytes() for p in (ballast.store / "weight").rglob("*") if p.is_file()} == before


def test_what_is_not_ready(ballast, m):
    assert "m2" in ballast.fails(3, "model", "repair", "m2")
    manifest = ballast.store / "weight/models/m/manifest"
    document = json.loads(manifest.read_text())
    document.update(status="FAILED", error="import interrupted")
    rewrite(manifest, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    assert "import it again" in ballast.fails(4, "model", "repair", "m")


def test_a_place_that_is_not_there(ballast, m, tmp_path):
    flip(chunk_of(ballast, "m", WEIGHTS))
    assert "nowhere" in ballast.fails(3, "model", "repair", "m", "--from", tmp_path / "nowhere")
    assert "nowhere" in ballast.fails(2, "model", "repair", "m", "--from", "nowhere:thing")


def test_special_files_and_folders_are_no_source(ballast, m):
    (m / "tokenizer.json").unlink()
    os.mkfifo(m / "tokenizer.json")
    (m / "config.json").unlink()
    (m / "config.json").mkdir()
    for path in ("tokenizer.json", "config.json"):
        chunk_of(ballast, "m", path).unlink()
    left = repair(ballast, rc=4, json=True, timeout=30).json["left"]
    assert ["it is no file there" in item["text"] for item in left] == [True, True]


def test_room(ballast, m):
    """A store at its limit: what takes the place of something damaged fits, what is gone must have room."""
    used = sum(p.stat().st_size for p in ballast.store.rglob("*") if p.is_file())
    ballast("store", "set", "--max-bytes", str(used + 2000))
    flip(chunk_of(ballast, "m", WEIGHTS))
    repair(ballast)
    ballast.verify("m")
    lost = chunk_of(ballast, "m", WEIGHTS)
    lost.unlink()
    ballast("store", "set", "--max-bytes", str(used - 5000))
    assert "limit" in ballast.fails(1, "model", "repair", "m")
    assert not lost.exists() and not list((ballast.store / "weight/models/m").glob("reserved*"))
    ballast("store", "set", "--max-bytes", str(used + 5000))
    repair(ballast)
    ballast.verify("m")


def test_names_cannot_act_on_a_terminal(ballast, m):
    name = "odd\x1b[31m\n.json"
    (m / name).write_text("{}")
    ballast.do_import(m, "odd")
    chunk_of(ballast, "odd", name).unlink()
    line = [word for word in ballast.line("model", "repair", "odd", "--dry-run") if word != "-q"]
    would = subprocess.run(line, env=ballast.env, cwd=ballast.cwd, capture_output=True, text=True).stdout
    (m / name).unlink()
    for text in (would, repair(ballast, "odd", rc=4).text):
        assert "\x1b" not in text and text.count("odd\\x1b[31m\\n.json") >= 1
    (m / name).write_text("{}")
    assert repair(ballast, "odd", json=True).json["mended"][0]["path"] == name


def test_a_store_that_cannot_be_written(nobody, model):
    os.chmod(model.parent, 0o755)
    root = nobody.having(prefix=[])
    root.do_import(model, "m")
    flip(chunk_of(root, "m", WEIGHTS))
    assert "m" in nobody.fails(1, "model", "repair", "m")


def test_more_files_than_a_check_names(ballast, tmp_path):
    """Each with a wrong digest and gone: findings are cut, and all is mended all the same."""
    model = tmp_path / "many"
    model.mkdir()
    for i in range(10_500):
        (model / f"{i}.json").write_text(f"{i}")
    ballast.do_import(model, "m")
    for path in (ballast.store / "weight/models/m").glob("files*"):
        path.unlink()
    result = repair(ballast, json=True).json
    assert result["n_files_mended"] == 10_500 and result["outcome"] == "repaired"
    assert not state(ballast)["missing"]


def test_another_checkpoint_that_changes_behind_the_check_mends_nothing(ballast, model):
    """Somebody writes through a hard link that he has outside, after the other one's object was found right."""
    for id in ("m", "other"):
        ballast.do_import(model, id, "--model-id", "org/m")
    chunk = object_file(ballast.store, "m", WEIGHTS)
    right = chunk.read_bytes()
    chunk.unlink()
    chunk.write_bytes(b"damaged".ljust(len(right)))
    shutil.rmtree(model)
    outside = ballast.home / "outside"
    outside.hardlink_to(object_file(ballast.store, "other", WEIGHTS))
    line = [word.replace("file://", "fault:op=share,n=1,delay-ms=1500:file://") for word in
            ballast.line("model", "repair", "m")]
    process = subprocess.Popen(line, env={**ballast.env, "BALLAST_TESTING": "1"}, cwd=ballast.cwd, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    time.sleep(1)
    with outside.open("r+b") as file:
        file.write(b"other bytes")
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 4 and b"changes while it is read" in told, told
    assert ballast.status("m") == "DEGRADED"
    ballast.verify("m", rc=4)
