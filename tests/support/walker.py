"""Names every file of a local store and says what reaches it.

This is written from docs/formats/ alone, so that a fault in the program's own idea of its store shows."""
import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

CLAIM = re.compile(r"claim|claim\.dead-[0-9a-f]{32}|claim-beat/[0-9a-f]{32}")


@dataclasses.dataclass
class Walk:
    reached: dict = dataclasses.field(default_factory=dict)  # file: what names it
    leftovers: dict = dataclasses.field(default_factory=dict)  # file: why; the checkpoint's next owner, or gc, removes it
    orphans: dict = dataclasses.field(default_factory=dict)  # file: why; nothing but gc ever finds it
    missing: list = dataclasses.field(default_factory=list)  # named by a READY manifest, not there
    wrong: list = dataclasses.field(default_factory=list)  # bytes that are shared and must not be
    statuses: dict = dataclasses.field(default_factory=dict)  # checkpoint: status
    manifests: dict = dataclasses.field(default_factory=dict)  # checkpoint: its manifest
    states: dict = dataclasses.field(default_factory=dict)  # checkpoint: its state object, where there is one
    refs: dict = dataclasses.field(default_factory=dict)  # (model id, ref): checkpoint
    digests: dict = dataclasses.field(default_factory=dict)  # file of a chunk: (size, SHA-256) of the whole file it is, or None

    def assert_no_orphans(self):
        assert not self.orphans, f"nothing names these files: {self.orphans}"
        assert not self.missing, f"READY, but lost: {self.missing}"
        assert not self.wrong, self.wrong

    def assert_clean(self):
        self.assert_no_orphans()
        assert not self.leftovers, f"left over: {self.leftovers}"

    @property
    def n_bytes(self):
        """Of all files but store.json, each once however many names it has: what max_bytes counts."""
        files = {}
        for file in (*self.reached, *self.leftovers, *self.orphans):
            st = os.lstat(file)
            files[st.st_dev, st.st_ino] = 0 if file.name == "store.json" else st.st_size
        return sum(files.values())


def walk(store):
    store, found = Path(store), Walk()
    if not store.exists():
        return found
    models = store / "weight" / "models"
    for folder in sorted(models.iterdir()) if models.is_dir() else []:
        walk_checkpoint(found, folder)
    for folder, _, names in os.walk(store):
        for name in names:
            file = Path(folder) / name
            parts = file.relative_to(store).parts
            if parts[:2] != ("weight", "models") or len(parts) != 4:
                walk_other(found, file, parts)
    check_sharing(found)
    return found


def walk_other(found, file, parts):
    """A file that is below no checkpoint."""
    name = "/".join(part.replace(",", "/") for part in parts)
    if parts[-1].startswith(".tmp-"):
        found.leftovers[file] = "a temporary"
    elif parts[:2] == ("weight", "refs") and len(parts) == 4:
        reach_ref(found, file)
    elif parts == ("store.json",) or name == "weight/control/gc":
        found.reached[file] = "store"
    elif name.startswith("weight/control/room/") and CLAIM.fullmatch(name.removeprefix("weight/control/room/")):
        found.leftovers[file] = "a claim"
    elif parts[:2] == ("weight", "used") and len(parts) == 3:
        if unquote(parts[2]) in found.manifests:
            found.reached[file] = "last use"
        else:
            found.leftovers[file] = "the last use of a checkpoint that has no manifest"
    else:
        found.orphans[file] = "no such place in a store"


def reach_ref(found, file):
    ref = json.loads(file.read_bytes())
    target = ref["checkpoint_id"]
    if file.name.endswith(".moved"):
        found.leftovers[file] = "a ref on its way out"
    elif target in found.manifests:
        found.reached[file] = f"a ref to {target}"
        found.refs[ref["model_id"], ref["ref"]] = target
    else:
        found.orphans[file] = f"a ref to {target}, which has no manifest"


def chunk_keys(manifest):
    """{key: (size, SHA-256) where the chunk is the whole file, else None}"""
    prefix, keys = f"weight/models/{manifest['checkpoint_id']}/", {}
    for record in manifest["files"]:
        for key in record.get("chunks", []):
            assert key.startswith(prefix), f"a key of another checkpoint: {key}"
            assert f"files/{hashlib.sha256(record['path'].encode()).hexdigest()}/chunks/" in key, key
            keys[key.removeprefix(prefix)] = (record["size"], record["sha256"]) if len(record["chunks"]) == 1 else None
    return keys


def walk_checkpoint(found, folder):
    names = {unquote(p.name).replace(",", "/"): p for p in folder.iterdir()}
    manifest = json.loads(names["manifest"].read_bytes()) if "manifest" in names else None
    chunks = chunk_keys(manifest) if manifest else {}
    if manifest:
        found.statuses[folder.name], found.manifests[folder.name] = manifest["status"], manifest
        if manifest["status"] == "READY":
            found.missing += [str(folder / key) for key in sorted(set(chunks) - set(names))]
        if "state" in names:
            found.states[folder.name] = json.loads(names["state"].read_bytes())
    for name, file in names.items():
        if name.startswith(".tmp-"):
            found.leftovers[file] = "a temporary"
        elif CLAIM.fullmatch(name):
            found.leftovers[file] = "a claim"
        elif name == "reserved":
            found.leftovers[file] = "a reservation"
        elif not manifest:
            found.orphans[file] = "no manifest"
        elif name in ("manifest", "info", "digests", "state"):
            found.reached[file] = "manifest"
        elif name in chunks:
            found.reached[file] = f"{manifest['status']} manifest"
            if manifest["status"] == "READY":
                found.digests[file] = chunks[name]
        else:
            found.orphans[file] = "the manifest does not name it"


def check_sharing(found):
    """Chunks share a file only where they are whole files with the same bytes; nothing else shares one."""
    inodes = {}
    for file in found.reached:
        inodes.setdefault(os.lstat(file).st_ino, []).append(file)
    for files in inodes.values():
        of_ready = [file for file in files if file in found.digests]
        if len(files) == 1 or not of_ready:
            continue
        if any(not file.name.startswith("files,") for file in files):
            found.wrong.append(f"a control object shares its file: {files}")
        elif len(digests := {found.digests[file] for file in of_ready}) != 1 or None in digests:
            found.wrong.append(f"chunks of different files share their bytes: {files}")
