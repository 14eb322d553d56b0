"""`segcertify plan`."""

import numpy as np
import pytest
from PIL import Image

import segcertify as sc
from segcertify.cli.timing import require_sides
from segcertify.looks import look_times


def test_plan(segcertify):
    shown = segcertify("plan", "-N", 1024 * 2048, "--n", 100, "--p", 0.99).out
    assert "2,097,152" in shown
    assert "75" in shown
    assert "0.75, 0.001, holm" in shown
    assert "if all components have as many" in shown
    alone = segcertify("plan", "-N", 1, "--n", 100, "--json").json["tolerates"]
    assert f"once Holm certified all others {alone}" in " ".join(shown.replace("│", " ").split())


def test_plan_a_radius(segcertify):
    arguments = ["plan", "-N", 2048, "--tau", 0.75, "--noise", "rotation", "--target-radius"]
    shown = segcertify(*arguments, 3.1415926).out
    assert "sigma of rotation noise that proves R = 3.14159" in shown
    assert "2.22356" in shown
    assert "no rotation is farther than pi, but the radius is 5" in segcertify(*arguments, 5, code=2).err


def test_json(segcertify):
    found = segcertify("plan", "-N", 1024 * 2048, "--n", 100, "--target-radius", 0.5, "--json").json
    assert (found["N"], found["n_min"], found["tolerates"], found["expected"]) == (1024 * 2048, 75, 2, None)
    assert found["sigma"] == pytest.approx(0.5 / 0.67449, rel=1e-4)


def test_sets(segcertify):
    arguments = ["plan", "-N", 172_800, "--sets", "--classes", 11, "--n", 100]
    shown = segcertify(*arguments).text
    assert "smallest n that excludes a label never seen │ 64" in shown
    assert "3; at best, where every other set keeps one label, 4" in shown
    found = segcertify(*arguments, "--n0", 0, "--json").json
    assert (found["n_min"], found["n_label"], found["n0"], found["classes"]) == (74, 69, 0, 11)
    assert "excludes nothing" in segcertify("plan", "-N", 172_800, "--sets", "--tau", 0.95, "--n", 100).text


@pytest.mark.parametrize("budget", [["--k", 3], ["--b", 2]])
def test_k_fwer(segcertify, budget):
    found = segcertify("plan", "-N", 2048, "--correction", "k-fwer", *budget, "--json").json
    assert found["correction"] == "k-fwer"
    assert found["n_min"] < segcertify("plan", "-N", 2048, "--json").json["n_min"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tau", "0.3"], "error: tau must lie in [0.5, 1), but got 0.3"),
        (["--correction", "none"], "error: unknown correction 'none'"),
        (["--correction", "k-fwer"], "needs k, or an error budget b"),
        (["--classes", "3"], "--classes 3 is for the plan of sets: add --sets"),
        (["--k", "2"], "k and b belong to correction='k-fwer'"),
    ],
)
def test_bad_input(segcertify, options, message):
    assert message in segcertify("plan", "-N", "10", *options, code=2).err


def test_the_times_of_looks(segcertify):
    """Those that `certify --looks` has, at alpha / 4."""
    found = segcertify("plan", "-N", 38400, "--n", 200, "--looks", 4, "--json").json
    assert found["looks"] == list(look_times(200, 4, least=found["n_min"])) == [66, 110, 155, 200]
    assert found["n_min"] == sc.plan(38400, 0.75, alpha=0.001 / 4).n_min
    shown = segcertify("plan", "-N", 38400, "--n", 200, "--looks", 4).text.replace("│", "")
    assert "after 66, 110, 155, 200 draws, each at alpha / 4" in shown
    assert "add --n" in segcertify("plan", "-N", 9, "--looks", 4, code=2).err
    refused = segcertify("plan", "-N", 9, "--n", 200, "--looks", 4, "--correction", "bh", code=2).err
    assert "not proven for votes with looks" in refused


def test_a_capped_radius_map(segcertify):
    """The smallest n gives all components the cap's radius if all draws agree, and one draw less does not."""
    arguments = ["plan", "-N", 192, "--cap", 0.9, "--sigma", 0.25]
    found = segcertify(*arguments, "--json").json
    for n, full in ((found["n_min"], True), (found["n_min"] - 1, False)):
        votes = sc.Votes(np.ones(192, int), np.full(192, n), n=n, n0=10, noise=sc.Gaussian(0.25))
        radii = sc.radius_map(votes, alpha=0.001, cap=0.9)
        assert bool((radii >= sc.Gaussian(0.25).radius(0.9)).all()) is full
    assert "radius of the cap" in segcertify(*arguments).out
    assert "has Holm's levels" in segcertify(*arguments, "--correction", "bonferroni", code=2).err


def test_the_time_on_this_machine(segcertify, folder):
    (folder / "slow_model.py").write_text(
        "import time\ndef make():\n    def model(batch):\n        time.sleep(0.002 * len(batch))\n"
        "        return (batch.mean(1) > 0.5).long()\n    return model\n"
    )
    Image.new("RGB", (40, 30)).save(folder / "photo.png")
    model = ["plan", "--model", "python:slow_model:make", "--n", 100, "--batch-size", 8]
    for about in (["--size", "30x40"], ["--input", "photo.png"]):
        found = segcertify(*model, *about, "--json").json
        assert found["N"] == 1200
        assert found["estimated_seconds"] == pytest.approx(110 * found["timing"]["seconds_per_draw"])
        assert found["timing"]["seconds_per_draw"] >= 0.002
    assert "time of 110 draws on this machine, an estimate" in segcertify(*model, "--size", "30x40").text
    free = segcertify(*model[:3], "--size", "30x40", "--json").json  # no n given: the time of the recommended one
    assert free["estimated_seconds"] == pytest.approx((10 + free["recommended_n"]) * free["timing"]["seconds_per_draw"])
    metric = segcertify(*model, "--size", "30x40", "--share", 0.5, "--sigma", 0.25, "--json").json
    assert metric["estimated_seconds"] == pytest.approx(100 * metric["timing"]["seconds_per_draw"])
    for options, message in (
        ([*model], "give one of --input FILE and --size"), ([*model, "--size", "30"], "--size takes height and width"),
        (["plan", "-N", 9, "--size", "3x4"], "add --model"),
        ([*model, "--size", "0x4"], "--size takes height and width"),
        ([*model, "--size", "99999x99999"], "--size takes height and width"),
    ):  # fmt: skip
        assert message in segcertify(*options, code=2).err


def test_sizes():
    assert require_sides("360x480") == (360, 480)


def test_a_size_a_recommended_n_and_the_radius_of_a_sigma(segcertify):
    shown = segcertify("plan", "-N", "360x480", "--sigma", 0.25)
    assert "172,800" in shown.text
    assert "recommended n" in shown.text
    assert "radius R of Gaussian(sigma=0.25), l2 norm" in shown.text
    assert "0.1686" in shown.text
    values = segcertify("plan", "-N", "360X480", "--sigma", 0.25, "--json").json
    assert values["N"] == 360 * 480
    assert values["radius"] == sc.Gaussian(0.25).radius(0.75)
    assert values["recommended_n"] == 130
    assert f"{sc.plan(N=360 * 480, tau=0.75, alpha=0.001, n=130).tolerates} draws may disagree" in shown.text
    assert segcertify("plan", "-N", "16x8x4", "--json").json["N"] == 512
    for wrong in ("360x", "0x4", "many", "-3"):
        assert "a number of components is such as 2048" in segcertify("plan", f"-N={wrong}", code=2).text
