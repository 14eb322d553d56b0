"""Malformed files: good bytes, JSON, archives, zip files, images and texts, damaged by a seeded generator."""

import copy
import hashlib
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

DEEP = "[" * 100_000
NUMBERS = (
    0,
    -1,
    1,
    2,
    255,
    2**31 - 1,
    2**31,
    2**63,
    2**64,
    -(2**63),
    10**20,
    10**308,
    10**400,
    0.5,
    -0.0,
    1e308,
    1e-308,
)
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    None,
    True,
    False,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "x",
    "0",
    "nan",
    "\x00",
    "\ud800",
    "\udcff",
    "../..",
    "a" * 5000,
    "\n",
    [],
    {},
    [[]],
    [None],
    [1, 2, 3],
    {"": None},
    {"a": {"b": []}},
    [[1, 2], [3]],
    [True],
    ["x"],
)
"""What a value is replaced by: other types, bounds of types, what no text should hold. Use `_any_value`."""


def _any_value(rng: random.Random) -> Any:
    """One of `VALUES`: a copy, since a later change may reach into a list of it."""
    return copy.deepcopy(rng.choice(VALUES))


def bytes_changed(content: bytes, rng: random.Random) -> bytes:
    """A few bytes flipped, set, removed, doubled or cut off."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
        size = len(data)
        begin = rng.randrange(size + 1)
        end = min(size, begin + rng.choice((1, 2, 4, 8, 64, 1000)))
        match rng.randrange(9):
            case 0 | 1 | 2 if begin < size:
                data[begin] ^= 1 << rng.randrange(8)
            case 3 if begin < size:
                data[begin] = rng.randrange(256)
            case 4:
                data[begin:end] = rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * (end - begin)
            case 5:
                del data[begin:end]
            case 6:
                data[begin:begin] = data[begin:end]
            case 7:
                data[begin:begin] = rng.randbytes(rng.choice((1, 4, 100)))
            case _:
                del data[begin:]
    return bytes(data)


def json_changed(content: bytes, rng: random.Random) -> bytes:
    """A JSON text of which values were replaced, removed, added, moved or nested, or in which a key comes twice."""
    if rng.random() < 0.03:
        return rng.choice(
            (b"", b"null", b"[]", b"{}", b'"', b"1", DEEP.encode(), b'{"a":' * 5000, b"\xff\xfe", b"\xef\xbb\xbf{}")
        )
    value = plain_changed(json.loads(content), rng)
    text = json.dumps(value)
    if rng.random() < 0.05:
        text = text.replace(
            rng.choice(("1", "0", "null", "{", "[")), rng.choice((DEEP, "NaN", "1" * 5000, "-", "1e999")), 1
        )
    if rng.random() < 0.05:
        text = re.sub(r'("\w+": [^,{}\[\]]+),', r"\1, \1,", text, count=1)
    return text.encode("utf-8", "surrogatepass")


def plain_changed(value: Any, rng: random.Random) -> Any:
    """A copy of plain values with one to three changes."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return _any_value(rng)
        inside, key = rng.choice(places)
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                inside[key] = _any_value(rng)
            case 4 if isinstance(inside[key], int | float):
                half = inside[key] // 2 if abs(inside[key]) > 10**300 else inside[key] / 2
                inside[key] = rng.choice((-inside[key], inside[key] * 10, inside[key] + 1, half, 2**62))
            case 5:
                del inside[key]
            case 6:
                other, name = rng.choice(places)
                if name in other if isinstance(other, dict) else name < len(other):
                    inside[key] = json.loads(json.dumps(other[name]))
            case 7:
                inside[key] = [inside[key]] if rng.random() < 0.5 else {"value": inside[key]}
            case 8 if isinstance(inside, dict):
                inside[rng.choice(("", "extra", "__class__", "digest", "type", "a.b"))] = _any_value(rng)
            case _ if isinstance(inside, list):
                small = not isinstance(inside[key], list | dict)  # else three changes make 10^9 values
                inside[key:key] = inside[key : key + 1] * rng.choice((1, 1, 1000 if small else 2))
            case _:
                inside[key] = nested(rng.choice((50, 70, 300)))
    return value


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _places(value: Any) -> Any:
    """Every (container, key) of plain values."""
    stack = [value]
    while stack:
        inside = stack.pop()
        pairs = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        for key, each in list(pairs)[:50]:
            yield inside, key
            if isinstance(each, dict | list):
                stack.append(each)


def stamped_json_changed(content: bytes, rng: random.Random) -> bytes:
    """The same, with the digest made again: as whoever wants to be believed would."""
    value = json.loads(content)
    digest = value.pop("digest", None)
    changed = plain_changed(value, rng)
    if digest is not None and isinstance(changed, dict):
        changed["digest"] = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
    return json.dumps(changed, indent=2).encode()


def lines_changed(content: bytes, rng: random.Random) -> bytes:
    """Lines of JSON: one changed, the digests of it and all after it made again."""
    values = [json.loads(line) for line in content.splitlines()]
    changed = plain_changed(values, rng) if rng.random() < 0.1 else [*values]
    if not isinstance(changed, list) or not changed:
        return b"\n"
    number = rng.randrange(len(changed))
    changed[number] = plain_changed(changed[number], rng)
    lines, previous = [], ""
    for each in changed:
        if isinstance(each, dict) and "digest" in values[0]:
            given = {key: value for key, value in each.items() if key != "digest" and value is not None}
            given = {"abstained": 0, "sampling_seconds": 0.0, "testing_seconds": 0.0, **given}
            previous = hashlib.sha256((previous + json.dumps(given, sort_keys=True)).encode()).hexdigest()
            lines.append(json.dumps({**given, "digest": previous}))
        else:
            lines.append(json.dumps(each))
    return ("\n".join(lines) + "\n").encode()


def safetensors_changed(content: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header was changed: types, shapes, offsets, names, its length."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json_changed(content[8 : 8 + length], rng)
    claimed = rng.choice((len(header), len(header), len(header), rng.choice((0, 2**31, 2**63, 2**64 - 1, 10**8))))
    return struct.pack("<Q", claimed) + header + content[8 + length :]


def archive_changed(content: bytes, rng: random.Random) -> bytes:
    """A file of `segcertify.storage.archive` whose inner header or arrays were changed, its digest made again."""
    (length,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    about = json.loads(header["__metadata__"]["segcertify"])
    match rng.randrange(8):
        case 0:
            about = plain_changed(about, rng)
        case 1:
            arrays = {name: each for name, each in header.items() if name != "__metadata__"}
            header = {"__metadata__": header["__metadata__"], **_other_arrays(arrays, len(body), rng)}
        case 2 if body:
            body = bytearray(bytes_changed(bytes(body), rng)[: len(body)].ljust(len(body), b"\xff"))
        case _:
            about["header"] = plain_changed(about["header"], rng)
    header["__metadata__"]["segcertify"] = json.dumps(about)
    whole = _safetensors(header, bytes(body))
    if isinstance(about, dict) and isinstance(about.get("header"), dict) and "digest" in about:
        about["digest"] = _digest(about, header, bytes(body))
        header["__metadata__"]["segcertify"] = json.dumps(about)
        whole = _safetensors(header, bytes(body))
    return whole


def _other_arrays(arrays: dict[str, Any], size: int, rng: random.Random) -> dict[str, Any]:
    """Arrays that still fill the file, but have other types, shapes or names."""
    name = rng.choice(list(arrays))
    each = arrays[name]
    begin, end = each["data_offsets"]
    kind = rng.choice(("U8", "I8", "I16", "I32", "I64", "F16", "F32", "F64", "BOOL", "U16", "U64", "BF16"))
    width = {"8": 1, "L": 1, "6": 2, "2": 4, "4": 8}[kind[-1]]
    if (end - begin) % width == 0:
        count = (end - begin) // width
        each |= {
            "dtype": kind,
            "shape": rng.choice(([count], [1, count], [count, 1], [1] * 70 + [count], each["shape"])),
        }
    if rng.random() < 0.3:
        arrays[rng.choice(("", "other", "agree", "labels", "optimiser/x/y", "optimiser/0/exp_avg"))] = arrays.pop(name)
    return arrays


_TYPES = {
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "BOOL": "bool",
    "U16": "uint16",
    "U64": "uint64",
    "BF16": "bfloat16",
}


def _digest(about: dict[str, Any], header: dict[str, Any], body: bytes) -> str:
    """The digest that the archive layer would write."""
    plain = [about.get("format"), about.get("version"), about["header"]]
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for name, each in sorted((name, each) for name, each in header.items() if name != "__metadata__"):
        digest.update(json.dumps([name, _TYPES.get(each["dtype"], ""), each["shape"]]).encode())
        digest.update(body[slice(*each["data_offsets"])])
    return digest.hexdigest()


def _safetensors(header: Any, body: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def zip_changed(content: bytes, rng: random.Random) -> bytes:
    """A zip file with one part changed, removed, renamed, doubled or compressed; its checksums are right."""
    out, names = io.BytesIO(), zipfile.ZipFile(io.BytesIO(content)).namelist()
    chosen, how = rng.choice(names), rng.randrange(10)
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in names:
            part, form, target = old.read(name), zipfile.ZIP_STORED, name
            if name == chosen:
                if how == 0:
                    continue
                if how == 1:
                    target = rng.choice((name + "x", "a/" + name, name.upper(), "../" + name))
                elif how == 2:
                    form = zipfile.ZIP_DEFLATED
                elif name.endswith(".json") and how < 9:
                    part = json_changed(part, rng)
                else:
                    part = bytes_changed(part, rng)
            new.writestr(target, part, form)
    return out.getvalue()


def png_changed(content: bytes, rng: random.Random) -> bytes:
    """A PNG with one chunk changed, removed or doubled; its checksums are right."""
    chunks, at = [], 8
    while at + 12 <= len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    number = rng.randrange(len(chunks))
    name, data = chunks[number]
    match rng.randrange(5):
        case 0:
            del chunks[number]
        case 1:
            chunks.insert(rng.randrange(len(chunks)), (name, data))
        case 2 if name == b"IDAT":
            chunks[number] = name, zlib.compress(bytes_changed(zlib.decompress(data), rng))
        case 3:
            kinds = (
                b"iCCP",
                b"zTXt",
                b"tEXt",
                b"PLTE",
                b"tRNS",
                b"eXIf",
                b"acTL",
                b"fcTL",
                b"fdAT",
                b"gAMA",
                b"cHRM",
                b"sBIT",
            )
            chunks.insert(number, (rng.choice(kinds), rng.randbytes(rng.choice((0, 1, 3, 8, 40)))))
        case _:
            chunks[number] = name, bytes_changed(data, rng)
    parts = [struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks]
    return content[:8] + b"".join(parts)


_TOKEN = re.compile(rb"[^\s,\[\]={}]+|\s+|.", re.DOTALL)
WORDS = (
    b"nan",
    b"inf",
    b"-1",
    b"0",
    b"1e999",
    b"99999999999999999999",
    b"9" * 5000,
    b"x",
    b"",
    b"\x00",
    b"\xff",
    b"'",
    b'"',
    b"[",
    b"]",
    b"{",
    b"[" * 3000,
    b"\n",
    b"true",
    b"1979-05-27",
    b"0x10",
    b"1_0",
    b"[[a]]",
    b"a.b.c = 1\n",
    b'"""',
    b"../..",
    b"65535",
    b"2147483648",
    b"0.5",
    b"\xef\xbb\xbf",
    b"#",
    "٣".encode(),
    b"1,2",
    b"~",
    b"list",
    b"element vertex 1\n",
    b"char",
)


def words_changed(content: bytes, rng: random.Random) -> bytes:
    """A text, such as TOML, PLY or rows of numbers, of which words were replaced, removed, doubled or moved."""
    words = _TOKEN.findall(content[:4000])
    for _ in range(rng.choice((1, 1, 2, 4))):
        number = rng.randrange(len(words))
        match rng.randrange(4):
            case 0 | 1:
                words[number] = rng.choice(WORDS)
            case 2:
                words[number : number + 1] = [words[number]] * rng.choice((0, 2, 2, 300))
            case _:
                words[number] = rng.choice(words)
        if not words:
            return b""
    return b"".join(words) + content[4000:]
