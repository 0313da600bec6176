"""SIGKILL at the n-th call that changes a file, over the whole program."""
import pytest

from support.faults import Shim, points
from support.scenes import SCENES

LANES = 3


@pytest.mark.parametrize("lane", range(LANES))
@pytest.mark.parametrize("operation", SCENES)
def test_killed_at_every_call(operation, lane, ballast, shims, tmp_path, is_long):
    scene = SCENES[operation](ballast, Shim(shims["faultshim"], tmp_path / "counter"), tmp_path)
    n = scene.n_calls("kill")
    assert n > 10
    n_killed, faults = 0, []
    for at in points(n, lane, LANES, is_long):
        result = scene.run("kill", at)
        # Threads take turns as they like: a run may make a call or two less.
        assert result.rc in (0, -9), result
        n_killed += result.rc == -9
        try:
            scene.check_between()
            scene.again()
        except AssertionError as error:
            faults.append(f"killed at call {at} of {n}, {scene.shim.name}: {error}")
    assert not faults, "\n\n".join(faults[:20])
    assert n_killed > 0
