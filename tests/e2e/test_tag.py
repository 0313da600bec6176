"""Refs by hand: tag, and what names mean then; pins."""
import json
import time

import pytest


@pytest.fixture
def two(ballast, make_model):
    """Two checkpoints of the model org/m: "a", which is main, and "b"."""
    ballast("model", "import", make_model("one"), "--model-id", "org/m", "--checkpoint-id", "a")
    ballast("model", "import", make_model("two", seed=2), "--model-id", "org/m", "--checkpoint-id", "b",
            "--revision", "dev")
    return ballast


def refs(ballast, *args):
    listed = ballast("model", "tag", "--list", *args, json=True).json["refs"]
    return {f"{r['model_id']}@{r['ref']}": r["checkpoint_id"] for r in listed}


def means(ballast, name):
    return ballast("model", "inspect", name, json=True).json["checkpoint_id"]


def test_set_move_remove(two):
    assert refs(two) == {"org/m@main": "a", "org/m@dev": "b"}
    two("model", "tag", "a", "prod")
    assert means(two, "org/m@prod") == "a"
    assert '--move gives it to "b"' in two.fails(5, "model", "tag", "b", "prod")
    assert means(two, "org/m@prod") == "a"
    assert two("model", "tag", "a", "prod", json=True).json["outcome"] == "already-there"
    moved = two("model", "tag", "--move", "org/m@dev", "prod", json=True).json
    assert (moved["outcome"], moved["previous"]) == ("moved", "a") and means(two, "org/m@prod") == "b"
    two("model", "tag", "--remove", "org/m@prod")
    assert "org/m@prod" not in refs(two, "org/m")
    assert 'no ref "prod"' in two.fails(3, "model", "tag", "--remove", "org/m", "prod")
    two("model", "tag", "--remove", "org/m", "dev")
    assert refs(two) == {"org/m@main": "a"}
    assert refs(two, "org/other") == {}


def test_names_mean_what_they_are_tagged(two):
    commit = two("model", "inspect", "b", json=True).json["commit"]
    for name in ("b", "org/m@dev", f"org/m@{commit}", f"org/m@{commit[:7]}", commit, commit[:7]):
        assert means(two, name) == "b"
    for name in (f"org/m@{commit[:6]}", commit[:6], "0123456"):
        two.fails(3, "model", "inspect", name)
    two("model", "tag", "--move", "b", "main")
    assert means(two, "org/m") == "b"
    two("model", "tag", "--remove", "org/m@main")
    assert "ballast model tag" in two.fails(2, "model", "inspect", "org/m")


def test_wrong_use(two):
    for args in (("a",), ("a", "x", "y"), ("--remove", "org/m"), ("--list", "--remove", "org/m@main"),
                 ("--move", "--remove", "org/m@main"), ("--list", "a", "b"), ("a", ""), ("a", "x@y"), ("--move",),
                 ("a", "0" * 40), ("--remove", "@"), ("--remove",), ("--list", "--checkpoint-id", "a")):
        two.fails(2, "model", "tag", *args)
    two.fails(3, "model", "tag", "none", "x")
    assert refs(two) == {"org/m@main": "a", "org/m@dev": "b"}


def test_only_what_can_be_used_is_tagged(two):
    file = two.store / "weight/models/a/manifest"
    manifest = json.loads(file.read_bytes())
    file.chmod(0o644)
    file.write_text(json.dumps(manifest | {"status": "FAILED", "error": "import failed"}))
    assert "import failed" in two.fails(4, "model", "tag", "a", "prod")
    assert "org/m@prod" not in refs(two)


def test_dangling_refs(two):
    folder = two.store / "weight/models/b"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    listed = {r["ref"]: r["dangling"] for r in two("model", "tag", json=True).json["refs"]}
    assert listed == {"main": False, "dev": True}
    assert "dangling" in two("model", "tag").text
    assert '"ballast model tag --move ID dev"' in two.fails(3, "model", "inspect", "org/m@dev")
    two("model", "tag", "--move", "a", "dev")
    assert means(two, "org/m@dev") == "a"


def test_a_damaged_ref(two):
    for file in (two.store / "weight/refs").glob("*/*"):
        if json.loads(file.read_bytes())["ref"] == "dev":
            file.chmod(0o644)
            file.write_text("{")
    assert two("model", "tag").warnings()
    two.fails(4, "model", "tag", "b", "dev")
    two("model", "tag", "--remove", "org/m@dev")
    two("model", "tag", "b", "dev")
    assert means(two, "org/m@dev") == "b"


def test_many_setters_at_once(two):
    """Of several, one wins; the refs that others set beside it are there, too."""
    runs = [two.start("model", "tag", "a" if i % 2 else "b", "prod") for i in range(8)]
    runs += [two.start("model", "tag", "a", f"own-{i}") for i in range(8)]
    codes = [run.wait(60) for run in runs]
    for run in runs:
        run.stdout.close(), run.stderr.close()
    assert sorted(set(codes[:8])) == [0, 5] and codes[8:] == [0] * 8
    winner = "a" if codes[1] == 0 else "b"
    assert [code == 0 for code in codes[:8]] == [("a" if i % 2 else "b") == winner for i in range(8)]
    assert means(two, "org/m@prod") == winner
    assert len(refs(two)) == 2 + 1 + 8


def test_tag_beside_delete(two, make_model, store_walk):
    """Whatever the moment: no ref is left that means what is gone."""
    model = make_model("three", seed=3)
    for i in range(12):
        two("model", "import", model, "--model-id", "org/m", "--checkpoint-id", "c", "--revision", "c")
        taggers = [two.start("model", "tag", "--move", "c", "prod") for _ in range(3)]
        time.sleep(0.001 * (i % 4))
        two.delete("c")
        for run in taggers:
            assert run.wait(60) in (0, 3, 4, 5)
            run.stdout.close(), run.stderr.close()
        assert "c" not in refs(two).values()
        store_walk().assert_clean()


def test_pins(two):
    assert two("model", "pin", "org/m", json=True).json == {
        "checkpoint_id": "a", "pinned": True, "changed": True, "warnings": []}
    assert not two("model", "pin", "a", json=True).json["changed"]
    assert "READY, pinned" in two("model", "list").text
    assert two("model", "inspect", "a", json=True).json["pinned"]
    two.verify("a")  # records its time beside the pin
    assert two("model", "unpin", "a", json=True).json["changed"]
    assert not two("model", "unpin", "a", json=True).json["changed"]
    assert not two("model", "inspect", "a", json=True).json["pinned"]
    two.fails(3, "model", "pin", "none")
    two("model", "pin", "a")
    two.delete("a")
    two.fails(3, "model", "unpin", "a")


def test_list_of_a_model_without_refs(two):
    assert two.told("model", "tag", "--list", "org/none").startswith('no refs of model "org/none" in ')
