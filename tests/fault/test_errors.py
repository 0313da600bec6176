"""The n-th I/O call fails, once or from then on."""
import pytest

from support.faults import Shim, points
from support.scenes import SCENES

# What a program must get over by itself.
HARMLESS = ("EINTR", "short")
# Where bytes are lost if the answer is not heard.
MUST_BE_HEARD = ("write", "pwrite", "fsync", "fdatasync", "syncfs")


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "for-good"])
@pytest.mark.parametrize("deed", ["EIO", "ENOSPC", "EDQUOT", "EINTR", "short"])
@pytest.mark.parametrize("operation", [name for name, scene in SCENES.items() if scene.can_fail])
def test_every_call_fails(operation, deed, sticky, ballast, shims, tmp_path, is_long):
    scene = SCENES[operation](ballast, Shim(shims["faultshim"], tmp_path / "counter"), tmp_path)
    n = scene.n_calls(deed)
    # Another fifth of the calls for each kind of fault.
    first = 1 + (len(deed) + sticky) % 5
    faults = []
    for at in points(n, 0, 1, is_long, 1 if is_long else first):
        result = scene.run(deed, at, sticky)
        try:
            check(scene, deed, result)
        except AssertionError as error:
            faults.append(f"{deed} at call {at} of {n}, {scene.shim.name}: {error}\n{result}")
    assert not faults, "\n\n".join(faults[:20])


def check(scene, deed, result):
    assert result.rc in (0, 1, 3, 4), "an exit code that does not say what happened"
    if deed in HARMLESS:
        assert result.rc == 0
    elif result.rc != 0:
        names = [str(scene.work), str(scene.model), *scene.names, *scene_files(scene)]
        assert any(name in scene.told(result) for name in names), "the message names nothing"
    if scene.shim.name in MUST_BE_HEARD and deed not in HARMLESS and not is_best_effort(scene.shim.path):
        assert result.rc != 0 or scene.warns and result.warnings(), "a failed write was not heard"
    scene.check_between()
    if result.rc == 0 and not result.warnings():
        scene.check_after()
    else:
        scene.again()


def is_best_effort(path):
    """A note of the last use, and what a machine keeps for itself: nothing depends on them."""
    return "/weight/used" in path or "/state/ballast" in path or "/state/identities" in path


def scene_files(scene):
    return [p.name for p in scene.model.rglob("*")]
