"""The store contract's suite on real file systems, which the unit stage's temporary folder is not."""
import os
import subprocess

import pytest


@pytest.mark.plain
@pytest.mark.parametrize("kind, size_mb, without", [
    ("xfs", 400, None), ("xfs", 400, "rename,link"), ("ext4", 256, None), ("ext4", 256, "rename,link"), ("exfat", 128, None)])
def test_contract(binary, loopfs, kind, size_mb, without):
    """without: calls that the kernel then refuses; on XFS bytes are shared all the same."""
    suite = binary.parent.parent / "tests" / "test_store"
    env = {**os.environ, "BALLAST_TEST_DIRS": f"{kind}={loopfs(kind, size_mb)}"}
    if without:
        env["BALLAST_TEST_WITHOUT"] = without
    done = subprocess.run([suite, "-p", f"/store/{kind}"], env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    results = [line for line in done.stdout.splitlines() if line.startswith(("ok ", "not ok "))]
    assert len(results) > 40 and all(line.startswith("ok ") for line in results), done.stdout
    shared = [line for line in results if f"/store/{kind}/share" in line and "SKIP" not in line]
    assert bool(shared) == (kind == "xfs" or (kind == "ext4" and without is None))
