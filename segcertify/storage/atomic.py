"""Files that appear whole or not at all: written beside the path under another name, to the disk, then renamed."""

import hashlib
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from segcertify.errors import InputError

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.([0-9]{1,19})\.segcertify-tmp")
"""The other name: a digest of the file's name, which may be as long as names can be, and the process that writes."""


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, its line ends as they are. Raises `InputError` if that is not possible."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file and the folders above it. Whoever reads the path sees the old content or the new, never a part."""
    path = require_writable(path)
    temporary = temporary_name(path)
    try:
        temporary.unlink(missing_ok=True)  # of a dead process with this number, or a link that leads elsewhere
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine may leave the new name with no content
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}. What was there before is kept") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def append_text(path: str | os.PathLike[str], text: str) -> None:
    """Add a text to a file, on the disk before this returns. If that fails, the file is as it was."""
    path = require_writable(path)
    try:
        with path.open("ab", buffering=0) as file:
            size, data = os.fstat(file.fileno()).st_size, text.encode("utf-8")
            try:
                while data:
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}. What was there before is kept") from None


def temporary_name(path: Path) -> Path:
    """Where this process writes a file's content first; several processes may write at once."""
    digest = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
    return path.with_name(f".{digest}.{os.getpid()}.segcertify-tmp")


def remove_stale(folder: Path) -> None:
    """Remove what dead processes, killed in the middle of a write, left in a folder and in the folders right below.

    Only plain files with the names of `temporary_name` go; links are neither removed nor followed.
    """
    with suppress(OSError):
        entries = list(os.scandir(folder))
        below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in (*entries, *(inner for each in below for inner in os.scandir(each))):
            named = _TEMPORARY.fullmatch(entry.name)
            if named and entry.is_file(follow_symlinks=False) and not is_alive(int(named[1])):
                os.unlink(entry.path)


def is_alive(pid: int) -> bool:
    """Whether another process has this number; always true where that cannot be asked."""
    if pid == os.getpid():  # of an earlier process with this number
        return False
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def require_writable(path: str | os.PathLike[str]) -> Path:
    """The path, its folder made, if a file can be written there: call it before long work.

    A device or a pipe is refused: the new file would take its place.
    """
    path, found = Path(path), stat.S_IFREG
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            found = stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{str(path)[:200]!r} cannot be a path: it holds a character that no name has") from None
    if found != stat.S_IFREG:
        kind = "a folder" if found == stat.S_IFDIR else "a pipe, a socket or a device, which a file would replace"
        raise InputError(f"cannot write {path}: it is {kind}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission for its folder")
    return path
