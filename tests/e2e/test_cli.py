"""The command line itself: options, errors, output, progress, signals."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from support import models


@pytest.fixture
def raw(ballast):
    """The command without -q: raw(args…) gives (rc, out, err)."""
    def run(*args, **kwargs):
        line = [ballast.binary, "--store", f"file://{ballast.store}", *map(os.fspath, args)]
        done = subprocess.run(line, env=ballast.env, cwd=ballast.cwd, capture_output=True, timeout=60, **kwargs)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return run


@pytest.fixture
def large(tmp_path):
    """A folder whose import takes a while: 600 MiB, sparse, so that it costs nothing to make."""
    folder = tmp_path / "large"
    folder.mkdir()
    for i in range(3):
        with open(folder / f"part-{i}.bin", "wb") as f:
            f.truncate(200 << 20)
    return folder


# --- words and options


@pytest.mark.parametrize("args, text", [
    (["imprt"], 'did you mean "ballast model import"?'),
    (["model", "imprt"], 'did you mean "ballast model import"?'),
    (["modle"], 'did you mean "ballast model"?'),
    (["import"], 'did you mean "ballast model import"?'),
    (["model", "rm"], 'did you mean "ballast model delete"?'),
    (["ls"], 'did you mean "ballast model list"?'),
    (["config", "shwo"], 'did you mean "ballast config show"?'),
    (["xyzzy"], '(see "ballast help")'),
    (["model", "xyzzy"], '(see "ballast help model")'),
    (["help", "model", "pul"], 'did you mean "ballast model pull"?'),
    (["model", "list", "--jsn"], "did you mean --json?"),
    (["model", "import", ".", "--incldue", "x"], "did you mean --include?"),
    (["model", "import", ".", "--chekpoint-id=x"], "did you mean --checkpoint-id?"),
    (["model", "list", "--xyzzy"], '(see "ballast help model list")'),
    (["model", "list", "-x"], "unknown option -x"),
    (["model", "import"], "SOURCE is missing"),
    (["model", "pull"], "CHECKPOINT is missing"),
    (["model", "cat", "m"], "PATH is missing"),
    (["model", "materialize-file", "m", "p"], "OUTPUT is missing"),
    (["model", "delete", "a", "b"], '"b" is one argument too many'),
    (["model", "pull", "m", "--link", "soft"], "auto, reflink, hardlink, symlink, copy"),
    (["model", "delete", "m", "--wait=soon"], "is not a number of seconds"),
    (["model", "import", ".", "--replica-num", "none"], "is not a number from 1 on"),
    (["model", "import", ".", "--output"], "missing argument for --output"),
    (["model", "pull", "m", "--output"], "missing argument for --output"),
    (["model", "verify", "--checkpoint-id", "no/id"], "no/id"),
    (["model", "li\nst"], 'li\\nst'),
])
def test_wrong_use(ballast, args, text):
    if args[-2:] == [".", "--output"]:
        text = "unknown option --output"
    assert text in ballast.fails(2, *args)


def test_no_command_is_usage(raw):
    for args in ([], ["model"], ["config"], ["--json"], ["-v", "model"]):
        rc, out, err = raw(*args)
        assert rc == 2
        assert ("usage: ballast" in err and out == "") or json.loads(out)["error"]["code"] == "invalid"


def test_global_options_stand_anywhere(ballast, tmp_path):
    store = f"file://{tmp_path}/elsewhere"
    for args in (["--store", store, "--json", "model", "list"], ["model", "--json", "--store", store, "list"],
                 ["model", "list", f"--store={store}", "--json"], ["--json", "model", "--store", store, "list"]):
        done = subprocess.run([ballast.binary, *args], env=ballast.env, capture_output=True)
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["store"].endswith("elsewhere")


def test_version(ballast):
    assert re.fullmatch(r"ballast \d+\.\d+\.\d+\n", ballast("--version").text)
    assert ballast("--version", json=True).json["version"] == ballast("--version").text.split()[1]


@pytest.mark.plain
def test_version_starts_fast(ballast):
    times = []
    for _ in range(20):
        start = time.monotonic()
        subprocess.run([ballast.binary, "--version"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.monotonic() - start)
    # 5 ms is the goal; the fork of a large Python is in this number, too.
    assert min(times) < 0.010


def test_peer_flags(ballast, model, tmp_path):
    ballast("model", "import", "--source", model, "--model-id", "acme/m", "--checkpoint-id", "m-1", "--revision", "r",
            "--replica-num", "2", "--file-chunk-size", "1KB")
    ballast("model", "inspect", "--checkpoint-id", "m-1")
    ballast("model", "verify", "--checkpoint-id", "m-1")
    assert "m-1" in ballast("model", "list", "--model-id", "acme/m").text
    ballast("model", "materialize-file", "--checkpoint-id", "m-1", "--path", "config.json", "--output", tmp_path / "c.json")
    assert (tmp_path / "c.json").read_bytes() == (model / "config.json").read_bytes()
    assert ballast("model", "cat", "--checkpoint-id", "m-1", "--path", "config.json").out == (model / "config.json").read_bytes()
    ballast("model", "delete", "--checkpoint-id", "m-1")


def test_replica_num_is_ignored_aloud(raw, model):
    assert "--replica-num is ignored on a local store" in raw("-v", "model", "import", model, "--replica-num", "3")[2]
    assert "replica" not in raw("model", "import", model, "--replica-num", "3")[2]


@pytest.mark.parametrize("text, size", [
    ("1000", 1000), ("1024B", 1024), ("4k", 4096), ("4KB", 4096), ("4 KiB", 4096), ("1MB", 1 << 20), ("1mib", 1 << 20),
    ("1.5KiB", 1536), ("2GiB", None), ("1TB", None), ("1P", None),
])
def test_sizes(ballast, model, text, size):
    ballast.do_import(model, "m", "--file-chunk-size", text)
    files = ballast("model", "inspect", "m", "--files", json=True).json["files"]
    tokenizer = next(f for f in files if f["path"] == "tokenizer.json")
    assert tokenizer["n_chunks"] == (1 if size is None or size >= 3000 else -(-3000 // size))


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "1X", "1KBs", "KB", "1e3", "1.5e1K", "0x10", "1.K", "18446744073709551616",
                                  "17592186044416M", "99999999P"])
def test_sizes_refused(ballast, model, text):
    assert "--file-chunk-size" in ballast.fails(2, "model", "import", model, f"--file-chunk-size={text}")
    assert not ballast.store.exists()


@pytest.mark.parametrize("text, cut", [
    ("0-0", slice(0, 1)), ("10-19", slice(10, 20)), ("2990-", slice(2990, 3000)), ("-7", slice(2993, 3000)),
    ("-99999", slice(0, 3000)), ("2999-99999", slice(2999, 3000)), ("0-", slice(0, 3000)),
])
def test_ranges(ballast, model, text, cut):
    ballast.do_import(model, "m")
    data = (model / "tokenizer.json").read_bytes()
    assert ballast("model", "cat", "m", "tokenizer.json", f"--range={text}").out == data[cut]


@pytest.mark.parametrize("text", ["", "-", "5", "-0", "7-3", "a-b", "1-2-3", "3000-", " 1-2", "99999999999999999999-"])
def test_ranges_refused(ballast, model, text):
    ballast.do_import(model, "m")
    assert "--range" in ballast.fails(2, "model", "cat", "m", "tokenizer.json", f"--range={text}")


def test_double_dash_ends_options(ballast, model):
    (model / "--range").write_text("odd")
    ballast.do_import(model, "m")
    assert ballast("model", "cat", "--", "m", "--range").out == b"odd"


def test_paths_are_bytes(ballast, make_model, tmp_path):
    source = make_model()
    odd = os.fsencode(tmp_path) + b"/m\xff \n"
    os.rename(source, odd)
    for locale in ("C", "C.UTF-8"):
        command = ballast.having(env={"LC_ALL": locale})
        command("model", "import", odd, "--model-id", "m", "--checkpoint-id", f"m-{locale}")
        out = os.fsencode(tmp_path) + b"/out\xfe " + locale.encode()
        result = command("model", "pull", f"m-{locale}", "--output", out, json=True).json
        assert result["output"].endswith("out\\xfe " + locale)
        assert models.contents(os.fsdecode(out)) == models.contents(os.fsdecode(odd))


# --- output


def test_errors_as_json(ballast):
    for args, code, rc in ((["model", "inspect", "none"], "not-found", 3), (["model", "lst"], "invalid", 2),
                           (["model", "list", "--nope"], "invalid", 2), (["model", "cat", "m", "x"], "invalid", 2)):
        result = ballast(*args, "--json", rc=rc)
        assert result.json["error"]["code"] == code
        assert result.json["error"]["exit_code"] == rc
        assert result.json["error"]["message"] == result.error


def test_a_word_behind_double_dash_is_no_option(ballast):
    result = ballast("model", "inspect", "--", "--json", rc=3)
    assert result.out == b"" and '"--json"' in result.error


def test_inspect_names_a_file_that_may_be_meant(ballast, model):
    there = ballast.having(cwd=model)
    line = there.fails(3, "model", "inspect", "config.json")
    assert '"ballast model inspect ./config.json"' in line
    assert "ballast model inspect ./" not in there.fails(3, "model", "inspect", "nothing.json")


def test_full_output_is_an_error(ballast, model):
    ballast.do_import(model, "m")
    with open("/dev/full", "wb") as full:
        for args in (["model", "list"], ["model", "list", "--json"], ["--version"], ["help"], ["model", "cat", "m", "config.json"]):
            process = ballast.start(*args, stdout=full)
            err = process.communicate()[1].decode()
            assert process.returncode == 1
            assert err.count("\n") == 1 and "No space left on device" in err, err


def test_reader_that_goes_away_is_no_noise(ballast, make_model):
    """As `ballast … | head -c 1`."""
    ballast.do_import(make_model(n_shards=1, n_tensors=1, tensor_bytes=4 << 20), "m")
    for args in (["model", "cat", "m", "model.safetensors"], ["model", "list"], ["help"]):
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as pipe:
            process = ballast.start(*args, stdout=pipe)
        assert process.stderr.read() == b""
        assert process.wait(30) == 0, args


def test_closed_output_is_an_error(ballast):
    line = " ".join(ballast.line("--version"))
    done = subprocess.run(["sh", "-c", f"{line} >&-"], env=ballast.env, capture_output=True)
    assert done.returncode == 1 and b"standard output" in done.stderr


def test_empty_store_gives_a_hint(ballast, raw):
    assert "ballast model import" in raw("model", "list")[1]
    assert not ballast.store.exists()


def test_table_aligns(ballast, make_model):
    ballast.do_import(make_model("a"), "a-1", "--model-id", "模型/é")
    ballast.do_import(make_model("b"), "b-1234567", "--model-id", "m")
    head, first, second = ballast("model", "list").text.splitlines()
    wide = lambda text: sum(2 if ord(c) > 0x2e80 else 1 for c in text)
    at = head.index("REVISION")
    assert wide(first[:first.index("main")]) == at == wide(second[:second.index("main")])


def test_names_are_escaped_for_people(ballast, make_model):
    folder = make_model()
    (folder / "a\x1b[31m\nb.txt").write_text("x")
    ballast.do_import(folder, "m")
    text = ballast("model", "inspect", "m", "--files").text
    assert "a\\x1b[31m\\nb.txt" in text and "\x1b" not in text
    files = ballast("model", "inspect", "m", "--files", json=True)
    assert "a\x1b[31m\nb.txt" in [f["path"] for f in files.json["files"]]
    assert files.out.isascii()


def test_tensor_names_are_escaped(ballast, tmp_path):
    name = "t\x00\x1b]0;x\x07\n\u202e"
    file = tmp_path / "t.safetensors"
    file.write_bytes(models.safetensors({name: ("U8", [1], b"x"), "": ("U8", [1], b"y")}))
    text = ballast("model", "inspect", "./t.safetensors", "--tensors").text
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b]0;x" in text
    tensors = ballast("model", "inspect", "./t.safetensors", "--tensors", json=True).json["tensors"]
    assert [t["name"] for t in tensors] == [name, ""]


def test_gguf_names_are_bytes(ballast, tmp_path):
    """A tensor's name there may be no UTF-8: it is shown, in a form that JSON can hold."""
    text = lambda data: struct.pack("<Q", len(data)) + data
    header = (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text(b"general.architecture") + struct.pack("<I", 8) + text(b"x")
              + text(b"w\xff\x1b") + struct.pack("<IQIQ", 1, 4, 0, 0))
    (tmp_path / "t.gguf").write_bytes(header + bytes(-len(header) % 32 + 16))
    assert "\nw\\xff\\x1b  F32" in ballast("model", "inspect", "./t.gguf", "--tensors").text
    shown = ballast("model", "inspect", "./t.gguf", "--tensors", json=True).json
    assert shown["tensors"] == [{"name": "w\\xff\\x1b", "dtype": "F32", "shape": [4], "file": "./t.gguf",
                                 "offset": len(header) + -len(header) % 32, "size": 16}]
    assert shown["model_files"][0]["metadata"][0]["value"] == "x"


def test_pull_into_the_models_name(ballast, model):
    ballast.do_import(model, "m-1", "--model-id", "acme/thing")
    ballast("model", "pull", "m-1")
    assert (ballast.cwd / "thing/config.json").exists()
    for odd in ("acme/..", "acme/", "."):
        ballast.do_import(model, "m-2", "--model-id", odd)
        assert ballast("model", "pull", "m-2", "--force", json=True).json["output"] == "./m-2"
        ballast.delete("m-2")


# --- progress


def on_terminal(ballast, args, columns=80, env=None):
    """Runs on a terminal of its own; gives (rc, everything that was written)."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    line = [ballast.binary, "--store", f"file://{ballast.store}", *map(os.fspath, args)]
    process = subprocess.Popen(line, env={**ballast.env, "TERM": "xterm", **(env or {})}, cwd=ballast.cwd,
                               stdin=side, stdout=side, stderr=side, start_new_session=True)
    os.close(side)
    seen = b""
    while True:
        if select.select([main], [], [], 60)[0] == []:
            process.kill()
            raise AssertionError(f"nothing for a minute after {seen[-200:]!r}")
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(main)
    return process.wait(60), seen.decode()


def frames(seen):
    """What stood on the bar's line, one picture after the other."""
    return [part.split("\r")[0].split("\n")[0] for part in seen.split("\r\x1b[K")[1:]]


@pytest.mark.parametrize("columns", [200, 80, 20, 8])
def test_bar(ballast, large, columns):
    rc, seen = on_terminal(ballast, ["model", "import", large], columns)
    assert rc == 0, seen
    bars = [f for f in frames(seen) if "%" in f]
    assert bars, seen
    # "^C" fits behind it, and does not wrap.
    assert all(len(f) <= max(columns - 3, 1) for f in frames(seen)[:-1]), seen
    if columns >= 80:
        assert any(re.search(r"\d+%  \[=*>? *\]  [\d.]+ \wi?B of 600 MiB  [\d.]+ [MG]iB/s", f) for f in bars), bars
        assert any(re.search(r"\d:\d\d left", f) for f in bars), bars
    # The line is clear before the result is printed.
    assert "\r\x1b[Kimported large" in seen


def test_no_bar_where_it_is_not_wanted(ballast, large, raw):
    assert "\x1b" not in on_terminal(ballast, ["-q", "model", "import", large])[1]
    assert "\x1b" not in on_terminal(ballast, ["model", "verify", "large"], env={"TERM": "dumb"})[1]
    rc, out, err = raw("model", "verify", "large")
    assert rc == 0 and err == "" and "all right" in out
    assert raw("model", "verify", "large", "--json")[2] == ""


def test_quiet_is_silent_where_all_is_well(ballast, raw, model, tmp_path):
    """-q leaves errors, warnings, and what was asked for: a table, a file, a verdict that is bad."""
    steps = [["import", model, "--checkpoint-id", "m"], ["import", model, "--checkpoint-id", "m"], ["verify", "m"],
             ["pull", "m", "--output", tmp_path / "out"], ["pull", "m", "--output", tmp_path / "out"],
             ["materialize-file", "m", "config.json", tmp_path / "c.json"]]
    for args in steps:
        assert raw("-q", "model", *args) == (0, "", ""), args
        assert raw("model", *args)[1] != "", args
    assert "m " in raw("-q", "model", "list")[1]
    assert "would import" in raw("-q", "model", "import", model, "--checkpoint-id", "n", "--dry-run")[1]
    next(p for p in ballast.store.rglob("files,*") if p.is_file()).unlink()
    rc, out, err = raw("-q", "model", "verify", "m")
    assert rc == 4 and "missing" in out and err == ""
    assert raw("-q", "model", "delete", "m") == (0, "", "")


def test_list_tells_that_there_is_more_to_know(ballast, raw, model):
    ballast.do_import(model, "good")
    ballast.do_import(model, "bad")
    manifest = next(p for p in ballast.store.rglob("manifest") if p.parent.name == "bad")
    manifest.unlink()
    manifest.write_text("no manifest")
    rc, out, err = raw("model", "list")
    assert rc == 0 and re.search(r"^bad +- +- +CORRUPT +- +- +-$", out, re.M), out
    assert out.splitlines()[-1] == '1 is not READY ("ballast model list -v" says why)'
    assert "READY (" not in raw("-q", "model", "list")[1]
    assert raw("-v", "model", "list")[1].splitlines()[-1].startswith("bad: manifest of checkpoint")


def test_a_mended_checkpoint_is_called_so(ballast, raw, model):
    ballast.do_import(model, "m")
    assert raw("model", "import", model, "--checkpoint-id", "m")[1].startswith("already there: m ")
    next(p for p in ballast.store.rglob("files,*") if p.is_file()).unlink()
    lines = raw("model", "import", model, "--checkpoint-id", "m")[1].splitlines()
    assert lines[0].startswith("mended: ") and lines[1].startswith("mended m "), lines


def test_many_small_files_are_counted(raw, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(120):
        (folder / f"{i}.txt").write_text("x")
    assert re.search(r"^120 files, 120 B in \S+ \w+ \(\d+ files/s\)$", raw("model", "import", folder)[1], re.M)


def test_lines_where_there_is_no_terminal(ballast, large):
    """One about every ten seconds: the process sleeps through the first ten."""
    line = [word for word in ballast.line("model", "import", large) if word != "-q"]
    process = subprocess.Popen(line, env=ballast.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while sum(f.stat().st_blocks for f in ballast.store.glob("weight/models/*/*")) < 100_000:
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    time.sleep(10.5)
    process.send_signal(signal.SIGCONT)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0
    assert re.fullmatch(r"ballast: \w+, \d+%, .* of 600 MiB.*\n", err), err


# --- signals


def is_underway(ballast):
    return any((ballast.store / "weight/models").glob("*/manifest")) if ballast.store.exists() else False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_import_goes_on(ballast, large, number):
    process = ballast.start("model", "import", large)
    while not is_underway(ballast):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and out == b""
    assert err.decode().startswith("ballast: interrupted: ") and "run the same command again" in err.decode()
    assert err.count(b"\n") == 1
    assert ballast.status("large") == "FAILED"
    assert ballast("model", "import", large, json=True).json["outcome"] == "imported"


def test_interrupted_as_json(ballast, large):
    process = ballast.start("model", "import", large, "--json")
    while not is_underway(ballast):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    error = json.loads(out)["error"]
    assert error["code"] == "cancelled" and error["exit_code"] == 130


def test_second_ctrl_c_ends_at_once(ballast, make_model):
    """Where the first one is not enough: a write that waits for a reader."""
    ballast.do_import(make_model(n_shards=1, n_tensors=1, tensor_bytes=4 << 20), "m")
    process = ballast.start("model", "cat", "m", "model.safetensors")
    while struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, b"0000"))[0] < 65536:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    assert process.stderr.read() == b""


def test_ignored_signals_stay_ignored(ballast, large):
    """As under nohup, or a script's background job."""
    process = ballast.start("model", "import", large, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    while not is_underway(ballast):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0


# --- names of stores, sources and outputs


def test_a_store_is_named_by_its_absolute_path(ballast, tmp_path):
    here = ballast.having(cwd=tmp_path)
    done = subprocess.run([here.binary, "--store", "./st", "--json", "model", "list"], env=here.env, cwd=tmp_path,
                          capture_output=True, check=True)
    assert json.loads(done.stdout)["store"] == f"file://{tmp_path}/st"


@pytest.mark.parametrize("args", [["model", "list"], ["config", "init"]])
def test_a_store_without_its_dot_and_slash_gets_a_hint(ballast, args):
    done = subprocess.run([ballast.binary, "--store", "st", *args], env=ballast.env, capture_output=True)
    assert done.returncode == 2 and b'did you mean "./st"?' in done.stderr, done


def test_a_source_may_be_a_file_url(ballast, model):
    assert ballast("model", "import", model.as_uri(), json=True).json["outcome"] == "imported"


@pytest.mark.parametrize("source, rc, text", [
    ("hf://org/name", 2, "a source is a folder of this machine"),
    ("https://host/org/name", 2, "a source is a folder of this machine"),
    ("file://host/x%zz", 2, "source"),
    ("org/name", 3, "a model of a hub must be fetched first"),
    ("./org/name", 3, 'source "./org/name": No such file or directory'),
])
def test_sources_that_are_no_folders(ballast, source, rc, text):
    assert text in ballast.fails(rc, "model", "import", source)


def test_outputs_that_name_no_file_or_folder(ballast, model, tmp_path):
    ballast.do_import(model, "m")
    assert "--output: the folder's name is empty" in ballast.fails(2, "model", "pull", "m", "--output", "")
    error = ballast.fails(2, "model", "materialize-file", "m", "config.json", tmp_path)
    assert error.endswith(f'is a folder: name the file ("{tmp_path}/config.json")')


# --- what to do next


def test_a_store_that_may_not_be_written_says_why(nobody, ballast, model):
    store = nobody.home / "store-of-root"
    ballast.having(store=store).do_import(model, "m")
    subprocess.run(["chmod", "-R", "a+rX", store], check=True)
    error = nobody.having(store=store).fails(1, "model", "delete", "m")
    assert error.endswith(" is read-only: Permission denied")


def test_a_name_that_is_not_there_says_where_it_looked(ballast):
    error = ballast.fails(3, "model", "verify", "org/none")
    assert str(ballast.store) in error and '"ballast model list" shows what is there' in error


def test_no_message_names_a_command_that_is_not_there(ballast, model):
    """What is said of names that mean several checkpoints is what this version can do."""
    for id in ("m-1", "m-2"):
        ballast("model", "import", model, "--model-id", "org/m", "--revision", id, "--checkpoint-id", id)
    error = ballast.fails(2, "model", "verify", "org/m")
    assert "(name one by its id, or set a ref: " in error and "m-1" in error and "m-2" in error


def test_a_store_is_no_part_of_a_model(ballast, raw, model):
    """"ballast model import ." where the store lies in the same folder."""
    store = model / "store"
    here = ballast.having(store=store)
    here.do_import(model, "m")
    assert here("model", "import", model, "--checkpoint-id", "m", json=True).json["left_out"] == ["store: a store of ballast"]
    assert "is a store of ballast (name the folder of a model)" in here.fails(4, "model", "import", store)


def test_globs_that_leave_nothing_are_told_as_that(ballast, model):
    assert "--include and --exclude leave no file" in ballast.fails(4, "model", "import", model, "--include", "*.jsn")
    ballast.do_import(model, "m")
    assert "--include and --exclude leave none of its" in ballast.fails(3, "model", "pull", "m", "--include", "*.jsn")


def test_a_damaged_manifest_says_what_to_do(ballast, model):
    ballast.do_import(model, "m")
    manifest = next(p for p in ballast.store.rglob("manifest"))
    manifest.unlink()
    manifest.write_text("no manifest")
    assert ballast.fails(4, "model", "verify", "m").endswith("(import it again, or delete it)")
    ballast.do_import(model, "m")
    ballast.verify("m")
