"""TorchScript and torch.export programs: the same votes as the model, whatever batch they were exported for."""

import os
import shutil
import warnings
import zipfile

import pytest
import torch
from torch import nn

from segcertify import InputError, models
from segcertify.models.formats.exported import in_batches
from segcertify.sampling.identity import identity

SIZE = (3, 16, 24)


class Attack:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def quietly(call):
    """The call's result; what torch warns of while it exports is not tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def export(model, file, batch, dynamic=None):
    shapes = None if dynamic is None else ({0: dynamic},)
    program = quietly(lambda: torch.export.export(model, (torch.rand(batch, *SIZE),), dynamic_shapes=shapes))
    quietly(lambda: torch.export.save(program, file))
    return file


def script(model, file):
    quietly(lambda: torch.jit.save(torch.jit.trace(model, torch.rand(1, *SIZE), strict=False), file))
    return file


def test_torchscript(network, tmp_path, same_votes):
    file = script(network, tmp_path / "a.pt")
    model = models.load(f"torchscript:{file}", trust_code=True)
    assert same_votes(model, network)
    assert len(list(model.parameters())) == len(list(network.parameters()))


class Pair(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, batch):
        scores = self.network(batch)
        return -scores, scores


def test_a_chosen_output(network, tmp_path, same_votes):
    program = script(Pair(network).eval(), tmp_path / "a.pt")
    assert same_votes(models.load(f"torchscript:{program}?output=-1", trust_code=True), network)
    archive = export(Pair(network).eval(), tmp_path / "a.pt2", 1)
    assert same_votes(models.load(f"pt2:{archive}?output=1", trust_code=True), network)


@pytest.mark.parametrize(
    ("batch", "dynamic"),
    [(1, None), (3, None), (2, torch.export.Dim("batch", max=3)), (2, torch.export.Dim("batch"))],
    ids=["batch of 1", "batch of 3", "at most 3", "any"],
)
def test_pt2(network, tmp_path, same_votes, batch, dynamic):
    model = models.load(f"pt2:{export(network, tmp_path / 'a.pt2', batch, dynamic)}", trust_code=True)
    assert same_votes(model, network)
    for size in (1, 2, 7):
        assert model(torch.rand(size, *SIZE)).shape == (size, 5, 8, 12)
    assert len(list(model.parameters())) == len(list(network.parameters()))
    assert not any(module.training for module in model.train().modules() if module is not model)


def test_normalisation_and_scale_options(network, tmp_path, same_votes, image):
    file = script(network, tmp_path / "a.pt")
    model = models.load(f"torchscript:{file}?mean=0.5,0.5,0.5&std=0.25,0.25,0.25", trust_code=True)
    assert same_votes(model, lambda batch: network((batch - 0.5) / 0.25))
    scaled = models.load(f"torchscript:{file}?scale=0.5", trust_code=True)
    assert same_votes(scaled, models.MultiScale(network, (0.5,)))


def test_another_image_size_is_refused(network, tmp_path):
    model = models.load(f"pt2:{export(network, tmp_path / 'a.pt2', 1)}", trust_code=True)
    with pytest.raises(InputError, match=r"exported for inputs of shape \(3, 16, 24\), but x has shape \(3, 8, 8\)"):
        model(torch.rand(1, 3, 8, 8))


def test_a_program_exported_in_training_mode_is_refused(network, tmp_path):
    file = export(network.train(), tmp_path / "a.pt2", 2)
    with pytest.raises(InputError, match=r"exported in training mode \(aten\..*\): call model.eval\(\)"):
        models.load(f"pt2:{file}", trust_code=True)


class Two(nn.Module):
    def forward(self, batch, other):
        return batch + other


def test_a_program_of_two_inputs_is_refused(tmp_path):
    program = quietly(lambda: torch.export.export(Two(), (torch.rand(1, *SIZE), torch.rand(1, *SIZE))))
    quietly(lambda: torch.export.save(program, tmp_path / "a.pt2"))
    with pytest.raises(InputError, match="must take one input, the batch, but this takes 2"):
        models.load(f"pt2:{tmp_path / 'a.pt2'}", trust_code=True)


def replaced(source, target, part, content):
    """A copy of an archive in which the entries that contain ``part`` hold something else."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        names = [name for name in old.namelist() if part in name]
        for name in old.namelist():
            new.writestr(name, content if name in names else old.read(name))
    return names


def test_pickled_code_in_an_archive_is_not_run(network, tmp_path):
    file, made = export(network, tmp_path / "a.pt2", 1), tmp_path / "made"
    torch.save(Attack(made), tmp_path / "attack.pt")
    attack = (tmp_path / "attack.pt").read_bytes()
    assert replaced(file, tmp_path / "b.pt2", "sample_inputs", attack)
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.raises(InputError, match=r"cannot read .*b.pt2 as a .pt2 archive"):
        models.load(f"pt2:{tmp_path / 'b.pt2'}", trust_code=True)
    assert not made.exists()
    assert os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD") == before
    for name in ("constants/opaque_obj_0", "constants/custom_obj_0", "aotinductor/model/a.so"):
        shutil.copy(file, tmp_path / "c.pt2")
        with zipfile.ZipFile(tmp_path / "c.pt2", "a") as archive:
            archive.writestr(f"a/data/{name}", attack)
        with pytest.raises(InputError, match=f"compiled code or pickled objects.*{name}"):
            models.load(f"pt2:{tmp_path / 'c.pt2'}", trust_code=True)
    assert not made.exists()


@pytest.mark.parametrize("scheme", ["torchscript", "pt2"])
def test_bad_files(network, tmp_path, scheme):
    with pytest.raises(InputError, match=r"no file at .*gone: expected a"):
        models.load(f"{scheme}:{tmp_path / 'gone'}", trust_code=True)
    file = script(network, tmp_path / "a.bin") if scheme == "torchscript" else export(network, tmp_path / "a.pt2", 1)
    content = file.read_bytes()
    for damaged in (b"", b"nonsense", content[: len(content) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"cannot read .*a.* as"):
            models.load(f"{scheme}:{file}", trust_code=True)


def test_a_pickle_that_names_more_bytes_than_it_has_is_refused_before_torch_takes_them(tmp_path):
    """torch would take 4 GiB for a text of which the file has a few bytes."""
    quietly(lambda: torch.jit.script(nn.Conv2d(3, 2, 1)).save(str(tmp_path / "a.ts")))
    with zipfile.ZipFile(tmp_path / "a.ts") as old, zipfile.ZipFile(tmp_path / "b.ts", "w") as new:
        for part in old.infolist():
            new.writestr(part, old.read(part).replace(b"X\x08\x00\x00\x00training", b"X\x08\x00\x00\xfftraining"))
    models.load(f"torchscript:{tmp_path / 'a.ts'}", trust_code=True)
    with pytest.raises(InputError, match=r"b\.ts: a damaged zip file or pickle \(expected 4278190088 bytes"):
        models.load(f"torchscript:{tmp_path / 'b.ts'}", trust_code=True)


def test_a_state_dict_is_no_program(network, tmp_path):
    torch.save(network.state_dict(), tmp_path / "a.pt")
    for scheme in ("torchscript", "pt2"):
        with pytest.raises(InputError, match="cannot read"):
            models.load(f"{scheme}:{tmp_path / 'a.pt'}", trust_code=True)


@pytest.mark.parametrize(
    ("least", "most", "sizes"), [(1, None, [5]), (1, 2, [2, 2, 1]), (3, 3, [3, 3]), (8, None, [8])]
)
def test_pieces(least, most, sizes):
    seen = []
    batch = torch.arange(5.0).view(5, 1)
    out = in_batches(lambda piece: seen.append(len(piece)) or piece * 2, batch, least=least, most=most)
    assert torch.equal(out, batch * 2)
    assert seen == sizes


class Scaled(nn.Module):
    """Equal weights, other code: the factor is a constant of the program."""

    def __init__(self, factor):
        super().__init__()
        self.conv, self.factor = nn.Conv2d(3, 2, 1), factor

    def forward(self, batch):
        return self.conv(batch) * self.factor


@pytest.mark.parametrize(("scheme", "save"), [("torchscript", script), ("pt2", lambda m, file: export(m, file, 2))])
def test_programs_of_equal_weights_are_told_apart(tmp_path, scheme, save):
    found = []
    for factor in (1.0, -1.0, 1.0):
        torch.manual_seed(0)
        file = save(Scaled(factor).eval(), tmp_path / f"{len(found)}.{scheme}")
        if len(found) == 2:  # a copy: equal programs may be saved with other bytes
            shutil.copy(tmp_path / f"0.{scheme}", file)
        found.append(identity(models.load(f"{scheme}:{file}", trust_code=True)))
    assert found[0] == found[2]
    assert found[0]["weights"] == found[1]["weights"]
    assert found[0] != found[1]
