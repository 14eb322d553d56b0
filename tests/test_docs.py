"""The documents name only what exists, and their code runs."""

import ast
import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from segcertify.numerals import measured

ROOT = Path(__file__).parents[1]
CARDS = [f"segcertify/models/bundled/{name}.md" for name in ("pets", "camvid", "parts")]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="the documents are in the repository only")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("results/**/*.md"), *ROOT.glob("tools/**/*.md")]
)


def text_of(document):
    return document.read_text(encoding="utf-8")


def present(document):
    """A document's text without what no longer exists: the first column of the changelog's tables."""
    text = text_of(document)
    return re.sub(r"^\|[^|\n]*\|", "|", text, flags=re.M) if document.name == "CHANGELOG.md" else text


def exists(dotted):
    """Whether a dotted name can be imported or reached by attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        return found is not None
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_functions_and_tests_named_exist(document):
    for dotted in set(re.findall(r"`(segcertify\.[\w.]+)`", present(document))):
        assert exists(dotted), dotted
    for file, name in set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", present(document))):
        functions = {node.name for node in ast.parse(text_of(ROOT / file)).body if isinstance(node, ast.FunctionDef)}
        assert not name or name in functions, (file, name)


def test_theory_names_many():
    assert len(re.findall(r"::test_\w+`", text_of(ROOT / "docs" / "theory.md"))) > 30


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text_of(document)):
        assert (document.parent / target).exists(), target


def documented_commands(document):
    """The words of each shell command: of those in blocks, and of `segcertify ...` and `python ...` in a sentence."""
    text = text_of(document).replace("\\\n", " ")
    blocks = [line for block in re.findall(r"```(?:ba)?sh\n(.*?)```", text, re.S) for line in block.splitlines()]
    for line in [*blocks, *re.findall(r"`((?:segcertify|python) [^`]+)`", text)]:
        if words := shlex.split(line, comments=True):
            yield words


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - {ROOT / "CHANGELOG.md"}), ids=lambda path: path.name)
def test_commands_and_options_named_exist(document):
    from typer.main import get_command

    from segcertify.cli import app

    for words in documented_commands(document):
        for script in words[1:2] if words[0] == "python" else []:
            assert not script.endswith(".py") or "NAME" in script or (ROOT / script).exists(), words
        if words[0] != "segcertify" or "COMMAND" in words:
            continue
        command, rest = get_command(app), words[1:]
        while rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        known = {name for option in command.params for name in option.opts + option.secondary_opts} | {"--help"}
        assert not hasattr(command, "commands") or rest in ([], ["--help"]), words
        assert {word for word in rest if re.match(r"--?[a-zA-Z]", word)} <= known, words


def test_citations_of_the_code_are_in_the_references():
    references = set(re.findall(r"^- \[(\w+)\]", text_of(ROOT / "docs" / "theory.md"), re.M))
    for path in (ROOT / "segcertify").rglob("*.py"):
        for key in re.findall(r"\[([A-Z][A-Za-z]+\d{4})[,\]]", text_of(path)):
            assert key in references, (path, key)


def test_the_readmes_numbers():
    """Beside its code, which `test_docs_code.py` runs."""
    import segcertify as sc

    readme = text_of(ROOT / "README.md")
    assert "# 0.1686" in readme
    assert round(sc.Gaussian(0.25).radius(0.75), 4) == 0.1686
    assert "n_min  # 419:" in readme
    assert sc.plan(N=1024 * 2048, tau=0.95, alpha=0.001).n_min == 419


def test_the_quoted_sentence_is_what_certificates_say():
    """The demo's, with its counts: the image, its resize, and how many of its pixels are certified."""
    import numpy as np

    import segcertify as sc
    from segcertify.preprocessing import of_image

    agree = np.where(np.arange(160 * 241) < 33008, 100, 0).reshape(160, 241)
    votes = sc.Votes(
        candidate=np.zeros_like(agree), agree=agree, n=100, n0=10, noise=sc.Gaussian(0.25), input_shape=(3, 160, 241),
        preprocessing=of_image((300, 451), (160, 241), "antialiased"),
    )  # fmt: skip
    sentence = sc.certify_votes(votes, tau=0.75, alpha=0.001).sentence
    for name in ("README.md", "docs/index.md", "docs/start/five-minutes.md", "docs/understand/certificate.md"):
        assert sentence in " ".join(text_of(ROOT / name).replace("\n> ", " ").split()), name


@pytest.mark.parametrize("name", ["README.md", "docs/index.md", *CARDS])
def test_who_certifies_again_is_told_what_to_expect(name):
    from segcertify.plain_words import AGAIN

    text = " ".join(text_of(ROOT / name).split())
    assert AGAIN in text
    assert "at least 99.9%" in text
    assert "Exactly: with probability at least 1 - alpha" in text


def test_the_readme_has_the_two_commands():
    readme = text_of(ROOT / "README.md")
    assert "pip install -c constraints.txt -e . && segcertify demo\n" in readme
    assert "pip install -c constraints.txt -e '.[dev]' && pytest\n" in readme


def test_the_toy_page_is_the_toy_result():
    record = json.loads(text_of(ROOT / "results" / "toy" / "toy.json"))
    page = text_of(ROOT / "results" / "toy" / "toy.md")
    assert not record["quick"]
    for numbers in record["headline"].values():
        for label, value in numbers.items():
            assert f"| {label} | {measured(value)} |" in page


@pytest.mark.parametrize(
    "name",
    ["pets", "pets-non-robust", "camvid", "camvid-non-robust", "camvid-large", "camvid-large-non-robust", "parts"],
)
def test_the_documented_training_of_a_bundled_model_is_the_one_in_its_card(name):
    from segcertify.models import read_card
    from segcertify.models.saved import FOLDER, IN_REPOSITORY, WEIGHTS
    from segcertify.training import Recipe

    card = read_card((WEIGHTS if name in IN_REPOSITORY else FOLDER) / f"{name}.safetensors")
    runs = [f"{name}-hrnet", f"{name}-lite"] if "large" in name else [name]
    for run, recipe in zip(runs, card.recipe.get("members", [card.recipe]), strict=True):
        assert documented_recipe(run) == Recipe.from_plain(recipe)
    assert card.data.startswith({"pets": "pets/train ", "camv": "camvid/train+val ", "part": ""}[name[:4]])


def documented_recipe(run):
    """The recipe of the command in docs/training.md that writes to a run."""
    from segcertify.training import Recipe

    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8").replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.rstrip().endswith(f"--out runs/{run}"))
    options = {part.split()[0]: part.split()[1:] for part in line.split(" --")[1:]}
    kinds = {key: type(value[0] if isinstance(value, tuple) else value) for key, value in vars(Recipe()).items()}
    given = {
        key: tuple(kinds[key](word) for word in options[option])
        for key in kinds
        if (option := key.replace("_", "-")) in options
    }
    return Recipe(**{key: words if len(words) > 1 else words[0] for key, words in given.items()})


def test_the_audits_documented_are_the_audits_made():
    """The totals in docs/audit.md against the output of the audits."""
    page = " ".join(text_of(ROOT / "docs" / "audit.md").split())
    for name, images in (("camvid", 20), ("pets", 100)):
        printed = text_of(ROOT / "results" / "audit" / f"{name}.txt")
        pattern = r"([\d,]+) certified components in (\d+) inputs, ([\d,]+) tests with fresh draws. (\d+) of"
        numbers = [[int(each.replace(",", "")) for each in found] for found in re.findall(pattern, printed)]
        components, inputs, tests, refuted = (sum(column) for column in zip(*numbers, strict=True))
        assert (inputs, refuted) == (images, 0)
        assert f"{components:,}" in page
        assert f"{tests:,}" in page
