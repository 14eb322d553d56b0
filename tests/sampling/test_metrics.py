"""Metric certificates from a model: draws, resuming, and what is refused."""

import numpy as np
import pytest
import torch

import segcertify as sc
from segcertify.errors import ModelError
from segcertify.metrics.map_metrics import metric_value
from segcertify.sampling import metrics as sampled
from segcertify.storage import archive

X = torch.linspace(0, 1, 24).reshape(1, 4, 6)
TARGET = (X[0] > 0.5).long().numpy()
SETTINGS = {"sigma": 0.25, "radius": 0.1, "n": 60, "seed": 3}


def bright(batch):
    return (batch[:, 0] > 0.5).long()


def test_the_values_are_those_of_the_draws_that_votes_count():
    found = sc.certify_metric(bright, X, sc.metrics.overall_accuracy(TARGET), input_id="a", **SETTINGS)
    smooth = sc.Smooth(bright, sigma=0.25, seed=3)
    maps = np.concatenate([labels.numpy() for _, labels in smooth.draws(X, "a").batches("agree", 0, 60)])
    np.testing.assert_array_equal(found.values, (maps == TARGET).mean((1, 2)))
    votes = smooth.votes(X, n=60, input_id="a")
    assert (found.seed, found.input_digest, found.model) == (3, votes.input_digest, votes.model)
    assert found.input_shape == (1, 4, 6)
    assert found.values.min() <= found.bound <= np.median(found.values)


def test_the_draws_do_not_depend_on_the_batch_size_and_share_among_metrics():
    target = sc.metrics.miou(TARGET), sc.metrics.area(1), lambda labels: labels[0, 0]
    smooth = sc.Smooth(bright, sigma=0.25, seed=3, batch_size=7)
    several = sampled.certify_metrics(smooth, X, target, radius=0.05, n=60)
    for metric, found in zip(target, several, strict=True):
        alone = sc.certify_metric(bright, X, metric, **SETTINGS | {"radius": 0.05})
        np.testing.assert_array_equal(alone.values, found.values)
    assert [found.two_sided for found in several] == [False, True, False]
    assert several[1].bound <= several[1].upper
    assert sc.certify_metric(bright, X, target[1], two_sided=False, **SETTINGS).upper is None


@pytest.mark.fresh_seed
def test_a_seed_is_drawn_and_recorded():
    found = sc.certify_metric(bright, X, sc.metrics.miou(TARGET), **SETTINGS | {"seed": None})
    assert not found.seed_given
    again = sc.certify_metric(bright, X, sc.metrics.miou(TARGET), **SETTINGS | {"seed": found.seed})
    np.testing.assert_array_equal(found.values, again.values)


def test_a_killed_run_resumes_to_the_same_values(tmp_path):
    calls, file = [], tmp_path / "resume.safetensors"

    def mortal(batch):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return bright(batch)

    options = SETTINGS | {"batch_size": 8, "checkpoint": file, "checkpoint_every": 0}
    mortal.__qualname__ = "bright"
    with pytest.raises(KeyboardInterrupt):
        sc.certify_metric(mortal, X, sc.metrics.miou(TARGET), **options)
    before = len(calls)
    found = sc.certify_metric(mortal, X, sc.metrics.miou(TARGET), **options)
    whole = sc.certify_metric(bright, X, sc.metrics.miou(TARGET), **SETTINGS)
    np.testing.assert_array_equal(found.values, whole.values)
    assert len(calls) - before < 18  # it did not begin anew
    for metric in (sc.metrics.miou(1 - TARGET), sc.metrics.overall_accuracy(TARGET)):
        with pytest.raises(sc.InputError, match="belongs to another run: its metrics are"):
            sc.certify_metric(bright, X, metric, **options)


def test_a_run_whose_model_failed_resumes_from_values_that_are_bit_for_bit_the_same(tmp_path):
    """mIoU has fractions, which a file of whole numbers would lose. The failure leaves the only state."""
    calls, file = [], tmp_path / "resume.safetensors"
    metrics = sc.metrics.miou(TARGET), lambda labels: -labels.mean() / 3

    def failing(batch):
        calls.append(1)
        if len(calls) == 9:
            raise OSError("gone")
        return bright(batch)

    smooth = sc.Smooth(failing, sigma=0.25, seed=3, batch_size=8)
    whole = sampled.certify_metrics(sc.Smooth(bright, sigma=0.25, seed=3), X, metrics, radius=0.05, n=60)
    with pytest.raises(ModelError, match=r"The \d+ draws before it are kept"):
        sampled.certify_metrics(smooth, X, metrics, radius=0.05, n=60, checkpoint=file)
    header, arrays = archive.read(file, kind="checkpoint", version=3)
    done = header["done"]
    assert 0 < done < 60
    assert arrays["values"].dtype == np.float64
    assert len(set(arrays["values"][:, :done].ravel() % 1)) > 2
    before = len(calls)
    found = sampled.certify_metrics(smooth, X, metrics, radius=0.05, n=60, checkpoint=file)
    assert (
        len(calls) - before == 1 + 7 + 3 + 2
    )  # it went on: a look at the input, batches, and pairs of those of 8 and 4
    for one, other, kept in zip(found, whole, arrays["values"], strict=True):
        assert one.values.tobytes() == other.values.tobytes()
        assert kept[:done].tobytes() == other.values[:done].tobytes()
        assert (one.bound, one.upper) == (other.bound, other.upper)


def test_a_checkpoint_without_the_values_is_refused(tmp_path):
    """With a true digest too: no value is taken for 0."""
    options = SETTINGS | {"checkpoint": tmp_path / "resume.safetensors"}
    whole = sc.certify_metric(bright, X, sc.metrics.miou(TARGET), **options)
    header, arrays = archive.read(options["checkpoint"], kind="checkpoint", version=3)
    values = arrays.pop("values")
    np.testing.assert_array_equal(values, [whole.values])
    for wrong in ({}, {"values": values[:, :-1]}, {"values": np.rint(values).astype(int)}, {"values": values * np.inf}):
        archive.write(options["checkpoint"], kind="checkpoint", version=3, header=header, arrays=arrays | wrong)
        with pytest.raises(sc.InputError, match="the checkpoint holds no values of these metrics: delete it"):
            sc.certify_metric(bright, X, sc.metrics.miou(TARGET), **options)


def test_a_metric_must_depend_on_the_map_alone_and_leave_it_alone():
    calls = []

    def moody(labels):
        calls.append(1)
        return len(calls)

    def vandal(labels):
        labels[:] = 0
        return 1.0

    for metric, message in [
        (moody, "the metric moody gave one label map the values 1.0 and 61.0"),
        (vandal, "the metric vandal failed .* read-only"),
        (lambda labels: np.nan, "is nan for a noisy run"),
        (sc.metrics.miou(TARGET[:2]), r"shape \(2, 6\), but the label map has shape \(4, 6\)"),
        (0.9, "a metric must be a function"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            sc.certify_metric(bright, X, metric, **SETTINGS | {"batch_size": 60})
    assert metric_value(lambda labels: labels.mean(), TARGET) == TARGET.mean()


def test_too_few_draws_and_unproven_noises_are_refused_before_the_model_is_called():
    def unused(batch):
        pytest.fail("called")

    for change, message in [
        ({"n": 10}, "n=10 gives no bound .* use n >= 17"),
        ({"n": 0}, "n must be an integer"),
        ({"radius": 5.0}, "no number of draws"),
        ({"sigma": None, "noise": type("Own", (sc.Gaussian,), {})(0.25)}, "knows no proof"),
        ({"noise": sc.Gaussian(1)}, "needs sigma, or a noise, and not both"),
        ({"norm": "l7"}, "proves nothing in norm='l7'"),
    ]:
        with pytest.raises(sc.InputError, match=message):
            sc.certify_metric(unused, X, sc.metrics.miou(TARGET), **SETTINGS | change)


def test_metrics_of_draws_that_votes_counted_ask_the_model_no_more():
    calls = []

    def counted(batch):
        calls.append(len(batch))
        return bright(batch)

    metric = sc.metrics.overall_accuracy(TARGET)
    recorder, smooth = sampled.MetricRecorder([metric], 60), sc.Smooth(counted, sigma=0.25, seed=3)
    smooth.votes(X, n=60, n0=5, input_id="a", watch=recorder)
    draws, before = smooth.draws(X, "a"), len(calls)
    values = recorder.values(draws)
    assert len(calls) == before
    np.testing.assert_array_equal(values[0], sc.certify_metric(bright, X, metric, input_id="a", **SETTINGS).values)
