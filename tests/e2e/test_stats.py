"""stats, and what --metrics-file says."""
import os
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.scenes import object_file
from support.walker import walk


@pytest.fixture
def two(ballast, make_model, tmp_path):
    """"a", and "b" with one other file."""
    ballast.do_import(make_model("m"), "a", "--model-id", "org/m", "--revision", "v1")
    (tmp_path / "m/config.json").write_text('{"other": 1}')
    ballast.do_import(tmp_path / "m", "b", "--model-id", "org/other")


def stats(ballast, *args):
    result = ballast("stats", *args, json=True).json
    result["by_id"] = {c["checkpoint_id"]: c for c in result["checkpoints"]}
    return result


def metrics(file):
    """{(name, labels…): value}, as Prometheus' own parser reads them."""
    found = {}
    for family in text_string_to_metric_families(file.read_text()):
        assert family.documentation != "" and family.type == "gauge"
        for sample in family.samples:
            key = (sample.name, *sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def test_empty(ballast):
    result = stats(ballast)
    assert result["checkpoints"] == [] and result["stored_bytes"] == 0 and result["sharing_ratio"] == 1
    assert not ballast.store.exists()


def test_totals(ballast, two):
    result = stats(ballast)
    files = sum(f.stat().st_size for f in ballast.store.rglob("*") if f.is_file())
    a, b = result["by_id"]["a"], result["by_id"]["b"]
    assert result["stored_bytes"] == walk(ballast.store).n_bytes < files
    assert result["logical_bytes"] == a["total_size"] + b["total_size"]
    assert result["sharing_ratio"] > 1.2
    assert a["shared_bytes"] == b["shared_bytes"] > 0
    assert result["max_bytes"] is None and result["left_bytes"] is None and result["free_bytes"] > 0
    ballast.delete("b")
    result = stats(ballast)
    assert result["by_id"]["a"]["shared_bytes"] == 0 and result["sharing_ratio"] == 1


def test_limit(ballast, two):
    ballast("store", "set", "--max-bytes", "1GiB")
    result = stats(ballast)
    assert result["max_bytes"] == 1 << 30 and result["left_bytes"] == (1 << 30) - result["stored_bytes"]
    ballast("store", "set", "--max-bytes", "1")
    assert stats(ballast)["left_bytes"] == 0
    assert "limit" in ballast("stats").text


def test_last_use_and_pins(ballast, two):
    assert stats(ballast)["by_id"]["a"]["used_at"] is None
    ballast("model", "cat", "a", "config.json")
    ballast("model", "pin", "b")
    result = stats(ballast)["by_id"]
    assert abs(result["a"]["used_at"] - time.time()) < 60 and result["b"]["used_at"] is None
    assert result["b"]["pinned"] and not result["a"]["pinned"]
    rows = {line.split()[0]: line for line in ballast("stats").text.splitlines()}
    assert "never" in rows["b"] and "yes" in rows["b"] and "never" not in rows["a"]


def test_one_model_and_order(ballast, two):
    ballast("model", "cat", "b", "config.json")
    ids = lambda *args: [c["checkpoint_id"] for c in stats(ballast, *args)["checkpoints"]]
    assert ids() == ["a", "b"] and ids("--sort", "used") == ["b", "a"]
    assert ids("org/m") == ids("--model-id", "org/m") == ["a"]
    assert ids("--sort", "size") in (["a", "b"], ["b", "a"])
    assert "--sort" in ballast.fails(2, "stats", "--sort", "x")


def test_metrics_of_stats(ballast, two, tmp_path):
    file = tmp_path / "m.prom"
    ballast("store", "set", "--max-bytes", "1GiB")
    ballast("model", "pin", "b")
    result = stats(ballast, "--metrics-file", file)
    found = metrics(file)
    a = ("checkpoint", "a"), ("checkpoint", "b")
    assert found["ballast_store_bytes",] == result["stored_bytes"]
    assert found["ballast_store_logical_bytes",] == result["logical_bytes"]
    assert found["ballast_store_limit_bytes",] == 1 << 30
    assert found["ballast_store_free_bytes",] > 0
    for label in a:
        item = result["by_id"][label[1]]
        assert found["ballast_checkpoint_bytes", label] == item["total_size"]
        assert found["ballast_checkpoint_unique_bytes", label] == item["unique_bytes"]
        assert found["ballast_checkpoint_pinned", label] == item["pinned"]
        assert found["ballast_checkpoint_last_used_timestamp_seconds", label] == 0
    assert found["ballast_command_exit_code", ("command", "stats")] == 0


def test_metrics_of_every_command(ballast, two, tmp_path):
    file = tmp_path / "m.prom"
    for args, rc, name in [(["model", "verify", "a"], 0, "model verify"), (["model", "verify", "none"], 3, "model verify"),
                           (["fsck"], 0, "fsck"), (["model", "verify", "--bad"], 2, "model verify"), (["nonsense"], 2, "")]:
        file.unlink(missing_ok=True)
        ballast(*args, "--metrics-file", file, rc=rc)
        found = metrics(file)
        label = ("command", name)
        assert found["ballast_command_exit_code", label] == rc
        assert abs(found["ballast_command_timestamp_seconds", label] - time.time()) < 60
        assert 0 <= found["ballast_command_duration_seconds", label] < 60
    ballast("model", "verify", "a", "--metrics-file", file)
    size = stats(ballast)["by_id"]["a"]["total_size"]
    assert metrics(file)["ballast_command_bytes", ("command", "model verify")] == size
    assert metrics(file)["ballast_command_files", ("command", "model verify")] > 1
    ballast("fsck", "--metrics-file", file)
    assert metrics(file)["ballast_command_files", ("command", "fsck")] == 0


def test_metrics_of_a_command_with_several_phases(ballast, two, tmp_path):
    object_file(ballast.store, "a").unlink()
    file = tmp_path / "m.prom"
    ballast("model", "repair", "a", "--metrics-file", file)
    size = stats(ballast)["by_id"]["a"]["total_size"]
    # What is there was verified, and then what was lost was at least read once.
    assert metrics(file)["ballast_command_bytes", ("command", "model repair")] >= size


def test_metrics_file_is_replaced_whole(ballast, two, tmp_path):
    """A reader sees the old file or the new one, with nothing else beside it."""
    folder = tmp_path / "prom"
    folder.mkdir()
    file = folder / "m.prom"
    file.write_text("old")
    with open(file) as before:
        ballast("stats", "--metrics-file", file)
        assert before.read() == "old"
    assert [p.name for p in folder.iterdir()] == ["m.prom"]
    assert metrics(file)


def test_metrics_file_cannot_be_written(ballast, two, tmp_path):
    """That is a failure of a command that succeeded, and a warning beside another failure."""
    result = ballast("fsck", "--metrics-file", tmp_path / "none/m.prom", rc=1)
    assert "none" in result.warnings()[0]
    result = ballast("model", "verify", "none", "--metrics-file", tmp_path / "none/m.prom", rc=3)
    assert len(result.warnings()) == 1


def test_metrics_in_any_locale(ballast, two, tmp_path):
    file = tmp_path / "m.prom"
    ballast.having(env={"LC_ALL": "de_DE.UTF-8"})("fsck", "--metrics-file", file)
    assert metrics(file)


def test_model_that_is_not_there(ballast, two):
    text = ballast.told("stats", "org/none")
    assert text.startswith('no checkpoints of model "org/none" in ') and "of checkpoints in" in text


def test_no_blanks_at_the_end_of_a_line(ballast, two):
    assert not [line for line in ballast("stats").text.splitlines() if line != line.rstrip()]


def test_metrics_replace_nothing_but_a_file(ballast, two, tmp_path):
    """As root, the name of a device would be that of a file from then on."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        assert "is no regular file" in ballast("model", "list", "--metrics-file", path, rc=1).err
    assert pipe.is_fifo() and link.is_symlink()
