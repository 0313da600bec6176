"""What the fault tests interrupt: a scene is one command on a store whose state is set up once and copied for each run.

A new scene is a class below with a name in `SCENES`; test_kill.py and test_errors.py then run it at every point. It says what
differs from `Scene`: `prepare` (the state at the start), `args` (the command), `check_between` (what must hold at any moment)
and `check_after` (what must hold when it has succeeded)."""
import hashlib
import json
import os
import shutil
from pathlib import Path

from . import hub, models
from .walker import walk

SCENES = {}


def scene(name):
    """Puts the class into the table under that name."""
    def add(cls):
        SCENES[name] = cls
        return cls
    return add


def copy_tree(source, target):
    """A copy with the same hard links, modes and times."""
    made = {}
    for folder, folders, names in os.walk(source):
        to = Path(target) / Path(folder).relative_to(source)
        to.mkdir()
        for name in [*names, *(f for f in folders if (Path(folder) / f).is_symlink())]:
            file, copy = Path(folder) / name, to / name
            inode = os.lstat(file).st_ino
            if inode in made:
                os.link(made[inode], copy, follow_symlinks=False)
            else:
                shutil.copy2(file, copy, follow_symlinks=False)
                made[inode] = copy
    for folder, _, _ in os.walk(source, topdown=False):
        shutil.copystat(folder, Path(target) / Path(folder).relative_to(source))


def object_file(store, id, path=None):
    """The file of a checkpoint's largest chunk, or of that of its file `path` (of a file that is stored whole)."""
    folder = Path(store) / "weight/models" / id
    if path is not None:
        return folder / f"files,{hashlib.sha256(path.encode()).hexdigest()},chunks,00000000"
    return max(folder.glob("files,*"), key=lambda p: (p.stat().st_size, p.name))


def damage(file, at=100):
    """Changes a byte of the object, in a file of its own: an object that shares its bytes stays as it is."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    mode = file.stat().st_mode
    file.unlink()
    file.write_bytes(data)
    file.chmod(mode)


def collect(ballast):
    """gc, when temporaries are no longer so young that somebody may be writing them."""
    for file in ballast.store.rglob(".tmp-*"):
        os.utime(file, (1, 1))
    ballast("gc", "--grace", "0")


def make_older(manifest):
    """As if its checkpoint had been imported three days ago."""
    document = json.loads(manifest.read_bytes())
    document["created_at"] -= 3 * 24 * 3600
    manifest.chmod(0o644)
    manifest.write_text(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


class Scene:
    """A store with the checkpoint "other", and one command on "m". Both come from folders of small files; a shard and several
    files of "other" are the same as those of "m".

    self.ballast runs in `work`, a fresh copy of `start` for each run. What else a scene needs (a second store, a target) lies
    in there too, under self.work, so that its calls count."""

    has_m = True  # "m" is there at the start
    m_is_damaged = False  # and so it is no fault where it still is
    warns = False  # a write that may fail with no more than a warning is among its calls
    names = ('"m"', "weight/models/m/", 'ref "main"')  # what a message may name
    can_fail = True  # test_errors.py runs it; not where it only puts together what other scenes are of
    gone_rc = 0  # what the command says when it has nothing left to do

    def __init__(self, ballast, shim, top):
        self.shim, self.top = shim, Path(top)
        self.start, self.work = self.top / "start", self.top / "work"
        self.start.mkdir()
        self.model = models.make_model(self.top / "model")
        self.other = models.make_model(self.top / "other", seed=2)
        shard = "model-00001-of-00002.safetensors"
        shutil.copy2(self.model / shard, self.other / shard)
        at_start = self.at(ballast, self.start)
        at_start.do_import(self.other, "other", "--model-id", "org/other")
        if self.has_m:
            at_start.do_import(self.model, "m", "--model-id", "org/m")
        self.ballast = self.at(ballast, self.work)
        self.prepare(at_start)
        self.orphans = self.orphans_of(self.start / "store")

    @staticmethod
    def at(ballast, folder):
        return ballast.having(store=folder / "store", cwd=folder, env={"BALLAST_STATE_DIR": str(folder / "state")})

    def prepare(self, at_start):
        """Changes the state at the start: at_start runs the command there, self.start is its folder."""

    def args(self):
        return ["model", "import", self.model, "--checkpoint-id", "m", "--model-id", "org/m"]

    def stores(self):
        """All stores of the scene."""
        return [self.ballast.store]

    def orphans_of(self, store):
        """What nothing names, below the store."""
        return {str(f.relative_to(store)) for f in walk(store).orphans}

    def reset(self):
        shutil.rmtree(self.work, ignore_errors=True)
        copy_tree(self.start, self.work)

    def run(self, deed, at, sticky=False):
        """The command once, from the start, with the fault; any exit code but a crash's."""
        self.reset()
        env = self.shim.env(self.work, deed, at, sticky)
        return self.ballast.having(env=env)(*self.args(), rc=None)

    def n_calls(self, deed):
        result = self.run(deed, 0)
        assert result.rc == 0, result
        return self.shim.calls

    def told(self, result):
        """Where a run that failed says why."""
        return result.error

    def check_other(self):
        self.ballast.verify("other")

    def check_between(self):
        """What must hold at any moment: nothing more is orphaned, READY means whole, "other" is untouched."""
        for store in self.stores():
            found, ballast = walk(store), self.ballast.having(store=store)
            new = {str(f.relative_to(store)) for f in found.orphans} - self.orphans
            assert not new, f"nothing names these files: {sorted(new)}"
            assert self.m_is_damaged or not found.missing, f"READY, but lost: {found.missing}"
            if found.statuses.get("m") == "READY" and not self.m_is_damaged:
                ballast.verify("m")
        self.check_other()

    def check_after(self):
        """What must hold when the command has succeeded."""
        # Half a note that a reader left of its use: gc takes it for a dead one's when it is old.
        for half in (self.ballast.store / "weight/used").glob(".tmp-*"):
            os.utime(half, (1, 1))
            self.ballast("gc", "--grace", "0")
        for store in self.stores():
            found = walk(store)
            found.assert_clean()
            self.check_statuses(found)
            if "m" in found.statuses:
                self.ballast.having(store=store).verify("m")
        self.check_other()

    def check_statuses(self, found):
        assert found.statuses["m"] == "READY"

    def again(self):
        """The command once more, without a fault."""
        gone = self.has_m and not list(self.ballast.store.glob("weight/models/m/*"))
        self.ballast(*self.args(), rc=self.gone_rc if gone else 0)
        self.check_after()


@scene("import")
class Import(Scene):
    has_m = False


@scene("resume")
class Resume(Scene):
    """A killed import of "m" is there."""

    has_m = False

    def prepare(self, at_start):
        env = self.shim.env(self.start, "kill", 60)
        at_start.having(env=env)(*self.args(), rc=-9)


@scene("mend")
class Mend(Scene):
    """A byte of "m" is wrong, and it is imported again."""

    m_is_damaged = True

    def prepare(self, at_start):
        damage(object_file(at_start.store, "m"))


@scene("pull")
class Pull(Scene):
    def args(self):
        return ["model", "pull", "m", "--output", self.work / "out"]

    def check_between(self):
        super().check_between()
        right = models.contents(self.model)
        for path, digest in models.contents(self.work / "out").items():
            if not Path(path).name.startswith("."):
                assert right.get(path) == digest, f"half a file: {path}"

    def check_after(self):
        super().check_after()
        assert models.contents(self.work / "out") == models.contents(self.model)


@scene("hf-import")
class HfImport(Scene):
    """From a cache of the Hugging Face client, whose digests are checked beside."""

    has_m = False

    def prepare(self, at_start):
        files = {str(p.relative_to(self.model)): p.read_bytes() for p in self.model.rglob("*") if p.is_file()}
        hub.make_cache(self.top / "hub", hub.Repo(files, "0123456789abcdef0123456789abcdef01234567"))

    def args(self):
        return ["model", "import", self.top / "hub", "--model-id", "org/name", "--checkpoint-id", "m"]


@scene("hf-export")
class HfExport(Scene):
    """Into a cache of the Hugging Face client: blobs are whole, and so is the snapshot that a ref names."""

    def args(self):
        return ["model", "pull", "m", "--hf-cache", self.work / "hub"]

    def check_between(self):
        super().check_between()
        top = self.work / "hub/models--org--m"
        for path, digest in models.contents(top / "blobs").items():
            assert path == digest, f"half a blob: {path}"
        for path in models.contents(top / "refs"):
            self.check_snapshot(top, path)

    def check_after(self):
        super().check_after()
        self.check_snapshot(self.work / "hub/models--org--m", "main")
        assert {p.name for p in (self.work / "hub").iterdir()} == {"models--org--m"}

    def check_snapshot(self, top, ref):
        folder = top / "snapshots" / (top / "refs" / ref).read_text()
        assert models.contents(folder) == models.contents(self.model)


@scene("delete")
class Delete(Scene):
    gone_rc = 3

    def args(self):
        return ["model", "delete", "m"]

    def check_statuses(self, found):
        assert "m" not in found.statuses and "other" in found.statuses


@scene("gc")
class Gc(Scene):
    """"m" is FAILED, something is left over beside "other", and all of it goes."""

    def args(self):
        return ["gc", "--grace", "0"]

    def prepare(self, at_start):
        folder = self.start / "store/weight/models"
        manifest = folder / "m/manifest"
        text = manifest.read_bytes().replace(b'"error":null', b'"error":"import in progress"')
        manifest.chmod(0o644)
        manifest.write_bytes(text.replace(b'"status":"READY"', b'"status":"FAILED"'))
        (folder / "other" / ("files," + "0" * 64 + ",chunks,00000000")).write_bytes(b"orphan")
        temporary = folder / "other/.tmp-00112233445566778899aabbccddeeff-0"
        temporary.write_bytes(b"half")
        os.utime(temporary, (1, 1))

    def again(self):
        collect(self.ballast)
        self.check_after()

    def check_statuses(self, found):
        assert "m" not in found.statuses and "other" in found.statuses


@scene("prune")
class Prune(Scene):
    """"m" was used the longest ago, and goes."""

    def args(self):
        return ["prune", "--older-than", "1d", "--yes"]

    def prepare(self, at_start):
        make_older(self.start / "store/weight/models/m/manifest")

    def again(self):
        """One that is half deleted is no checkpoint to prune any more: gc ends it."""
        self.ballast(*self.args())
        collect(self.ballast)
        self.check_after()

    def check_statuses(self, found):
        assert "m" not in found.statuses and "other" in found.statuses


@scene("repair")
class Repair(Scene):
    """Of "m" a shard is damaged that "other" has too, another in chunks, one file is gone, and so are the digests."""

    m_is_damaged = True
    warns = True

    def prepare(self, at_start):
        at_start.delete("m")
        at_start.do_import(self.model, "m", "--model-id", "org/m", "--file-chunk-size", "12K")
        damage(object_file(at_start.store, "m", "model-00001-of-00002.safetensors"))
        damage(object_file(at_start.store, "m", "model-00002-of-00002.safetensors"))
        object_file(at_start.store, "m", "tokenizer.json").unlink()
        damage(at_start.store / "weight/models/m/digests", at=0)
        at_start.verify("m", rc=4)

    def args(self):
        return ["model", "repair", "m", "--from", self.model]

    def told(self, result):
        """What cannot be mended is named on standard output."""
        return result.text if result.text else result.error


class CopyScene(Scene):
    """From the store into a second one, which has "other"."""

    def prepare(self, at_start):
        at_start.having(store=self.start / "second").do_import(self.other, "other", "--model-id", "org/other")

    def stores(self):
        return [self.ballast.store, self.work / "second"]

    def args(self):
        return ["model", "copy", "m", "--to", self.work / "second"]

    def check_other(self):
        for store in self.stores():
            self.ballast.having(store=store).verify("other")


@scene("copy")
class Copy(CopyScene):
    def args(self):
        return [*super().args(), "--file-chunk-size", "5K"]


@scene("copy-resume")
class CopyResume(CopyScene):
    """A killed copy is there."""

    def prepare(self, at_start):
        super().prepare(at_start)
        env = self.shim.env(self.start, "kill", 50)
        at_start.having(env=env)("model", "copy", "m", "--to", self.start / "second", rc=-9)


@scene("copy-mend")
class CopyMend(CopyScene):
    """A READY copy is there, and damaged."""

    m_is_damaged = True

    def prepare(self, at_start):
        super().prepare(at_start)
        at_start("model", "copy", "m", "--to", self.start / "second")
        damage(object_file(self.start / "second", "m"))


@scene("room")
class Room(Scene):
    """An import that asks for room, in a store that has a limit."""

    has_m = False

    def prepare(self, at_start):
        at_start("store", "set", "--max-bytes", "1GiB")


@scene("store-set")
class StoreSet(Scene):
    """A limit, and a store that was its user's alone is opened to the group."""

    def prepare(self, at_start):
        for path in at_start.store.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o400)

    def args(self):
        return ["store", "set", "--max-bytes", "1GiB", "--shared", "group"]

    def check_between(self):
        super().check_between()
        settings = self.ballast("store", "set", json=True).json
        assert (settings["max_bytes"], settings["shared"]) in ((None, "umask"), (2**30, "group"))

    def check_after(self):
        collect(self.ballast)
        super().check_after()
        settings = self.ballast("store", "set", json=True).json
        assert (settings["max_bytes"], settings["shared"]) == (2**30, "group")
        for path in (self.ballast.store / "weight").rglob("*"):
            assert path.stat().st_mode & 0o7070 == (0o2070 if path.is_dir() else 0o040), path


@scene("verify")
class Verify(Scene):
    """"m" was found bad, is right again, and has no digests: the state is written anew, and so are they."""

    def prepare(self, at_start):
        file = object_file(at_start.store, "m")
        damage(file)
        at_start.verify("m", rc=4)
        damage(file)
        (at_start.store / "weight/models/m/digests").unlink()

    def args(self):
        return ["model", "verify", "m"]

    def told(self, result):
        """What is found, and what could not be recorded, is told by other lines than an error's."""
        return result.text + result.err

    def check_statuses(self, found):
        super().check_statuses(found)
        assert self.ballast.status("m") == "READY"


@scene("pin")
class Pin(Scene):
    """Beside what a verification recorded."""

    def prepare(self, at_start):
        at_start.verify("m")

    def args(self):
        return ["model", "pin", "m"]

    def check_statuses(self, found):
        super().check_statuses(found)
        assert self.ballast("model", "inspect", "m", json=True).json["pinned"]


@scene("pull-hardlink")
class PullHardlink(Pull):
    """What is pulled are names of the store's own files."""

    def args(self):
        return [*super().args(), "--link=hardlink"]


@scene("tag")
class Tag(Scene):
    """A ref moves from "m" to another checkpoint of its model. It names one of the two at any moment."""

    names = ('"m2"', "weight/models/m2/", 'ref "prod"')

    def prepare(self, at_start):
        at_start.do_import(self.other, "m2", "--model-id", "org/m", "--revision", "next")
        at_start("model", "tag", "m", "prod")

    def args(self):
        return ["model", "tag", "--move", "m2", "prod"]

    def check_between(self):
        super().check_between()
        assert self.named() in ("m", "m2")

    def check_after(self):
        super().check_after()
        assert self.named() == "m2"

    def named(self):
        return self.ballast("model", "inspect", "org/m@prod", json=True).json["checkpoint_id"]


@scene("keep")
class Keep(Scene):
    """A new revision comes and the one before it goes, whose bytes it shares in part."""

    can_fail = False

    def prepare(self, at_start):
        make_older(self.start / "store/weight/models/m/manifest")
        shutil.copytree(self.model, self.top / "new")
        (self.top / "new/config.json").write_text('{"new": true}')

    def args(self):
        return ["model", "import", self.top / "new", "--checkpoint-id", "new", "--model-id", "org/m", "--keep", "1"]

    def check_between(self):
        super().check_between()
        statuses = walk(self.ballast.store).statuses
        assert "READY" in (statuses.get("m"), statuses.get("new")), "neither is there"

    def again(self):
        self.ballast(*self.args())
        collect(self.ballast)
        self.check_after()

    def check_statuses(self, found):
        assert found.statuses == {"other": "READY", "new": "READY"}
