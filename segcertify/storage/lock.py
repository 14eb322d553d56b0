"""A lock on a folder: one process at a time works there.

The lock is the kernel's (``flock``), on the file ``.lock`` in the folder. It ends with the process that holds it,
however that dies, so that a killed run can be resumed at once. The file says who holds the lock, and goes with it.

Most network file systems pass ``flock`` on to other machines, some keep it to one machine, and some refuse it. Where it
is refused, and on systems without it (Windows), nothing is locked. A warning says so, and whoever starts processes must
see that only one works in a folder.
"""

import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segcertify.errors import InputError
from segcertify.storage.atomic import remove_stale, require_writable

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""The name of the file."""
_PATIENCE = 5.0
"""How many seconds a process that has just taken the lock may take to write its number."""


@contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder, which is made if need be. Raises `InputError` if another process holds it, and names that process.

    Removes what dead processes left half written there, and at the end the folders that it made, if they stayed empty.
    """
    path = Path(folder) / LOCK
    try:
        new = [each for each in path.parents if not each.exists()]
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    file = _held(require_writable(path))
    try:
        remove_stale(path.parent)
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before it is released: whoever has this file open then finds that it is gone
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)  # also where a child process has inherited it
        os.close(file)
        with suppress(OSError):
            for each in new:
                each.rmdir()


def _held(path: Path) -> int:
    """The open and locked file."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)  # no link elsewhere
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        try:
            if fcntl is None:
                raise OSError(0, f"{platform.system()} has no flock")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 200).decode(errors="replace").strip()
            os.close(file)
            if not holder and time.monotonic() < give_up:  # it has the lock, and is about to write its number
                time.sleep(0.005)
                continue
            raise InputError(
                f"{path.parent} is in use by process {holder or '(of unknown number)'}: wait until it ends or stop it, "
                "or use another folder"
            ) from None
        except OSError as error:
            warnings.warn(
                f"{path.parent} cannot be locked ({error.strerror}): see that no other process works there",
                stacklevel=4,
            )
        if _is_at(file, path):
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()} on {platform.node()}".encode())
            return file
        os.close(file)  # another process has just released and removed it


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
