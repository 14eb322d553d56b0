"""Records on disk: whole scenes, whatever moment the run was killed at."""

import json
from dataclasses import replace

import pytest

from segcertify import InputError
from segcertify.records import Record, RecordFile, read_records


def scene(name):
    return [
        Record(name, "base", components=4, valid=3, confusion={"shape": [1, 2], "values": {}}),
        Record(name, "certified", components=4, valid=3, sigma=0.25, n=100, tau=0.75, correction="holm", radius=0.1),
        Record(name, "radius", components=4, valid=3, sigma=0.25, n=2, N=4, correct=[0, 1, 2]),
    ]


def test_round_trip(tmp_path):
    file = RecordFile(tmp_path / "r.jsonl", per_scene=3)
    for name in ("a", "b"):
        file.append(scene(name))
    assert read_records(tmp_path / "r.jsonl") == scene("a") + scene("b")
    assert file.ids == RecordFile(tmp_path / "r.jsonl", per_scene=3).ids == ["a", "b"]


def test_a_file_cut_at_any_byte_keeps_its_whole_scenes(tmp_path):
    path = tmp_path / "r.jsonl"
    whole = RecordFile(path, per_scene=3)
    whole.append(scene("a"))
    first = path.read_bytes()
    whole.append(scene("b"))
    both = path.read_bytes()
    for cut in range(0, len(both) + 1, 7):
        path.write_bytes(both[:cut])
        file = RecordFile(path, per_scene=3)
        assert file.ids == (["a", "b"] if cut >= len(both) else ["a"] if cut >= len(first) else [])
        for name in ("a", "b")[len(file.ids) :]:
            file.append(scene(name))
        assert path.read_bytes() == both


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="no records at"):
        read_records(tmp_path / "none")
    (tmp_path / "bad").write_text('{"id": "a"}\n')
    with pytest.raises(InputError, match="line 1, is not a record"):
        read_records(tmp_path / "bad")
    with pytest.raises(InputError, match="a scene has 2 records, but got 3"):
        RecordFile(tmp_path / "r", per_scene=2).append(scene("a"))


@pytest.fixture
def two(tmp_path):
    """The path of a file with two scenes, and its lines."""
    path = tmp_path / "r.jsonl"
    file = RecordFile(path, per_scene=3)
    for name in ("a", "b"):
        file.append(scene(name))
    return path, path.read_text().splitlines(keepends=True)


def test_no_flipped_bit_is_believed(two):
    """Each single bit: the file is refused, or its records are the same; both by the reader and by a resumed run."""
    path, lines = two
    whole = "".join(lines).encode()
    silent = []

    def resumed():
        RecordFile(path, per_scene=3)
        return read_records(path, per_scene=3)

    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        for read in (lambda: read_records(path, per_scene=3), resumed):
            try:
                if read() != scene("a") + scene("b"):
                    silent.append(bit)
            except InputError:
                assert path.read_bytes() == flipped  # what is refused is left as it was
    assert not silent, f"{len(silent)} of {16 * len(whole)}"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 2, 3, 4, 5], "line 3, is of scene 'b', but 'a' has 2 of its 3 records: a line before it was taken out"),
        ([1, 2, 3, 4, 5], "line 3, is of scene 'b', but 'a' has 2 of its 3 records: a line before it was taken out"),
        ([0, 1, 2, 3, 4, 5, 3, 4, 5], r"line 7, repeats line 4 \(scene 'b', base\)"),
        ([0, 1, 1, 2, 3, 4, 5], r"line 3, repeats line 2 \(scene 'a', certified\)"),
        ([0, 1, 2, 0], r"line 4, repeats line 1 \(scene 'a', base\)"),
        ([0, 1, 2, 3, 4, 5, 1, 2], r"line 7, repeats line 2 \(scene 'a', certified\)"),
    ],
)
def test_gaps_and_duplicates_are_refused(two, order, message):
    """Also in files of earlier versions, which had no digests. The error names the file, the line and the cure."""
    path, lines = two
    for read in (read_records, RecordFile):
        path.write_text("".join(without_digest(lines[index]) for index in order))
        with pytest.raises(InputError, match=rf"r\.jsonl, {message}\. Delete this line and all after it, which"):
            read(path, per_scene=3, digests=False)
        path.write_text("".join(lines[index] for index in order))
        with pytest.raises(InputError, match=r"r\.jsonl, line \d, .*\. Delete this line and all after it, which"):
            read(path, per_scene=3)


@pytest.mark.parametrize("order", [[3, 4, 5], [3, 4, 5, 0, 1, 2], [0, 1, 2, 3, 5], [0, 2]])
def test_a_digest_is_of_all_lines_before(two, order):
    """A scene taken out whole, scenes in another order, a line missing in the last scene."""
    path, lines = two
    path.write_text("".join(lines[index] for index in order))
    with pytest.raises(InputError, match=r"line \d, does not agree with its digest: it, or a line before it, was cha"):
        read_records(path, per_scene=3)


def test_a_scene_has_the_records_of_every_other_scene(two):
    path, lines = two
    lines = [without_digest(line) for line in lines]
    lines[4] = lines[4].replace('"sigma": 0.25', '"sigma": 0.5')
    path.write_text("".join(lines))
    with pytest.raises(InputError, match=r"line 5, is a record that other scenes do not have"):
        read_records(path, per_scene=3, digests=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("values", None),
        ("values", [0.5]),
        ("values", "ab"),
        ("values", [0.5, "1"]),
        ("values", [0.5, True]),
        ("values", [0.5, [1]]),
        ("values", [0.5, None]),
        ("values", [0.5, float("nan")]),
        ("values", [float("nan"), 0.5]),
        ("values", [-float("inf"), 0.5]),
        ("values", [float("inf"), -float("inf")]),
        ("values", [10**400, 1]),
        ("values", [1e308, 0.5]),
        ("values", [-1e308, 0.5]),
        ("n", 3),
        ("sigma", None),
        ("metric", None),
        ("metric", ["accuracy"]),
        ("reason", 1),
        ("input_radius", "1"),
        ("input_radius", float("nan")),
    ],
)
def test_values_of_a_metric_are_a_number_for_each_run(tmp_path, name, value):
    """Whoever changes a line can make its digest again: the values are checked before anything is computed of them."""
    path, good = tmp_path / "r.jsonl", Record("a", "metric", 4, 3, sigma=0.25, n=2, metric="accuracy", values=[0.5, 1])
    path.write_text(good.line(""))
    assert read_records(path) == [good]
    path.write_text(replace(good, **{name: value}).line(""))
    with pytest.raises(InputError, match=r"line 1, .*Delete this line"):
        read_records(path)


def without_digest(line):
    plain = json.loads(line)
    del plain["digest"]
    return json.dumps(plain) + "\n"


def test_lines_without_a_digest(two):
    """Only runs of earlier versions have them. If such a run goes on, its new digests are of the old lines too."""
    path, lines = two
    old = [without_digest(line) for line in lines]
    path.write_text("".join(old[:3] + lines[3:]))
    with pytest.raises(InputError, match=r"line 1, has no digest: .*Delete this line and all after it"):
        read_records(path)
    assert read_records(path, digests=False) == scene("a") + scene("b")
    path.write_text("".join(old[:3]))
    RecordFile(path, per_scene=3, digests=False).append(scene("b"))
    assert path.read_text() == "".join(old[:3] + lines[3:])
    path.write_text("".join(old[:3] + lines[3:]).replace('"valid": 3', '"valid": 2', 1))
    with pytest.raises(InputError, match="line 4, does not agree with its digest"):
        read_records(path, digests=False)
    path.write_text("".join(lines[:3] + old[3:]))
    with pytest.raises(InputError, match="line 4, has no digest"):
        read_records(path, digests=False)
