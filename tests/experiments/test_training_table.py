"""Ways to train, side by side: the quick run, resumed, refused; the results and their page."""

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import trees
from page import SCORES, save
from training_table import FIGURE, build, contenders, figure, fresh, main, table

from segcertify import InputError
from segcertify.training import Recipe

ROOT = Path(__file__).parents[2]
COMMITTED = [path.parent for path in sorted(ROOT.glob("results/training*/**/results.json"))]
SIGMAS = (0.25, 0.33, 0.5)
ONE = ("--quick", "--objective", "noise", "--sigma", 0.25, "--scale", 1, "--device", "cpu")
"""A run of one model."""
TINY = argparse.Namespace(model_spec="hrnet?width=2&blocks=1&modules=1,1,1", seed=0, start=None)


@pytest.fixture
def camvid(tmp_path):
    return f"camvid:{trees.camvid(tmp_path / 'camvid', size=(24, 32))}"


def command(*arguments):
    main([*map(str, arguments)])


def read(out):
    return json.loads((out / "results.json").read_text(encoding="utf-8"))


def no_work(*_, **__):
    raise AssertionError("this was done before")


def test_quick_run_and_again(camvid, tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = ["--data", camvid, "--out", out, "--quick", "--device", "cpu"]
    command(*arguments)
    names = {"non-robust", *(f"{kind}-{sigma}" for kind in ("noise", "consistency") for sigma in SIGMAS)}
    assert {path.name for path in (out / "models").iterdir()} == names
    results = read(out)
    check_rows(results)
    assert results["training"] == {"name": "camvid/train+val without 0006R0*", "scenes": 2}
    assert results["validation"] == {"name": "camvid/train+val only 0006R0*", "scenes": 2}
    assert results["quick"]
    assert "quick run" in (out / "README.md").read_text(encoding="utf-8")
    for name in ("results.json", "README.md", "training.png", "training.md", "training.tex", "training.csv"):
        assert (out / name).stat().st_size > 100
    before = (out / "results.json").read_bytes()
    monkeypatch.setattr("segcertify.training.loop._Run", no_work)
    for file in (tmp_path / "camvid").rglob("*.*g"):
        if file.stem != "0006R0_f00930":  # the first to be evaluated on: it is compared
            file.write_bytes(b"")  # no other image is read
    command(*arguments)
    assert (out / "results.json").read_bytes() == before
    with pytest.raises(InputError, match="belongs to another run: its iterations are 2, now they are 3"):
        command(*arguments, "--iterations", 3)


def check_rows(results):
    """7 models without smoothing, 6 under their own noise, the non-robust one under all three: at both scales."""
    keys = [tuple(row[key] for key in ("scale", "sigma", "objective", "trained_sigma")) for row in results["rows"]]
    expected = []
    for scale in ("0.5", "1"):
        expected.append((scale, None, "non-robust", 0.0))
        expected += [(scale, None, kind, sigma) for kind in ("noise", "consistency") for sigma in SIGMAS]
        for sigma in SIGMAS:
            expected.append((scale, sigma, "non-robust", 0.0))
            expected += [(scale, sigma, kind, sigma) for kind in ("noise", "consistency")]
    assert keys == expected  # in the table's order
    for row in results["rows"]:
        assert 0 <= row["accuracy"] + row["abstained"] <= 1
        assert (row["radius"] is None) == (row["n"] is None) == (row["tau"] is None) == (row["sigma"] is None)
        assert row["radius"] is None or row["radius"] == pytest.approx(0.67449 * row["sigma"], rel=1e-4)


def test_a_run_that_was_stopped_goes_on(camvid, tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = ["--data", camvid, "--out", out, *ONE]
    with monkeypatch.context() as patch:
        patch.setattr("segcertify.evaluate", no_work)
        with pytest.raises(AssertionError, match="done before"):
            command(*arguments)
    model = out / "models" / "noise-0.25" / "model.safetensors"
    made = model.stat().st_mtime_ns
    assert not (out / "results.json").exists()
    command(*arguments)
    command(*arguments, "--objective", "non-robust")  # the comparison grew by a model
    assert model.stat().st_mtime_ns == made
    assert len(read(out)["rows"]) == 4
    with pytest.raises(InputError, match="belongs to another run: its settings"):
        command(*arguments, "--claim", "60,0.75")


def test_several_claims_and_the_scale_are_as_evaluate_has_them(camvid, tmp_path):
    from segcertify.data import load
    from segcertify.evaluation import evaluate
    from segcertify.models import load as load_model
    from segcertify.report.run import Run

    one = ["--quick", "--objective", "noise", "--sigma", 0.25, "--scale", 0.5, "--device", "cpu"]
    command("--data", camvid, "--out", tmp_path / "out", *one, "--claim", "50,0.75", "--claim", "90,0.9")
    rows = read(tmp_path / "out")["rows"]
    assert [(row["n"], row["tau"]) for row in rows] == [(None, None), (50, 0.75), (90, 0.9)]
    model = load_model(f"trained:{tmp_path / 'out' / 'models' / 'noise-0.25' / 'model.safetensors'}?scale=0.5")
    folder = tmp_path / "again"
    evaluate(
        model,
        load(f"{camvid}?split=train&only=0006R0*"),
        out=folder,
        settings=[(0.25, 50, 0.75), (0.25, 90, 0.9)],
        seed=0,
    )
    theirs = Run.load(folder).rows
    assert [(row["accuracy"], row["abstained"]) for row in rows] == [(row.accuracy, row.abstained) for row in theirs]


def test_models_share_recipe_and_start():
    recipe = Recipe()
    first, *others = contenders(recipe, ["non-robust", "noise", "consistency"], SIGMAS, [(100, 0.75)])
    assert (first[0], first[1].drawn, tuple(first[2])) == ("non-robust", (0.0,), SIGMAS)
    for _, own, settings in others:
        assert own.sigma == tuple(settings)
        assert replace(own, objective="noise", sigma=(0.25,)) == recipe
    assert (recipe.m, recipe.lam, recipe.eta) == (2, 1.0, 0.5)  # as in the paper
    state = torch.get_rng_state()
    one, two = (fresh(TINY, 11).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_start_is_used_and_named(camvid, tmp_path):
    start = tmp_path / "start.pth"
    other = fresh(argparse.Namespace(**vars(TINY) | {"seed": 1}), 11)
    torch.save(other.state_dict(), start)
    model = fresh(argparse.Namespace(**vars(TINY) | {"start": str(start)}), 11)
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())
    arguments = ["--data", camvid, "--out", tmp_path / "out", *ONE, "--start", start]
    command(*arguments)
    results = read(tmp_path / "out")
    assert results["init"].startswith("start.pth (SHA-256 ")
    assert f"| start | {results['init']} |" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    torch.save(fresh(TINY, 11).state_dict(), start)
    with pytest.raises(InputError, match="belongs to another run: its start is"):
        command(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--objective", "hope"],
            "must be one of non-robust, noise, consistency, smoothadv, distillation, denoising, but got 'hope'",
        ),
        (["--scale", "3"], "scale must be one of 0.25, 0.5, 0.75, 1, multi, but got '3'"),
        (["--sigma", "-1"], "sigma must be positive, but got -1"),
        (["--sigma", "0.5", "--sigma", "0.5"], "sigmas must all be different"),
        (["--claim", "100"], "--claim takes n,tau such as 100,0.75, but got '100'"),
        (["--claim", "100,1.5"], r"tau must lie in \[0.5, 1\), but got 1.5"),
        (["--iterations", "0"], "iterations must be an integer not less than 1, but got 0"),
        (["--every", "0"], "every must be an integer not less than 1, but got 0"),
        (["--model-spec", "alexnet"], "unknown architecture 'alexnet'"),
        (["--start", "gone.pth"], "no checkpoint at gone.pth"),
        (["--device", "foo"], "device must be such as 'cpu' or 'cuda', but got 'foo'"),
        (
            ["--train-split", "split=train", "--validation-split", "split=train"],
            "7 scenes, such as '0001TP_006690', are",
        ),
        (["--validation-split", "split=test"], "no split 'test'"),
        (["--data", "camvid:nowhere"], "nowhere"),
        (["--data", "camvid:nowhere?split=val"], "must be named without options"),
    ],
)
def test_bad_options_are_refused_before_the_training(camvid, tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        command("--data", camvid, "--out", tmp_path / "out", "--quick", *arguments)
    assert not (tmp_path / "out" / "models").exists()


def results_of(*rows):
    fold = {"name": "camvid/val", "scenes": 5}
    return {
        "version": "1", "device": "cpu", "model": "lite", "init": "", "training": fold, "validation": fold,
        "recipe": {"iterations": 3}, "n0": 10, "alpha": 0.001, "correction": "holm", "quick": False, "rows": rows,
    }  # fmt: skip


def row_of(setting, scores, seconds):
    about = {"objective": "noise", "trained_sigma": 0.25, "scale": "1", "seconds": seconds}
    settings = dict(zip(("sigma", "n", "tau", "radius"), setting, strict=True))
    return about | settings | dict(zip(SCORES, scores, strict=True))


BASE = row_of((None,) * 4, (0.9, 0.6, 0.5, 0.6, 0.0, 0.0), 0.125)
CERTIFIED = row_of((0.25, 100, 0.75, 0.16862), (0.8, 0.5, 0.4, 0.3, 0.15, 0.16), 1.5)


def test_results_are_shown(tmp_path):
    results = results_of(BASE, CERTIFIED)
    save(tmp_path, results, build)
    assert table(results).rows == (
        (
            "1", "noise 0.25", "none", "-",
            "-", "-", "0.0000", "-", "0.9000", "0.6000", "0.5000", "0.0000", "0.12",
        ),
        (
            "1", "noise 0.25", "sigma=0.25, n=100, tau=0.75", "0.168",
            "0.8000", "0.0500", "0.1500", "0.3000", "0.8000", "0.5000", "0.4000", "0.1600", "1.50",
        ),
    )  # fmt: skip
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert table(results).markdown() in text
    assert "| iterations | 3 |" in text
    assert "at least 0.995" in text
    assert "quick" not in text


def test_render_writes_the_page_from_the_numbers_alone(tmp_path, capsys):
    save(tmp_path, results_of(BASE, CERTIFIED), build)
    expected = (tmp_path / "README.md").read_text(encoding="utf-8")
    for name in ("README.md", FIGURE):
        (tmp_path / name).unlink()
    command("--render", tmp_path)
    assert "README.md" in capsys.readouterr().out
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == expected
    assert (tmp_path / FIGURE).exists()


def test_bars_show_what_is_right_and_what_abstains():
    rows = (
        BASE,
        CERTIFIED | {"objective": "non-robust", "trained_sigma": 0.0, "accuracy": 0.1, "abstained": 0.7},
        CERTIFIED,
        CERTIFIED | {"n": 300},  # another claim
        CERTIFIED | {"scale": "0.5"},
    )
    panels = figure(rows).axes
    assert [axes.get_title() for axes in panels] == ["scale 1", "scale 0.5"]
    bars = [side for bar in panels[0].patches for side in (bar.get_y(), bar.get_height())]
    assert bars == pytest.approx([0, 0.1, 0.1, 0.7, 0, 0.8, 0.8, 0.15])


def test_what_cannot_be_rendered_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no results.json in .*: run the experiment with --out"):
        command("--render", tmp_path)
    for content in ("{", "[]", "{}", json.dumps({"training": {"name": "a"}})):
        (tmp_path / "results.json").write_text(content)
        with pytest.raises(InputError, match=r"holds no results of this experiment .*: make it again"):
            command("--render", tmp_path)
    with pytest.raises(InputError, match="name the data set to train on: --data camvid:FOLDER"):
        command()


def test_rendering_loads_no_torch(tmp_path):
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / "experiments")!r})
import json, pathlib, training_table
results = json.loads((pathlib.Path({str(ROOT)!r}) / "results" / "training" / "results.json").read_text())
training_table.build(results, pathlib.Path({str(tmp_path)!r}))
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_page_is_committed():
    assert COMMITTED


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_the_committed_page_is_what_the_committed_numbers_give(folder, tmp_path):
    results = read(folder)
    assert not results["quick"]
    assert (folder / "README.md").read_text(encoding="utf-8") == build(results, tmp_path)
    assert (folder / FIGURE).exists()
