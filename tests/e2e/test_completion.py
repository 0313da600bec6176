"""What bash, zsh and fish offer, asked in these shells themselves."""
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
COMPLETIONS = TOP / "completions"


def bash_line(line):
    script = 'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; _ballast; printf "%s\\n" "${COMPREPLY[@]}"'
    return ["bash", "-c", script, "bash", COMPLETIONS / "ballast.bash", line]


def zsh_line(line):
    return ["zsh", "-f", TOP / "tests/support/complete.zsh", COMPLETIONS, line]


def fish_line(line):
    return ["fish", "--no-config", "-c", 'source "$argv[1]"; complete -C "$argv[2]"', COMPLETIONS / "ballast.fish", line]


@pytest.fixture
def ask(ballast):
    """ask(shell's line): what that prints, in surroundings where `ballast` is found."""
    env = {**ballast.env, "PATH": f"{Path(ballast.binary).parent}:{ballast.env['PATH']}", "TERM": "xterm",
           "BALLAST_STORE": f"file://{ballast.store}"}

    def run(argv):
        done = subprocess.run(list(map(str, argv)), env=env, cwd=ballast.cwd, capture_output=True, text=True, timeout=60)
        # bash's own "compopt" wants to be called by readline.
        assert done.returncode == 0 and all("compopt" in line for line in done.stderr.splitlines()), done
        return done.stdout.splitlines()
    return run


@pytest.fixture
def bash(ask):
    return lambda line: [offer for offer in ask(bash_line(line)) if offer]


@pytest.fixture
def zsh(ask):
    """Candidates, and the line as it then stands."""
    def offers(line):
        left, *candidates = ask(zsh_line(line))
        offers.line = left
        return candidates
    return offers


@pytest.fixture
def fish(ask):
    return lambda line: [offer.split("\t")[0] for offer in ask(fish_line(line))]


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request):
    """Candidates as whole words, in order."""
    offers = request.getfixturevalue(request.param)
    return lambda line: sorted(offers(line))


@pytest.fixture
def scene(ballast, make_model):
    ballast.do_import(make_model("a"), "qwen-1", "--model-id", "acme/qwen", "--revision", "v1.0")
    ballast.do_import(make_model("b"), "llama-1", "--model-id", "acme/llama")


def test_words(shell, scene):
    assert shell("ballast mo") == ["model"]
    assert {"model", "store", "config", "help"} <= set(shell("ballast "))
    assert shell("ballast store s") == ["set"]
    assert shell("ballast model i") == ["import", "inspect"]
    assert shell("ballast help model c") == shell("ballast model c")
    assert shell("ballast model pull qwen-1 --li") == ["--link"]
    assert shell("ballast -v model verify --de") == ["--deep"]
    assert "--max-bytes" in shell("ballast store set --m")


def test_names(shell, scene):
    assert shell("ballast model pull q") == ["qwen-1"]
    assert shell("ballast model pull acme/") == ["acme/llama", "acme/qwen"]
    assert shell("ballast model list ") == ["acme/llama", "acme/qwen"]
    assert shell("ballast model cat qwen-1 conf") == ["config.json"]
    assert shell("ballast model cat acme/qwen conf") == ["config.json"]
    assert shell("ballast model cat acme/qwen --path conf") == ["config.json"]
    assert shell("ballast model delete --checkpoint-id ll") == ["llama-1"]
    assert shell("ballast model cat no-such ") == []
    assert shell("ballast --store ./no model pull ") == []


def test_values_and_refs_of_other_commands(shell, scene):
    assert shell("ballast stats --sort un") == ["unique"]
    assert shell("ballast model tag acme/qwen ") == shell("ballast model tag qwen-1 v") == ["v1.0"]
    assert shell("ballast model pin ll") == ["llama-1"]
    assert len(shell("ballast model copy qwen-1 --to ./st")) == 1
    assert {"stats", "store"} <= set(shell("ballast s"))


def test_files(shell, scene, tmp_path):
    assert [name.rstrip("/").removeprefix("./") for name in shell("ballast model import ./a")] == ["a"]
    files = [name.rstrip("/").removeprefix("./") for name in shell("ballast model materialize-file qwen-1 config.json ./")]
    assert {"a", "b", "home", "store"} <= set(files)
    (tmp_path / "with a blank").mkdir()
    assert len(shell("ballast model pull qwen-1 --output ./with")) == 1


# A shell that ends a word at "=" or "@" offers what is behind it.


def test_values_in_one_word(bash, zsh, fish, scene):
    assert bash("ballast model delete --checkpoint-id=ll") == zsh("ballast model delete --checkpoint-id=ll") == ["llama-1"]
    assert zsh.line == "ballast model delete --checkpoint-id=llama-1 "
    assert fish("ballast model delete --checkpoint-id=ll") == ["--checkpoint-id=llama-1"]
    assert bash("ballast model pull --link=re") == zsh("ballast model pull --link=re") == ["reflink"]
    assert fish("ballast model pull --link=re") == ["--link=reflink"]
    assert bash("ballast store set --shared=") == zsh("ballast store set --shared=") == ["umask", "group"]
    assert fish("ballast store set --shared=g") == ["--shared=group"]
    assert bash("ballast model pull qwen-1 --output=./a") == ["./a"]
    assert zsh("ballast model pull qwen-1 --output=./a") == ["a"]
    assert zsh.line == "ballast model pull qwen-1 --output=./a/"
    assert fish("ballast model pull qwen-1 --output=./a") == ["--output=./a/"]


def test_refs(bash, zsh, fish, scene):
    assert bash("ballast model pull acme/qwen@") == ["v1.0"]
    assert zsh("ballast model pull acme/qwen@") == fish("ballast model pull acme/qwen@") == ["acme/qwen@v1.0"]
    assert zsh.line == "ballast model pull acme/qwen@v1.0 "
    assert bash("ballast model pull acme/llama@m") == ["main"]
    assert fish("ballast model pull no/such@") == []


def test_zsh_finishes_the_line(zsh, scene, tmp_path):
    assert zsh("ballast mo") == ["model"] and zsh.line == "ballast model "
    assert zsh("ballast model pull qw") == ["qwen-1"] and zsh.line == "ballast model pull qwen-1 "
    assert zsh("ballast model pull acme/") and zsh.line == "ballast model pull acme/"
    (tmp_path / "with a blank").mkdir()
    assert zsh("ballast model import ./with") and zsh.line == "ballast model import ./with\\ a\\ blank/"
    assert zsh("ballast --store './with a blank' model pull ") == []


def test_names_that_shells_would_expand(zsh, fish, ballast, make_model):
    folder = make_model("c")
    (folder / "$HOME *.json").write_text("{}")
    ballast.do_import(folder, "m")
    assert fish("ballast model cat m \\$H") == ["$HOME *.json"]
    assert len(zsh("ballast model cat m \\$H")) == 1
    assert zsh.line == "ballast model cat m \\$HOME\\ \\*.json "


def test_completion_never_fails(ballast):
    for words in ([], ["x"], ["-1", "a"], ["99", "a"], ["0"], ["1", "model"], ["2", "--store", "gopher://x"],
                  ["3", "--store", "gopher://x", "model", "pull"], ["2", "model", "pull", "@"], ["2", "model", "pull", "a@b@c"]):
        done = subprocess.run([ballast.binary, "__complete", *words], env=ballast.env, capture_output=True)
        assert done.returncode == 0 and done.stderr == b"", (words, done)
