"""The state of an unfinished run: what was saved comes back, in place; what does not fit is refused."""

import pytest
import torch
from toys import batch, quick, small

from segcertify import InputError
from segcertify.training import state as resume
from segcertify.training.optimisation import optimiser


def run(model, update, steps):
    for step in range(steps):
        x, target = batch(step)
        update.zero_grad()
        torch.nn.functional.cross_entropy(model(x), target[:, ::2, ::2], ignore_index=255).backward()
        update.step()


@pytest.mark.parametrize("how", [{"optimiser": "adamw"}, {"optimiser": "sgd"}, {"optimiser": "sgd", "momentum": 0}])
def test_a_saved_state_comes_back_and_goes_on(tmp_path, how):
    recipe, model = quick(**how), small(dropout=0.0)
    update = optimiser(model, recipe)
    run(model, update, 3)
    resume.save(tmp_path / "state", step=3, modules={"model": model}, optimiser=update)
    fresh = small(dropout=0.0, seed=1)
    other = optimiser(fresh, recipe)
    weights = list(fresh.parameters())
    assert resume.load(tmp_path / "state", modules={"model": fresh}, optimiser=other) == 3
    assert all(a is b for a, b in zip(fresh.parameters(), weights, strict=True))
    run(model, update, 3)
    run(fresh, other, 3)
    for name, value in model.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name]), name
    if how == {"optimiser": "adamw"}:
        assert {int(state["step"]) for state in other.state.values()} == {6}


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_the_optimisers_tensors_lie_in_memory_as_their_weights_do(tmp_path, name):
    """Fused updates on CUDA refuse others."""
    recipe, model = quick(optimiser=name), small(dropout=0.0).to(memory_format=torch.channels_last)
    update = optimiser(model, recipe)
    run(model, update, 1)
    resume.save(tmp_path / "state", step=1, modules={"model": model}, optimiser=update)
    other = optimiser(model, recipe)
    resume.load(tmp_path / "state", modules={"model": model}, optimiser=other)
    seen = [(weight, value) for weight, values in other.state.items() for value in values.values() if value.ndim == 4]
    assert any(not weight.is_contiguous() for weight, _ in seen)
    for weight, value in seen:
        assert value.stride() == weight.stride()
        assert not value.requires_grad


def test_several_modules(tmp_path):
    one, two = small(seed=0), small(seed=1)
    resume.save(tmp_path / "state", step=0, modules={"model": one, "average": two}, optimiser=optimiser(one, quick()))
    fresh = {"model": small(seed=2), "average": small(seed=3)}
    resume.load(tmp_path / "state", modules=fresh, optimiser=optimiser(fresh["model"], quick()))
    assert torch.equal(fresh["model"][1].weight, one[1].weight)
    assert torch.equal(fresh["average"][1].weight, two[1].weight)


def test_states_that_do_not_fit(tmp_path):
    model = small()
    update = optimiser(model, quick())
    resume.save(tmp_path / "state", step=1, modules={"model": model}, optimiser=update)
    for modules, name in (
        ({"model": small(classes=4)}, r"5\.weight"),
        ({"model": small(), "average": small()}, r"1\.weight"),
        ({"model": torch.nn.Conv2d(3, 3, 1)}, "weight"),
    ):
        with pytest.raises(InputError, match=f"state does not fit the model: {name} is missing or has another shape"):
            resume.load(tmp_path / "state", modules=modules, optimiser=update)
    whole = (tmp_path / "state").read_bytes()
    (tmp_path / "state").write_bytes(whole[:-5])
    with pytest.raises(InputError, match="is not a training file, or is truncated"):
        resume.load(tmp_path / "state", modules={"model": model}, optimiser=update)


@pytest.mark.parametrize("steps", [-1e9, 2.0, 1e30, float("nan"), float("inf")])
def test_an_optimiser_that_counts_other_steps_than_were_done_is_refused(tmp_path, steps):
    """A huge negative count made Adam raise OverflowError at the next step; a larger one changed the averages."""
    model = small()
    update = optimiser(model, quick(optimiser="adamw"))
    model(torch.rand(2, 3, 32, 32)).sum().backward()
    update.step()
    update.state[next(iter(update.state))]["step"].fill_(steps)
    resume.save(tmp_path / "state", step=1, modules={"model": model}, optimiser=update)
    with pytest.raises(InputError, match="another optimiser, or a damaged one"):
        resume.load(tmp_path / "state", modules={"model": small()}, optimiser=optimiser(small(), quick()))


def test_a_save_that_fails_leaves_the_last_one(tmp_path, monkeypatch):
    model = small()
    update = optimiser(model, quick())
    resume.save(tmp_path / "state", step=1, modules={"model": model}, optimiser=update)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            resume.save(tmp_path / "state", step=2, modules={"model": model}, optimiser=update)
    assert resume.load(tmp_path / "state", modules={"model": model}, optimiser=update) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
