"""`segcertify plan`."""

import pytest


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
