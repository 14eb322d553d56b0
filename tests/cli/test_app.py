"""The commands and their options as a whole: one convention."""

import os
import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from rich.text import Text

import segcertify as sc
from segcertify import cli

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "cli_table.py"))
COMMANDS, options, page = dict(TOOL["commands"]()), TOOL["options"], TOOL["page"]


def fresh(*arguments):
    """What a new interpreter has loaded after a command."""
    code = (
        f"import sys; sys.argv = ['segcertify', *{[str(a) for a in arguments]}]\n"
        "from segcertify.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print('LOADED', [m for m in ('torch', 'matplotlib') if m in sys.modules])"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_version_and_help(segcertify):
    assert segcertify("--version").out.strip() == f"segcertify {sc.__version__}"
    shown = segcertify("--help").out
    for command in COMMANDS:
        assert command.split()[0] in shown


def test_each_command_has_its_file():
    files = {path.stem for path in Path(cli.__file__).parent.glob("*.py")}
    assert files - {
        "__init__",
        "certificates",
        "engines",
        "inputs",
        "metric_audits",
        "metric_certificates",
        "options",
        "pages",
        "printing",
        "radius_maps",
        "set_audits",
        "set_certificates",
        "several",
        "timing",
        "waiting",
    } == {name.split()[0] for name in COMMANDS}


def test_help_loads_nothing_heavy():
    assert "LOADED []" in fresh("--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_word_of_itself(name):
    """What looks like rich's markup, as [nifti] does, would be left out."""
    command = COMMANDS[name]
    for text in (command.help, *(getattr(each, "help", None) or "" for each in command.params)):
        assert Text.from_markup(text).plain == text


@pytest.mark.parametrize("name", COMMANDS)
def test_few_options_come_first(name):
    first = [option for option in options(COMMANDS[name]) if option.panel is None]
    assert len(first) + 1 <= 12, [option.name for option in first]  # and --help


def test_an_option_means_the_same_in_every_command():
    found = defaultdict(set)
    for command in COMMANDS.values():
        for option in options(command):
            found[option.name].add((option.help, option.panel))
    assert not {name: texts for name, texts in found.items() if len(texts) > 1}


@pytest.mark.parametrize("name", COMMANDS)
def test_scripts_are_served(name):
    assert {"--json", "--quiet"} <= {option.name for option in options(COMMANDS[name])}


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["certfy"], "Did you mean 'certify'?"),
        (["reproduce", "tabel1"], "Did you mean 'table1'"),
        (["plan", "--taw", "0.5"], "--tau"),
        (["plan", "-N", "9", "--correction", "bonferoni"], "did you mean 'bonferroni'?"),
        (["plan", "-N", "9", "--noise", "gausian"], "did you mean 'gaussian'?"),
        (["evaluate", "--model", "pets", "--data", "camvd:x", "--sigma", "1"], "did you mean 'camvid'?"),
        (["evaluate", "--model", "pest", "--data", "shapes:", "--sigma", "1"], "did you mean 'pets'?"),
        (["evaluate", "--model", "pets", "--data", "shapes:", "--setting", "sigma=1,m=9,tau=.7"], "unknown name 'm'"),
        (["demo", "--shape", "Char"], "did you mean 'Chair'?"),
    ],
)
def test_did_you_mean(segcertify, arguments, meant):
    assert meant in segcertify(*arguments, code=2).err


def test_every_command_with_a_model_asks_for_trust():
    named = {name: {option.name for option in options(command)} for name, command in COMMANDS.items()}
    takes_models = {name for name, found in named.items() if found & {"--model", "--named-model", "--non-robust"}}
    assert len(takes_models) >= 12
    assert {name for name, found in named.items() if "--trust-code" in found} == takes_models


EVIL = (
    "onnxruntime", "transformers", "safetensors", "torch", "numpy", "scipy", "typer", "click", "rich",
    "matplotlib", "PIL", "huggingface_hub", "sympy", "typing", "enum", "shlex", "difflib", "tomllib", "hashlib",
    "zipfile", "inspect", "dataclasses", "json",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path):
    """A working folder in which files have the names of packages, and leave a mark if they run."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in EVIL:
        (folder / f"{name}.py").write_text("import os\nos.mkdir(__file__ + '.ran')\n")
    (folder / "mine.py").write_text("import torch\ndef make():\n    return torch.nn.Conv2d(3, 2, 1)\n")
    (folder / "junk.onnx").write_bytes(b"junk")
    np.save(folder / "x.npy", np.zeros((3, 4, 4), np.float32))
    return folder


@pytest.mark.parametrize("by", ["python -m", "script"])
@pytest.mark.parametrize(
    ("model", "code"), [("onnx:junk.onnx", 2), ("hf:.", 2), ("python:mine:make", 0)], ids=["onnx", "hf", "python"]
)
def test_packages_come_from_no_working_folder(hostile, by, model, code):
    """Only ``python:`` looks there, after all packages. A script is what pip installs: its own folder comes first."""
    script = hostile.parent / "bin" / "segcertify"
    script.parent.mkdir()
    script.write_text("import sys\nfrom segcertify.cli import main\nsys.exit(main())\n")
    start = ["-m", "segcertify"] if by == "python -m" else [str(script)]
    command = [*start, "certify", "x.npy", "--model", model, "--sigma", "1", "--device", "cpu"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        cwd=hostile,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not list(hostile.glob("*.ran")), done.stderr
    assert done.returncode == code, done.stderr


def test_the_page_of_options_is_current():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page(), (
        "run: python tools/cli_table.py > docs/cli.md"
    )


HOSTILE = "\x1b[31m[red]\u202e\udcff\n"


@pytest.mark.parametrize("line", [[HOSTILE], ["plan", f"--{HOSTILE}"], ["plan", "--N", HOSTILE], ["show", HOSTILE]])
def test_errors_show_the_command_line_without_its_control_characters(segcertify, line):
    shown = segcertify(*line, code=2)
    assert "rror" in shown.err
    assert not {"\x1b", "\u202e", "\udcff"} & set(shown.text)


@pytest.mark.parametrize(
    ("category", "begins"), [(UserWarning, r"note: \x1b"), (DeprecationWarning, r"a\n:1: DeprecationWarning: \x1b")]
)
def test_warnings_are_one_line_without_control_characters(monkeypatch, capsys, category, begins):
    import warnings

    def warns():
        warnings.simplefilter("always")
        warnings.warn_explicit(HOSTILE, category, "a\n", 1)

    shown = warnings.showwarning
    monkeypatch.setattr(cli, "app", warns)
    cli.main()
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(begins)
    assert r"[31m[red]\u202e\udcff" in err
    assert err.count("\n") == 1
    assert err.strip().isprintable()
    assert warnings.showwarning is shown


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(36, "File name too long", "a/b"), "a/b: File name too long"), (MemoryError(), "memory")],
)
def test_what_the_system_refuses_is_one_line(segcertify, monkeypatch, error, words):
    def fails():
        raise error

    monkeypatch.setattr(cli, "app", fails)
    assert words in segcertify("plan", code=1).text
