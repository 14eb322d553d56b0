"""The package's shape: lazy imports, layers, names."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import segcertify as sc

PACKAGE = Path(sc.__file__).parent


def fresh(code):
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "segcertify",
        "segcertify.certification",
        "segcertify.stats.planning",
        "segcertify.noise",
        "segcertify.metrics",
        "segcertify.data",
        "segcertify.records",
        "segcertify.report.run",
        "segcertify.cli",
    ],
)
def test_torch_stays_unloaded(module):
    heavy = ("torch", "matplotlib", "pandas", "statsmodels")
    loaded = fresh(f"import sys, {module}; print([m for m in {heavy} if m in sys.modules])")
    assert loaded == "[]"


@pytest.mark.parametrize("module", ["segcertify.figures.image", "segcertify.report.files"])
def test_figures_leave_torch_unloaded(module):
    assert fresh(f"import sys, {module}; print('torch' in sys.modules)") == "False"


def test_a_run_is_reported_without_torch(tmp_path):
    run = Path(__file__).parent / "golden" / "files" / "runs" / "cloud-z-rotation"
    code = f"""
import sys
from segcertify.report.files import write_report
from segcertify.report.run import Run
run = Run.load({str(run)!r})
files = write_report(run, {str(tmp_path)!r})
print(run.noise, len(run.curves()), sorted(file.name for file in files if file.suffix in (".md", ".png", ".html")))
print([name for name in sys.modules if name.split(".")[0] in ("torch", "typer") or name == "segcertify.data"])
"""
    expected = "rotation:z 1 ['categories.md', 'classes.md', 'index.html', 'radius.png', 'results.md']"
    assert fresh(code).splitlines() == [expected, "[]"]


def test_importing_the_package_loads_almost_nothing():
    assert (
        fresh("import sys; import segcertify; print([m for m in ('numpy', 'scipy', 'rich') if m in sys.modules])")
        == "[]"
    )


def test_votes_certify_without_torch():
    code = """
import sys
import numpy as np, segcertify as sc
votes = sc.Votes(candidate=np.array([1, 2]), agree=np.array([100, 60]), n=100, n0=10, noise=sc.Gaussian(0.25))
labels = sc.certify_votes(votes, tau=0.75, alpha=0.001).labels
radii = sc.radius_map(votes, alpha=0.001).round(3)
print(labels.tolist(), radii.tolist(), sc.plan(10, 0.75, alpha=0.001).n_min, 'torch' in sys.modules)
"""
    assert fresh(code) == "[1, -1] [0.363, 0.0] 33 False"


def test_public_names():
    functions = {"certify", "sample", "certify_votes", "radius_map", "indiv_class", "joint_class", "plan", "evaluate"}
    nouns = {"Votes", "Certificate", "ABSTAIN", "Gaussian", "Laplace", "Uniform", "Rotation", "AxisRotation"}
    assert functions | nouns | {"cohen", "models", "data", "metrics", "attacks", "audit", "training"} <= set(dir(sc))
    for name in dir(sc):
        assert getattr(sc, name) is not None
    assert sc.ABSTAIN == -1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        sc.nonsense  # noqa: B018


def test_no_module_hides_a_public_function():
    """Importing a submodule sets its name in its package, where no public function may have the same name."""
    hidden = []
    for package in (path.parent for path in PACKAGE.rglob("__init__.py")):
        module = importlib.import_module(".".join(package.relative_to(PACKAGE.parent).parts))
        inside = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
        hidden += [f"{module.__name__}.{name}" for name in inside & set(dir(module)) if callable(getattr(module, name))]
    assert not hidden


def test_no_module_is_too_long_and_none_is_called_utils():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path
        assert "util" not in path.stem


def test_nothing_unpickles_or_evaluates():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("eval", "exec", "pickle.load", "pickle.loads"), (path, node.lineno)
                if name == "torch.load":
                    assert "weights_only=True" in ast.unparse(node), (path, node.lineno)
                if name == "np.load":
                    assert "allow_pickle=False" in ast.unparse(node), (path, node.lineno)
