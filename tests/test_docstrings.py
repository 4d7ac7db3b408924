"""Public docstrings have Google's form, and their sections fit the signatures.

The checks read the source alone. Exported are the names in an `__all__`, and those that the code
blocks of the documentation import. All other names have a summary, and no sections but Reference.
A method that overrides a documented public method needs only its summary line.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import docs_pages
import pytest

SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Reference):$", re.MULTILINE)
ENTRY = re.compile(r"^    \*{0,2}(\w+):((?:.|\n(?!    \S|\S))*)", re.MULTILINE)
SHAPE = re.compile(r"\[Tensor, '([^']+)'\]")
NO_SHAPE = re.compile(r"[*_]")
"""An axis without a name: the description says in words which shapes are taken."""

AUTHORS = r"[A-Z]\w+(?: et al\.| and [A-Z]\w+)?"
CITATION = re.compile(rf"\b{AUTHORS} (?:19|20)\d\d\b")
PART = r"(?:sections?|appendix|Eq\.|Table|Figure|Algorithm|task|footnote|row)"
PLACE = rf"{PART} [\w.]+(?: and [\w.]+)?"
PAPER = re.compile(rf'{AUTHORS} (19|20)\d\d(, "[^"]+")?(, {PLACE})*( \([^()]+\))?')
"""One paper in a `Reference:` section; a semicolon separates papers."""


@dataclass(frozen=True)
class Documented:
    """A class, function or method and its docstring.

    Attributes:
        path: The module's path in the repository.
        name: The name in its module, such as `Mask.evaluate`.
        node: The definition.
        arguments: The arguments of the function, or of the constructor of a class.
        brief: Whether the summary line is enough.
    """

    path: str
    name: str
    node: ast.FunctionDef | ast.ClassDef
    arguments: tuple[ast.arg, ...]
    brief: bool = False

    @cached_property
    def parts(self) -> list[str]:
        return SECTION.split(inspect.cleandoc(ast.get_docstring(self.node) or ""))

    @cached_property
    def sections(self) -> dict[str, str]:
        return dict(zip(self.parts[1::2], self.parts[2::2], strict=True))

    @property
    def summary(self) -> str:
        return self.parts[0].partition("\n\n")[0].strip()

    def entries(self, section: str) -> dict[str, str]:
        found = ENTRY.finditer(self.sections.get(section, ""))
        return {match[1]: " ".join(match[2].split()) for match in found}


def decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}


def methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not decorators(each) & {
            "overload", "property", "cached_property", "setter"
        }:  # fmt: skip
            yield each


def constructors(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The constructor that the class itself defines, if it does."""
    return [each for each in methods(node) if each.name == "__init__"]


def arguments_of(node: ast.FunctionDef, method: bool) -> tuple[ast.arg, ...]:
    """The arguments that a caller gives, without `self`."""
    given = node.args
    first = int(method and "staticmethod" not in decorators(node))
    found = [*[*given.posonlyargs, *given.args][first:], *given.kwonlyargs]
    return tuple(each for each in (*found, given.vararg, given.kwarg) if each is not None)


def names_of(node: ast.FunctionDef) -> tuple[str, ...]:
    return (node.name, *(each.arg for each in arguments_of(node, method=True)))


def base_names(node: ast.ClassDef) -> set[str]:
    """The names of the direct base classes, without modules and type arguments."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def documented(
    trees: dict[str, ast.Module], exported: set[tuple[str, str]]
) -> Iterator[Documented]:
    """The exported definitions, and their public methods."""
    found = [
        (path, node)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and (path, node.name) in exported
        if not (isinstance(node, ast.FunctionDef) and "overload" in decorators(node))
    ]
    every = [node for tree in trees.values() for node in tree.body]
    classes = {node.name: node for node in every if isinstance(node, ast.ClassDef)}
    promised = {
        names_of(method)
        for node in classes.values()
        if "Protocol" in base_names(node)
        for method in methods(node)
    }

    def inherits(node: ast.ClassDef, name: str) -> bool:
        bases = [classes[base] for base in base_names(node) if base in classes]
        return any(
            inherits(base, name) or name in {method.name for method in methods(base)}
            for base in bases
        )

    for path, node in found:
        if isinstance(node, ast.FunctionDef):
            yield Documented(path, node.name, node, arguments_of(node, method=False))
            continue
        arguments = next((arguments_of(each, method=True) for each in constructors(node)), ())
        yield Documented(path, node.name, node, arguments)
        for method in methods(node):
            if not method.name.startswith("_") or method.name == "__call__":
                arguments = arguments_of(method, method=True)
                implements = "Protocol" not in base_names(node) and names_of(method) in promised
                brief = inherits(node, method.name) or implements
                yield Documented(path, f"{node.name}.{method.name}", method, arguments, brief)


@cache
def sources() -> dict[str, ast.Module]:
    """The modules of the package, by their paths in the repository."""
    paths = (docs_pages.ROOT / "crosshead").rglob("*.py")
    return {
        path.relative_to(docs_pages.ROOT).as_posix(): docs_pages.parsed(path)
        for path in sorted(paths)
    }


@cache
def public_interface() -> list[Documented]:
    """Every exported definition of the package."""
    return list(documented(sources(), docs_pages.exported()))


def raised(node: ast.AST) -> Iterator[str]:
    """The exceptions that a function raises itself, by the names of their classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
            name = ast.unparse(child.exc.func)
            if name[0].isupper():  # a function that makes the exception is in lower case
                yield name
        yield from raised(child)


def summary_faults(entry: Documented) -> Iterator[str]:
    if not entry.summary.endswith("."):
        yield f"no summary that ends with a full stop: {entry.summary!r}"


def argument_faults(entry: Documented) -> Iterator[str]:
    if isinstance(entry.node, ast.ClassDef) and not constructors(entry.node):
        return
    expected = [each.arg for each in entry.arguments]
    found = list(entry.entries("Args"))
    if found != expected and not (entry.brief and not found):
        yield f"arguments {', '.join(expected)}, but Args: {', '.join(found) or 'missing'}"


def shapes_of(annotation: ast.expr | None) -> Iterator[str]:
    """The shapes of the tensors in an annotation, as descriptions write them."""
    for shape in SHAPE.findall(ast.unparse(annotation)) if annotation else ():
        plain = shape.replace("#", "").strip()
        if plain and not NO_SHAPE.search(plain):
            yield plain


def shape_faults(entry: Documented) -> Iterator[str]:
    told = [
        (each.arg, each.annotation, text)
        for each in entry.arguments
        if (text := entry.entries("Args").get(each.arg)) is not None
    ]
    if isinstance(entry.node, ast.FunctionDef) and not entry.brief:
        results = [
            entry.summary,
            entry.sections.get("Returns", ""),
            entry.sections.get("Yields", ""),
        ]
        told.append(("the result", entry.node.returns, " ".join(" ".join(results).split())))
    for what, annotation, text in told:
        for shape in shapes_of(annotation):
            if f'"{shape}"' not in text:
                yield f'{what} is "{shape}", but its description does not say so'


def result_faults(entry: Documented) -> Iterator[str]:
    if isinstance(entry.node, ast.ClassDef) or entry.brief:
        return
    result = "None" if entry.node.returns is None else ast.unparse(entry.node.returns)
    told = entry.summary.startswith(("Return ", "Yield ")) or {"Returns", "Yields"} & set(
        entry.sections
    )
    if result not in {"None", "Never", "NoReturn"} and not told:
        yield f"returns {result}, but has no Returns or Yields"


def error_faults(entry: Documented) -> Iterator[str]:
    if isinstance(entry.node, ast.ClassDef):
        bodies = constructors(entry.node)
    else:
        bodies = [] if entry.brief else [entry.node]
    found = entry.entries("Raises")
    for name in sorted({name for body in bodies for name in raised(body)}):
        if name not in found and name != "NotImplementedError":
            yield f"raises {name}, but Raises has no such entry"


def citation_faults(entry: Documented) -> Iterator[str]:
    reference = " ".join(entry.sections.get("Reference", "").split())
    for paper in reference.removesuffix(".").split("; ") if reference else ():
        if not PAPER.fullmatch(paper):
            yield f"{paper!r} in Reference is not of the form: Author et al. YYYY, section N, Eq. N"
    others = [text for title, text in entry.sections.items() if title != "Reference"]
    for match in CITATION.finditer(" ".join(" ".join([entry.parts[0], *others]).split())):
        yield f"cites {match[0]!r} outside Reference"


RULES: tuple[Callable[[Documented], Iterator[str]], ...] = (
    summary_faults, argument_faults, shape_faults, result_faults, error_faults, citation_faults,
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_public_docstrings_are_complete(rule: Callable[[Documented], Iterator[str]]) -> None:
    faults = [
        f"{entry.path}:{entry.node.lineno} {entry.name}: {fault}"
        for entry in public_interface()
        for fault in rule(entry)
    ]
    assert not faults, "\n".join(faults)


def test_only_exported_names_have_sections_for_arguments_and_results() -> None:
    exported = {id(entry.node) for entry in public_interface()}
    sections = re.compile(r"^ *(Args|Returns|Yields|Raises):$", re.MULTILINE)
    faults = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if id(node) not in exported and sections.search(ast.get_docstring(node) or "")
    ]
    assert not faults, "\n".join(faults)


SAMPLE = """
class Base:
    '''A base.'''

    def __init__(self, size):
        pass

    def one(self, a, b):
        '''Do it.'''

class Derived(Base):
    '''A derived class.

    Args:
        size: The size.
    '''

    def one(self, a, b):
        '''Do it faster.'''

    def _own(self, a, b):
        pass

def scale(x: Float[Tensor, "#B T"], *, by: float) -> Float[Tensor, "B T"]:
    '''Scale numbers as Vaswani et al. 2017, section 3.

    Args:
        x: The numbers.

    Reference:
        the paper
    '''
    if by < 0:
        raise DataError("negative")
    return by * x

def few():
    '''Take no argument'''

def helper(x, y):
    pass
"""


@pytest.fixture
def sample() -> dict[str, Documented]:
    tree = ast.parse(SAMPLE)
    exported = {("sample.py", name) for name in ("Base", "Derived", "scale", "few")}
    return {each.name: each for each in documented({"sample.py": tree}, exported)}


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("Base", ["arguments size, but Args: missing"]),
        ("Base.one", ["arguments a, b, but Args: missing"]),
        ("Derived", []),
        ("Derived.one", []),
        (
            "scale",
            [
                "arguments x, by, but Args: x",
                'x is "B T", but its description does not say so',
                'the result is "B T", but its description does not say so',
                "returns Float[Tensor, 'B T'], but has no Returns or Yields",
                "raises DataError, but Raises has no such entry",
                "'the paper' in Reference is not of the form: Author et al. YYYY, section N, Eq. N",
                "cites 'Vaswani et al. 2017' outside Reference",
            ],
        ),
        ("few", ["no summary that ends with a full stop: 'Take no argument'"]),
    ],
)
def test_faults_are_found(sample: dict[str, Documented], name: str, faults: list[str]) -> None:
    assert [fault for rule in RULES for fault in rule(sample[name])] == faults


def test_private_names_are_not_checked(sample: dict[str, Documented]) -> None:
    assert set(sample) == {"Base", "Base.one", "Derived", "Derived.one", "scale", "few"}


def test_the_public_interface_is_found() -> None:
    names = {f"{each.path.removeprefix('crosshead/')} {each.name}" for each in public_interface()}
    assert {
        "attention/attend.py attend", "attention/masks.py Mask", "training/api.py train",
        "attention/multihead.py MultiHeadAttention", "system/progress.py Silent",
    } <= names  # fmt: skip
