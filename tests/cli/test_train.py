"""``segcertify train`` as a user meets it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from toys import small, tree
from trees import cityscapes

import segcertify as sc
from segcertify.cli import main
from segcertify.models import read_card
from segcertify.models.card import read_model
from segcertify.models.initial_weights import described
from segcertify.training.log import read_log

TOYS = f"python:toys:{small.__name__}"
MINE = "python:mine:make?dropout=0.1"
HRNET = "hrnet?width=4&blocks=1&modules=1,1,1"
QUICK = ["--iterations", "12", "--batch-size", "4", "--crop", "16", "16", "--precision", "fp32", "--device", "cpu"]
QUICK += ["--log-every", "2", "--save-every", "4", "--validate-every", "4"]
MAIN = [sys.executable, "-c", "from segcertify.cli import main; main()"]


def environment():
    """One thread a process; the tests' own modules, such as the toys, can be imported."""
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return os.environ | {"COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """The command in this process: its exit code and what it shows."""

    def command(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "argv", ["segcertify", "train", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return end.value.code, shown.out + shown.err

    return command


def weights(path):
    return read_model(path)[1].tensors


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_help_needs_no_torch_and_shows_every_setting():
    code = (
        "import sys; sys.argv = ['segcertify', 'train', '--help']\n"
        "from segcertify.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', [m for m in ('torch', 'matplotlib') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    ).stdout
    assert "LOADED []" in shown
    for name, field in sc.training.Recipe.__dataclass_fields__.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert field.metadata["help"].split()[0].rstrip(".,;") in shown


def test_a_factorys_model_from_end_to_end(command, tmp_path):
    data, others = tree(tmp_path / "toys"), tree(tmp_path / "toys", split="val", sizes=[(20, 24)] * 2)
    (tmp_path / "mine.py").write_text("from toys import small as make")  # beside the user
    arguments = ["--data", data, "--model", MINE, "--validation", others, "--out", "run", *QUICK]
    arguments += ["--objective", "consistency", "--sigma", "0.1", "--sigma", "0.5", "--m", "3", "--no-flip"]
    arguments += ["--licence", "my own"]
    code, shown = command(*arguments)
    assert code == 0
    assert f"use it as {MINE}&weights={Path('run') / 'model.safetensors'}" in shown
    run = tmp_path / "run"
    for name in ("model.safetensors", "model.md", "log.csv", "loss.png"):
        assert f"wrote run/{name}" in shown
        assert (run / name).stat().st_size > 100
    card = read_card(run / "model.safetensors")
    assert card.architecture == {"family": "python", "spec": MINE}
    assert (card.objective, card.sigma, card.licence) == ("consistency", (0.1, 0.5), "my own")
    assert card.data == "toys/train (6 scenes)"
    assert (card.recipe["m"], card.recipe["flip"], card.recipe["crop"]) == (3, False, [16, 16])
    assert len(card.metrics) == 2
    assert card.version == sc.__version__
    assert card.date
    assert [row["step"] for row in read_log(run / "log.csv")] == [2, 4, 6, 8, 10, 12]
    loaded = sc.models.load(f"{MINE}&weights={run / 'model.safetensors'}")
    assert loaded(torch.rand(1, 3, 16, 16)).shape[1] == 3
    before = (run / "model.safetensors").stat().st_mtime_ns
    assert command(*arguments)[0] == 0  # once more: nothing to do
    assert (run / "model.safetensors").stat().st_mtime_ns == before
    code, shown = command(*arguments, "--lr", "0.5")
    assert code == 2
    assert "error: run belongs to another run: its lr is 0.001, now it is 0.5" in shown


def test_an_hrnet_is_certified_at_the_end(command, tmp_path):
    arguments = ["--data", tree(tmp_path / "toys"), "--model", HRNET, "--half", *QUICK, "--iterations", "2"]
    states = torch.random.get_rng_state()
    assert command(*arguments)[0] == 0
    assert torch.equal(torch.random.get_rng_state(), states)
    path = tmp_path / "trained" / "model.safetensors"
    card = read_card(path)
    assert (card.architecture["family"], card.objective, card.sigma) == ("hrnet", "noise", (0.25,))
    assert weights(path)["conv1.weight"].dtype == torch.float16
    model = sc.models.load(f"trained:{path}")
    certificate = sc.certify(model, torch.rand(3, 32, 32), sigma=0.1, n=100, seed=0)
    assert certificate.labels.shape == (32, 32)
    code, _ = command(*arguments, "--out", "again", "--start", path)  # the same architecture
    assert code == 0
    assert read_card(tmp_path / "again" / "model.safetensors").data.endswith(f"started from {described(path)}")
    code, shown = command(*arguments, "--out", "other", "--start", path, "--model", "hrnet?width=8&blocks=1")
    assert code == 2
    assert "is it a checkpoint of this architecture?" in shown
    assert not (tmp_path / "other").exists()


def test_fresh_weights_depend_on_the_seed(command, tmp_path):
    data = tree(tmp_path / "toys")
    for seed, out in ((0, "a"), (0, "b"), (1, "c")):
        torch.manual_seed(ord(out))  # is of no importance
        arguments = ["--data", data, "--model", HRNET, "--out", out, "--seed", seed, *QUICK, "--iterations", "1"]
        assert command(*arguments, "--lr", "1e-9")[0] == 0
    a, b, c = (weights(tmp_path / out / "model.safetensors") for out in "abc")
    assert same(a, b)
    assert not torch.allclose(a["conv1.weight"], c["conv1.weight"], atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "folder:gone?split=train"], "gone"),
        (["--data", "toys"], "unknown data set 'toys'"),
        (["--validation", "folder:gone"], "gone"),
        (["--model", f"{TOYS}?classes=4"], "the model must give logits (B, 3, height, width) for toys/train"),
        (["--model", "resnet"], "unknown architecture 'resnet'"),
        (["--model", "python:toys:tree"], "python:toys:tree could not be called"),
        (["--start", "gone.pth"], "no checkpoint at gone.pth"),
        (["--objective", "smooth"], "objective must be one of non-robust, noise, consistency, smoothadv"),
        (["--sigma", "0"], "sigma must be positive"),
        (["--iterations", "0"], "iterations must be an integer not less than 1"),
        (["--save-every", "5"], "save-every must be a multiple of log-every, 2, but is 5: use 6"),
        (["--device", "gpu"], "device must be such as 'cpu' or 'cuda', but got 'gpu'"),
        (["--licence", " "], "licence must be a text"),
        (["--recipe", "cityscape-hrnet"], "unknown recipe 'cityscape-hrnet': did you mean 'cityscapes-hrnet'?"),
        (
            ["--recipe", "cityscapes-hrnet"],
            "epochs set the number of iterations here: give --epochs instead of --iterations",
        ),
        (["--class-weights", "1,2"], "class_weights has 2 weights, but the data have 3 classes"),
        (["--class-weights", "1,x"], "class_weights must be numbers between commas"),
        (["--schedule", "step"], "the schedule step decays after epochs: give epochs"),
        (["--memory", "-1"], "memory must be at least 0 GB, but got -1.0"),
    ],
)
def test_bad_input_is_one_clear_line_before_anything_is_written(command, tmp_path, monkeypatch, arguments, message):
    monkeypatch.setattr("segcertify.training.loop.read_pool", None)  # nothing long has begun
    usual = {"--data": tree(tmp_path / "toys"), "--model": TOYS}
    base = [part for name, value in usual.items() if name != arguments[0] for part in (name, value)]
    code, shown = command(*base, *QUICK, *arguments, "--out", "run")
    assert code == 2
    assert "error: " in shown
    assert message in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "run").exists()


SMALL = ["--epochs", "2", "--batch-size", "2", "--device", "cpu", "--log-every", "1", "--save-every", "1"]


def test_the_recipe_of_cityscapes_on_a_synthetic_tree_streamed_from_disk(command, tmp_path):
    root = cityscapes(tmp_path / "cityscapes", size=(40, 80))
    arguments = ["--recipe", "cityscapes-hrnet", "--data", f"cityscapes:{root}?split=train", "--crop", "32", "64"]
    arguments += ["--model", HRNET, "--validation", f"cityscapes:{root}", *SMALL, "--validate-every", "1"]
    for out, memory in (("held", []), ("streamed", ["--memory", "0"])):
        assert command(*arguments, *memory, "--out", out)[0] == 0
    held, streamed = (tmp_path / out / "model.safetensors" for out in ("held", "streamed"))
    assert same(weights(held), weights(streamed))
    card = read_card(streamed)
    assert (card.recipe["nesterov"], card.recipe["lr"], card.recipe["epochs"], card.recipe["iterations"]) == (
        False,
        0.01,
        2,
        2,
    )
    assert (len(card.recipe["class_weights"]), card.recipe["crop"], card.recipe["weight_decay"]) == (19, [32, 64], 5e-4)
    rows = read_log(streamed.with_name("log.csv"))
    assert [row["lr"] for row in rows] == pytest.approx([0.01, 0.01 * 0.5**0.9])
    again = [
        "--recipe",
        "streamed/recipe.json",
        "--data",
        f"cityscapes:{root}?split=train",
        *SMALL,
        "--validate-every",
        "1",
    ]
    assert command(*again, "--validation", f"cityscapes:{root}", "--out", "again")[0] == 0  # the model too is the run's
    assert same(weights(tmp_path / "again" / "model.safetensors"), weights(streamed))


def test_the_recipe_of_shapenet_on_generated_shapes(command, tmp_path):
    arguments = ["--recipe", "shapenet-pointnet2", "--data", "shapes:?count=4&points=512", *SMALL, "--epochs", "3"]
    code, shown = command(*arguments, "--decay-every", "1", "--validate-every", "1", "--sigma", "0.5", "--out", "run")
    assert code == 0, shown
    card = read_card(tmp_path / "run" / "model.safetensors")
    assert card.architecture["family"] == "pointnet2"
    assert (card.recipe["optimiser"], card.recipe["shift"], card.sigma) == ("adam", 0.1, (0.5,))
    rates = [row["lr"] for row in read_log(tmp_path / "run" / "log.csv")]
    assert rates == pytest.approx([1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 2.5e-4])


def test_a_stopped_run_says_how_to_go_on_and_a_start_how_much_it_gave(command, tmp_path, monkeypatch):
    arguments = ["--data", tree(tmp_path / "toys"), "--model", TOYS, *QUICK]
    assert command(*arguments, "--out", "first")[0] == 0

    def stopped(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("segcertify.training.train", stopped)
    code, shown = command(*arguments, "--out", "second", "--start", "trained:first/model.safetensors")
    assert code != 0
    count = len(weights(tmp_path / "first" / "model.safetensors"))
    assert f"started from first/model.safetensors: {count} of {count} weights" in shown
    assert "stopped by SIGINT: no state is kept yet. The same command goes on from there" in shown


def test_tensorboard_that_is_not_there(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    code, shown = command("--data", tree(tmp_path / "toys"), "--model", TOYS, *QUICK, "--tensorboard", "--out", "run")
    assert code == 2
    assert "error: TensorBoard is not installed" in shown
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").write_text("x")
    code, shown = command("--data", tree(tmp_path / "toys"), "--model", TOYS, *QUICK, "--out", "file/run")
    assert code == 2
    assert "error: cannot write" in shown


def test_a_process_that_was_killed_is_gone_on_with(command, tmp_path):
    arguments = ["--data", tree(tmp_path / "toys"), "--model", "python:toys:mortal", *QUICK]
    result = subprocess.run(
        [*MAIN, "train", *arguments, "--out", "run"],
        cwd=tmp_path,
        env=environment() | {"KILL_AT": "9"},  # the first call is the test whether the model fits
        capture_output=True,
        check=False,
    )
    assert result.returncode == -signal.SIGKILL
    left = {".lock", "recipe.json", "log.csv", "resume.safetensors"}  # the kernel has freed the lock
    assert {file.name for file in (tmp_path / "run").iterdir()} == left
    assert [row["step"] for row in read_log(tmp_path / "run" / "log.csv")] == [2, 4, 6]
    for out in ("run", "whole"):
        assert command(*arguments, "--out", out)[0] == 0
    assert not (tmp_path / "run" / ".lock").exists()
    found, expected = (tmp_path / out / "model.safetensors" for out in ("run", "whole"))
    assert same(weights(found), weights(expected))
    rows = [[(row["step"], row["loss"]) for row in read_log(path.with_name("log.csv"))] for path in (found, expected)]
    assert rows[0] == rows[1]
    assert [step for step, _ in rows[0]] == [2, 4, 6, 8, 10, 12]


def test_two_processes_train_one_model(tmp_path):
    arguments = ["--data", tree(tmp_path / "toys"), "--model", f"{TOYS}?norm=false&dropout=0", "--out", "run", *QUICK]
    arguments += ["--objective", "smoothadv"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone", "-m"]
    result = subprocess.run(
        [*torchrun, "segcertify", "train", *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("wrote run/model.safetensors") == 1
    run = tmp_path / "run"
    assert {file.name for file in run.iterdir()} == {
        "model.safetensors", "model.md", "recipe.json", "log.csv", "loss.png"
    }  # fmt: skip
    assert [row["step"] for row in read_log(run / "log.csv")] == [2, 4, 6, 8, 10, 12]
    assert read_card(run / "model.safetensors").recipe["batch_size"] == 4
