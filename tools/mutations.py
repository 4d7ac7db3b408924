"""Small changes of a Python file, each of which a test should notice.

A mutation flips a comparison or its strictness, an arithmetic or a logical operator or a truth
value, adds one to a number or takes one off, negates a condition, or drops a statement, a keyword
argument, an end of a slice or the filter of a comprehension. Annotations, messages, decorators and
assertions are left alone.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
OPPOSITES = [
    ("min", "max"),
    ("amin", "amax"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("clamp_min", "clamp_max"),
    ("any", "all"),
    ("floor", "ceil"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("sum", "mean"),
    ("sqrt", "rsqrt"),
    ("sin", "cos"),
    ("tril", "triu"),
]
WHOLE = (
    *(ast.Constant, ast.Call, ast.Slice, ast.Name, ast.Attribute, ast.Subscript),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""Expressions that need no parentheses, wherever they stand."""
NAMES = {a: b for pair in OPPOSITES for a, b in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A file with one change."""

    path: str
    function: str
    line: int
    before: str
    after: str
    occurrence: int
    """Which of the equal changes in its function it is, from 1."""
    source: str
    """The text of the whole file with the change."""

    @property
    def key(self) -> str:
        """The name of the mutant; it does not depend on the lines above it."""
        number = f" ({self.occurrence})" if self.occurrence > 1 else ""
        return f"{self.path}::{self.function or 'module'}: {self.before} -> {self.after}{number}"


@dataclass(frozen=True)
class Site:
    """A place in a file that can be changed, and the texts that may stand there instead."""

    node: ast.expr | ast.stmt | ast.Slice
    function: str
    variants: tuple[str, ...]


def mutants(path: str, source: str) -> list[list[Mutant]]:
    """Return the mutants of a file: for each place that can be changed, its variants."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen: dict[tuple[str, str, str], int] = {}
    found = []
    for site in _sites(ast.parse(source), ""):
        node = site.node
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = " ".join(data[begin:end].decode().split())
        variants = []
        for after in site.variants:
            name = (site.function, before, after)
            seen[name] = seen.get(name, 0) + 1
            changed = (data[:begin] + after.encode() + data[end:]).decode()
            changes = (site.function, node.lineno, before, after, seen[name], changed)
            variants.append(Mutant(path, *changes))
        found.append(variants)
    return found


def _sites(node: ast.AST, function: str) -> Iterator[Site]:
    """Yield the places below a node that can be changed."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    for child in _children(node):
        if isinstance(child, ast.expr | ast.stmt | ast.Slice):
            variants = tuple(_variants(child, node))
            if variants:
                yield Site(child, function, variants)
        yield from _sites(child, function)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node in which changes make sense."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr | ast.Assert):
                continue
            if not isinstance(node, ast.Raise):  # its message is prose
                yield child


def _variants(node: ast.expr | ast.stmt | ast.Slice, parent: ast.AST) -> Iterator[str]:
    """Yield the source of what may stand in place of a node."""
    if isinstance(node, ast.stmt):
        yield from _of_statement(node, isinstance(parent, ast.If))
        return
    for changed in _of_expression(node):
        text = ast.unparse(changed)
        yield text if isinstance(changed, WHOLE) else f"({text})"
    is_name = isinstance(node, ast.Name | ast.Attribute | ast.Call)
    if is_name and isinstance(parent, ast.If) and node is parent.test:
        yield f"not {ast.unparse(node)}"


def _of_statement(node: ast.stmt, conditional: bool) -> Iterator[str]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    is_call = is_call and not ast.unparse(node).startswith("super().")  # nothing works without it
    is_item = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    is_change = isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
    if is_call or is_item or is_change or (conditional and isinstance(node, ast.Return)):
        yield "pass"
    if isinstance(node, ast.AugAssign):
        for operator in OPERATORS.get(type(node.op), ()):
            yield ast.unparse(ast.AugAssign(node.target, operator(), node.value))


def _of_expression(node: ast.expr | ast.Slice) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            for number, comparison in enumerate(node.ops):
                for other in COMPARISONS[type(comparison)]:
                    operators = [*node.ops[:number], other(), *node.ops[number + 1 :]]
                    yield ast.Compare(node.left, operators, node.comparators)
        case ast.BinOp():
            for operator in OPERATORS.get(type(node.op), ()):
                yield ast.BinOp(node.left, operator(), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp():
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Constant():
            yield from _of_constant(node.value)
        case ast.Slice():
            yield from (_without(node, end) for end in ("lower", "upper") if getattr(node, end))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if node.generators[0].ifs:
                changed = copy.deepcopy(node)
                changed.generators[0].ifs = []
                yield changed
        case ast.Call():
            yield from _of_call(node)


def _of_constant(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
        if value > 0:
            yield ast.Constant(value - 1)
    elif isinstance(value, float):
        yield ast.Constant(2 * value if value else 1.0)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if name in NAMES and (name != "sum" or isinstance(node.func, ast.Attribute)):
        changed = copy.deepcopy(node)
        setattr(changed.func, "id" if isinstance(node.func, ast.Name) else "attr", NAMES[name])
        yield changed
    for number, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            others = node.keywords[:number] + node.keywords[number + 1 :]
            yield ast.Call(node.func, node.args, others)


def _without(node: ast.Slice, end: str) -> ast.Slice:
    changed = copy.copy(node)
    setattr(changed, end, None)
    return changed
