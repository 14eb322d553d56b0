"""The check of wheels finds what is missing, what does not belong, and licences that are not named."""

import pytest

from tools import wheel

NAMES = [*wheel.NEEDED, "segcertify/__init__.py", "segcertify-0.3.0.dist-info/METADATA"]
METADATA = "\n".join(
    [
        "Metadata-Version: 2.4",
        f"License-Expression: {' AND '.join(wheel.EXPRESSION)}",
        *(f"License-File: {name}" for name in wheel.LICENCES),
        "",
        "The description.",
    ]
)


def test_a_wheel_that_is_well():
    assert not list(wheel.problems(NAMES, METADATA))


@pytest.mark.parametrize(
    ("names", "metadata", "said"),
    [
        ([name for name in NAMES if not name.endswith("pets.md")], METADATA, "bundled/pets.md is missing"),
        ([name for name in NAMES if not name.endswith("image.js")], METADATA, "image.js is missing"),
        ([*NAMES, "tests/test_docs.py"], METADATA, "tests/test_docs.py does not belong"),
        ([*NAMES, "segcertify/tests/test_votes.py"], METADATA, "does not belong"),
        ([*NAMES, "weights/pets-non-robust.safetensors"], METADATA, "does not belong"),
        (NAMES, METADATA.replace(" AND CC-BY-SA-4.0", ""), "lacks CC-BY-SA-4.0"),
        (NAMES, METADATA.replace("License-File: LICENSES/WEIGHTS.md\n", ""), "licence file LICENSES/WEIGHTS.md"),
    ],
)
def test_planted_faults_are_found(names, metadata, said):
    (found,) = wheel.problems(names, metadata)
    assert said in found


def test_every_bundled_file_of_weights_has_its_licence():
    text = (wheel.ROOT / "LICENSES" / "WEIGHTS.md").read_text(encoding="utf-8")
    for path in (wheel.ROOT / "segcertify").rglob("*"):
        if path.suffix in (".safetensors", ".jpg", ".png"):
            assert f"`{path.relative_to(wheel.ROOT).as_posix()}`" in text
