"""File systems of the tests' own, on loop devices and in memory.

tools/check.sh runs pytest in a mount namespace of its own: whatever is left mounted goes with it."""
import subprocess
from pathlib import Path


def run(*args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True)
    assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-m", "reflink=1"),
    "exfat": ("mkfs.exfat",),
}


class Mount:
    """Mounted at `path` until close()."""

    def __init__(self, folder, kind, size_mb):
        self.kind = kind
        folder = Path(folder)
        self.path = folder / "mnt"
        self.path.mkdir(parents=True)
        if kind == "tmpfs":
            run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", self.path)
            return
        self.image = folder / "image"
        with open(self.image, "wb") as f:
            f.truncate(size_mb << 20)
        run(*MKFS[kind], self.image)
        self.mount()

    def mount(self):
        device = run("losetup", "--find", "--show", self.image)
        # No kernel module is needed for exFAT in user space. It has neither hard links nor renames that refuse to replace.
        if self.kind == "exfat":
            run("mount.exfat-fuse", device, self.path)
        else:
            run("mount", "-t", self.kind, device, self.path)
        # Takes effect when the last user is gone.
        run("losetup", "--detach", device)

    def unmount(self):
        run("umount", self.path)

    def close(self):
        if self.path.is_mount():
            run("umount", "--lazy", self.path)
