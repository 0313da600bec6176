"""Model files named by their fault, and beside them files that look odd but are right.

    python3 tests/refuse/make.py FOLDER

writes them below FOLDER. SAFETENSORS and GGUF map a name to (verdict, words of the message, bytes); verdicts are those of
tests/e2e/headercheck.c. For "ok" the words are in its notes.
"""
import json
import struct
import sys
from pathlib import Path


def raw(text, data=b"", length=None):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def st(header, data=b"\0" * 4):
    return raw(json.dumps(header, separators=(",", ":")), data)


def one(**fields):
    return st({"a": {**tensor(), **fields}})


T = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
LFS = (b"version https://git-lfs.github.com/spec/v1\n"
       b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n")
D = b"\0" * 4

SAFETENSORS = {
    # Right, however it looks.
    "ok_min": ("ok", "1 tensors, 4 bytes", one()),
    "ok_no_tensors": ("ok", "0 tensors", st({}, b"")),
    "ok_meta_only": ("ok", "0 tensors", st({"__metadata__": {"k": "v"}}, b"")),
    "ok_meta_empty": ("ok", "1 tensors", st({"__metadata__": {}, "a": tensor()})),
    "ok_meta_null": ("ok", "1 tensors", st({"__metadata__": None, "a": tensor()})),
    "ok_meta_last": ("ok", "1 tensors", st({"a": tensor(), "__metadata__": {"k": "v"}})),
    "ok_meta_inner_twice": ("ok", 'names "k" twice', raw('{"__metadata__":{"k":"1","k":"2"},"a":%s}' % T, D)),
    "ok_meta_key_escaped": ("ok", "1 tensors", raw('{"__metadat\\u0061__":{"k":"v"},"a":%s}' % T, D)),
    "ok_hdr_leading_space": ("ok", "begins with white space", raw(' {"a":%s}' % T, D)),
    "ok_hdr_leading_newline": ("ok", "begins with white space", raw('\n{"a":%s}' % T, D)),
    "ok_hdr_padded": ("ok", "1 tensors", raw('{"a":%s}     \t\r\n' % T, D)),
    "ok_unordered": ("ok", "2 tensors", st({"b": tensor(offsets=(4, 8)), "a": tensor()}, D * 2)),
    "ok_zero_size": ("ok", "2 tensors", st({"flag": tensor("F8_E4M3", (0,), (0, 0)), "a": tensor()})),
    "ok_zero_size_at_end": ("ok", "2 tensors", st({"a": tensor(), "flag": tensor("F8_E4M3", (0,), (4, 4))})),
    "ok_zero_first_in_product": ("ok", "1 tensors", st({"a": tensor("U8", (0, 2**32, 2**32), (0, 0))}, b"")),
    "ok_scalar": ("ok", "1 tensors", st({"a": tensor("F32", ())})),
    "ok_not_aligned": ("ok", "2 tensors", st({"a": tensor("U8", (1,), (0, 1)), "b": tensor("F32", (1,), (1, 5))}, D + b"\0")),
    "ok_name_empty": ("ok", "1 tensors", st({"": tensor()})),
    "ok_name_nul": ("ok", "1 tensors", st({"a\0b": tensor()})),
    "ok_extra_field": ("ok", "1 tensors", one(note=[1, {"x": None}], big=10**40)),
    "ok_extra_field_twice": ("ok", "1 tensors", raw('{"a":{"x":1,"x":2,%s}' % T[1:], D)),
    "ok_nesting_127": ("ok", "1 tensors", raw('{"a":{"x":%s%s,%s}' % ("[" * 125, "]" * 125, T[1:]), D)),
    "ok_tensor_as_array": ("ok", "written as an array", raw('{"a":["F32",[1],[0,4]]}', D)),
    "ok_dtype_as_object": ("ok", "written as an object", raw('{"a":%s}' % T.replace('"F32"', '{"F32":null}'), D)),
    "ok_f4_even": ("ok", "safetensors 0.6 or later", st({"a": tensor("F4", (8,))})),
    "ok_f6": ("ok", "safetensors 0.6 or later", st({"a": tensor("F6_E2M3", (4,), (0, 3))}, b"\0" * 3)),
    "ok_f8_e8m0": ("ok", "safetensors 0.6 or later", st({"a": tensor("F8_E8M0", (4,))})),
    "ok_c64": ("ok", "safetensors 0.7 or later", st({"a": tensor("C64", (1,), (0, 8))}, D * 2)),
    # Not a safetensors file at all.
    "empty": ("corrupt", "the file is empty", b""),
    "seven_bytes": ("corrupt", "7 bytes cannot hold a header", b"\0" * 7),
    "lfs_pointer": ("corrupt", "this is a Git LFS pointer (oid sha256:4d7a2146", LFS),
    "zip": ("corrupt", "this is a zip archive", b"PK\3\4\x14\0\0\0\x08\0" + b"x" * 100),
    "pickle": ("corrupt", "this is a Python pickle", b"\x80\x02}q\0X\x05\0\0\0modelq\1K\1s." + b"x" * 100),
    "html": ("corrupt", "this is a web page", b"<!DOCTYPE html><html><body>404</body></html>"),
    "gguf": ("corrupt", "this is a GGUF file", b"GGUF\3\0\0\0" + b"\0" * 24),
    # The length.
    "hdr_len_huge": ("corrupt", "a header of 18446744073709551615 bytes", raw("{}", length=2**64 - 1)),
    "hdr_len_limit_and_one": ("corrupt", "a header of 100000001 bytes (at most 100000000)", raw("{}", length=100000001)),
    "hdr_len_past_end": ("corrupt", "truncated: 10 bytes, the header alone takes 11", raw("{}", length=3)),
    "hdr_len_zero": ("corrupt", "it ends where a value must follow", raw("")),
    "hdr_len_zero_data": ("corrupt", "it ends where a value must follow", raw("", D)),
    # JSON.
    "hdr_not_object": ("corrupt", "must be a JSON object", raw("[]")),
    "hdr_null": ("corrupt", "must be a JSON object", raw("null")),
    "hdr_string": ("corrupt", "must be a JSON object", raw('"a"')),
    "trailing_comma": ("corrupt", "'}' where a name", raw('{"a":%s,}' % T, D)),
    "trailing_characters": ("corrupt", "',' where nothing but white space", raw('{},"__metadata__":{"k":"v"}}')),
    "trailing_nul": ("corrupt", "0x00 where nothing but white space", raw(b"{}\0")),
    "comment": ("corrupt", "'/' where", raw('{/* */"a":%s}' % T, D)),
    "nan": ("corrupt", "'N' where", raw('{"a":{"x":NaN,%s}' % T[1:], D)),
    "not_utf8": ("corrupt", "is not UTF-8", raw(b'{"\xff":%s}' % T.encode(), D)),
    "utf8_surrogate": ("corrupt", "stands for no character", raw(b'{"\xed\xa0\x80":%s}' % T.encode(), D)),
    "lone_surrogate": ("corrupt", "lone high surrogate", raw('{"\\ud800":%s}' % T, D)),
    "byte_order_mark": ("corrupt", "0xef where a value", raw("\ufeff{}")),
    "deep_nesting": ("corrupt", "nested deeper than 127", raw('{"a":{"x":%s%s,%s}' % ("[" * 126, "]" * 126, T[1:]), D)),
    "very_deep_nesting": ("corrupt", "nested deeper than 127", raw('{"a":{"x":' + "[" * 100000)),
    "number_out_of_range": ("corrupt", 'tensor "a": a number is out of range', raw('{"a":{"x":1e999,%s}' % T[1:], D)),
    # __metadata__.
    "meta_int": ("corrupt", '__metadata__: "k" must be a string', st({"__metadata__": {"k": 1}, "a": tensor()})),
    "meta_nested": ("corrupt", '__metadata__: "k" must be a string', st({"__metadata__": {"k": {}}, "a": tensor()})),
    "meta_value_null": ("corrupt", '__metadata__: "k" must be a string', st({"__metadata__": {"k": None}})),
    "meta_array": ("corrupt", "__metadata__ must be an object", st({"__metadata__": [], "a": tensor()})),
    "meta_twice": ("corrupt", 'duplicate key "__metadata__"', raw('{"__metadata__":{},"__metadata__":{},"a":%s}' % T, D)),
    "meta_null_twice": ("corrupt", 'duplicate key "__metadata__"', raw('{"__metadata__":null,"__metadata__":null}')),
    # A tensor.
    "tensor_null": ("corrupt", 'tensor "a": must be an object', st({"a": None})),
    "tensor_number": ("corrupt", 'tensor "a": must be an object', st({"a": 1})),
    "tensor_array_short": ("corrupt", 'tensor "a": must be an object', raw('{"a":["F32",[1]]}', D)),
    "tensor_array_long": ("corrupt", 'tensor "a": must be an object', raw('{"a":["F32",[1],[0,4],1]}', D)),
    "not_a_tensor": ("corrupt", 'tensor "a": dtype is missing', st({"a": {"k": "v"}})),
    "missing_dtype": ("corrupt", 'tensor "a": dtype is missing', raw('{"a":{"shape":[1],"data_offsets":[0,4]}}', D)),
    "missing_shape": ("corrupt", 'tensor "a": shape is missing', raw('{"a":{"dtype":"F32","data_offsets":[0,4]}}', D)),
    "missing_offsets": ("corrupt", 'tensor "a": data_offsets is missing', raw('{"a":{"dtype":"F32","shape":[1]}}', D)),
    "field_twice": ("corrupt", 'tensor "a": a field stands twice', raw('{"a":{"dtype":"F32",%s}' % T[1:], D)),
    "dtype_number": ("corrupt", 'tensor "a": dtype must be a string', one(dtype=13)),
    "dtype_object_of_two": ("corrupt", 'tensor "a": dtype must be a string', one(dtype={"F32": None, "F16": None})),
    "shape_null": ("corrupt", 'tensor "a": shape must be an array', one(shape=None)),
    "shape_of_strings": ("corrupt", 'tensor "a": shape must hold whole numbers', one(shape=["1"])),
    "shape_float": ("corrupt", 'tensor "a": shape: 1.0 is not a whole number', one(shape=[1.0])),
    "shape_exponent": ("corrupt", 'tensor "a": shape: 1E0 is not', raw('{"a":%s}' % T.replace("[1]", "[1E0]"), D)),
    "negative": ("corrupt", 'tensor "a": shape: -1 is not', one(shape=[-1])),
    "minus_zero": ("corrupt", 'tensor "a": data_offsets: -0 is not', raw('{"a":%s}' % T.replace("[0,4]", "[-0,4]"), D)),
    "past_u64": ("corrupt", "shape: 18446744073709551616 is not", one(shape=[2**64])),
    "offsets_1": ("corrupt", 'tensor "a": data_offsets must be an array of two', one(data_offsets=[0])),
    "offsets_3": ("corrupt", 'tensor "a": data_offsets must be an array of two', one(data_offsets=[0, 4, 8])),
    "offsets_float": ("corrupt", 'tensor "a": data_offsets: 0.0 is not', one(data_offsets=[0.0, 4.0])),
    "offsets_object": ("corrupt", 'tensor "a": data_offsets must be an array', one(data_offsets={"0": 0, "1": 4})),
    "reversed": ("corrupt", 'tensor "a": data_offsets are reversed: from 4 to 0', one(data_offsets=[4, 0])),
    "shape_mismatch": ("corrupt", "shape and dtype make 4000000 bytes, data_offsets 4", one(shape=[1000000])),
    "zero_bytes_for_one": ("corrupt", "make 1 bytes, data_offsets 0", st({"a": tensor("F8_E4M3", (1,), (0, 0))}, b"")),
    "f4_odd": ("corrupt", "7 elements of 4 bits do not end at a byte", st({"a": tensor("F4", (7,))})),
    "f6_odd": ("corrupt", "5 elements of 6 bits do not end at a byte", st({"a": tensor("F6_E3M2", (5,))})),
    "elements_overflow": ("corrupt", "elements overflows", st({"a": tensor("U8", (2**32, 2**32, 0), (0, 0))}, b"")),
    "bits_overflow": ("corrupt", "bits overflows", st({"a": tensor("U8", (2**62,), (0, 0))}, b"")),
    # All tensors together.
    "dup_key_same_name": ("corrupt", 'duplicate key: the header names tensor "a" twice', raw('{"a":%s,"a":%s}' % (T, T), D)),
    "dup_key_escaped": ("corrupt", 'duplicate key: the header names tensor "a" twice',
                        raw('{"a":%s,"\\u0061":%s}' % (T, T.replace("[0,4]", "[4,8]")), D * 2)),
    "alias_same_range": ("corrupt", 'tensors "a" and "b" overlap', st({"a": tensor(), "b": tensor()})),
    "overlap": ("corrupt", 'tensors "a" and "b" overlap at byte 2',
                st({"a": tensor(), "b": tensor(offsets=(2, 6))}, b"\0" * 6)),
    "hole": ("corrupt", 'bytes 4 to 8 of the data belong to no tensor (before tensor "b")',
             st({"a": tensor(), "b": tensor(offsets=(8, 12))}, D * 3)),
    "start_not_zero": ("corrupt", "bytes 0 to 4 of the data belong to no tensor", st({"a": tensor(offsets=(4, 8))}, D * 2)),
    "truncated_data": ("corrupt", "truncated: 65 bytes, the header promises 66", st({"a": tensor()}, b"\0" * 3)),
    "trailing_data": ("corrupt", "the last 1 belong to no tensor", st({"a": tensor()}, b"\0" * 5)),
    "trailing_data_no_tensors": ("corrupt", "the last 1 belong to no tensor", st({}, b"x")),
    # Perhaps right, in a later version.
    "dtype_unknown": ("unsupported", '"F2"', st({"a": tensor("F2", (16,))})),
    "dtype_lower_case": ("unsupported", '"f32"', st({"a": tensor("f32")})),
    "dtype_unknown_two": ("unsupported", '"F2", "I4"', st({"a": tensor("F2", (16,)), "b": tensor("I4", (8,), (4, 8))}, D * 2)),
    "dtype_unknown_hole": ("corrupt", "belong to no tensor", st({"a": tensor("F2", (16,), (1, 4))})),
    "dtype_unknown_truncated": ("corrupt", "truncated", st({"a": tensor("F2", (16,))}, b"")),
}

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
# Number: (elements, bytes) of a block.
GGUF_TYPES = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}


class Writer:
    """The fields of a GGUF file in one byte order."""

    def __init__(self, order="<"):
        self.order = order

    def pack(self, code, *values):
        return struct.pack(self.order + code, *values)

    def string(self, text):
        text = text if isinstance(text, bytes) else text.encode()
        return self.pack("Q", len(text)) + text

    def value(self, kind, value):
        if kind == STRING:
            return self.string(value)
        if kind == ARRAY:
            of, items = value
            return self.pack("IQ", of, len(items)) + b"".join(self.value(of, i) for i in items)
        return self.pack(SCALARS[kind], value)

    def pair(self, key, kind, value):
        return self.string(key) + self.pack("I", kind) + self.value(kind, value)

    def tensor(self, name, dims, kind, offset):
        return self.string(name) + self.pack("I", len(dims)) + self.pack(f"{len(dims)}Q", *dims) + self.pack("IQ", kind, offset)

    def file(self, pairs=(), tensors=(), data=b"", version=3, n_tensors=None, n_pairs=None, align=32):
        head = b"GGUF" + self.pack("I", version)
        head += self.pack("QQ", len(tensors) if n_tensors is None else n_tensors, len(pairs) if n_pairs is None else n_pairs)
        head += b"".join(pairs) + b"".join(tensors)
        return head + (b"\0" * (-len(head) % align) + data if tensors else b"")


W, BE = Writer(), Writer(">")
ARCH = W.pair("general.architecture", STRING, "llama")
ONE = W.tensor("a", (4,), 0, 0)
D16 = b"\0" * 16
ALL_KINDS = [(U8, 200), (I8, -3), (U16, 60000), (I16, -300), (U32, 4000000000), (I32, -70000), (F32, 1.5), (BOOL, 1),
             (STRING, "x"), (U64, 2**63), (I64, -2**40), (F64, -0.25)]


def all_pairs(w):
    pairs = [w.pair("general.architecture", STRING, "llama")]
    for kind, value in ALL_KINDS:
        pairs.append(w.pair(f"one.{kind}", kind, value))
        pairs.append(w.pair(f"none.{kind}", ARRAY, (kind, [])))
        pairs.append(w.pair(f"many.{kind}", ARRAY, (kind, [value] * 300)))
    return pairs


def all_types(w):
    tensors, at, data = [], 0, b""
    for kind, (block, size) in GGUF_TYPES.items():
        tensors.append(w.tensor(f"t{kind}", (block, 3), kind, at))
        data += b"\1" * (3 * size)
        data += b"\0" * (-len(data) % 32)
        at = len(data)
    return w.file([w.pair("general.architecture", STRING, "x"), w.pair("general.quantization_version", U32, 2)], tensors, data)


ALL_TYPES_WORDS = f"{len(GGUF_TYPES)} tensors, {sum(3 * size for _, size in GGUF_TYPES.values())} bytes"


def two(second, data=b"\0" * 64, **kwargs):
    return W.file([ARCH], [ONE, second], data, **kwargs)


GGUF = {
    "ok_min": ("ok", "1 tensors, 16 bytes", W.file([ARCH], [ONE], D16)),
    "ok_no_tensors": ("ok", "0 tensors", W.file([ARCH])),
    "ok_no_architecture": ("ok", "general.architecture is missing", W.file([], [ONE], D16)),
    "ok_version_2": ("ok", "1 tensors", W.file([ARCH], [ONE], D16, version=2)),
    "ok_all_values": ("ok", "0 tensors", W.file(all_pairs(W))),
    "ok_all_types": ("ok", ALL_TYPES_WORDS, all_types(W)),
    "ok_big_endian": ("ok", ALL_TYPES_WORDS, all_types(BE)),
    "ok_big_endian_values": ("ok", "0 tensors", BE.file(all_pairs(BE))),
    "ok_alignment_64": ("ok", "2 tensors", W.file([ARCH, W.pair("general.alignment", U32, 64)],
                        [ONE, W.tensor("b", (4,), 0, 64)], b"\0" * 80, align=64)),
    "ok_padded_end": ("ok", "1 tensors", W.file([ARCH], [ONE], b"\0" * 32)),
    "ok_name_63": ("ok", "1 tensors", W.file([ARCH], [W.tensor("n" * 63, (4,), 0, 0)], D16)),
    "ok_four_dims": ("ok", "1 tensors, 96 bytes", W.file([ARCH], [W.tensor("a", (2, 3, 4, 1), 0, 0)], b"\0" * 96)),
    "ok_scalar": ("ok", "1 tensors, 4 bytes", W.file([ARCH], [W.tensor("a", (), 0, 0)], D)),
    "ok_zero_dim": ("ok", "1 tensors, 0 bytes", W.file([ARCH], [W.tensor("a", (0, 5), 0, 0)])),
    "ok_trailing_data": ("ok", "84 bytes follow the last tensor", W.file([ARCH], [ONE], b"\0" * 100)),
    "ok_type_42": ("ok", "1 tensors, 36 bytes", W.file([ARCH, W.pair("general.quantization_version", U32, 2)],
                   [W.tensor("a", (128,), 42, 0)], b"\0" * 36)),
    "type_unknown": ("unsupported", '"type 77"', two(W.tensor("b", (4,), 77, 32))),
    "type_given_up": ("unsupported", '"type 4"', two(W.tensor("b", (4,), 4, 32))),
    "version_1": ("unsupported", "GGUF version 1 is not supported", b"GGUF\1\0\0\0" + b"\0" * 64),
    "version_4": ("unsupported", "GGUF version 4 is not supported", W.file([ARCH], version=4)),
    "version_0": ("corrupt", "no GGUF version 0", W.file([ARCH], version=0)),
    "version_swapped_2": ("corrupt", "no GGUF version 33554432", BE.file([], version=2)),
    "empty": ("corrupt", "the file is empty", b""),
    "magic": ("corrupt", 'does not begin with "GGUF"', b"GGML" + b"\0" * 100),
    "lfs_pointer": ("corrupt", "this is a Git LFS pointer (oid sha256:4d7a2146", LFS),
    "zip": ("corrupt", "this is a zip archive", b"PK\3\4" + b"\0" * 100),
    "tensors_bomb": ("corrupt", "4611686018427387904 tensors cannot be in a file", W.file([ARCH], n_tensors=2**62)),
    "tensors_negative": ("corrupt", "tensors cannot be in a file", W.file([ARCH], n_tensors=2**64 - 1)),
    "pairs_bomb": ("corrupt", "4611686018427387904 keys cannot be in a file", W.file([ARCH], n_pairs=2**62)),
    "key_empty": ("corrupt", "a key of 0 bytes", W.file([W.pair("", U8, 1), ARCH])),
    "key_long": ("corrupt", "a key of 65536 bytes", W.file([W.pair("k" * 65536, U8, 1)])),
    "key_bomb": ("corrupt", "truncated, or damaged: a key takes 4611686018427387904 bytes", W.file([W.pack("Q", 2**62) + b"a" * 20])),
    "key_twice": ("corrupt", 'duplicate key: "general.architecture"', W.file([ARCH, W.pair("x", U8, 1), ARCH])),
    "value_type_13": ("corrupt", 'key "x": a value of type 13', W.file([W.string("x") + W.pack("I", 13) + D])),
    "string_bomb": ("corrupt", 'key "x": truncated, or damaged: a string takes', W.file([W.string("x") + W.pack("IQ", STRING, 2**62)])),
    "array_of_arrays": ("corrupt", 'key "x": an array of arrays', W.file([W.string("x") + W.pack("IIQ", ARRAY, ARRAY, 0)])),
    "array_type_13": ("corrupt", 'key "x": an array of values of type 13', W.file([W.string("x") + W.pack("IIQ", ARRAY, 13, 0)])),
    "array_bomb": ("corrupt", "an array of 4611686018427387904 elements", W.file([W.string("x") + W.pack("IIQ", ARRAY, U8, 2**62)])),
    "array_past_end": ("corrupt", "truncated, or damaged: an array takes 8589934592 bytes",
                       W.file([W.string("x") + W.pack("IIQ", ARRAY, F64, 2**30)])),
    "array_string_past_end": ("corrupt", "truncated, or damaged: a string in an array takes",
                              W.file([W.string("x") + W.pack("IIQQ", ARRAY, STRING, 1, 9)])),
    "alignment_zero": ("corrupt", 'key "general.alignment": 0 is not a power of two', W.file([W.pair("general.alignment", U32, 0)])),
    "alignment_48": ("corrupt", "48 is not a power of two", W.file([W.pair("general.alignment", U32, 48)])),
    "alignment_u64": ("corrupt", "must be a u32", W.file([W.pair("general.alignment", U64, 32)])),
    "name_64": ("corrupt", "a tensor's name of 64 bytes (at most 63)", W.file([ARCH], [W.tensor("n" * 64, (4,), 0, 0)], D16)),
    "name_twice": ("corrupt", 'duplicate key: the header names tensor "a" twice', two(W.tensor("a", (4,), 0, 32))),
    "dims_5": ("corrupt", 'tensor "a": 5 dimensions', W.file([ARCH], [W.tensor("a", (1,) * 5, 0, 0)], D16)),
    "dim_negative": ("corrupt", "overflows 63 bits", W.file([ARCH], [W.tensor("a", (2**63,), 0, 0)], D16)),
    "dims_overflow": ("corrupt", "elements overflows 63 bits", W.file([ARCH], [W.tensor("a", (2**32, 2**31), 24, 0)], D16)),
    "bytes_overflow": ("corrupt", "bytes overflows 63 bits", W.file([ARCH], [W.tensor("a", (2**62,), 28, 0)], D16)),
    "block_not_whole": ("corrupt", "rows of 33 elements, Q4_0 has blocks of 32", W.file([ARCH], [W.tensor("a", (33,), 2, 0)], D * 9)),
    "overlap": ("corrupt", 'tensor "b": starts at byte 0 of the data, must at 32', two(W.tensor("b", (4,), 0, 0))),
    "hole": ("corrupt", 'tensor "b": starts at byte 64 of the data, must at 32', two(W.tensor("b", (4,), 0, 64), b"\0" * 128)),
    "not_aligned": ("corrupt", 'tensor "b": starts at byte 16 of the data, must at 32', two(W.tensor("b", (4,), 0, 16))),
    "start_not_zero": ("corrupt", "must at 0", W.file([ARCH], [W.tensor("a", (4,), 0, 32)], b"\0" * 64)),
    "after_unknown_not_aligned": ("corrupt", 'tensor "c": starts at byte 41 of the data, must at or after 32',
                                  W.file([ARCH], [ONE, W.tensor("b", (4,), 77, 32), W.tensor("c", (1,), 24, 41)], b"\0" * 64)),
    "truncated_data": ("corrupt", "truncated: 143 bytes, the header promises 144", W.file([ARCH], [ONE], b"\0" * 15)),
}


def write(folder):
    """Writes all; gives {path: (verdict, words)}."""
    written = {}
    for suffix, cases in (("safetensors", SAFETENSORS), ("gguf", GGUF)):
        (Path(folder) / suffix).mkdir(parents=True, exist_ok=True)
        for name, (verdict, words, data) in cases.items():
            path = Path(folder) / suffix / f"{name}.{suffix}"
            path.write_bytes(data)
            written[path] = (verdict, words)
    return written


if __name__ == "__main__":
    print(f"{len(write(sys.argv[1]))} files")
