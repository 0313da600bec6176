"""Pull into folders on file systems that are not like the store's."""
import subprocess

import pytest

from support import models


@pytest.fixture
def m(ballast, model):
    """The model's folder, imported as "m"."""
    ballast.do_import(model, "m")
    return model


def test_names_that_are_one(ballast, tmp_path, loopfs):
    """Names that differ by case, or by what the file system drops, are refused before the first file."""
    model = models.make_model(tmp_path / "model")
    for one, other in (("Notes.md", "notes.md"), ("sub/a", "SUB/A")):
        for name in (one, other):
            (model / name).parent.mkdir(exist_ok=True)
            (model / name).write_text(name)
    ballast.do_import(model, "m")
    out = loopfs("exfat", 64) / "out"
    error = ballast.fails(1, "model", "pull", "m", "--output", out)
    assert "for one name" in error and ("otes.md" in error or "/a" in error)
    assert list(out.iterdir()) == []
    ballast("model", "pull", "m", "--output", out, "--exclude", "notes.md", "--exclude", "SUB/A")
    assert (out / "Notes.md").read_text() == "Notes.md"


def test_eight_at_once_where_replacing_takes_two_steps(ballast, m, loopfs):
    out = loopfs("exfat", 64) / "out"
    processes = [ballast.start("model", "pull", "m", "--output", out) for _ in range(8)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert models.contents(out) == models.contents(m)
    assert [p.name for p in (out / ".ballast").iterdir()] == ["pull.json"]


def test_another_file_system_below(ballast, m, tmp_path, private_mount):
    """A folder below the target that is a mount point: files get there, and temporaries of killed pulls go."""
    out = tmp_path / "out"
    (out / "1_Pooling").mkdir(parents=True)
    below = private_mount("tmpfs", 8).path
    subprocess.run(["mount", "--bind", below, out / "1_Pooling"], check=True)
    try:
        left = out / "1_Pooling" / f".ballast-tmp-{'0123456789abcdef' * 2}-7"
        left.write_text("half a file")
        ballast("model", "pull", "m", "--output", out)
        assert models.contents(out) == models.contents(m)
        assert not left.exists()
        assert (below / "config.json").exists()
    finally:
        subprocess.run(["umount", out / "1_Pooling"], check=True)


def test_nothing_to_do_on_a_read_only_target(ballast, m, private_mount):
    mount = private_mount("ext4", 16)
    ballast("model", "pull", "m", "--output", mount.path / "out")
    subprocess.run(["mount", "-o", "remount,ro", mount.path], check=True)
    result = ballast("model", "pull", "m", "--output", mount.path / "out", json=True).json
    assert result["n_files_written"] == 0
    ballast.fails(1, "model", "pull", "m", "--output", mount.path / "other")


def test_links_that_the_file_system_lacks(ballast, m, loopfs):
    out = loopfs("exfat", 64)
    for link in ("reflink", "hardlink", "symlink"):
        assert "--link=copy" in ballast.fails(1, "model", "pull", "m", "--output", out / link, f"--link={link}")
        assert not (out / link / ".ballast").exists()


def test_not_into_a_store(ballast, m, tmp_path, store_walk):
    """Files pulled into a store could take the place of another checkpoint's objects."""
    root = ballast.store
    link = tmp_path / "link"
    link.symlink_to(root / "weight")
    for out in (root, root / "weight/models/other", link / "models/m"):
        assert "lies in a store" in ballast.fails(2, "model", "pull", "m", "--output", out, "--force")
        assert "lies in a store" in ballast.fails(2, "model", "materialize-file", "m", "config.json", out / "manifest")
    store_walk().assert_clean()
