"""Caches that ballast makes, as the real Hugging Face client finds them without a network."""
import concurrent.futures
import json
import os
import stat
import subprocess

import pytest

from support import models
from support.hub import Repo

COMMIT = "0123456789abcdef0123456789abcdef01234567"

# What a loader does, and what the client says of the whole cache.
READ = """
import os
kwargs = {} if revision is None else {"revision": revision}
folder = hub.snapshot_download(repo_id, cache_dir=cache, local_files_only=True, **kwargs)
config = hub.hf_hub_download(repo_id, "config.json", cache_dir=cache, local_files_only=True, **kwargs)
nested = hub.hf_hub_download(repo_id, "config.json", subfolder="1_Pooling", cache_dir=cache, local_files_only=True,
                             **kwargs)
known = hub.try_to_load_from_cache(repo_id, "config.json", cache_dir=cache, **kwargs)
scan = hub.scan_cache_dir(cache)
result = {
    "folder": folder, "config": config, "nested": nested, "known": known,
    "warnings": [str(w) for w in scan.warnings],
    "repos": {r.repo_id: {v.commit_hash: {"refs": sorted(v.refs), "files": len(v.files)} for v in r.revisions}
              for r in scan.repos},
}
"""


def read(client, cache, repo_id, revision=None):
    found = client(READ, cache=cache, repo_id=repo_id, revision=revision)
    assert found["warnings"] == []
    assert found["known"] == found["config"] == f"{found['folder']}/config.json"
    assert found["nested"] == f"{found['folder']}/1_Pooling/config.json"
    return found


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hub"


@pytest.fixture
def repo(make_model):
    folder = make_model("origin")
    (folder / "same.json").write_bytes((folder / "config.json").read_bytes())
    return Repo({str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}, COMMIT)


def tree_of(cache):
    """{relative path: what is there} of a cache, links as they are."""
    found = {}
    for at in sorted(cache.rglob("*")):
        name = str(at.relative_to(cache))
        if at.is_symlink():
            found[name] = os.readlink(at)
        elif at.is_file():
            found[name] = at.read_bytes()
    return found


def export(ballast, id, cache, *args, **kwargs):
    return ballast("model", "pull", id, "--hf-cache", cache, *args, json=True, **kwargs).json


def test_plain_folder(ballast, client, model, cache, store_walk):
    """A checkpoint that no hub knows: its commit is made from the content, its blobs are named by SHA-256."""
    commit = ballast.do_import(model, "m", "--model-id", "org/name", json=True).json["commit"]
    done = export(ballast, "m", cache)
    assert done["output"] == str(cache / "models--org--name/snapshots" / commit)
    found = read(client, cache, "org/name")
    assert found["folder"] == done["output"]
    assert found["repos"] == {"org/name": {commit: {"refs": ["main"], "files": 8}}}
    assert models.contents(found["folder"]) == models.contents(model)
    names = {p.name for p in cache.iterdir()} | {p.name for p in (cache / "models--org--name").iterdir()}
    assert names == {"models--org--name", "blobs", "refs", "snapshots", "trees"}
    store_walk().assert_clean()


def test_as_the_client_would_have_it(ballast, client, make_hub, repo, cache, tmp_path):
    """What was imported from a client's cache comes out as the same links, blobs and refs."""
    client.download(make_hub({"org/name": [repo]}), "org/name", tmp_path / "theirs")
    ballast.do_import(tmp_path / "theirs/models--org--name", "m")
    export(ballast, "m", cache)
    theirs = {n: v for n, v in tree_of(tmp_path / "theirs").items()
              if not n.startswith((".locks", "CACHEDIR.TAG")) and "/trees/" not in n}
    assert tree_of(cache) == theirs
    assert read(client, cache, "org/name")["folder"] == str(cache / "models--org--name/snapshots" / COMMIT)
    read(client, cache, "org/name", COMMIT)


def test_client_goes_on_online(ballast, client, make_hub, repo, cache, tmp_path):
    """The client that has a network again finds every blob in place."""
    hub = make_hub({"org/name": [repo]})
    client.download(hub, "org/name", tmp_path / "theirs")
    ballast.do_import(tmp_path / "theirs/models--org--name", "m")
    export(ballast, "m", cache)
    blobs = {p: p.stat().st_ino for p in (cache / "models--org--name/blobs").iterdir()}
    client.download(hub, "org/name", cache)
    assert {p: p.stat().st_ino for p in (cache / "models--org--name/blobs").iterdir()} == blobs


def test_round_trip(ballast, model, cache):
    """A cache that ballast wrote is the same checkpoint when it is imported."""
    first = ballast.do_import(model, "m", "--model-id", "org/name", json=True).json
    export(ballast, "m", cache)
    for source in (cache / "models--org--name", cache / "models--org--name/snapshots" / first["commit"]):
        again = ballast("model", "import", source, "--checkpoint-id", "m", json=True).json
        assert (again["outcome"], again["commit"], again["warnings"]) == ("already-there", first["commit"], [])
    other = ballast.having(store=ballast.cwd / "other")
    second = other("model", "import", cache, "--model-id", "org/name", json=True).json
    assert (second["commit"], second["n_bytes"], second["warnings"]) == (first["commit"], first["n_bytes"], [])
    files = [b("model", "inspect", i, "--files", json=True).json["files"]
             for b, i in ((ballast, "m"), (other, second["checkpoint_id"]))]
    assert files[0] == files[1]


@pytest.mark.parametrize("mode", ["copy", "hardlink", "symlink", "auto"])
def test_links(ballast, client, model, cache, mode):
    ballast.do_import(model, "m", "--model-id", "org/name")
    for _ in range(2):
        export(ballast, "m", cache, "--link", mode)
        assert models.contents(read(client, cache, "org/name")["folder"]) == models.contents(model)


def test_written_through_a_link(ballast, model, cache, tmp_path):
    """Whoever writes to a snapshot of hard links writes to the store: it is found, and mended from the source's cache."""
    ballast.do_import(model, "plain", "--model-id", "org/name")
    export(ballast, "plain", tmp_path / "source")
    ballast.delete("plain")
    done = ballast("model", "import", tmp_path / "source", "--model-id", "org/name", "--checkpoint-id", "m", json=True)
    assert done.json["commit"] in export(ballast, "m", cache, "--link", "hardlink")["output"]
    link = cache / "models--org--name/snapshots" / done.json["commit"] / "model-00001-of-00002.safetensors"
    os.chmod(link, 0o644)
    with open(link, "r+b") as f:
        f.seek(100)
        f.write(b"written")
    assert "model-00001-of-00002.safetensors" in ballast.verify("m", rc=4).text
    ballast("model", "repair", "m")
    ballast.verify("m")


def test_part_of_a_checkpoint(ballast, client, model, cache):
    """A part is a part for clients that look at listings, and made whole by another pull."""
    ballast.do_import(model, "m", "--model-id", "org/name")
    done = export(ballast, "m", cache, "--include", "*.json")
    ask = """
try:
    hub.snapshot_download("org/name", cache_dir=cache, local_files_only=True)
    result = "whole"
except Exception as error:
    result = type(error).__name__
"""
    assert client(ask, cache=cache) == ("whole" if client.version == "0.36.2" else "IncompleteSnapshotError")
    some = client('result = hub.snapshot_download("org/name", cache_dir=cache, local_files_only=True, '
                  'allow_patterns=["*.json"])', cache=cache)
    assert some == done["output"]
    export(ballast, "m", cache)
    assert client(ask, cache=cache) == "whole"


def test_right_blobs_stay_wrong_ones_do_not(ballast, client, model, cache):
    ballast.do_import(model, "m", "--model-id", "org/name")
    snapshot = export(ballast, "m", cache)["output"]
    blob = os.path.realpath(os.path.join(snapshot, "tokenizer.json"))
    right = os.stat(blob)
    again = export(ballast, "m", cache)
    assert again["n_files_written"] == 0 and os.stat(blob).st_ino == right.st_ino
    os.chmod(blob, 0o644)
    with open(blob, "r+b") as f:
        f.write(b"damaged")
    before = tree_of(cache)
    error = ballast.fails(5, "model", "pull", "m", "--hf-cache", cache)
    assert os.path.basename(blob) in error and "--force" in error
    assert tree_of(cache) == before
    export(ballast, "m", cache, "--force")
    assert models.contents(read(client, cache, "org/name")["folder"]) == models.contents(model)


def test_wrong_link(ballast, model, cache):
    ballast.do_import(model, "m", "--model-id", "org/name")
    snapshot = export(ballast, "m", cache)["output"]
    link = os.path.join(snapshot, "config.json")
    wanted = os.readlink(link)
    other = os.readlink(os.path.join(snapshot, "tokenizer.json"))
    os.unlink(link)
    os.symlink(other, link)
    assert "config.json" in ballast.fails(5, "model", "pull", "m", "--hf-cache", cache)
    export(ballast, "m", cache, "--force")
    assert os.readlink(link) == wanted
    # A file with the same bytes is as good: clients make one where there are no links.
    os.unlink(link)
    with open(link, "wb") as f:
        f.write((model / "config.json").read_bytes())
    export(ballast, "m", cache)
    assert not os.path.islink(link)


def test_shared_blob_stays(ballast, client, model, cache):
    """A blob that clients of version 2 moved into the cache's shared store is right where it is."""
    ballast.do_import(model, "m", "--model-id", "org/name")
    snapshot = export(ballast, "m", cache)["output"]
    blob = os.path.realpath(os.path.join(snapshot, "model-00001-of-00002.safetensors"))
    shared = cache / "blobs" / "ab"
    shared.mkdir(parents=True)
    (cache / "blobs" / ".huggingface-shared-blobs").write_text("1\n")
    os.rename(blob, shared / ("ab" * 32))
    os.symlink(f"../../blobs/ab/{'ab' * 32}", blob)
    assert export(ballast, "m", cache)["n_files_written"] == 0
    assert os.path.islink(blob)


def test_refs(ballast, client, model, cache):
    """The revision moves as a download would move it; other names are set where they are free."""
    ballast.do_import(model, "a", "--model-id", "org/name", "--revision", "refs/pr/1")
    first = export(ballast, "a", cache)["output"]
    assert read(client, cache, "org/name", "refs/pr/1")["folder"] == first
    (model / "config.json").write_text('{"architectures": ["New"]}')
    ballast.do_import(model, "b", "--model-id", "org/name", "--revision", "refs/pr/1")
    second = export(ballast, "b", cache)["output"]
    found = read(client, cache, "org/name", "refs/pr/1")
    assert found["folder"] == second != first and len(found["repos"]["org/name"]) == 2
    # The store has moved the name on: the older checkpoint does not take it back.
    export(ballast, "a", cache)
    assert read(client, cache, "org/name", "refs/pr/1")["folder"] == second


def test_a_ref_that_is_no_text_is_not_shown_as_it_is(ballast, model, cache):
    ballast.do_import(model, "m", "--model-id", "org/name")
    export(ballast, "m", cache)
    (cache / "models--org--name/refs/main").write_bytes(b"\x1b[31mred")
    line = [word for word in ballast.line("model", "pull", "m", "--hf-cache", cache) if word != "-q"]
    done = subprocess.run(line, env=ballast.env, cwd=ballast.cwd, capture_output=True, check=True)
    assert b"now means" in done.stderr and b"\x1b" not in done.stderr


@pytest.mark.parametrize("revision", ["../../x", "a//b", "/abs", "f" * 40, "x" * 300])
def test_revision_that_is_no_ref(ballast, model, cache, revision, tmp_path):
    ballast.do_import(model, "m", "--model-id", "org/name", "--revision", revision)
    export(ballast, "m", cache)
    assert not [p for p in (cache / "models--org--name").rglob("refs/**/*") if p.is_file()]
    assert {p.name for p in tmp_path.iterdir()} <= {"home", "store", "model", "hub"}


@pytest.mark.parametrize("model_id", ["a/b/c", "a--b", "x..y", "My Model", ".hidden", "name.git", "-x", "ä", "x" * 97])
def test_model_id_that_is_no_repository(ballast, model, cache, model_id, tmp_path):
    ballast.do_import(model, "m", "--model-id", model_id)
    error = ballast.fails(2, "model", "pull", "m", "--hf-cache", cache)
    assert "--model-id" in error and not cache.exists()
    export(ballast, "m", cache, "--model-id", "org/name")
    assert (cache / "models--org--name/refs/main").exists()
    ballast.fails(2, "model", "pull", "m", "--hf-cache", cache, "--model-id", "../up")
    assert {p.name for p in tmp_path.iterdir()} <= {"home", "store", "model", "hub"}


def test_options_that_do_not_go_together(ballast, model, cache):
    ballast.do_import(model, "m")
    assert "--output" in ballast.fails(2, "model", "pull", "m", "--hf-cache", cache, "--output", cache)
    assert "--hf-cache" in ballast.fails(2, "model", "pull", "m", "--model-id", "x")
    ballast.fails(2, "model", "pull", "m", "--hf-cache", "")


def test_links_in_the_way(ballast, model, cache, tmp_path):
    """Nothing is written through a symbolic link of the cache."""
    ballast.do_import(model, "m", "--model-id", "org/name")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for part in ("blobs", "snapshots", "refs"):
        top = cache / part / "models--org--name"
        top.mkdir(parents=True)
        (top / part).symlink_to(elsewhere)
        error = ballast.fails(5, "model", "pull", "m", "--hf-cache", cache / part)
        assert part in error and "symbolic link" in error
        assert not list(elsewhere.iterdir())
        assert not (top / "refs" / "main").exists()


def test_eight_at_once(ballast, client, model, cache):
    """C15: all of them succeed, and there is one copy."""
    ballast.do_import(model, "m", "--model-id", "org/name")
    for started in [ballast.start("model", "pull", "m", "--hf-cache", cache) for _ in range(8)]:
        _, err = started.communicate(timeout=60)
        assert started.returncode == 0, err.decode()
    found = read(client, cache, "org/name")
    assert models.contents(found["folder"]) == models.contents(model)
    top = cache / "models--org--name"
    assert {p.name for p in top.iterdir()} == {"blobs", "refs", "snapshots", "trees"}
    assert len(list((top / "blobs").iterdir())) == len(set(models.contents(model).values()))


def test_beside_the_client(ballast, client, make_hub, repo, cache, tmp_path):
    """Pulls and downloads of one commit into one cache, at the same time."""
    hub = make_hub({"org/name": [repo]})
    client.download(hub, "org/name", tmp_path / "theirs")
    ballast.do_import(tmp_path / "theirs/models--org--name", "m")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        downloads = [pool.submit(client.download, hub, "org/name", cache) for _ in range(2)]
        pulls = [pool.submit(export, ballast, "m", cache) for _ in range(4)]
        for each in downloads + pulls:
            each.result()
    found = read(client, cache, "org/name")
    assert found["repos"]["org/name"][COMMIT]["files"] == len(repo.files)
    assert {p.name for p in (cache / "models--org--name/blobs").iterdir()} == {repo.etag(p) for p in repo.files}
    for path, data in repo.files.items():
        assert (cache / "models--org--name/snapshots" / COMMIT / path).read_bytes() == data


def test_killed_anywhere(ballast, model, cache, shim, client):
    """A ref appears only when its snapshot is whole; the same command goes on."""
    ballast.do_import(model, "m", "--model-id", "org/name")
    refs, n = cache / "models--org--name/refs/main", 0
    cache.mkdir()
    for step in range(1, 400, 7):
        done = ballast.having(env=shim.env(cache, "kill", step))("model", "pull", "m", "--hf-cache", cache, rc=None)
        if done.rc == 0:
            break
        n += 1
        if refs.exists():
            folder = cache / "models--org--name/snapshots" / refs.read_text()
            assert models.contents(folder) == models.contents(model)
    assert n > 3
    export(ballast, "m", cache)
    assert models.contents(read(client, cache, "org/name")["folder"]) == models.contents(model)
    assert {p.name for p in (cache / "models--org--name").iterdir()} == {"blobs", "refs", "snapshots", "trees"}


def test_complete_and_read_only(nobody):
    """An init container runs twice, the second time on a cache that it may not write to."""
    own = nobody.having(store=nobody.home / "store")
    model = models.make_model(nobody.home.parent / "model")
    cache = nobody.home / "hub"
    own.do_import(model, "m", "--model-id", "org/name")
    export(own, "m", cache)
    for folder in (cache, *cache.rglob("*")):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o555)
    assert export(own, "m", cache)["n_files_kept"] > 0
    (cache / "models--org--name" / "refs").chmod(0o755)
    (cache / "models--org--name" / "refs" / "main").unlink()
    own.fails(1, "model", "pull", "m", "--hf-cache", cache)


def test_without_symbolic_links(ballast, model, loopfs):
    ballast.do_import(model, "m", "--model-id", "org/name")
    error = ballast.fails(1, "model", "pull", "m", "--hf-cache", loopfs("exfat", 64) / "hub")
    assert "symbolic links" in error


def test_modes(ballast, model, cache):
    ballast.do_import(model, "m", "--model-id", "org/name")
    folder = export(ballast, "m", cache)["output"]
    for name, mode in (("config.json", 0o666), ("run.sh", 0o777)):
        umask = os.umask(0)
        os.umask(umask)
        assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == mode & ~umask


def test_listing_is_as_the_client_reads_it(ballast, model, cache):
    commit = ballast.do_import(model, "m", "--model-id", "org/name", json=True).json["commit"]
    export(ballast, "m", cache)
    listing = json.loads((cache / f"models--org--name/trees/{commit}.json").read_text())
    contents = models.contents(model)
    assert listing["format_version"] == 1 and listing["files"].keys() == contents.keys()
    for path, record in listing["files"].items():
        assert record["size"] == (model / path).stat().st_size and record["lfs_sha256"] == contents[path]


def test_real_model(ballast, client, minilm, cache):
    ballast.do_import(minilm, "m", "--model-id", "sentence-transformers/all-MiniLM-L6-v2")
    export(ballast, "m", cache)
    found = read(client, cache, "sentence-transformers/all-MiniLM-L6-v2")
    assert models.contents(found["folder"]) == models.contents(minilm)
