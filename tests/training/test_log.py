"""Training log: rows that come back, rows of a lost run that go, the picture."""

import csv
import sys

import pytest
from PIL import Image

from segcertify import InputError
from segcertify.training.log import TrainingLog, loss_figure, read_log, require_tensorboard

ROWS = [
    {"step": 10.0, "lr": 0.1, "loss": 1 / 3},
    {"step": 20.0, "lr": 1e-17, "loss": 0.2},
    {"step": 30.0, "lr": 0.05, "loss": 0.1, "validation mIoU": 0.5, "validation accuracy": float("nan")},
    {"step": 40.0, "lr": 0.01, "loss": 0.05},
]


def training_log(folder, rows=(), start=0):
    made = TrainingLog(folder, start=start)
    for row in rows:
        made.add(row)
    return made


def test_round_trip_with_columns_that_appear_later(tmp_path):
    for count in range(1, 5):  # the file is whole after each row
        training_log(tmp_path / str(count), ROWS[:count])
        found = read_log(tmp_path / str(count) / "log.csv")
        assert repr(found) == repr(ROWS[:count])
    with (tmp_path / "4" / "log.csv").open(newline="") as file:
        head, *lines = csv.reader(file)
    assert head == ["step", "lr", "loss", "validation mIoU", "validation accuracy"]
    assert [len(line) for line in lines] == [5] * 4
    assert lines[0][3] == lines[3][3] == ""


@pytest.mark.parametrize(("start", "kept"), [(0, 0), (20, 2), (29, 2), (40, 4)])
def test_rows_of_a_lost_run_are_dropped(tmp_path, start, kept):
    training_log(tmp_path, ROWS)
    again = training_log(tmp_path, [{"step": 50.0, "loss": 1.0}], start=start)
    assert repr(again.rows[:-1]) == repr(ROWS[:kept])
    assert [row["step"] for row in read_log(tmp_path / "log.csv")] == [10.0 * (i + 1) for i in range(kept)] + [50.0]


def test_the_picture(tmp_path):
    training_log(tmp_path / "run", ROWS).close()
    with Image.open(tmp_path / "run" / "loss.png") as picture:
        assert min(picture.size) > 300
    training_log(tmp_path / "empty").close()
    assert not (tmp_path / "empty" / "loss.png").exists()


def test_what_the_picture_shows():
    losses, measured = loss_figure(ROWS, title="a run").axes
    assert [line.get_label() for line in losses.lines] == ["loss"]
    assert losses.lines[0].get_xydata().tolist() == [[row["step"], row["loss"]] for row in ROWS]
    assert measured.lines[0].get_label() == "mIoU"
    assert measured.lines[0].get_xydata().tolist() == [[30, 0.5]]
    assert losses.get_title() == "a run"
    assert len(loss_figure(ROWS[:2], title="a run").axes) == 1
    nothing = {"step": 50.0, "validation mIoU": float("nan")}
    assert not any(panel.lines for panel in loss_figure([nothing], title="a run").axes)


@pytest.mark.parametrize(
    "content", [b"step,loss\n1,x\n", b"a,b\n1,2\n", b"step\n1,2\n", b"\xff\xfe\x00", b"step\n\x00\n"]
)
def test_files_that_are_no_log(tmp_path, content):
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"log\.csv is not a training log.*choose another folder"):
        training_log(tmp_path)
    assert (tmp_path / "log.csv").read_bytes() == content


def test_tensorboard_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="TensorBoard is not installed: pip install tensorboard"):
        require_tensorboard()
    with pytest.raises(InputError, match="TensorBoard is not installed"):
        TrainingLog(tmp_path, start=0, tensorboard=True)


def test_tensorboard_gets_every_number(tmp_path, monkeypatch):
    class Writer:
        def __init__(self, folder, purge_step):
            self.made, self.numbers, self.closed = (folder, purge_step), [], False

        def add_scalar(self, *number):
            self.numbers.append(number)

        def close(self):
            self.closed = True

    monkeypatch.setattr("segcertify.training.log.require_tensorboard", lambda: Writer)
    made = TrainingLog(tmp_path, start=20, tensorboard=True)
    made.add({"step": 30.0, "images per second": 2.0})
    made.close()
    assert made._board.made == (tmp_path / "tensorboard", 21)
    assert made._board.numbers == [("step", 30.0, 30), ("images_per_second", 2.0, 30)]
    assert made._board.closed


def test_a_line_cut_short_by_a_kill_is_passed_over(tmp_path):
    log = TrainingLog(tmp_path, start=0)
    log.add({"step": 50.0, "loss": 2.5})
    log.add({"step": 100.0, "loss": 1.5})
    whole = log.path.read_text()
    log.path.write_text(whole[:-5])
    assert read_log(log.path) == [{"step": 50.0, "loss": 2.5}]
    log.path.write_text(whole + "1")  # a number of another line, cut so that it could be a first step
    assert [row["step"] for row in read_log(log.path)] == [50.0, 100.0]
