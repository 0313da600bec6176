"""What must be in a store, kept in memory beside it: the judge of random commands (tests/fault/test_random.py)."""
import dataclasses
import hashlib
import os
import shutil
from pathlib import Path

from .scenes import object_file
from .walker import walk


@dataclasses.dataclass
class Checkpoint:
    model: str
    revision: str
    files: dict = dataclasses.field(repr=False)  # path: content
    pinned: bool = False
    damaged: set = dataclasses.field(default_factory=set)  # paths whose object holds other bytes
    recorded: set = dataclasses.field(default_factory=set)  # of them, those that the state object names


class StoreModel:
    """One store: the command on it, and what must be in it."""

    def __init__(self, ballast):
        self.ballast, self.path = ballast, ballast.store
        self.checkpoints, self.refs = {}, {}  # id: Checkpoint; (model, ref): id

    def forget(self, id):
        del self.checkpoints[id]
        self.refs = {ref: target for ref, target in self.refs.items() if target != id}

    def whole(self):
        return [id for id, c in self.checkpoints.items() if not c.damaged]

    def holds(self, content):
        """Whether an object with these bytes, or what was such a one, is in the store."""
        return any(content == other for c in self.checkpoints.values() for other in c.files.values())

    def object_file(self, id, path):
        return object_file(self.path, id, path)

    def damage(self, id, path, at):
        """Changes a byte in place: of every checkpoint that shares the file."""
        file = self.object_file(id, path)
        mode, inode = file.stat().st_mode, file.stat().st_ino
        file.chmod(0o644)
        with open(file, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 0x55]))
        file.chmod(mode)
        for other, checkpoint in self.checkpoints.items():
            for name, content in checkpoint.files.items():
                if content and self.object_file(other, name).stat().st_ino == inode:
                    is_right = self.object_file(other, name).read_bytes() == content
                    checkpoint.damaged -= {name}
                    checkpoint.damaged |= set() if is_right else {name}

    def check(self):
        """The whole store, file by file, against what must be in it."""
        found = walk(self.path)
        found.assert_clean()
        assert found.statuses == {id: "READY" for id in self.checkpoints}
        assert found.refs == self.refs
        for id, checkpoint in self.checkpoints.items():
            files = {r["path"]: r["sha256"] for r in found.manifests[id]["files"]}
            assert files == {p: hashlib.sha256(c).hexdigest() for p, c in checkpoint.files.items()}, id
            for path, content in checkpoint.files.items():
                if content:
                    is_right = self.object_file(id, path).read_bytes() == content
                    assert is_right == (path not in checkpoint.damaged), f"{id}: {path} is right: {is_right}"
            state = found.states.get(id, {"pinned": False, "damaged": [], "missing": []})
            assert state["pinned"] == checkpoint.pinned, id
            assert {*state["damaged"], *state["missing"]} == checkpoint.recorded, f"{id}: {state}"
        listed = {c["checkpoint_id"]: c["status"] for c in self.ballast("model", "list", json=True).json["checkpoints"]}
        assert listed == {id: "DEGRADED" if c.recorded else "READY" for id, c in self.checkpoints.items()}
        self.check_stats(found)

    def check_stats(self, found):
        """The totals, counted from the files themselves."""
        stats = self.ballast("stats", json=True).json
        files = {}  # inode: (size, checkpoints)
        for file in found.reached:
            parts = file.relative_to(self.path).parts
            if parts[:2] == ("weight", "models"):
                st = os.lstat(file)
                files.setdefault(st.st_ino, (st.st_size, set()))[1].add(parts[2])
        assert [c["checkpoint_id"] for c in stats["checkpoints"]] == sorted(self.checkpoints)
        for listed in stats["checkpoints"]:
            id = listed["checkpoint_id"]
            unique = sum(size for size, ids in files.values() if ids == {id})
            shared = sum(size for size, ids in files.values() if id in ids and len(ids) > 1)
            assert (listed["unique_bytes"], listed["shared_bytes"]) == (unique, shared), listed
        assert stats["stored_bytes"] == found.n_bytes


def write_folder(folder, files):
    """A folder with exactly these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in files.items():
        file = Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
