"""The tests mirror the package: every module has its test file, or a named one that covers it."""

import ast
from pathlib import Path

import pytest

import segcertify as sc

PACKAGE, TESTS = Path(sc.__file__).parent, Path(__file__).parent

COVERED_BY = {
    "attacks/gradient_ascent.py": "attacks/test_projected_gradient.py",
    "attacks/loss_and_gradient.py": "attacks/test_projected_gradient.py",
    "audit/scores.py": "audit/test_samplers.py",
    "certificate.py": "test_certification.py",
    "data/augmentation.py": "data/images/test_augmentation.py",
    "data/clouds/text.py": "data/clouds/test_points.py",
    "data/files.py": "data/images/test_reading.py",
    "data/sets/dataset_toml.py": "data/sets/test_image_folder.py",
    "evaluation/scenes.py": "evaluation/test_run.py",
    "figures/attack.py": "attacks/test_comparison.py",
    "figures/palette.py": "figures/test_image.py",
    "metrics/shapenet.py": "data/sets/test_shapenet.py",
    "models/card_markdown.py": "models/test_card.py",
    "models/formats/python_factory.py": "models/test_loading.py",
    "models/wrappers/normalisation.py": "models/wrappers/test_adapters.py",
    "models/wrappers/precision.py": "models/wrappers/test_adapters.py",
    "noise/additive.py": "noise/test_noise.py",
    "noise/base.py": "noise/test_noise.py",
    "noise/rotation.py": "noise/test_noise.py",
    "progress.py": "sampling/test_smooth.py",
    "report/figures.py": "evaluation/test_attacked.py",
    "report/summary.py": "evaluation/test_run.py",
    "reproduce/toy_figures.py": "reproduce/test_toy.py",
    "reproduce/toy_simulation.py": "reproduce/test_toy.py",
    "sampling/counting.py": "sampling/test_smooth.py",
    "sampling/segmenter.py": "sampling/test_draws.py",
    "sampling/streams.py": "sampling/test_draws.py",
    "storage/archive.py": "test_votes.py",
}
"""The test file of each module that has none of its own name."""

WITHOUT = ("__init__.py", "__main__.py", "arrays.py")
"""Files that hold names of types, or only gather what other modules define."""


def modules():
    return sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name not in WITHOUT)


def own_test(module):
    return TESTS / module.parent / f"test_{module.name}"


@pytest.mark.parametrize("module", modules(), ids=str)
def test_every_module_has_a_test_file(module):
    if own_test(module).exists():
        assert str(module) not in COVERED_BY, f"{module} has a test file of its own: take it off the list"
        return
    assert str(module) in COVERED_BY, f"write {own_test(module)}, or name the test file that covers {module}"
    covering = TESTS / COVERED_BY[str(module)]
    functions = [node for node in ast.parse(covering.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert any(function.name.startswith("test_") for function in functions), covering


def test_the_list_names_only_modules_that_exist():
    assert set(COVERED_BY) <= {str(module) for module in modules()}


def test_command_line_tests_and_theorem_tests_have_one_folder_each():
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        folder = path.relative_to(TESTS).parts[0]
        if folder not in ("cli", "golden", "test_mirror.py"):
            assert "CliRunner" not in text, f"{path} drives the command line: move that to tests/cli"
