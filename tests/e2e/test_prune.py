"""prune: the least recently used first, and never what somebody needs."""
import json
import os
import re
import signal
import time

import pytest

from support.faults import start_stopped
from support.scenes import object_file
from support.walker import walk
from test_fsck import kinds, make_failed, rewrite

DAY = 24 * 3600


@pytest.fixture
def three(ballast, make_model):
    """"a", "b" and "c", imported 30, 20 and 10 days ago."""
    for i, id in enumerate("abc"):
        ballast.do_import(make_model(id, seed=i + 1), id, "--model-id", f"org/{id}")
        imported(ballast, id, 30 - 10 * i)


def imported(ballast, id, days):
    then = int(time.time()) - days * DAY
    rewrite(ballast.store / "weight/models" / id / "manifest", lambda m: m.update(created_at=then, updated_at=then))


def prune(ballast, *args, rc=0):
    result = ballast("prune", *args, rc=rc, json=True).json
    assert result["ok"] == (rc == 0)
    result["gone"] = [c["checkpoint_id"] for c in result["removed"]]
    result["stay"] = {c["checkpoint_id"]: c["reason"] for c in result["spared"]}
    return result


def used(ballast):
    return walk(ballast.store).n_bytes


def left(ballast):
    found = walk(ballast.store)
    found.assert_clean()
    for id in found.statuses:
        ballast.verify(id)
    return set(found.statuses)


def test_by_age(ballast, three):
    assert prune(ballast, "--older-than", "15d")["gone"] == ["a", "b"]
    assert left(ballast) == {"a", "b", "c"}
    before = used(ballast)
    result = prune(ballast, "--older-than", "15d", "--yes")
    assert result["gone"] == ["a", "b"]
    assert left(ballast) == {"c"}
    assert result["used_bytes"] == before
    # Refs and last uses go, too.
    assert 0 <= before - result["freed_bytes"] - used(ballast) < 1000


def test_by_size(ballast, three):
    """A size, and the store's own limit, count the same bytes."""
    before = used(ballast)
    assert prune(ballast, "--max-bytes", str(before), "--yes")["gone"] == []
    assert prune(ballast, "--max-bytes", str(before - 1), "--yes")["gone"] == ["a"]
    ballast("store", "set", "--max-bytes", str(used(ballast) - 1))
    assert prune(ballast)["gone"] == ["b"]
    assert prune(ballast, "--yes")["gone"] == ["b"]
    assert left(ballast) == {"c"}
    assert prune(ballast, "--yes")["gone"] == []


@pytest.mark.parametrize("how", ["cat", "pull", "materialize-file"])
def test_hit_then_evict(ballast, three, tmp_path, how):
    """Whatever reads a checkpoint makes it the last to go."""
    args = {"cat": ["cat", "a", "config.json"], "pull": ["pull", "a", "--output", tmp_path / "out"],
            "materialize-file": ["materialize-file", "a", "config.json", tmp_path / "out.json"]}[how]
    ballast("model", *args)
    result = prune(ballast, "--max-bytes", str(used(ballast) - 1), "--yes")
    assert result["gone"] == ["b"]
    assert prune(ballast, "--max-bytes", "0", rc=1)["gone"] == ["c", "a"]


def test_pinned(ballast, three):
    ballast("model", "pin", "a")
    assert '"a" (pinned)' in ballast.fails(1, "prune", "--max-bytes", "0")
    result = prune(ballast, "--older-than", "15d", "--yes")
    assert result["gone"] == ["b"] and result["stay"] == {"a": "pinned"}
    assert "spared: a: pinned" in ballast("prune", "--older-than", "15d").text
    ballast("model", "unpin", "a")
    assert prune(ballast, "--older-than", "15d", "--yes")["gone"] == ["a"]


def test_says_whether_it_was_used(ballast, three):
    ballast("model", "cat", "a", "config.json")
    text = ballast("prune", "--older-than", "0").text
    assert re.search(r"^would remove: a \(frees [^,]*, last used [0-9]+ s ago\)$", text, re.MULTILINE)
    assert re.search(r"^would remove: b \(frees [^,]*, never used, imported 20 d ago\)$", text, re.MULTILINE)
    assert re.search(r"^removed: b \(freed ", ballast("prune", "--older-than", "15d", "--yes").text, re.MULTILINE)


def test_claimed(ballast, three, shim, tmp_path):
    process = start_stopped(ballast, shim, 8, "model", "import", tmp_path / "a", "--checkpoint-id", "a", "--model-id", "org/a")
    try:
        assert "busy" in prune(ballast, "--older-than", "15d", "--yes")["stay"]["a"]
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()
    assert left(ballast) == {"a", "c"}


def test_open(ballast, three, tmp_path):
    """A reader that writes into a pipe which nobody empties."""
    big = max((tmp_path / "a").rglob("*"), key=lambda p: p.stat().st_size if p.is_file() else 0)
    size = 4 << 20
    (tmp_path / "a/large.bin").write_bytes(os.urandom(size))
    ballast.delete("a")
    ballast.do_import(tmp_path / "a", "a", "--model-id", "org/a")
    imported(ballast, "a", 30)
    process = ballast.start("model", "cat", "a", "large.bin")
    process.stdout.read(10)
    stay = prune(ballast, "--max-bytes", "0", rc=1)["stay"]
    assert "reads" in stay["a"]
    prune(ballast, "--max-bytes", "0", "--yes", rc=1)
    assert len(process.stdout.read()) == size - 10 and process.wait() == 0
    assert big.exists() and left(ballast) == {"a"}


def test_failed_is_in_the_way(ballast, three):
    make_failed(ballast.store, "a")
    result = prune(ballast, "--max-bytes", "0", "--yes", rc=1)
    assert result["gone"] == ["b", "c"] and "ballast gc" in result["stay"]["a"]
    assert "ballast gc" in ballast.fails(1, "prune", "--max-bytes", "0")


def test_one_model(ballast, three):
    assert prune(ballast, "--older-than", "0", "--model-id", "org/b", "--yes")["gone"] == ["b"]
    assert left(ballast) == {"a", "c"}


def test_shared_bytes_go_with_the_last(ballast, make_model, tmp_path):
    ballast.do_import(make_model("m"), "a")
    (tmp_path / "m/config.json").write_text('{"other": 1}')
    ballast.do_import(tmp_path / "m", "b")
    imported(ballast, "a", 30)
    imported(ballast, "b", 20)
    shard = object_file(ballast.store, "a").stat().st_size
    first, second = prune(ballast, "--older-than", "0")["removed"]
    assert first["freed_bytes"] < shard < second["freed_bytes"]
    before = used(ballast)
    result = prune(ballast, "--older-than", "25d", "--yes")
    assert result["gone"] == ["a"] and 0 <= before - result["freed_bytes"] - used(ballast) < 1000
    assert left(ballast) == {"b"}


def test_nothing_asked(ballast, three):
    error = ballast.fails(2, "prune", "--yes")
    assert "--max-bytes" in error and "--older-than" in error and "ballast store set" in error
    assert left(ballast) == {"a", "b", "c"}


@pytest.mark.parametrize("args", [["--older-than", "x"], ["--older-than", "5"], ["--max-bytes", "-1"], ["--older-than", "1y"]])
def test_wrong_use(ballast, three, args):
    assert args[0] in ballast.fails(2, "prune", *args)


def test_two_at_once(ballast, three):
    runs = [ballast.start("prune", "--older-than", "15d", "--yes") for _ in range(3)]
    for run in runs:
        run.communicate()
        assert run.returncode in (0, 1)
    assert left(ballast) == {"c"}


@pytest.mark.parametrize("at", range(2, 30, 4))
def test_reader_while_prune_stands_still(ballast, three, shim, at, tmp_path):
    """Read at whatever moment: the reader gets all of it or is told, and what stays is whole."""
    process = start_stopped(ballast, shim, at, "prune", "--older-than", "25d", "--yes")
    try:
        result = ballast("model", "pull", "a", "--output", tmp_path / "out", rc=None)
        assert result.rc in (0, 3, 4, 5)
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()
    prune(ballast, "--older-than", "25d", "--yes")
    assert {"b", "c"} <= left(ballast)


@pytest.mark.parametrize("how", ["prune", "gc", "delete"])
def test_beside_sharers(ballast, make_model, tmp_path, how):
    """Checkpoints that share bytes come while others that share them go: what is READY is whole."""
    source = make_model("m")
    until = time.monotonic() + 3
    i = 0
    while time.monotonic() < until:
        i += 1
        (source / "config.json").write_text(f'{{"n": {i}}}')
        if how == "gc" and i > 1:
            make_failed(ballast.store, f"m{i - 1}")
        importing = ballast.start("model", "import", source, "--checkpoint-id", f"m{i}", "--model-id", "org/m")
        going = {"prune": ["prune", "--older-than", "0", "--yes"], "gc": ["gc", "--grace", "0"],
                 "delete": ["model", "delete", f"m{i - 1}"]}[how]
        if i > 1:
            ballast(*going, rc=(0, 1, 3, 5) if how == "prune" else 0)
        out, err = importing.communicate()
        assert importing.returncode == 0, err
        if f"m{i}" in (statuses := walk(ballast.store).statuses):
            ballast.verify(f"m{i}")
        assert how == "prune" or f"m{i - 1}" not in statuses
    assert i > 3
    walk(ballast.store).assert_no_orphans()
