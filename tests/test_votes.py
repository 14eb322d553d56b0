"""Votes: what they refuse, how they merge, and their file."""

from dataclasses import replace

import numpy as np
import pytest
from headers import rewrite_header

from segcertify import Gaussian, InputError, Rotation, Votes
from segcertify.votes import model_difference, same_answers, seed_text


def votes(**changes):
    fields = {
        "candidate": np.array([[0, 3], [18, 2]]),
        "agree": np.array([[100, 40], [99, 0]]),
        "n": 100,
        "n0": 10,
        "noise": Gaussian(0.25, channels=(0, 2), axis=1),
        "seed": 4,
        "input_id": "frankfurt_000",
        "input_shape": (3, 2, 2),
        "input_digest": "ab",
        "mask": np.array([[True, True], [False, True]]),
        "earlier": {50: np.array([[50, 20], [49, 0]])},
    }
    return Votes(**(fields | changes))


def test_histogram_counts_tested_components_only():
    assert votes().N == 3
    assert votes(mask=None).N == 4
    assert dict(enumerate(votes().histogram())) == {k: int(k in (0, 40, 100)) for k in range(101)}


def test_a_device_may_have_counted_the_histogram():
    """One that is of other counts would give another threshold."""
    counted = votes(mask=None)
    expected = counted.histogram()
    with pytest.raises(InputError, match="not of these 4 with 239"):
        counted.keep_histogram(votes(mask=None, agree=np.array([[100, 40], [98, 0]])).histogram())
    with pytest.raises(InputError, match="votes with a mask keep no histogram"):
        votes().keep_histogram(expected)
    swapped = expected.copy()  # as many components and draws: this shows that the given one is used
    swapped[[0, 1, 39, 40]] += -1, 1, 1, -1
    counted.keep_histogram(swapped)
    counted.histogram()[:] = 0
    np.testing.assert_array_equal(counted.histogram(), swapped)
    for other in (
        replace(counted),
        replace(counted, agree=votes().agree),
        counted.merge(votes(mask=None, draws=((100, 200),))),
    ):
        np.testing.assert_array_equal(other.histogram(), np.bincount(other.agree.ravel(), minlength=other.n + 1))
    assert counted.at(50).histogram()[50] == 1


def test_round_trip(tmp_path):
    path = tmp_path / "deep" / "votes.safetensors"
    votes().save(path)
    loaded = Votes.load(path)
    for name, value in vars(votes()).items():
        if name == "earlier":
            assert {m: a.tolist() for m, a in value.items()} == {m: a.tolist() for m, a in loaded.earlier.items()}
        else:
            np.testing.assert_array_equal(getattr(loaded, name), value)
    assert [file.name for file in path.parent.iterdir()] == ["votes.safetensors"]  # no temporary left


@pytest.mark.parametrize("keep", [0, 5, 8, 60, -1])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "votes.safetensors"
    votes().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"not a votes file, or is truncated"):
        Votes.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=99), "format version 99, but this segcertify reads version 4"),
        (lambda m: m.update(format="other"), "holds 'other', not segcertify.votes"),
        (lambda m: "{", "header is missing or unreadable"),
        (lambda m: "[1, 2]", "header is missing or unreadable"),
        (lambda m: m.update(header=3), "header is missing or unreadable"),
        (lambda m: m.update(header={}), "not a complete votes file"),
        (lambda m: m["header"].update(n="many"), "not a complete votes file"),
        (lambda m: m["header"]["noise"].update(type="os.system"), "unknown noise 'os.system'"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, change, message):
    path = tmp_path / "votes.safetensors"
    votes().save(path)
    rewrite_header(path, change)
    with pytest.raises(InputError, match=message):
        Votes.load(path)


def as_version_1(about):
    about["version"] = 1
    del about["digest"]
    for name in ("fingerprint_of", "model", "preprocessing"):
        del about["header"][name]


def test_files_of_version_1_are_read_and_their_fingerprints_kept_apart(tmp_path):
    """Their fingerprints are the model's answers at the input itself: not to be compared with those at a probe."""
    for name, draws in (("a", (0, 100)), ("b", (100, 200))):
        votes(draws=(draws,), fingerprint=(0.5, 2.0)).save(tmp_path / name)
        rewrite_header(tmp_path / name, as_version_1)
    old, later = Votes.load(tmp_path / "a"), Votes.load(tmp_path / "b")
    assert (old.fingerprint, old.fingerprint_of) == ((0.5, 2.0), "input")
    assert old.merge(later).n == 200
    new = votes(draws=((100, 200),), fingerprint=(0.5, 2.0))
    assert new.fingerprint_of == "probe"
    for pair in ((old, new), (new, old)):
        with pytest.raises(InputError, match=r"of format version 1 do not merge with newer votes.* Sample both"):
            pair[0].merge(pair[1])
    old.save(tmp_path / "again")
    assert Votes.load(tmp_path / "again").fingerprint_of == "input"


def test_files_of_version_1_without_a_fingerprint_merge_as_ever(tmp_path):
    votes().save(tmp_path / "a")
    rewrite_header(tmp_path / "a", as_version_1)
    assert Votes.load(tmp_path / "a").merge(votes(draws=((100, 200),))).n == 200


def test_a_missing_file():
    with pytest.raises(InputError, match="no votes file at nowhere"):
        Votes.load("nowhere")


def test_prefixes():
    shorter = votes().at(50)
    assert (shorter.n, shorter.draws, dict(shorter.earlier)) == (50, ((0, 50),), {})
    assert shorter.agree.tolist() == [[50, 20], [49, 0]]
    later = votes(draws=((7, 107),), earlier={20: shorter.agree // 3, 50: shorter.agree, 80: shorter.agree})
    assert later.at(50).draws == ((7, 57),)
    assert set(later.at(50).earlier) == {20}
    with pytest.raises(InputError, match="no counts were recorded at n=70, only at 50, 100"):
        votes().at(70)


def test_merge():
    later = votes(draws=((200, 300),), agree=np.array([[1, 2], [3, 4]]))
    merged = votes().merge(later)
    assert merged.agree.tolist() == [[101, 42], [102, 4]]
    assert (merged.n, merged.draws) == (200, ((0, 100), (200, 300)))
    assert not merged.earlier  # the first draws of both are no prefix of the union
    assert votes().merge(votes(draws=((100, 200),))).n == 200  # side by side
    with pytest.raises(InputError, match="share draws"):
        votes().merge(votes(draws=((99, 199),)))
    assert merged.merge(votes(draws=((100, 200),))).draws == ((0, 300),)
    with pytest.raises(InputError, match="share draws"):
        merged.merge(votes(draws=((250, 350),)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": Gaussian(0.5)}, "different noise"),
        ({"seed": 5}, "different seed"),
        ({"n0": 11}, "different n0"),
        ({"input_id": "other"}, "different input_id"),
        ({"input_digest": "cd"}, "different input_digest"),
        ({"input_shape": (3, 4, 1)}, "different input_shape"),
        ({"candidate": np.array([[0, 3], [18, 3]])}, "different candidates"),
        ({"mask": None}, "different masks"),
        ({"classes": 21}, "votes of 19 and of 21 classes do not merge"),
        ({"draws": ((0, 100),)}, "share draws"),
    ],
)
def test_unlike_votes_do_not_merge(changes, message):
    with pytest.raises(InputError, match=message):
        votes(classes=19).merge(votes(**({"draws": ((100, 200),)} | changes)))


WEIGHTS = {"weights": "ab", "classes": ["Conv2d"], "settings": {}}
FUNCTION = {"weights": "", "classes": [], "settings": {}, "name": "f", "answers": "12", "logits": [1.0, 30.0]}


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (WEIGHTS, WEIGHTS | {"weights": "cd"}, "its weights is 'ab', now it is 'cd'"),
        (WEIGHTS, WEIGHTS | {"settings": {"": {"precision": "bf16"}}}, "its settings"),
        (FUNCTION, FUNCTION | {"answers": "34"}, "its answers is '12', now it is '34'"),
        (FUNCTION, FUNCTION | {"logits": [1.0, 33.0]}, "the mean sizes of its logits"),
        (FUNCTION, WEIGHTS, "its weights is"),
    ],
)
def test_votes_of_different_models_do_not_merge(ours, theirs, message):
    for pair in ((ours, theirs, message), (theirs, ours, "votes of different models do not merge")):
        with pytest.raises(InputError, match=pair[2]):
            votes(model=pair[0]).merge(votes(model=pair[1], draws=((100, 200),)))


@pytest.mark.parametrize("other", [{}, FUNCTION, FUNCTION | {"name": "g"}, FUNCTION | {"logits": [1.0001, 30.002]}])
def test_a_model_is_known_by_what_it_does(other):
    """Not by its name; rounding is no other model; an unknown model may be this one, and the fingerprints decide."""
    assert votes(model=FUNCTION).merge(votes(model=other, draws=((100, 200),))).model == FUNCTION
    assert votes(model={}).merge(votes(model=other, draws=((100, 200),))).model == other


def test_votes_with_different_pre_processing_do_not_merge():
    later = {"draws": ((100, 200),)}
    with pytest.raises(InputError, match="different pre-processing do not merge"):
        votes(preprocessing={"kind": "a"}).merge(votes(preprocessing={"kind": "b"}, **later))
    assert votes().merge(votes(preprocessing={"kind": "b"}, **later)).preprocessing == {"kind": "b"}


def test_files_of_version_2_say_nothing_of_the_model(tmp_path):
    def as_version_2(about):
        about["version"] = 2
        del about["digest"], about["header"]["model"], about["header"]["preprocessing"]

    votes(model=WEIGHTS, preprocessing={"kind": "a"}).save(tmp_path / "a")
    rewrite_header(tmp_path / "a", as_version_2)
    old = Votes.load(tmp_path / "a")
    assert (old.model, old.preprocessing) == ({}, None)
    assert old.merge(votes(model=WEIGHTS, draws=((100, 200),))).n == 200


@pytest.mark.parametrize("changes", [{"model": {"a": {1}}}, {"preprocessing": {"a": object()}}, {"model": 3}])
def test_descriptions_are_plain_values(changes):
    with pytest.raises(InputError, match=f"{next(iter(changes))} must be a mapping of plain values"):
        votes(**changes)


def test_votes_without_a_seed_do_not_merge():
    with pytest.raises(InputError, match="without a seed"):
        votes(seed=None).merge(votes(seed=None, draws=((100, 200),)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agree": np.array([[100, 40]])}, r"agree has shape \(1, 2\), but candidate has shape \(2, 2\)"),
        ({"agree": np.array([[101, 40], [99, 0]])}, r"agree must lie in 0 .. 100, but spans 0 .. 101"),
        ({"agree": np.array([[-1, 40], [99, 0]])}, "spans -1 .. 99"),
        ({"agree": np.ones((2, 2))}, "agree must hold integers, but got float64"),
        ({"candidate": np.full((2, 2), -1)}, "must not be negative"),
        ({"candidate": np.zeros((0,), int), "agree": np.zeros((0,), int)}, "at least one component"),
        ({"n": 0}, "n must be an integer not less than 1"),
        ({"n0": 1.5}, "n0 must be an integer"),
        ({"noise": 0.25}, "noise must be a noise such as Gaussian"),
        ({"mask": np.zeros((2, 2), bool)}, "selects no component"),
        ({"mask": np.ones((2, 2))}, "mask must be boolean"),
        ({"draws": ((0, 99),)}, "are not n=100 draws"),
        ({"draws": ((0, 50), (0, 50))}, "share draws"),
        ({"draws": ((150, 100), (0, 150))}, "are not n=100 draws"),
        ({"earlier": {200: np.zeros((2, 2), int)}}, "must be of fewer than n=100 draws"),
        ({"input_shape": (0, 2)}, "a side must be an integer not less than 1"),
        ({"candidate": np.full((2, 2), 2**40)}, "must fit in 32 bits"),
    ],
)
def test_bad_votes(changes, message):
    with pytest.raises(InputError, match=message):
        votes(**changes)


def test_votes_are_copies_that_do_not_change(tmp_path):
    agree, mask = np.full((2, 2), 60, np.int32), np.ones((2, 2), bool)
    made = votes(agree=agree, mask=mask, n=np.int64(100))
    agree[:], mask[:] = 100, False
    assert made.agree.tolist() == [[60, 60], [60, 60]]
    assert made.N == 4
    with pytest.raises(ValueError, match="read-only"):
        made.agree[0, 0] = 1
    made.save(tmp_path / "v")
    assert Votes.load(tmp_path / "v").draws == ((0, 100),)
    votes(draws=((7, 107),), fingerprint=(0.5, 2.0)).save(tmp_path / "w")
    assert Votes.load(tmp_path / "w").draws == ((7, 107),)
    assert Votes.load(tmp_path / "w").fingerprint == (0.5, 2.0)


def test_repr_says_what_they_are():
    text = repr(votes(noise=Rotation(0.5)))
    assert "3 components" in text
    assert "n0=10" in text
    assert "Rotation(sigma=0.5)" in text


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], True),
        ([1.5, 2.0, 3.0], [1.5001, 2.0, 3.0], True),  # rounding
        ([1.5, 2.0, 3.0], [1.51, 2.0, 3.0], False),
        ([0.5, *range(1, 512)], [0.5, *range(1, 511), 530], False),  # one answer of 512
        ([150.0] * 600, [150.0] * 590 + [151.0] * 10, False),  # labels are equal or not
        ([10_000.25, 10_001.5], [10_000.25, 10_001.0], False),  # an offset hides nothing
        ([10_000.25, 10_001.5], [10_000.251, 10_001.5], True),
        ([1.0, 2.0], [1.0], False),
        ([], [], True),  # counts made elsewhere
    ],
)
def test_answers_of_the_same_model(a, b, same):
    assert same_answers(a, b) is same


def test_votes_of_models_that_differ_in_one_answer_do_not_merge():
    first, second = {"draws": ((0, 100),)}, {"draws": ((100, 200),)}
    answers = tuple(float(label % 7) for label in range(512))
    votes(**first, fingerprint=answers).merge(votes(**second, fingerprint=answers))
    with pytest.raises(InputError, match="votes of different models do not merge"):
        votes(**first, fingerprint=answers).merge(votes(**second, fingerprint=(*answers[:-1], 6.0)))


def test_a_seed_that_was_given_to_either_run_was_given():
    def merged(a, b):
        return votes(draws=((0, 100),), seed_given=a).merge(votes(draws=((100, 200),), seed_given=b)).seed_given

    assert (merged(False, False), merged(False, True), merged(True, False)) == (False, True, True)


def test_seeds_of_128_bits_survive_the_file(tmp_path):
    seed = 2**128 - 3
    votes(seed=seed, seed_given=False).save(tmp_path / "votes")
    loaded = Votes.load(tmp_path / "votes")
    assert (loaded.seed, loaded.seed_given) == (seed, False)
    assert f"seed={hex(seed)}" in repr(loaded)


def test_long_seeds_are_hexadecimal():
    assert [seed_text(seed) for seed in (None, 200, 2**64 - 1, 2**64)] == ["None", "200", str(2**64 - 1), hex(2**64)]


def test_earlier_counts_are_copies_that_do_not_change():
    agree = np.array([[50, 20], [49, 0]])
    earlier = {50: agree}
    made = votes(earlier=earlier)
    agree[:], earlier[60] = 0, agree
    assert {n: each.tolist() for n, each in made.earlier.items()} == {50: [[50, 20], [49, 0]]}
    with pytest.raises(ValueError, match="read-only"):
        made.earlier[50][0, 0] = 1
    with pytest.raises(TypeError):
        made.earlier[60] = agree


def test_votes_are_equal_to_themselves_alone():
    """Two with the same counts are two runs, and can be kept in a set."""
    made = votes()
    assert len({made, made, votes()}) == 2


@pytest.mark.parametrize(("count", "end"), [(1, "'a0'"), (3, "'a2'"), (4, "; and 1 more"), (6, "; and 3 more")])
def test_at_most_three_differences_of_models_are_named(count, end):
    ours = {f"part{i}": f"a{i}" for i in range(count)}
    theirs = {f"part{i}": f"b{i}" for i in range(count)}
    assert model_difference(theirs, ours).endswith(end)
    assert model_difference(theirs, ours).count("now it is") == min(count, 3)
