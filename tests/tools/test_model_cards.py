"""The cards of our models: what the tool writes, as Hugging Face reads it, with numbers that files hold."""

import re

import pytest
from huggingface_hub import ModelCard

from segcertify.models.saved import beside
from segcertify.numerals import lower, measured
from tools.model_cards import ROOT, SOURCES, card_text, files

FILES = files()


@pytest.mark.parametrize("name", FILES)
def test_the_card_beside_a_model_is_what_the_tool_writes(name):
    assert beside(FILES[name]).read_text(encoding="utf-8") == card_text(name, FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_hugging_face_reads_the_front_matter(name):
    data = ModelCard(beside(FILES[name]).read_text(encoding="utf-8")).data
    free = "CC BY-SA" in beside(FILES[name]).read_text(encoding="utf-8")
    licence = ("cc-by-sa-4.0", None) if free else ("other", "see-below")
    assert (data.library_name, data.license, data.license_name) == ("segcertify", *licence)
    assert data.pipeline_tag in ("image-segmentation", "image-to-image", "other")
    assert set(data.datasets) <= {"camvid", "pets", "shapes", "shapenet"}
    certified = [each for each in data.eval_results or [] if "ertified" in each.metric_name]
    assert bool(certified) == (name in SOURCES)
    if name in SOURCES:
        assert data.model_name == name
        stored = (ROOT / SOURCES[name].results / "results.json").read_text(encoding="utf-8")
        known = {float(lower(float(value))) for value in re.findall(r'"accuracy": ([\d.e-]+)', stored)}
        assert {each.metric_value for each in certified} <= known


def test_links_and_pictures_are_there():
    for name, file in FILES.items():
        for link in re.findall(r"\]\(([^)#]+)\)", beside(file).read_text(encoding="utf-8")):
            assert (file.parent / link).is_file(), (name, link)


def test_results_of_other_weights_say_so():
    text = beside(FILES["camvid"]).read_text(encoding="utf-8")
    assert "**Not of these weights:** another model was trained by the same recipe" in text
    assert ", of another model by the same recipe" in text.partition("\n---\n")[0]
    assert "Not of these weights" not in beside(FILES["pets"]).read_text(encoding="utf-8")


def test_the_worst_case_of_clouds_is_that_of_shapes():
    page = (ROOT / "results/models/parts/README.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| sigma=0.25, n=1000, tau=0.75, holm |"))
    certified, wrong, abstained, worst = (cell.strip() for cell in row.split("|")[3:7])
    text = beside(FILES["parts"]).read_text(encoding="utf-8")
    assert f"| 0.168 | {certified} | {wrong} | {abstained} | {worst} |" in text
    assert measured(float(worst)) == worst
