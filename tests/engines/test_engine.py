"""Engine: what it is made of, and votes, certificates and audits on workers of this machine."""

import numpy as np
import pytest
import torch
from shared_models import brightness, small_network

import segcertify as sc
from segcertify.audit import audit_certificate, audit_metric
from segcertify.engines import Engine
from segcertify.engines.engine import as_engine
from segcertify.metrics import agreement
from segcertify.models import load, with_precision

IMAGE = np.random.default_rng(0).random((3, 12, 16), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "slurm"}, "unknown engine 'slurm': use local or ray"),
        ({"workers": 0}, "workers must be an integer not less than 1, but got 0"),
        ({"address": "auto"}, "address='auto' is of a Ray cluster, but the engine is local: use ray"),
        ({"patience": 0}, "patience must be positive, but got 0"),
        ({"patience": 1e9}, "patience must be at most 1,000,000 seconds, but got 1e+09"),
    ],
)
def test_what_no_engine_can_be(arguments, message):
    with pytest.raises(sc.InputError) as error:
        Engine(**arguments)
    assert message in str(error.value)


def test_names_become_engines():
    made = Engine("local", 2)
    assert as_engine(made) is made
    assert as_engine("ray", 3, "auto") == Engine("ray", 3, "auto")
    assert [Engine().in_process, made.in_process, Engine("ray").in_process] == [True, False, False]


def test_threads_are_shared_out():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        engines = Engine(), Engine("local", 1), Engine("local", 2), Engine("local", 3), Engine("ray")
        assert [engine.threads for engine in engines] == [2, 2, 1, 1, 1]
    finally:
        torch.set_num_threads(before)


def test_without_workers_this_process_draws():
    with Engine().smoothing(brightness) as smoothing:
        assert type(smoothing(brightness, sc.Gaussian(0.1), seed=1, category="")) is sc.Smooth


def test_certificates_and_audits_on_workers(tmp_path):
    model, noise = small_network(), sc.Gaussian(0.05)
    alone = sc.Smooth(model, noise, seed=1)
    x = torch.from_numpy(IMAGE)
    with Engine("local", 1).smoothing(model) as smoothing:
        certificate = smoothing(model, noise, seed=1).certify(IMAGE, tau=0.75, n=200)
        np.testing.assert_array_equal(certificate.labels, alone.certify(IMAGE, tau=0.75, n=200).labels)
        options = {"n": 200, "steps": 2, "seed": 5, "level": 1e-3}
        findings = [
            audit_certificate(model, IMAGE, certificate, **options, **each) for each in ({}, {"smoothing": smoothing})
        ]
        for ours, theirs in zip(*(each.perturbed for each in findings), strict=True):
            assert ours.name == theirs.name
            np.testing.assert_array_equal(ours.agree, theirs.agree)
        metric = agreement(certificate.labels.clip(0))
        bound = sc.certify_metric(model, IMAGE, metric, noise=noise, radius=0.01, n=200, seed=2)
        kept = [
            [each.kept for each in audit_metric(model, x, bound, metric, **options, **more).perturbed]
            for more in ({}, {"smoothing": smoothing})
        ]
        assert kept[0] == kept[1]
        with pytest.raises(sc.InputError, match="sample without workers"):
            smoothing(model, noise, seed=1).votes(IMAGE, watch=lambda phase, start, labels: None)
        with pytest.raises(sc.InputError, match="sample without workers"):
            next(smoothing(model, noise, seed=1).draws(IMAGE).batches("agree", 0, 4))


def test_the_precision_is_that_of_the_draws():
    network = load("pets")
    model = with_precision(network, "bf16")
    x = np.random.default_rng(0).random((3, 32, 32), np.float32)
    with Engine("local", 1).of("pets").smoothing(network, precision="bf16") as smoothing:
        votes = smoothing(model, sc.Gaussian(0.1), seed=1, batch_size=8).votes(x, n=16)
    alone = sc.Smooth(model, sc.Gaussian(0.1), seed=1, batch_size=8).votes(x, n=16)
    assert votes.model == alone.model
    np.testing.assert_array_equal(votes.agree, alone.agree)
