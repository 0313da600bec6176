"""--fallback: a second store for what the first has lost."""
import json
import shutil
import subprocess

import pytest

from support import models
from test_repair import WEIGHTS, chunk_of, flip, rewrite


@pytest.fixture
def big(make_model):
    """Files of several blocks and chunks."""
    return make_model("big", n_shards=1, n_tensors=3, tensor_bytes=3_000_000)


@pytest.fixture
def second(ballast, tmp_path):
    return ballast.having(store=tmp_path / "second")


def pull(ballast, out, *args, **kwargs):
    return ballast("model", "pull", "m", "--output", out, *args, **kwargs)


@pytest.fixture(params=[((), ("--file-chunk-size", "300K")), (("--file-chunk-size", "1M"), ())], ids=["whole", "chunked"])
def both(request, ballast, second, big):
    """The model in both stores, in other chunks each."""
    ballast.do_import(big, "m", *request.param[0])
    second.do_import(big, "m", *request.param[1])
    return big


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_pull_of_a_damaged_file(ballast, second, both, tmp_path, damage):
    bad = chunk_of(ballast, "m", "model.safetensors")
    if damage == "flip":
        flip(bad, 5000)
    elif damage == "cut":
        rewrite(bad, bad.read_bytes()[:5000])
    else:
        bad.unlink()
    pull(ballast, tmp_path / "without", rc=4)
    result = pull(ballast, tmp_path / "out", "--fallback", second.store, json=True).json
    assert models.contents(tmp_path / "out") == models.contents(both)
    assert result["n_files_fallback"] == 1
    # A pull that writes nothing takes nothing from there.
    assert pull(ballast, tmp_path / "out", "--fallback", second.store, json=True).json["n_files_fallback"] == 0


@pytest.mark.parametrize("link", ["hardlink", "symlink", "reflink"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_links(ballast, second, both, loopfs, link, damage):
    top = loopfs("xfs", 512)
    ballast, second = (b.having(store=shutil.copytree(b.store, top / b.store.name)) for b in (ballast, second))
    for path in ("model.safetensors", "config.json"):
        bad = chunk_of(ballast, "m", path)
        rewrite(bad, b"") if damage == "cut" else bad.unlink()
    pull(ballast, top / "without", f"--link={link}", rc=4)
    result = pull(ballast, top / "out", f"--link={link}", "--fallback", second.store, json=True).json
    assert models.contents(top / "out") == models.contents(both)
    assert result["n_files_fallback"] == 2 and result["link"] == link
    # Linked with verification: bytes that are others are not linked.
    flip(chunk_of(ballast, "m", "tokenizer.json"))
    pull(ballast, top / "out2", f"--link={link}", "--verify", rc=4)
    pull(ballast, top / "out2", f"--link={link}", "--verify", "--fallback", second.store)
    assert models.contents(top / "out2") == models.contents(both)


@pytest.mark.parametrize("damage", ["flip", "gone"])
@pytest.mark.parametrize("digests", [True, False], ids=["digests", "no-digests"])
def test_cat(ballast, second, both, damage, digests):
    if not digests:
        (ballast.store / "weight/models/m/digests").unlink()
    bad = chunk_of(ballast, "m", "model.safetensors", 0)
    flip(bad, 500_000) if damage == "flip" else bad.unlink()
    right = (both / "model.safetensors").read_bytes()
    for args, want in ([(), right], [("--range", "499990-500009"), right[499990:500010]], [("--range=-5000000",), right[-5000000:]]):
        ballast("model", "cat", "m", "model.safetensors", *args, rc=(0, 4))
        found = ballast("model", "cat", "m", "model.safetensors", *args, "--fallback", second.store).out
        assert found == want


def test_materialize_file(ballast, second, both, tmp_path):
    chunk_of(ballast, "m", "model.safetensors").unlink()
    result = ballast("model", "materialize-file", "m", "model.safetensors", tmp_path / "file", "--fallback", second.store,
                     json=True).json
    assert result["n_files_fallback"] == 1
    assert (tmp_path / "file").read_bytes() == (both / "model.safetensors").read_bytes()


@pytest.mark.parametrize("state", ["no store", "no checkpoint", "degraded", "failed", "no manifest bytes"])
def test_everything_from_the_fallback(ballast, second, model, tmp_path, state):
    second.do_import(model, "m")
    if state == "no checkpoint":
        ballast.do_import(model, "other")
    elif state != "no store":
        ballast.do_import(model, "m")
    if state == "degraded":
        flip(chunk_of(ballast, "m", WEIGHTS))
        ballast.verify("m", rc=4)
        assert "repair" in pull(ballast, tmp_path / "without", rc=4).error
    manifest = ballast.store / "weight/models/m/manifest"
    if state == "failed":
        document = json.loads(manifest.read_text())
        document.update(status="FAILED", error="import interrupted")
        rewrite(manifest, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    if state == "no manifest bytes":
        rewrite(manifest, b"{")
    result = pull(ballast, tmp_path / "out", "--fallback", second.store, json=True)
    assert models.contents(tmp_path / "out") == models.contents(model)
    assert result.json["n_files_fallback"] == result.json["n_files_written"] == result.json["n_files"]
    assert len(result.warnings()) == 1 and "everything is read from the fallback" in result.warnings()[0]
    found = ballast("model", "cat", "m", "config.json", "--fallback", second.store).out
    assert found == (model / "config.json").read_bytes()


def test_only_the_same_bytes_will_do(ballast, second, model, make_model, tmp_path):
    ballast.do_import(model, "m")
    second.do_import(make_model("other", seed=2), "m")
    chunk_of(ballast, "m", WEIGHTS).unlink()
    error = pull(ballast, tmp_path / "out", "--fallback", second.store, rc=4).error
    assert WEIGHTS in error


def test_a_fallback_that_is_damaged_too(ballast, second, model, tmp_path):
    ballast.do_import(model, "m")
    second.do_import(model, "m")
    flip(chunk_of(ballast, "m", WEIGHTS))
    flip(chunk_of(second, "m", WEIGHTS), 200)
    assert WEIGHTS in pull(ballast, tmp_path / "out", "--fallback", second.store, rc=4).error
    assert ballast("model", "cat", "m", WEIGHTS, "--fallback", second.store, rc=4).out == b""
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_a_fallback_that_is_not_there(ballast, model, tmp_path):
    """It is no reason to refuse what the store has."""
    ballast.do_import(model, "m")
    result = pull(ballast, tmp_path / "out", "--fallback", tmp_path / "nowhere")
    assert len(result.warnings()) == 1 and "nowhere" in result.warnings()[0]
    assert models.contents(tmp_path / "out") == models.contents(model)
    error = ballast.fails(3, "model", "pull", "n", "--output", tmp_path / "n", "--fallback", tmp_path / "nowhere")
    assert "from the fallback" in error


def test_named_by_environment_and_config_file(ballast, second, model, tmp_path):
    second.do_import(model, "m")
    having = ballast.having(env={"BALLAST_FALLBACK": str(second.store)})
    pull(having, tmp_path / "out")
    assert models.contents(tmp_path / "out") == models.contents(model)
    # The option counts first.
    pull(having, tmp_path / "out2", "--fallback", tmp_path / "nowhere", rc=3)
    # The config file's goes with the config file's store.
    config = ballast.home / "config/ballast/config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"store": str(ballast.store), "fallback": f"file://{second.store}"}))
    pull(ballast, tmp_path / "out3", rc=3)
    line = [a for a in ballast.line("model", "cat", "m", "config.json") if not a.startswith(("--store", "file://"))]
    done = subprocess.run(line, env=ballast.env, cwd=ballast.cwd, capture_output=True)
    assert done.stdout == (model / "config.json").read_bytes(), done.stderr
    shown = ballast("config", "show", json=True).json
    assert shown["fallback"] == f"file://{second.store}" and not shown["warnings"]
    config.write_text('{"fallback": "here"}')
    assert '"fallback" must be a URL' in ballast.fails(2, "config", "show")
