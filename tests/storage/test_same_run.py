"""A file or a folder of another run is refused."""

from pathlib import Path

import pytest

from segcertify.errors import InputError
from segcertify.storage.same_run import difference, require_same_run

STORED = {"sigma": 0.25, "settings": [[0.25, 100]], "identity": {"weights": "ab", "scales": [1.0]}, "note": "old"}


def test_the_same_settings_pass():
    wanted = {"sigma": 0.25, "settings": ((0.25, 100),), "identity": {"weights": "ab", "scales": (1.0,)}}
    assert not difference(STORED, wanted)
    require_same_run(STORED, wanted, where=Path("run"))


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({"sigma": 0.5}, "sigma"),
        ({"alpha": 0.001}, "alpha"),
        ({"identity": {"weights": "ab", "scales": [1.0, 2.0]}}, "identity.scales"),
        ({"identity": {"weights": "ab"}}, "identity.scales"),
        ({"identity": "ab"}, "identity"),
    ],
)
def test_the_first_difference_is_named(wanted, name):
    assert list(difference(STORED, wanted)) == [name]


def test_the_verb_fits_its_noun():
    for name, said in {"settings": "are 1, now they are 2", "loss": "is 1, now it is 2", "radii": "are 1, now"}.items():
        with pytest.raises(InputError, match=f"its {name} {said}"):
            require_same_run({name: 1}, {name: 2}, where=Path("run"))


def test_the_error_names_the_path_the_values_and_the_cure():
    with pytest.raises(
        InputError, match=r"a/run belongs to another run: its sigma is 0\.25, now it is 0\.5\. To resume"
    ):
        require_same_run(STORED, {"sigma": 0.5}, where=Path("a/run"))
    with pytest.raises(InputError, match=r"another run: it is of another network\. To resume"):
        require_same_run(
            STORED, {"identity": {"weights": "cd"}}, where=Path("a"), notes={"identity": "it is of another network"}
        )
