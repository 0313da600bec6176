"""Caches of the real Hugging Face client as sources, whole and broken."""
import json
import os
import shutil
from pathlib import Path

import pytest

from support import models
from support.hub import Repo, git_blob, make_cache

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "89abcdef0123456789abcdef0123456789abcdef"


def read_tree(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def repo(make_model):
    """A commit like a model's: two shards and their index, small files, a nested and an empty one."""
    return Repo(read_tree(make_model("origin")), COMMIT, refs=("main", "v1.0", "refs/pr/1"))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "hub"


def info_of(ballast, id):
    return json.loads((ballast.store / "weight" / "models" / id / "info").read_text())


def assert_imported(ballast, id, repo, files=None):
    files = repo.files if files is None else files
    listed = {f["path"]: f for f in ballast("model", "inspect", id, "--files", json=True).json["files"]}
    assert listed.keys() == files.keys()
    ballast("model", "pull", id, "--output", ballast.cwd / f"out-{id}")
    assert read_tree(ballast.cwd / f"out-{id}") == files | {".ballast/pull.json": read_tree(
        ballast.cwd / f"out-{id}")[".ballast/pull.json"]}


# --- what the client itself wrote


def test_client_cache_in_every_form(ballast, client, make_hub, repo, cache, store_walk):
    snapshot = client.download(make_hub({"org/name": [repo]}), "org/name", cache)
    assert snapshot.name == COMMIT
    top = cache / "models--org--name"
    for id, args in {"a": [top], "b": [snapshot], "c": [cache, "--model-id", "org/name"],
                     "d": [cache, "--model-id", "org/name", "--revision", COMMIT]}.items():
        done = ballast("model", "import", *args, "--checkpoint-id", id, json=True).json
        assert (done["model_id"], done["revision"], done["commit"]) == ("org/name", "main", COMMIT)
        # A client that keeps the listing of the commit proves that the snapshot is complete.
        assert bool(done["warnings"]) == (client.version == "0.36.2"), done["warnings"]
        assert_imported(ballast, id, repo)
        info = info_of(ballast, id)
        assert (info["commit"], info["commit_from"], info["source"]["kind"]) == (COMMIT, "source", "hf-cache")
        assert {p: f["blob_id"] for p, f in info["files"].items()} == {p: repo.etag(p) for p in repo.files}
        assert info["refs"] == ["main"]
    store_walk().assert_clean()


def test_client_refs(ballast, client, make_hub, repo, cache):
    """Branches, tags and pull requests, whose refs lie in folders of their own."""
    hub = make_hub({"org/name": [repo]})
    for ref in repo.refs:
        client.download(hub, "org/name", cache, revision=ref)
    assert (cache / "models--org--name/refs/refs/pr/1").read_text() == COMMIT
    done = ballast("model", "import", cache / "models--org--name", "--revision", "refs/pr/1", json=True).json
    assert (done["revision"], done["checkpoint_id"]) == ("refs/pr/1", "org__name-0123456789ab")
    assert info_of(ballast, done["checkpoint_id"])["refs"] == ["refs/pr/1", "main", "v1.0"]
    assert ballast("model", "inspect", "org/name@refs/pr/1", json=True).json["checkpoint_id"] == done["checkpoint_id"]


def test_client_two_commits(ballast, client, make_hub, repo, cache):
    """An older commit by its id must not take main away from the newer one."""
    older = Repo({**repo.files, "config.json": b'{"architectures": ["Older"]}'}, OLDER, refs=())
    hub = make_hub({"org/name": [repo, older]})
    client.download(hub, "org/name", cache)
    client.download(hub, "org/name", cache, revision=OLDER)
    top = cache / "models--org--name"
    first = ballast("model", "import", top, json=True).json
    second = ballast("model", "import", top / "snapshots" / OLDER, json=True).json
    assert (first["commit"], first["revision"]) == (COMMIT, "main")
    assert (second["commit"], second["revision"]) == (OLDER, OLDER)
    assert ballast("model", "inspect", "org/name", json=True).json["checkpoint_id"] == first["checkpoint_id"]
    assert_imported(ballast, second["checkpoint_id"], older)


def test_client_local_dir(ballast, client, make_hub, repo, tmp_path):
    folder = tmp_path / "local"
    client.download(make_hub({"org/name": [repo]}), "org/name", tmp_path / "unused", local_dir=str(folder))
    done = ballast.do_import(folder, "m", json=True).json
    assert done["commit"] == COMMIT and not done["warnings"]
    assert [l.split(":")[0] for l in done["left_out"]] == [".cache/huggingface"]
    info = info_of(ballast, "m")
    assert {p: f["blob_id"] for p, f in info["files"].items()} == {p: repo.etag(p) for p in repo.files}
    assert info["source"]["kind"] == "folder"


def test_client_local_dir_edited(ballast, client, make_hub, repo, tmp_path):
    """An edited file is the user's: it is noted, and no commit or digest is claimed for it."""
    folder = tmp_path / "local"
    client.download(make_hub({"org/name": [repo]}), "org/name", tmp_path / "unused", local_dir=str(folder))
    (folder / "config.json").write_text('{"architectures": ["Mine"]}')
    done = ballast.do_import(folder, "m", json=True).json
    assert done["warnings"] == ['source file "config.json" is not as it was downloaded']
    info = info_of(ballast, "m")
    assert info["commit_from"] == "content" and "blob_id" not in info["files"]["config.json"]
    assert info["files"]["tokenizer.json"]["blob_id"] == repo.etag("tokenizer.json")


def test_client_partial_download(ballast, client, make_hub, repo, cache):
    """Clients of engines ask for a part of a repository: that is named, and no error."""
    repo.files["README.md"] = b"# read me"
    repo.files["pytorch_model.bin"] = b"\0" * 100
    client.download(make_hub({"org/name": [repo]}), "org/name", cache, allow_patterns=["*.safetensors", "*.json"])
    done = ballast.do_import(cache / "models--org--name", "m", json=True).json
    if client.version == "0.36.2":
        assert "is not known" in done["warnings"][0]
    else:
        assert len(done["warnings"]) == 1 and '"README.md"' in done["warnings"][0]
    assert "--exclude" not in str(done["warnings"])


# --- C: the layout, its links, what interrupted downloads leave


def test_dangling_link(ballast, cache, repo):
    """C1: links that were made relative to the wrong folder."""
    top = make_cache(cache, repo)
    link = top / "snapshots" / COMMIT / "config.json"
    link.unlink()
    link.symlink_to("tmp/hub/blobs/x")
    error = ballast.fails(4, "model", "import", top, "--checkpoint-id", "m")
    assert '"config.json"' in error and '"tmp/hub/blobs/x"' in error and "dangling" in error
    assert ballast.status("m") is None


@pytest.mark.parametrize("name", ["{}.incomplete", "{}.1a2b3c4d.incomplete"])
@pytest.mark.parametrize("tree", [True, False])
def test_interrupted(ballast, cache, repo, name, tree):
    """C2: a link whose blob is there as .incomplete only."""
    top = make_cache(cache, repo, tree=tree)
    shard = "model-00002-of-00002.safetensors"
    blob = top / "blobs" / repo.etag(shard)
    blob.rename(blob.with_name(name.format(blob.name)))
    error = ballast.fails(4, "model", "import", top)
    assert shard in error and "did not end" in error


def test_missing_shard(ballast, cache, repo):
    """C2: half the files are linked, and only the commit's listing tells."""
    top = make_cache(cache, repo)
    snapshot = top / "snapshots" / COMMIT
    shard = "model-00002-of-00002.safetensors"
    (snapshot / shard).unlink()
    (snapshot / "model.safetensors.index.json").unlink()
    error = ballast.fails(4, "model", "import", top)
    assert shard in error and "did not end" in error and "--exclude" in error
    rest = {p: d for p, d in repo.files.items() if p not in (shard, "model.safetensors.index.json")}
    ballast.do_import(top, "excluded", "--exclude", shard)
    assert_imported(ballast, "excluded", repo, rest)
    forced = ballast.do_import(top, "forced", "--force", json=True).json
    assert any(shard in w for w in forced["warnings"])
    assert ballast.fails(4, "model", "import", top, "--include", "*.safetensors", "--checkpoint-id", "x")


def test_missing_by_incomplete_blob(ballast, cache, repo):
    """A small file, too, where its blob shows that it was being downloaded."""
    top = make_cache(cache, repo)
    (top / "snapshots" / COMMIT / "tokenizer.json").unlink()
    blob = top / "blobs" / repo.etag("tokenizer.json")
    blob.rename(f"{blob}.incomplete")
    assert '"tokenizer.json"' in ballast.fails(4, "model", "import", top)


def test_no_weights_yet(ballast, cache, repo):
    top = make_cache(cache, repo)
    for shard in (top / "snapshots" / COMMIT).glob("*.safetensors"):
        shard.unlink()
    (top / "snapshots" / COMMIT / "model.safetensors.index.json").unlink()
    assert "did not end" in ballast.fails(4, "model", "import", top)


@pytest.mark.parametrize("listing", [None, "", "[]", '{"format_version": 1', '{"format_version":2,"files":{}}',
                                     '{"format_version":1,"files":{"config.json":{"size":1}}}',
                                     '{"format_version":1,"files":{"config.json":{"size":1,"blob_id":"../x"}}}',
                                     '{"format_version":1,"files":{"a":{"size":-1,"blob_id":"x"}}}',
                                     '{"format_version":1,"files":{}} x'])
def test_completeness_unknown(ballast, cache, repo, listing):
    """C2: without a listing that can be read nobody knows."""
    top = make_cache(cache, repo, tree=False)
    if listing is not None:
        (top / "trees").mkdir()
        (top / "trees" / f"{COMMIT}.json").write_text(listing)
    (top / "blobs" / "abc.incomplete").touch()
    done = ballast.do_import(top, "m", json=True).json
    assert len(done["warnings"]) == 1 and "complete is not known" in done["warnings"][0]
    assert "blobs/abc.incomplete" in done["warnings"][0]
    assert_imported(ballast, "m", repo)


def test_no_refs(ballast, cache, repo):
    """C4: downloaded by commit."""
    top = make_cache(cache, repo, refs=())
    only = ballast.do_import(top, "m", json=True).json
    assert only["revision"] == "main" and any("only snapshot" in w for w in only["warnings"])
    by_commit = ballast("model", "import", top, "--revision", COMMIT, "--checkpoint-id", "n", json=True).json
    assert by_commit["commit"] == COMMIT and not by_commit["warnings"]
    make_cache(cache, Repo(repo.files, OLDER, refs=()))
    error = ballast.fails(2, "model", "import", top, "--checkpoint-id", "x")
    assert COMMIT in error and OLDER in error and "--revision" in error
    error = ballast.fails(3, "model", "import", top, "--revision", "v9", "--checkpoint-id", "x")
    assert '"v9"' in error and COMMIT in error
    assert ballast.fails(3, "model", "import", top, "--revision", "f" * 40, "--checkpoint-id", "x")
    assert ballast.fails(3, "model", "import", top, "--revision", f"../snapshots/{COMMIT}", "--checkpoint-id", "x")


def test_nested_refs_do_not_collide(ballast, cache, repo):
    """C5: a/b and a--b are two refs."""
    top = make_cache(cache, repo, refs=("feat/x", "main"))
    older = Repo({**repo.files, "config.json": b"{}"}, OLDER, refs=("feat--x",))
    make_cache(cache, older)
    a = ballast("model", "import", top, "--revision", "feat/x", json=True).json
    b = ballast("model", "import", top, "--revision", "feat--x", json=True).json
    assert (a["commit"], b["commit"]) == (COMMIT, OLDER)
    for revision, commit in (("feat/x", COMMIT), ("feat--x", OLDER)):
        assert ballast("model", "inspect", f"org/name@{revision}", json=True).json["commit"] == commit


def test_empty_snapshot(ballast, cache, repo):
    """C6: an empty snapshot is no choice; one that a ref names is an interrupted download."""
    top = make_cache(cache, repo, refs=())
    (top / "snapshots" / OLDER).mkdir()
    (cache / "models--other--empty" / "snapshots" / OLDER).mkdir(parents=True)
    done = ballast.do_import(cache, "m", "--model-id", "org/name", json=True).json
    assert any(f"snapshots/{OLDER} is empty" in w for w in done["warnings"])
    assert "no snapshot" in ballast.fails(4, "model", "import", cache / "models--other--empty")
    (top / "refs").mkdir(exist_ok=True)
    (top / "refs" / "main").write_text(OLDER)
    error = ballast.fails(4, "model", "import", top, "--checkpoint-id", "x")
    assert OLDER in error and "did not end" in error
    (top / "snapshots" / OLDER).rmdir()
    assert "of which there is no snapshot" in ballast.fails(4, "model", "import", top, "--checkpoint-id", "x")


def test_exact_case(ballast, cache, repo):
    """C7: Org/Name and org/name are two models."""
    make_cache(cache, repo, "org/name")
    other = Repo({**repo.files, "config.json": b"{}"}, OLDER)
    make_cache(cache, other, "Org/Name")
    small = ballast("model", "import", cache, "--model-id", "org/name", json=True).json
    large = ballast("model", "import", cache, "--model-id", "Org/Name", json=True).json
    assert (small["commit"], large["commit"]) == (COMMIT, OLDER)
    error = ballast.fails(3, "model", "import", cache, "--model-id", "ORG/name")
    assert "letter case counts" in error and "Org/Name" in error and "org/name" in error
    ballast.delete("Org/Name")
    ballast.fails(3, "model", "inspect", "Org/Name")
    assert ballast("model", "inspect", "org/name", json=True).json["commit"] == COMMIT


def test_cache_names_its_models(ballast, cache, repo):
    make_cache(cache, repo)
    make_cache(cache, repo, "gpt2")
    assert "gpt2, org/name" in ballast.fails(2, "model", "import", cache)
    assert "org/name" in ballast.fails(3, "model", "import", cache, "--model-id", "../x")
    assert ballast("model", "import", cache, "--model-id", "gpt2", json=True).json["checkpoint_id"].startswith("gpt2-")


@pytest.mark.parametrize("path", ["model-00001-of-00002.safetensors", "config.json"])
@pytest.mark.parametrize("damage", ["short", "empty", "changed"])
@pytest.mark.parametrize("tree", [True, False])
def test_damaged_blob(ballast, cache, repo, path, damage, tree, store_walk):
    """C9: a blob is what its name says, or the import is refused, whatever its size."""
    top = make_cache(cache, repo, tree=tree)
    blob = top / "blobs" / repo.etag(path)
    data = blob.read_bytes()
    blob.write_bytes({"short": data[:-8], "empty": b"", "changed": data[:-1] + bytes([data[-1] ^ 1])}[damage])
    error = ballast.fails(4, "model", "import", top, "--checkpoint-id", "m", "--force")
    assert f'"{path}"' in error and f"blobs/{blob.name}" in error and "download" in error
    assert ballast.status("m") is None
    store_walk().assert_clean()


def test_empty_file_is_fine(ballast, cache, repo):
    """C9: where the name says so, size 0 is right."""
    assert repo.files["__init__.py"] == b""
    ballast.do_import(make_cache(cache, repo), "m")
    assert_imported(ballast, "m", repo)


def test_listing_and_link_disagree(ballast, cache, repo):
    top = make_cache(cache, repo)
    link = top / "snapshots" / COMMIT / "config.json"
    same_size = bytes(len(repo.files["config.json"]))
    (top / "blobs" / git_blob(same_size)).write_bytes(same_size)
    link.unlink()
    link.symlink_to(f"../../blobs/{git_blob(same_size)}")
    error = ballast.fails(4, "model", "import", top)
    assert '"config.json"' in error and git_blob(same_size) in error and repo.etag("config.json") in error


def test_local_dir_leftovers(ballast, make_model):
    """C10: bookkeeping is left out and named, nothing else is; C11: metadata of absent files are no manifest."""
    folder = make_model()
    download = folder / ".cache/huggingface/download"
    (download / "openvino").mkdir(parents=True)
    for name in ("x.metadata", "x.lock"):
        (download / "openvino" / name).write_text(f"{COMMIT}\n{'a' * 40}\n1.5\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").touch()
    (folder / ".locks").mkdir()
    (folder / "x.incomplete").touch()
    (folder / "tokens.txt.lock").write_text("data")
    done = ballast.do_import(folder, "m", json=True).json
    assert sorted(l.split(":")[0] for l in done["left_out"]) == [".cache/huggingface", ".git", ".locks", "x.incomplete"]
    assert not done["warnings"]
    assert "tokens.txt.lock" in info_of(ballast, "m")["files"]
    assert info_of(ballast, "m")["commit_from"] == "content"


@pytest.mark.parametrize("etag", ["a" * 40, "b" * 64, '"x"', "../../../etc/passwd", ""])
def test_local_etag_is_never_trusted(ballast, make_model, etag):
    """C12: whatever the times say."""
    folder = make_model()
    metadata = folder / ".cache/huggingface/download/config.json.metadata"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"{COMMIT}\n{etag}\n9999999999.0\n")
    done = ballast.do_import(folder, "m", json=True).json
    assert "blob_id" not in info_of(ballast, "m")["files"]["config.json"]
    assert info_of(ballast, "m")["commit_from"] == "content"
    assert ("not as it was downloaded" in str(done["warnings"])) == (len(etag) in (40, 64))


@pytest.mark.parametrize("locks", ["file", "closed", "loop"])
def test_locks_are_not_needed(repo, nobody, locks):
    """C16: reading a cache takes no lock and looks at none."""
    cache = nobody.home.parent / "hub"
    make_cache(cache, repo)
    at = cache / ".locks"
    if locks == "file":
        at.write_text("x")
    elif locks == "closed":
        at.mkdir(mode=0)
    else:
        at.symlink_to(".locks")
    for folder in (cache, *cache.rglob("*")):
        if not folder.is_symlink() and folder.is_dir() and folder != at:
            folder.chmod(0o555)
    own = nobody.having(store=nobody.home / "store")
    own("model", "import", cache, "--model-id", "org/name", "--checkpoint-id", "m")


# --- nothing outside the repository is read


def test_links_out_are_refused(ballast, cache, repo, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    top = make_cache(cache, repo, tree=False)
    link = top / "snapshots" / COMMIT / "config.json"
    other = make_cache(cache, repo, "other/model")
    (cache / "blobs").mkdir()
    (cache / "blobs" / "x").write_text("not marked as the shared store")
    for target in (secret, "../../../../secret", other / "blobs" / repo.etag("config.json"), cache / "blobs" / "x",
                   "../../refs/main"):
        link.unlink()
        link.symlink_to(target)
        error = ballast.fails(4, "model", "import", top)
        assert '"config.json"' in error and "leads out" in error
    # A folder of blobs is none of a model.
    link.unlink()
    link.symlink_to("../../blobs")
    assert "leads out" in ballast.fails(4, "model", "import", top)
    link.unlink()
    link.symlink_to("config.json")
    assert "leads to itself" in ballast.fails(4, "model", "import", top)


def test_blob_that_leads_out(ballast, cache, repo, tmp_path):
    """A blob may be a link itself, but only into the store that the cache shares."""
    top = make_cache(cache, repo)
    blob = top / "blobs" / repo.etag("config.json")
    blob.rename(tmp_path / "elsewhere")
    blob.symlink_to(tmp_path / "elsewhere")
    assert "leads out" in ballast.fails(4, "model", "import", top)


@pytest.mark.parametrize("part", ["blobs", "snapshots", "refs", "trees"])
def test_part_that_is_a_link(ballast, cache, repo, tmp_path, part):
    """The parts of a repository are folders: one that leads elsewhere is not followed."""
    top = make_cache(cache, repo)
    (top / part).rename(tmp_path / "moved")
    (top / part).symlink_to(tmp_path / "moved")
    if part in ("blobs", "snapshots"):
        ballast.fails(4, "model", "import", top)
    else:
        warnings = ballast.do_import(top, "m", json=True).json["warnings"]
        assert ("only snapshot" if part == "refs" else "is not known") in str(warnings)


def test_shared_blobs(ballast, cache, repo):
    """Clients of version 2 may keep large blobs once for the whole cache."""
    top = make_cache(cache, repo)
    shared = cache / "blobs" / "ab"
    shared.mkdir(parents=True)
    (cache / "blobs" / ".huggingface-shared-blobs").write_text("1\n")
    path = "model-00001-of-00002.safetensors"
    blob = top / "blobs" / repo.etag(path)
    blob.rename(shared / ("ab" * 32))
    blob.symlink_to(f"../../blobs/ab/{'ab' * 32}")
    ballast.do_import(top, "m")
    assert_imported(ballast, "m", repo)
    assert info_of(ballast, "m")["files"][path]["blob_id"] == repo.etag(path)


def test_snapshot_without_links(ballast, cache, repo):
    """Where a file system has no links, the client puts the files themselves into the snapshot."""
    top = make_cache(cache, repo)
    snapshot = top / "snapshots" / COMMIT
    for path in repo.files:
        (snapshot / path).unlink()
        (snapshot / path).write_bytes(repo.files[path])
    shutil.rmtree(top / "blobs")
    ballast.do_import(top, "m")
    assert info_of(ballast, "m")["files"]["config.json"]["blob_id"] == repo.etag("config.json")
    config = repo.files["config.json"]
    (snapshot / "config.json").write_bytes(config[:-1] + b"!")
    assert '"config.json"' in ballast.fails(4, "model", "import", top, "--checkpoint-id", "n")


def test_plain_folders_stay_plain(ballast, make_model, tmp_path):
    """A name alone does not make a cache."""
    named = make_model("models--org--name")
    done = ballast.do_import(named, "m", json=True).json
    assert (done["model_id"], done["warnings"]) == ("org/name", [])
    assert info_of(ballast, "m")["source"]["kind"] == "folder"


def test_home_of_the_client(ballast, tmp_path, repo):
    """The folder above the cache, HF_HOME, stands for it."""
    home = tmp_path / "huggingface"
    make_cache(home / "hub", repo)
    (home / "token").write_text("secret")
    done = ballast("model", "import", home, "--model-id", "org/name", json=True).json
    assert done["commit"] == COMMIT
    assert_imported(ballast, done["checkpoint_id"], repo)


@pytest.mark.parametrize("kind", ["datasets", "spaces", "kernels"])
def test_what_is_no_model(ballast, cache, repo, kind):
    top = make_cache(cache, repo)
    top.rename(cache / f"{kind}--org--name")
    for source in (cache / f"{kind}--org--name", cache / f"{kind}--org--name/snapshots" / COMMIT):
        assert "no model" in ballast.fails(2, "model", "import", source)


def test_inspect_reads_a_snapshot(ballast, cache, repo):
    top = make_cache(cache, repo)
    shown = ballast("model", "inspect", top, "--files", json=True).json
    assert (shown["model_id"], shown["commit"]) == ("org/name", COMMIT)
    assert {f["path"] for f in shown["files"]} == repo.files.keys()


def test_real_model(ballast, client, make_hub, minilm, cache):
    repo = Repo({p: d for p, d in read_tree(minilm).items()}, COMMIT)
    client.download(make_hub({"sentence-transformers/all-MiniLM-L6-v2": [repo]}),
                    "sentence-transformers/all-MiniLM-L6-v2", cache)
    done = ballast("model", "import", cache, "--model-id", "sentence-transformers/all-MiniLM-L6-v2", json=True).json
    assert done["checkpoint_id"] == "sentence-transformers__all-MiniLM-L6-v2-0123456789ab"
    assert models.contents(Path(cache / "models--sentence-transformers--all-MiniLM-L6-v2/snapshots" / COMMIT)) == {
        f["path"]: f["sha256"]
        for f in ballast("model", "inspect", done["checkpoint_id"], "--files", json=True).json["files"]}
