"""The documents of --json, member by member, against tests/golden/json.

BALLAST_GOLDEN=write makes them anew: read the difference before it is committed, for scripts depend on them.
"""
import json
import os
import re
from pathlib import Path

import pytest

from support import models
from support.scenes import object_file

TOP = Path(__file__).parent.parent.parent
GOLDEN = TOP / "tests/golden/json"

# What differs from run to run stands in the golden files as one of these.
FIXED = {"created_at": 1700000000, "updated_at": 1700000000, "checked_at": 1700000000,
         "used_at": 1700000000, "elapsed_ms": 0, "manifest_sha256": "0" * 64, "host": "host",
         "ballast": "0.0.0", "version": "0.0.0", "message": "words", "text": "words",
         "verdict": "ok", "advice": "words", "n_notes": 0}


def plain(value, tmp):
    if isinstance(value, dict):
        return {k: FIXED[k] if k in FIXED and is_fixed(k, v) else plain(v, tmp) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v, tmp) for v in value]
    return value.replace(str(tmp), "/tmp/test") if isinstance(value, str) else value


def is_fixed(name, value):
    """Whether the value has the form that its fixed stand-in has; anything else is compared as it is."""
    if name == "version":
        return re.fullmatch(r"\d+\.\d+\.\d+", value) is not None
    if name == "manifest_sha256":
        return re.fullmatch("[0-9a-f]{64}", value) is not None
    # Words are for people, and may become better ones.
    if name == "advice" and value is None:
        return True
    if name in ("host", "ballast", "message", "text", "verdict", "advice"):
        return isinstance(value, str) and value != ""
    return isinstance(value, int) and value >= 0


def replace(document, inner):
    """The document with these members of its arrays' objects, where they are there and no null."""
    def item(value):
        return {k: inner[k] if k in inner and v is not None else v for k, v in value.items()} if isinstance(value, dict) else value
    return {k: [item(v) for v in value] if isinstance(value, list) else value for k, value in document.items()}


@pytest.fixture
def document(ballast, tmp_path):
    """document("name", args…, rc=0): the command's document is the golden file of that name, but for `differs`, numbers
    by their name; in the objects of its arrays, but for `inner`."""
    def check(name, *args, rc=0, differs={}, inner={}):
        result = ballast(*args, rc=rc, json=True)
        assert all(result.json[member] > 0 for member in differs)
        text = json.dumps(plain({**replace(result.json, inner), **differs}, tmp_path), indent=2) + "\n"
        file = GOLDEN / f"{name}.json"
        if os.environ.get("BALLAST_GOLDEN") == "write":
            file.write_text(text)
        assert text == file.read_text(), f"{name}.json is not what --json prints"
        return result.json
    return check


@pytest.fixture
def tiny(tmp_path):
    """A folder whose documents are short, with a name that JSON must escape."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    tensors = {"a.weight": ("BF16", [2, 3], bytes(range(12))), "a.\u00e9\n": ("F32", [1], b"\0\0\0\1")}
    (folder / "model.safetensors").write_bytes(models.safetensors(tensors, {"format": "pt"}))
    (folder / "config.json").write_text("{}")
    (folder / "run \"\u00e9\".sh").write_text("#!/bin/sh\n")
    (folder / "run \"\u00e9\".sh").chmod(0o755)
    return folder


def test_model_commands(document, ballast, tiny, tmp_path):
    (tiny / ".git").mkdir()
    document("list-empty", "model", "list")
    document("import-dry-run", "model", "import", tiny, "--dry-run")
    document("import", "model", "import", tiny, "--model-id", "acme/tiny", "--checkpoint-id", "tiny-1")
    document("import-again", "model", "import", tiny, "--model-id", "acme/tiny", "--checkpoint-id", "tiny-1")
    document("list", "model", "list")
    document("inspect", "model", "inspect", "tiny-1")
    document("inspect-files", "model", "inspect", "tiny-1", "--files")
    document("inspect-tensors", "model", "inspect", "tiny-1", "--tensors")
    document("verify", "model", "verify", "tiny-1", "--deep")
    document("pull", "model", "pull", "acme/tiny", "--output", "out", "--link=copy")
    document("pull-again", "model", "pull", "tiny-1", "--output", "out", "--link=copy")
    document("materialize-file", "model", "materialize-file", "tiny-1", "config.json", "c.json", "--link=copy")
    document("tag", "model", "tag", "tiny-1", "prod")
    document("tag-remove", "model", "tag", "--remove", "acme/tiny@prod")
    document("tag-list", "model", "tag", "--list", "acme/tiny")
    document("pin", "model", "pin", "tiny-1")
    document("unpin", "model", "unpin", "tiny-1")
    (tmp_path / "out/config.json").write_text("other")
    document("error-exists", "model", "pull", "tiny-1", "--output", "out", rc=5)
    # What it removes holds the host's name and times, in as many digits as they have.
    document("delete", "model", "delete", "tiny-1", differs={"n_bytes": 1114})
    document("error-not-found", "model", "inspect", "tiny-1", rc=3)


def test_doctor(document, ballast, model):
    """What a machine has or lacks are its verdicts; which things are looked at is the same on all."""
    ballast.do_import(model, "m")
    document("doctor", "doctor")


def test_damage(document, ballast, tiny):
    ballast.do_import(tiny, "m")
    files = ballast.store / "weight/models/m"
    weights = max((f for f in files.iterdir() if f.name.startswith("files")), key=lambda f: f.stat().st_size)
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.chmod(0o644)
    weights.write_bytes(data)
    document("verify-bad", "model", "verify", "m", rc=4)
    document("error-corrupt", "model", "pull", "m", "--output", "out", rc=4)
    (tiny / "config.json").write_text("{ }")
    object_file(ballast.store, "m", "config.json").unlink()
    document("repair", "model", "repair", "m", rc=4)


def test_copy(document, ballast, tiny, tmp_path):
    ballast.do_import(tiny, "tiny-1", "--model-id", "acme/tiny")
    document("copy", "model", "copy", "tiny-1", "--to", tmp_path / "second", "--checkpoint-id", "copy-1")


def test_files_and_folders(document, ballast, tiny, tmp_path):
    document("inspect-file", "model", "inspect", "./tiny/model.safetensors", "--tensors")
    (tiny / "model.safetensors.index.json").write_text('{"weight_map": {"b": "none.safetensors"}}')
    document("inspect-folder", "model", "inspect", "./tiny", "--files", rc=4)
    (tmp_path / "cut.safetensors").write_bytes((tiny / "model.safetensors").read_bytes()[:-1])
    document("error-header", "model", "inspect", "./cut.safetensors", rc=4)


def test_other_commands(document, tmp_path):
    document("version", "--version")
    document("help-config", "help", "config")
    document("config-init", "config", "init")
    document("config-show", "config", "show")
    document("store-set", "store", "set", "--max-bytes", "500GiB", "--shared", "group")
    document("error-invalid", "model", "lst", rc=2)


def test_failed_import(document, ballast, tiny):
    """A manifest as a killed import leaves it."""
    ballast.do_import(tiny, "m")
    file = ballast.store / "weight/models/m/manifest"
    manifest = json.loads(file.read_bytes())
    manifest.update(status="FAILED", error="import in progress")
    file.chmod(0o644)
    file.write_text(json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    document("list-failed", "model", "list")
    document("inspect-failed", "model", "inspect", "m")


def test_upkeep(document, ballast, tiny):
    """Numbers that differ: what control objects hold, and free space."""
    totals = {"stored_bytes": 1000, "free_bytes": 1 << 40}
    ballast.do_import(tiny, "tiny-1", "--model-id", "acme/tiny")
    document("stats", "stats", differs=totals, inner={"unique_bytes": 1000})
    document("prune", "prune", "--older-than", "0", differs={"used_bytes": 1000, "freed_bytes": 900},
             inner={"freed_bytes": 900})
    document("fsck-clean", "fsck")
    manifest = ballast.store / "weight/models/tiny-1/manifest"
    object_file(ballast.store, "tiny-1", "config.json").unlink()
    (manifest.parent / "notes").write_text("mine")
    document("fsck", "fsck", rc=4)
    manifest.unlink()
    (manifest.parent / "notes").unlink()
    document("gc", "gc", inner={"n_bytes": 900, "due_at": 1700003600}, differs={"next_at": 1700003600})
    document("gc-removed", "gc", "--grace", "0", differs={"n_bytes": 1000}, inner={"n_bytes": 900})


def members(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)


def test_every_member_is_documented():
    text = (TOP / "docs/json.md").read_text()
    for file in GOLDEN.glob("*.json"):
        for name in members(json.loads(file.read_text())):
            assert f"`{name}`" in text, f"{file.name}: {name} is not in docs/json.md"


def test_every_golden_file_is_used():
    used = set(re.findall(r'^    document\("([a-z-]+)"', Path(__file__).read_text(), re.MULTILINE))
    assert used == {file.stem for file in GOLDEN.glob("*.json")}


def test_every_error_has_its_exit_code():
    """The table of docs/errors.md against the code's."""
    documented = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", (TOP / "docs/errors.md").read_text(), re.MULTILINE))
    in_code = dict(re.findall(r'\] = \{"([a-z-]+)", (\d+),', (TOP / "src/base/error.c").read_text()))
    assert len(in_code) == 14 and documented == in_code
