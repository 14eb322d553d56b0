"""Texts in figures: no mathematics, no TeX, no name left out."""

import io

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from segcertify.figures.texts import LONGEST, draw_without_tex, named_legend, wrapped

HOSTILE = ["_hidden", "$x$", "$\\bad{", "a\nb", "x" * 500]


def test_a_legend_shows_every_name_as_it_is():
    figure = Figure()
    named_legend(figure, [(name, Patch()) for name in HOSTILE], loc="upper center", columns=2)
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts][:4] == ["_hidden", "$x$", "$\\bad{", "a\\nb"]
    assert not any(text.get_parse_math() for text in texts)
    assert len(texts[4].get_text()) == LONGEST
    draw_without_tex(figure, io.BytesIO(), "png")


def test_titles_have_no_mathematics():
    figure = Figure()
    title = figure.suptitle(wrapped("$x$ on $\\bad{", 80))
    assert title._preprocess_math(title.get_text()) == ("$x$ on $\\bad{", False)
    assert wrapped("a " * 5000, 10, lines=3).count("\n") <= 4


@pytest.mark.parametrize("where", ["before", "while drawing"])
def test_no_text_goes_to_tex(where):
    settings = {"text.usetex": True, "text.latex.preamble": r"\input{secret}"}
    with matplotlib.rc_context(settings if where == "before" else {}):
        figure = Figure()
        figure.subplots().set_title("a")
    with matplotlib.rc_context(settings):
        draw_without_tex(figure, content := io.BytesIO(), "png")  # with TeX it fails: the file is not there
    assert content.getvalue().startswith(b"\x89PNG")
