"""Names are bytes, as long as they are UTF-8."""
import json
import os

import pytest

from support import models

NAMES = [
    "with space.json", "new\nline", "tab\there", "-leading-dash", "--help", "trailing.", "trailing ", " leading",
    "caf\u00e9.txt", "cafe\u0301.txt", "A.txt", "a.txt", "quote\"s'", "back\\slash", "semi;colon&|$(x)`y`", "%41%2F", "a,b",
    "*?[x]", "#hash?query", "\u202egnp.exe", "\U0001f999", "x" * 255, "\u00e9" * 127, "con", "NUL", "~", "\x01\x1b[31mred", "...",
    "{}", "@", "manifest", "claim", ".tmp-x", ".hidden",
]


def test_every_name_comes_back(ballast, tmp_path):
    source = tmp_path / "names"
    (source / "dir with\nnewline/é").mkdir(parents=True)
    (source / "dir with\nnewline/é/-f").write_text("nested")
    for name in NAMES:
        (source / name).write_text(f"this is {name!r}")
    ballast.do_import(source, "m")
    ballast.verify("m")
    ballast("model", "pull", "m", "--output", tmp_path / "out")
    assert models.contents(tmp_path / "out") == models.contents(source)
    files = ballast("model", "inspect", "m", "--files", json=True).json["files"]
    assert sorted(f["path"] for f in files) == sorted([*NAMES, "dir with\nnewline/é/-f"])
    for name in ("new\nline", "-leading-dash", "caf\u00e9.txt", "cafe\u0301.txt"):
        got = ballast("model", "cat", "--path", name, "m")
        assert got.text == f"this is {name!r}"


def test_output_shows_names_on_one_line(ballast, tmp_path):
    source = tmp_path / "names"
    source.mkdir()
    (source / "a\nb\x1b[31m").write_text("x")
    ballast.do_import(source, "m")
    text = ballast("model", "inspect", "m", "--files").text
    assert "\x1b" not in text and r"a\nb\x1b[31m" in text


@pytest.mark.parametrize("name", [b"\xff", b"caf\xe9.txt", b"dir\xfe/file", b"\xed\xa0\x80", b"\xc0\x80"])
def test_not_utf8_is_refused(ballast, model, name, store_walk):
    path = os.path.join(os.fsencode(model), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"x")
    error = ballast.fails(4, "model", "import", model, "--checkpoint-id", "m")
    assert "UTF-8" in error and "".join(f"\\x{b:02x}" for b in name if b > 127) in error
    assert not store_walk().statuses


def test_twins_on_a_file_system_that_ignores_case(ballast, make_model, tmp_path, loopfs):
    model = make_model()
    (model / "Readme").write_text("upper")
    (model / "README").write_text("all upper")
    ballast.do_import(model, "m")
    out = loopfs("exfat", 64) / "out"
    error = ballast.fails((1, 5), "model", "pull", "m", "--output", out)
    assert "Readme" in error or "README" in error
    found = models.contents(out) if out.exists() else {}
    assert not {"Readme", "README"} <= set(found)


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../evil", "a//b", "./a", "a/.", "", "a/", "\0", "a\0b"])
def test_paths_that_escape_are_refused_in_a_manifest(ballast, model, path, tmp_path):
    """A manifest that someone else wrote is no reason to write outside the folder."""
    ballast.do_import(model, "m")
    file = ballast.store / "weight/models/m/manifest"
    manifest = json.loads(file.read_bytes())
    manifest["files"][0]["path"] = path
    manifest["files"].sort(key=lambda f: f["path"])
    file.chmod(0o644)
    file.write_text(json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    before = sorted(tmp_path.rglob("*"))
    error = ballast.fails(4, "model", "pull", "m", "--output", tmp_path / "out")
    assert '"m"' in error or "m" in error.split()
    assert sorted(p for p in tmp_path.rglob("*") if "out" not in p.parts) == before
    ballast.verify("m", rc=4)
    ballast.delete("m")
    assert ballast.status("m") is None


@pytest.mark.parametrize("option", ["--model-id", "--revision"])
@pytest.mark.parametrize("value", ["", "a\nb", "x" * 2000])
def test_bad_model_ids_and_revisions(ballast, model, option, value):
    ballast.fails(2, "model", "import", model, f"{option}={value}")
