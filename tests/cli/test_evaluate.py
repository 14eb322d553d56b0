"""`segcertify evaluate`."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import evaluated
import pytest
import trees

import segcertify as sc
from segcertify.evaluation import Setting
from segcertify.records import read_records

pytestmark = pytest.mark.fresh_seed

SETTINGS = [Setting(0.1, 60, 0.75), Setting(0.1, 120, 0.9), Setting(0.3, 60, 0.75), Setting(0.3, 60, 0.95)]
MODULE = """
import os, time
import torch

def brightness():
    def model(batch):
        if os.environ.get("SLOW"):
            time.sleep(0.02)
        grey = batch.mean(1)
        return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)
    return model
"""
LINEAR = """
import torch

def make():
    return lambda batch: torch.stack([0.5 - batch.mean(1), batch.mean(1) - 0.5, batch.mean(1) - 9], 1)
"""


@pytest.fixture
def evaluate(folder, segcertify):
    """The command on two small images, with further options."""
    trees.pets(folder / "pets", count=2)
    (folder / "linear_model.py").write_text(LINEAR)
    arguments = ["evaluate", "--model", "python:linear_model:make", "--data", "pets:pets", "--out", "run"]
    return lambda *options, code=0: segcertify(*arguments, *options, code=code)


ONE = ["--sigma", 0.25, "--n", 60, "--tau", 0.75]


def test_one_claim_in_two_forms(evaluate, folder):
    evaluate(*ONE)
    records = (folder / "run" / "records.jsonl").read_text()
    shown = evaluate("--setting", "tau=0.75,n=60,sigma=0.25")  # the same run, so nothing is left to do
    assert "run was finished already; its report is in run/report" in shown.text
    assert "wrote" not in shown.text
    assert "sigma=0.25, n=60, tau=0.75, holm" in shown.text
    assert (folder / "run" / "records.jsonl").read_text() == records


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "name a claim with --sigma 0.25 --n 100 --tau 0.75"),
        (["--setting", "0.25,100,0.75"], "write --setting sigma=0.25,n=100,tau=0.75 instead of 0.25,100,0.75"),
        (["--setting", "sigma=1,n=9,tau=.75", "--n", 9], "use one form or the other"),
        ([*ONE, "--data", "x"], "unknown data set 'x'"),
        ([*ONE, "--attack", "--loss", "hinge"], "unknown loss 'hinge'"),
        ([*ONE, "--attack", "--radius", "-1"], "the radius of an attack must be positive, but got -1.0"),
        ([*ONE, "--steps", "9"], "--steps is for an attack, but there is none: add --attack"),
        ([*ONE, "--radius", "1"], "--radius is for an attack, but there is none: add --attack"),
        ([*ONE, "--attack", "--smoothed-draws", "-1"], "must be an integer not less than 0"),
        ([*ONE, "--correction", "k-fwer"], "needs k, or an error budget b"),
        ([*ONE, "--k", "2"], "k and b belong to correction='k-fwer'"),
        ([*ONE, "--until", "0.9"], "until is asked at looks: give looks too"),
        ([*ONE, "--looks", "2", "--correction", "by"], "the correction 'by' is not proven for votes with looks"),
        ([*ONE, "--looks", "2", "--metric", "agreement"], "metrics need all n draws, but looks may stop earlier"),
        ([*ONE, "--looks", "2", "--n0", "0"], "n0"),
    ],
)
def test_bad_options(evaluate, folder, options, message):
    assert message in evaluate(*options, code=2).err
    assert not (folder / "run").exists()


def test_an_attack(evaluate, folder):
    attack = ["--attack", "--loss", "cospgd", "--steps", "5", "--restarts", "2", "--radius", "0.5"]
    assert "Under attack" in evaluate(*ONE, *attack).out
    stored = json.loads((folder / "run" / "config.json").read_text())["attack"]
    assert stored == {"loss": "cospgd", "radii": [0.5], "steps": 5, "restarts": 2, "smoothed": 0}
    report = {path.name: path for path in (folder / "run" / "report").iterdir()}
    assert {f"attacked.{suffix}" for suffix in ("md", "tex", "csv", "png")} < set(report)
    first, second = csv.DictReader(report["attacked.csv"].read_text(encoding="utf-8").splitlines())
    assert float(second["base accuracy"]) < float(first["base accuracy"])
    assert "smoothed accuracy" not in first


def test_without_an_attack_the_report_has_none(evaluate, folder):
    assert "Under attack" not in evaluate(*ONE).out
    assert "attacked" not in {path.stem for path in (folder / "run" / "report").iterdir()}


@pytest.mark.parametrize("budget", [["--k", 3], ["--b", 2]])
def test_k_fwer(evaluate, segcertify, budget):
    """Fewer than k errors are allowed: more is certified than by Holm, and an audit uses the same k."""
    corrections = ["--correction", "k-fwer", "--correction", "holm"]
    shown = evaluate(*ONE, *corrections, *budget, "--votes").text
    assert "Rows of k-fwer: With probability at least 0.998 over the noise draws, of the certified components" in shown
    assert "all but at most 2 keep their label" in shown
    assert shown.count("are then lower bounds for the smoothed model under attack") == 2
    assert "this budget is subtracted, 2 labels a scene and 4 in all" in shown
    results = segcertify("report", "run", "--json").json["results"]
    weak, strong = (next(row for row in results if name in row["setting"]) for name in ("k-fwer", "holm"))
    valid = sum(record.valid for record in read_records("run/records.jsonl") if record.kind == "base")
    assert weak["certified accuracy"] == pytest.approx(weak["accuracy"] - 4 / valid, abs=2e-4)
    assert 0 < weak["mIoU worst case"] < weak["mIoU pooled"]
    assert strong["certified accuracy"] <= strong["accuracy"] <= strong["certified accuracy"] + 1e-4
    assert weak["abstained (all)"] <= strong["abstained (all)"]
    audit = ["audit", "run", "--model", "python:linear_model:make", "--data", "pets:pets", "--n", 200, "--steps", 0]
    assert "0 of 2 inputs have a violation" in segcertify(*audit, "--correction", "k-fwer").text


def test_metrics(evaluate, segcertify):
    """Bounds on metrics of noisy runs stand in a table of their own."""
    shown = evaluate(*ONE, "--metric", "accuracy", "--metric", "area:1", "--target-radius", 0.1, "--share", 0.6).text
    assert "at least 60% of the noisy runs have the metric at or above that scene's bound" in shown
    rows = segcertify("report", "run", "--json").json["metrics"]
    assert [(row["metric"], row["R"]) for row in rows] == [("accuracy", 0.1), ("area:1", 0.1)]
    assert 0 < rows[0]["smallest bound"] <= rows[0]["bound"] <= rows[0]["median run, no attack"]
    assert (rows[0]["upper bound"], rows[1]["upper bound"] is None) == (None, False)
    assert "are for a metric: add --metric" in evaluate(*ONE, "--share", 0.6, code=2).text


def test_sets(evaluate, segcertify, folder):
    found = evaluate(*ONE, "--sets", "--votes", "--pictures", "--alpha", 0.01, "--json").json
    assert [row["sets by"] for row in found["sets"]] == ["exclusion", "nested groups", "posterior gap"]
    assert {"certified label", "at most 2", "truth in set", "information gain"} <= set(found["sets"][0])
    for name in ("sets", "sets-classes"):
        assert all((folder / "run" / "report" / f"{name}.{form}").is_file() for form in ("md", "tex", "csv"))
    assert list((folder / "run" / "certified").glob("*-sets.png"))
    assert segcertify("report", "run", "--json").json["sets"] == found["sets"]
    assert "Sets, majority or nothing" in segcertify("report", "run").text
    audited = segcertify(
        "audit", "run", "--model", "python:linear_model:make", "--data", "pets:pets", "--sets", "--n", 100
    )
    assert "0 of 2 inputs have a violation" in audited.text
    assert "belongs to another run" in evaluate(*ONE, "--alpha", 0.01, code=2).err


def test_too_few_draws_for_sets_are_noted_first(evaluate):
    shown = evaluate("--sigma", 0.25, "--n", 20, "--tau", 0.9, "--sets")
    assert "no label will be excluded from a set at n=20, tau=0.9: use n >= " in shown.text


def test_json_and_quiet(evaluate):
    shown = evaluate(*ONE, "--json")
    assert [row["R"] for row in shown.json["results"]] == [None, 0.1686]
    base = shown.json["results"][0]
    assert base["certified accuracy"] is base["mIoU worst case"] is None  # a base model certifies nothing
    assert 0 < base["accuracy"] <= 1
    assert "run/report/results.csv" in shown.json["files"]
    quiet = evaluate(*ONE, "--quiet")
    assert "wrote" not in quiet.out
    assert quiet.err == ""


def test_too_few_draws_are_noted_first(evaluate):
    shown = evaluate("--setting", "sigma=0.1,n=9,tau=.75", "--setting", "sigma=0.1,n=60,tau=.75").err
    assert shown.count("all will abstain: n=9 can certify nothing") == 1
    assert "n=60 can" not in shown


@pytest.mark.parametrize("noise", ["rotation:z", "laplace"])
def test_the_noise_of_clouds(folder, segcertify, noise):
    trees.shapenet(folder / "shapenet")
    (folder / "half_model.py").write_text("def make():\n    return lambda batch: (batch[..., 0] > 0).long()\n")
    arguments = ["evaluate", "--model", "python:half_model:make", "--data", "shapenet:shapenet?points=64"]
    arguments += ["--sigma", 0.1, "--n", 60, "--noise", noise, "--limit", "2", "--pictures", "--out", "run"]
    assert f"{noise} noise" in segcertify(*arguments).text
    assert (folder / "run" / "report" / "categories.csv").is_file()
    assert len(list((folder / "run" / "certified").glob("*.html"))) == 2


@pytest.fixture
def pets(tmp_path):
    return evaluated.pets(tmp_path / "pets")


def command_of(pets, tmp_path):
    """The command line of an evaluation of five scenes, to be run as a process; with SLOW set it takes seconds."""
    (tmp_path / "my_model.py").write_text(MODULE)
    arguments = ["evaluate", "--model", "python:my_model:brightness", "--data", f"pets:{pets}", "--batch-size", "5"]
    arguments += ["--seed", "0"]  # other processes know no marker
    for setting in SETTINGS:
        arguments += ["--setting", f"sigma={setting.sigma},n={setting.n},tau={setting.tau}"]
    return [sys.executable, "-c", "from segcertify.cli import main; main()", *arguments]


def test_a_second_process_on_the_same_folder_is_refused(pets, tmp_path):
    """Two real processes: the second names the first and touches nothing. Once the first is killed, a third goes on."""
    command = [*command_of(pets, tmp_path), "--out", "run"]
    slow = {"cwd": tmp_path, "env": os.environ | {"SLOW": "1"}, "stdout": subprocess.DEVNULL}
    path = tmp_path / "run" / "records.jsonl"
    with subprocess.Popen(command, **slow) as first:
        while not path.exists() and first.poll() is None:
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)  # it stands still, and keeps its folder
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)  # noqa: PLW1510
        first.send_signal(signal.SIGKILL)
    shown = " ".join(second.stderr.split())
    assert (second.returncode, f"run is in use by process {first.pid} on " in shown) == (2, True), shown
    assert subprocess.run(command, cwd=tmp_path, stdout=subprocess.DEVNULL, check=True).returncode == 0
    records = evaluated.without_times(path)
    assert len(records) == 5 * 7
    assert len({str([record[key] for key in ("id", "kind", "sigma", "n", "tau")]) for record in records}) == 5 * 7


def test_killed_three_times_gives_the_same_records(pets, tmp_path):
    """kill -9 through the command line, at three moments; the records equal those of one run, but for times."""
    command = [*command_of(pets, tmp_path), "--votes"]

    def records(out):
        path = tmp_path / out / "records.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    for killed in range(3):
        process = subprocess.Popen(
            [*command, "--out", "killed"], cwd=tmp_path, env=os.environ | {"SLOW": "1"}, stdout=subprocess.DEVNULL
        )
        target = killed + 1
        while records("killed") < target and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert records("killed") < 5 * 7
    for out in ("killed", "whole"):
        subprocess.run([*command, "--out", out], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    assert evaluated.without_times(tmp_path / "killed" / "records.jsonl") == evaluated.without_times(
        tmp_path / "whole" / "records.jsonl"
    )
    for votes in (tmp_path / "whole" / "votes").iterdir():
        assert votes.read_bytes() == (tmp_path / "killed" / "votes" / votes.name).read_bytes()
    assert json.loads((tmp_path / "killed" / "config.json").read_text())["model"] == "python:my_model:brightness"
    assert not list((tmp_path / "killed").glob("resume*"))
    assert {file.suffix for file in (tmp_path / "whole" / "report").iterdir()} == {
        ".md",
        ".tex",
        ".csv",
        ".png",
        ".html",
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_says_what_is_kept(pets, tmp_path, number):
    """A real process, in its second scene: the exit code is the shell's, and nothing is a traceback."""
    command = [*command_of(pets, tmp_path), "--out", "run"]
    path = tmp_path / "run" / "records.jsonl"
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | {"SLOW": "1"}, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 (nohup, for one, ignores SIGHUP)
    ) as process:  # fmt: skip
        while not (path.exists() and path.read_text()) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        shown = " ".join(process.stderr.read().decode().split())
    assert process.returncode == 128 + number
    assert f"stopped by {number.name}: the records of 1 scene are kept in run" in shown
    assert "The same command goes on from there" in shown
    assert "Traceback" not in shown


def test_a_signal_while_modules_load_is_one_line():
    code = "import os, signal, sys\n"
    code += "class Slow:\n    def find_spec(self, name, *_):\n"
    code += "        if name == 'typer': os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "sys.meta_path.insert(0, Slow())\nfrom segcertify.__main__ import main\nmain()\n"
    ended = subprocess.run([sys.executable, "-c", code, "plan"], capture_output=True, text=True)  # noqa: PLW1510
    assert (ended.returncode, ended.stderr) == (143, "stopped by SIGTERM: give the same command again\n")


def test_images_are_resized(evaluate, segcertify, folder):
    rows = evaluate(*ONE, "--short-side", 6, "--votes", "--json").json["results"]
    assert len(rows) == 2
    votes = sc.Votes.load(next((folder / "run" / "votes").iterdir()))
    assert min(votes.candidate.shape) == 6
    audit = ["audit", "run", "--model", "python:linear_model:make", "--data", "pets:pets", "--n", 200, "--steps", 0]
    assert "0 of 2 inputs have a violation" in segcertify(*audit, "--short-side", 6).text
    assert "is not the input that run certified" in segcertify(*audit, code=2).err


def test_a_resumed_run_takes_the_recorded_seed(evaluate, folder):
    """Without --seed the run draws one, which config.json keeps; --seed takes it too, and refuses others."""
    evaluate(*ONE, "--votes")
    stored = json.loads((folder / "run" / "config.json").read_text())
    assert (stored["seed"] >= 2**64, stored["seed_given"]) == (True, False)
    votes = sc.Votes.load(next((folder / "run" / "votes").iterdir()))
    assert (votes.seed, votes.seed_given) == (stored["seed"], False)
    for again in ((), ("--seed", hex(stored["seed"]))):
        assert "run was finished already" in evaluate(*ONE, "--votes", *again).out
    assert "its seed is" in evaluate(*ONE, "--votes", "--seed", 3, code=2).err
    evaluate(*ONE, "--votes", "--seed", stored["seed"], "--out", "again")
    first, again = (evaluated.without_times(folder / name / "records.jsonl") for name in ("run", "again"))
    assert again == first
    assert json.loads((folder / "again" / "config.json").read_text())["seed_given"]


def test_a_broken_image_is_refused_before_the_work_or_skipped_and_reported(evaluate, folder, segcertify):
    """Also if it is the first. A resumed run sees the same skips, whatever became of the file."""
    trees.pets(folder / "pets", count=5)
    for name in ("00", "03"):
        image = folder / "pets" / "images" / f"Abyssinian_{name}.jpg"
        image.write_bytes(image.read_bytes()[:300])
    refused = evaluate(*ONE, code=2).text
    assert "scene 'Abyssinian_00':" in refused
    assert "Abyssinian_00.jpg cannot be read" in refused
    assert "and 1 scene more. Mend the files, or skip such scenes (--skip-broken)" in refused
    assert not (folder / "run").exists()
    shown = evaluate(*ONE, "--skip-broken", "--json").json
    assert [row["scene"] for row in shown["skipped"]] == ["Abyssinian_00", "Abyssinian_03"]
    assert "Abyssinian_00.jpg cannot be read" in shown["skipped"][0]["reason"]
    table = (folder / "run" / "report" / "results.md").read_text()
    assert (
        "- 2 scenes could not be read and were skipped, in no row: Abyssinian_00, Abyssinian_03.\n- 3 scenes." in table
    )
    rows = list(csv.DictReader((folder / "run" / "report" / "skipped.csv").read_text().splitlines()))
    assert [row["scene"] for row in rows] == ["Abyssinian_00", "Abyssinian_03"]
    lines = (folder / "run" / "records.jsonl").read_text().splitlines(keepends=True)
    assert [json.loads(line)["kind"] for line in lines].count("skipped") == 2
    for kept in (lines[:1], lines[:4], lines[:6], lines):  # cut after the skip, after a scene, in a scene, not at all
        (folder / "run" / "records.jsonl").write_text("".join(kept))
        evaluate(*ONE, "--skip-broken")
        again = [json.loads(line) for line in (folder / "run" / "records.jsonl").read_text().splitlines()]
        assert [(line["id"], line["kind"]) for line in again] == [
            (json.loads(line)["id"], json.loads(line)["kind"]) for line in lines
        ]
    with (folder / "run" / "records.jsonl").open("w") as file:
        file.writelines(lines[1:])
    assert "records.jsonl, line 1" in segcertify("report", "run", code=2).text  # a skip that was taken out


def test_looks_end_the_draws_of_a_scene_and_an_audit_takes_the_run(evaluate, segcertify):
    looks = ["--sigma", 0.25, "--n", 300, "--tau", 0.75, "--looks", 4, "--until", 0.1, "--votes"]
    found = evaluate(*looks, "--json").json["results"][1]
    assert found["draws used, all"] + found["draws saved, all"] == 600
    assert found["draws saved, mean"] > 0
    again = evaluate(*looks)
    assert "run was finished already" in again.text
    assert "fixed before sampling, each at alpha / 4" in again.text
    audited = segcertify(
        "audit", "run", "--model", "python:linear_model:make", "--data", "pets:pets", "--n", 200, "--steps", 2
    )
    assert "0 of 2 inputs have a violation" in audited.text
    assert "looks" in evaluate(*looks, "--looks", 3, code=2).text
