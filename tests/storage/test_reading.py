"""Reading: a file behind links is read; whatever else may lie at a path is refused at once."""

import os
from pathlib import Path

import pytest

from segcertify import InputError
from segcertify.storage import reading


@pytest.fixture
def file(tmp_path):
    """A small text."""
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree")
    return path


def test_links_to_files_are_followed(file, tmp_path):
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "further").symlink_to("link")
    for path in (file, tmp_path / "link", tmp_path / "further", str(file)):
        assert reading.read_lines(path) == ["one", "two", "three"]
        assert reading.is_file(path)
        assert reading.is_there(path)
        assert not reading.is_folder(path)


def test_what_is_not_there(tmp_path, file):
    for path in (tmp_path / "none", file / "below"):
        assert not reading.is_there(path)
        with pytest.raises(InputError, match="no file at"):
            reading.read_text(path)
    with pytest.raises(InputError, match=r"^nothing here$"):
        reading.read_text(tmp_path / "none", missing="nothing here")


def a_loop(path):
    path.symlink_to(path.name)


def a_pipe(path):
    os.mkfifo(path)


def a_folder(path):
    path.mkdir()


def a_device(path):
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_loop, "it is a loop of links: remove them"),
        (a_pipe, "it is a pipe, a socket or a device"),
        (a_folder, "it is a folder"),
        (a_device, "it is a pipe, a socket or a device"),
    ],
)
def test_odd_paths_are_refused(make, message, tmp_path):
    make(tmp_path / "odd")
    with pytest.raises(InputError, match=message):
        reading.read_bytes(tmp_path / "odd", most=10**6)


@pytest.mark.parametrize(
    ("name", "message"), [("a\x00b", "character that no name has"), ("a" * 300, "name is too long")]
)
def test_names_that_cannot_be(name, message, tmp_path):
    for look in (reading.is_there, reading.is_folder, reading.is_file, reading.read_text):
        with pytest.raises(InputError, match=message):
            look(tmp_path / name)


def test_too_much(file, monkeypatch):
    with pytest.raises(InputError, match="has 17 bytes, but at most 16 are read"):
        reading.readable(file, most=16)
    monkeypatch.setattr(reading.limits, "TEXT_LINES", 1)
    with pytest.raises(InputError, match="has 2 lines, but at most 1 are read"):
        reading.read_lines(file)
    assert list(reading.long_lines(file, most=20)) == [b"\xef\xbb\xbfone\r\n", b"two\rthree"]
    with pytest.raises(InputError, match="line 2, has more than 8 bytes"):
        list(reading.long_lines(file, most=8))


def test_what_is_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"is not a text \(byte 2 is no UTF-8\): make it again"):
        reading.read_text(tmp_path / "a", cure="make it again")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may read all")
def test_no_permission(file):
    file.chmod(0)
    with pytest.raises(InputError, match="no permission"):
        reading.read_text(file)


def test_a_user_without_a_folder_is_bad_input(monkeypatch):
    monkeypatch.setenv("HOME", "/elsewhere")
    assert reading.expanded("~/x") == Path("/elsewhere/x")
    with pytest.raises(InputError, match="names a user without a folder here: write the whole path"):
        reading.expanded("~no such user/x")
