"""The parts of a ``torch.export`` archive (.pt2), checked before torch sees any of them."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from segcertify.errors import InputError
from segcertify.models.formats.pt2_grammar import checked_program
from segcertify.storage.plain_values import loads

EXECUTABLE = ("aotinductor/", "constants/custom_obj_", "constants/opaque_obj_")
"""Parts of an archive that hold compiled libraries or pickled objects."""
_PART = re.compile(
    r"([^/]+/)?(archive_format|archive_version|byteorder|version|\.data/\w+|\.format_version|\.storage_alignment"
    r"|(?P<program>models/\w+\.json|serialized_exported_program\.json)"
    r"|(?P<config>data/(weights/\w+_weights_config|constants/\w+_constants_config)\.json)"
    r"|data/weights/(weight_\d+|\w+\.pt)|data/constants/(tensor_\d+|\w+\.pt)|data/sample_inputs/\w+\.pt"
    r"|serialized_(state_dict|constants|example_inputs)\.pt|extra(_files)?/[\w./-]+)",
    re.ASCII,
)
_PAYLOAD = re.compile(r"(weight|tensor)_\d+", re.ASCII)


def checked_archive(file: Path) -> io.BytesIO:
    """A copy, in memory, of an archive in which every part is known and every text of its programs was checked.

    Torch reads the copy: it has another reader of zip files, and could find other parts in the file itself. Raises
    `InputError` if a part or a text is refused.
    """
    copy, seen = io.BytesIO(), set[str]()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as clean:
        if sum(part.file_size for part in archive.infolist()) > file.stat().st_size:
            raise InputError(
                f"cannot read {file} as a .pt2 archive: it holds compressed or overlapping parts: export anew"
            )
        for part in archive.infolist():
            name = part.filename
            if any(each in name.lower() for each in EXECUTABLE):
                raise InputError(f"{file} holds compiled code or pickled objects ({name}), never loaded: export anew")
            known = _PART.fullmatch(name)
            if not known or name.lower() in seen:
                why = f"it holds {name!r}, which is no part of a program or is there twice"
                raise InputError(f"cannot read {file} as a .pt2 archive: {why}: export anew")
            seen.add(name.lower())
            clean.writestr(zipfile.ZipInfo(name), _checked_part(archive.read(part), known, file))
    copy.seek(0)
    return copy


def _checked_part(content: bytes, name: re.Match[str], file: Path) -> bytes:
    """What a part holds; programs and lists of weights are read, checked and written anew."""
    if not name["program"] and not name["config"]:
        return content
    try:
        value = loads(content, finite=False)
        if not isinstance(value, dict):
            raise InputError(f"{name[0]} must hold an object, but holds {type(value).__name__}")
        return json.dumps(checked_program(value) if name["program"] else _checked_config(value)).encode()
    except InputError as error:
        raise InputError(f"{file} is refused: {error}") from None


def _checked_config(value: dict[str, Any]) -> dict[str, Any]:
    """A list of weights, in which no part can be an object to unpickle."""
    for each in value["config"].values():
        if not isinstance(each["path_name"], str) or not _PAYLOAD.fullmatch(each["path_name"]):
            raise InputError(f"a weight lies in {each['path_name']!r}, but must lie in weight_0, tensor_0 or the like")
    checked_program(value)
    return value
