"""Names every file of a local store and says what reaches it.

This is written from docs/formats/ alone, so that a fault in the program's own idea of its store shows."""
import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path
from urllib.parse import unquote


@dataclasses.dataclass
class Walk:
    reached: dict = dataclasses.field(default_factory=dict)  # file: what names it
    leftovers: dict = dataclasses.field(default_factory=dict)  # file: why; the checkpoint's next owner removes it
    orphans: dict = dataclasses.field(default_factory=dict)  # file: why; nothing ever finds it
    missing: list = dataclasses.field(default_factory=list)  # named by a READY manifest, not there
    statuses: dict = dataclasses.field(default_factory=dict)  # checkpoint: status

    def assert_no_orphans(self):
        assert not self.orphans, f"nothing names these files: {self.orphans}"
        assert not self.missing, f"READY, but lost: {self.missing}"

    def assert_clean(self):
        self.assert_no_orphans()
        assert not self.leftovers, f"left over: {self.leftovers}"


def walk(store):
    store, found = Path(store), Walk()
    if not store.exists():
        return found
    models = store / "weight" / "models"
    for folder, _, names in os.walk(store):
        for name in names:
            file = Path(folder) / name
            relative = file.relative_to(store)
            if relative.parts[:2] == ("weight", "models") and len(relative.parts) == 4:
                continue
            elif relative.parts[:2] == ("weight", "refs") and not name.startswith(".tmp-"):
                reach_ref(found, models, file)
            elif str(relative) == "store.json":
                found.reached[file] = "store"
            elif name.startswith(".tmp-"):
                found.leftovers[file] = "a temporary"
            else:
                found.orphans[file] = "no such place in a store"
    for folder in sorted(models.iterdir()) if models.is_dir() else []:
        walk_checkpoint(found, folder)
    return found


def reach_ref(found, models, file):
    target = json.loads(file.read_bytes())["checkpoint_id"]
    if (models / target / "manifest").exists():
        found.reached[file] = f"a ref to {target}"
    else:
        found.orphans[file] = f"a ref to {target}, which has no manifest"


def chunk_keys(manifest):
    prefix = f"weight/models/{manifest['checkpoint_id']}/"
    for record in manifest["files"]:
        for key in record.get("chunks", []):
            assert key.startswith(prefix), f"a key of another checkpoint: {key}"
            assert f"files/{hashlib.sha256(record['path'].encode()).hexdigest()}/chunks/" in key, key
            yield key.removeprefix(prefix)


def walk_checkpoint(found, folder):
    names = {unquote(p.name).replace(",", "/"): p for p in folder.iterdir()}
    manifest = json.loads(names["manifest"].read_bytes()) if "manifest" in names else None
    chunks = set(chunk_keys(manifest)) if manifest else set()
    if manifest:
        found.statuses[folder.name] = manifest["status"]
        if manifest["status"] == "READY":
            found.missing += [str(folder / key) for key in sorted(chunks - set(names))]
    for name, file in names.items():
        if name.startswith(".tmp-"):
            found.leftovers[file] = "a temporary"
        elif re.fullmatch(r"claim|claim\.dead-[0-9a-f]{32}|claim-beat/[0-9a-f]{32}", name):
            found.leftovers[file] = "a claim"
        elif not manifest:
            found.orphans[file] = "no manifest"
        elif name in ("manifest", "info", "digests", "state"):
            found.reached[file] = "manifest"
        elif name in chunks:
            found.reached[file] = f"{manifest['status']} manifest"
        else:
            found.orphans[file] = "the manifest does not name it"
