"""The strict grammar of the texts in a ``torch.export`` program that torch evaluates.

On loading, torch hands the sizes of tensors (``expr_str``) to sympy, which evaluates them as Python; it runs the guards
(``guards_code``) as Python; it looks operators up by name, and imports what the description of inputs and outputs
(``in_spec``) names. All else is pasted into the Python that it generates. Each text must match its grammar here first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from segcertify.errors import InputError
from segcertify.storage.plain_values import loads

LONGEST = 10_000  # characters of an expression
LARGEST = 2**63  # number in an expression
POWERS, EXPONENT = 4, 16  # of an expression: how many, and the largest. Larger ones would take sympy forever.

_CHARACTERS = re.compile(r"[\w .,+*/%()<>=!&|~\[\]'-]*", re.ASCII)
_SYMBOL = re.compile(r"(s|u|zf|zuf)\d{1,6}", re.ASCII)
_WORD = re.compile(r"(?!(.*\.)?__\w+__(\.|$))[\w.+<>=-]*", re.ASCII)  # a name, a version, a device
_TEXT = re.compile(r"[^'\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]*")  # an argument such as bhwc,hkc->bhwk
_DECIMAL = re.compile(r"-?\d{1,30}(\.\d{0,30})?(e[+-]?\d{1,3})?", re.ASCII)
_TYPE = re.compile(r"(?!collections\.defaultdict$)[\w.]+", re.ASCII)  # a defaultdict names a module to import

_ASSUMPTIONS = {
    "integer", "positive", "negative", "nonnegative", "nonpositive", "nonzero", "zero", "real", "finite", "commutative",
    "extended_real", "rational", "even", "odd", "evaluate",
}  # fmt: skip
_FUNCTIONS = {
    "Add", "Mul", "Max", "Min", "Abs", "Integer", "Rational", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not",
    "Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan", "FloorDiv", "Mod",
    "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "FloatTrueDiv",
    "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal",
    "ToFloat", "Identity", "floor", "ceiling", "max", "min",
}  # fmt: skip
_CONSTANTS = {"true", "false", "oo", "int_oo"}
_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.UAdd, ast.USub,
    ast.Not, ast.Invert, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_TARGET = re.compile(
    r"torch\.ops\.aten\.(?!(from_file|save)\b)(_?[A-Za-z]\w*|__i?(and|or|xor|lshift|rshift)__)\.[A-Za-z]\w*"
    r"|torch\.ops\.(prims|torchvision|quantized_decomposed)\.[A-Za-z]\w*\.[A-Za-z]\w*"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled|wrap_with_autocast"
    r"|strict_mode|out_dtype|invoke_subgraph)"
    r"|torch\.(sym_(not|min|max|ite|int|float|sum)|_sym_sqrt)|math\.(trunc|ceil|floor|sqrt)"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|and_|or_|lshift|rshift|eq|ne|lt|le|gt|ge)",
    re.ASCII,
)


def checked_program(value: Any, key: str = "") -> Any:
    """The JSON of a program with every text checked, and without ``metadata``: remarks on the source that do nothing.

    Raises `InputError` on the first text that does not match its grammar.
    """
    if key == "expr_str":
        require_expression(value)
    elif key == "guards_code":
        for guard in value:
            require_expression(guard, guard=True)
    elif key in ("target", "as_operator"):
        _require(_TARGET, key, value)
    elif key in ("in_spec", "out_spec"):
        _require_tree(key, value)
    elif key in ("hint", "range_constraints"):
        _require_numbers(key, value)
    elif isinstance(value, str):
        _require(_TEXT if key in ("as_string", "as_strings") else _WORD, key, value)
    elif isinstance(value, list):
        return [checked_program(each, key) for each in value]
    elif isinstance(value, dict):
        if key == "metadata" and all(isinstance(each, str) for each in value.values()):
            return {}
        for name in value:
            _require(_WORD, "a name", name)
        return {name: checked_program(each, name) for name, each in value.items()}
    return value


def require_expression(text: object, *, guard: bool = False) -> None:
    """Refuse all but arithmetic on sizes, such as ``Add(Symbol('s0', integer=True), Integer(1))`` or ``2*s0``.

    A ``guard`` may also ask the size of an input: ``L['x'].size()[2] // 2 >= 4``.
    """
    name = "guards_code" if guard else "expr_str"
    if not isinstance(text, str) or len(text) > LONGEST or "__" in text or not _CHARACTERS.fullmatch(text):
        raise _refused(name, text)
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused(name, text) from None
    powers = 0
    for node, allowed in _walk(tree, guard):
        powers += isinstance(node, ast.Pow) or _called(node) in ("Pow", "PowByNatural")
        if not allowed or powers > POWERS:
            raise _refused(name, text)


def _walk(node: ast.AST, guard: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every part of an expression, and whether the grammar has it."""
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    allowed = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Load, *_OPERATORS))
    if isinstance(node, ast.Constant):
        allowed = isinstance(node.value, int | float) and abs(node.value) <= LARGEST
    elif isinstance(node, ast.Name):
        allowed = node.id in _CONSTANTS or bool(_SYMBOL.fullmatch(node.id))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        allowed = _is_exponent(node.right)
    elif guard and _is_size(node):
        children, allowed = [], True
    elif isinstance(node, ast.Call):
        children, allowed = _call(node)
    yield node, allowed
    if allowed:
        for child in children:
            yield from _walk(child, guard)


def _call(node: ast.Call) -> tuple[list[ast.AST], bool]:
    """The arguments of a call that have yet to be checked, and whether the rest of it is in the grammar."""
    name, first = _called(node), node.args[0] if node.args else None
    flags = all(
        word.arg in _ASSUMPTIONS and isinstance(word.value, ast.Constant) and isinstance(word.value.value, bool)
        for word in node.keywords
    )
    text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    if name == "Symbol":
        return [], flags and len(node.args) == 1 and text is not None and bool(_SYMBOL.fullmatch(text))
    if name == "Float":
        digits = all(word.arg in ("precision", "dps") and _is_number(word.value, 1000) for word in node.keywords)
        return [], digits and len(node.args) == 1 and text is not None and bool(_DECIMAL.fullmatch(text))
    if name in ("Pow", "PowByNatural"):
        return list(node.args), flags and len(node.args) == 2 and _is_exponent(node.args[1])
    return list(node.args), flags and name in _FUNCTIONS


def _called(node: ast.AST) -> str:
    """The name of the function that is called, "" if none is."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _is_exponent(node: ast.AST) -> bool:
    """Whether this is a small number, or ``Integer`` of one."""
    if _called(node) == "Integer" and isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return _is_number(node.operand if isinstance(node, ast.UnaryOp) else node, EXPONENT)


def _is_number(node: ast.AST, most: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value <= most


def _is_size(node: ast.AST) -> bool:
    """Whether this is a number that an input has: ``L['x']``, ``L['x'][0].size()[1]`` or ``L['x'].stride()[0]``."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            _require(_WORD, "guards_code", str(node.slice.value))
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
            if node.func.attr not in ("size", "stride", "storage_offset"):
                return False
            node = node.func.value
        else:
            return False
    return node.id == "L"


def _require_tree(key: str, text: object) -> None:
    """Refuse all but nested tuples, lists and dictionaries with plain keys, as ``treespec_dumps`` writes them."""
    try:
        _, tree = loads(text)  # type: ignore[arg-type]
        _require_node(key, tree)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _refused(key, text) from None


def _require_node(key: str, node: Any) -> None:
    if node["type"] is not None:
        _require(_TYPE, key, node["type"])
    context = None if node["context"] is None else loads(node["context"])
    for each in [] if context is None else context:
        if type(each) is not int:
            _require(_WORD, key, each)
    if not isinstance(context, list | None) or not isinstance(node["children_spec"], list):
        raise _refused(key, node)
    for child in node["children_spec"]:
        _require_node(key, child)


def _require_numbers(key: str, value: Any) -> None:
    """Refuse anything but numbers by name; the names of ``range_constraints`` are expressions."""
    if isinstance(value, dict):
        for name, each in value.items():
            if key == "range_constraints":
                require_expression(name)
            else:
                _require(_WORD, key, name)
            _require_numbers("hint", each)
    elif type(value) not in (int, float, bool, type(None)):
        raise _refused(key, value)


def _require(pattern: re.Pattern[str], key: str, text: object) -> None:
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise _refused(key, text)


def _refused(key: str, text: object) -> InputError:
    shown = repr(text) if len(repr(text)) <= 80 else f"{repr(text)[:77]}..."
    return InputError(
        f"its {key} is {shown}, which torch might run as code and no exported segmenter needs: it was not loaded. "
        "Do not use this file unless you know who made it; if you did, export the model anew"
    )
