"""The command line as a user meets it, in this process and in a folder of its own."""

import json
import sys
from typing import NamedTuple

import numpy as np
import pytest

import segcertify as sc
from segcertify.cli import main, printing


class Shown(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def text(self):
        """All of it, in one line."""
        return " ".join((self.out + self.err).split())

    @property
    def json(self):
        """The one object on standard output."""
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where commands run; modules there can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for each in (printing.console, printing.notes):
        monkeypatch.setattr(each, "width", 200)
    yield tmp_path
    here = [
        name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(f"{tmp_path}/")
    ]
    for name in here:
        del sys.modules[name]


@pytest.fixture
def segcertify(folder, monkeypatch, capsys):
    """A function that runs a command, and gives what it printed."""

    def run(*arguments, code=0):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["segcertify", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        shown = Shown(*capsys.readouterr())
        assert end.value.code == code, shown
        return shown

    return run


@pytest.fixture(scope="session")
def chair():
    """The rows of a file: x y z nx ny nz label, far from the origin and large."""
    scene = sc.data.load("shapes:?category=Chair&count=1&normals=true&points=600")[0]
    x, target = scene.x, scene.target
    return np.column_stack([x * [3, 3, 3, 1, 1, 1] + [5, 1, -2, 0, 0, 0], target]).astype(np.float32)
