"""Examples of attacks: choosing images, attacking and resuming, the results, their page and pictures."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import attack_examples as module
import numpy as np
import pytest
import torch
import trees
from attack_examples import RADIUS, choose, main, named, page, run, shuffled
from attack_picture import COLUMNS, jpeg, rows_figure
from page import FILE, PAGE, save
from PIL import Image

import segcertify as sc
from segcertify import InputError
from segcertify.data import load
from segcertify.numerals import NOTHING

ROOT = Path(__file__).parents[2]
COMMITTED = [path.parent for path in sorted(ROOT.glob("results/attacks/*/results.json"))]
MODELS = """
import torch

def blurred(size=5):
    def model(batch):
        score = 40 * (torch.nn.functional.avg_pool2d(batch.mean(1, keepdim=True), size, 1, size // 2) - 0.4)[:, 0]
        return torch.stack([torch.zeros_like(score), score, torch.full_like(score, -99)], 1)
    return model

def sharp():
    return blurred(1)
"""
SPACE = {}
exec(MODELS, SPACE)
ROBUST, FRAGILE = SPACE["blurred"](), SPACE["sharp"]()
BOTH = {"blurred": ROBUST, "sharp": FRAGILE}


def options(**changes):
    plain = {"example": ["Pug_03"], "random": 2, "radius": [0.5], "steps": 5, "seed": 1}
    return argparse.Namespace(**plain | changes)


def attack(data, out, models=BOTH, **changes):
    """The script's work with these options, on the CPU."""
    given = options(**changes)
    run(models, data, choose(given, data), given, out, "cpu")


def read(out):
    return json.loads((out / FILE).read_text(encoding="utf-8"))


def pets(root):
    """Images that grow bright to the right; the ground truth is where; an upper edge without any."""
    rng = np.random.default_rng(0)
    for number in range(8):
        width = 20 + 2 * number
        ramp = np.linspace(60, 180, width)[:, None] + rng.uniform(0, 20, (16, width, 3))
        label = np.tile(np.where(np.arange(width) < width / 3, 0, 1).astype(np.uint8), (16, 1))
        label[:2] = 255
        trees.write(root / "images" / f"Pug_{number:02}.png", ramp.astype(np.uint8))
        trees.write(root / "labels" / f"Pug_{number:02}.png", label)
    trees.write(root / "labels" / "Pug_07.png", np.full((16, 34), 255, np.uint8))  # all of it is ignored
    return root


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(f"pets:{pets(tmp_path_factory.mktemp('pets'))}")


@pytest.fixture(scope="module")
def out(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    attack(data.without("Pug_07"), folder)
    assert {file.name for file in folder.iterdir() if file.is_file()} == {FILE, PAGE, "hand-picked.jpg", "random.jpg"}
    return folder


def no_work(*_, **__):
    raise AssertionError("this was done before")


def test_results_are_what_attacks_and_certificates_give(out, data):
    results = read(out)
    assert [each["id"] for each in results["hand_picked"]] == ["Pug_03"]
    assert [each["id"] for each in results["random"]] == shuffled(data.without("Pug_07").ids, 1)[:2]
    assert [results[key] for key in ("scenes", "radius", "n", "tau")] == [7, RADIUS, 100, 0.75]
    assert "CC BY-SA 4.0" in results["licence"]
    for each in (*results["hand_picked"], *results["random"]):
        clean, within, beyond = each["base"]
        assert [clean["radius"], within["radius"], beyond["radius"]] == [0, RADIUS, 0.5]
        assert clean["non_robust"] > within["non_robust"] > beyond["non_robust"]
        assert clean["robust"] >= within["robust"] > beyond["robust"]
        assert 0 < each["accuracy"] <= 1 - each["abstained"] < 1
        assert 0 < each["certified"] < each["pixels"]
        assert each["refuted"] == 0


def test_numbers_agree_with_the_parts(out, data):
    from segcertify.attacks.comparison import compare

    scene = data[data.ids.index("Pug_03")]
    x, target = torch.from_numpy(scene.x), np.where(scene.valid, scene.target, -1)
    certificate = sc.certify(ROBUST, x, sigma=0.25, seed=1, input_id="Pug_03")
    found = compare(ROBUST, FRAGILE, x, certificate, target=target, steps=5, seed=1)
    (example,) = read(out)["hand_picked"]
    assert example["certified"] == certificate.certified
    assert example["accuracy"] == (certificate.labels == target)[scene.valid].mean()
    assert example["base"][1]["non_robust"] == (found.non_robust.labels == target)[scene.valid].mean()
    assert example["base"][1]["robust"] == (found.robust.labels == target)[scene.valid].mean()
    assert example["moved"] == max(each.smoothed.moved for each in found.attacks.values())


def test_pictures_are_small_and_the_page_shows_them(out):
    page = (out / PAGE).read_text(encoding="utf-8")
    for name, rows in (("hand-picked.jpg", 1), ("random.jpg", 2)):
        assert f"]({name})" in page
        with Image.open(out / name) as picture:
            assert picture.width == 1200
            assert picture.height > 200 * rows
        assert (out / name).stat().st_size < 400_000


def test_the_same_call_goes_on(out, data, monkeypatch):
    scenes = data.without("Pug_07")
    before = (out / FILE).read_bytes()
    monkeypatch.setattr(module, "outcome", no_work)
    attack(scenes, out)
    assert (out / FILE).read_bytes() == before
    with pytest.raises(AssertionError, match="done before"):  # another image, which has to be made
        attack(scenes, out, example=["Pug_03", "Pug_06"], random=0)
    for models, changes, text in (
        (BOTH, {"steps": 6}, "steps are 5, now they are 6"),
        (BOTH, {"radius": [0.7]}, r"radii are \[0.5\], now they are \[0.7\]"),
        ({"other": ROBUST, "sharp": FRAGILE}, {}, "model is 'blurred', now it is 'other'"),
    ):
        with pytest.raises(InputError, match=f"belongs to another run: its {text}.* choose another path"):
            attack(scenes, out, models, **changes)


def test_the_choice_at_random_is_the_seeds_alone(data):
    assert shuffled("cab", 0) == shuffled("abc", 0)
    assert len({tuple(shuffled(data.ids, seed)) for seed in range(5)}) == 5
    few, more = (choose(options(random=k), data)["random"] for k in (2, 5))
    assert more[:2] == few
    counts = [shuffled(range(4), seed)[0] for seed in range(400)]
    assert min(np.bincount(counts)) > 60  # 100 each expected; below by chance in 1 of 100,000


def test_nothing_certified_is_still_shown(data, tmp_path):
    def unsure(batch):
        score = torch.sin(100 * batch.mean(1))  # noise decides
        return torch.stack([score, -score], 1)

    attack(data, tmp_path, {"unsure": unsure, "sharp": FRAGILE}, random=0)
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) == 3
    (example,) = read(tmp_path)["hand_picked"]
    assert [example[key] for key in ("certified", "accuracy", "abstained", "moved")] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"example": ["Pug_3"]}, "no image 'Pug_3' in pets/trainval: there are Pug_03"),
        ({"example": ["Pug_03", "Pug_03"]}, "examples must all be different, but got Pug_03, Pug_03"),
        ({"example": ["Pug_07"]}, "'Pug_07' of pets/trainval has no pixel with ground truth"),
        ({"example": [], "random": 0}, "no images to attack: name some"),
        ({"random": 9}, "9 images at random, but pets/trainval holds 8: ask for fewer"),
        ({"random": -1}, "random must be an integer not less than 0, but got -1"),
        ({"radius": [0.1]}, "further radii must be above 0.168622, the certified one, .* but got 0.1"),
        ({"radius": [0.5, 0.5]}, "radii must all be different, but got 0.5, 0.5"),
        ({"steps": 0}, "steps must be an integer not less than 1, but got 0"),
    ],
)
def test_bad_options_are_refused_before_the_work(data, tmp_path, monkeypatch, change, message):
    monkeypatch.setattr(module, "outcome", no_work)
    with pytest.raises(InputError, match=message):
        attack(data, tmp_path, **{"random": 0, **change})


def test_data_that_does_not_fit_is_refused(tmp_path):
    from segcertify.models import load as load_model

    road = load(f"camvid:{trees.camvid(tmp_path / 'road')}")
    some = {"example": [], "random": 1}
    with pytest.raises(InputError, match="pets has the classes background, cat, dog, but camvid/val has sky"):
        attack(road, tmp_path, {"pets": load_model("pets"), "sharp": FRAGILE}, **some)
    with pytest.raises(InputError, match="is a point cloud, but pictures are of images"):
        attack(load("shapes:?count=2"), tmp_path, **some)


def test_the_command(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models_of_attacks.py").write_text(MODELS)
    root = data.items[0].image.parents[1]
    models = ["--model", "python:models_of_attacks:blurred?size=5", "--non-robust", "python:models_of_attacks:sharp"]
    main(["--data", f"pets:{root}", *models, "--example", "Pug_02", "--steps", "2", "--device", "cpu"])
    place = Path("results", "attacks", "pets")
    assert f"wrote {place / PAGE}" in capsys.readouterr().out
    base = read(place)["hand_picked"][0]["base"]
    assert [under["radius"] for under in base] == [0, RADIUS, 2 * RADIUS, 4 * RADIUS]
    written = (place / PAGE).read_bytes()
    (place / PAGE).unlink()
    main(["--render", str(place)])
    assert (place / PAGE).read_bytes() == written
    for arguments, message in (
        ([], "name the images: --data"),
        (["--data", f"pets:{root}"], "name two models: pets or camvid brings its twin"),
        (["cats", "--data", f"pets:{root}", "--random", "1"], "unknown model 'cats'"),
        (["pets", "--data", f"pets:{root}", "--example", "Cat"], "no image 'Cat'"),
    ):
        with pytest.raises(InputError, match=message):
            main(arguments)


def test_files_of_models_are_named_without_their_folder(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    assert named(f"trained:{file}?scale=0.5").startswith("trained:model.safetensors (SHA-256 ")
    assert named(f"trained:{file}?scale=0.5").endswith(")?scale=0.5")
    assert named(f"hf:{tmp_path}") == f"hf:{tmp_path.name}"
    assert named("pets-non-robust") == "pets-non-robust"


def results_of(**sections):
    return {
        "version": "1", "device": "cpu", "model": "m", "non_robust": "o", "data": "camvid/val", "scenes": 9,
        "licence": "for research", "trained": {"robust": "other images"}, "sigma": 0.25, "tau": 0.75, "n": 100,
        "n0": 10, "alpha": 0.001, "correction": "holm", "radius": RADIUS, "steps": 7, "seed": 3,
        "hand_picked": [], "random": [], **sections,
    }  # fmt: skip


def example(name, within):
    numbers = (0.0, 0.9, 0.8), (RADIUS, within, 0.7), (0.5, 0.1, 0.6)
    base = [dict(zip(("radius", "non_robust", "robust"), each, strict=True)) for each in numbers]
    counts = {"pixels": 1000, "certified": 900, "moved": 2, "refuted": 0}
    return {"id": name, "accuracy": 0.75, "abstained": 0.1, "base": base, **counts}


def test_results_are_shown(tmp_path):
    results = results_of(random=[example("a", 0.25), example("b", 0.5)])
    save(tmp_path, results, page)
    assert read(tmp_path) == results
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "The picture is not kept here." in text
    (tmp_path / "random.jpg").touch()
    main(["--render", str(tmp_path)])
    text = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert "](random.jpg)" in text
    assert "Trained: `robust` on other images." in text
    for line in (
        "| no attack | 0.7500 | 0.8000 | 0.9000 |",
        "| 0.168 | 0.7500 | 0.7000 | 0.3750 |",
        f"| 0.5 | {NOTHING} | 0.6000 | 0.1000 |",
        "| a | 0.9000 | 0.2500 | 0.1000 | 0.8000 | 0.7000 | 0.6000 | 0.7500 | 0.1000 | 900 of 1,000 | 2 | 0 |",
        "| mean; sum of pixels | 0.9000 | 0.3750 | 0.1000 | 0.8000 | 0.7000 | 0.6000 | 0.7500 | 0.1000 "
        "| 1,800 of 2,000 | 4 | 0 |",
    ):
        assert line in text.splitlines()
    assert "## Chosen at random" in text
    assert "Hand-picked" not in text
    assert "at least 0.998" in text
    assert "for research" in text


def test_what_cannot_be_rendered_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no results.json in .*: run the experiment with --out"):
        main(["--render", str(tmp_path)])
    for content in ("{", "[]", "{}", '{"hand_picked": [{}]}'):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(InputError, match=r"holds no results of this experiment .*: make it again"):
            main(["--render", str(tmp_path)])


def arrays(labels):
    """The arrays of an image whose labels are all the same."""
    return dict.fromkeys(COLUMNS, labels) | {"attacked": np.full((3, *labels.shape), 99, np.uint8)}


def test_rows_of_any_shape_and_a_limit_on_the_file():
    rng = np.random.default_rng(0)
    rows = [(arrays(rng.integers(-1, 2, size)), ("a",) * 5) for size in ((20, 30), (30, 20))]
    figure = rows_figure(rows, colours=np.eye(3), names=("red", "green", "blue"), source="nowhere")
    assert [axes.get_title() for axes in figure.axes[:5]] == list(COLUMNS.values())
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["red", "green"]  # blue is not there
    assert len(jpeg(figure, largest=1)) < len(jpeg(figure))


def test_legends_of_many_classes_stay_inside_the_figure(tmp_path):
    road = load(f"camvid:{trees.camvid(tmp_path)}")
    labels = np.arange(12).reshape(3, 4) - 1
    figure = rows_figure([(arrays(labels), ("",) * 5)], colours=road.colours / 255, names=road.classes, source="")
    figure.canvas.draw()
    extent = figure.legends[0].get_window_extent()
    assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width


def test_rendering_loads_no_torch():
    script, folder = ROOT / "experiments" / "attack_examples.py", ROOT / "results" / "attacks" / "pets"
    code = f"""
import sys
sys.path.insert(0, {str(script.parent)!r})
import json, pathlib, attack_examples
folder = pathlib.Path({str(folder)!r})
attack_examples.page(json.loads((folder / "results.json").read_text()), folder)
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_committed_pages_are_what_the_results_give(folder):
    assert (folder / PAGE).read_text(encoding="utf-8") == page(read(folder), folder)
    assert all(path.stat().st_size <= 400_000 for path in folder.glob("*.jpg"))


def test_pages_are_committed():
    assert {"camvid", "pets"} <= {folder.name for folder in COMMITTED}
