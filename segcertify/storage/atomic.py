"""Files that appear whole or not at all: written beside the path under another name, to the disk, then renamed."""

import os
from pathlib import Path

from segcertify.errors import InputError


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, its line ends as they are. Raises `InputError` if that is not possible."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file and the folders above it. Whoever reads the path sees the old content or the new, never a part."""
    path = require_writable(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")  # several processes may write at once
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine may leave the new name with no content
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def remove_stale(folder: Path) -> None:
    """Remove what dead processes, killed in the middle of a write, left in a folder and in the folders right below."""
    for temporary in (*folder.glob(".*.tmp"), *folder.glob("*/.*.tmp")):
        pid = temporary.name.split(".")[-2]
        if pid.isdecimal() and not _is_alive(int(pid)):
            temporary.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
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
    """The path, its folder made, if a file can be written there: call it before long work."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: no permission for its folder")
    return path
