"""Help and manual pages: they say what is there, and what they show runs."""
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
PAGES = sorted((TOP / "man").glob("*.scd"))


def section(page, name):
    text = page.read_text()
    found = re.search(rf"^# {name}\n(.*?)(?=^# |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page.name} has no {name}"
    return found.group(1)


def examples_of_page(page):
    """The lines between the fences of EXAMPLES."""
    blocks = re.findall(r"^```\n(.*?)^```$", section(page, "EXAMPLES"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def commands(ballast):
    return ballast("help", json=True).json["commands"]


@pytest.fixture
def scene(ballast, make_model):
    """A store with the checkpoint "my-model" and the folder that it came from; gives what runs a line in a shell there."""
    make_model("my-model", n_shards=1)
    env = {**ballast.env, "PATH": f"{Path(ballast.binary).parent}:{ballast.env['PATH']}", "BALLAST_STORE": f"file://{ballast.store}"}

    def shell(line):
        return subprocess.run(["sh", "-c", line], env=env, cwd=ballast.cwd, capture_output=True, timeout=60)

    assert shell("ballast model import ./my-model").returncode == 0
    return shell


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name.removesuffix(".1.scd"))
def test_examples_of_manual_pages_run(page, scene):
    lines = examples_of_page(page)
    assert lines, f"{page.name} has no examples"
    for line in lines:
        done = scene(line)
        assert done.returncode == 0, f"{page.name}: {line}: {done}"
        assert done.stdout != b"", f"{page.name}: {line} prints nothing"


def test_examples_of_help_run(ballast, scene):
    for command in commands(ballast):
        text = ballast("help", *command["name"].split()).text
        lines = text.split("\nexamples:\n")[1].split("\n\n")[0].splitlines()
        assert lines, command
        for line in lines:
            scene("ballast model import ./my-model")
            done = scene(line.strip())
            # "config init" twice in one home: the first one wrote the file.
            assert done.returncode == 0, f"{command['name']}: {line}: {done}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name.removesuffix(".1.scd"))
def test_manual_page_has_its_sections(page):
    name = page.name.removesuffix(".1.scd")
    text = page.read_text()
    assert text.startswith(f"{name}(1)\n")
    assert re.findall("^# (.*)$", text, re.MULTILINE) == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]
    assert section(page, "NAME").strip().startswith(f"{name} - ")


def test_see_also_names_pages_that_are_there():
    names = {page.name.removesuffix(".1.scd") for page in PAGES}
    for page in PAGES:
        for name in re.findall(r"\*(ballast[a-z-]*)\*\(1\)", page.read_text()):
            assert name in names, f"{page.name} names {name}"


def page_of(command):
    group, _, name = command["name"].partition(" ")
    if not name:
        own = TOP / "man" / f"ballast-{group}.1.scd"
        return own if own.exists() else TOP / "man/ballast.1.scd"
    return TOP / "man" / (f"ballast-{group}-{name}.1.scd" if group == "model" else f"ballast-{group}.1.scd")


def test_help_names_pages_that_are_there(ballast):
    for command in commands(ballast):
        for page in re.findall(r"\"man (ballast[a-z-]*)\"", ballast("help", *command["name"].split()).text):
            assert page_of(command) == TOP / "man" / f"{page}.1.scd", command


def options_of_help(ballast, command):
    text = ballast("help", *command["name"].split()).text
    if "\noptions:\n" not in text:
        return set()
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text.split("\noptions:\n")[1].split("\n\n")[0], re.MULTILINE))


def test_manual_pages_have_every_option(ballast):
    for command in commands(ballast):
        documented = set(re.findall(r"\*(--[a-z-]+)", section(page_of(command), "OPTIONS")))
        missing = options_of_help(ballast, command) - documented
        assert not missing, f"{command['name']}: {missing} not in {page_of(command).name}"


def test_manual_pages_have_no_other_option(ballast):
    overview = set(re.findall(r"--[a-z-]+", ballast("help").text))
    for page in PAGES:
        known = set(overview)
        for command in commands(ballast):
            if page_of(command) == page:
                known |= options_of_help(ballast, command)
        documented = set(re.findall(r"^\*?(?:-\w\*, \*)?(--[a-z-]+)", section(page, "OPTIONS"), re.MULTILINE))
        assert documented <= known, f"{page.name}: {documented - known}"


def test_overview_lists_every_command(ballast):
    text = ballast("help").text
    assert ballast("--help").text == text
    for command in commands(ballast):
        assert re.search(rf"^  {command['name']}  ", text, re.MULTILINE), command


def test_help_of_each_command(ballast):
    for command in commands(ballast):
        words = command["name"].split()
        text = ballast("help", *words).text
        assert text.startswith(f"usage: ballast {command['name']}")
        assert ballast(*words, "--help").text == text == ballast("-h", *words).text
        assert max(map(len, text.splitlines())) <= 90, command
        assert len(text.splitlines()) <= 40, command
        assert len(command["summary"]) <= 60


def test_help_of_a_group(ballast):
    text = ballast("help", "model").text
    assert ballast("model", "--help").text == text
    assert "model import" in text and "config init" not in text


def test_overview_groups_what_is_for_the_whole_store(ballast):
    parts = {part.split(":\n")[0]: part for part in ballast("help").text.split("\n\n") if ":\n" in part}
    names = {title: re.findall(r"^  ([a-z]+(?: [a-z-]+)?)  ", part, re.MULTILINE) for title, part in parts.items()}
    assert names["the store as a whole"] == ["stats", "prune", "fsck", "gc", "doctor", "store set"]
    assert names["help"] == ["help"]
