"""One process at a time works in a folder; what a dead one left does no harm."""

import errno
import os
import platform
import signal
import subprocess
import sys
import threading

import pytest
from holder import holder

from segcertify.errors import InputError
from segcertify.storage import lock
from segcertify.storage.lock import LOCK, locked


def test_a_second_process_is_refused_with_the_holders_pid(tmp_path):
    with holder(tmp_path) as process:
        for _ in range(2):
            with (
                pytest.raises(InputError, match=rf"{tmp_path} is in use by process {process.pid} on .*: wait until it"),
                locked(tmp_path),
            ):
                pytest.fail("both hold it")
    with locked(tmp_path):
        assert os.listdir(tmp_path) == [LOCK]
    assert os.listdir(tmp_path) == []


def test_a_killed_holders_folder_is_taken_over(tmp_path):
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / LOCK).read_text().startswith(f"{process.pid} on ")  # it could not tidy up
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text().startswith(f"{os.getpid()} on ")


def test_many_processes_never_hold_it_together(tmp_path):
    """Six processes take and release the folder for a second; each sees itself alone whenever it has it."""
    code = """
import os, sys, time
from segcertify.errors import InputError
from segcertify.storage.lock import locked
folder, inside, times = sys.argv[1], sys.argv[1] + "/inside", 0
end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        with locked(folder):
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            os.unlink(inside)
            times += 1
    except InputError as error:
        assert "is in use by process" in str(error), error
print(times)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    times = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    assert sum(times) > 10


def test_a_file_that_its_holder_has_just_removed_is_no_lock(tmp_path, monkeypatch):
    """The holder lets go between the moments when another process opens the file and locks it."""
    real, removed = lock.fcntl.flock, []

    def late(file, operation):
        if not removed:
            removed.append((tmp_path / LOCK).unlink())
        real(file, operation)

    monkeypatch.setattr(lock.fcntl, "flock", late)
    with locked(tmp_path), pytest.raises(InputError, match="is in use by process"), locked(tmp_path):
        pytest.fail("both hold it")


def test_another_thread_is_refused(tmp_path):
    found = []

    def work():
        try:
            with locked(tmp_path):
                found.append("held")
        except InputError as error:
            found.append(str(error))

    with locked(tmp_path):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert f"in use by process {os.getpid()} on" in found[0]


def test_a_holder_that_has_not_written_its_number_yet_is_waited_for(tmp_path, monkeypatch):
    """A process takes the lock, and only later writes who it is: whoever comes in between still names it."""
    with open(tmp_path / LOCK, "w") as file:
        lock.fcntl.flock(file, lock.fcntl.LOCK_EX)
        late = threading.Timer(0.3, lambda: (file.write("4321 on a machine"), file.flush()))
        late.start()
        with pytest.raises(InputError, match="is in use by process 4321 on a machine: wait until"), locked(tmp_path):
            pytest.fail("both hold it")
        late.join()
        os.truncate(file.fileno(), 0)
        monkeypatch.setattr(lock, "_PATIENCE", 0.05)
        with pytest.raises(InputError, match=r"in use by process \(of unknown number\)"), locked(tmp_path):
            pytest.fail("both hold it")


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_dead_holders_number_is_not_taken_for_the_new_holders(tmp_path, dead):
    """A process takes the lock of one that was killed, and its number stays in the file until the new one is there."""
    with open(tmp_path / LOCK, "w") as file:
        file.write(f"{dead} on {platform.node()}")
        file.flush()
        lock.fcntl.flock(file, lock.fcntl.LOCK_EX)
        late = threading.Timer(0.3, lambda: (file.seek(0), file.write(f"{os.getppid()} on here"), file.truncate()))
        late.start()
        with pytest.raises(InputError, match=rf"is in use by process {os.getppid()} on here: "), locked(tmp_path):
            pytest.fail("both hold it")
        late.join()


def test_a_lock_that_outlives_the_process_that_took_it_is_told(tmp_path, dead, monkeypatch):
    """A child that has inherited it, or a process that is not seen from here, has a lock with a dead number."""
    monkeypatch.setattr(lock, "_PATIENCE", 0.05)
    with open(tmp_path / LOCK, "w") as file:
        file.write(f"{dead} on {platform.node()}")
        file.flush()
        lock.fcntl.flock(file, lock.fcntl.LOCK_EX)
        with (
            pytest.raises(InputError, match=rf"is in use by process {dead} on .*, which has ended and left others"),
            locked(tmp_path),
        ):
            pytest.fail("both hold it")


@pytest.fixture
def another_users(tmp_path, dead, monkeypatch):
    """A folder that all may write, with a lock's file that another user made: it can be read and removed."""
    file, real = tmp_path / LOCK, os.open
    file.write_text(f"{dead} on a machine")

    def refuse(path, flags, mode=0o777):
        if flags & os.O_RDWR and path == file and file.exists() and file.stat().st_size == len(f"{dead} on a machine"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, mode)

    monkeypatch.setattr(lock.os, "open", refuse)
    return tmp_path


def test_another_users_lock_is_respected(another_users, dead):
    with open(another_users / LOCK) as file:
        lock.fcntl.flock(file, lock.fcntl.LOCK_EX)
        with pytest.raises(InputError, match=f"is in use by process {dead} on a machine"), locked(another_users):
            pytest.fail("both hold it")
    assert (another_users / LOCK).exists()


def test_a_dead_process_of_another_user_is_followed(another_users):
    with locked(another_users):
        assert (another_users / LOCK).read_text().startswith(f"{os.getpid()} on ")
    assert os.listdir(another_users) == []


def test_another_users_file_stays_where_it_cannot_be_locked_or_removed(another_users, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.EBADF, "Bad file descriptor")

    with monkeypatch.context() as patched:
        patched.setattr(type(another_users), "unlink", lambda path: refuse(path, None))
        with pytest.raises(InputError, match=r"cannot write .*\.lock: Bad file"), locked(another_users):
            pytest.fail("it is not held")
    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with pytest.raises(InputError, match=r"cannot write .*\.lock: Permission denied"), locked(another_users):
        pytest.fail("it is not held")
    assert (another_users / LOCK).exists()


def test_a_number_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    """On a full disk: not the lock either, for a process that goes on would else hold it without a number."""
    real = os.write

    def full(file, text):
        if len(text) < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, text[:2])

    monkeypatch.setattr(lock.os, "write", full)
    folder = tmp_path / "new" / "run"
    with pytest.raises(InputError, match=r"cannot write .*: No space left"), locked(folder):
        pytest.fail("it is not held")
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    with locked(folder):
        assert (folder / LOCK).read_text() == f"{os.getpid()} on {platform.node()}"


def test_a_number_is_written_whole(tmp_path, monkeypatch):
    """The system may take less of a write than it is given."""
    real = os.write
    monkeypatch.setattr(lock.os, "write", lambda file, text: real(file, text[:2]))
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()} on {platform.node()}"


@pytest.mark.parametrize("moment", ["made", "opened"])
def test_a_folder_that_its_maker_has_just_removed_is_made_again(tmp_path, monkeypatch, moment):
    """Another process made the folder too, found no use for it, and removes it between two steps of this one."""
    folder, removed, access, open_file = tmp_path / "run", [], os.access, os.open

    def late(real):
        def call(path, *arguments):
            if not removed:
                removed.append(folder.rmdir())
            return real(path, *arguments)

        return call

    name, real = ("access", access) if moment == "made" else ("open", open_file)
    monkeypatch.setattr(os, name, late(real))
    with locked(folder):
        assert os.listdir(folder) == [LOCK]
    assert len(removed) == 1


def test_a_folder_that_is_released_while_its_holder_is_waited_for_is_taken(tmp_path):
    with open(tmp_path / LOCK, "w") as file:
        lock.fcntl.flock(file, lock.fcntl.LOCK_EX)
        release = threading.Timer(0.2, lambda: lock.fcntl.flock(file, lock.fcntl.LOCK_UN))
        release.start()
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_text().startswith(f"{os.getpid()} on ")
        release.join()


def test_a_folder_is_made_and_left_only_with_content(tmp_path):
    def work(name, fail):
        with locked(tmp_path / name):
            if fail:
                raise ValueError("failed")
            (tmp_path / name / "file").write_text("")

    with pytest.raises(ValueError, match="failed"):
        work("failed", fail=True)
    with pytest.raises(ValueError, match="failed"):
        work("failed/below", fail=True)
    work("worked", fail=False)
    assert os.listdir(tmp_path) == ["worked"]
    assert os.listdir(tmp_path / "worked") == ["file"]


def test_what_dead_processes_left_half_written_is_removed(tmp_path, dead):
    (tmp_path / "votes").mkdir()
    digest, end = "0123456789abcdef", "segcertify-tmp"
    alive, foreign = f".{digest}.{os.getppid()}.{end}", [".a.tmp", f".a.{dead}.tmp", f".a.{dead}.{end}"]
    kept = [alive, *foreign, f"{digest}.{dead}.{end}", f".{digest}.{dead}.{end}.png", "config.json"]
    gone = [f".{digest}.{dead}.{end}", f"votes/.{digest}.{dead}.{end}", f".{digest}.{os.getpid()}.{end}"]
    for name in kept + gone:
        (tmp_path / name).write_text("")
    with locked(tmp_path):
        assert sorted(os.listdir(tmp_path)) == sorted([*kept, "votes", LOCK])
        assert os.listdir(tmp_path / "votes") == []


def test_links_are_neither_removed_nor_followed(tmp_path, dead):
    name, elsewhere, folder = f".0123456789abcdef.{dead}.segcertify-tmp", tmp_path / "elsewhere", tmp_path / "run"
    for each in (elsewhere, folder):
        each.mkdir()
    (elsewhere / name).write_text("")
    (folder / "below").symlink_to(elsewhere)
    (folder / name).symlink_to(elsewhere / name)
    with locked(folder):
        pass
    assert (elsewhere / name).is_file()
    assert (folder / name).is_symlink()


def test_where_nothing_can_be_locked_a_warning_says_so(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with (
        pytest.warns(UserWarning, match=r"cannot be locked \(No locks available\): see that no other"),
        locked(tmp_path),
    ):
        pass
    monkeypatch.setattr(lock, "fcntl", None)
    with pytest.warns(UserWarning, match=r"cannot be locked \(.* has no flock\): see that no other"), locked(tmp_path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "run", tmp_path / ("a" * 256)):
        with pytest.raises(InputError, match="cannot write"), locked(path):
            pass
