"""The files that others make, as subjects of the campaign: images, clouds, data sets, networks, and specs."""

import json
import random
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import signature
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import segcertify as sc
from segcertify.data import read_input, read_label
from segcertify.models.formats.weights import load_state, set_weights
from segcertify.models.networks import hrnet, pointnet2
from segcertify.models.saved import read_weights
from segcertify.noise import parse
from tests.campaign.mutations import (
    WORDS,
    Mutation,
    bytes_changed,
    json_changed,
    png_changed,
    safetensors_changed,
    words_changed,
    zip_changed,
)
from tests.campaign.stored_files import Tiny, model
from tests.campaign.subjects import Subject

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))
import trees

TEXT = (bytes_changed, words_changed, words_changed)


def make_image(form: str, mode: str = "RGB", **options: object) -> Callable[[Path], Path]:
    """A picture of 4 x 5 pixels."""

    def make(folder: Path) -> Path:
        pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4
        image = Image.fromarray(pixels)
        if mode == "I;16":
            image = Image.fromarray(pixels[..., 0].astype(np.uint16))
        elif mode != "RGB":
            image = image.convert(mode)
        exif = Image.Exif()
        exif[274] = 6
        if form in ("jpg", "png", "webp", "tiff") and mode == "RGB":
            options["exif"] = exif
        image.save(folder / f"a.{form}", **options)
        return folder / f"a.{form}"

    return make


def read_picture(path: Path) -> object:
    image = partial(read_input, classes=3)
    readers = (image, read_label, partial(image, short_side=3), lambda path: image(path, label=path))
    refused = []
    for read in readers:
        try:
            read(path)
        except sc.InputError as error:
            refused.append(error)
    if len(refused) == len(readers):
        raise refused[0]
    return None


def make_npy(folder: Path) -> Path:
    np.save(folder / "a.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    return folder / "a.npy"


def read_array(path: Path) -> object:
    for cloud in (False, True):
        read_input(path, cloud=cloud)
    return None


PLY = b"""ply
format %s 1.0
comment made here
element vertex 3
property float x
property float y
property double z
property uchar label
element face 0
property list uchar int vertex_indices
end_header
"""


def make_ply(form: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        kinds = [("x", "f4"), ("y", "f4"), ("z", "f8"), ("label", "u1")]
        rows = np.array([(0, 1, 2, 0), (3, 4, 5, 1), (6, 7, 9, 1)], kinds)
        rows = rows if "big" not in form else rows.astype([(name, f">{kind}") for name, kind in kinds])
        body = b"0 1 2 0\n3 4 5 1\n6 7 9 1\n" if form == "ascii" else rows.tobytes()
        (folder / "a.ply").write_bytes(PLY % form.encode() + body)
        return folder / "a.ply"

    return make


def make_rows(folder: Path) -> Path:
    (folder / "a.txt").write_text("0 1 2 0 0 1 0\n3 4 5 0 1 0 1\n\n# a comment\n6 7 9 1 0 0 1\n")
    return folder / "a.txt"


def read_points(path: Path) -> object:
    read_input(path)
    return read_input(path, ignore=255, classes=3)


def in_tree(make: Callable[[Path], Path], name: str) -> Callable[[Path], Path]:
    """One file of a data set."""
    return lambda folder: make(folder / "data") / name


def read_data(spec: str, up: int = 1) -> Callable[[Path], object]:
    """A data set, its first scene, and all its checks."""

    def read(path: Path) -> object:
        scheme, _, options = spec.partition("?")
        data = sc.data.load(f"{scheme}:{path.parents[up - 1]}?{options}")
        data.check()
        return repr(data), data[0]

    return read


def pascal(root: Path) -> Path:
    trees.pascal_context(root)
    return trees.pascal_in_detail(root, {"2008_000002": "train", "2008_000008": "val"})


VOC = "VOCdevkit/VOC2010"


def make_weights(name: str, *, legacy: bool = False) -> Callable[[Path], Path]:
    """A checkpoint as training code writes it, with more than weights in it."""

    def make(folder: Path) -> Path:
        weights = {f"module.{key}": value for key, value in model().state_dict().items()}
        content = {
            "state_dict": weights,
            "epoch": 3,
            "best": np.float64(0.5),
            "loss": torch.tensor(0.5),
            "names": ["a", b"b", (1, 2.5, None)],
        }
        torch.save(content, folder / name, _use_new_zipfile_serialization=not legacy)
        return folder / name

    return make


def read_checkpoint_weights(path: Path) -> object:
    found = load_state(path)
    for infer in (hrnet.infer, pointnet2.infer):
        with suppress(sc.InputError):
            infer(found.tensors)
    network = Tiny()
    set_weights(network, found)
    return network


def make_plain_weights(folder: Path) -> Path:
    from safetensors.torch import save_file

    save_file({key: value.contiguous() for key, value in model().state_dict().items()}, folder / "a.safetensors")
    return folder / "a.safetensors"


def make_program(folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = ({0: torch.export.Dim("batch")},)
        torch.export.save(
            torch.export.export(Plain().eval(), (torch.rand(2, 3, 4, 4),), dynamic_shapes=shapes), folder / "a.pt2"
        )
    return folder / "a.pt2"


class Plain(torch.nn.Module):
    """One layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 1)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.layer(batch)


def make_script(folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Plain().eval()).save(str(folder / "a.ts"))
    return folder / "a.ts"


def make_onnx(folder: Path) -> Path:
    from onnx import TensorProto, helper, numpy_helper, save

    weight = numpy_helper.from_array(np.ones((2, 3, 1, 1), np.float32), "w")
    sides = ["batch", 3, 4, 4]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, sides)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2, 4, 4])],
        [weight],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "a.onnx"))
    return folder / "a.onnx"


def read_model_spec(scheme: str) -> Callable[[Path], object]:
    asks = "trust_code" in signature(sc.models.load).parameters  # older code does not
    return lambda path: sc.models.load(f"{scheme}:{path}", **({"trust_code": True} if asks else {}))


def make_huggingface(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import transformers

        sizes = {"hidden_sizes": [4] * 4, "depths": [1] * 4, "num_attention_heads": [1] * 4, "decoder_hidden_size": 4}
        network = transformers.SegformerForSemanticSegmentation(transformers.SegformerConfig(num_labels=2, **sizes))
        network.save_pretrained(folder / "hf")
        processor = {
            "do_normalize": True,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
        }
        (folder / "hf" / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder / "hf" / name

    return make


def read_huggingface(path: Path) -> object:
    return sc.models.load(f"hf:{path.parent}")


SPECS = (
    "camvid:data?split=train+val&only=a*,b&without=c",
    "shapes:?count=2&points=6&category=Mug,Bag&normals=true&seed=2021",
    "clouds:data?points=100&normals=false",
    "shapenet:data?points=all&category=Chair&available=true&split=test",
    "pascal-context:data?order=json",
    "folder:data?split=val",
    "gaussian?channels=0,1,2&axis=1",
    "rotation:1,1,0",
    "rotation:z?vectors=1",
    "laplace",
    "uniform",
    "hrnet:a.pth?width=48&classes=19&scale=0.25",
    "hrnet?width=18&blocks=2",
    "trained:a.safetensors?category=Chair&runs=3",
    "onnx:a.onnx?output=y&mean=0.5,0.5,0.5&std=1,1,1",
    "hf:folder?revision=x",
    "pt2:a.pt2?output=0",
    "torchscript:a.ts?output=-1",
    "python:os:getcwd?weights=a",
    "lite?width=8&stride=16",
    "pointnet2?normals=false",
    "pointnet2:a.pth?category=Mug&runs=1",
    "parts?category=Mug",
    "parts?scale=multi&base_size=520",
)


def make_spec(folder: Path) -> Path:
    """Specs are texts, not files: a file of them, a line each, of which one is taken."""
    (folder / "specs").write_text("\n".join(SPECS))
    return folder / "specs"


SPEC_WORDS = (b"1e9", b"1" + b"0" * 20, b"-5", b"%00", b"%", b"&", b"?", b":", b"+")


def spec_changed(content: bytes, rng: random.Random) -> bytes:
    """One of the specs, with words replaced."""
    spec = rng.choice(content.split(b"\n"))
    parts = re.findall(rb"[\w.]+|.", spec, re.DOTALL)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        parts[rng.randrange(len(parts))] = rng.choice(
            (*WORDS, b"1e9", b"1" + b"0" * 20, b"-5", b"%00", b"%", b"&", b"?", b":", b"+")
        )
    return b"".join(parts)


def read_spec(path: Path) -> object:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    if text.count("\n") > 10:
        return None
    readers = (
        sc.data.load,
        sc.models.load,
        lambda text: parse(text)(0.25),
        lambda text: sc.models.families.new(text, classes=2),
    )
    for read in readers:
        with suppress(sc.InputError):
            read(text)
    return None


IMAGES: tuple[tuple[str, str, Mutation | None, int], ...] = (
    ("png", "RGB", png_changed, 40),
    ("png", "P", png_changed, 20),
    ("png", "L", png_changed, 20),
    ("png", "1", png_changed, 10),
    ("png", "I;16", png_changed, 10),
    ("jpg", "RGB", None, 40),
    ("bmp", "RGB", None, 20),
    ("bmp", "P", None, 10),
    ("tiff", "RGB", None, 30),
    ("tiff", "L", None, 10),
    ("gif", "P", None, 20),
    ("webp", "RGB", None, 20),
    ("ppm", "RGB", words_changed, 10),
    ("jp2", "RGB", None, 10),
)

GIVEN = (
    *(
        Subject(
            f"{form} {mode}",
            make_image(form, mode),
            read_picture,
            (bytes_changed, *([more] if more else [])),
            share=share,
        )
        for form, mode, more, share in IMAGES
    ),
    Subject(
        "tiff deflate", make_image("tiff", compression="tiff_adobe_deflate"), read_picture, (bytes_changed,), share=20
    ),
    Subject("jpg progressive", make_image("jpg", progressive=True), read_picture, (bytes_changed,), share=10),
    Subject("npy", make_npy, read_array, TEXT, share=60),
    *(
        Subject(f"ply {form}", make_ply(form), read_points, TEXT, share=25)
        for form in ("ascii", "binary_little_endian", "binary_big_endian")
    ),
    Subject("cloud text", make_rows, read_points, TEXT, share=40),
    Subject("images toml", in_tree(trees.folder, "dataset.toml"), read_data("folder"), TEXT, share=60),
    Subject("clouds toml", in_tree(trees.clouds, "dataset.toml"), read_data("clouds"), TEXT, share=60),
    Subject(
        "shapenet synsets", in_tree(trees.shapenet, "synsetoffset2category.txt"), read_data("shapenet"), TEXT, share=10
    ),
    Subject(
        "shapenet list",
        in_tree(trees.shapenet, "train_test_split/shuffled_test_file_list.json"),
        read_data("shapenet", 2),
        (bytes_changed, json_changed),
        share=30,
    ),
    Subject(
        "pascal list",
        in_tree(pascal, f"{VOC}/ImageSets/SegmentationContext/val.txt"),
        read_data("pascal-context", 3),
        TEXT,
        share=10,
    ),
    Subject(
        "pascal details",
        in_tree(pascal, f"{VOC}/trainval_merged.json"),
        read_data("pascal-context?order=json"),
        (bytes_changed, json_changed),
        share=30,
    ),
    Subject("pth", make_weights("a.pth"), read_checkpoint_weights, (bytes_changed, zip_changed), share=40),
    Subject("pth legacy", make_weights("a.pth", legacy=True), read_checkpoint_weights, (bytes_changed,), share=40),
    Subject(
        "safetensors",
        make_plain_weights,
        lambda path: (read_weights(path), read_checkpoint_weights(path)),
        (bytes_changed, safetensors_changed),
        share=40,
    ),
    Subject("torchscript", make_script, read_model_spec("torchscript"), (bytes_changed, zip_changed), share=15),
    Subject("pt2", make_program, read_model_spec("pt2"), (bytes_changed, zip_changed, zip_changed), share=6),
    Subject("onnx", make_onnx, read_model_spec("onnx"), (bytes_changed,), share=15),
    Subject("hf config", make_huggingface("config.json"), read_huggingface, (bytes_changed, json_changed), share=3),
    Subject("hf processor", make_huggingface("preprocessor_config.json"), read_huggingface, (json_changed,), share=2),
    Subject(
        "hf weights",
        make_huggingface("model.safetensors"),
        read_huggingface,
        (bytes_changed, safetensors_changed),
        share=2,
    ),
    Subject("specs", make_spec, read_spec, (spec_changed,), share=60),
)
"""The kinds of files that others make, and specs."""
