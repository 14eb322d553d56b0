"""The zip files in which torch keeps weights and programs, checked before torch reads them."""

import pickletools
import zipfile
import zlib
from pathlib import Path

from segcertify.errors import InputError

_MAKERS = (b"bytearray\n",)
"""What a pickle may name, by the rules of a weights-only load, that makes gigabytes out of one number."""


COMPRESSED = 64 * 2**20
"""Bytes that the compressed parts of a zip file may have together: TorchScript compresses its code."""


def require_plain_zip(file: Path) -> None:
    """Refuse a zip file whose parts overlap or are far larger than the file: a few bytes of it could become gigabytes.

    A file that is no zip file is left to whoever reads it.
    """
    try:
        if not zipfile.is_zipfile(file):
            return
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, OverflowError) as error:
        raise InputError(f"cannot read {file}: a damaged zip file ({error!s:.200})") from None
    stored = sum(part.file_size for part in parts if part.compress_type == zipfile.ZIP_STORED)
    compressed = sum(part.file_size for part in parts) - stored
    if stored > file.stat().st_size or compressed > COMPRESSED:
        raise InputError(f"cannot read {file}: it holds overlapping or too much compressed content: save it anew")


def require_whole_pickles(file: Path) -> None:
    """Refuse a zip file of whose pickles one is cut, or names more bytes than it has: torch's own reader takes them.

    The pickles are only looked through, operation by operation; nothing is made of them.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            for part in archive.infolist():
                if part.filename.endswith(".pkl"):
                    for _ in pickletools.genops(archive.read(part)):
                        pass
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"cannot read {file}: a damaged zip file or pickle ({error!s:.200})") from None


def require_moderate_pickles(file: Path) -> None:
    """Refuse a file of weights whose pickle names a maker of large objects; no state dict does."""
    with file.open("rb") as content:
        rest = b""
        while block := content.read(1 << 24):
            found = rest + block
            for maker in _MAKERS:
                if b"cbuiltins\n" + maker in found or b"c__builtin__\n" + maker in found:
                    name = maker.decode().strip()
                    raise InputError(
                        f"cannot read {file}: its pickle makes a {name}, which no weights are: save it anew"
                    )
            rest = block[-40:]
