"""A lock on a folder: one process at a time works there.

The lock is the kernel's (``flock``), on the file ``.lock`` in the folder. It ends with the process that holds it,
however that dies, so that a killed run can be resumed at once. The file says who holds the lock, and goes with it.

Most network file systems pass ``flock`` on to other machines, some keep it to one machine, and some refuse it. Where it
is refused, and on systems without it (Windows), nothing is locked. A warning says so, and whoever starts processes must
see that only one works in a folder.
"""

import errno
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from segcertify.errors import InputError
from segcertify.storage.atomic import is_alive, remove_stale, require_writable

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""The name of the file."""
_PATIENCE = 5.0
"""How many seconds a process that has just taken the lock may take to write its number."""
_TRIES = 10
"""How often a folder that others make and remove is made anew."""


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
    try:
        file = _held(path)
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
    finally:
        with suppress(OSError):
            for each in new:
                each.rmdir()


def _held(path: Path) -> int:
    """The open and locked file."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        file, writable = _opened(path)
        try:
            if fcntl is None:
                raise OSError(0, f"{platform.system()} has no flock")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 200).decode(errors="replace").strip()
            os.close(file)
            if _is_seen(holder) or time.monotonic() > give_up:
                raise _in_use(path.parent, holder) from None
            time.sleep(0.005)  # a process has the lock, and is about to write its number
            continue
        except OSError as error:
            if not writable:
                os.close(file)
                raise InputError(f"cannot write {path}: {os.strerror(errno.EACCES)}") from None
            warnings.warn(
                f"{path.parent} cannot be locked ({error.strerror}): see that no other process works there",
                stacklevel=4,
            )
        if _is_at(file, path) and _taken(file, path, writable=writable):
            return file
        os.close(file)  # the path has no file or another one, as a process has just removed it, perhaps this one


def _taken(file: int, path: Path, *, writable: bool) -> bool:
    """Write into a locked file who holds it; one that cannot be written is removed, so that there can be a new one."""
    try:
        if writable:
            _sign(file)
        else:
            path.unlink()  # of a dead process of another user
    except OSError as error:
        with suppress(OSError):
            path.unlink()  # not to be taken for the file of a process that has no number
        os.close(file)
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return writable


def _in_use(folder: Path, holder: str) -> InputError:
    """The refusal."""
    gone = "" if not holder or _is_seen(holder) else ", which has ended and left others that hold it, or runs elsewhere"
    return InputError(
        f"{folder} is in use by process {holder or '(of unknown number)'}{gone}: wait until it ends or stop it, or use "
        "another folder"
    )


def _opened(path: Path) -> tuple[int, bool]:
    """The file, made if need be, and whether it can be written: that of another user is only read.

    Where a process that made the folder removes it again at this moment, as it stayed empty, it is made anew.
    """
    keep = getattr(os, "O_NOFOLLOW", 0)  # no link elsewhere
    for tries_left in reversed(range(_TRIES)):
        try:
            return os.open(require_writable(path), os.O_RDWR | os.O_CREAT | keep, 0o666), True
        except InputError:
            if not tries_left or os.path.isdir(path.parent):
                raise
        except OSError as error:
            if error.errno == errno.EACCES:
                with suppress(OSError):
                    return os.open(path, os.O_RDONLY | keep), False
            if not tries_left or error.errno != errno.ENOENT:
                raise InputError(f"cannot write {path}: {error.strerror}") from None
    raise AssertionError("the last try returns or raises")


def _sign(file: int) -> None:
    """Write who holds the lock."""
    text = f"{os.getpid()} on {platform.node()}".encode()
    os.ftruncate(file, 0)
    while text:
        text = text[os.write(file, text) :]


def _is_seen(holder: str) -> bool:
    """Whether what a lock's file says may be its holder, not one that died before and had the lock until then."""
    number, _, machine = holder.partition(" on ")
    return bool(holder) and (
        machine != platform.node() or not number.isdecimal() or int(number) == os.getpid() or is_alive(int(number))
    )


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
