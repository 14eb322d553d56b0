"""The commands and their options as a whole: one convention."""

import runpy
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

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
    assert files - {"__init__", "inputs", "options", "printing"} == {name.split()[0] for name in COMMANDS}


def test_help_loads_nothing_heavy():
    assert "LOADED []" in fresh("--help")


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


def test_the_page_of_options_is_current():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page(), (
        "run: python tools/cli_table.py > docs/cli.md"
    )
