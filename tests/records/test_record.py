"""Records on disk: whole scenes, whatever moment the run was killed at."""

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
    assert read_records(tmp_path / "r.jsonl") == scene("a") + scene("b") == file.records
    assert RecordFile(tmp_path / "r.jsonl", per_scene=3).ids == ["a", "b"]


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
