"""Golden files: what the package wrote once is still read as it was, and made again as it was.

`generate.py` made the files and says how. Only public names are used here. What depends on the spelling of options or
on names of files and columns is in the section "The command line" of `generate.py`.
"""

import json
import shutil

import generate
import numpy as np
import pytest

import segcertify as sc

EXPECTED = json.loads((generate.FILES / "expected.json").read_text(encoding="utf-8"))


def plain(value):
    """A value as JSON has it."""
    return json.loads(json.dumps(value))


def golden_votes(name):
    return sc.Votes.load(generate.FILES / "votes" / f"{name}.safetensors")


def golden_certificate(name):
    return sc.Certificate.load(generate.FILES / "certificates" / f"{name}.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the golden data sets, where commands run."""
    return shutil.copytree(generate.DATA, tmp_path_factory.mktemp("golden"), dirs_exist_ok=True)


def test_every_file_is_looked_at():
    """A file that no test knows, or an expectation without a file, is a mistake."""
    found = {kind: {path.name for path in (generate.FILES / kind).iterdir()} for kind in ("votes", "certificates")}
    assert found["votes"] == {f"{name}.safetensors" for name in EXPECTED["votes"]}
    assert found["certificates"] == {f"{name}.safetensors" for name in EXPECTED["certificates"]}
    assert {path.name for path in (generate.FILES / "runs").iterdir()} == set(EXPECTED["runs"])
    assert set(EXPECTED["votes"]) == set(generate.CASES)
    assert set(EXPECTED["runs"]) == set(generate.RUNS)


@pytest.mark.parametrize("name", EXPECTED["votes"])
def test_votes_are_read(name, tmp_path):
    """Also after they were written again."""
    votes = golden_votes(name)
    assert plain(generate.plain_votes(votes)) == EXPECTED["votes"][name]
    votes.save(tmp_path / "again.safetensors")
    assert plain(generate.plain_votes(sc.Votes.load(tmp_path / "again.safetensors"))) == EXPECTED["votes"][name]


@pytest.mark.parametrize("batch_size", [1, 7, None])
@pytest.mark.parametrize("name", EXPECTED["votes"])
def test_votes_are_sampled_again(name, batch_size):
    votes = generate.CASES[name].sample(batch_size=batch_size)
    assert plain(generate.plain_votes(votes)) == EXPECTED["votes"][name]


@pytest.mark.parametrize("name", EXPECTED["certificates"])
def test_certificates_are_read(name, tmp_path):
    """Also after they were written again."""
    certificate = golden_certificate(name)
    assert plain(generate.plain_certificate(certificate)) == EXPECTED["certificates"][name]
    certificate.save(tmp_path / "again.safetensors")
    again = sc.Certificate.load(tmp_path / "again.safetensors")
    assert plain(generate.plain_certificate(again)) == EXPECTED["certificates"][name]


def test_certificates_are_made_again():
    made = generate.certificates({name: golden_votes(name) for name in EXPECTED["votes"]})
    assert plain({name: generate.plain_certificate(each) for name, each in made.items()}) == EXPECTED["certificates"]


@pytest.mark.parametrize("name", EXPECTED["radii"])
def test_radii(name):
    """The radius map and IndivClass."""
    assert plain(generate.plain_radii(golden_votes(name))) == EXPECTED["radii"][name]


def test_single_calls():
    """`certify`, JointClass, Cohen's Predict and Certify, and `plan`."""
    found = plain(generate.calls())
    assert found.keys() == EXPECTED["calls"].keys()
    for name, expected in EXPECTED["calls"].items():
        assert found[name] == expected, name


def test_halves_merge_to_the_whole():
    case = generate.CASES["image-first-half"]
    merged = golden_votes("image-first-half").merge(golden_votes("image-second-half"))
    assert generate.plain_votes(merged) == generate.plain_votes(case.sample(n=100))


@pytest.mark.parametrize("phase", generate.STOPS)
def test_a_stopped_run_resumes(phase, tmp_path):
    """The votes are those of the whole run, and the draws before the stop are not drawn again."""
    path = shutil.copy(generate.FILES / "checkpoints" / f"{phase}.safetensors", tmp_path / "checkpoint.safetensors")
    votes, resumed = generate.resume(phase, path)
    assert plain(generate.plain_votes(votes)) == EXPECTED["votes"][generate.STOPS[phase][0]]
    _, whole = generate.resume(phase, tmp_path / "new.safetensors")
    assert resumed < whole


@pytest.mark.parametrize("name", generate.SINGLES)
def test_the_command_certifies_again(name, folder):
    generate.run(f"certify-{name}", folder, name)
    assert plain(generate.single(folder / name)) == EXPECTED["singles"][name]


def includes(found, expected):
    """Whether records have all that is expected; new fields may be added."""
    pairs = zip(found, expected, strict=True)
    return all({key: new.get(key) for key in old} == old for new, old in pairs)


@pytest.mark.parametrize("name", generate.RUNS)
def test_runs_are_evaluated_again(name, folder):
    expected = EXPECTED["runs"][name]
    assert generate.records(generate.FILES / "runs" / name) == expected
    generate.run(name, folder, f"run-{name}")
    assert includes(plain(generate.records(folder / f"run-{name}")), expected)


@pytest.mark.parametrize("name", generate.RUNS)
def test_old_runs_are_reported(name, folder):
    """The numbers of the table, by the columns that it still has.

    Two columns mean less than they did: what is no lower bound under attack has a dash, and a bound is rounded down.
    The accuracy that every row has stood under "certified accuracy", also that of the base model.
    """
    shutil.copytree(generate.FILES / "runs" / name, folder / f"old-{name}")
    generate.run("report", folder, f"old-{name}")
    for found, expected in zip(generate.report_rows(folder / f"old-{name}"), EXPECTED["reports"][name], strict=True):
        expected["accuracy"], bounds = expected["certified accuracy"], {key for key in expected if "worst" in key}
        bounds.add("certified accuracy")
        assert expected["setting"] == found["setting"]
        family_wise = found["setting"].endswith(("holm", "bonferroni"))
        for key in bounds:
            below = float(expected[key] or 0) - 0.0001
            assert found[key] in ((expected[key], f"{below:.4f}") if family_wise else ("-",)), key
        shared = (found.keys() & expected.keys()) - {"setting"} - bounds
        assert {"R", "accuracy", "abstained (all)"} <= shared
        assert {key: found[key] for key in shared} == {key: expected[key] or "-" for key in shared}


@pytest.fixture(scope="module")
def trained():
    return sc.models.load(f"trained:{generate.FILES / 'trained' / generate.MODEL_FILE}")


def test_a_trained_model_is_read(trained):
    found, expected = plain(generate.plain_model(trained)), EXPECTED["trained"]
    assert found["tensors"] == expected["tensors"]
    assert found["card"] == expected["card"]
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-4)


def test_a_model_is_trained_again(folder):
    """Within rounding, which training amplifies: on another CPU, two steps differed by 1e-6 and six by 0.4 %."""
    generate.run("train", folder, "trained")
    assert generate.losses(generate.FILES / "trained" / generate.LOG_FILE) == EXPECTED["trained"]["losses"]
    found = generate.losses(folder / "trained" / generate.LOG_FILE)
    np.testing.assert_allclose(found[0], EXPECTED["trained"]["losses"][0], rtol=1e-4)
    np.testing.assert_allclose(found, EXPECTED["trained"]["losses"], rtol=0.02)
    model = sc.models.load(f"trained:{folder / 'trained' / generate.MODEL_FILE}")
    np.testing.assert_allclose(generate.answers(model), EXPECTED["trained"]["logits"], atol=0.1)
