"""Mutants: small defects, each planted in one function of the code that certificates rest on.

A mutant changes one node of one module's tree: a comparison, an operator, a number, a condition, a statement left out.
"""

import ast
import builtins
import copy
import functools
import gc
import importlib.abc
import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

ROOT = Path(__file__).resolve().parent.parent
TARGETS = (
    "stats/*", "noise/*", "votes", "class_counts", "provenance", "certificate", "certification", "looks", "radii",
    "claims", "plain_words", "sets/*", "preprocessing", "resampling", "sampling/*", "metrics/*",
)  # fmt: skip
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.Mod: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """Where a node stands: its innermost function and statement, and the outermost function that runs it."""

    function: str = ""
    statement: str = ""
    line: int = 0
    path: str = ""
    runs_in: str = ""
    """Empty for what runs when the module is imported: also defaults and decorators."""

    def of(self, node: ast.AST, parent: ast.AST, field: str) -> "Where":
        """Where a child of a node that stands here stands."""
        where = self
        if isinstance(parent, ast.FunctionDef) and field == "body" and not self.runs_in:
            where = replace(where, runs_in=self.path)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not where.runs_in:
            where = replace(where, path=f"{self.path}.{node.name}".lstrip("."))
        if isinstance(node, ast.FunctionDef):
            where = replace(where, function=node.name)
        if isinstance(node, ast.stmt):
            where = replace(where, statement=ast.unparse(node).split("\n")[0], line=node.lineno)
        return where


@dataclass(frozen=True)
class Mutant:
    """One change: node ``index`` of a module's tree, in walking order."""

    module: str
    index: int
    where: Where
    before: str
    after: str
    nth: int = 1
    """Which of the equal changes in equal statements of the function."""

    @property
    def name(self) -> str:
        """The change in words, without line numbers, which move."""
        place = f"{self.module}.{self.where.function}".rstrip(".")
        text = f"{place}: {self.before}  ->  {self.after}  in  {self.where.statement}"[:200]
        return text if self.nth == 1 else f"{text} ({self.nth})"


def mutate(node: ast.AST) -> ast.AST | None:
    """The node with a defect, or None if it has nothing to change."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in SWAPS:
        changed.ops[0] = SWAPS[type(changed.ops[0])]()
    elif isinstance(changed, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(changed.op) in SWAPS:
        changed.op = SWAPS[type(changed.op)]()
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not | ast.USub):
        return changed.operand
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        changed.value = not changed.value
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, int | float):
        changed.value = changed.value + 1 if isinstance(changed.value, int) else changed.value * 1.5 + 1e-9
    elif isinstance(changed, ast.If | ast.IfExp | ast.While):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
    elif isinstance(changed, ast.Raise) or (isinstance(changed, ast.Expr) and isinstance(changed.value, ast.Call)):
        return ast.Pass()
    else:
        return None
    return changed


@dataclass(frozen=True)
class Place:
    """A node, and the field of its parent (and the position there) that holds it."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    where: Where


def places(tree: ast.AST, at: Where = Where()) -> Iterator[Place]:  # noqa: B008  (frozen)
    """All that runs: no annotations, and no numbers in messages."""
    for field, value in ast.iter_fields(tree):
        if field in ("annotation", "returns") or isinstance(tree, ast.JoinedStr):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST):
                where = at.of(node, tree, field)
                yield Place(tree, field, index, node, where)
                yield from places(node, where)


def planted(source: str, index: int) -> ast.Module:
    """The module with the mutant of that index."""
    tree = ast.parse(source)
    place = next(each for j, each in enumerate(places(tree)) if j == index)
    changed = ast.copy_location(mutate(place.node) or place.node, place.node)
    if place.index is None:
        setattr(place.parent, place.field, changed)
    else:
        getattr(place.parent, place.field)[place.index] = changed
    return ast.fix_missing_locations(tree)


def watched(source: str, path: str) -> ast.Module:
    """The module with a note before each statement of its functions that it was reached."""
    tree = ast.parse(source)
    functions = [place.node for place in places(tree) if isinstance(place.node, ast.FunctionDef)]
    blocks = {id(block): block for function in functions for block in _blocks(function)}
    for block in blocks.values():
        notes = [ast.parse(f"__reached__({f'{path}:{each.lineno}'!r})").body[0] for each in block]
        block[:] = [each for pair in zip(notes, block, strict=True) for each in pair]
    return ast.fix_missing_locations(tree)


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def target_files() -> list[Path]:
    """The modules that mutants are planted in."""
    return [path for target in TARGETS for path in sorted((ROOT / "segcertify").glob(f"{target}.py"))]


def module_of(path: Path) -> str:
    """The module that a file holds."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def file_of(module: str) -> Path:
    """A module's file, or a package's."""
    folder = ROOT / module.replace(".", "/")
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def mutants() -> list[Mutant]:
    """All mutants of the target modules."""
    found: list[Mutant] = []
    same: Counter[str] = Counter()
    for path in target_files():
        for index, place in enumerate(places(ast.parse(path.read_text()))):
            changed = mutate(place.node)
            if changed is not None:
                before, after = (ast.unparse(each).split("\n")[0] for each in (place.node, changed))
                mutant = Mutant(module_of(path), index, place.where, before, after)
                same[mutant.name] += 1
                found.append(replace(mutant, nth=same[mutant.name]))
    return found


class Importer(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports changed modules: ``change`` turns a module's source and path into the tree that runs."""

    def __init__(self, modules: set[str], change: Callable[[str, str], ast.Module]) -> None:
        self.modules, self.change = modules, change

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """The module's own file, read by this loader."""
        if name not in self.modules:
            return None
        file = file_of(name)
        inside = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=inside)

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed code."""
        file = file_of(module.__name__)
        tree = self.change(file.read_text(), str(file.relative_to(ROOT)))
        exec(compile(tree, str(file), "exec"), module.__dict__)


def watch(reached: set[str]) -> None:
    """Have target modules that are imported from now on note each statement that is reached: "file:line"."""
    vars(builtins)["__reached__"] = reached.add
    sys.meta_path.insert(0, Importer({module_of(path) for path in target_files()}, watched))


def plant(mutant: Mutant) -> bool:
    """Plant the mutant in this process; False if what was imported before must be imported again."""
    if mutant.where.runs_in and _plant_in_memory(mutant):
        return True
    for name in [name for name, module in sys.modules.items() if _is_ours(module)]:
        del sys.modules[name]
    sys.meta_path.insert(0, Importer({mutant.module}, lambda source, path: planted(source, mutant.index)))
    return False


def _plant_in_memory(mutant: Mutant) -> bool:
    """Change the code of the loaded function; False if that cannot be done, and the module must be imported anew."""
    path = str(file_of(mutant.module))
    changed = compile(planted(Path(path).read_text(), mutant.index), path, "exec")
    functions = [each for each in gc.get_objects() if type(each) is FunctionType and each.__code__.co_filename == path]
    wanted = [each for each in functions if each.__code__.co_qualname == mutant.where.runs_in]
    new = [code for code in _codes(changed) if code.co_qualname == mutant.where.runs_in]
    if not wanted or len(new) != 1 or any(each.__code__.co_freevars != new[0].co_freevars for each in wanted):
        return False
    for each in wanted:
        each.__code__ = new[0]
    return True


def forget_results() -> None:
    """Empty all caches of functions, so that they are called again."""
    ours = [module for name, module in sys.modules.items() if name.startswith("segcertify")]
    for each in (value for module in ours for value in vars(module).values()):
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()


def _is_ours(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None) or ""
    inside = file.startswith((f"{ROOT}/segcertify/", f"{ROOT}/tests/", f"{ROOT}/experiments/"))
    return inside or module.__name__.partition(".")[0] in ("segcertify", "tests")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)
