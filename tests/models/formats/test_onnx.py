"""ONNX files through onnxruntime: votes of the exported model, any batch, and what is refused."""

import logging
import sys
import warnings

import pytest
import torch
from torch import nn

from segcertify import InputError, models
from segcertify.models.formats.onnx import _choose
from segcertify.sampling.identity import identity

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'segcertify[dev]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'segcertify[onnx]'")
pytest.importorskip("onnxscript", reason="onnxscript, which torch's exporter needs, is not installed")

SIZE = (3, 16, 24)
DIFFERING = 0.005
"""Another runtime rounds otherwise: at most this share of labels at ties, or of votes, may differ."""


def export(model, file, batch=2, dynamic=True, outputs=("scores",), *, external=False):
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (torch.rand(batch, *SIZE),),
            file,
            input_names=["image"],
            output_names=list(outputs),
            dynamic_shapes=({0: torch.export.Dim("batch")},) if dynamic else None,
            dynamo=True,
            external_data=external,
            verbose=False,
        )
    return file


@pytest.mark.parametrize(("batch", "dynamic"), [(2, True), (1, False), (3, False)], ids=["any", "1", "3"])
def test_votes(network, tmp_path, votes, batch, dynamic):
    model = models.load(f"onnx:{export(network, tmp_path / 'a.onnx', batch, dynamic)}")
    ours, theirs = votes(model), votes(network)
    assert (ours.candidate != theirs.candidate).mean() <= DIFFERING
    assert abs(ours.agree - theirs.agree).sum() / (ours.n * ours.agree.size) <= DIFFERING
    image = torch.rand(5, *SIZE)
    assert (model(image).argmax(1) != network(image).argmax(1)).float().mean() <= DIFFERING
    torch.testing.assert_close(model(image), network(image), atol=1e-4, rtol=1e-4)
    assert model(torch.rand(1, *SIZE).double()).shape == (1, 5, 8, 12)


class Heads(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, batch):
        scores = self.network(batch)
        return -scores, scores


def test_several_outputs(network, tmp_path):
    batch = torch.rand(2, *SIZE)
    expected = network(batch)
    file = export(Heads(network).eval(), tmp_path / "a.onnx", outputs=("aux", "logits"))
    torch.testing.assert_close(models.load(f"onnx:{file}")(batch), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(models.load(f"onnx:{file}?output=aux")(batch), -expected, atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match="unknown output 'mask' of the ONNX model: use aux or logits"):
        models.load(f"onnx:{file}?output=mask")
    graph = onnx.load(file)
    graph.graph.output[1].name = "second"
    for node in graph.graph.node:
        for entries in (node.input, node.output):
            for i, name in enumerate(entries):
                entries[i] = "second" if name == "logits" else name
    onnx.save(graph, file)
    with pytest.warns(UserWarning, match="has outputs aux, second, and aux is taken"):
        models.load(f"onnx:{file}")


def tiny_graph(file, inputs):
    """The sum of its inputs."""
    values = [onnx.helper.make_tensor_value_info(f"x{i}", kind, [1, 3, 4, 4]) for i, kind in enumerate(inputs)]
    output = onnx.helper.make_tensor_value_info("y", inputs[0], [1, 3, 4, 4])
    node = onnx.helper.make_node("Sum" if len(inputs) > 1 else "Identity", [value.name for value in values], ["y"])
    graph = onnx.helper.make_graph([node], "tiny", values, [output])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), file)


def test_what_a_model_must_take(tmp_path):
    tiny_graph(tmp_path / "two.onnx", [onnx.TensorProto.FLOAT] * 2)
    with pytest.raises(InputError, match="must take one input, the batch, but this takes 2"):
        models.load(f"onnx:{tmp_path / 'two.onnx'}")
    tiny_graph(tmp_path / "bytes.onnx", [onnx.TensorProto.UINT8])
    with pytest.raises(InputError, match=r"must take floats.*this takes tensor\(uint8\)"):
        models.load(f"onnx:{tmp_path / 'bytes.onnx'}")
    for kind, dtype in ((onnx.TensorProto.FLOAT16, torch.float16), (onnx.TensorProto.DOUBLE, torch.float64)):
        tiny_graph(tmp_path / "other.onnx", [kind])
        assert models.load(f"onnx:{tmp_path / 'other.onnx'}")(torch.rand(2, 3, 4, 4)).dtype == dtype


def test_a_model_without_an_output_is_refused():
    with pytest.raises(InputError, match="must give the scores, but this gives nothing"):
        _choose([], None)


def test_another_image_size_is_refused(tmp_path):
    tiny_graph(tmp_path / "a.onnx", [onnx.TensorProto.FLOAT])
    model = models.load(f"onnx:{tmp_path / 'a.onnx'}?mean=0,0,0&std=1,1,1")
    with pytest.raises(InputError, match=r"shape \(3, 4, 4\), but x has shape \(3, 8, 8\)"):
        model(torch.rand(1, 3, 8, 8))


def test_names_that_are_no_text_and_inputs_without_a_batch_are_refused(tmp_path):
    """onnxruntime reads such files; their names and shapes raised UnicodeDecodeError and ValueError."""
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node("Identity", ["x"], ["y"])
    for name, sides, message in (("named", ["batch", 3], "a name in it is no text"), ("scalar", [], "a single number")):
        ends = [[value(end, onnx.TensorProto.FLOAT, sides)] for end in "xy"]
        made = onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", *ends), opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        )
        file = tmp_path / f"{name}.onnx"
        file.write_bytes(made.SerializeToString().replace(b"batch", b"b\xfftch"))
        with pytest.raises(InputError, match=message):
            models.load(f"onnx:{file}")


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match=r"no file at .*gone\.onnx: expected an ONNX model"):
        models.load(f"onnx:{tmp_path / 'gone.onnx'}")
    tiny_graph(tmp_path / "a.onnx", [onnx.TensorProto.FLOAT])
    content = (tmp_path / "a.onnx").read_bytes()
    for damaged in (b"", b"nonsense", content[: len(content) // 2]):
        (tmp_path / "a.onnx").write_bytes(damaged)
        with pytest.raises(InputError, match=r"cannot read .*a\.onnx as an ONNX model"):
            models.load(f"onnx:{tmp_path / 'a.onnx'}")


def test_without_onnxruntime(tmp_path, monkeypatch):
    tiny_graph(tmp_path / "a.onnx", [onnx.TensorProto.FLOAT])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"pip install 'segcertify\[onnx\]'"):
        models.load(f"onnx:{tmp_path / 'a.onnx'}")


def test_weights_in_a_file_of_their_own_belong_to_the_identity(network, tmp_path):
    file, inside = (export(network, tmp_path / name, external=name == "a.onnx") for name in ("a.onnx", "b.onnx"))
    weights = tmp_path / "a.onnx.data"
    before = identity(models.load(f"onnx:{file}"))
    assert [*before["settings"]["model"]["external"]] == [weights.name]
    content = bytearray(weights.read_bytes())
    content[3] ^= 1  # one bit of one weight
    weights.write_bytes(content)
    assert identity(models.load(f"onnx:{file}")) != before
    assert "external" not in identity(models.load(f"onnx:{inside}"))["settings"]["model"]
