"""The folder of a run: it is resumed by the same settings, and refused to others."""

import json
import os

import pytest
from holder import holder
from toys import SPEC, Killed, killed, load, quick, same, trained, weights

from segcertify import InputError
from segcertify.training import loop

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_a_finished_run_is_left_alone(data, tmp_path, monkeypatch):
    path = trained(data, tmp_path / "out")
    before = {file.name: file.stat().st_mtime_ns for file in path.parent.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(loop, "read_pool", None)
        assert trained(data, tmp_path / "out") == path
    assert {file.name: file.stat().st_mtime_ns for file in path.parent.iterdir()} == before


def test_a_folder_in_which_another_process_trains_is_refused(data, tmp_path):
    with holder(tmp_path / "out") as process:
        with pytest.raises(InputError, match=f"out is in use by process {process.pid} on"):
            trained(data, tmp_path / "out")
        assert os.listdir(tmp_path / "out") == [".lock"]
        process.kill()
    assert trained(data, tmp_path / "out").is_file()
    assert not (tmp_path / "out" / ".lock").exists()


@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_are_refused_by_name(data, tmp_path, monkeypatch, finished):
    first, out = quick(iterations=3), tmp_path / "out"
    trained(data, out, first) if finished else killed(data, out, first, monkeypatch, after=2)  # logged after 2
    for name, recipe, settings in (
        ("lr", {"lr": 0.02}, {}),
        ("sigma", {"sigma": (0.5,)}, {}),
        ("crop", {"crop": (16, 17)}, {}),
        ("seed", {"seed": 1}, {}),
        ("model", {}, {"spec": f"{SPEC}?dropout=0.2"}),
        ("start", {}, {"start": "other.pth"}),
        ("half", {}, {"half": True}),
        ("licence", {}, {"licence": "my own"}),
        ("validation", {}, {"validation": data}),
    ):
        with pytest.raises(
            InputError,
            match=rf"belongs to another run: its {name} (is .*, now it is|are .*, now they are) .*choose another path",
        ):
            trained(data, out, quick(iterations=3, **recipe), **settings)


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_the_folder_to_another(data, tmp_path):
    """Lowering lr is the cure for a loss that is no number: in the same folder too."""
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"the loss became (nan|inf) by step .*lower lr \(now 1e\+30\)"):
        trained(data, out, quick(lr=1e30, warmup=0.0, clip=0.0, optimiser="sgd"))
    assert not (out / "model.safetensors").exists()
    path = trained(data, out, quick())
    assert same(weights(path), weights(trained(data, tmp_path / "other", quick())))
    assert json.loads((out / "recipe.json").read_text())["lr"] == quick().lr


def test_a_recipe_is_written_whole_or_not_at_all(data, tmp_path, monkeypatch):
    """Another process of the same run may read it at any time."""

    def late(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", late)
        with pytest.raises(Killed):
            trained(data, tmp_path / "out")
    assert not (tmp_path / "out" / "recipe.json").exists()
    trained(data, tmp_path / "out")


def test_other_scenes_are_refused(data, tmp_path):
    trained(data, tmp_path / "out", quick(iterations=1))
    with pytest.raises(InputError, match="its scenes are 6, now they are 4"):
        trained(data.limit(4), tmp_path / "out", quick(iterations=1))
    with pytest.raises(InputError, match=r"its data is 'toys/train', now it is 'toys/val'"):
        trained(load(tmp_path / "toys", split="val"), tmp_path / "out", quick(iterations=1))


def test_folders_of_something_else(data, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(InputError, match="holds a model of another run"):
        trained(data, tmp_path)
    (tmp_path / "recipe.json").write_text("[1]")
    with pytest.raises(InputError, match=r"recipe\.json must hold values by name"):
        trained(data, tmp_path)
