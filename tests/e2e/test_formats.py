"""Headers against their judges: the safetensors package, and the gguf package as a writer."""
import os
import random
import struct
import subprocess

import gguf
import numpy
import pytest
import safetensors

from refuse import make
from support import header_grammar

# The only headers on which we differ from the reference: a name that stands twice, which the format's text forbids.
REFERENCE_ACCEPTS = {"dup_key_same_name"}


@pytest.fixture(scope="session")
def verdicts(binary, is_sanitized):
    """verdicts(paths): (verdict, words) of each, from one process that may use little memory."""
    helper = binary.parent.parent / "tests" / "e2e" / "headercheck"

    def judge(paths, memory_mib=32):
        limit = [] if is_sanitized else ["prlimit", f"--data={memory_mib << 20}"]
        asked = "".join(f"{path}\n" for path in paths)
        done = subprocess.run([*limit, helper], input=asked, capture_output=True, text=True, check=True, timeout=250)
        answers = [line.split("\t", 1) for line in done.stdout.splitlines()]
        assert len(answers) == len(paths)
        return answers

    return judge


def reference(data):
    """None where the reference accepts the file, else what it says."""
    try:
        safetensors.deserialize(data)
        return None
    except safetensors.SafetensorError as error:
        return str(error)


@pytest.fixture(scope="session")
def refused(tmp_path_factory, verdicts):
    """{(suffix, name): answer} for the files of tests/refuse."""
    paths = list(make.write(tmp_path_factory.mktemp("refuse")))
    return {(path.suffix[1:], path.stem): answer for path, answer in zip(paths, verdicts(paths), strict=True)}


@pytest.mark.parametrize("name", make.SAFETENSORS)
def test_safetensors_file(name, refused):
    verdict, words, data = make.SAFETENSORS[name]
    assert refused["safetensors", name][0] == verdict, refused["safetensors", name]
    assert words in refused["safetensors", name][1]
    said = reference(data)
    if verdict == "ok" or name in REFERENCE_ACCEPTS:
        assert said is None
    elif verdict == "unsupported":
        assert "unknown variant" in said
    else:
        assert said is not None


@pytest.mark.parametrize("name", make.GGUF)
def test_gguf_file(name, refused):
    verdict, words, _ = make.GGUF[name]
    assert refused["gguf", name][0] == verdict, refused["gguf", name]
    assert words in refused["gguf", name][1]


def test_generated_safetensors(tmp_path, verdicts):
    seed = int(os.environ.get("BALLAST_SEED") or random.randrange(2**32))
    print(f"BALLAST_SEED={seed}")
    files = list(header_grammar.generate(seed))
    paths = [tmp_path / f"{i}.safetensors" for i in range(len(files))]
    for path, (_, data) in zip(paths, files, strict=True):
        path.write_bytes(data)
    assert len(files) >= 2000
    for rule in header_grammar.RULES:
        assert sum(r == rule for r, _ in files) >= 20
    wrong = []
    for path, (rule, data), (verdict, words) in zip(paths, files, verdicts(paths), strict=True):
        if not agrees(rule, verdict, words, reference(data)):
            wrong.append(f"{path} ({rule}): {verdict}: {words}; the reference: {reference(data)}")
    assert not wrong, "\n".join(wrong[:20])


def agrees(rule, verdict, words, said):
    if rule is None:
        return verdict == "ok" and said is None
    if rule == "name twice":
        return verdict == "corrupt" and ("duplicate key" in words or said is not None)
    if rule == "dtype unknown":
        return verdict == "unsupported" and "unknown variant" in said
    return verdict == "corrupt" and said is not None


def test_what_the_reference_writes(tmp_path, verdicts):
    """One tensor of every dtype; their bytes are 120 of the one array."""
    data = numpy.zeros(120, dtype=numpy.uint8)
    sizes = {"bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1, "float8_e4m3fnuz": 1,
             "float8_e5m2fnuz": 1, "float4_e2m1fn_x2": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
             "uint32": 4, "float32": 4, "int64": 8, "uint64": 8, "float64": 8, "complex64": 8}

    def spec(dtype, shape, size):
        return safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=size)

    tensors = {f"t.{dtype}": spec(dtype, [3, 5], 15 * size) for dtype, size in sizes.items()}
    tensors["none"] = spec("float32", [0], 0)
    path = tmp_path / "written.safetensors"
    path.write_bytes(safetensors.serialize(tensors, {"format": "pt"}))
    verdict, words = verdicts([path])[0]
    assert verdict == "ok" and words.startswith(f"{len(tensors)} tensors, {15 * sum(sizes.values())} bytes")


def test_real_safetensors(silero, minilm, tmp_path, verdicts):
    whole = silero.read_bytes()
    half = tmp_path / "half.safetensors"
    half.write_bytes(whole[: len(whole) // 2])
    answers = verdicts([silero, minilm / "model.safetensors", half])
    assert answers[0][1].startswith("15 tensors, ")
    assert answers[0][0] == answers[1][0] == "ok"
    assert answers[2][0] == "corrupt"
    assert f"truncated: {len(whole) // 2} bytes, the header promises {len(whole)}" in answers[2][1]


def test_large_header_in_little_memory(tmp_path, verdicts):
    """A header at the reference's limit costs the names and 40 bytes a tensor, not its text."""
    entry = b'"model.layers.%08d.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    n = (100_000_000 - 2) // (len(entry % 0) + 1)
    header = b"{" + b",".join(entry % i for i in range(n)) + b"}"
    header += b" " * (100_000_000 - len(header))
    path = tmp_path / "large.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    assert verdicts([path], memory_mib=160)[0] == ["ok", f"{n} tensors, 0 bytes"]


def write_gguf(path, endian):
    """A file with a tensor of every type that the package can write."""
    writer = gguf.GGUFWriter(path, "llama", endianess=endian)
    writer.add_quantization_version(2)
    writer.add_block_count(2)
    writer.add_array("tokenizer.ggml.tokens", [f"token {i}" for i in range(1000)])
    writer.add_array("tokenizer.ggml.scores", [0.5] * 1000)
    writer.add_bool("flag", True)
    writer.add_float64("f", 0.1)
    expected = {}
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if kind == gguf.GGMLQuantizationType.Q8_1:  # 40 bytes here, 36 in ggml, and never in a file
            continue
        data = numpy.zeros((3, 2 * size), dtype=numpy.uint8)
        writer.add_tensor(f"blk.{int(kind)}.weight", data, raw_shape=(3, 2 * size), raw_dtype=kind)
        expected[f"blk.{int(kind)}.weight"] = 6 * size
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.mark.parametrize("endian", [gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG])
def test_what_gguf_writes(endian, tmp_path, verdicts):
    path = tmp_path / "written.gguf"
    expected = write_gguf(path, endian)
    assert verdicts([path])[0] == ["ok", f"{len(expected)} tensors, {sum(expected.values())} bytes"]


# Q2_0, type 42, is newer than the package.
@pytest.mark.parametrize("name", [n for n, (verdict, _, _) in make.GGUF.items() if verdict == "ok" and n != "ok_type_42"])
def test_gguf_reads_what_we_accept(name, tmp_path, refused):
    """The hand-made files are what they claim to be: another reader takes them, too."""
    path = tmp_path / "m.gguf"
    path.write_bytes(make.GGUF[name][2])
    n_tensors = len(gguf.GGUFReader(path).tensors)
    assert refused["gguf", name][1].startswith(f"{n_tensors} tensors, ")
