"""Small checkpoints with the shape of real ones, made from a seed."""
import hashlib
import json
import os
import random
from pathlib import Path

DTYPE_BYTES = {"BF16": 2, "F32": 4, "U8": 1}


def safetensors(tensors, metadata=None):
    """The bytes of a file with these tensors: {name: (dtype, shape, data)}."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values())


def make_model(folder, n_shards=2, n_tensors=3, tensor_bytes=4096, seed=1):
    """A Hugging Face folder: shards and their index, configuration, tokenizer, a nested file, an executable, an empty one."""
    folder, rng = Path(folder), random.Random(seed)
    folder.mkdir(parents=True)
    weight_map, total = {}, 0
    for shard in range(1, n_shards + 1):
        name = f"model-{shard:05d}-of-{n_shards:05d}.safetensors" if n_shards > 1 else "model.safetensors"
        tensors = {}
        for i in range(n_tensors):
            tensor = f"layers.{shard}.weight_{i}"
            tensors[tensor] = ("BF16", [tensor_bytes // 2], rng.randbytes(tensor_bytes))
            weight_map[tensor] = name
            total += tensor_bytes
        (folder / name).write_bytes(safetensors(tensors, {"format": "pt"}))
    if n_shards > 1:
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (folder / "config.json").write_text(json.dumps({"architectures": ["Test"], "seed": seed}))
    (folder / "tokenizer.json").write_bytes(rng.randbytes(3000))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling": true}')
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "__init__.py").touch()
    return folder


def contents(folder, but=(".ballast",)):
    """{relative path: SHA-256} of a tree's files, links followed; folders named in `but` are passed over."""
    folder = os.fsencode(folder)
    found = {}
    for at, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [f for f in folders if f.decode(errors="surrogateescape") not in but]
        for name in files:
            path = os.path.join(at, name)
            with open(path, "rb") as f:
                digest = hashlib.file_digest(f, "sha256").hexdigest()
            found[os.fsdecode(os.path.relpath(path, folder))] = digest
    return found
