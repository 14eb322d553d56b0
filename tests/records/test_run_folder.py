"""The folder of a run: whose it is, what it holds, and folders of earlier versions."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from segcertify import InputError
from segcertify.records import AttackSettings, Configuration, MetricSettings, Record, RunFolder, Setting
from segcertify.records.stored_settings import require_settings
from segcertify.sampling.seeds import Seed
from segcertify.storage.plain_values import digest_of

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "runs"
SETTING = Setting(0.25, 100, 0.75)
CONFIGURATION = Configuration(
    model="m",
    identity={"weights": "ab", "classes": ["Conv2d"], "settings": {"": {"class": "MultiScale", "scales": (1.0,)}}},
    data="d",
    classes=("a", "b"),
    categories={"Mug": (0, 1)},
    scenes="0123",
    settings=(SETTING,),
    corrections=("holm",),
    n0=10,
    alpha=0.001,
    seed=0,
    noise="rotation:z",
    precision="fp32",
    device="cpu",
)


def test_a_folder_is_claimed_once(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert not folder.claimed
    folder.claim(CONFIGURATION)
    assert folder.claimed
    assert os.listdir(tmp_path / "run") == ["config.json"]
    folder.claim(CONFIGURATION)
    with pytest.raises(InputError, match=r"run belongs to another run: its alpha is 0\.001, now it is 0\.01"):
        folder.claim(replace(CONFIGURATION, alpha=0.01))
    other = CONFIGURATION.identity | {"settings": {}}
    with pytest.raises(InputError, match="belongs to another run: it is of another network"):
        folder.claim(replace(CONFIGURATION, identity=other))


def test_the_seed_of_a_run(tmp_path):
    """Of 128 bits too; the seeds of earlier versions were all given."""
    assert RunFolder(tmp_path / "run").seed is None
    RunFolder(tmp_path / "run").claim(replace(CONFIGURATION, seed=2**128 - 5, seed_given=False))
    assert RunFolder(tmp_path / "run").seed == Seed(2**128 - 5, given=False)
    with pytest.raises(InputError, match=rf"its seed is {2**128 - 5}, now it is 3"):
        RunFolder(tmp_path / "run").claim(replace(CONFIGURATION, seed=3))
    assert RunFolder(GOLDEN / "image-gaussian").seed.given


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        RunFolder(tmp_path / "file" / "run").claim(CONFIGURATION)


MEASURED = replace(
    CONFIGURATION, metrics=MetricSettings(("accuracy",)), attack=AttackSettings(radii=(0.1,), smoothed=2)
)
RECORDS = (
    Record("a", "base", 4, 3),
    Record("a", "attacked", 4, 3, radius=0.1),
    Record("a", "attacked", 4, 3, sigma=0.25, n=2, radius=0.0),
    Record("a", "attacked", 4, 3, sigma=0.25, n=2, radius=0.1),
    Record("a", "radius", 4, 3, sigma=0.25, n=100, correct=[0] * 100 + [3]),
    Record("a", "metric", 4, 3, sigma=0.25, n=100, metric="accuracy", values=[0.5] * 100),
    Record("a", "certified", 4, 3, sigma=0.25, n=100, tau=0.75, correction="holm", radius=0.1),
)


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (0, {"kind": "attacked", "radius": 0.2}),
        (1, {"radius": 0.2}),
        (2, {"radius": 0.2}),
        (3, {"sigma": 0.5}),
        (5, {"metric": "miou"}),
        (5, {"sigma": 0.5}),
        (5, {"n": 1, "values": [1.0]}),
        (6, {"kind": "metric", "metric": "miou", "values": [1.0] * 100}),
        (6, {"kind": "attacked"}),
    ],
)
def test_records_that_the_configuration_does_not_ask_for_are_refused(tmp_path, number, changes):
    """Whoever changes the same record of every scene, and makes the digests again, gets no table of them."""
    folder = RunFolder(tmp_path)
    folder.claim(MEASURED)
    records = [replace(record, id=scene) for scene in "ab" for record in RECORDS]
    folder.record_file().append(records[:7])
    folder.record_file().append(records[7:])
    assert folder.records() == records
    path, digest = tmp_path / "records.jsonl", ""
    path.unlink()
    for index, record in enumerate(records):
        changed = replace(record, **(changes if index % 7 == number else {}))
        with path.open("a") as file:
            file.write(changed.line(digest))
        digest = changed.digest(digest)
    with pytest.raises(InputError, match=r"records of scene 'a' are not those that config\.json asks for"):
        folder.records()


def test_names_of_files(tmp_path):
    folder = RunFolder(tmp_path, ["a/b", "a_b", "c"])
    assert folder.votes("c", 0.25) == tmp_path / "votes" / "c-sigma0.25.safetensors"
    assert folder.checkpoint("c", 0.25) == tmp_path / "resume-c-sigma0.25.safetensors"
    assert folder.pictures("c", SETTING, "holm") == tmp_path / "certified" / "c-sigma0.25-n100-tau0.75-holm"
    assert folder.votes("a/b", 0.25) != folder.votes("a_b", 0.25)
    for name in ("a/b", "c"):
        folder.votes(name, 0.25).parent.mkdir(exist_ok=True)
        folder.votes(name, 0.25).write_text("")
    assert folder.all_votes(0.25) == sorted([folder.votes("a/b", 0.25), folder.votes("c", 0.25)])
    assert folder.all_votes(0.5) == []


def test_sigmas_and_taus_that_agree_in_six_digits_have_files_of_their_own(tmp_path):
    folder, near = RunFolder(tmp_path, ["c"]), 0.2500001
    assert folder.votes("c", near) != folder.votes("c", 0.25)
    assert folder.checkpoint("c", near) != folder.checkpoint("c", 0.25)
    pictures = {
        folder.pictures("c", each, "holm")
        for each in (SETTING, Setting(near, 100, 0.75), Setting(0.25, 100, 0.7500001))
    }
    assert len(pictures) == 3
    folder.votes("c", near).parent.mkdir()
    folder.votes("c", near).write_text("")
    assert (folder.all_votes(near), folder.all_votes(0.25)) == ([folder.votes("c", near)], [])
    for sigma, text in ((1.0, "1"), (0.1, "0.1"), (0.125, "0.125"), (1e-05, "1e-05")):  # as earlier versions wrote it
        assert folder.checkpoint("c", sigma).name == f"resume-c-sigma{text}.safetensors"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_runs_of_earlier_versions_are_read_and_not_resumed(name):
    stored = json.loads((GOLDEN / name / "config.json").read_text())
    found = RunFolder(GOLDEN / name).configuration()
    assert found["identity"] == stored["weights"]
    assert found["noise"] == {"z-rotation": "rotation:z"}.get(stored["noise"], stored["noise"])
    assert {key: found[key] for key in stored if key not in ("weights", "noise")} == {
        key: value for key, value in stored.items() if key not in ("weights", "noise")
    }
    fields = {key: value for key, value in found.items() if key not in ("settings", "attack")}
    settings = tuple(Setting(**setting) for setting in found["settings"])
    with pytest.raises(InputError, match=r"it is of another network.*or of an earlier segcertify"):
        RunFolder(GOLDEN / name).claim(Configuration(**fields | {"settings": settings, "identity": {"weights": ""}}))


def test_the_oldest_runs_were_of_images_under_gaussian_noise(tmp_path):
    (tmp_path / "config.json").write_text('{"model": "m", "weights": "ab", "data": "d", "scenes": "s", "settings": []}')
    found = RunFolder(tmp_path).configuration()
    assert (found["noise"], found["categories"], found["attack"], found["identity"]) == ("gaussian", {}, None, "ab")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classes": [1]}, "classes must be a list of texts"),
        ({"classes": ["a"] * 5000}, "at most 4096 are evaluated"),
        ({"settings": [{"sigma": 0.25, "n": 10**9, "tau": 0.75}]}, "n must be at most 10,000,000 draws"),
        ({"corrections": ["other"]}, "unknown correction 'other'"),
        ({"categories": {"Mug": [7]}}, "has parts that are no classes"),
        ({"alpha": "0.1"}, "alpha must be a number"),
        ({"preprocessing": {"kind": "cloud", "factor": "x"}}, "preprocessing cannot be"),
        ({"seed_given": 1}, "seed_given must be true or false"),
        ({"noises": {"0.25": 3}}, "a noise must hold values by name"),
        ({"attack": {"radii": [0.1], "steps": 1, "smoothed": 2}}, "attack has no loss, restarts"),
        ({"attack": [1]}, "attack must hold values by name"),
        ({"metrics": {"names": ["miou"], "share": 0.5}}, "metrics has no radii"),
        ({"metrics": {"names": "miou", "share": 0.5, "radii": []}}, "names must be a list"),
        ({"metrics": {"names": ["miou"], "share": "x", "radii": []}}, "share must be a number"),
        ({"metrics": "miou"}, "metrics must hold values by name"),
    ],
)
def test_settings_of_other_types_are_refused(changed, message, tmp_path):
    """With a right digest, as another program would write it."""
    RunFolder(tmp_path).claim(CONFIGURATION)
    stored = RunFolder(tmp_path).configuration()
    require_settings(stored)
    with pytest.raises(InputError, match=message):
        require_settings(stored | changed)


@pytest.mark.parametrize("metrics", [0, [], {}, {"names": "miou"}, {"names": [1]}, {"names": ["miou"], "share": 2}])
def test_stored_metrics_that_cannot_be(metrics):
    found = {
        "settings": [], "categories": {}, "attack": None, "noises": {}, "preprocessing": None, "seed_given": True,
        "looks": None, "cap": None, "sets": [], "alpha": 0.001, "metrics": metrics,
    }  # fmt: skip
    require_settings(found | {"metrics": {"names": ["miou"], "share": 0.5, "radii": []}})
    with pytest.raises(InputError):
        require_settings(found)


def test_a_configuration_without_alpha_is_refused(tmp_path):
    """Claims are made with it: `report` ended in a KeyError."""
    RunFolder(tmp_path).claim(CONFIGURATION)
    stored = json.loads((tmp_path / "config.json").read_text())
    del stored["alpha"], stored["digest"]
    (tmp_path / "config.json").write_text(json.dumps(stored | {"digest": digest_of(stored)}))
    with pytest.raises(InputError, match=r"no evaluation's configuration \('alpha'\)"):
        RunFolder(tmp_path).configuration()
