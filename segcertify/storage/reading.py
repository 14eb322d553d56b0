"""Paths and texts: the one place where files that a user names are looked at and opened.

A link to a file is followed. Whatever else could stop or flood a program is refused at once with `InputError`: a loop
of links, a pipe, a device, a folder, a path that is too long or holds a NUL, a file that is too large or not readable.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from segcertify.errors import InputError
from segcertify.storage import limits

FilePath = str | os.PathLike[str]

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_WHY = {
    errno.ELOOP: "it is a loop of links: remove them",
    errno.ENAMETOOLONG: "its name is too long: shorten it",
    errno.EACCES: "there is no permission for one of its folders: change that, or copy it elsewhere",
}


def readable(path: FilePath, *, most: int, missing: str = "") -> Path:
    """The path of a file of at most ``most`` bytes. ``missing`` is the error's text where there is none."""
    found = _status(path)
    if found is None:
        raise InputError(missing or f"no file at {path}")
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, a socket or a device"
        raise InputError(f"{missing or f'no file at {path}'} (it is {kind})")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {path}: there is no permission to read it")
    if found.st_size > most:
        raise InputError(f"{path} has {found.st_size:,} bytes, but at most {most:,} are read: is it the right file?")
    return Path(path)


def is_there(path: FilePath) -> bool:
    """Whether there is a file, a folder or whatever else. Raises `InputError` if that cannot be found out."""
    return _status(path) is not None


def is_folder(path: FilePath) -> bool:
    """Whether there is a folder. Raises `InputError` if that cannot be found out."""
    found = _status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: FilePath) -> bool:
    """Whether there is a file that can be read. Raises `InputError` if that cannot be found out."""
    found = _status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def expanded(path: FilePath) -> Path:
    """The path, in which a first part ``~`` or ``~NAME`` stands for a user's folder."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):
        raise InputError(f"{str(path)[:200]!r} names a user without a folder here: write the whole path") from None


def read_bytes(path: FilePath, *, most: int, missing: str = "") -> bytes:
    """What is in a file of at most ``most`` bytes."""
    file = readable(path, most=most, missing=missing)
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def read_text(path: FilePath, *, most: int = limits.TEXT_BYTES, missing: str = "", cure: str = "") -> str:
    """The text in a file, in UTF-8. ``cure`` says what to do with a file that holds something else."""
    content = read_bytes(path, most=most, missing=missing)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is no UTF-8"
        raise InputError(f"{path} is not a text ({where}): {cure or 'is it the right file?'}") from None


def read_lines(path: FilePath, *, missing: str = "", cure: str = "") -> list[str]:
    """The lines of a text file, as many as `limits.TEXT_LINES`."""
    text = read_text(path, missing=missing, cure=cure)
    require_lines(path, text.count("\n"))
    return text.split("\n")


def require_lines(path: FilePath, count: int) -> None:
    """Refuse a text of too many lines."""
    if count > limits.TEXT_LINES:
        raise InputError(f"{path} has {count:,} lines, but at most {limits.TEXT_LINES:,} are read: is it a text file?")


def long_lines(path: FilePath, *, most: int, missing: str = "") -> Iterator[bytes]:
    """The lines of a file of any size, one at a time, each of at most ``most`` bytes; the last may have no end."""
    file = readable(path, most=2**63, missing=missing)
    with file.open("rb") as lines:
        number = 0
        while line := lines.readline(most + 1):
            number += 1
            if len(line) > most:
                raise InputError(f"{path}, line {number}, has more than {most:,} bytes: is it the right file?")
            yield line


def _status(path: FilePath) -> os.stat_result | None:
    """What is at a path, links followed; None if nothing is."""
    try:
        return os.stat(path)
    except ValueError:  # a NUL, or a character that no file name can have
        raise InputError(f"{str(path)[:200]!r} cannot be a path: it holds a character that no name has") from None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        shown = str(path) if len(str(path)) <= 300 else f"{str(path)[:200]}..."
        raise InputError(f"cannot read {shown}: {_WHY.get(error.errno or 0, error.strerror)}") from None
