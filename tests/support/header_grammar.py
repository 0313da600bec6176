"""safetensors files from a grammar: right ones with every spelling that is allowed, and ones that break a given rule.

generate(seed, n, per_rule) gives (rule, bytes); the rule is None for a right file. Data is zeros and small.
"""
import json
import random
import struct

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}
NAME_PARTS = ["model", "layers", "0", "weight", "bias", "", " ", "ä", "漢", "😀", "\n", "\x00", "\\", '"', "/", ".."]


class Raw(bytes):
    """JSON text as it shall stand."""


class Pairs(list):
    """An object's members, which may stand twice."""


class File:
    """A right file, open to be spoilt before it is written."""

    def __init__(self, rng):
        self.rng = rng
        self.space = rng.choice([0, 0, 0.1, 0.5])
        self.escapes = rng.choice([0, 0, 0.2])
        self.members = Pairs()  # of (name, Pairs or anything)
        self.lead = self.tail = b""
        self.length = None
        at = 0
        names = set()
        for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 5, 12])):
            name = "".join(rng.choice(NAME_PARTS) for _ in range(rng.randint(0, 4)))
            if name in names or name == "__metadata__":
                continue
            names.add(name)
            dtype = rng.choice(list(BITS))
            shape = [rng.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
            if BITS[dtype] < 8:
                shape.append(8)
            size = BITS[dtype]
            for d in shape:
                size *= d
            self.members.append((name, Pairs([("dtype", dtype), ("shape", shape), ("data_offsets", [at, at + size // 8])])))
            at += size // 8
        self.data = bytes(at)
        rng.shuffle(self.members)
        for _, tensor in self.members:
            rng.shuffle(tensor)
            if rng.random() < 0.15:
                tensor.insert(rng.randint(0, 3), ("extra", self.any_value(3)))
        if rng.random() < 0.5:
            value = rng.choice([None, Pairs(), Pairs([("format", "pt")]), Pairs([("k", "v"), ("k", "w"), ("", "x\n")])])
            self.members.insert(rng.randint(0, len(self.members)), ("__metadata__", value))
        if rng.random() < 0.1:
            self.lead = rng.choice([b" ", b"\n", b"\t\r\n"])
        self.pad = rng.choice([b"", b" ", b"       ", b"\n\t "])

    def any_value(self, depth):
        rng = self.rng
        kinds = [None, True, False, 0, -7, 10**30, Raw(b"-0"), Raw(b"1.5e-3"), Raw(b"1e-999"), Raw(b"9" * 308), "x", "\u2028"]
        if depth == 0 or rng.random() < 0.5:
            return rng.choice(kinds)
        if rng.random() < 0.1:
            return Raw(b"[" * 125 + b"]" * 125) if depth == 3 else []
        if rng.random() < 0.5:
            return [self.any_value(depth - 1) for _ in range(rng.randint(0, 3))]
        return Pairs((rng.choice("abc"), self.any_value(depth - 1)) for _ in range(rng.randint(0, 3)))

    def tensors(self):
        return [i for i, (name, value) in enumerate(self.members) if name != "__metadata__" and isinstance(value, Pairs)]

    # Writing

    def gap(self):
        return self.rng.choice([b" ", b"\n", b"\t", b"\r\n", b"  "]) if self.rng.random() < self.space else b""

    def string(self, text):
        out = b'"'
        for c in text:
            if ord(c) < 0x20 or c in '"\\' or self.rng.random() < self.escapes:
                units = c.encode("utf-16-be")
                short = {"\n": b"\\n", "\\": b"\\\\", '"': b'\\"'}.get(c)
                out += short if short and self.rng.random() < 0.5 else b"".join(
                    b"\\u" + (b"%02x%02x" if self.rng.random() < 0.5 else b"%02X%02X") % (units[i], units[i + 1])
                    for i in range(0, len(units), 2))
            else:
                out += c.encode()
        return out + b'"'

    def text(self, value):
        gap = self.gap
        if isinstance(value, Raw):
            return bytes(value)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, Pairs):
            inner = b",".join(gap() + (bytes(k) if isinstance(k, Raw) else self.string(k)) + gap() + b":" + gap() + self.text(v) + gap()
                              for k, v in value)
            return b"{" + (inner or gap()) + b"}"
        if isinstance(value, list):
            return b"[" + (b",".join(gap() + self.text(v) + gap() for v in value) or gap()) + b"]"
        return json.dumps(value).encode()

    def write(self):
        header = self.lead + self.text(self.members) + self.tail + self.pad
        return struct.pack("<Q", len(header) if self.length is None else self.length) + header + self.data

    # Spoiling: each changes the file so that one rule is broken, or gives the bytes of one that is.

    def some_tensor(self):
        """A tensor's place; one is added where there is none."""
        places = self.tensors()
        if not places:
            end = len(self.data)
            self.members.append(("added", Pairs([("dtype", "F32"), ("shape", [1]), ("data_offsets", [end, end + 4])])))
            self.data += bytes(4)
            places = [len(self.members) - 1]
        return self.rng.choice(places)

    def set_field(self, field, value, place=None):
        place = self.some_tensor() if place is None else place
        name, tensor = self.members[place]
        self.members[place] = (name, Pairs((k, (value(v) if callable(value) else value) if k == field else v) for k, v in tensor))

    def set_tensor(self, value):
        place = self.some_tensor()
        self.members[place] = (self.members[place][0], value)

    def set_metadata(self, value):
        self.members = Pairs((k, v) for k, v in self.members if k != "__metadata__")
        self.members.insert(self.rng.randint(0, len(self.members)), ("__metadata__", value))

    def add_extra(self, value):
        self.members[self.some_tensor()][1].append(("extra", value))

    def add_two(self, offsets, dtype="U8", data=8):
        """Two more tensors of 4 bytes behind the rest, at these offsets from its end."""
        end = len(self.data)
        for i, (a, b) in enumerate(offsets):
            self.members.append((f"two.{i}", Pairs([("dtype", dtype), ("shape", [b - a]), ("data_offsets", [end + a, end + b])])))
        self.data += bytes(data)


def replace_bytes(file, old, new):
    """The file's header with one byte string put for another; the length follows."""
    whole = file.write()
    header = whole[8:len(whole) - len(file.data)]
    header = header.replace(old, new, 1)
    return struct.pack("<Q", len(header)) + header + file.data


def set_dims(file, dims):
    end = len(file.data)
    file.members.append(("dims", Pairs([("dtype", "U8"), ("shape", dims), ("data_offsets", [end, end])])))


def set_bits(file, dtype, n):
    end = len(file.data)
    size = -(-n * BITS[dtype] // 8)
    file.members.append(("bits", Pairs([("dtype", dtype), ("shape", [n]), ("data_offsets", [end, end + size])])))
    file.data += bytes(size)


def drop_field(file, rng):
    place = file.some_tensor()
    gone = rng.choice(["dtype", "shape", "data_offsets"])
    file.members[place] = (file.members[place][0], Pairs((k, v) for k, v in file.members[place][1] if k != gone))


def field_twice(file, rng):
    tensor = file.members[file.some_tensor()][1]
    tensor.append(next((k, v) for k, v in tensor if k == rng.choice(["dtype"])))


def duplicate(file, rng):
    """A second tensor of a name: with the same or other bytes, before or behind."""
    place = file.some_tensor()
    name, tensor = file.members[place]
    copy = Pairs(tensor)
    if rng.random() < 0.3:
        copy = Pairs((k, ([v[0] + 1, v[1] + 1] if k == "data_offsets" else v)) for k, v in tensor)
    file.members.insert(rng.randint(0, len(file.members)), (name, copy))


BAD_NUMBERS = [Raw(b"-1"), Raw(b"1.0"), Raw(b"1E0"), Raw(b"18446744073709551616"), Raw(b"-0"), "1", None, True, [1]]


def top_value(file, rng):
    header = file.text(rng.choice([[], None, "x", 1, True, [Pairs()]]))
    return struct.pack("<Q", len(header)) + header


RULES = {
    # The length.
    "short file": lambda f, r: f.write()[:r.randint(0, 7)],
    "length past the limit": lambda f, r: setattr(f, "length", r.choice([100_000_001, 2**32, 2**63, 2**64 - 1])),
    "length past the end": lambda f, r: struct.pack("<Q", len(f.write()) - 8 + r.randint(1, 1000)) + f.write()[8:],
    "length short": lambda f, r: setattr(f, "length", len(f.lead + f.text(f.members)) // 2),
    "header empty": lambda f, r: struct.pack("<Q", 0) + f.data,
    # UTF-8 and JSON.
    "not UTF-8": lambda f, r: f.members.append((Raw(b'"' + r.choice([b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"]) + b'"'), None)),
    "trailing comma": lambda f, r: replace_bytes(f, b"}", b",}"),
    "text behind": lambda f, r: setattr(f, "tail", r.choice([b"\0", b"x", b"{}", b",", b"}", b"\x0b", b"\xc2\xa0"])),
    "text before": lambda f, r: setattr(f, "lead", r.choice([b"\0", b"\xef\xbb\xbf", b"//\n", b"\x0c"])),
    "comment": lambda f, r: f.add_extra(Raw(b"/* */ 1")),
    "word": lambda f, r: f.add_extra(Raw(r.choice([b"NaN", b"Infinity", b"nul", b"True", b"undefined", b"-Infinity"]))),
    "number": lambda f, r: f.add_extra(Raw(r.choice([b"01", b"1.", b".5", b"+1", b"1e", b"-", b"0x1", b"1_0"]))),
    "number out of range": lambda f, r: f.add_extra(r.choice([Raw(b"1e999"), Raw(b"-1e400"), Raw(b"9" * 310), [Raw(b"2e308")]])),
    "escape": lambda f, r: f.add_extra(Raw(r.choice([b'"\\x41"', b'"\\u12g4"', b'"\\"', b'"\\\'"', b'"\\U0041"']))),
    "lone surrogate": lambda f, r: f.add_extra(Raw(r.choice([b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'"\\ud83dx"']))),
    "control character": lambda f, r: f.add_extra(Raw(b'"' + bytes([r.randint(0, 31)]) + b'"')),
    "single quotes": lambda f, r: f.add_extra(Raw(b"'x'")),
    "brackets": lambda f, r: f.add_extra(Raw(r.choice([b"[}", b"[1", b"]", b"{1:2}", b'{"a"}', b'{"a":}', b"[1 2]", b"[,]"]))),
    "nesting": lambda f, r: f.add_extra(Raw((n := r.choice([126, 127, 128, 1000])) * b"[" + n * b"]")),
    "nesting of objects": lambda f, r: f.add_extra(Raw((n := r.choice([126, 200])) * b'{"a":' + b"1" + n * b"}")),
    # The whole.
    "top is no object": top_value,
    "metadata of a kind": lambda f, r: f.set_metadata(r.choice([[], "x", 1, True])),
    "metadata value": lambda f, r: f.set_metadata(Pairs([("a", "b"), ("k", r.choice([1, None, True, [], Pairs(), 1.5]))])),
    "metadata twice": lambda f, r: (f.set_metadata(r.choice([None, Pairs()])), f.members.append(("__metadata__", r.choice([None, Pairs()])))),
    # A tensor.
    "tensor of a kind": lambda f, r: f.set_tensor(r.choice([None, 1, "x", True, [], ["F32"], ["F32", [1]], ["F32", [1], [0, 4], 1]])),
    "field missing": drop_field,
    "field twice": field_twice,
    "dtype of a kind": lambda f, r: f.set_field("dtype", r.choice([13, None, ["F32"], Pairs(), Pairs([("F32", 1)]), Pairs([("F32", None), ("F16", None)])])),
    "dtype unknown": lambda f, r: f.set_field("dtype", r.choice(["F2", "f32", "F32 ", "", "FLOAT", "I4", "F32\0"])),
    "dimension": lambda f, r: f.set_field("shape", lambda v: [*v, r.choice(BAD_NUMBERS)]),
    "shape of a kind": lambda f, r: f.set_field("shape", r.choice([None, 1, "1", Pairs(), True])),
    "offset": lambda f, r: f.set_field("data_offsets", lambda v: [v[0], r.choice(BAD_NUMBERS)]),
    "offsets of a kind": lambda f, r: f.set_field("data_offsets", r.choice([None, 1, "x", Pairs([("0", 0), ("1", 4)])])),
    "offsets of one": lambda f, r: f.set_field("data_offsets", lambda v: v[:1]),
    "offsets of three": lambda f, r: f.set_field("data_offsets", lambda v: [*v, v[1]]),
    # Sizes and places.
    "shape mismatch": lambda f, r: f.add_two([(0, 4), (4, r.choice([9, 12]))], r.choice(["U16", "F32"]), data=12),
    "elements overflow": lambda f, r: set_dims(f, r.choice([[2**32, 2**32, 0], [2**64 - 1, 2], [2**63, 2, 0]])),
    "bits overflow": lambda f, r: set_dims(f, [2**61]),
    "bits of no byte": lambda f, r: set_bits(f, *r.choice([("F4", 7), ("F4", 1), ("F6_E2M3", 5), ("F6_E3M2", 2)])),
    "reversed": lambda f, r: f.set_field("data_offsets", lambda v: [v[1] + 1, v[0]]),
    "hole": lambda f, r: f.add_two([(0, 3), (4, 8)]),
    "hole before": lambda f, r: f.add_two([(1, 4), (4, 8)]),
    "overlap": lambda f, r: f.add_two([(0, 5), (4, 8)]),
    "alias": lambda f, r: f.add_two([(0, 8), (0, 8)]),
    "inside": lambda f, r: f.add_two([(0, 8), (2, 4)]),
    "truncated": lambda f, r: (f.add_two([(0, 4), (4, 8)]), setattr(f, "data", f.data[: -r.randint(1, 8)])),
    "trailing data": lambda f, r: setattr(f, "data", f.data + bytes(r.randint(1, 9))),
    "name twice": duplicate,
}


def odd_spellings(file, rng):
    """What the reference's JSON library lets pass."""
    if not file.tensors():
        return
    place = file.some_tensor()
    name, tensor = file.members[place]
    fields = dict(tensor)
    if rng.random() < 0.5:
        file.members[place] = (name, [fields["dtype"], fields["shape"], fields["data_offsets"]])
    else:
        file.set_field("dtype", lambda v: Pairs([(v, None)]), place)


def generate(seed, n=2000, per_rule=25):
    assert per_rule * len(RULES) < n
    rng = random.Random(seed)
    for rule, spoil in RULES.items():
        for _ in range(per_rule):
            file = File(rng)
            changed = spoil(file, rng)
            yield rule, changed if isinstance(changed, bytes) else file.write()
    for _ in range(n - per_rule * len(RULES)):
        file = File(rng)
        if rng.random() < 0.1:
            odd_spellings(file, rng)
        yield None, file.write()
