"""Semantic segmentation models of Hugging Face ``transformers`` (the extra ``hf``): SegFormer, UperNet, Mask2Former,
OneFormer and the like.

From a local folder or by hub id. Weights are safetensors, or pickles that hold nothing but weights; code that comes
with a model is never run. What its image processor would do to colours (rescale, normalise, swap channels) is done
inside the model; resizing is not done: scales are ours (`MultiScale`).
"""

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from segcertify.errors import InputError, require_positive
from segcertify.models.formats.weights import first_line, refused_object
from segcertify.models.formats.zip_files import require_moderate_pickles, require_plain_zip
from segcertify.models.wrappers.adapters import Adapted, Numbers, adapt
from segcertify.models.wrappers.mask_queries import MaskQueries
from segcertify.models.wrappers.reversed import Reversed
from segcertify.storage import limits
from segcertify.storage.plain_values import read_json
from segcertify.storage.reading import is_file, is_folder, readable

PREPROCESSOR = "preprocessor_config.json"
MASK_QUERIES = ("maskformer", "mask2former", "oneformer")
"""The kinds of models that give masks and their classes."""
TASK = "the task is semantic"
GIVE = "give the normalisation, for example ?mean=0.485,0.456,0.406&std=0.229,0.224,0.225"


def load_huggingface(target: str, *, revision: str = "main", mean: Numbers = None, std: Numbers = None) -> Adapted:
    """The model in a folder, or of a hub id such as ``nvidia/segformer-b0-finetuned-cityscapes-1024-1024``.

    ``mean`` and ``std`` replace what `PREPROCESSOR` says.
    """
    model, preprocessor = _fetch(target, revision)
    if mean is not None or std is not None:
        return adapt(model, mean=mean, std=std).eval()
    if not is_file(preprocessor):
        raise InputError(f"hf:{target} has no {PREPROCESSOR}: {GIVE}")
    config = _read(preprocessor, target)
    means, stds = colour_statistics(config, source=f"hf:{target}")
    return adapt(Reversed(model) if config.get("do_flip_channel_order") else model, mean=means, std=stds).eval()


def colour_statistics(config: Mapping[str, Any], *, source: str) -> tuple[list[float], list[float]]:
    """Mean and std on [0, 1] of an image processor's configuration, rescaling included."""
    if not {"do_normalize", "image_mean", "do_flip_channel_order"} & set(config):
        raise InputError(f"{source}: {PREPROCESSOR} does not say how images are normalised: {GIVE}")
    factor = config.get("rescale_factor", 1 / 255) if config.get("do_rescale", True) else 1.0
    unit = 255 * require_positive(f"{source}: rescale_factor", factor)
    if not config.get("do_normalize", "image_mean" in config):
        return [0.0] * 3, [1 / unit] * 3
    lists = []
    for name in ("image_mean", "image_std"):
        value = config.get(name)
        if value is None:
            raise InputError(f"{source}: {PREPROCESSOR} asks to normalise but has no {name}: {GIVE}")
        entries = value if isinstance(value, list) else [value] * 3
        if not all(isinstance(entry, int | float) for entry in entries):
            raise InputError(f"{source}: {name} in {PREPROCESSOR} must be a list of numbers, but is {value!r}")
        lists.append([entry / unit for entry in entries])
    return lists[0], lists[1]


def _fetch(target: str, revision: str) -> tuple[nn.Module, Path]:
    """The model, all of its weights read, and where its image processor's configuration would be."""
    local = is_folder(target)
    if not local and not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", target):
        raise InputError(f"no folder at {target}, and it is no hub id such as openmmlab/upernet-convnext-small")
    library = _transformers()
    if local:
        _require_moderate(Path(target))
    try:
        config = library.AutoConfig.from_pretrained(
            target, revision=revision, local_files_only=local, trust_remote_code=False
        )
        queries = config.model_type in MASK_QUERIES
        auto = library.AutoModelForUniversalSegmentation if queries else library.AutoModelForSemanticSegmentation
        model, report = auto.from_pretrained(
            target, revision=revision, local_files_only=local, trust_remote_code=False, output_loading_info=True
        )
        preprocessor = Path(target, PREPROCESSOR) if local else _download(target, revision)
        task = _task(library, config, target, revision=revision, local=local)
    except Exception as error:
        where = "a folder" if local else "no folder of that name, and not from the hub"
        refused = refused_object(error)
        reason = f"its weights file holds code or objects ({refused}), and none of it was run: use .safetensors"
        raise InputError(f"cannot load hf:{target} ({where}): {reason if refused else first_line(error)}") from error
    missing = sorted(key for key in report["missing_keys"] if not key.endswith("num_batches_tracked"))
    if missing:
        some = f"{len(missing)} weights ({', '.join(missing[:4])})"
        raise InputError(f"hf:{target} lacks {some}: is it a backbone, without a segmentation head?")
    model = model.float().eval()
    return MaskQueries(model, task=task).eval() if queries else model, preprocessor


def _task(library: Any, config: Any, target: str, *, revision: str, local: bool) -> Tensor | None:
    """The tokens that ask OneFormer for semantic segmentation, as its processor makes them; None for other models."""
    if config.model_type != "oneformer":
        return None
    tokenizer = library.AutoTokenizer.from_pretrained(
        target, revision=revision, local_files_only=local, trust_remote_code=False
    )
    length = config.task_seq_len
    tokens = tokenizer(TASK, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
    ids: Tensor = tokens["input_ids"] * tokens["attention_mask"]
    return ids


def _download(target: str, revision: str) -> Path:
    """The image processor's configuration from the hub; a path without a file if the hub has none."""
    hub = importlib.import_module("huggingface_hub")
    try:
        return Path(hub.hf_hub_download(target, PREPROCESSOR, revision=revision))
    except hub.errors.EntryNotFoundError as error:
        if isinstance(error, hub.errors.LocalEntryNotFoundError):  # not reachable, which is not the same as not there
            raise
        return Path(PREPROCESSOR, "missing")


def _transformers() -> Any:
    try:
        module = importlib.import_module("transformers")
        module.AutoModelForSemanticSegmentation  # noqa: B018  (loaded on first use, with torch)
    except (ImportError, AttributeError):
        raise InputError("hf:DIR-OR-ID needs transformers: pip install 'segcertify[hf]'") from None
    return module


def _read(path: Path, target: str) -> dict[str, Any]:
    """The image processor's configuration."""
    try:
        return read_json(path, cure="fetch the model again")
    except InputError as error:
        raise InputError(f"hf:{target}: cannot read {PREPROCESSOR}: {first_line(error)}") from None


def _require_moderate(folder: Path) -> None:
    """Refuse files that are too large or compressed, and a configuration that asks for too large a network."""
    for file in sorted(folder.iterdir()):
        if file.suffix in (".bin", ".safetensors", ".json"):
            readable(file, most=limits.JSON_BYTES if file.suffix == ".json" else limits.MODEL_BYTES)
        if file.suffix == ".bin":
            require_plain_zip(file)
            require_moderate_pickles(file)
    config = folder / "config.json"
    missing = f"cannot load hf:{folder} (a folder): it has no config.json"
    waiting = [("", read_json(config, missing=missing, cure="fetch the model again"))]
    while waiting:
        name, value = waiting.pop()
        most = limits.LAYERS if re.search(r"depth|layer|block|stage", name) else limits.WIDTH
        if isinstance(value, int | float) and abs(value) > most:
            raise InputError(f"{config}: {name} is {value!r:.40}, but at most {most:,} is accepted: is it damaged?")
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            if len(value) > limits.CLASSES:
                raise InputError(
                    f"{config}: {name} has {len(value):,} entries, but at most {limits.CLASSES:,} are read"
                )
            waiting += ((name, each) for each in value)
