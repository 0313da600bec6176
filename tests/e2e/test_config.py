"""Which store is used, and what says so."""
import json
import os

import pytest


@pytest.fixture
def bare(ballast):
    """The command without --store, so that the rest of the order decides: bare("config", "show", env=…)."""
    class Bare(type(ballast)):
        def line(self, *args):
            return [*self.prefix, self.binary, *map(os.fspath, args)]
    return Bare(ballast.binary, ballast.home, cwd=ballast.cwd)


def shown(command):
    return command("config", "show", json=True).json


def write_config(command, text):
    file = command.home / "config/ballast/config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_default_is_the_data_folder(bare, nobody):
    if os.geteuid() == 0:
        assert shown(bare)["store"] == {"value": "file:///var/lib/ballast", "from": "default"}
    nobody.line = lambda *args: [*nobody.prefix, nobody.binary, *map(os.fspath, args)]
    assert shown(nobody)["store"] == {"value": f"file://{nobody.home}/data/ballast", "from": "default"}


def test_order(bare):
    write_config(bare, '{"store": "/from/file"}')
    assert shown(bare)["store"] == {"value": "/from/file", "from": "user-file"}
    variable = bare.having(env={"BALLAST_STORE": "/from/variable"})
    variable.line = bare.line
    assert shown(variable)["store"] == {"value": "/from/variable", "from": "environment"}
    option = variable("--store", "/from/option", "config", "show", json=True).json
    assert option["store"] == {"value": "/from/option", "from": "option"}
    empty = bare.having(env={"BALLAST_STORE": ""})
    empty.line = bare.line
    assert shown(empty)["store"]["from"] == "user-file"


def test_show_for_people(bare):
    file = write_config(bare, '{"store": "/from/file"}')
    lines = bare("config", "show").text.splitlines()
    assert lines[0] == f"store:       /from/file (from {file})"
    assert lines[1] == f"user file:   {file}"
    assert lines[2].startswith("system file: /etc/ballast/config.json")


def test_init_then_use(bare, model):
    result = bare("config", "init", "--store", "./here").text
    file = bare.home / "config/ballast/config.json"
    assert json.loads(file.read_text()) == {"store": f"{bare.cwd}/here"}
    assert result == f"wrote {file}: store {bare.cwd}/here\n"
    bare("model", "import", model)
    assert (bare.cwd / "here/weight/models/model/manifest").exists()


def test_init_keeps_what_is_there(bare):
    file = write_config(bare, '{"store": "/old"}')
    line = bare.fails(5, "config", "init", "--store", "/new")
    assert str(file) in line and "--force" in line
    assert json.loads(file.read_text()) == {"store": "/old"}
    bare("config", "init", "--store", "/new", "--force")
    assert json.loads(file.read_text()) == {"store": "/new"}


def test_init_without_a_store_keeps_the_one_in_use(bare):
    variable = bare.having(env={"BALLAST_STORE": "/srv/models"})
    variable.line = bare.line
    result = variable("config", "init", json=True).json
    assert result["store"] == "/srv/models"
    assert json.loads((bare.home / "config/ballast/config.json").read_text()) == {"store": "/srv/models"}


@pytest.mark.parametrize("url", ["", "models", "\udcff/x"])
def test_init_refuses_what_is_no_store(bare, url):
    bare.fails(2, "config", "init", "--store", url)
    assert not (bare.home / "config/ballast/config.json").exists()


@pytest.mark.parametrize("text, fault", [
    ("", "line 1"),
    ("{", "line 1"),
    ('{"store": "/a",\n "store": "/b"}', "line 2"),
    ('{\n"store": "/a"\n} x', "line 3"),
    ("[]", "must be a JSON object"),
    ('{"store": 3}', '"store" must be a text'),
    ('{"store": ""}', '"store" must be a text'),
    ('{"store": "relative/path"}', "absolute path"),
])
def test_broken_file_is_named(bare, text, fault):
    file = write_config(bare, text)
    for args in (["config", "show"], ["model", "list"]):
        line = bare.fails(2, *args)
        assert str(file) in line and fault in line, line
    assert bare("--store", "./other", "model", "list").rc == 0
    bare("config", "init", "--force", "--store", "/mended")
    assert shown(bare)["store"]["value"] == "/mended"


def test_unknown_member_is_a_warning(bare):
    file = write_config(bare, '{"store": "/a", "colour": 1}')
    result = bare("config", "show", json=True)
    assert result.json["store"]["value"] == "/a"
    assert len(result.json["warnings"]) == 1
    assert result.warnings() == result.json["warnings"]
    assert str(file) in result.warnings()[0] and '"colour"' in result.warnings()[0]


def test_broken_store_names_what_said_so(bare):
    variable = bare.having(env={"BALLAST_STORE": "gopher://x"})
    variable.line = bare.line
    line = variable.fails(2, "model", "list")
    assert "gopher" in line and "BALLAST_STORE" in line
    assert "BALLAST_STORE" not in bare.fails(2, "model", "list", "--store", "gopher://x")
