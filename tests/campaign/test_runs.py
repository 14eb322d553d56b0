"""What the campaign compares: the log of a run that was stopped has a row more, and the same losses."""

from tests.campaign.runs import _log, same_losses


def log(tmp_path, *rows):
    (tmp_path / "log.csv").write_text("step,lr,loss\n" + "".join(f"{step},0.1,{loss}\n" for step, loss in rows))
    return _log(tmp_path / "log.csv")


def test_a_stopped_run_has_a_row_more_and_the_same_losses(tmp_path):
    whole = log(tmp_path, (2, 1.5), (4, 0.5))  # losses 2, 1, 0.6, 0.4
    assert same_losses(whole, whole)
    assert same_losses(log(tmp_path, (2, 1.5), (3, 0.6), (4, 0.4)), whole)
    assert not same_losses(log(tmp_path, (2, 1.5), (3, 0.6), (4, 0.5)), whole)
    assert not same_losses(log(tmp_path, (2, 1.5), (4, 0.4)), whole)
    assert not same_losses(log(tmp_path, (2, 1.5)), whole)
    assert not same_losses(log(tmp_path, (4, 1.0)), whole)
