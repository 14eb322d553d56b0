"""The page of measured times and the documents' blocks say what the files say."""

import json
import shutil
from pathlib import Path

import frames
import growth
import long_run
import numpy as np
import pytest
import scaling
import speed_page

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "results" / "speed").exists(), reason="results are in the repository only")


def test_the_page_is_made_from_the_files():
    assert speed_page.PAGE.read_text(encoding="utf-8") == speed_page.page()


@pytest.mark.parametrize("document", speed_page.DOCUMENTS, ids=lambda path: path.name)
def test_blocks_are_made_from_the_files(document):
    text = document.read_text(encoding="utf-8")
    assert {name for _, name, _ in speed_page.BLOCK.findall(text)} <= set(speed_page.BLOCKS)
    assert speed_page.BLOCK.search(text)
    assert text == speed_page.filled(text)


def test_a_changed_number_changes_the_text(tmp_path, monkeypatch):
    copy = Path(shutil.copytree(speed_page.RESULTS, tmp_path / "speed"))
    monkeypatch.setattr(speed_page, "RESULTS", copy)
    before, file = speed_page.claims(), copy / "stats.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(values | {"ratio_to_vectorised": 1234.0}), encoding="utf-8")
    assert "1.23e+03 times as long" in speed_page.claims()
    assert before != speed_page.claims()


def test_aims_are_held_against_what_was_measured(tmp_path, monkeypatch):
    copy = Path(shutil.copytree(speed_page.RESULTS, tmp_path / "speed"))
    monkeypatch.setattr(speed_page, "RESULTS", copy)
    file = copy / "frames-w48-scale0.25-bf16-h200.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    for ratio, verdict in ((1.11, "missed"), (1.09, "met")):
        file.write_text(json.dumps(values | {"ratio_to_network": ratio}), encoding="utf-8")
        assert f"| 0.25, bf16 | at most 1.10 times the bare network | {ratio} | {verdict} |" in speed_page.aims()
    for ratio, verdict in ((699.0, "missed"), (701.0, "met")):
        other = values | {"baseline": values["baseline"] | {"ratio": ratio}}
        file.write_text(json.dumps(other), encoding="utf-8")
        assert f"700 times as fast as the released pipeline | {ratio:.3g} | {verdict} |" in speed_page.aims()


def test_a_cpu_has_its_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(speed_page, "RESULTS", tmp_path)
    assert "benchmarks/cpu.py" in speed_page.cpu()
    run = {"seconds": 8.0, "processor_seconds": 15.0, "peak_gb": 0.54, "finished": True}
    values = {
        "machine": {"device": "cpu", "processor": "a processor", "cores": 2},
        "time": {
            "pets": {
                "batch_size": 13, "clock": {"before": 0.05, "bare": 0.02, "after": 0.021},
                "ratio_to_bare": 1.05, "ratio_to_bare_by_processor": 1.08,
            }
        },
        "whole": {"camvid": {"before": run | {"seconds": 140.0}, "now": run}},
        "memory": {"pets": {"before": run | {"peak_gb": 14.0, "finished": False}, "now": run}},
        "agreement": {"pets": {"images": 1, "pixels": 38400, "same": 38399 / 38400}},
    }  # fmt: skip
    (tmp_path / "cpu.json").write_text(json.dumps(values), encoding="utf-8")
    found = speed_page.cpu()
    assert "| pets | 13 | 50 ms | 20 ms | 21 ms | 1.05 | 1.08 |" in found
    assert "| camvid | before | 140 s | 15 s | 0.54 GB |" in found
    assert "| pets | 1 | 38,400 | 99.9% |" in found
    assert "| pets | before | 8 s | 15 s | 14.00 GB, then it was stopped |" in found


def test_splits_are_compared_with_the_version_before_and_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(speed_page, "RESULTS", tmp_path)
    assert "benchmarks/splits.py" in speed_page.splits()
    values = {
        "machine": {"device": "NVIDIA H200", "cores": 16}, "settings": {"model": "pets"},
        "now": {"images": 184, "images_per_second": 30.0}, "before": {"images_per_second": 2.0},
        "agreement": {"its own noise": {"share": 0.97}, "the GPU's numbers": {"share": 0.9995}},
    }  # fmt: skip
    (tmp_path / "splits-pets-h200.json").write_text(json.dumps(values), encoding="utf-8")
    assert "| pets | H200 | 184 | 30 | 2 | 15 | 97.00% | 99.95% |" in speed_page.splits()


@pytest.mark.parametrize("file", sorted(speed_page.RESULTS.glob("*.json")), ids=lambda file: file.name)
def test_every_file_says_where_it_was_measured(file):
    values = json.loads(file.read_text(encoding="utf-8"))
    assert {"machine", "versions", "date", "settings"} <= set(values)
    assert {"device", "processor", "cores"} <= set(values["machine"])
    assert {"segcertify", "torch", "triton", "numpy"} <= set(values["versions"])
    if file.name.startswith(("frames-", "bench-")):
        assert sum(values["stages_seconds"].values()) == pytest.approx(values["instrumented_seconds"])


def test_frames_are_measured_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(frames, "SIZE", (32, 64))
    monkeypatch.setattr("segcertify.bench.released.cores", lambda: 1)
    options = [
        "--scale",
        "0.5",
        "--n",
        "6",
        "--n0",
        "2",
        "--repeats",
        "1",
        "--baseline",
        "--draws",
        "4",
        "--pixels",
        "20",
    ]
    monkeypatch.setattr("sys.argv", ["frames.py", *options, "--out", str(tmp_path)])
    frames.main()
    (file,) = tmp_path.iterdir()
    values = json.loads(file.read_text(encoding="utf-8"))
    assert file.name == "frames-tiny-scale0.5-fp32-cpu.json"
    assert (values["components"], values["baseline"]["draws_made"]) == (32 * 64, 4)
    assert "The released pipeline, re-created" in capsys.readouterr().out
    monkeypatch.setattr(speed_page, "RESULTS", tmp_path)
    (row,) = [speed_page._certificate(values) for values in speed_page.costs().values()]
    assert row[:6] == ("tiny", "3 x 32 x 64", "0.5", "fp32", f"{values['machine']['cores']} cores", "8")
    assert row[11].endswith("*")
    assert "| tiny |" in speed_page.certificates()


def test_growth_is_measured_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "apart", growth.measure)
    for name, value in {
        "DRAWS": (30, 60), "COMPONENTS": (2**11, 2**12), "FIXED_COMPONENTS": 2**12, "FIXED_N": 30, "REPEATS": 1
    }.items():  # fmt: skip
        monkeypatch.setattr(growth, name, value)
    monkeypatch.setattr("sys.argv", ["growth.py", "--json", str(tmp_path / "growth-cpu.json")])
    growth.main()
    values = json.loads((tmp_path / "growth-cpu.json").read_text(encoding="utf-8"))
    assert [row["n"] for row in values["over_n"]] == [30, 60]
    assert [row["components"] for row in values["over_components"]] == [2**11, 2**12]
    assert "Growth with N, n = 30" in speed_page.growth(values, "components", "N").markdown()


def test_workers_and_long_runs_are_measured_and_written(tmp_path, monkeypatch):
    """Their commands to the end, with few scenes, and the tables that are made of what they write."""
    monkeypatch.setattr(speed_page, "RESULTS", tmp_path)
    assert "benchmarks/scaling.py" in speed_page.scaled()
    assert not speed_page.long_runs()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    asked = ["--workers", "1", "--scenes", "2", "--n", "10", "--rounds", "1", "--without-ray"]
    monkeypatch.setattr("sys.argv", ["scaling.py", *asked, "--json", str(tmp_path / "scaling-2-cores.json")])
    scaling.main()
    asked = ["--scenes", "10", "--engines", "one process", "2 workers"]
    monkeypatch.setattr("sys.argv", ["long_run.py", *asked, "--json", str(tmp_path / "long-run.json")])
    long_run.main()
    found = speed_page.scaled()
    assert "| one process | " in found
    assert "| 1 worker | " in found
    assert "| 64 | " in found
    assert [row.rpartition("|")[0].rpartition("| ")[2].strip() for row in _rows(speed_page.long_runs())] == ["10", "10"]


def _rows(table):
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def test_the_model_of_many_gpus_is_as_fast_as_these_or_as_the_driver():
    driver = {"send": 0.1, "add": 0.01, "certify": 0.1}
    slow, fast = scaling.model(driver, 42.0), scaling.model(driver, 0.1)
    assert [row["speedup"] for row in slow[:4]] == pytest.approx([1, 2, 4, 8])
    assert slow[-1]["speedup"] == pytest.approx(64)
    assert [row["speedup"] for row in fast] == pytest.approx(7 * [1])
    assert fast[0]["frames_per_hour"] == pytest.approx(3600 / 0.21)


def test_threads_that_were_set_are_no_comparison(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("sys.argv", ["scaling.py"])
    with pytest.raises(SystemExit):
        scaling.main()
    assert "one process is to use all cores" in capsys.readouterr().err


def test_a_line_is_fitted():
    rows = [{"n": n, "seconds": 2 + 0.5 * n} for n in (10, 100, 1000)]
    fit = growth.line(rows, "n")
    assert np.allclose([fit["seconds_each"], fit["seconds_fixed"], fit["residual"]], [0.5, 2, 0], atol=1e-9)
    bent = growth.line([*rows, {"n": 10_000, "seconds": 9000.0}], "n")
    assert bent["residual"] > 0.1
