"""The page of a run: its numbers against the tables, its pictures, and in a browser its order, filters and keys."""

import json
import re
from dataclasses import replace
from pathlib import Path

import evaluated
import numpy as np
import pytest
import torch
from browser import Elements, browse, data_of, in_browser, reached, unpacked

from segcertify import metrics
from segcertify.data import load
from segcertify.evaluation import AttackSettings, MetricSettings, Setting, evaluate
from segcertify.names import visible
from segcertify.numerals import lower, measured
from segcertify.report.files import write_report
from segcertify.report.page import UNKNOWN, save_run_page
from segcertify.report.run import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "runs"
EVIL = "</script><!--<script><img src=x onerror=\"document.title='owned'\">&amp;$_\u2028\ud800"
SETTINGS = [Setting(0.1, 60, 0.75), Setting(0.3, 60, 0.75)]


class Brightness(torch.nn.Module):
    """Cats are bright."""

    def forward(self, batch):
        grey = batch.mean(1)
        return torch.stack([0.5 - grey, grey - 0.5, torch.full_like(grey, -9.0)], 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of five images, with all that records can hold."""
    root = tmp_path_factory.mktemp("run")
    evaluate(
        Brightness().eval(), load(f"pets:{evaluated.pets(root / 'pets')}"), out=root / "run", settings=SETTINGS,
        corrections=("holm", "bh", "k-fwer"), k=5, attack=AttackSettings(steps=2), sets=True,
        metrics=MetricSettings(("agreement",)), save_pictures=True, seed=0,
    )  # fmt: skip
    return root / "run"


@pytest.fixture(scope="module")
def run(folder):
    return Run.load(folder)


def saved(run, path, **options):
    save_run_page(run, path / "deep" / "index.html", **options)
    return path / "deep" / "index.html"


def records_of(run, row):
    """The records behind a row of the results."""
    kind = "base" if row.claim is None else "certified"
    wanted = row.sigma, row.tau, row.correction
    return [r for r in run.records if r.kind == kind and (r.sigma, r.tau, r.correction) == wanted]


def test_the_pages_numbers_are_the_tables(run, folder, tmp_path):
    data = data_of(saved(run, tmp_path, run_folder=folder))
    shown = [(each["title"], tuple(each["heads"]), [*map(tuple, each["rows"])]) for each in data["tables"]]
    assert shown == [(each.title, each.heads, [*each.rows]) for each in run.tables().values()]
    assert len(shown) > 5
    table = run.table()
    for claim, row, cells in zip(data["claims"], run.rows, table.rows, strict=True):
        cell = dict(zip(table.heads, cells, strict=True))
        found = {name: unpacked(values) for name, values in claim["scenes"].items()}
        whole = found["all"].sum()
        assert measured(found["right"].sum() / whole) == cell["accuracy"] == measured(row.accuracy)
        assert measured(found["abstained"].sum() / whole) == cell["abstained (valid)"]
        assert claim["label"] == row.label
        assert claim["base"] == (row.claim is None)
        assert claim["claim"] == ("" if row.claim is None else row.claim.over(5))
        of_classes = {name: unpacked(values) for name, values in claim["of_classes"].items()}
        classes, sizes = unpacked(data["present"]["class"]), unpacked(data["present"]["all"])
        for c, _ in enumerate(data["classes"]):
            mine = classes == c
            assert of_classes["right"][mine].sum() / sizes[mine].sum() == pytest.approx(row.class_accuracy[c])
            assert of_classes["abstained"][mine].sum() / sizes[mine].sum() == pytest.approx(row.class_abstained[c])


def test_each_scene_has_its_records_numbers(run, folder, tmp_path):
    data = data_of(saved(run, tmp_path, run_folder=folder))
    assert data["scenes"] == [*"abcde"]
    for claim, row in zip(data["claims"], run.rows, strict=True):
        kind = "base" if row.claim is None else "certified"
        own = [
            r
            for r in run.records
            if r.kind == kind and (r.sigma, r.tau, r.correction) == (row.sigma, row.tau, row.correction)
        ]
        worst, b = unpacked(claim["worst"]), 0 if row.claim is None else row.claim.budget
        proved = row.claim is None or row.claim.certifies
        places = unpacked(data["present"]["scene"]), unpacked(data["present"]["class"])
        for i, record in enumerate(own):
            matrix = metrics.from_plain(record.confusion)
            assert [unpacked(claim["scenes"][name])[i] for name in ("all", "right", "abstained")] == [
                matrix.sum(), np.trace(matrix), matrix[:, -1].sum(),
            ]  # fmt: skip
            expected = metrics.mean_iou([matrix], "worst_case", b=b)
            assert (f"{worst[i] / 1e4:.4f}" == lower(expected)) if proved else (worst[i] == UNKNOWN)
            mine = places[0] == i
            assert places[1][mine].tolist() == np.flatnonzero(matrix.sum(1)).tolist()
            ious = metrics.worst_case_iou(matrix, b=b)[places[1][mine]]
            found = unpacked(claim["of_classes"]["worst"])[mine]
            assert [f"{each / 1e4:.4f}" for each in found] == [*map(lower, ious)] if proved else {*found} == {UNKNOWN}


def test_words_say_what_holds(run, folder, tmp_path):
    claims = {each["label"]: each for each in data_of(saved(run, tmp_path, run_folder=folder))["claims"]}
    assert claims["base model, no noise"]["sentence"].endswith("Nothing is promised of it.")
    holm = claims["sigma=0.1, n=60, tau=0.75, holm"]
    row = next(row for row in run.rows if row.label == "sigma=0.1, n=60, tau=0.75, holm")
    assert (
        f"{100 * float(lower(row.certified_accuracy, 3)):.1f}% are certified and right within R = 0.067"
        in holm["sentence"]
    )
    assert "in l2 norm" in holm["sentence"]
    assert holm["proved"].startswith("Proved with probability at least ")
    assert "of 255 steps in one colour of one pixel" in holm["proved"]
    assert "R = 0.0674 is, for example, 17" in holm["proved"]
    assert holm["word"] == claims["sigma=0.1, n=60, tau=0.75, k-fwer"]["word"] == "certified"
    bh = claims["sigma=0.1, n=60, tau=0.75, bh"]
    assert bh["word"] == "labelled"
    assert "labelled, not certified, and right" in bh["sentence"]
    assert bh["claim"].startswith("No robustness certificate")


def test_only_family_wise_rows_say_that_labels_stay(run, folder, tmp_path):
    """Not those of a false discovery rate, nor single ones of an error budget, nor any under an unproven noise."""
    data = data_of(saved(run, tmp_path, run_folder=folder))
    for each in data["claims"][1:]:
        correction = each["label"].rpartition(" ")[2]
        assert ("A certified label is sure to stay" in each["sentence"]) == (correction == "holm")
        assert ("All but at most 4 of a scene's labels are sure to stay" in each["sentence"]) == (
            correction == "k-fwer"
        )
        assert ("No single label is sure to stay" in each["sentence"]) == (correction == "bh")
        assert bool(each["proved"]) == (correction == "holm")
    assert data["not_promised"][:2] == [
        "That a label is right.", "That any single label of bh, k-fwer stays: see the exact claim.",
    ]  # fmt: skip
    unproven = run.configuration | {"noise": "mine(sigma)", "noises": {}}
    for each in data_of(saved(Run(unproven, run.records), tmp_path))["claims"][1:]:
        assert "No single label is sure to stay" in each["sentence"]
        assert "within R" not in each["sentence"]
        assert {*unpacked(each["worst"]).tolist()} == {UNKNOWN}


def test_curves_are_never_above_what_is_certified(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("segcertify.report.charts.MOST_STEPS", 4)
    charts = data_of(saved(run, tmp_path, run_folder=folder))["charts"]
    assert [chart["title"].split()[0] for chart in charts] == ["Certified", "Accuracy", "Bounds"]
    steps = [each for each in charts[0]["series"] if each["kind"] == "steps"]
    for curve, drawn in zip(run.curves(), steps, strict=True):
        assert 1 <= len(drawn["points"]) <= 4
        assert drawn["points"][-1][0] == curve.certified.radii[-1]
        for radius in np.linspace(0, 0.5, 200):
            height = next((y for x, y in drawn["points"] if radius <= x), 0.0)
            assert height <= curve.certified(radius)
    dots = [each for each in charts[0]["series"] if each["kind"] == "dots"]
    lines = {row.label: row for row in run.rows if row.lower_bound}
    assert {each["name"].split(":")[0] for each in dots} == set(lines)  # none of bh
    for each in dots:
        row = lines[each["name"].split(":")[0]]
        assert each["name"].endswith(f": {lower(row.certified_accuracy)} at R = {row.radius_text}")


def test_pages_and_pictures_are_linked(run, folder, tmp_path):
    page = folder / "report" / "index.html"
    save_run_page(run, page, run_folder=folder)
    for claim in data_of(page)["claims"]:
        assert all(claim["pictures"])
        assert claim["shown"] == ""
        for links in claim["links"]:
            assert [name for name, _ in links] == ([] if claim["base"] else ["its page", "its picture"])
            assert all((page.parent / address).is_file() for _, address in links)
    assert len(data_of(page)["colours"]) == 3
    assert "--votes" in data_of(page)["audit"]["note"]


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_runs_of_earlier_versions_have_numbers_alone(name, tmp_path):
    loaded = Run.load(GOLDEN / name)
    data = data_of(saved(loaded, tmp_path, run_folder=GOLDEN / name))
    assert len(data["claims"]) == len(loaded.rows)
    for claim in data["claims"]:
        assert not any(claim["pictures"])
        assert claim["shown"].startswith("No thumbnails")
    assert data["colours"] == []
    assert data_of(saved(loaded, tmp_path / "no folder"))["claims"][0]["shown"] == ""


def test_a_page_is_the_same_each_time(run, folder, tmp_path):
    first = saved(run, tmp_path, run_folder=folder).read_bytes()
    assert saved(run, tmp_path, run_folder=folder).read_bytes() == first


def evil(run):
    """The run with markup for all its names."""
    stored = run.configuration | {"classes": [EVIL, "b", EVIL], "model": EVIL, "data": EVIL}
    records = tuple(replace(record, id=EVIL + record.id) for record in run.records)
    return Run(stored, records)


def test_names_cannot_become_html(run, tmp_path):
    harmless = Elements(saved(run, tmp_path).read_text("utf-8"))
    page = Elements(saved(evil(run), tmp_path).read_text("utf-8"))
    assert page.tags == harmless.tags
    assert page.scripts[1] == harmless.scripts[1]
    data = json.loads(page.scripts[0])
    assert data["classes"][0] == visible(EVIL)
    assert data["scenes"][0] == visible(EVIL + "a")


def test_nothing_valid_and_no_settings(run, folder, tmp_path):
    """A scene without ground truth, and a run that certified nothing at all."""
    none = metrics.to_plain(np.zeros((3, 4), int))
    records = [replace(r, confusion=none) if r.id == "b" and r.confusion else r for r in run.records]
    data = data_of(saved(replace(run, records=tuple(records)), tmp_path))
    assert unpacked(data["claims"][1]["worst"])[1] == UNKNOWN
    base = [record for record in run.records if record.kind == "base"]
    stored = run.configuration | {"settings": [], "attack": None, "metrics": None, "sets": []}
    data = data_of(saved(Run(stored, tuple(base)), tmp_path))
    assert [each["label"] for each in data["claims"]] == ["base model, no noise"]
    assert data["audit"]["command"] == ""


# --- In a browser.

USE = """
    const shown = (id) => document.getElementById(id);
    const choose = (id, value) => { shown(id).value = value; shown(id).dispatchEvent(new Event("change")); };
    const key = (name) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
    const names = () => [...document.querySelectorAll("#gallery .title")].map((each) => each.textContent);
    const said = () => shown("said").textContent;
    await ready;
"""


@in_browser
def test_the_gallery_sorts_and_filters(run, folder, tmp_path):
    page = saved(run, tmp_path, run_folder=folder)
    seen = reached(
        page,
        USE + """
        seen.orders = {};
        for (const [i, claim] of data.claims.entries()) {
            choose("claim", i);
            for (const sort of Object.keys(SORTS)) {
                choose("sort", sort);
                seen.orders[`${claim.label} ${sort}`] = names();
            }
        }
        choose("claim", 1); choose("sort", "wrong");
        shown("reverse").click(); seen.reversed = names(); shown("reverse").click();
        seen.cards = [...document.querySelectorAll("#gallery .small")].map((each) => each.textContent);
        choose("part", 2); seen.part = [names(), said()];
        seen.ofPart = [...document.querySelectorAll("#gallery .small")].map((each) => each.textContent);
        choose("part", -1);
        shown("query").value = "D"; shown("query").dispatchEvent(new Event("input"));
        seen.query = [names(), said()];
        """,
    )  # fmt: skip
    for row in run.rows:
        own = {record.id: metrics.from_plain(record.confusion) for record in records_of(run, row)}
        b = 0 if row.claim is None else row.claim.budget
        wrong = {name: (m.sum() - np.trace(m) - m[:, -1].sum()) / m.sum() for name, m in own.items()}
        keys = {
            "abstained": lambda name, own=own: -own[name][:, -1].sum() / own[name].sum(),
            "wrong": lambda name, wrong=wrong: -wrong[name],
            "iou": lambda name, own=own, b=b, row=row: (
                np.floor(1e4 * metrics.mean_iou([own[name]], "worst_case", b=b))
                if row.claim is None or row.claim.certifies
                else 2
            ),
            "name": lambda name: 0,
        }
        for sort, value in keys.items():
            assert seen["orders"][f"{row.label} {sort}"] == sorted(own, key=lambda name: (value(name), name)), sort
        if row is run.rows[1]:
            order = sorted(own, key=lambda name: (-wrong[name], name))
            assert seen["reversed"] == order[::-1]
            expected = [f"{100 * own[name][:, -1].sum() / own[name].sum():.1f}% abstained" for name in order]
            assert [card.split(",")[0] for card in seen["cards"]] == expected
            having = [name for name in own if own[name][2].sum()]
            assert sorted(seen["part"][0]) == having
            for name, card in zip(seen["part"][0], seen["ofPart"], strict=True):
                line = own[name][2]
                assert f"{100 * (line[0] + line[1]) / line.sum():.1f}% wrong" in card
    assert f"{len(having)} of 5 scenes that have dog" in seen["part"][1]
    assert seen["query"][0] == ["d"]
    assert seen["query"][1].startswith("1 of 5 scenes")


@in_browser
def test_scenes_open_by_mouse_and_by_keys(run, folder, tmp_path):
    seen = reached(
        saved(run, tmp_path, run_folder=folder),
        USE + """
        const name = () => shown("name").textContent, at = () => shown("place").textContent;
        seen.closed = shown("scene").open;
        key("n");
        seen.sort = [shown("sort").value, names()];
        document.querySelectorAll("#gallery button")[1].click();
        seen.open = [shown("scene").open, name(), at()];
        seen.settings = [...document.querySelectorAll("#settings tbody tr")].map(
            (row) => [...row.children].map((cell) => cell.textContent));
        seen.own = document.querySelector("#settings .own td").textContent;
        seen.links = [...document.querySelectorAll("#links a")].map((a) => [a.textContent, a.getAttribute("href")]);
        key("ArrowRight"); seen.next = [name(), at()];
        for (let i = 0; i < 9; i++) key("ArrowLeft");
        seen.first = [name(), at()];
        shown("close").click();
        seen.after = shown("scene").open;
        key("]"); seen.claim = shown("claim").value;
        key("["); key("["); key("["); seen.base = [shown("claim").value, shown("sentence").textContent];
        key("/"); seen.focus = document.activeElement.id;
        const pictures = () => document.querySelectorAll("#gallery canvas[data-drawn=yes]").length;
        for (let i = 0; i < 100 && !pictures(); i++) {
            await new Promise((done) => setTimeout(done, 50));
            for (let j = 0; j < 200; j++) await hop();
        }
        seen.drawn = pictures();
        """,
    )  # fmt: skip
    assert seen["closed"] is False
    assert seen["sort"] == ["name", [*"abcde"]]
    assert seen["open"] == [True, "b", "2 of 5"]
    assert [row[0] for row in seen["settings"]] == [row.label for row in run.rows]
    matrix = metrics.from_plain(next(r.confusion for r in run.records if r.id == "b" and r.kind == "base"))
    assert seen["settings"][0][1] == str(matrix.sum())
    assert seen["settings"][0][-1].endswith(" without attack")
    assert not any("without attack" in cell for row in seen["settings"][1:] for cell in row)
    assert seen["own"] == "sigma=0.1, n=60, tau=0.75, holm"
    assert [name for name, _ in seen["links"]] == ["Open its page", "Open its picture"]
    assert seen["links"][0][1].endswith("certified/b-sigma0.1-n60-tau0.75-holm.html")
    assert (seen["next"], seen["first"], seen["after"]) == (["c", "3 of 5"], ["a", "1 of 5"], False)
    assert seen["claim"] == "2"
    assert seen["base"][0] == "0"
    assert seen["base"][1].startswith("The base model, without noise")
    assert seen["focus"] == "query"
    assert seen["drawn"] >= 1


@in_browser
def test_tables_sort_and_views_change(run, folder, tmp_path):
    seen = reached(
        saved(run, tmp_path, run_folder=folder),
        USE + """
        const body = document.querySelectorAll("#tables tbody")[1];
        const cells = () => [...body.rows].map((row) => [row.cells[0].textContent, row.cells[1].textContent]);
        seen.before = cells();
        const heads = document.querySelectorAll("#tables thead")[1].querySelectorAll("button");
        heads[1].click(); seen.falling = cells();
        heads[1].click(); seen.rising = cells();
        heads[0].click(); seen.names = cells();
        const hidden = () => ["scenes", "curves", "tables"].map((id) => shown(id).hidden);
        seen.views = [hidden()];
        for (const view of ["tables", "scenes", "curves"]) {
            document.querySelector(`[value=${view}]`).click();
            await new Promise((done) => setTimeout(done, 20));
            seen.views.push(hidden());
        }
        seen.charts = document.querySelectorAll("#curves figure").length;
        const plot = document.querySelector("#curves figure > svg");
        plot.dispatchEvent(new PointerEvent("pointermove", { clientX: 0, clientY: 0 }));
        seen.reading = document.querySelector(".reading").textContent;
        const box = plot.getBoundingClientRect();
        seen.readings = [...Array(40).keys()].map((i) => {
            plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width * i / 40, clientY: 0 }));
            const text = document.querySelector(".reading").textContent;
            return [text, +plot.querySelector("line[visibility=visible]").getAttribute("x1")];
        });
        """,
    )  # fmt: skip
    rows = [(row[0], row[1]) for row in run.class_table().rows]
    assert [*map(tuple, seen["before"])] == rows
    by_number = sorted(rows, key=lambda row: float(row[1]))
    assert [*map(tuple, seen["rising"])] == by_number
    assert [*map(tuple, seen["falling"])] == by_number[::-1]
    assert [*map(tuple, seen["names"])] == sorted(rows)[::-1]
    assert seen["views"] == [
        [False, True, True], [True, True, False], [False, True, True], [True, False, True],
    ]  # fmt: skip
    assert seen["charts"] == 3
    curve = run.curves()[0]
    assert f"certified, all radii at once: {curve.certified(0):.4f}"[:-1] in seen["reading"]
    far = max(x for each in data_of(tmp_path / "deep" / "index.html")["charts"][0]["series"] for x, _ in each["points"])
    for text, x in seen["readings"]:  # curves are read at the radius that is shown, which no rounding makes larger
        radius, height = re.search(r"R = ([\d.]+): .*?all radii at once: ([\d.]+)", text).groups()
        assert (x - 48) / 580 * far == pytest.approx(float(radius), abs=1e-9)
        assert float(height) <= curve.certified(float(radius)) + 1e-12


@in_browser
def test_names_stay_text_in_the_browser(run, tmp_path):
    seen = reached(
        saved(evil(run), tmp_path),
        USE + """
        document.querySelector("#gallery button").click();
        seen.images = document.images.length;
        seen.title = document.title;
        seen.name = shown("name").textContent;
        seen.card = names()[0];
        seen.part = document.querySelector("#parts tbody td").textContent;
        """,
    )  # fmt: skip
    assert seen["images"] == 0
    assert seen["title"].startswith("Evaluation: </script>")
    assert seen["name"] == seen["card"]
    assert seen["card"].startswith(visible(EVIL))
    assert seen["part"] == visible(EVIL)


def many(run, scenes):
    """The run's first scene, so many times."""
    first = [record for record in run.records if record.id == "a"]
    return replace(run, records=tuple(replace(r, id=f"scene {i}") for i in range(scenes) for r in first))


@in_browser
def test_a_run_of_thousands_of_scenes_makes_the_cards_in_sight(run, tmp_path):
    page = saved(many(run, 3000), tmp_path)
    assert page.stat().st_size < 2e6
    seen = reached(
        page,
        USE + """
        seen.cards = names().length; choose("sort", "name"); seen.first = names().slice(0, 3);
        """,
    )  # fmt: skip
    assert 60 <= seen["cards"] < 600
    assert seen["first"] == ["scene 0", "scene 1", "scene 2"]


@in_browser
@pytest.mark.parametrize("name", ["image-gaussian", "cloud-rotation"])
@pytest.mark.parametrize("options", [[], ["--blink-settings=preferredColorScheme=0"], ["--window-size=500,900"]])
def test_light_dark_and_narrow_pages_open(name, options, tmp_path):
    page = saved(Run.load(GOLDEN / name), tmp_path, run_folder=GOLDEN / name)
    text = browse(page, *options, "--dump-dom")
    assert re.search('class="title">', text)
    assert "no thumbnail" in text


def test_a_report_without_its_folder_has_no_pictures(run, tmp_path):
    files = write_report(run, tmp_path)
    assert files[-1].name == "index.html"
    assert not any(data_of(files[-1])["claims"][1]["pictures"])
