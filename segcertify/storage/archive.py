"""Single files that hold arrays and a header, with a format, a version and a digest of all of it: safetensors below.

Nothing is unpickled. A file appears whole or not at all. A file of which any part was changed is refused: the digest
finds damage and careless edits, but it is no signature, which would need a secret.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from segcertify.arrays import Array
from segcertify.errors import InputError
from segcertify.storage import atomic, limits
from segcertify.storage.plain_values import loads
from segcertify.storage.reading import readable


@dataclass(frozen=True)
class Content:
    """All that a file holds. ``digest`` is None in files of the versions that had none."""

    format: str
    version: int
    digest: str | None
    header: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def expected_digest(self) -> str:
        """A digest of the format, the version, the header, and each array's name, type, shape and bytes."""
        digest = hashlib.sha256(json.dumps([self.format, self.version, self.header], sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(json.dumps([name, array.dtype.name, array.shape]).encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.hexdigest()


def write(
    path: str | os.PathLike[str], *, kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, Array]
) -> None:
    """Write arrays and a header of plain values to one file, atomically."""
    plain = json.loads(json.dumps(dict(header)))  # as it will be read
    ordered = {name: np.asarray(each, order="C") for name, each in arrays.items()}
    content = Content(f"segcertify.{kind}", version, None, plain, ordered)
    about = {"format": content.format, "version": version, "digest": content.expected_digest, "header": plain}
    metadata = {"segcertify": json.dumps(about)}  # a single entry: the order of several would differ from run to run
    atomic.write_bytes(path, save(ordered, metadata))


Migration = Callable[[dict[str, Any]], dict[str, Any]]
"""From the header of an older version to that of the newest; ``dict`` where only the digest is new."""


def read(
    path: str | os.PathLike[str], *, kind: str, version: int, migrations: Mapping[int, Migration] | None = None,
    most: int = limits.ARCHIVE_BYTES,
) -> tuple[dict[str, Any], dict[str, Array]]:  # fmt: skip
    """The header and the arrays of a file that `write` made, also in the older versions that ``migrations`` has.

    A file of today's ``version`` must have a digest, and one that has a digest must agree with it.
    """
    content = read_content(path, kind, most=most)
    if content.format != f"segcertify.{kind}":
        raise InputError(f"{path} holds {content.format!r}, not segcertify.{kind}")
    migrate = dict if content.version == version else (migrations or {}).get(content.version)
    if migrate is None:
        raise InputError(
            f"{path} has format version {content.version}, but this segcertify reads version {version}: "
            "use the segcertify that wrote it, or make it again"
        )
    if content.version == version and content.digest is None:
        raise InputError(f"{path} has no integrity digest, which files of format version {version} have: {_CHANGED}")
    if content.digest is not None and content.digest != content.expected_digest:
        raise InputError(f"{path} does not agree with its integrity digest: {_CHANGED}")
    return migrate(content.header), content.arrays


_CHANGED = "it was changed or damaged after it was written. Restore it from a copy, or make it again"


def read_content(
    path: str | os.PathLike[str], kind: str = "segcertify", *, most: int = limits.ARCHIVE_BYTES
) -> Content:
    """What a file of any kind and version says that it holds, unchecked. ``kind`` is for errors."""
    path = readable(path, most=most, missing=f"no {kind} file at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except TypeError as error:  # a type, such as bfloat16, that NumPy does not have
        raise InputError(f"{path} is not a file that segcertify wrote: {error}") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is not a {kind} file, or is truncated ({error}): make it again") from None
    try:
        about = _checked_about(metadata["segcertify"])
        return Content(about["format"], int(about["version"]), about.get("digest"), about["header"], arrays)
    except (KeyError, ValueError, TypeError, OverflowError):
        raise InputError(f"{path} is not a file that segcertify wrote: its header is missing or unreadable") from None


def _checked_about(text: str) -> dict[str, Any]:
    """What a file says of itself: its format, version, digest and header. Numbers of a header may be infinite."""
    if len(text) > limits.JSON_BYTES:
        raise InputError(f"its header has more than {limits.JSON_BYTES:,} bytes")
    about = loads(text, finite=False)
    if not isinstance(about["format"], str) or not isinstance(about["header"], dict):
        raise InputError("its format must be a text, and its header values by name")
    return dict(about)


def smallest_integers(array: Array) -> Array:
    """The same integers in the smallest signed type that holds them."""
    largest = int(np.abs(array).max(initial=0))
    return array.astype(next(t for t in (np.int8, np.int16, np.int32, np.int64) if largest <= np.iinfo(t).max))
