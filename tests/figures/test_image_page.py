"""The page of a certified image: its data, its words, and in a browser its sliders, keys and answers."""

import base64
import hashlib
import io
import json
import re
import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from browser import Elements, asked, browse, data_of, in_browser, reached, unpacked
from PIL import Image

import segcertify as sc
from segcertify import ABSTAIN, Gaussian, InputError, Votes, certify_votes
from segcertify.certification import radii_of_counts
from segcertify.figures.image_page import save_page
from segcertify.figures.page_panel import EXPLORED_ALPHAS, EXPLORED_TAUS
from segcertify.names import visible
from segcertify.numerals import radius_text
from segcertify.preprocessing import of_image
from segcertify.stats.correction import procedure
from segcertify.stats.pilotless import label_threshold

H, W, NAMES = 24, 36, ("sky", "road", "car")
EVIL = "</script><!--<script><img src=x onerror=\"document.title='owned'\">&amp;$_\u2028\ud800"


def votes_of(n=100, height=H, width=W, **options):
    """Three vertical stripes; agreement falls towards their borders."""
    column = np.arange(width) * 3 / width
    candidate = np.tile(column.astype(int), (height, 1))
    rng = np.random.default_rng(0)
    near = np.abs(column % 1 - 0.5)[None] + rng.uniform(0, 0.1, (height, width))
    agree = np.clip(n - (near > 0.35) * (near - 0.35) * 2 * n, 0, n).astype(int)
    given = {"n0": 10, "noise": Gaussian(0.25), "input_shape": (3, height, width), "input_id": "photo", **options}
    return Votes(candidate, agree, n=n, **given)


VOTES = votes_of()
CERTIFICATE = certify_votes(VOTES, tau=0.75, alpha=0.001)
TARGET = np.where(np.arange(W) == 0, -1, np.roll(VOTES.candidate, 2, axis=1))
X = np.random.default_rng(1).random((3, H, W)).astype(np.float32)


def saved(tmp_path, certificate=CERTIFICATE, votes=VOTES, **options):
    path = tmp_path / "deep" / "photo.html"
    given = {"prediction": VOTES.candidate, "target": TARGET, "names": NAMES, **options}
    save_page(path, given.pop("x", X), certificate, votes, **given)
    return path


def test_the_page_holds_every_pixel(tmp_path):
    data = data_of(saved(tmp_path))
    assert [part["name"] for part in data["parts"]] == list(NAMES)
    maps = {"candidate": VOTES.candidate, "certified": CERTIFICATE.labels, "prediction": VOTES.candidate}
    for key, labels in (maps | {"target": TARGET}).items():
        assert unpacked(data["labels"][key], (H, W)).tolist() == np.where(labels < 0, 3, labels).tolist()
    assert unpacked(data["agree"], (H, W)).tolist() == VOTES.agree.tolist()
    with Image.open(io.BytesIO(base64.b64decode(data["photo"]["bytes"]))) as photo:
        assert np.array_equal(np.asarray(photo), np.rint(255 * X.transpose(1, 2, 0)))
    assert data["claim"] == CERTIFICATE.claim
    assert data["map"] == sc.RadiusMap.of(VOTES, alpha=0.001).claim
    assert (data["needed"], data["n"], data["N"]) == (
        label_threshold(VOTES.histogram(), n=100, tau=0.75, alpha=0.001, chosen=procedure("holm")), 100, H * W,
    )  # fmt: skip
    assert data["sentence"].startswith("Proved with probability at least 99.9% over the noise drawn: whatever change")
    assert "such as 0.168 in one entry" in data["sentence"]  # nothing says that its colours are in [0, 1]
    assert f"{CERTIFICATE.certified:,} of 864 pixels" in data["sentence"]


@pytest.mark.parametrize(
    "options",
    [{}, {"n": 1000}, {"n0": 0}, {"mask": np.arange(H * W).reshape(H, W) % 5 > 0},
     {"looks": (50, 100), "earlier": {50: VOTES.agree // 2}}],
    ids=["plain", "n", "pilotless", "mask", "looks"],
)  # fmt: skip
def test_levels_are_the_radius_map(tmp_path, options):
    """At every level the pixels whose count reaches it are those whose certified radius does: no more, no fewer."""
    votes = votes_of(**options)
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    data, found = data_of(saved(tmp_path, certificate, votes)), sc.RadiusMap.of(votes, alpha=0.001)
    tested = np.ones((H, W), bool) if votes.mask is None else votes.mask
    assert len(data["levels"]) > 3
    for level in data["levels"]:
        kept = (votes.agree >= level["count"]) & tested
        assert np.array_equal(kept, found.radii >= np.float32(level["radius"]))
        assert float(level["text"]) <= level["radius"]
    radii = {level["count"]: level["radius"] for level in data["levels"]}
    own = [radii.get(k, 0.0) for k in votes.agree[tested].tolist()]
    assert own == found.radii[tested].astype(float).tolist()
    assert data["least"] == np.flatnonzero(radii_of_counts(votes, alpha=0.001) > 0)[0]
    assert data["looks"] == bool(votes.looks)
    assert (data["explore"] is None) == (bool(votes.looks) or not votes.n0)
    if data["needed"] is not None:
        assert np.array_equal(certificate.labels != ABSTAIN, (votes.agree >= data["needed"]) & tested)


def test_radii_are_also_in_the_pixels_of_a_resized_file(tmp_path):
    votes = votes_of(preprocessing=of_image((4 * H, 4 * W), (H, W), "box"))
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    data = data_of(saved(tmp_path, certificate, votes))
    for each in (*data["levels"], *({"radius": data["radius"]["value"], **data["radius"]},)):
        assert float(each["file"]) == pytest.approx(4 * each["radius"], rel=1e-3)
        assert float(each["file"]) <= 4 * each["radius"]
    assert f"the file's {4 * H} x {4 * W} pixels" in data["sentence"]
    assert "0.674" in data["sentence"]  # in the file's pixels, where the image is


def test_the_same_certificate_gives_the_same_page(tmp_path):
    first = saved(tmp_path).read_bytes()
    assert saved(tmp_path).read_bytes() == first


class Unproven(Gaussian):
    """A noise of the caller's, whose radius segcertify has not proven."""


@pytest.mark.parametrize("of", ["bh", "unproven"])
def test_labels_are_not_called_certified_where_they_are_not(tmp_path, of):
    certificate = certify_votes(VOTES, tau=0.75, alpha=0.001, correction="bh" if of == "bh" else "holm")
    if of == "unproven":
        certificate = replace(certificate, noise=Unproven(0.25))
    data = data_of(saved(tmp_path, certificate))
    assert (data["heading"], data["word"], data["sentence"]) == ("Labelled image", "labelled", "")
    assert data["explore"] is None
    assert f"pixels labelled ({certificate.certified / 864:.1%})" in data["share"]
    assert bool(data["levels"]) == (of == "bh")  # the radius map is a claim of its own
    assert data["radius"]["dot"] is None
    assert not any("sure to stay" in each for each in data["not_promised"])


def test_an_error_budget_is_subtracted_on_the_curve_and_no_single_label_is_promised(tmp_path):
    certificate = certify_votes(VOTES, tau=0.75, alpha=0.001, correction="k-fwer", k=21)
    data = data_of(saved(tmp_path, certificate))
    assert data["radius"]["dot"] == (certificate.certified - 20) / 864
    assert data_of(saved(tmp_path))["radius"]["dot"] == CERTIFICATE.certified / 864
    assert "That any single label of k-fwer stays: see the exact claim." in data["not_promised"]


@in_browser
@pytest.mark.parametrize(("correction", "dots"), [("holm", 1), ("bh", 0)])
def test_only_certificates_have_a_place_on_the_radius_curve(tmp_path, correction, dots):
    certificate = certify_votes(VOTES, tau=0.75, alpha=0.001, correction=correction)
    found = """
        seen.dots = document.querySelectorAll("#curve circle").length;
        seen.words = document.getElementById("legend").textContent;
    """
    seen = reached(saved(tmp_path, certificate), found)
    assert seen["dots"] == dots
    assert ("Dot: the labels' own claim" in seen["words"]) == bool(dots)


@pytest.mark.parametrize("correction", ["holm", "bonferroni", "k-fwer", "bh", "by", "mine"])
def test_the_needed_count_is_the_corrections_own(tmp_path, correction):
    def mine(counts, p, alpha):
        return 97

    chosen = mine if correction == "mine" else correction
    k = 20 if correction == "k-fwer" else None
    certificate = certify_votes(VOTES, tau=0.75, alpha=0.001, correction=chosen, k=k)
    needed = data_of(saved(tmp_path, certificate))["needed"]
    if correction == "mine":
        assert needed is None
    else:
        assert np.array_equal(certificate.labels != ABSTAIN, VOTES.agree >= needed)


def test_names_cannot_become_html(tmp_path):
    harmless = Elements(saved(tmp_path).read_text("utf-8"))
    votes = votes_of(input_id=EVIL)
    certificate = replace(certify_votes(votes, tau=0.75, alpha=0.001), command=EVIL)
    page = Elements(saved(tmp_path, certificate, votes, names=(EVIL,) * 3, audit=EVIL).read_text("utf-8"))
    assert page.tags == harmless.tags
    assert page.scripts[1] == harmless.scripts[1]
    data = json.loads(page.scripts[0])
    assert [part["name"] for part in data["parts"]] == [visible(EVIL)] * 3
    assert (data["title"], data["audit"], data["facts"]["command"]) == (visible(EVIL),) * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": X[:, :-1]}, r"must have the shape \(3, \*\(24, 36\)\), but has \(3, 23, 36\)"),
        ({"x": X[:2]}, r"must have the shape \(3, "),
        ({"votes": votes_of(n=1000)}, "votes are not the certificate's: their shape or numbers of draws differ"),
        ({"votes": replace(VOTES, candidate=2 - VOTES.candidate)}, "not the certificate's: their labels differ"),
        ({"target": TARGET[:-1]}, r"target labels must be integers of shape \(24, 36\)"),
        ({"prediction": TARGET + 0.5}, "prediction labels must be integers .* but are float64"),
        ({"colours": np.zeros((2, 3))}, "colours must be of at least 3 classes, but are of 2"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        saved(tmp_path, **change)


def sets_of(classes=30):
    """A certificate of sets of many classes: the certified label, two labels, or all."""
    inside = np.zeros((classes, H, W), bool)
    np.put_along_axis(inside, VOTES.candidate[None], True, axis=0)
    other = ~(CERTIFICATE.labels != ABSTAIN)
    inside[classes - 1] |= other
    inside[:, other & (np.arange(H) < 4)[:, None]] = True
    made = {"radius": CERTIFICATE.radius, "norm": "l2", "tau": 0.75, "alpha": 0.001, "correction": "holm"}
    return sc.SetCertificate(
        inside, CERTIFICATE.labels, **made, n=100, n0=10, noise=Gaussian(0.25), N=H * W, classes=classes
    )


@in_browser
def test_nothing_answers_before_the_labels_are_there(tmp_path):
    """Keys and controls would fail: the console stays empty, and the page is as it opens."""
    early = """for (const name of ["c", "]", "1", "+"]) dispatchEvent(new KeyboardEvent("keydown", { key: name }));"""
    page = saved(tmp_path)
    text = page.read_text("utf-8")
    seen = reached(page, SLIDE + "seen.state = [state.left, view.zoom, comparing(), document.body.inert];")
    assert seen["state"] == ["certified", 1, False, False]
    digest = base64.b64encode(hashlib.sha256(early.encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    page.write_text(text.replace("</body>", f"<script>{early}</script></body>"), "utf-8")
    again = reached(page, SLIDE + "seen.state = [state.left, view.zoom, comparing(), document.body.inert];")
    assert again == seen


@in_browser
def test_labels_of_attacked_images_are_overlays_without_a_guarantee(tmp_path):
    attacked = {f"base model, attacked: {EVIL}": (VOTES.candidate + 1) % 3}
    page = saved(tmp_path, attacked=attacked)
    data = data_of(page)
    assert unpacked(data["labels"]["attacked-0"], (H, W)).tolist() == ((VOTES.candidate + 1) % 3).tolist()
    seen = reached(
        page,
        SLIDE
        + """
        overlayTo("attacked-0");
        seen.said = [shown("left").selectedOptions[0].textContent, shown("caption").textContent, answers(0)];
        seen.colour = looks("attacked-0")(0) === partColours[1];
        """,
    )
    assert seen["said"][:2] == ["base model, attacked", visible(f"base model, attacked: {EVIL}")]
    assert f"base model, attacked: {NAMES[1]}" in seen["said"][2]
    assert seen["colour"]
    with pytest.raises(InputError, match="attacked-0 labels must be integers of shape"):
        saved(tmp_path, attacked={"short": VOTES.candidate[1:]})


def test_sets_are_kept_whole(tmp_path):
    sets = sets_of()
    data = data_of(saved(tmp_path, sets=sets))
    index, members = unpacked(data["sets"]["index"], (H, W)), data["sets"]["members"]
    assert len(members) < 8
    for row, column in np.ndindex(H, W):
        assert members[index[row, column]] == np.flatnonzero(sets.sets[:, row, column]).tolist()
    assert data["of_sets"] == sets.claim
    assert "Each of the 3 claims of this page" in data["not_promised"][-1]
    assert data["not_promised"][-1].endswith("by itself, all with at least 0.997.")


def large(height=1024, width=2048):
    """A photograph, and votes as a road scene has them: borders uncertain, areas sure."""
    with Image.open(io.BytesIO(files("segcertify.demo").joinpath("chelsea.jpg").read_bytes())) as image:
        x = np.asarray(image.convert("RGB").resize((width, height)), np.float32).transpose(2, 0, 1) / 255
    rng = np.random.default_rng(0)
    field = np.kron(rng.normal(size=(height // 32, width // 32)), np.ones((32, 32))) + x.sum(0)
    field = field + 0.02 * rng.normal(size=field.shape)
    candidate = np.digitize(field, np.quantile(field, np.linspace(0, 1, 20)[1:-1]))
    away = np.min([np.abs(field - cut) for cut in np.quantile(field, np.linspace(0, 1, 20)[1:-1])], axis=0)
    agree = np.clip(60 + 800 * away, 0, 100).astype(int)
    return x, Votes(candidate, agree, n=100, n0=10, noise=Gaussian(0.25), input_shape=(3, height, width))


def test_a_large_page_is_below_8_megabytes(tmp_path):
    x, votes = large()
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    save_page(tmp_path / "large.html", x, certificate, votes, prediction=votes.candidate, target=votes.candidate)
    assert (tmp_path / "large.html").stat().st_size < 8e6


# --- In a browser.


@in_browser
def test_sliders_of_a_large_page_answer_within_a_tenth_of_a_second(tmp_path):
    """From the event to the drawn picture. The median of many, because the machine of the tests may be busy."""
    x, votes = large()
    certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    page = tmp_path / "large.html"
    save_page(page, x, certificate, votes, prediction=votes.candidate, target=np.roll(votes.candidate, 3, axis=1))
    milliseconds = asked(
        page,
        """
        await ready;
        const found = { level: [], tau: [], swipe: [] };
        compareWith("prediction");
        for (let i = 0; i < 9; i++) {
            for (const id of Object.keys(found)) {
                const slider = byId(id), span = slider.max - slider.min;
                slider.value = +slider.min + span * (i + 1) / 11;
                const start = performance.now();
                slider.dispatchEvent(new Event("input"));
                draw();
                context.getImageData(0, 0, 1, 1);  // waits until it is drawn
                found[id].push(performance.now() - start);
            }
        }
        return found;
        """,
    )
    assert [len(each) for each in milliseconds.values()] == [9, 9, 9]
    for id, each in milliseconds.items():
        assert np.median(each) < 100, (id, each)


SLIDE = """
    const shown = (id) => document.getElementById(id);
    const slide = (id, value) => {
        shown(id).value = value;
        shown(id).dispatchEvent(new Event(shown(id).tagName === "SELECT" ? "change" : "input"));
    };
    const key = (name, on = document.body, more = {}) => on.dispatchEvent(
        new KeyboardEvent("keydown", { key: name, bubbles: true, ...more }));
    const rows = () => [...document.querySelectorAll("#classes tbody tr")].map(
        (row) => [...row.children].map((cell) => cell.textContent));
    await ready;
"""


@in_browser
@pytest.mark.parametrize("n", [100, 1000, 10000])
def test_thresholds_equal_pythons(tmp_path, n):
    """For several histograms, all of the sliders' taus and alphas, and both corrections."""
    votes = votes_of(n=n)
    rng = np.random.default_rng(n)
    histograms = [
        votes.histogram(), np.bincount(rng.binomial(n, 0.93, 2_000_000), minlength=n + 1),
        np.bincount([0, n // 2, n], minlength=n + 1),
        np.bincount(rng.binomial(n, rng.beta(20, 0.3, 38560)), minlength=n + 1),
    ]  # fmt: skip
    taus, alphas = EXPLORED_TAUS[:: 1 if n == 100 else 5], EXPLORED_ALPHAS[:: 1 if n == 100 else 3]
    page = saved(tmp_path, certify_votes(votes, tau=0.75, alpha=0.001), votes)
    asked = json.dumps([histograms_.tolist() for histograms_ in histograms])
    script = f"""
        const histograms = {asked}, taus = {list(taus)}, alphas = {list(alphas)};
        seen.found = histograms.map((h) => taus.map((tau) => alphas.map((alpha) =>
            ["holm", "bonferroni"].map((name) => threshold(h, {n}, tau, alpha, name)))));
    """
    found = np.array(reached(page, script)["found"])
    expected = [
        [[[label_threshold(h, n=n, tau=tau, alpha=alpha, chosen=procedure(name)) for name in ("holm", "bonferroni")]
          for alpha in alphas] for tau in taus] for h in histograms
    ]  # fmt: skip
    assert found.tolist() == expected
    assert len(np.unique(found)) > 20


@in_browser
def test_sliders_show_what_python_certifies(tmp_path):
    explored = [
        (0.9, 0.001, "holm"),
        (0.8, 0.001, "holm"),
        (0.6, 0.01, "bonferroni"),
        (0.99, 1e-6, "holm"),
        (0.75, 0.1, "holm"),
    ]
    seen = reached(
        saved(tmp_path),
        SLIDE + f"const settings = {json.dumps(explored)};" + """
        const at = (list, value) => list.findIndex((each) => each.value === value);
        seen.badge = shown("badge").hidden;
        seen.claim = rows();
        seen.atR = data.levels.map((level, i) => { slide("level", i); return [shown("kept").textContent, rows()]; });
        seen.overlay = shown("left").value;
        seen.explored = settings.map(([tau, alpha, name]) => {
            slide("tau", at(data.explore.taus, tau));
            slide("alpha", at(data.explore.alphas, alpha));
            slide("correction", name);
            return { badge: shown("badge").hidden,
                said: document.querySelector("#classes").textContent
                + shown("left").selectedOptions[0].textContent + shown("caption").textContent,
                words: shown("explored").textContent, rows: rows(),
                kept: kept("certified").reduce((sum, each) => sum + each, 0) };
        });
        shown("back").click();
        seen.back = [shown("badge").hidden, rows(), shown("tau").nextElementSibling.textContent];
        """,
    )  # fmt: skip
    valid, radii = TARGET >= 0, sc.RadiusMap.of(VOTES, alpha=0.001).radii

    def nearest(where, of):
        return f"{(2000 * int(where.sum()) + int(of)) // (2 * int(of)) / 10:.1f}%"  # halves go up

    def table(kept):
        """Per class of the ground truth: pixels, and the shares that are labelled, right and wrong."""
        found = []
        for part, name in enumerate(NAMES):
            own = part == TARGET
            right, shares = own & (VOTES.candidate == part), []
            for number in (kept & own, kept & right):
                tenths = 1000 * int(number.sum()) // int(own.sum())
                shares.append(f"{tenths / 10:.1f}%" if number.any() else "0%")
            found.append([name, str(own.sum()), *shares, nearest(kept & own & ~right, own.sum())])
        return found

    assert seen["badge"]
    assert seen["claim"] == table(CERTIFICATE.labels != ABSTAIN)
    assert seen["overlay"] == "radius"
    levels = data_of(tmp_path / "deep" / "photo.html")["levels"]
    for (words, found), level in zip(seen["atR"], levels, strict=True):
        kept = radii >= np.float32(level["radius"])
        assert words.startswith(f"R = {level['text']}: {kept.sum()} of 864 pixels ({nearest(kept, 864)}) keep")
        assert f"{(kept & valid & (VOTES.candidate == TARGET)).sum()} (" in words
        assert f"{(kept & valid & (VOTES.candidate != TARGET)).sum()} are wrong" in words
        assert found == table(kept)
    for (tau, alpha, name), found in zip(explored, seen["explored"], strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two of them certify nothing
            python = certify_votes(VOTES, tau=tau, alpha=alpha, correction=name)
        assert not found["badge"]
        assert "certified" not in found["said"].replace("certificate", "")
        assert found["rows"] == table(python.labels != ABSTAIN)
        assert found["kept"] == python.certified
        R = radius_text(python.radius, 4)
        assert f"R would be {R}, for {python.certified} of 864 pixels" in found["words"]
    assert seen["back"] == [True, seen["claim"], "0.75"]


@in_browser
def test_pixels_answer_by_mouse_and_by_key(tmp_path):
    sets = sets_of()
    seen = reached(
        saved(tmp_path, sets=sets),
        SLIDE + """
        seen.answers = Array.from({ length: agree.length }, (_, i) => answers(i));
        const { scale, x, y } = place(), ratio = canvas.width / canvas.clientWidth;
        const move = (u, v) => canvas.dispatchEvent(
            new PointerEvent("pointermove", { clientX: u, clientY: v, pointerType: "mouse" }));
        move((x + 7.5 * scale) / ratio, (y + 3.5 * scale) / ratio);
        seen.hover = [...tip.children].map((e) => e.textContent);
        move(-5, -5); seen.outside = tip.hidden;
        canvas.focus();
        key("ArrowRight", canvas); seen.first = [...cursor];
        key("ArrowRight", canvas); key("ArrowDown", canvas, { shiftKey: true }); seen.arrows = [...cursor];
        seen.tip = tip.hidden;
        key("+"); seen.zoom = view.zoom; key("0"); seen.reset = JSON.stringify(view);
        seen.start = state.level; slide("level", 0);
        key("]"); key("]"); seen.level = [state.level, state.left]; key("["); seen.lower = state.level;
        seen.kinds = kinds.map((_, i) => { key(String(i + 1)); return state.left; });
        key("1"); key("c"); seen.compare = [comparing(), divider.hidden]; key("."); seen.swipe = state.swipe; key("c");
        seen.alone = comparing();
        key("o"); seen.opacity = state.opacity; key("w"); seen.outline = state.outline;
        slide("tau", 45); seen.exploring = Boolean(exploring()); key("Escape"); seen.back = Boolean(exploring());
        """,
    )  # fmt: skip
    data = data_of(tmp_path / "deep" / "photo.html")
    needed = data["needed"]
    for (row, column), said in zip(np.ndindex(H, W), seen["answers"], strict=True):
        count, name = VOTES.agree[row, column], NAMES[VOTES.candidate[row, column]]
        certified = CERTIFICATE.labels[row, column] != ABSTAIN
        assert said[:2] == [f"pixel {row}, {column}", f"{name} in {count} of 100 noisy copies"]
        abstained = f"abstained: needs at least {needed} of 100, has {count}"
        assert said[2] == (f"certified: {name}" if certified else abstained)
        level = next((each for each in data["levels"] if each["count"] == count), None)
        missing = f"no radius: needs at least {data['least']} of 100, has {count}"
        assert said[3] == (f"radius {level['text']}" if level else missing)
        assert said[4] == f"without noise: {name}"
        inside = [data["parts"][part]["name"] for part in np.flatnonzero(sets.sets[:, row, column])]
        assert said[5] == f"set: {' or '.join(inside)}"
        truth = TARGET[row, column]
        assert said[6] == f"ground truth: {'ignored' if truth < 0 else NAMES[truth]}"
    assert seen["hover"] == seen["answers"][3 * W + 7]
    assert seen["outside"]
    assert (seen["first"], seen["arrows"], seen["tip"]) == ([W // 2, H // 2], [W // 2 + 1, H // 2 + 10], False)
    assert (seen["zoom"], seen["reset"]) == (1.25, '{"zoom":1,"x":0,"y":0}')
    starts = [i for i, level in enumerate(data["levels"]) if level["radius"] >= CERTIFICATE.radius]
    assert seen["start"] == starts[0]  # at the claim's own radius
    assert (seen["level"], seen["lower"]) == ([2, "radius"], 1)
    assert seen["kinds"] == ["certified", "radius", "heat", "prediction", "target", "sets", ""]
    assert (seen["compare"], seen["swipe"], seen["alone"]) == ([True, False], 0.55, False)
    assert (seen["opacity"], seen["outline"]) == (pytest.approx(0.5), False)
    assert (seen["exploring"], seen["back"]) == (True, False)


@in_browser
@pytest.mark.parametrize("options", [{"n0": 0}, {"looks": (50, 100), "earlier": {50: VOTES.agree // 2}}, {"n": 5}])
def test_pages_of_other_votes_open_without_an_error(tmp_path, options):
    votes = votes_of(**options, mask=np.arange(H * W).reshape(H, W) % 5 > 0)
    if votes.n == 5:
        with pytest.warns(UserWarning, match="can certify nothing"):
            certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    else:
        certificate = certify_votes(votes, tau=0.75, alpha=0.001)
    page = saved(tmp_path, certificate, votes, target=None, prediction=None)
    seen = reached(
        page,
        SLIDE + """
        seen.answers = Array.from({ length: agree.length }, (_, i) => answers(i)[2] || answers(i)[1]);
        for (let i = 1; i < 8; i++) key(String(i));
        seen.kept = tally("certified").kept;
        """,
    )  # fmt: skip
    assert seen["kept"] == certificate.certified
    said = {answer.partition(":")[0] for answer in seen["answers"]}
    assert said == {"not tested", "abstained"} | ({"certified"} if certificate.certified else set())


@in_browser
def test_names_stay_text_in_the_browser(tmp_path):
    evil = visible(EVIL)
    votes = votes_of(input_id=evil)
    page = saved(tmp_path, certify_votes(votes, tau=0.75, alpha=0.001), votes, names=(evil,) * 3, audit=evil)
    seen = reached(
        page,
        SLIDE + """
        seen.images = document.images.length;
        seen.title = document.title;
        seen.names = rows().map((row) => row[0]);
        seen.key = [...document.querySelectorAll("#key li")].map((e) => e.textContent);
        seen.audit = document.querySelector("code").textContent;
        point([0, 0]);
        seen.tip = tip.children[1].textContent;
        """,
    )  # fmt: skip
    assert seen["images"] == 0
    assert seen["title"] == f"Certified image: {evil}"
    assert seen["names"] == seen["key"][:3] == [evil] * 3
    assert seen["audit"] == evil
    assert seen["tip"].startswith(f"{evil} in ")


@in_browser
@pytest.mark.parametrize("options", [[], ["--blink-settings=preferredColorScheme=0"], ["--window-size=500,900"]])
def test_light_dark_and_narrow_pages_draw_the_picture(tmp_path, options):
    page = saved(tmp_path)
    browse(page, "--window-size=900,700", *options, f"--screenshot={tmp_path / 'shot.png'}")
    with Image.open(tmp_path / "shot.png") as image:
        shot = np.asarray(image.convert("RGB")).astype(int)
    stage = shot[:400, :480]
    assert (np.ptp(stage, axis=2) > 40).mean() > 0.2  # colours, of the photograph and the labels
    panel = shot[-60:, -200:]
    assert (np.median(panel) < 60) == ("preferredColorScheme=0" in "".join(options))
    assert re.search("Proved with", browse(page, *options, "--dump-dom"))
