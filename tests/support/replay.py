"""A disk that remembers each write and flush (tests/fault/flushlog.c), and what it could have held when the power went."""
import bisect
import ctypes
import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path

from .mounts import run

TOP = Path(__file__).parents[2]
HEAD = struct.Struct("=QQQ")
# A disk writes so many bytes whole: ext4 has no answer to half a superblock.
BLOCK = 4096
LOOP_SET_FD, LOOP_CLR_FD, LOOP_CTL_GET_FREE = 0x4C00, 0x4C01, 0x4C82

libc = ctypes.CDLL(None, use_errno=True)


def build_flushlog(folder):
    program = Path(folder) / "flushlog"
    flags = run("pkg-config", "--cflags", "--libs", "fuse3").split()
    run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, TOP / "tests/fault/flushlog.c", *flags)
    return program


class LoggedDisk:
    """ext4 on a disk that is logged, mounted at `path` until close(); then `log` has what happened to `base`."""

    def __init__(self, program, folder, size_mb=24):
        folder = Path(folder)
        self.base, self.log, self.fuse, self.path = (folder / name for name in ("base", "log", "fuse", "mnt"))
        self.fuse.mkdir()
        self.path.mkdir()
        with open(self.base, "wb") as f:
            f.truncate(size_mb << 20)
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.base)
        self.process = subprocess.Popen([program, self.base, self.log, self.fuse], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (self.fuse / "image").exists():
            assert self.process.poll() is None and time.monotonic() < deadline, "flushlog did not start"
            time.sleep(0.01)
        self.device = run("losetup", "--find", "--show", self.fuse / "image")
        run("mount", "-t", "ext4", self.device, self.path)

    def mark(self, text):
        """Puts a word into the log: all that was done before it was acknowledged."""
        (self.fuse / "mark").write_text(text)

    def close(self):
        if self.path.is_mount():
            run("umount", self.path)
            run("losetup", "--detach", self.device)
        if self.fuse.is_mount():
            run("umount", self.fuse)
        self.process.wait(timeout=20)


class Replay:
    """The log of a disk. Moments are positions in it: `writes`, `flushes` and `marks` bear them, in order."""

    def __init__(self, base, log):
        self.base = Path(base).read_bytes()
        self.writes, self.flushes, self.marks = [], [], []  # (moment, offset, data), moment, (moment, text)
        data, at, moment = Path(log).read_bytes(), 0, 0
        while at < len(data):
            kind, offset, size = HEAD.unpack_from(data, at)
            at += HEAD.size
            if chr(kind) == "w":
                self.writes.append((moment, offset, data[at:at + size]))
            elif chr(kind) == "f":
                self.flushes.append(moment)
            else:
                self.marks.append((moment, data[at:at + size].decode()))
            at += size
            moment += 1
        self.n_moments = moment
        self.moments = [w[0] for w in self.writes]
        self.durable, self.durable_at = bytearray(self.base), -1

    def windows(self):
        """(start, end): nothing is flushed between them, all before start is. The last has no flush at its end."""
        edges = [-1, *self.flushes, self.n_moments]
        return [(a, b) for a, b in zip(edges, edges[1:]) if self.between(a, b)]

    def between(self, start, end):
        """The writes after the moment start and before the moment end."""
        return self.writes[bisect.bisect_right(self.moments, start):bisect.bisect_left(self.moments, end)]

    def image(self, start, kept):
        """The disk with all writes before the flush `start`, and those kept of the window behind it."""
        assert start >= self.durable_at, "windows are replayed in order"
        for _, offset, data in self.between(self.durable_at, start):
            self.durable[offset:offset + len(data)] = data
        self.durable_at = start
        image = bytearray(self.durable)
        for _, offset, data in kept:
            image[offset:offset + len(data)] = data
        return image

    def acknowledged(self, moment):
        """The last mark before the moment."""
        marks = [text for at, text in self.marks if at < moment]
        return marks[-1] if marks else None


def some_of(writes, rng):
    """What a disk may have kept of writes that it was not told to flush: any of them, one perhaps in part. In which order they
    reached it makes no difference but where two meet in a block; there the later one counts, or it was not kept."""
    share = rng.choice([0.1, 0.5, 0.5, 0.9])
    kept = [w for w in writes if rng.random() < share]
    if kept and rng.random() < 0.3:
        i = rng.randrange(len(kept))
        moment, offset, data = kept[i]
        if len(data) >= 2 * BLOCK:
            at = rng.randrange(1, len(data) // BLOCK) * BLOCK
            kept[i] = rng.choice([(moment, offset, data[:at]), (moment, offset + at, data[at:])])
    return kept


class Mounted:
    """An image as a file in `folder` (in memory), mounted at self.path: ext4 recovers from its journal."""

    def __init__(self, folder):
        self.file, self.path = Path(folder) / "image", Path(folder) / "mnt"
        self.path.mkdir(parents=True)
        self.loop = None

    def mount(self, image):
        with open(self.file, "r+b" if self.file.exists() else "w+b") as f:
            f.truncate(0)
            f.truncate(len(image))
            for at in range(0, len(image), 1 << 16):
                block = image[at:at + (1 << 16)]
                if block.count(0) != len(block):
                    f.seek(at)
                    f.write(block)
        self.loop = self.attach()
        if libc.mount(os.fsencode(self.loop), os.fsencode(self.path), b"ext4", 0, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"mount: {os.strerror(number)}", str(self.file))

    def attach(self):
        with open("/dev/loop-control", "rb") as control, open(self.file, "r+b") as f:
            for _ in range(50):
                name = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
                try:
                    with open(name, "r+b", buffering=0) as device:
                        fcntl.ioctl(device, LOOP_SET_FD, f.fileno())
                        return name
                except OSError:  # another process took it, or it is on its way
                    time.sleep(0.01)
        raise AssertionError("no free loop device")

    def unmount(self):
        if self.path.is_mount() and libc.umount2(os.fsencode(self.path), 0) != 0:
            raise OSError(ctypes.get_errno(), "umount", str(self.path))
        if self.loop:
            with open(self.loop, "rb", buffering=0) as device:
                fcntl.ioctl(device, LOOP_CLR_FD)
            self.loop = None
