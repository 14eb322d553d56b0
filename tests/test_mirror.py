"""The tests mirror the package: every module has its test file, or a named one that covers it."""

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

import segcertify as sc

PACKAGE, TESTS = Path(sc.__file__).parent, Path(__file__).parent

COVERED_BY = {
    "attacks/gradient_ascent.py": "attacks/test_projected_gradient.py",
    "attacks/loss_and_gradient.py": "attacks/test_smoothed.py",
    "audit/scores.py": "audit/test_samplers.py",
    "certificate.py": "test_certification.py",
    "cli/certificates.py": "cli/test_certify.py",
    "cli/metric_audits.py": "cli/test_audit.py",
    "cli/pages.py": "cli/test_certify.py",
    "cli/radius_maps.py": "cli/test_certify.py",
    "cli/set_audits.py": "cli/test_audit.py",
    "cli/set_certificates.py": "cli/test_certify.py",
    "cli/timing.py": "cli/test_plan.py",
    "data/augmentation.py": "data/images/test_augmentation.py",
    "data/clouds/text.py": "data/clouds/test_points.py",
    "data/files.py": "data/images/test_reading.py",
    "data/sets/dataset_toml.py": "data/sets/test_image_folder.py",
    "evaluation/scenes.py": "evaluation/test_run.py",
    "evaluation/pictures.py": "evaluation/test_run.py",
    "figures/attack.py": "attacks/test_comparison.py",
    "figures/cloud_page.py": "figures/test_cloud.py",
    "figures/page_panel.py": "figures/test_image_page.py",
    "metrics/shapenet.py": "data/sets/test_shapenet.py",
    "models/card_markdown.py": "models/test_card.py",
    "models/formats/zip_files.py": "models/formats/test_weights.py",
    "models/formats/python_factory.py": "models/test_loading.py",
    "models/networks/grouping_numpy.py": "models/networks/test_grouping.py",
    "models/wrappers/normalisation.py": "models/wrappers/test_adapters.py",
    "models/wrappers/reversed.py": "models/wrappers/test_wrapper.py",
    "models/wrappers/precision.py": "models/wrappers/test_adapters.py",
    "noise/additive.py": "noise/test_noise.py",
    "noise/base.py": "noise/test_noise.py",
    "noise/rotation.py": "noise/test_noise.py",
    "report/figures.py": "evaluation/test_attacked.py",
    "report/summary.py": "evaluation/test_run.py",
    "records/stored_settings.py": "records/test_run_folder.py",
    "reproduce/comparison.py": "reproduce/test_paper_tables.py",
    "reproduce/toy_figures.py": "reproduce/test_toy.py",
    "reproduce/toy_simulation.py": "reproduce/test_toy.py",
    "sampling/at_input.py": "sampling/test_checkpoint.py",
    "sampling/inputs.py": "sampling/test_draws.py",
    "sampling/kernels/fused.py": "sampling/kernels/test_interpreted.py",
}
"""The test file of each module that has none of its own name."""

WITHOUT = ("__init__.py", "__main__.py", "arrays.py")
"""Files that hold names of types, or only gather what other modules define."""


def modules():
    """All but those for Triton, which may be absent: the tests of the twins that they are named after run them."""
    files = (path for path in PACKAGE.rglob("*.py") if path.name not in WITHOUT and not path.name.startswith("triton_"))
    return sorted(path.relative_to(PACKAGE) for path in files)


def own_test(module):
    return TESTS / module.parent / f"test_{module.name}"


def dotted(module):
    return ".".join(("segcertify", *module.with_suffix("").parts))


@cache
def reached(test):
    """The modules that a test file, or a helper that it imports, names or takes a name from."""
    tree, found, aliases = ast.parse(test.read_text(encoding="utf-8")), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in node.names:
                first, whole = name.name.partition(".")[0], isinstance(node, ast.ImportFrom)
                full = f"{node.module}.{name.name}" if whole else name.name
                aliases[name.asname or first] = full if whole or name.asname else first
                found |= places(full)
    for node in ast.walk(tree):  # such as sc.cohen.certify
        if isinstance(node, ast.Attribute) and (chain := ast.unparse(node)).replace(".", "").isidentifier():
            first, _, rest = chain.partition(".")
            found |= places(f"{aliases.get(first, '')}.{rest}")
    helpers = [TESTS / "helpers" / f"{name.partition('.')[0]}.py" for name in aliases.values()]
    return found.union(*(reached(helper) for helper in helpers if helper.exists() and helper != test))


@cache
def places(name):
    """The modules of the package that a dotted name stands for: the module itself, or where its object is defined."""
    parts = name.split(".")
    if parts[0] != "segcertify":
        return set()
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        modules = {found.__name__}
        for part in parts[length:]:
            found = getattr(found, part, None)
            modules.add(getattr(found, "__module__", None) or getattr(found, "__name__", ""))
        return modules
    return set()


@cache
def parts(module):
    """The modules of a module's own package that it imports, also when it is called."""
    file = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not file.exists():
        return set()
    nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
    found = set().union(*(places(f"{node.module}.{name.name}") for node in nodes for name in node.names))
    return {each for each in found if each.rpartition(".")[0] == module.rpartition(".")[0]}


def named(test, module):
    """Whether a test file runs a command, or loads a spec, that stands for the module: certify, camvid:FOLDER."""
    texts = [node.value for node in ast.walk(ast.parse(test.read_text())) if isinstance(node, ast.Constant)]
    if module.parts[0] == "cli":
        return module.stem in texts
    schemes = (f"{module.stem.replace('_', '-')}:", f"{module.stem.partition('_')[0]}:")
    by_spec = module.parts[:2] in (("data", "sets"), ("models", "formats"))
    return by_spec and any(isinstance(text, str) and text.startswith(schemes) for text in texts)


@pytest.mark.parametrize("module", modules(), ids=str)
def test_every_module_has_a_test_file(module):
    if own_test(module).exists():
        assert str(module) not in COVERED_BY, f"{module} has a test file of its own: take it off the list"
        covering = own_test(module)
    else:
        assert str(module) in COVERED_BY, f"write {own_test(module)}, or name the test file that covers {module}"
        covering = TESTS / COVERED_BY[str(module)]
    functions = [node for node in ast.parse(covering.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert any(function.name.startswith("test_") for function in functions), covering
    direct = reached(covering)
    found = named(covering, module) or dotted(module) in direct.union(*map(parts, direct))
    assert found, f"{covering} does not reach {module}: import a name that it defines, or name another file"


def test_the_list_names_only_modules_that_exist():
    assert set(COVERED_BY) <= {str(module) for module in modules()}


def test_command_line_tests_and_theorem_tests_have_one_folder_each():
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        folder = path.relative_to(TESTS).parts[0]
        if folder not in ("cli", "golden", "test_mirror.py"):
            assert "CliRunner" not in text, f"{path} drives the command line: move that to tests/cli"
        if folder not in ("theorems", "test_cuda.py", "test_mirror.py"):  # the GPU's tests are one file, run there
            for test in ("kstest", "chisquare", "rate_exceeds"):
                assert test not in text, f"{path} tests a distribution: move that to tests/theorems"
