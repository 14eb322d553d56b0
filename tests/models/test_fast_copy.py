"""Optimised copies: the same function up to rounding, named by the original's weights, never mixed with another run."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import segcertify as sc
from segcertify import InputError
from segcertify.audit import audit_certificate
from segcertify.models import (
    Denoised,
    Ensemble,
    HRNet,
    Lite,
    MultiScale,
    PointNet2,
    View,
    adapt,
    compile_seconds,
    optimised,
    with_precision,
)  # fmt: skip
from segcertify.models.fast_copy import for_sampling
from segcertify.models.networks.fused_hrnet import FusedHRNet
from segcertify.models.networks.fused_lite import FusedLite
from segcertify.models.networks.hrnet import Architecture
from segcertify.sampling.identity import identity, same_identity, without_execution

TINY = Architecture(width=4, classes=4, blocks=1, modules=(1, 1, 1))
NOISE, SETTINGS = sc.Gaussian(0.25), {"n": 30, "n0": 5, "seed": 0, "progress": False}
X = torch.rand(3, 40, 50, generator=torch.Generator().manual_seed(1))


def network(kind=Lite, seed=0):
    """A random network with lively batch norms, in evaluation mode."""
    torch.manual_seed(seed)
    net = HRNet(TINY) if kind is HRNet else Lite(4, 16, 16)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
    return net.eval()


def denoise(noisy, sigma):
    return noisy / (1 + sigma.view(-1, 1, 1, 1))


def loaded(seed=0):
    """A model as `load` gives it: the sampler runs a faster copy."""
    model = adapt(network(seed=seed))
    model.fast = True
    return model


MODELS = {
    "lite": network,
    "hrnet": lambda: network(HRNet),
    "ensemble": lambda: Ensemble([network(), network(HRNet)], views=[View(), View(0.75, True)]).eval(),
    "multi-scale": lambda: MultiScale(network(), [0.75, 1.0], flip=True),
    "tiles": lambda: MultiScale(network(), [1.5], tile=(40, 50)),
    "normalised": lambda: adapt(network(), mean=(0.5,) * 3, std=(0.25,) * 3),
    "denoised": lambda: Denoised(network(), denoise, 0.25),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_copy_is_the_same_function_up_to_rounding(name):
    model = MODELS[name]()
    before = copy.deepcopy(model.state_dict())
    fast = optimised(model)
    assert type(fast) is {Lite: FusedLite, HRNet: FusedHRNet}.get(type(model), type(model))
    assert fast.execution.how["fused"] == (2 if name == "ensemble" else 1)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())
    assert fast.execution.how["folded"] == sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    batch = torch.rand(2, 3, 53, 70)
    with torch.no_grad():
        a, b = model(batch), fast(batch)
    assert float((a - b).abs().max()) <= 1e-5 * float(a.max() - a.min())
    after = model.state_dict()  # the caller's model is unchanged
    assert all(torch.equal(before[key], value) for key, value in after.items())


@pytest.mark.parametrize("name", MODELS)
def test_certificates_agree_and_record_the_original(name):
    model = MODELS[name]()
    plain, fast = (sc.sample(each, X, noise=NOISE, **SETTINGS) for each in (model, optimised(model)))
    assert np.mean(plain.candidate == fast.candidate) >= 0.999
    assert np.mean(plain.agree == fast.agree) >= 0.999
    assert "execution" not in plain.model
    assert fast.model["execution"]["memory_format"] == "channels_last"
    assert fast.model["weights"] == plain.model["weights"]
    assert without_execution(fast.model) == plain.model


def test_the_sampler_runs_the_copy_of_a_loaded_model_and_of_no_other(monkeypatch):
    model, plain = loaded(), adapt(network())
    assert sc.sample(model, X, noise=NOISE, **SETTINGS).model["execution"]["folded"] > 0
    assert "execution" not in sc.sample(plain, X, noise=NOISE, **SETTINGS).model
    assert for_sampling(model) is for_sampling(model)  # made once
    wrapped = MultiScale(model, [0.5])
    assert wrapped.fast
    assert with_precision(model, "bf16").fast
    assert not hasattr(MultiScale(plain, [0.5]), "__dict__") or not MultiScale(plain, [0.5]).fast


class Upside(Lite):
    """What a user may derive: other answers from the same weights."""

    def forward(self, batch):
        return -super().forward(batch)


class UpsideHR(HRNet):
    def forward(self, batch):
        return -super().forward(batch)


class UpsidePoints(PointNet2):
    def forward(self, points, category=None, seeds=None):
        return -super().forward(points, category, seeds)


def gelu():
    """One activation of a loaded network was replaced: its class is as it was."""
    net = network()
    for module in net.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU | nn.ReLU6):
                setattr(module, name, nn.Tanh())
    return net


@pytest.mark.parametrize("made", [lambda: Upside(4, 16, 16), lambda: UpsideHR(TINY), gelu, lambda: UpsidePoints(False)])
def test_a_network_that_computes_something_else_is_never_replaced(made):
    """Fused networks take the weights of their class, whatever a class derived from it makes of these."""
    net = made().eval()
    asked = ((torch.rand(2, 600, 3), [0, 0], [1, 2]),) if isinstance(net, PointNet2) else ((torch.rand(2, 3, 40, 50),),)
    for given in asked:
        with torch.inference_mode():
            one, other = net(*given), optimised(net)(*given)
        assert (one - other).abs().max() <= 1e-4 * (one.max() - one.min())


def test_load_gives_the_network_itself():
    model = sc.models.load("pets")
    assert any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert model.fast
    assert model.for_sampling() is not model


def test_a_change_of_the_original_makes_a_new_copy():
    """Else votes would name the new weights, or settings, and come from the old ones."""
    model = loaded()
    smooth = sc.Smooth(model, NOISE, seed=0)
    first = smooth.votes(X, n=30, n0=5, progress=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_()
    second = smooth.votes(X, n=30, n0=5, progress=False)
    assert first.model["weights"] != second.model["weights"]
    assert np.array_equal(second.candidate, sc.sample(optimised(model), X, noise=NOISE, **SETTINGS).candidate)
    scaled = MultiScale(loaded(), [1.0])
    one = for_sampling(scaled)
    scaled.flip = True
    assert for_sampling(scaled) is not one
    assert for_sampling(scaled).flip


def test_a_copy_whose_weights_were_changed_has_no_identity():
    fast = optimised(network())
    identity(fast)
    with torch.no_grad():
        next(fast.parameters()).add_(1)
    with pytest.raises(InputError, match="weights of an optimised model were changed"):
        identity(fast)
    with pytest.raises(InputError, match="weights of an optimised model were changed"):
        sc.sample(fast, X, noise=NOISE, **SETTINGS)


def test_inside_another_model_it_is_named_too():
    net = network()
    said = identity(Ensemble([optimised(net)]))
    assert said["settings"]["members.0"]["weights"] == identity(net)["weights"]
    assert said["settings"]["members.0"]["execution"]["folded"] > 0


def test_a_resumed_run_does_not_mix_executions(tmp_path):
    model = network()

    class StoppedError(Exception):
        pass

    def stop(phase, first, labels):
        if phase == "agree" and first:
            raise StoppedError

    smooth = sc.Smooth(model, NOISE, seed=0, batch_size=5)
    with pytest.raises(StoppedError):
        smooth.votes(X, n=30, n0=5, checkpoint=tmp_path / "c", checkpoint_every=0, progress=False, watch=stop)
    assert (tmp_path / "c").exists()
    with pytest.raises(InputError, match=r"written with another model: its model\.execution"):
        sc.sample(optimised(model), X, noise=NOISE, batch_size=5, checkpoint=tmp_path / "c", **SETTINGS)
    whole = sc.sample(model, X, noise=NOISE, batch_size=5, checkpoint=tmp_path / "c", **SETTINGS)
    assert np.array_equal(whole.agree, sc.sample(model, X, noise=NOISE, batch_size=5, **SETTINGS).agree)


def test_votes_of_two_executions_do_not_merge():
    model = network()
    one = sc.sample(model, X, noise=NOISE, **SETTINGS)
    other = sc.sample(optimised(model), X, noise=NOISE, first=30, **SETTINGS)
    with pytest.raises(InputError, match="different models"):
        one.merge(other)


def test_stored_votes_serve_another_claim_whatever_runs_now(tmp_path):
    model, settings = network(), {"sigma": 0.25, "n": 60, "n0": 5, "seed": 0, "progress": False}
    first = sc.certify(model, X[:, :8, :8], tau=0.75, save_votes=tmp_path / "votes", **settings)
    again = sc.certify(optimised(model), X[:, :8, :8], tau=0.7, save_votes=tmp_path / "votes", **settings)
    assert "execution" not in first.model
    assert again.model == first.model  # the votes are those that were stored
    other = optimised(network(seed=1))
    with pytest.raises(InputError, match="votes of another run"):
        sc.certify(other, X[:, :8, :8], tau=0.7, save_votes=tmp_path / "votes", **settings)


def test_audits_take_the_original_and_the_copy():
    model, small = network(), X[:, :8, :8]
    fast = optimised(model)
    certificate = sc.certify(fast, small, sigma=0.25, tau=0.75, n=60, n0=5, seed=0, progress=False)
    for each in (model, fast):
        finding = audit_certificate(each, small, certificate, n=200, seed=1, steps=1, restarts=1, progress=False)
        assert not finding.refuted
    assert same_identity(fast, identity(model))
    assert same_identity(model, identity(fast))
    assert not same_identity(optimised(network(seed=1)), identity(model))


def test_gradients_pass_through_the_copy():
    model = network(HRNet)
    gradients = []
    for each in (model, optimised(model)):
        given = X[None].clone().requires_grad_()
        each(given)[:, 0].sum().backward()
        gradients.append(given.grad)
    assert float((gradients[0] - gradients[1]).abs().max()) <= 1e-4 * float(gradients[0].abs().max())


def test_lower_precision_is_asked_for_and_recorded():
    fast = optimised(network(), precision="bf16")
    assert identity(fast)["settings"][""]["precision"] == "bf16"
    assert {module.weight.dtype for module in fast.modules() if isinstance(module, nn.Conv2d)} == {torch.bfloat16}
    with torch.no_grad():
        assert fast(X[None]).dtype == torch.float32
        plain = with_precision(network(), "bf16")(X[None])
        assert float((fast(X[None]) - plain).abs().max()) <= 0.1 * float(plain.max() - plain.min())


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["lite", "hrnet"])
def test_on_cuda_the_copy_is_fused_and_replays_small_batches(name, precision):
    """Also for sizes of images that it was not tried on."""
    model = with_precision(MODELS[name]().cuda(), precision)
    fast = optimised(model)
    assert fast.execution.how["fused"] == fast.execution.how["captured"] == 1
    assert sum(isinstance(module, FusedLite | FusedHRNet) for module in fast.modules()) == 1
    assert not any(isinstance(module, Lite | HRNet) for module in fast.modules())
    allowed = 0.1 if precision == "bf16" else 2.0**-6
    for shape in ((1, 3, 64, 64), (2, 3, 53, 70), (5, 3, 97, 120)):
        for _ in range(3):  # as ever, recorded, replayed
            batch = torch.rand(shape, device="cuda")
            with torch.no_grad():
                a, b = model(batch), fast(batch)
            assert float((a - b).abs().max()) <= allowed * float(a.max() - a.min())


@pytest.mark.cuda
def test_on_cuda_certificates_of_the_copy_agree(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # else labels that are nearly tied differ
    model = network().cuda()
    plain, fast = (sc.sample(each, X, noise=NOISE, device="cuda", **SETTINGS) for each in (model, optimised(model)))
    assert np.mean(plain.candidate == fast.candidate) >= 0.999
    assert fast.model["execution"]["fused"] == 1


def test_refusals_name_the_cure():
    with pytest.raises(InputError, match=r"call model.eval\(\) before"):
        optimised(network().train())
    with pytest.raises(InputError, match=r"only a torch.nn.Module can be optimised"):
        optimised(lambda batch: batch)
    with pytest.raises(InputError, match="optimised already"):
        optimised(optimised(network()))


def test_a_model_that_cannot_be_copied_is_sampled_as_it_is():
    class Locked(nn.Conv2d):
        def __deepcopy__(self, memo):
            raise RuntimeError("not I")

    model = adapt(nn.Sequential(Locked(3, 2, 1)).eval())
    model.fast = True
    assert for_sampling(model) is model
    assert "execution" not in sc.sample(model, X, noise=NOISE, **SETTINGS).model


def test_compiling_is_recorded_and_timed(monkeypatch):
    """What `torch.compile` makes is torch's affair: here it gives back the function, and counts the shapes."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: compiled.append(options) or function)
    model = Ensemble([network(), network(seed=1)]).eval()
    fast = optimised(model, compile=True)
    assert fast.execution.how["compiled"] == f"torch {torch.__version__}"
    assert compiled == [{"dynamic": False}] * 2
    assert compile_seconds(fast) == 0
    with torch.no_grad():
        fast(X[None])
        after_one = compile_seconds(fast)
        fast(X[None])
        assert compile_seconds(fast) == after_one > 0
        fast(X[None, :, :32])
        assert compile_seconds(fast) > after_one
