"""Files that appear whole or not at all."""

import os
import stat

import pytest

from segcertify.errors import InputError
from segcertify.storage import atomic


def test_text_and_bytes_are_written_with_their_folders(tmp_path):
    path = tmp_path / "a" / "b.txt"
    atomic.write_text(path, "é\r\n1\n")
    assert path.read_bytes() == "é\r\n1\n".encode()
    atomic.write_bytes(path, b"2")
    assert path.read_bytes() == b"2"
    assert os.listdir(path.parent) == ["b.txt"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "b.txt"
    atomic.write_text(path, "old")

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match=r"cannot write .*b\.txt: No space left on device"):
        atomic.write_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["b.txt"]


def test_the_content_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *paths, name=name, real=real: (done.append(name), real(*paths)))
    atomic.write_text(tmp_path / "b.txt", "1")
    assert done == ["fsync", "replace"]


def test_an_append_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    atomic.append_text(path, "1\n")
    atomic.append_text(path, "2\n")

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"cannot write .*records\.jsonl: No space left on device"):
        atomic.append_text(path, "3\n")
    assert path.read_text() == "1\n2\n"


def test_names_as_long_as_names_can_be(tmp_path):
    atomic.write_text(tmp_path / ("a" * 255), "1")
    assert os.listdir(tmp_path) == ["a" * 255]


def test_paths_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it is a folder"):
        atomic.write_text(tmp_path, "")
    with pytest.raises(InputError, match="cannot write"):
        atomic.require_writable(tmp_path / "file" / "below")
    for path, message in (
        (tmp_path / ("a" * 256), "cannot write .*File name too long"),
        (".", "cannot write .*folder"),
        ("a\0b", "cannot be a path: it holds a character that no name has"),
    ):
        with pytest.raises(InputError, match=message):
            atomic.require_writable(path)


@pytest.mark.parametrize("linked", [False, True])
def test_no_device_and_no_pipe_is_replaced_by_a_file(tmp_path, linked):
    """As root, `join --out /dev/zero` made a file of the machine's device."""
    target = tmp_path / "pipe"
    os.mkfifo(target)
    path = tmp_path / "link" if linked else target
    if linked:
        path.symlink_to("/dev/zero")
    for write in (atomic.write_text, atomic.append_text):
        with pytest.raises(InputError, match="it is a pipe, a socket or a device, which a file would replace"):
            write(path, "x")
    assert stat.S_ISFIFO(target.stat().st_mode)
    assert path.is_symlink() == linked
