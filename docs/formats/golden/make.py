"""Writes the golden files of docs/formats into a folder (default: this one).

It shares no code with ballast: Python's json and hashlib, and CRC32C by its definition. The tests run it
and compare, so the files here are what both make.
"""

import hashlib
import json
import pathlib
import sys

ID = "org__golden-0123456789ab"
MODEL_ID = "org/golden"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# path: (bytes, chunk size)
FILES = {
    "1_Pooling/config.json": (b'{"a":1}\n', 8),
    "README.md": (b"", 0),
    "model.safetensors": (bytes(4 * 1024 * 1024 + 10), 4 * 1024 * 1024 + 10),
    'odd "\\é\x1f\n\x7f.GGUF': (b"0123456789", 4),
}
WEIGHTS = (".bin", ".ckpt", ".gguf", ".pt", ".pth", ".safetensors")
BLOCK = 4 * 1024 * 1024


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def crc32c(data, table=crc_table()):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def file_key(path):
    return f"weight/models/{ID}/files/{sha256(path.encode())}"


def record(path, n_chunks, size, chunk_size, digest):
    key = file_key(path)
    return {
        "path": path,
        "type": "WEIGHT" if path.lower().endswith(WEIGHTS) else "METADATA",
        "key": key,
        "size": size,
        "sha256": digest,
        "chunks": [f"{key}/chunks/{i:08d}" for i in range(n_chunks)],
        "chunk_size": chunk_size,
    }


def manifest(files, **changes):
    return {
        "checkpoint_id": ID,
        "model_id": MODEL_ID,
        "revision": "main",
        "source_uri": "/data/golden",
        "status": "READY",
        "created_at": 1700000000,
        "updated_at": 1700000060,
        "total_size": sum(f["size"] for f in files),
        "error": None,
        "schema_version": 2,
        "files": sorted(files, key=lambda f: f["path"].encode()),
    } | changes


def ready_files():
    for path, (data, chunk_size) in FILES.items():
        n = -(-len(data) // chunk_size) if data else 0
        yield record(path, n, len(data), chunk_size, sha256(data))


def failed_files():
    for path, (data, chunk_size) in FILES.items():
        n = -(-len(data) // chunk_size) if data else 0
        yield record(path, n, 0, chunk_size, "")


def schema_1_files():
    for path, (data, _) in FILES.items():
        whole = record(path, 0, len(data), 0, sha256(data))
        del whole["chunks"], whole["chunk_size"]
        yield whole


def digests():
    files = {}
    for path, (data, _) in FILES.items():
        crcs = [crc32c(data[i : i + BLOCK]) for i in range(0, len(data), BLOCK)]
        if crcs:
            text = "".join(f"{crc:08x}" for crc in crcs)
            files[path] = {"size": len(data), "sha256": sha256(data), "crc": text}
    return {"schema_version": 1, "algorithm": "crc32c", "block_size": BLOCK, "files": files}


def content_commit():
    digest = hashlib.sha256()
    for path in sorted(FILES, key=str.encode):
        digest.update(path.encode() + b"\0" + sha256(FILES[path][0]).encode() + b"\n")
    return digest.hexdigest()[:40]


def info(**changes):
    return {
        "schema_version": 1,
        "commit": content_commit(),
        "commit_from": "content",
        "content_commit": content_commit(),
        "refs": [],
        "tags": [],
        "source": {"kind": "folder", "uri": "/data/golden"},
        "imported_by": {"host": "node-1", "ballast": "0.1.0"},
        "files": {path: {"executable": False} for path in FILES},
    } | changes


def info_of_commit():
    files = {path: {"executable": path == "README.md", "mtime_ns": 1699999999123456789} for path in FILES}
    files["model.safetensors"]["blob_id"] = sha256(FILES["model.safetensors"][0])
    files["README.md"]["blob_id"] = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    refs = ["main", "v1.0"]
    source = {"kind": "hf-cache", "uri": "/data/golden"}
    return info(commit=COMMIT, commit_from="source", refs=refs, source=source, tags=["prod"], files=files)


def store(max_bytes=None):
    limit = {} if max_bytes is None else {"max_bytes": max_bytes}
    return limit | {
        "format": "ballast-dir",
        "version": 1,
        "features": {
            "compatible": [],
            "read_only_compatible": ["max-bytes"] if limit else [],
            "incompatible": [],
        },
        "shared": "umask",
    }


def documents():
    failed = {"status": "FAILED", "error": "import in progress: host node-1, process 4711"}
    return {
        "manifest-ready.json": manifest(list(ready_files())),
        "manifest-failed.json": manifest(list(failed_files()), **failed),
        "manifest-schema-1.json": manifest(list(schema_1_files()), schema_version=1),
        "digests.json": digests(),
        "info-content.json": info(),
        "info-source.json": info_of_commit(),
        "ref.json": {
            "schema_version": 1,
            "model_id": MODEL_ID,
            "ref": "main",
            "checkpoint_id": ID,
            "updated_at": 1700000060,
        },
        "state.json": {
            "schema_version": 1,
            "pinned": True,
            "checked_at": 1700000120,
            "missing": ["README.md"],
            "damaged": ["model.safetensors", 'odd "\\é\x1f\n\x7f.GGUF'],
        },
        "used.json": {"schema_version": 1, "checkpoint_id": ID, "used_at": 1700000180123456},
        "claim.json": {
            "schema_version": 1,
            "host": "node-1",
            "boot_id": "5c1d7ba2-7d52-4f55-8a32-0f7a3a3c6a0e",
            "pid_namespace": "pid:[4026531836]",
            "token": "00112233445566778899aabbccddeeff",
            "operation": "import",
            "pid": 4711,
            "start_time": 123456,
            "started_at": 1700000000,
        },
        "gc.json": {
            "schema_version": 1,
            "candidates": {"11" * 16: 1700000001, "22" * 16: 1700000002},
        },
        "reserved.json": {"schema_version": 1, "bytes": 5368709120},
        "store.json": store(),
        "store-max-bytes.json": store(107374182400),
    }


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, document in documents().items():
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        end = "\n" if name.startswith("store") else ""  # the one file that people edit
        (folder / name).write_bytes((text + end).encode())


if __name__ == "__main__":
    main()
