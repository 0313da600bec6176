"""Random commands on two stores, each foretold by a model in memory: exit code and what is there afterwards.

BALLAST_SEED=N runs those of one seed again, as a failure prints it."""
import json
import os
import random
import shutil

import pytest

from support import models
from support.store_model import Checkpoint, StoreModel, write_folder
from support.walker import walk

RUNS, N_CHECK, N_LONG, CHECK_EVERY = 5, 500, 20_000, 25
# Three checkpoints of one model, two of another, one of a third.
MODELS = {"a1": "org/a", "a2": "org/a", "a3": "org/a", "b1": "org/b", "b2": "org/b", "c": "c"}
REVISIONS = ("main", "dev")
TAGS = ("main", "dev", "prod")


class World:
    """Source folders that change, and two stores; `op_…` is one random command each."""

    def __init__(self, ballast, top, seed):
        self.rng, self.top = random.Random(seed), top
        self.stores = []
        for name in ("first", "second"):
            (top / name).mkdir()
            own = ballast.having(store=top / name / "store", env={"BALLAST_STATE_DIR": str(top / name / "state")})
            self.stores.append(StoreModel(own))
        self.first = self.stores[0]
        self.shards = [self.make_shard(i) for i in range(6)]
        self.sources = {name: self.make_files() for name in ("s0", "s1", "s2", "s3")}
        for name, files in self.sources.items():
            write_folder(top / name, files)
        self.log = []

    def make_shard(self, seed):
        data = random.Random(seed).randbytes(self.rng.choice([2000, 9000, 70_000]))
        return models.safetensors({"w": ("U8", [len(data)], data)})

    def make_files(self):
        files = {"config.json": b'{"n": %d}' % self.rng.randrange(3), "empty.txt": b""}
        for i in range(self.rng.randrange(1, 4)):
            files[f"part-{i}.safetensors"] = self.rng.choice(self.shards)
        if self.rng.random() < 0.5:
            files["sub/tokenizer.json"] = b"tokens" * self.rng.choice([10, 5000])
        return files

    def run(self, store, rc, *args):
        """The command in that store, and its exit code: one, or one of several."""
        self.log.append(f"{'first' if store is self.first else 'second'}: {' '.join(map(str, args))} -> {rc}")
        return store.ballast(*args, rc=rc)

    def some_id(self, store):
        """Nearly always one that is there."""
        known = sorted(store.checkpoints)
        return self.rng.choice(known) if known and self.rng.random() < 0.9 else self.rng.choice(list(MODELS))

    # Putting in

    def op_import(self, store):
        id, name = self.rng.choice(list(MODELS)), self.rng.choice(list(self.sources))
        files, revision = self.sources[name], self.rng.choice(REVISIONS)
        there = store.checkpoints.get(id)
        is_other = there is not None and there.files != files
        self.run(store, 5 if is_other else 0, "model", "import", self.top / name, "--checkpoint-id", id, "--model-id", MODELS[id],
                 "--revision", revision)
        if is_other:
            return
        if there is None:
            store.checkpoints[id] = Checkpoint(MODELS[id], revision, dict(files))
        else:
            there.damaged, there.recorded = set(), set()
        store.refs[MODELS[id], revision] = id

    def op_change_source(self, store):
        name = self.rng.choice(list(self.sources))
        self.sources[name] = self.make_files()
        write_folder(self.top / name, self.sources[name])
        self.log.append(f"{name} is now {sorted(self.sources[name])}")

    def op_keep(self, store):
        """Imports, and only so many of that revision stay. Which is the newest within one second, the store says."""
        id = self.rng.choice(sorted(MODELS.keys() - store.checkpoints.keys()) or [None])
        if id is None:
            return
        name, revision, n = self.rng.choice(list(self.sources)), self.rng.choice(REVISIONS), self.rng.choice([1, 1, 2])
        result = self.run(store, 0, "model", "import", self.top / name, "--checkpoint-id", id, "--model-id", MODELS[id],
                          "--revision", revision, "--keep", str(n), "--json")
        store.checkpoints[id] = Checkpoint(MODELS[id], revision, dict(self.sources[name]))
        store.refs[MODELS[id], revision] = id
        same = [i for i, c in store.checkpoints.items() if (c.model, c.revision) == (MODELS[id], revision)]
        spared = {id, *(i for i in same if store.checkpoints[i].pinned),
                  *(i for (_, ref), i in store.refs.items() if ref != revision)}
        gone = result.json["pruned"]
        assert set(gone) <= set(same) - spared, (gone, same, spared)
        assert min(n, len(same)) <= len(same) - len(gone) <= n + len(spared.intersection(same)), (gone, same, spared)
        for i in gone:
            store.forget(i)

    def op_copy(self, store):
        """Into the other store, with the refs; nothing damaged gets there."""
        other = next(s for s in self.stores if s is not store)
        id = self.some_id(store)
        here, there = store.checkpoints.get(id), other.checkpoints.get(id)
        if here is None:
            rc = 3
        elif here.recorded:
            rc = 4
        elif there is not None and there.files != here.files:
            rc = 5
        else:
            rc = (0, 4) if here.damaged else 0
        result = self.run(store, rc, "model", "copy", id, "--to", other.path)
        if result.rc != 0:
            return
        # Also where a file here is damaged: the other store may have another one with the right bytes.
        other.ballast.verify(id)
        if there is None:
            other.checkpoints[id] = Checkpoint(here.model, here.revision, dict(here.files))
        else:
            there.damaged, there.recorded = set(), set()
        for ref in [ref for ref, target in store.refs.items() if target == id]:
            # One that means another checkpoint there is moved only by a copy that is new.
            other.refs[ref] = id if there is None else other.refs.get(ref, id)

    # Giving out

    def op_pull(self, store):
        id, out = self.some_id(store), self.top / "out"
        link = self.rng.choice(["copy", "hardlink", "auto"])
        there = store.checkpoints.get(id)
        rc = 3 if there is None else 4 if there.recorded else (0, 4) if there.damaged else 0
        result = self.run(store, rc, "model", "pull", id, "--output", out, f"--link={link}")
        if result.rc == 0:
            found = {p: (out / p).read_bytes() for p in there.files}
            wrong = {p for p in there.files if found[p] != there.files[p]}
            # A copy is checked; a link gives what the file system has.
            assert wrong <= (set() if link == "copy" else there.damaged), f"pulled wrong bytes: {wrong}"
        shutil.rmtree(out, ignore_errors=True)

    def op_cat(self, store):
        id = self.some_id(store)
        there = store.checkpoints.get(id)
        path = self.rng.choice(sorted(there.files)) if there else "config.json"
        rc = 3 if there is None else 4 if there.recorded else (0, 4) if path in there.damaged else 0
        result = self.run(store, rc, "model", "cat", id, path)
        if result.rc == 0 and path not in there.damaged:
            assert result.out == there.files[path]

    # Looking after it

    def op_verify(self, store):
        id = self.some_id(store)
        there = store.checkpoints.get(id)
        quick = self.rng.choice([[], ["--quick"], ["--deep"]])
        self.run(store, 3 if there is None else 4 if there.damaged else 0, "model", "verify", id, *quick)
        if there:
            there.recorded = set(there.damaged)

    def op_fsck(self, store):
        self.run(store, 4 if any(c.recorded for c in store.checkpoints.values()) else 0, "fsck")

    def op_gc(self, store):
        self.run(store, 0, "gc", *self.rng.choice([[], ["--grace", "0"], ["--dry-run"]]))

    def op_damage(self, store):
        """In the first store only: the second is what it is mended from."""
        if not self.first.checkpoints or self.rng.random() < 0.5:
            return
        id = self.rng.choice(sorted(self.first.checkpoints))
        path = self.rng.choice(sorted(p for p, c in self.first.checkpoints[id].files.items() if c))
        at = self.rng.randrange(len(self.first.checkpoints[id].files[path]))
        self.log.append(f"first: byte {at} of {path} in {id} is damaged")
        self.first.damage(id, path, at)

    def op_repair(self, store):
        id = self.some_id(store)
        there = store.checkpoints.get(id)
        if there is None:
            self.run(store, 3, "model", "repair", id)
            return
        source = self.top / "whole"
        write_folder(source, there.files)
        self.run(store, 0, "model", "repair", id, "--from", source)
        there.damaged, there.recorded = set(), set()

    def op_delete(self, store):
        id = self.some_id(store)
        self.run(store, 0 if id in store.checkpoints else 3, "model", "delete", id)
        if id in store.checkpoints:
            store.forget(id)

    def op_prune(self, store):
        """Down to a size between two that the model foretells, so that what bytes the records need makes no difference."""
        order = self.last_uses(store)
        if not order:
            return
        sizes, gone = [self.size_without(store, order[:n]) for n in range(len(order) + 1)], self.rng.randint(0, len(order))
        limit = sizes[0] + 1000 if gone == 0 else (sizes[gone - 1] + sizes[gone]) // 2
        if gone > 0 and sizes[gone - 1] - sizes[gone] < 1500:
            return
        really = self.rng.random() < 0.5
        self.run(store, 0, "prune", "--max-bytes", str(limit), *(["--yes"] if really else []))
        for id in order[:gone] if really else []:
            store.forget(id)

    def last_uses(self, store):
        """What may be pruned, the least recently used first, by the store's own objects."""
        found, uses = walk(store.path), {}
        for id, manifest in found.manifests.items():
            used = store.path / "weight/used" / id
            uses[id] = json.loads(used.read_bytes())["used_at"] if used.exists() else manifest["created_at"] * 1_000_000
        return sorted((id for id in uses if not store.checkpoints[id].pinned), key=lambda id: (uses[id], id))

    def size_without(self, store, ids):
        files = {}
        for file in walk(store.path).reached:
            parts = file.relative_to(store.path).parts
            if parts[:2] != ("weight", "models") or parts[2] not in ids:
                st = os.lstat(file)
                files[st.st_ino] = st.st_size
        return sum(files.values())

    # Names

    def op_tag(self, store):
        id, tag = self.some_id(store), self.rng.choice(TAGS)
        there = store.checkpoints.get(id)
        move = self.rng.choice([[], ["--move"]])
        before = store.refs.get((MODELS[id], tag))
        rc = 3 if there is None else 5 if before not in (None, id) and not move else 0
        self.run(store, rc, "model", "tag", *move, id, tag)
        if rc == 0:
            store.refs[MODELS[id], tag] = id

    def op_untag(self, store):
        model, tag = self.rng.choice(list(MODELS.values())), self.rng.choice(TAGS)
        self.run(store, 0 if (model, tag) in store.refs else 3, "model", "tag", "--remove", f"{model}@{tag}")
        store.refs.pop((model, tag), None)

    def op_pin(self, store):
        id, word = self.some_id(store), self.rng.choice(["pin", "unpin", "unpin"])
        there = store.checkpoints.get(id)
        self.run(store, 3 if there is None else 0, "model", word, id)
        if there:
            there.pinned = word == "pin"

    # Room

    def op_limit(self, store):
        """A limit that is reached already lets in what is there, and nothing else."""
        if not self.first.path.exists():
            return
        self.run(store, 0, "store", "set", "--max-bytes", str(max(walk(store.path).n_bytes, 1)))
        files = {"new.bin": self.rng.randbytes(30_000)}
        write_folder(self.top / "new", files)
        free = sorted(MODELS.keys() - store.checkpoints.keys())
        if free:
            self.run(store, 1, "model", "import", self.top / "new", "--checkpoint-id", free[0], "--model-id", MODELS[free[0]])
        self.run(store, 0, "store", "set", "--max-bytes", "none")

    def step(self):
        weights = {"import": 5, "keep": 1, "copy": 2, "change_source": 1, "pull": 3, "cat": 3, "verify": 3, "fsck": 1, "gc": 1, "damage": 2, "repair": 2,
                   "delete": 2, "prune": 1, "tag": 2, "untag": 1, "pin": 2, "limit": 1}
        operation = self.rng.choices(list(weights), weights.values())[0]
        getattr(self, f"op_{operation}")(self.rng.choices(self.stores, [4, 1])[0])


@pytest.mark.parametrize("number", range(RUNS))
def test_random_commands(number, ballast, tmp_path, is_long):
    seed = int(os.environ.get("BALLAST_SEED") or random.randrange(1 << 32))
    world = World(ballast, tmp_path, seed)
    step = 0
    try:
        for step in range(1, (N_LONG if is_long else N_CHECK) + 1):
            world.step()
            if step % CHECK_EVERY == 0:
                for store in world.stores:
                    store.check()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, step {step}: {error}\nbefore it:\n" + "\n".join(world.log[-40:])) from error
