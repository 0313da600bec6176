"""What holds for all of a store: its limit, and who may write."""
import json
import os

import pytest

from support import models


def format_of(ballast):
    return json.loads((ballast.store / "store.json").read_text())


def shown(ballast, *args):
    return ballast("store", "set", *args, json=True).json


def test_showing_makes_nothing(ballast):
    settings = shown(ballast)
    assert settings["max_bytes"] is None and settings["shared"] == "umask" and settings["n_bytes"] == 0
    assert not ballast.store.exists()


def test_set_and_show(ballast):
    assert ballast("store", "set", "--max-bytes", "1.5GiB").text == ""
    text = ballast("store", "set").text
    assert "1.5 GiB" in text and str(ballast.store) in text
    assert format_of(ballast)["max_bytes"] == 1610612736
    assert format_of(ballast)["features"]["read_only_compatible"] == ["max-bytes"]
    assert shown(ballast, "--shared=group")["max_bytes"] == 1610612736
    assert (ballast.store.stat().st_mode & 0o7777) == 0o2775
    assert shown(ballast) == {"store": f"file://{ballast.store}", "max_bytes": 1610612736, "shared": "group", "n_bytes": 0,
                              "warnings": []}
    assert shown(ballast, "--max-bytes=none")["max_bytes"] is None
    assert "max_bytes" not in format_of(ballast) and format_of(ballast)["features"]["read_only_compatible"] == []
    assert shown(ballast, "--shared", "umask")["shared"] == "umask"


@pytest.mark.parametrize("args", [["--max-bytes", "0"], ["--max-bytes", "-1"], ["--max-bytes", "many"], ["--max-bytes", "8EiB"],
                                  ["--max-bytes", str(2**63)], ["--max-bytes", str(2**64 - 1)], ["--max-bytes", ""],
                                  ["--shared", "all"], ["--shared", ""], ["more"]])
def test_wrong_use_makes_nothing(ballast, args):
    ballast.fails(2, "store", "set", *args)
    assert not ballast.store.exists()


def test_a_limit_below_what_is_held_is_a_warning(ballast, model):
    ballast.do_import(model, "m")
    held = sum(file.stat().st_size for file in (ballast.store / "weight").rglob("*") if file.is_file())
    settings = shown(ballast, "--max-bytes", "1000")
    assert settings["n_bytes"] == held and len(settings["warnings"]) == 1
    assert "ballast prune" in settings["warnings"][0]
    ballast.verify("m")
    ballast.delete("m")


def test_what_a_newer_ballast_wrote_stays(ballast, model):
    ballast.do_import(model, "m")
    file = ballast.store / "store.json"
    format = format_of(ballast)
    format["features"]["compatible"] = ["from-the-future"]
    file.chmod(0o644)
    file.write_text(json.dumps({**format, "color": [1]}))
    ballast("store", "set", "--max-bytes", "10GiB")
    assert format_of(ballast)["color"] == [1] and format_of(ballast)["features"]["compatible"] == ["from-the-future"]


@pytest.mark.parametrize("member, value", [("max_bytes", "5"), ("max_bytes", 0), ("max_bytes", None), ("shared", 1)])
def test_damaged_settings(ballast, model, member, value):
    """Those who only read are not in the way; those who ask are told."""
    ballast.do_import(model, "m")
    file = ballast.store / "store.json"
    format = format_of(ballast)
    file.chmod(0o644)
    file.write_text(json.dumps({**format, member: value}))
    assert member in ballast.fails(4, "store", "set")
    ballast("model", "pull", "m", "--output", "out")


def test_another_user(ballast, nobody, model):
    store = nobody.home / "store-of-root"
    ballast.having(store=store).do_import(model, "m")
    reader = nobody.having(store=store)
    before = (store / "store.json").read_bytes()
    reader.fails(1, "store", "set", "--max-bytes", "5GiB")
    assert (store / "store.json").read_bytes() == before
    assert shown(reader)["n_bytes"] > 0
    # By the group's right he may, but only the folder's owner can open it to the group.
    os.chown(store, 0, os.stat(nobody.home).st_gid)
    store.chmod(0o775)
    assert "its owner" in reader.fails(1, "store", "set", "--shared", "group")
    assert (store / "store.json").read_bytes() == before
    ballast.having(store=store)("store", "set", "--shared", "group")
    source = models.make_model(nobody.home / "another")
    reader.do_import(source, "n")
    assert (store / "weight/models/n").stat().st_mode & 0o7777 == 0o2775
    reader.delete("m")
