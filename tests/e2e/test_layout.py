"""What an import, an inspection and a deep check say of whole folders: shards, indexes, and files that are no models."""
import json

import pytest

from support.models import contents, safetensors

INDEX = "model.safetensors.index.json"
F32 = b"\0" * 4


def shard(n, of=3):
    return f"model-{n:05d}-of-{of:05d}.safetensors"


def edit_index(folder, change):
    index = json.loads((folder / INDEX).read_text())
    change(index)
    (folder / INDEX).write_text(json.dumps(index))


@pytest.fixture
def shards(make_model):
    return make_model("sharded", n_shards=3)


def test_missing_shards_are_refused_and_listed(ballast, shards):
    (shards / shard(2)).unlink()
    (shards / shard(3)).unlink()
    error = ballast("model", "import", shards, rc=4).error
    assert shard(2) in error and shard(3) in error and "not there" in error and "--force" in error
    ballast("model", "import", shards, "--force")
    error = ballast("model", "verify", "sharded", "--deep", rc=4)
    assert shard(2) in error.text + error.err
    ballast("model", "verify", "sharded")
    assert shard(2) in str(ballast("model", "inspect", shards, rc=4))


def test_tensor_in_a_shard_that_lacks_it(ballast, shards):
    edit_index(shards, lambda index: index["weight_map"].update({"layers.9.absent": shard(2)}))
    before = contents(shards)
    ballast("model", "import", shards)
    ballast("model", "verify", "sharded")
    said = str(ballast("model", "verify", "sharded", "--deep", rc=4))
    assert "layers.9.absent" in said and shard(2) in said
    ballast("model", "pull", "sharded", "--output", shards.parent / "back")
    assert contents(shards.parent / "back") == before


def test_shard_tensor_that_the_index_lacks(ballast, shards):
    edit_index(shards, lambda index: index["weight_map"].pop("layers.2.weight_1"))
    ballast("model", "import", shards)
    said = str(ballast("model", "verify", "sharded", "--deep", rc=4))
    assert "layers.2.weight_1" in said and shard(2) in said


def test_two_splits_in_one_folder(ballast, shards, make_model):
    other = make_model("other", n_shards=4)
    for n in range(1, 5):
        (other / shard(n, 4)).rename(shards / shard(n, 4))
    (shards / "original").mkdir()
    (shards / "original" / "consolidated.safetensors").write_bytes(safetensors({"a": ("F32", [1], F32)}))
    before = contents(shards)
    ballast("model", "import", shards)
    ballast("model", "pull", "sharded", "--output", shards.parent / "back")
    assert contents(shards.parent / "back") == before
    said = str(ballast("model", "inspect", shards))
    for name in [shard(1, 4), shard(4, 4), "original/consolidated.safetensors"]:
        assert f"{name}: no shard index names this weight file" in said
    assert f"{shard(1)}: no shard" not in said
    ballast("model", "verify", "sharded", "--deep")


@pytest.mark.parametrize("data, words", [
    (b"", "model.gguf: the file is empty"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 34\n", "Git LFS pointer (oid sha256:12, size 34)"),
    (b"PK\3\4" + b"x" * 100, "zip archive"),
    (b"GGUF\3\0\0\0\1", "truncated"),
])
def test_what_cannot_be_a_gguf_file(ballast, model, data, words):
    (model / "model.gguf").write_bytes(data)
    error = ballast("model", "import", model, rc=4).error
    assert words in error and "--force" in error
    ballast("model", "import", model, "--force")
    ballast("model", "verify", "model")


@pytest.mark.parametrize("name, data", [
    ("new.safetensors", safetensors({"a": ("F1", [32], F32)})),
    ("overlap.safetensors", b"\x02\0\0\0\0\0\0\0{]" + F32),
    ("later.gguf", b"GGUF\x09\0\0\0" + b"\0" * 100),
    ("__init__.py", b""),
    (".lock", b""),
])
def test_what_import_does_not_judge(ballast, model, name, data):
    (model / name).write_bytes(data)
    ballast("model", "import", model)
    ballast("model", "verify", "model")


@pytest.mark.parametrize("data, rc, words", [
    (safetensors({"a": ("F32", [1], F32)}), 0, "F32"),
    (safetensors({"a": ("F1", [32], F32)}), 1, "F1"),
    (safetensors({"a": ("F32", [2], F32)}), 4, 'tensor "a": shape and dtype make 8 bytes, data_offsets 4'),
    (b"", 4, "the file is empty"),
])
def test_inspect_a_plain_file(ballast, tmp_path, data, rc, words):
    (tmp_path / "m.safetensors").write_bytes(data)
    assert words in str(ballast("model", "inspect", "./m.safetensors", rc=rc))


def test_inspect_half_a_real_file(ballast, silero, tmp_path):
    whole = silero.read_bytes()
    (tmp_path / "half.safetensors").write_bytes(whole[: len(whole) // 2])
    said = str(ballast("model", "inspect", "./half.safetensors", rc=4))
    assert f"truncated: {len(whole) // 2} bytes, the header promises at least {len(whole)}" in said
