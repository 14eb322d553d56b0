"""Pictures of clouds: panels and greys; the page's data, its looks in a browser, and what it answers."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from browser import Elements, browse, data_of, in_browser, reached, unpacked
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from segcertify import ABSTAIN, AxisRotation, Certificate, Gaussian, InputError, RadiusMap, Votes, certify_votes
from segcertify.figures.cloud import GREY, cloud_figure
from segcertify.figures.cloud_page import save_view
from segcertify.figures.image import save_figure
from segcertify.figures.painting import WRONG
from segcertify.figures.palette import palette
from segcertify.names import visible
from segcertify.noise import described

N = 600
NAMES = ("back", "seat", "leg")
EVIL = "</script><!--<script><img src=x onerror=\"document.title='owned'\">&amp;$_\u2028\ud800"


def ball(n=N):
    """Points with normals, which nobody draws."""
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return np.hstack([[5, 0, -3] + 0.4 * normals, normals])


def truth(points):
    """Three parts, one above the other."""
    return np.digitize(points[:, 1], [-0.15, 0.15])


def votes_of(candidate, **options):
    """A quarter of the points agree too rarely for the claim; some of these too rarely for any radius."""
    every = np.arange(len(candidate))
    agree = np.where(every % 4 == 0, np.where(every % 8 == 0, 60, 80), 100)
    noise = Gaussian(0.25, channels=(0, 1, 2), axis=1)
    return Votes(candidate, agree, n=100, n0=10, noise=noise, input_shape=(len(candidate), 6), **options)


def certificate_of(candidate, correction="holm", **options):
    return certify_votes(votes_of(candidate, **options), tau=0.75, alpha=0.001, correction=correction)


POINTS = ball()
TARGET = truth(POINTS)
PREDICTION = (TARGET + (np.arange(N) % 7 == 0)) % 3
CERTIFICATE = certificate_of(TARGET)


@pytest.mark.parametrize("with_target", [False, True])
def test_panels(tmp_path, with_target):
    target = np.where(np.arange(N) % 5, TARGET, -1) if with_target else None
    figure = cloud_figure(POINTS, PREDICTION, CERTIFICATE, target=target, names=NAMES)
    columns = 2 + with_target
    assert len(figure.axes) == 2 * columns
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[columns - 2 : columns] == ["base model, no guarantee", "certified: 75.0%"]
    assert titles[0] == ("ground truth (grey: ignored)" if with_target else "base model, no guarantee")
    entries = [*NAMES, "abstained: nothing is promised"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == entries + (
        ["certified but wrong: 0 (0.0%)"] if with_target else []
    )
    assert " ".join(figure.get_suptitle().split()) == CERTIFICATE.sentence
    words = " ".join(figure.get_supxlabel().split())
    assert words == CERTIFICATE.claim_about("the points coloured on the right")
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_certified_points_that_are_wrong_have_a_rim_and_are_counted():
    target = TARGET.copy()
    certified = np.flatnonzero(CERTIFICATE.labels >= 0)
    target[certified[:3]] = (target[certified[:3]] + 1) % 3
    figure = cloud_figure(POINTS, PREDICTION, CERTIFICATE, target=target, names=NAMES)
    rimmed = [(axes.collections[0].get_edgecolors()[:, :3] == WRONG).all(1).sum() for axes in figure.axes]
    assert rimmed == [0, 0, 3] * 2
    assert figure.legends[0].get_texts()[-1].get_text() == f"certified but wrong: 3 ({300 / N:.1f}%)"


def test_the_figure_greys_what_abstains_and_colours_the_rest():
    figure = cloud_figure(POINTS, PREDICTION, CERTIFICATE)
    for axes in (figure.axes[1], figure.axes[3]):
        (dots,) = axes.collections
        shown, counts = np.unique(dots.get_facecolors()[:, :3].round(4), axis=0, return_counts=True)
        parts, expected = np.unique(CERTIFICATE.labels, return_counts=True)
        colours = [to_rgb(GREY) if part == ABSTAIN else palette(10)[part] for part in parts]
        order = np.lexsort(np.array(colours).T[::-1])
        np.testing.assert_allclose(shown, np.array(colours)[order], atol=2e-3)
        assert counts.tolist() == expected[order].tolist()


def test_near_points_are_drawn_last():
    depth = np.linspace(-1, 1, 50)
    points = np.stack([depth, 0 * depth, 0 * depth], 1)  # the first view is from the side of positive x
    labels = (depth > 0).astype(int)
    figure = cloud_figure(points, labels, certificate_of(labels))
    colours = figure.axes[0].collections[0].get_facecolors()[:, :3]
    np.testing.assert_allclose(colours, palette(2)[labels], atol=2e-3)


def test_parts_of_a_category_keep_their_colours_whichever_are_present():
    both = cloud_figure(POINTS, TARGET + 12, certificate_of(TARGET + 12))
    top = TARGET == 2
    one = cloud_figure(POINTS[top], TARGET[top] + 12, certificate_of(TARGET[top] + 12))
    assert one.legends[0].legend_handles[0].get_color() == both.legends[0].legend_handles[2].get_color()


def test_names_are_drawn_as_they_are():
    figure = cloud_figure(POINTS, TARGET, CERTIFICATE, names=("_hidden", "$x$", "$\\bad{"))
    figure.canvas.draw()
    assert [text.get_text() for text in figure.legends[0].get_texts()][:3] == ["_hidden", "$x$", "$\\bad{"]
    figure = cloud_figure(POINTS, TARGET, CERTIFICATE, names=("back",))
    assert [text.get_text() for text in figure.legends[0].get_texts()][1:3] == ["class 1", "class 2"]


def test_one_point_and_none_certified():
    votes = Votes(np.array([3]), np.array([50]), n=100, n0=1, noise=Gaussian(0.25))
    cloud_figure(np.zeros((1, 3)), np.array([3]), certify_votes(votes, tau=0.75, alpha=0.001)).canvas.draw()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": POINTS[:, :2]}, r"shape \(N, at least 3\), but have \(600, 2\)"),
        ({"points": POINTS.ravel()}, r"shape \(N, at least 3\)"),
        ({"points": POINTS[:-1]}, r"certified labels must have the shape \(599,\), one per point, but have \(600,\)"),
        ({"points": np.where(np.arange(N)[:, None] == 7, np.nan, POINTS)}, r"1 points are not \(first: point 7\)"),
        ({"prediction": PREDICTION[:-1]}, r"prediction labels must have the shape \(600,\)"),
        ({"prediction": PREDICTION.astype(float)}, r"prediction labels must be integers.*astype\(int\)"),
        ({"target": TARGET[:, None]}, r"target labels must have the shape \(600,\)"),
        ({"colours": palette(2)}, r"colours must have the shape \(at least 3, 3\), but have \(2, 3\)"),
        ({"colours": palette(3) * 255}, r"colours must lie in \[0, 1\].*divide bytes by 255"),
    ],
)
def test_what_cannot_be_drawn_is_said(tmp_path, change, message):
    given = {"points": POINTS, "prediction": PREDICTION, "target": TARGET, **change}
    with pytest.raises(InputError, match=message):
        cloud_figure(certificate=CERTIFICATE, **given)
    with pytest.raises(InputError, match=message):
        save_view(tmp_path / "a.html", certificate=CERTIFICATE, votes=votes_of(TARGET), **given)
    assert not (tmp_path / "a.html").exists()


class Unproven(Gaussian):
    """A noise of the caller's, whose radius segcertify has not proven."""


def saved(tmp_path, certificate=CERTIFICATE, **options):
    path = tmp_path / "deep" / "view.html"
    given = {"votes": votes_of(TARGET), "prediction": PREDICTION, "target": TARGET, "names": NAMES, **options}
    save_view(path, POINTS, certificate, **given)
    return path


def test_the_page_holds_every_point_and_label(tmp_path):
    data = data_of(saved(tmp_path, certificate_of(TARGET, input_id="chair 7"), audit="segcertify audit"))
    decoded = np.frombuffer(base64.b64decode(data["points"]), "<f4").reshape(-1, 3)
    xyz = POINTS[:, :3] - (POINTS[:, :3].min(0) + POINTS[:, :3].max(0)) / 2
    np.testing.assert_allclose(decoded, xyz / np.linalg.norm(xyz, axis=1).max(), atol=1e-6)
    maps = {"candidate": TARGET, "certified": CERTIFICATE.labels, "prediction": PREDICTION, "target": TARGET}
    for key, labels in maps.items():
        assert unpacked(data["labels"][key]).tolist() == np.where(labels < 0, 3, labels).tolist()
    assert unpacked(data["agree"]).tolist() == votes_of(TARGET).agree.tolist()
    assert [part["name"] for part in data["parts"]] == list(NAMES)
    assert [part["colour"] for part in data["parts"]] == [to_hex(row) for row in palette(10)[:3]]
    assert (data["title"], data["heading"], data["word"]) == ("chair 7", "Certified cloud", "certified")
    assert (data["share"], data["audit"]) == ("450 of 600 points certified (75.0%)", "segcertify audit")


def test_the_page_says_what_an_images_page_says(tmp_path):
    data, found = data_of(saved(tmp_path)), RadiusMap.of(votes_of(TARGET), alpha=0.001)
    assert data["sentence"] == CERTIFICATE.sentence
    assert data["sentence"].startswith("Proved with probability at least 99.9% over the noise drawn: however the 600")
    assert (data["claim"], data["map"]) == (CERTIFICATE.claim, found.claim)
    assert [level["count"] for level in data["levels"]] == [80, 100]
    for level in data["levels"]:
        kept = votes_of(TARGET).agree >= level["count"]
        assert np.array_equal(kept, found.radii >= np.float32(level["radius"]))
    assert data["facts"]["noise"] == described(CERTIFICATE.noise)
    assert any("turn of the whole cloud" in each for each in data["not_promised"])


def test_a_turned_cloud_has_a_page(tmp_path):
    votes = replace(votes_of(TARGET), noise=AxisRotation(0.25))
    data = data_of(saved(tmp_path, certify_votes(votes, tau=0.75, alpha=0.001), votes=votes))
    assert data["axis"] == "radians"
    assert any("points that move by themselves" in each for each in data["not_promised"])
    assert data["sentence"].startswith("Proved with probability at least 99.9% over the noise drawn: however the cloud")


@pytest.mark.parametrize("of", ["bh", "by", "unproven"])
def test_a_page_calls_nothing_certified_that_is_not(tmp_path, of):
    """Neither false discovery rates nor a noise without a proof certify labels."""
    certificate = certificate_of(TARGET, "holm" if of == "unproven" else of)
    if of == "unproven":
        certificate = replace(certificate, noise=Unproven(0.25, channels=(0, 1, 2), axis=1))
    data = data_of(saved(tmp_path, certificate))
    assert (data["heading"], data["word"], data["sentence"]) == ("Labelled cloud", "labelled", "")
    assert data["share"] == f"{certificate.certified} of 600 points labelled ({certificate.certified / 600:.1%})"
    assert bool(data["levels"]) == (of != "unproven")  # the radius map is a claim of its own
    assert data["radius"]["dot"] is None


def test_votes_of_another_cloud_are_refused(tmp_path):
    with pytest.raises(InputError, match="not the certificate's: their labels differ"):
        saved(tmp_path, votes=votes_of(2 - TARGET))


def test_the_page_needs_no_other_file(tmp_path):
    text = saved(tmp_path).read_text("utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|fetch\(|XMLHttpRequest", text)
    Elements(text)  # no src, no href


def test_names_cannot_become_html(tmp_path):
    harmless = Elements(saved(tmp_path).read_text("utf-8"))
    page = Elements(saved(tmp_path, certificate_of(TARGET, input_id=EVIL), names=(EVIL,) * 3).read_text("utf-8"))
    assert page.tags == harmless.tags
    assert page.scripts[1] == harmless.scripts[1]
    data = json.loads(page.scripts[0])
    assert [part["name"] for part in data["parts"]] == [visible(EVIL)] * 3
    assert data["title"] == visible(EVIL)


def screenshot(page, *options, fragment=""):
    """The part of the window that shows the cloud."""
    browse(page, *options, f"--screenshot={page.parent / 'shot.png'}", fragment=fragment)
    with Image.open(page.parent / "shot.png") as image:
        return np.asarray(image.convert("RGB"))[50:-50, :560].astype(int)


def coloured(image):
    """Where pixels are not grey."""
    return np.ptp(image, axis=2) > 40


@in_browser
def test_the_page_draws_the_cloud_and_its_address_chooses_the_labels(tmp_path):
    page = saved(tmp_path)
    certified = screenshot(page)
    assert 0.05 < coloured(certified).mean() < 0.9
    grey = (np.ptp(certified, axis=2) < 12) & (certified.mean(2) < 235)
    assert grey.mean() > 0.01
    prediction = screenshot(page, fragment="#prediction")
    assert coloured(prediction).sum() > 1.2 * coloured(certified).sum()  # nothing is grey
    target = screenshot(page, fragment="#target")
    assert (target != prediction).any(2).mean() > 0.01


@in_browser
def test_the_page_is_dark_where_the_reader_wants_it(tmp_path):
    dark = screenshot(saved(tmp_path), "--blink-settings=preferredColorScheme=0")
    assert np.median(dark[:40]) < 40
    assert coloured(dark).mean() > 0.05


@in_browser
def test_without_webgl_the_picture_is_the_same(tmp_path):
    page = saved(tmp_path)
    shots = np.stack([screenshot(page), screenshot(page, "--disable-3d-apis")])
    webgl, software = shots.reshape(2, 50, 10, 56, 10, 3).mean((2, 4))  # blocks of 10 x 10: rims differ a little
    assert np.abs(webgl - software).mean() < 6 < np.abs(webgl - software[:, ::-1]).mean()


@in_browser
def test_the_page_answers(tmp_path):
    seen = reached(
        saved(tmp_path),
        """
        await ready;
        const key = (name, on = canvas) => on.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
        const pointer = (type, x, y, more) => canvas.dispatchEvent(
            new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, pointerType: "mouse", ...more }));
        const boxes = [...document.querySelectorAll("#parts [type=checkbox]")];
        const drawn = () => { let n = 0; project(() => n++); return n; };
        const counts = () => [...document.querySelectorAll(".count")].map((e) => +e.textContent);
        const rims = () => colours.filter((value, i) => i % 4 === 3 && value === WRONG).length;
        seen.kinds = kinds;
        seen.counts = counts();
        seen.all = drawn();
        boxes[3].click(); seen.withoutAbstained = drawn();
        boxes[0].click(); seen.withoutBack = drawn();
        boxes[0].click(); boxes[3].click();
        seen.wrong = [rims(), tally("certified").wrong, byId("caption").textContent];
        key("w"); seen.unmarked = rims(); key("w");

        let nearest = [0, 0, 0, -9];
        project((i, x, y, depth) => { if (depth > nearest[3]) nearest = [i, x, y, depth]; });
        pointer("pointermove", nearest[1], nearest[2]);
        seen.point = nearest[0];
        seen.tip = [...tip.children].map((e) => e.textContent);
        seen.answers = Array.from({ length: agree.length }, (_, i) => answers(i)[2]);
        pointer("pointermove", 3, 300); seen.tipOutside = tip.hidden;

        const before = { ...view };
        pointer("pointerdown", 200, 200); pointer("pointermove", 260, 230); pointer("pointerup", 260, 230);
        seen.dragged = [view.azimuth - before.azimuth, view.elevation - before.elevation];
        key("ArrowRight"); key("ArrowUp"); seen.keyed = view.azimuth - before.azimuth - seen.dragged[0];
        canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -120, clientX: 100, clientY: 100, cancelable: true }));
        seen.zoom = view.zoom;
        document.getElementById("reset").click(); seen.reset = JSON.stringify(view) === JSON.stringify(before);

        key("["); key("["); seen.atSmallest = [state.left, byId("kept").textContent, counts()];
        key("3"); seen.heat = [counts(), [...document.querySelectorAll("#key li")].map((e) => e.textContent)];
        key("2"); key("]"); seen.atLargest = [byId("kept").textContent, counts()];
        const tau = data.explore.taus.findIndex((each) => each.value === 0.5);
        byId("tau").value = tau; byId("tau").dispatchEvent(new Event("input"));
        seen.explored = [byId("badge").hidden, byId("explored").textContent, counts(), byId("caption").textContent];
        key("Escape"); seen.back = [byId("badge").hidden, counts()];

        location.hash = "#prediction";
        dispatchEvent(new HashChangeEvent("hashchange"));
        seen.left = byId("left").value;
        seen.predicted = counts();
        """,
    )
    parts = [np.count_nonzero(CERTIFICATE.labels == part) for part in (0, 1, 2, ABSTAIN)]
    assert seen["kinds"] == ["certified", "radius", "heat", "prediction", "target"]
    assert seen["counts"] == parts
    assert (seen["all"], seen["withoutAbstained"], seen["withoutBack"]) == (N, N - parts[3], N - parts[3] - parts[0])
    point = seen["point"]
    data, count, name = data_of(tmp_path / "deep" / "view.html"), votes_of(TARGET).agree[point], NAMES[TARGET[point]]
    needed, levels = data["needed"], data["levels"]
    radius = {level["count"]: f"radius {level['text']}" for level in levels}
    assert seen["tip"] == [
        f"point {point}",
        f"{name} in {count} of 100 noisy copies",
        f"certified: {name}" if count >= needed else f"abstained: needs at least {needed} of 100, has {count}",
        radius.get(count, f"no radius: needs at least {data['least']} of 100, has {count}"),
        f"without noise: {NAMES[PREDICTION[point]]}",
        f"ground truth: {name}",
    ]
    certified = [answer.startswith("certified: ") for answer in seen["answers"]]
    assert certified == (CERTIFICATE.labels != ABSTAIN).tolist()
    assert seen["wrong"] == [0, 0, "450 of 600 points certified (75.0%)"]
    assert seen["unmarked"] == 0
    assert seen["tipOutside"]
    assert seen["dragged"] == pytest.approx([-0.4, 0.2])
    assert seen["keyed"] == pytest.approx(-0.1)
    assert seen["zoom"] == pytest.approx(np.exp(0.2))
    assert seen["reset"]
    found = RadiusMap.of(votes_of(TARGET), alpha=0.001).radii
    for (words, shown), level in zip((seen["atSmallest"][1:], seen["atLargest"]), levels, strict=True):
        kept = found >= np.float32(level["radius"])
        assert words.startswith(f"R = {level['text']}: {kept.sum()} of 600 points")
        assert shown == [*np.bincount(TARGET[kept], minlength=3), (~kept).sum()]
    none = np.count_nonzero(found == 0)
    assert seen["heat"] == [
        [*np.bincount(TARGET[found > 0]), none], [f"R from 0 to {levels[-1]['text']}", "no radius"]
    ]  # fmt: skip
    explored = certify_votes(votes_of(TARGET), tau=0.5, alpha=0.001)
    assert seen["atSmallest"][0] == "radius"
    assert not seen["explored"][0]
    assert f"R would be 0, for {explored.certified} of 600 points" in seen["explored"][1]
    assert seen["explored"][2][3] == N - explored.certified > 0
    assert "certified" not in seen["explored"][3]
    assert seen["back"] == [True, parts]
    assert seen["left"] == "prediction"
    assert seen["predicted"] == [*np.bincount(PREDICTION), 0]


@in_browser
@pytest.mark.parametrize("options", [[], ["--disable-3d-apis"]], ids=["webgl", "software"])
def test_certified_points_that_are_wrong_have_a_rim(tmp_path, options):
    """Of its colour nothing else is: magenta."""
    assert not magenta(screenshot(saved(tmp_path), *options)).any()
    wrong = saved(tmp_path, target=(TARGET + 1) % 3)
    assert magenta(screenshot(wrong, *options)).mean() > 0.01
    seen = reached(wrong, "await ready; seen.caption = byId('caption').textContent;", *options)
    assert seen["caption"] == "450 of 600 points certified (75.0%), 450 of them wrong (outlined)"


def magenta(image):
    red, green, blue = np.moveaxis(image, 2, 0)
    return (red > 150) & (blue > 120) & (green < 60)


@in_browser
def test_names_stay_text_in_the_browser(tmp_path):
    evil = visible(EVIL)
    page = saved(tmp_path, certificate_of(TARGET, input_id=evil), names=(evil,) * 3)
    seen = reached(
        page,
        """
        seen.images = document.images.length;
        seen.title = document.title;
        seen.heading = document.querySelector("h1").textContent;
        seen.names = [...document.querySelectorAll("#parts .swatch + span")].map((e) => e.textContent);
        """,
    )
    assert seen["images"] == 0
    assert seen["title"] == seen["heading"] == f"Certified cloud: {evil}"
    assert seen["names"] == [evil, evil, evil, "abstained"]


def test_the_certificate_may_come_from_a_file(tmp_path):
    CERTIFICATE.save(tmp_path / "a.safetensors")
    votes_of(TARGET).save(tmp_path / "votes.safetensors")
    votes = Votes.load(tmp_path / "votes.safetensors")
    save_view(tmp_path / "a.html", POINTS, Certificate.load(tmp_path / "a.safetensors"), votes)
    assert list(data_of(tmp_path / "a.html")["labels"]) == ["candidate", "certified"]
