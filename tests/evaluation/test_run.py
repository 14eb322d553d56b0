"""Evaluations: their records against plain computations, resuming, refusing."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

import evaluated
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import segcertify as sc
from segcertify import metrics
from segcertify.audit import audit_run
from segcertify.data import load, mixture
from segcertify.evaluation import Setting, evaluate
from segcertify.figures.palette import palette
from segcertify.models import Ensemble, MultiScale, View
from segcertify.models.wrappers.normalisation import Normalise
from segcertify.numerals import radius_text
from segcertify.records import RunFolder, read_records
from segcertify.report.figures import radius_figure
from segcertify.report.run import Run

SETTINGS = [Setting(0.1, 60, 0.75), Setting(0.1, 120, 0.9), Setting(0.3, 60, 0.75), Setting(0.3, 60, 0.95)]


def brightness(batch):
    grey = batch.mean(1)
    return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)


@pytest.fixture
def pets(tmp_path):
    return evaluated.pets(tmp_path / "pets")


@pytest.mark.filterwarnings("ignore:n=60 can certify nothing")
def test_records_are_what_single_calls_give(pets, tmp_path):
    data = load(f"pets:{pets}")
    corrections = ("holm", "bonferroni")
    records = evaluate(
        brightness, data, out=tmp_path / "run", settings=SETTINGS, corrections=corrections, seed=3
    ).records
    assert len(records) == 5 * (1 + 2 + len(SETTINGS) * 2)
    for scene in data:
        for setting in SETTINGS:
            for correction in corrections:
                votes = sc.sample(
                    brightness, scene.x, noise=sc.Gaussian(setting.sigma), n=setting.n, seed=3, input_id=scene.id
                )
                expected = sc.certify_votes(votes, tau=setting.tau, alpha=0.001, correction=correction)
                key = (scene.id, *asdict(setting).values(), correction)
                [record] = [r for r in records if (r.id, r.sigma, r.n, r.tau, r.correction) == key]
                confusion = metrics.confusion(expected.labels, scene.target, scene.valid, classes=3)
                np.testing.assert_array_equal(metrics.from_plain(record.confusion), confusion)
                assert record.radius == expected.radius
                assert record.abstained == expected.abstained.sum()
                assert (record.components, record.valid, record.N) == (192, 176, 192)
        [base] = [r for r in records if r.kind == "base" and r.id == scene.id]
        prediction = brightness(torch.from_numpy(scene.x)[None]).argmax(1)[0].numpy()
        confusion = metrics.confusion(prediction, scene.target, scene.valid, classes=3)
        np.testing.assert_array_equal(metrics.from_plain(base.confusion), confusion)


def test_an_n_that_certifies_nothing_is_recorded_as_full_abstention(pets, tmp_path):
    run = evaluate(brightness, load(f"pets:{pets}").limit(1), out=tmp_path / "run", settings=[(0.1, 60, 0.95)], seed=0)
    [record] = [r for r in run.records if r.kind == "certified"]
    assert record.abstained == record.components


def test_summary_and_curves(pets, tmp_path):
    settings = {"settings": SETTINGS, "corrections": ("bonferroni",), "seed": 0}
    run = evaluate(brightness, load(f"pets:{pets}"), out=tmp_path / "run", **settings)
    assert run == Run.load(tmp_path / "run")
    assert repr(run).startswith("Run(function on pets/trainval: 5 scenes at (sigma=0.1, n=60, tau=0.75), (sigma=0.1,")
    base, *rows = run.rows
    assert base.sigma is None
    assert 0.8 < base.accuracy < 0.95  # a tenth of the labels was made wrong
    assert [(row.sigma, row.n, row.tau) for row in rows] == [tuple(asdict(s).values()) for s in SETTINGS]
    for row in rows:
        assert row.miou_worst_case <= row.miou_pooled + 1e-12
        assert row.scenes == 5
    for curve in run.curves():
        largest = next(row for row in rows if (row.sigma, row.n) == (curve.sigma, curve.n))
        assert curve.certified(largest.radius) == pytest.approx(largest.accuracy)  # Bonferroni at tau is the curve at R
    figure = radius_figure(run.curves(), run.rows, title="a")
    assert len(figure.axes[0].texts) == len({row.radius for row in rows})  # each radius labelled once
    figure.savefig(tmp_path / "figure.png")
    text = run.table().markdown()
    assert "probability at least 0.995" in text
    assert "sigma=0.1, n=60, tau=0.75, bonferroni" in text
    assert "cat" in run.class_table().csv()
    assert r"\toprule" in run.table().latex()


def test_curves_count_every_component_that_was_tested(pets, tmp_path):
    """Ignored pixels are tests too: N is 192, of which 176 are valid, and every radius of the curve follows from it."""
    data = load(f"pets:{pets}").limit(1)
    run = evaluate(brightness, data, out=tmp_path / "run", settings=SETTINGS[:1], seed=3)
    scene = data[0]
    votes = sc.sample(brightness, scene.x, noise=sc.Gaussian(0.1), n=60, seed=3, input_id=scene.id)
    assert (votes.N, scene.valid.sum()) == (192, 176)
    radii = sc.radius_map(votes, alpha=0.001)[scene.valid & (votes.candidate == scene.target)]
    [curve] = run.curves()
    np.testing.assert_array_equal(curve.certified.radii, np.unique(radii[radii > 0]))
    for radius in curve.certified.radii:
        assert curve.certified(radius) == (radii >= radius).sum() / 176


def narrow(sigma):
    return sc.Gaussian(sigma / 25)


narrow.__name__ = "gaussian"


@dataclass(frozen=True)
class Shaky(sc.Gaussian):
    """A noise of a user, of which segcertify knows no proof."""

    steps: tuple[float, ...] = (1.0,)


class TestANoiseIsWhatItIs:
    """Not the name of the function that makes it."""

    def evaluated(self, pets, out, noise):
        return evaluate(brightness, load(f"pets:{pets}").limit(1), out=out, settings=SETTINGS[:1], noise=noise, seed=0)

    def test_a_function_of_another_scale_is_another_run(self, pets, tmp_path):
        first = self.evaluated(pets, tmp_path / "run", lambda sigma: sc.Gaussian(1.0 * sigma))
        assert first.noise == "gaussian"
        assert self.evaluated(pets, tmp_path / "run", "gaussian") == first  # made otherwise, but the same noise
        with pytest.raises(sc.InputError, match=r"its noise is 'gaussian', now it is 'Gaussian\(sigma=0.004\) at"):
            self.evaluated(pets, tmp_path / "run", narrow)
        run = self.evaluated(pets, tmp_path / "narrow", narrow)
        proved = sc.Gaussian(0.004).radius(0.75)
        assert run.rows[1].radius == proved
        assert run.table().rows[1][1] == radius_text(proved, 4)
        assert "Gaussian(sigma=0.004) at sigma=0.1 noise" in run.title
        assert run.curves()[0].certified.radii.max() < 4 * proved

    def test_two_lambdas_do_not_share_a_run(self, pets, tmp_path):
        self.evaluated(pets, tmp_path / "run", lambda sigma: sc.Gaussian(1.0 * sigma))
        with pytest.raises(sc.InputError, match="its noise is 'gaussian', now it is 'laplace'"):
            self.evaluated(pets, tmp_path / "run", lambda sigma: sc.Laplace(1.0 * sigma))

    def test_a_noise_of_a_user_has_all_its_parameters_and_no_certificate(self, pets, tmp_path):
        run = self.evaluated(pets, tmp_path / "run", Shaky)
        assert run.noise.endswith("Shaky(sigma=0.1, channels=None, axis=0, steps=(1.0,)) at sigma=0.1")
        assert Run.load(tmp_path / "run") == run
        row = dict(zip(run.table().heads, run.table().rows[1], strict=True))
        assert [row[head] for head in ("R", "certified accuracy", "mIoU worst case")] == ["-"] * 3
        text = run.table().markdown()
        assert "No robustness certificate: segcertify knows no proof of a radius for" in text
        assert "with probability at least" not in text.lower()
        assert "lower bound" not in text
        assert run.curves() == []
        with pytest.raises(sc.InputError, match="its noise is"):
            self.evaluated(pets, tmp_path / "run", lambda sigma: Shaky(sigma, steps=(2.0,)))
        with pytest.raises(sc.InputError, match=r"a parameter steps of the type function, by which it cannot be"):
            self.evaluated(pets, tmp_path / "other", lambda sigma: Shaky(sigma, steps=print_nothing))

    def test_records_of_another_noise_are_not_reported(self, pets, tmp_path):
        """A folder of an earlier version, in which a function of the same name went on with another scale."""
        self.evaluated(pets, tmp_path / "run", "gaussian")
        evaluated.make_older(tmp_path / "run")
        path = tmp_path / "run" / "records.jsonl"
        path.write_text(path.read_text().replace('"radius": 0.0674', '"radius": 0.674'))
        with pytest.raises(sc.InputError, match=r"the folder holds records of another noise"):
            Run.load(tmp_path / "run").table()

    def test_a_folder_that_stored_a_name_alone_resumes(self, pets, tmp_path):
        """As version 0.2.0 wrote it; under the name of a function it does not, since that says nothing."""
        run = self.evaluated(pets, tmp_path / "run", "gaussian")
        stored = json.loads((tmp_path / "run" / "config.json").read_text())
        assert stored["noises"] == {"0.1": {"type": "Gaussian", "sigma": 0.1, "channels": None, "axis": 0}}
        evaluated.make_older(tmp_path / "run", "noises")
        assert self.evaluated(pets, tmp_path / "run", "gaussian").records == run.records
        evaluated.make_older(tmp_path / "run", noise="gaussian()")
        with pytest.raises(sc.InputError, match=r"its noise is 'gaussian\(\)'"):
            self.evaluated(pets, tmp_path / "run", narrow)
        assert "segcertify knows no proof of a radius for gaussian()" in Run.load(tmp_path / "run").table().markdown()


def print_nothing():
    """A parameter that no file can hold."""


def test_a_model_of_other_classes_is_refused_before_anything_is_written(pets, tmp_path):
    with pytest.raises(
        sc.InputError, match=r"the model labels sky, building.*but pets.* has the classes background, cat"
    ):
        evaluate(sc.models.load("camvid"), load(f"pets:{pets}"), out=tmp_path / "r", settings=SETTINGS, seed=0)
    assert not (tmp_path / "r").exists()


def test_a_mixture_is_refused_before_anything_is_written(pets, tmp_path):
    mixed = mixture([load(f"pets:{pets}")], [2])
    with pytest.raises(sc.InputError, match=r"lists its first scene as '.*~0', but the scene says .* by itself"):
        evaluate(brightness, mixed, out=tmp_path / "r", settings=SETTINGS, seed=0)
    assert not (tmp_path / "r").exists()


def test_a_second_run_resumes_and_other_settings_are_refused(pets, tmp_path):
    data, out = load(f"pets:{pets}"), tmp_path / "run"
    calls = []

    def counting(batch):
        calls.append(1)
        return brightness(batch)

    first = evaluate(counting, data, out=out, settings=SETTINGS, name="m", seed=0)
    done = len(calls)
    assert evaluate(counting, data, out=out, settings=SETTINGS, name="m", seed=0) == first
    assert len(calls) == done  # nothing ran again
    for changes, name in [
        ({"settings": SETTINGS[:1]}, "settings"),
        ({"seed": 1}, "seed"),
        ({"alpha": 0.01}, "alpha"),
        ({"n0": 9}, "n0"),
        ({"corrections": ("holm", "by")}, "corrections"),
        ({"name": "other"}, "model"),
        ({"precision": "bf16"}, "precision"),
    ]:
        arguments = {"settings": SETTINGS, "name": "m", "seed": 0} | changes
        verb = "are" if name.endswith("s") else "is"
        with pytest.raises(sc.InputError, match=f"belongs to another run: its {name} {verb}"):
            evaluate(counting, data, out=out, **arguments)
    with pytest.raises(sc.InputError, match="it is of other scenes"):
        evaluate(counting, data.limit(2), out=out, settings=SETTINGS, name="m", seed=0)


class Stripes(nn.Module):
    """A convolution, with settings that are no weights: a normalisation."""

    def __init__(self, seed, mean):
        super().__init__()
        torch.manual_seed(seed)
        self.normalise, self.head = Normalise([mean] * 3, [0.25] * 3), nn.Conv2d(3, 3, 1)

    def extra_repr(self):
        return f"within={object()}"  # an address in memory, another one each time

    def forward(self, batch):
        return self.head(self.normalise(batch))


def views(seed=0, mean=0.5, *, mirrored=False):
    return Ensemble([Stripes(seed, mean)], views=[View(), View(0.5, mirrored)])


@pytest.mark.parametrize(
    "other",
    [
        lambda: views(seed=1),
        lambda: views(mean=0.4),
        lambda: views(mirrored=True),
        lambda: MultiScale(Stripes(0, 0.5), (0.5,)),
    ],
    ids=["weights", "normalisation", "views", "scales"],
)
def test_another_network_is_refused(pets, tmp_path, other):
    data, other = load(f"pets:{pets}").limit(1), other()
    first = MultiScale(Stripes(0, 0.5), (0.75,)) if isinstance(other, MultiScale) else views()
    for model in (first, first):
        evaluate(model.eval(), data, out=tmp_path / "run", settings=SETTINGS[:1], seed=0)
    with pytest.raises(sc.InputError, match="belongs to another run: it is of another network"):
        evaluate(other.eval(), data, out=tmp_path / "run", settings=SETTINGS[:1], seed=0)


@pytest.mark.parametrize("changed", ["labels", "images"])
def test_other_scenes_of_the_same_names_are_refused(pets, tmp_path, changed):
    evaluate(brightness, load(f"pets:{pets}"), out=tmp_path / "run", settings=SETTINGS[:1], seed=0)
    file = next((pets / changed).glob("a.*"))
    with Image.open(file) as image:
        other = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    other.save(file)
    with pytest.raises(sc.InputError, match="it is of other scenes"):
        evaluate(brightness, load(f"pets:{pets}"), out=tmp_path / "run", settings=SETTINGS[:1], seed=0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("broken", r"cannot be read \(it is not JSON: .*\)"),
        ("", r"cannot be read \(it is not JSON: .*\)"),
        ("[]", "must hold values by name, but holds list"),
        ("{}", "is no evaluation's configuration"),
    ],
)
def test_a_damaged_configuration(pets, tmp_path, text, reason):
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "records.jsonl").write_text("")
    for use in (
        lambda: evaluate(brightness, load(f"pets:{pets}"), out=tmp_path, settings=SETTINGS[:1], seed=0),
        lambda: Run.load(tmp_path),
        lambda: audit_run(brightness, load(f"pets:{pets}"), tmp_path, n=10, seed=0),
    ):
        with pytest.raises(sc.InputError, match=rf"config\.json {reason}: use another folder"):
            use()


def test_a_changed_configuration_is_refused(pets, tmp_path):
    """Each single flipped bit of config.json: the folder is refused, or its configuration is the same."""
    data = load(f"pets:{pets}").limit(1)
    evaluate(brightness, data, out=tmp_path, settings=SETTINGS[:1], seed=0)
    path, whole, expected = tmp_path / "config.json", (tmp_path / "config.json").read_bytes(), Run.load(tmp_path)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert RunFolder(tmp_path).configuration() == expected.configuration, bit
        except sc.InputError:
            continue
    path.write_text(json.dumps(json.loads(whole) | {"format": 3}))
    with pytest.raises(sc.InputError, match="has format 3, but this segcertify reads formats 1 and 2: use the"):
        Run.load(tmp_path)


def test_a_damaged_record_is_neither_reported_nor_doubled(pets, tmp_path):
    """A line that is damaged or deleted is refused by the report and by a resumed run; the cure gives the records."""
    data, out = load(f"pets:{pets}"), tmp_path / "run"
    run = {"out": out, "settings": SETTINGS[:1], "seed": 0}
    expected = evaluated.plain(evaluate(brightness, data, **run).records)
    path = out / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for damaged in (lines[:4] + lines[5:], [*lines[:4], lines[4].replace('"valid": 1', '"valid": 2'), *lines[5:]]):
        path.write_text("".join(damaged))
        for use in (lambda: Run.load(out), lambda: evaluate(brightness, data, **run)):
            with pytest.raises(sc.InputError, match=r"records\.jsonl, line 5, .*Delete this line and all after it"):
                use()
        path.write_text("".join(damaged[:4]))
        assert len(Run.load(out).records) == 3  # of the scene that is whole
        assert evaluated.plain(evaluate(brightness, data, **run).records) == expected


def test_names_that_differ_in_a_slash_or_are_not_unicode(tmp_path):
    """Each scene keeps its votes and pictures."""
    names = ["a/b", "a_b", "a b", os.fsdecode(b"caf\xe9")]
    (tmp_path / "set" / "dataset.toml").parent.mkdir()
    (tmp_path / "set" / "dataset.toml").write_text('classes = ["a", "b", "c"]\n')
    for name in names:
        for kind in ("images", "labels"):
            file = tmp_path / "set" / kind / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB" if kind == "images" else "L", (8, 8)).save(file)
    run = {"settings": [(0.1, 60, 0.75)], "save_votes": True, "save_pictures": True, "seed": 0}
    records = evaluate(brightness, load(f"folder:{tmp_path / 'set'}"), out=tmp_path / "run", **run).records
    assert {record.id for record in records} == set(names)
    assert {record.id for record in read_records(tmp_path / "run" / "records.jsonl")} == set(names)
    assert len(list((tmp_path / "run" / "votes").iterdir())) == 4
    assert len(list((tmp_path / "run" / "certified").glob("*.png"))) == 8  # the figure and the labels of each


def test_a_failing_scene_loses_nothing_that_was_finished(pets, tmp_path):
    data, out = load(f"pets:{pets}"), tmp_path / "run"
    budget = [60]

    def dying(batch):
        budget[0] -= 1
        if budget[0] < 0:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return brightness(batch)

    with pytest.raises((torch.OutOfMemoryError, sc.InputError)):
        evaluate(dying, data, out=out, settings=SETTINGS, name="m", batch_size=10, seed=0)
    finished = len(read_records(out / "records.jsonl"))
    assert finished > 0
    evaluate(brightness, data, out=out, settings=SETTINGS, name="m", batch_size=10, seed=0)
    evaluate(brightness, data, out=tmp_path / "whole", settings=SETTINGS, name="m", batch_size=10, seed=0)
    assert evaluated.without_times(out / "records.jsonl") == evaluated.without_times(
        tmp_path / "whole" / "records.jsonl"
    )


@pytest.mark.parametrize(("given", "largest"), [({}, 7), ({"batch_size": 3}, 3)], ids=["as it began", "another"])
def test_a_resumed_run_keeps_its_batch_size(pets, tmp_path, given, largest):
    """The last bit of a network's logit may depend on its batch."""
    data, sizes = load(f"pets:{pets}"), []

    def watched(batch):
        sizes.append(len(batch))
        if len(sizes) == 50:  # among the draws of a scene, after its checks
            raise ValueError("no more")
        return brightness(batch)

    with pytest.raises(ValueError, match="no more"):
        evaluate(watched, data, out=tmp_path, settings=SETTINGS, name="m", batch_size=7, seed=0)
    assert max(sizes) == 7
    begun = [*tmp_path.glob("resume-*")]
    assert begun
    for each in begun:  # a scene that was begun keeps its own
        each.unlink()
    del sizes[:]
    sizes += [0] * 50
    evaluate(watched, data, out=tmp_path, settings=SETTINGS, name="m", seed=0, **given)
    assert max(sizes) == largest
    assert '"batch_size": 7' in (tmp_path / "config.json").read_text()


def test_a_run_goes_on_with_no_other_function(pets, tmp_path):
    """A function has no weights to know it by: one label of the first scene tells it from another."""
    data = load(f"pets:{pets}").limit(2)

    def another(batch):
        logits = brightness(batch)
        logits[:, :2, 0, 0] = logits[:, :2, 0, 0].flip(1)
        return logits

    evaluate(brightness, data, out=tmp_path, settings=SETTINGS, name="m", seed=0)
    lines = (tmp_path / "records.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "records.jsonl").write_text("".join(lines[: len(lines) // 2]))
    with pytest.raises(sc.InputError, match="no weights to know it by, and its labels of the first scene are others"):
        evaluate(another, data, out=tmp_path, settings=SETTINGS, name="m", seed=0)
    assert len(evaluate(brightness, data, out=tmp_path, settings=SETTINGS, name="m", seed=0).records) == len(lines)


KILLED = """
import os, signal, sys
import torch
from segcertify.data import load
from segcertify.evaluation import evaluate

torch.set_num_threads(1)
data, root = load(f"pets:{sys.argv[1]}").limit(2), sys.argv[2]
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fcntl.flock")

def brightness(batch):
    grey = batch.mean(1)
    return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)

def run(name, step=None):
    pid = os.fork()
    if not pid:
        left = [step]
        def count(event, arguments):
            if step is None or event not in EVENTS or (event != "fcntl.flock" and root not in str(arguments[0])):
                return
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        settings = {"settings": [(0.1, 60, 0.75)], "seed": 0, "save_votes": True, "batch_size": 20, "progress": False}
        evaluate(brightness, data, out=f"{root}/{name}", **settings)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

assert run("whole") == 0
step = 1
while run(f"killed-{step}", step) == signal.SIGKILL:
    assert run(f"killed-{step}") == 0, step
    step += 1
print(step - 1)
"""


def test_a_run_killed_at_any_step_on_the_disk_resumes(pets, tmp_path):
    """kill -9 before each single call that opens, renames or removes a file, makes a folder or locks one.

    The run then ends with the same records but for times, the same votes, and no other files.
    """
    root = tmp_path / "runs"
    done = subprocess.run([sys.executable, "-c", KILLED, pets, root], capture_output=True, text=True)  # noqa: PLW1510
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 30
    whole, *killed = sorted(root.iterdir(), key=lambda path: path.name != "whole")
    assert len(killed) == int(done.stdout) + 1
    for folder in killed:
        assert {path.relative_to(folder) for path in folder.rglob("*")} == {
            path.relative_to(whole) for path in whole.rglob("*")
        }
        for path in ("config.json", *(f"votes/{path.name}" for path in (whole / "votes").iterdir())):
            assert (folder / path).read_bytes() == (whole / path).read_bytes()
        assert evaluated.without_times(folder / "records.jsonl") == evaluated.without_times(whole / "records.jsonl")


def test_pictures_are_kept(pets, tmp_path):
    data = load(f"pets:{pets}").limit(1)
    evaluate(brightness, data, out=tmp_path / "run", settings=SETTINGS[:1], save_pictures=True, seed=0)
    stem = f"{data.ids[0]}-sigma0.1-n60-tau0.75-holm"
    panels, labels, page = (tmp_path / "run" / "certified" / f"{stem}{end}" for end in (".png", "-labels.png", ".html"))
    assert {path.name for path in panels.parent.iterdir()} == {panels.name, labels.name, page.name}
    assert '"agree"' in page.read_text("utf-8")
    with Image.open(labels) as image:
        assert image.mode == "P"
        assert image.size == (16, 12)
        assert set(np.unique(np.asarray(image))) <= {0, 1, 2, 255}
    assert panels.stat().st_size > 5000


def test_thumbnails_are_always_kept(pets, tmp_path):
    data = load(f"pets:{pets}").limit(2)
    evaluate(brightness, data, out=tmp_path / "run", settings=SETTINGS[:2], seed=0)
    claims = ("base", "sigma0.1-n60-tau0.75-holm", "sigma0.1-n120-tau0.9-holm")
    expected = {f"{each}-{claim}.jpg" for each in data.ids for claim in claims} | {"colours.json"}
    assert {path.name for path in (tmp_path / "run" / "thumbnails").iterdir()} == expected
    colours = json.loads((tmp_path / "run" / "thumbnails" / "colours.json").read_text())["colours"]
    own = np.rint(255 * palette(len(data.classes))).astype(int)
    assert colours == [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in own]
    evaluate(brightness, data, out=tmp_path / "data", settings=SETTINGS[:1], seed=0, colours="data")
    colours = json.loads((tmp_path / "data" / "thumbnails" / "colours.json").read_text())["colours"]
    assert colours == [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in data.colours]
    assert not (tmp_path / "run" / "certified").exists()


def test_a_picture_that_fails_costs_no_records(pets, tmp_path, monkeypatch):
    monkeypatch.setattr("segcertify.figures.thumbnail.image_thumbnail", None)
    data = load(f"pets:{pets}").limit(1)
    with pytest.warns(UserWarning, match="no pictures of"):
        run = evaluate(brightness, data, out=tmp_path / "run", settings=SETTINGS[:1], seed=0)
    assert len(run.records) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": [(0.1, 60, 0.3)]}, "tau must lie"),
        ({"settings": [(0.1, 60, 0.75)] * 2}, "must all be different"),
        ({"corrections": ("none",)}, "unknown correction"),
        ({"n0": 0}, "n0 must be"),
    ],
)
def test_bad_settings(pets, tmp_path, arguments, message):
    with pytest.raises(sc.InputError, match=message):
        evaluate(
            brightness, load(f"pets:{pets}"), out=tmp_path / "r", **({"settings": SETTINGS, "seed": 0} | arguments)
        )
