"""One bit flips in a file of the store: it is found, or it changed nothing that is given out."""
import random
import shutil

import pytest

from support import models

N_CHECK, N_LONG = 2000, 50_000


@pytest.fixture
def store(ballast, tmp_path):
    model = models.make_model(tmp_path / "model", tensor_bytes=150_000)
    ballast.do_import(model, "m", "--model-id", "org/m")
    return model, ballast


def flip_back(file, before, at, bit):
    """What was replaced by a right one meanwhile (digests, state) would be damaged by a second flip."""
    now = file.read_bytes()
    if len(now) == len(before) and now[at] == before[at] ^ 1 << bit:
        flip(file, at, bit)


def flip(file, at, bit):
    with open(file, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1 << bit]))


def control_files(ballast):
    folder = ballast.store / "weight"
    files = [f for f in folder.rglob("*") if f.is_file() and not f.name.startswith("files,")]
    return sorted(files) + [ballast.store / "store.json"]


def data_files(ballast):
    return sorted((ballast.store / "weight/models/m").glob("files,*"))


def header_places(file):
    """The length and the JSON of a safetensors header; a file of another kind has none."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return range(8 + size) if 8 + size <= len(data) and data[8:9] == b"{" else range(0)


def test_control_objects(store, tmp_path, is_long):
    model, ballast = store
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    right = models.contents(model)
    places = [(f, at, bit) for f in control_files(ballast) for at in range(f.stat().st_size) for bit in range(8)]
    n = N_LONG if is_long else N_CHECK // 2
    for file, at, bit in rng.sample(places, min(n, len(places))):
        where = f"seed {seed}: bit {bit} of byte {at} of {file.name}"
        before = file.read_bytes()
        if at >= len(before):
            continue
        flip(file, at, bit)
        verify = ballast.verify("m", rc=None)
        assert verify.rc in (0, 1, 3, 4, 6), f"{where}: {verify}"
        if verify.rc == 0:
            out = tmp_path / "out"
            ballast("model", "pull", "m", "--output", out)
            assert models.contents(out) == right, f"{where}: not found, and other files came out"
            shutil.rmtree(out)
        flip_back(file, before, at, bit)
    ballast.verify("m")


def test_data_and_headers(store, is_long):
    model, ballast = store
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    places = [(f, at) for f in data_files(ballast) for at in header_places(f)]
    places = rng.sample(places, min(len(places), N_LONG if is_long else N_CHECK // 2))
    places += [(f, rng.randrange(at, min(at + 65536, f.stat().st_size)))
               for f in data_files(ballast) for at in range(0, f.stat().st_size, 65536)]
    for file, at in places:
        bit = rng.randrange(8)
        flip(file, at, bit)
        result = ballast.verify("m", rc=None)
        assert result.rc == 4, f"seed {seed}: bit {bit} of byte {at} of {file.name} was not found: {result}"
        flip(file, at, bit)
    ballast.verify("m")
