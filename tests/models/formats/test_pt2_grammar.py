"""The grammar of a program's texts: what torch writes passes, what could run does not."""

import json

import pytest
import torch
from torch import nn

from segcertify import InputError, models
from segcertify.models.formats.pt2_grammar import checked_program, require_expression

S = "Symbol('s0', positive=True, integer=True)"


@pytest.mark.parametrize(
    "text",
    [
        "s0", "2*s39", "-1 + s0", "s0**2", "(s0 - 1)//2 + 1", S, f"Add(FloorDiv(Add({S}, Integer(-1)), Integer(2)), 1)",
        f"Pow({S}, Integer(2))", f"Pow({S}, Integer(-1))", f"Mul(Float('0.25', precision=53), ToFloat({S}))",
        f"Equality(Mod({S}, Integer(32)), Integer(0))", "Max(1, u3)", "true", "u0 <= 5", f"Rational(1, 2)*{S}", "oo",
        "Eq(s0, 1) | ~Eq(s1, 2)", "FloorToInt(IntTrueDiv(s0, 2))", "PowByNatural(s0, 3)",
    ],
)  # fmt: skip
def test_arithmetic_on_sizes_passes(text):
    require_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "eval('1')", "exec('1')", "open('a', 'w')", "print(1)", "sin(s0)", "test()",
        "s0.evalf()", "s0.__class__", "(lambda: 1)()", "[x for x in s0]", "s0 if s0 else 1", "'s0'", '"s0"', "f'{s0}'",
        "Symbol('s0; import os')", "Symbol('x')", "Symbol(s0)", "Symbol('s0', integer=eval('1'))",
        "Symbol('s0', cls=1)",
        "Float('nan', precision=53)", "Float('1', precision=10**9)", "Function('f')(1)", "S('1')", "sympify('1')",
        "Integer('__import__')", "9**9**9", "Pow(9, 99)", "9**s0", "((((((9**9)**9)**9)**9)**9)**9)", "1 << 60",
        "LShift(1, 10**9)", "10**20", "99999999999999999999", "s0 #", "s0\n", "s0;s1", "s0\\", "", "1j", "...",
        "x", "u9999999",
        "L['x'].size()[0]", "Add(*s0)", "Add(**s0)", "s0 := 1", "@s0",
        "a" * 20_000, "(" * 2000 + ")" * 2000, 1, None, ["s0"],
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match=r"its expr_str is .*might run as code"):
        require_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "2*(L['x'].size()[2] // 2) <= L['x'].size()[2]", "L['flat_args'][0].stride()[1] == 1", "L['x'] >= 3",
        "L['x'].size()[0] > 1 and not (L['x'].size()[1] == 7)", "Max(1, L['x'].storage_offset()) != 2",
    ],
)  # fmt: skip
def test_guards_ask_sizes(text):
    require_expression(text, guard=True)


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].mkdir('a')", "L['x'].data", "L['x'].size", "L['x'].size(1)", "L['x'].tofile()", "M['x']", "L[s0]",
        "args[0]",
        "L['x y']", "torch.load('a')", "math.inf", "L['x'].size()[0:2]", 'L["x"]',
    ],
)  # fmt: skip
def test_guards_ask_nothing_else(text):
    with pytest.raises(InputError, match=r"its guards_code is "):
        require_expression(text, guard=True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target", "torch.ops.aten.conv2d.default"), ("target", "torch.ops.aten.__and__.Tensor"),
        ("as_operator", "math.ceil"),
        ("target", "torch.ops.aten._softmax.default"), ("target", "_operator.getitem"), ("target", "torch.sym_int"),
        ("as_string", "bhwc,hkc->bhwk"), ("name", "conv2d_1"), ("parameter_name", "layers.0.weight"), ("type", "cuda"),
        ("torch_version", "2.13.0+cpu"), ("hint", {"as_int": 3}), ("hint", None), ("as_ints", [1, 2]),
        ("range_constraints", {"2*s0": {"min_val": 0, "max_val": None}}),
    ],
)  # fmt: skip
def test_what_torch_writes_passes(key, value):
    assert checked_program({key: value}) == {key: value}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target", "torch.os.system"), ("target", "torch.hub.load"), ("target", "torch.ops.aten.from_file.default"),
        ("target", "torch.ops.aten.from_file.out"), ("target", "torch.ops.aten.save.default"),
        ("target", "math.__loader__"),
        ("target", "torch.ops.load_library"), ("target", "torch.ops.image.write_file.default"),
        ("target", ["torch.load"]),
        ("target", "torch.ops.aten.add.__class__"), ("target", "torch.ops.aten.__class__.mro"), ("target", "eval"),
        ("target", "_operator.methodcaller"), ("target", "torch.ops.higher_order.triton_kernel_wrapper_mutation"),
        ("as_operator", "torch.load"), ("name", "x; y"), ("name", "f()"),
        ("buffer_name", "a.__class__.b"), ("name", "a\nb"), ("as_string", "a'b"),
        ("as_string", "a\nb"), ("x y", 1), ("hint", {"as_int": "s0"}), ("hint", "3"), ("as_strings", ["a", "'"]),
        ("range_constraints", {"s0": {"min_val": "0", "max_val": 1}}), ("range_constraints", {"eval('1')": {}}),
    ],
)  # fmt: skip
def test_what_could_run_does_not_pass(key, value):
    with pytest.raises(InputError, match=r"might run as code"):
        checked_program({"nodes": [{key: value}]})


LEAF = {"type": None, "context": None, "children_spec": []}


@pytest.mark.parametrize(
    ("type_", "context", "passes"),
    [
        ("builtins.tuple", "null", True), ("builtins.dict", '["out", "aux", 3]', True),
        ("some.package.Output", '["a"]', True),
        ("collections.defaultdict", "null", False),
        ("collections.defaultdict", {"default_factory_module": "os"}, False),
        ("builtins.dict", '[{"__enum__": true, "fqn": "os:name", "name": "a"}]', False), ("builtins.dict", "{}", False),
        ("builtins.dict", '["f()"]', False), ("builtins.tuple", "()", False), ("a b", "null", False),
        (["a"], "null", False),
    ],
)  # fmt: skip
def test_the_shape_of_inputs_and_outputs(type_, context, passes):
    text = json.dumps([1, {"type": type_, "context": context, "children_spec": [LEAF]}])
    if passes:
        checked_program({"out_spec": text})
    else:
        with pytest.raises(InputError, match="its out_spec is "):
            checked_program({"out_spec": text})


class Varied(nn.Module):
    """Sizes that are sums, products and quotients of dynamic ones; several outputs; a part without gradients."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 5, 3, padding=1, stride=2), nn.BatchNorm2d(5)

    def forward(self, x):
        y = nn.functional.interpolate(self.norm(self.conv(x)), size=x.shape[-2:], mode="bilinear")
        y = torch.einsum("bchw,kc->bkhw", y[:, :, : x.shape[2] // 2 * 2], torch.ones(5, 5))
        with torch.no_grad():
            z = nn.functional.gelu(nn.functional.adaptive_avg_pool2d(y, 1).expand_as(y), approximate="tanh")
        return {"out": y + z, "aux": (torch.cat([y, z], dim=2) & 1 if y.dtype == torch.int64 else y, z)}


@pytest.mark.filterwarnings("ignore")
def test_a_program_with_varied_sizes_is_read(tmp_path):
    model, x, dim = Varied().eval(), torch.rand(2, 3, 16, 24), torch.export.Dim
    shapes = ({0: dim("batch", max=30), 2: 2 * dim("h", min=4, max=300), 3: dim("w", min=8, max=900)},)
    torch.export.save(torch.export.export(model, (x,), dynamic_shapes=shapes), tmp_path / "a.pt2")
    loaded = models.load_pt2(tmp_path / "a.pt2")
    for size in ((2, 3, 16, 24), (3, 3, 30, 41)):
        x = torch.rand(size)
        torch.testing.assert_close(loaded(x), model(x)["out"])
    with pytest.raises(Exception, match=r"Guard failed|Expected input"):  # the guards are kept
        loaded(torch.rand(2, 3, 2000, 24))
