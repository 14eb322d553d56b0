"""Small files that ask for much: each is refused, or read, within 5 seconds of the processor and 2 GiB of memory."""

import hashlib
import io
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import segcertify as sc
from segcertify.data import read_input
from segcertify.models import families
from segcertify.models.formats.weights import load_state
from segcertify.records import read_records
from segcertify.report.run import Run
from segcertify.storage import archive
from tests.campaign.findings import Tally
from tests.campaign.given_files import make_huggingface, make_image, make_script, make_weights
from tests.campaign.guard import guarded
from tests.campaign.stored_files import card, make_run, make_votes, read_certificate, read_votes

Bomb = Callable[[Path], Callable[[], object]]
"""Writes a file into a folder; returns what reads it."""


def png(height: int, width: int, bits: int = 1, colour: int = 0) -> bytes:
    """A PNG of one value all over, of any size in a few kilobytes."""
    row = b"\x00" * (1 + (width * bits * (3 if colour == 2 else 1) + 7) // 8)
    compressor, parts = zlib.compressobj(9), []
    for _ in range(height):
        parts.append(compressor.compress(row))
    data = b"".join(parts) + compressor.flush()
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    body = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def picture(name: str, make: Callable[[], bytes], **options: Any) -> Bomb:
    """An image, read as an input and as labels."""

    def bomb(folder: Path) -> Callable[[], object]:
        path = folder / name
        path.write_bytes(make())
        return lambda: read_input(path, classes=3, **options)

    return bomb


def claimed_size(form: str) -> Callable[[], bytes]:
    """A real file of 4 x 5 pixels that claims to have 60,000 x 60,000."""

    def make() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            content = bytearray(make_image(form)(Path(folder)).read_bytes())
        if form == "jpg":
            at = content.index(b"\xff\xc0") + 5
            content[at : at + 4] = struct.pack(">HH", 60000, 60000)
        elif form == "bmp":
            content[18:26] = struct.pack("<ii", 60000, 60000)
        elif form == "gif":
            content[6:10] = struct.pack("<HH", 60000, 60000)
        return bytes(content)

    return make


def scans() -> bytes:
    """A progressive JPEG whose last scan is there 5,000 times, of 4,000 x 4,000 pixels."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("L", (4000, 4000)).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    last = content.rindex(b"\xff\xda")
    return content[:last] + content[last:-2] * 2000 + content[-2:]


def npy(header: str, body: bytes = b"") -> Callable[[], bytes]:
    """A .npy file with any header."""
    text = header.ljust(117).encode() + b"\n"
    return lambda: b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def ply(vertices: str, body: bytes = b"0 0 0\n", form: str = "ascii", more: str = "") -> Callable[[], bytes]:
    """A PLY file that promises vertices."""
    names = "".join(f"property double {name}\n" for name in "xyz")
    header = f"ply\nformat {form} 1.0\nelement vertex {vertices}\n{names}{more}end_header\n"
    return lambda: header.encode() + body


def data_set(name: str, files: dict[str, Callable[[], bytes]], spec: str) -> Bomb:
    """A data set of such files; its first scene is read."""

    def bomb(folder: Path) -> Callable[[], object]:
        for file, make in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(make())
        return lambda: sc.data.load(f"{name}:{folder}?{spec}")[0]

    return bomb


def compressed_zip(make: Callable[[Path], Path], part: str, size: int, read: Callable[[Path], object]) -> Bomb:
    """A zip file of torch in which a part of ``size`` zero bytes is compressed."""

    def bomb(folder: Path) -> Callable[[], object]:
        path = make(folder)
        with zipfile.ZipFile(path) as old:
            parts = {name: old.read(name) for name in old.namelist()}
        with zipfile.ZipFile(path, "w", compresslevel=1) as new:
            for name, content in parts.items():
                if not name.endswith(part):
                    new.writestr(name, content)
                    continue
                large = zipfile.ZipInfo(name)
                large.compress_type = zipfile.ZIP_DEFLATED
                with new.open(large, "w", force_zip64=True) as file:
                    for _ in range(size >> 24):
                        file.write(b"\x00" * (1 << 24))
        return lambda: read(path)

    return bomb


def weights(content: Any) -> Bomb:
    """What torch.save writes of an object."""

    def bomb(folder: Path) -> Callable[[], object]:
        torch.save(content(), folder / "a.pth")
        return lambda: load_state(folder / "a.pth")

    return bomb


class Large:
    """Pickled as a call that makes a large object."""

    def __init__(self, maker: Any, *arguments: Any) -> None:
        self.call = maker, arguments

    def __reduce__(self) -> Any:
        return self.call


def legacy(folder: Path) -> Callable[[], object]:
    """A checkpoint of the old form, of which a storage claims 10^10 numbers."""
    path = make_weights("a.pth", legacy=True)(folder)
    content = path.read_bytes().replace(b"K\x06", b"\x8a\x05" + (10**10).to_bytes(5, "little"))
    path.write_bytes(content)
    return lambda: load_state(path)


def changed_header(make: Callable[[Path], Path], read: Callable[[Path], object], **changed: Any) -> Bomb:
    """An archive whose header has other values, and a right digest."""

    def bomb(folder: Path) -> Callable[[], object]:
        path = make(folder)
        content = archive.read_content(path)
        kind = content.format.removeprefix("segcertify.")
        archive.write(path, kind=kind, version=content.version, header=content.header | changed, arrays=content.arrays)
        return lambda: read(path)

    return bomb


def network(**changed: Any) -> Bomb:
    """A model file whose card asks for a large network."""

    def bomb(folder: Path) -> Callable[[], object]:
        architecture = families.describe(families.new("hrnet?width=1&blocks=1&modules=1,1,1", classes=2)) | changed
        header = card().to_plain() | {"architecture": architecture}
        path = folder / "model.safetensors"
        archive.write(path, kind="model", version=2, header=header, arrays={"a": np.zeros(1, np.float32)})
        return lambda: sc.models.load(f"trained:{path}")

    return bomb


def records(change: Callable[[Path], None]) -> Bomb:
    """A run's folder, changed."""

    def bomb(folder: Path) -> Callable[[], object]:
        run = make_run(folder)
        change(run)
        return lambda: (read_records(run / "records.jsonl"), Run.load(run).table())

    return bomb


def giant_line(run: Path) -> None:
    """A line of 200 MB."""
    with (run / "records.jsonl").open("a") as file:
        for _ in range(200):
            file.write("[" + "0," * 500_000)


def many_classes(run: Path) -> None:
    """Records of a million classes, with right digests."""
    lines, previous = [], ""
    for line in (run / "records.jsonl").read_text().splitlines():
        record = json.loads(line)
        del record["digest"]
        if "confusion" in record:
            record["confusion"]["classes"] = 10**6
        previous = hashlib.sha256((previous + json.dumps(record, sort_keys=True)).encode()).hexdigest()
        lines.append(json.dumps({**record, "digest": previous}))
    (run / "records.jsonl").write_text("\n".join(lines) + "\n")


def deep_config(run: Path) -> None:
    """100,000 lists in each other."""
    (run / "config.json").write_text("[" * 100_000)


def wide_config(run: Path) -> None:
    """60 MB of empty objects."""
    (run / "config.json").write_text("[" + "{}," * 20_000_000 + "{}]")


def huggingface(**changed: Any) -> Bomb:
    """A Hugging Face folder whose configuration asks for a large network."""

    def bomb(folder: Path) -> Callable[[], object]:
        path = make_huggingface("config.json")(folder)
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))
        return lambda: sc.models.load(f"hf:{path.parent}")

    return bomb


def spec(text: str, load: Callable[[str], object]) -> Bomb:
    """A spec."""
    return lambda folder: lambda: load(text)


def new(text: str) -> object:
    """A fresh network."""
    return families.new(text, classes=2)


def text_file(name: str, make: Callable[[], bytes]) -> Bomb:
    """A cloud."""
    return picture(name, make)


def sparse(name: str, read: Callable[[Path], object]) -> Bomb:
    """A file of 100 GB, all of it a hole."""

    def bomb(folder: Path) -> Callable[[], object]:
        with (folder / name).open("wb") as file:
            file.truncate(100 * 10**9)
        return lambda: read(folder / name)

    return bomb


def shapes_list(entries: int) -> Callable[[], bytes]:
    """A list of one shape many times."""
    return lambda: json.dumps(["shape_data/03797390/a"] * entries).encode()


TOML = b'classes = ["a", "b"]\nresize = %s\n'
SCENE = {"images/a.png": lambda: png(2, 2), "labels/a.png": lambda: png(2, 2)}

BOMBS: dict[str, Bomb] = {
    "png of 13,300 x 13,300": picture("a.png", lambda: png(13300, 13300)),
    "png of 8,000 x 6,000, which is read": picture("a.png", lambda: png(8000, 6000, 8, 2)),
    "png of 8,000 x 6,000 upright, resized": picture("a.png", lambda: png(8000, 6000, 8, 2), short_side=5000),
    "png of 1 x 1, resized to 100,000 x 100,000": picture("a.png", lambda: png(1, 1), short_side=100_000),
    "png of 1 x 10,000,000, resized": picture("a.png", lambda: png(1, 10**7), short_side=1000),
    "jpg that claims 60,000 x 60,000": picture("a.jpg", claimed_size("jpg")),
    "bmp that claims 60,000 x 60,000": picture("a.bmp", claimed_size("bmp")),
    "gif that claims 60,000 x 60,000": picture("a.gif", claimed_size("gif")),
    "jpg of 2,000 scans": picture("a.jpg", scans),
    "npy that claims 80 GB": picture("a.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,)}")),
    "npy that claims 3 GB": picture("a.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,)}")),
    "npy of nested brackets": picture("a.npy", npy("(" * 9000)),
    "npy of texts of 2 GB": picture("a.npy", npy("{'descr': '<U500000000', 'fortran_order': False, 'shape': (1,)}")),
    "npy of no numbers, 10^18 times": picture(
        "a.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000000000)}")
    ),
    "ply of 10^18 vertices": picture("a.ply", ply("1" + "0" * 18)),
    "ply of 10^5000 vertices": picture("a.ply", ply("1" + "0" * 5000)),
    "binary ply of 10^12 vertices": picture("a.ply", ply("1" + "0" * 12, form="binary_little_endian")),
    "ply of 30 million empty lines": picture("a.ply", ply("30000000", b"\n" * 30_000_000)),
    "ply of 200,000 properties": picture(
        "a.ply", ply("1", more="".join(f"property char p{i}\n" for i in range(200_000)))
    ),
    "text of 60 million empty lines": text_file("a.txt", lambda: b"\n" * 60_000_000),
    "text of one line of 60 MB": text_file("a.txt", lambda: b"1 " * 30_000_000),
    "text of a million points, which is read": text_file("a.txt", lambda: b"0 1 2\n" * 999_999 + b"1 1 1\n"),
    "text of a number of 60 MB": text_file("a.txt", lambda: b"1" * 60_000_000),
    "toml that resizes to 65,535 x 65,535": data_set(
        "folder", {"dataset.toml": lambda: TOML % b"[65535, 65535]", **SCENE}, ""
    ),
    "toml of 100,000 brackets": data_set("folder", {"dataset.toml": lambda: TOML % (b"[" * 100_000), **SCENE}, ""),
    "toml of a name of 200,000 parts": data_set(
        "folder", {"dataset.toml": lambda: b"a." * 100_000 + b"a = 1", **SCENE}, ""
    ),
    "toml of 10 MB": data_set("folder", {"dataset.toml": lambda: b"a = 1\n" * 1_500_000, **SCENE}, ""),
    "shapenet list of one shape 300,000 times": data_set(
        "shapenet",
        {
            "synsetoffset2category.txt": lambda: b"Mug\t03797390\n",
            "train_test_split/shuffled_test_file_list.json": shapes_list(300_000),
            "03797390/a.txt": lambda: b"0 0 0 0 0 0 36\n1 1 1 0 0 0 36\n",
        },
        "",
    ),
    "clouds of 10^20 points": data_set(
        "clouds",
        {"dataset.toml": lambda: b'classes = ["a"]', "clouds/a.txt": lambda: b"0 0 0 0\n1 1 1 0\n"},
        "points=1" + "0" * 20,
    ),
    "clouds of 10^9 points": data_set(
        "clouds",
        {"dataset.toml": lambda: b'classes = ["a"]', "clouds/a.txt": lambda: b"0 0 0 0\n1 1 1 0\n"},
        "points=1000000000",
    ),
    "pth with 2.5 GiB compressed": compressed_zip(make_weights("a.pth"), "data/0", 5 << 29, load_state),
    "torchscript with 2.5 GiB compressed": compressed_zip(
        make_script, "constants.pkl", 5 << 29, lambda path: sc.models.load(f"torchscript:{path}", trust_code=True)
    ),
    "pth of a bytearray of 8 GB": weights(lambda: {"a": Large(bytearray, 8 << 30)}),
    "pth of a tensor that repeats one number 10^10 times": weights(lambda: {"a": torch.zeros(1).expand(10**10)}),
    "pth of a tensor of nothing, 10^10 times": weights(lambda: {"a": Large(torch.FloatStorage, 10**10)}),
    "legacy pth of 10^10 numbers": legacy,
    "votes of 10^12 draws": changed_header(make_votes, read_votes, n=10**12, draws=[[0, 10**12]], earlier=[]),
    "votes of 10^9 draws": changed_header(make_votes, read_votes, n=10**9, draws=[[0, 10**9]], earlier=[]),
    "card of a width of 10^9": network(width=10**9),
    "card of a width of 10,000": network(width=10_000),
    "card of 10,000 blocks": network(blocks=10_000),
    "card of 10,000 modules": network(modules=[1, 1, 10_000]),
    "records with a line of 200 MB": records(giant_line),
    "records of a million classes": records(many_classes),
    "config of 100,000 brackets": records(deep_config),
    "config of 60 MB": records(wide_config),
    "hf of hidden sizes of 10^6": huggingface(hidden_sizes=[10**6] * 4),
    "hf of hidden sizes of 40,000": huggingface(hidden_sizes=[40_000] * 4),
    "hf of 10^7 layers": huggingface(depths=[10**7] * 4),
    "hf of 10^9 labels": huggingface(num_labels=10**9),
    "spec of a width of 10^9": spec("hrnet?width=1000000000", new),
    "spec of a width of 5,000": spec("hrnet?width=5000", new),
    "spec of 10^6 blocks": spec("hrnet?blocks=1000000", new),
    "spec of 10^6 modules": spec("hrnet?modules=1,1,1000000", new),
    "spec of a lite of a width of 10^9": spec("lite?width=1000000000", new),
    "spec of 10^9 runs": spec("parts?category=Mug&runs=1000000000", sc.models.load),
    "spec of a million options": spec("camvid:a?" + "&".join(f"a{i}=1" for i in range(200_000)), sc.data.load),
    "votes of 100 GB of nothing": sparse("a", read_votes),
    "certificate of 100 GB of nothing": sparse("a", read_certificate),
    "png of 100 GB of nothing": sparse("a.png", read_input),
    "npy of 100 GB of nothing": sparse("a.npy", read_input),
    "ply of 100 GB of nothing": sparse("a.ply", read_input),
    "text of 100 GB of nothing": sparse("a.txt", read_input),
    "pth of 100 GB of nothing": sparse("a.pth", load_state),
    "safetensors of 100 GB of nothing": sparse("a.safetensors", load_state),
    "onnx of 100 GB of nothing": sparse("a.onnx", lambda path: sc.models.load(f"onnx:{path}")),
    "pt2 of 100 GB of nothing": sparse("a.pt2", lambda path: sc.models.load(f"pt2:{path}", trust_code=True)),
    "records of 100 GB of nothing": sparse("a.jsonl", read_records),
    "recipe of 100 GB of nothing": sparse("recipe.json", sc.training.read_recipe),
}
"""Each bomb by name."""

QUICK = tuple(
    name
    for name in BOMBS
    if not name.startswith(("hf", "png of 8,000", "text of a million", "pth with", "torchscript"))
)
"""Those that take little time to make and to refuse, for CI."""


def run(tally: Tally, *, count: int = len(BOMBS), seed: int = 0, names: tuple[str, ...] = tuple(BOMBS)) -> None:
    """Make each bomb, and read it; ``count`` is at most their number, and nothing about them is random."""
    for name in names[:count]:
        with tempfile.TemporaryDirectory() as folder:
            tried = BOMBS[name](Path(folder))
            guarded(tally, lambda number, tried=tried: tried, 1, lambda number, name=name: name)  # type: ignore[misc]
