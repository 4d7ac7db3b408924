"""Make pages of the documentation site from files outside docs/: Markdown files and modules.

`tools/docs_site.py` hands these pages to MkDocs. This module needs the standard library alone.
"""

import ast
import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "developers/architecture.md",
    "CONTRIBUTING.md": "developers/contributing.md",
    "CHANGELOG.md": "developers/changelog.md",
    "benchmarks/README.md": "developers/benchmarks.md",
}
"""Markdown files outside docs/, and their pages."""

DOCUMENTED = (
    "attention", "layers", "models", "decoding", "text", "data", "recipe", "bundle", "pipelines",
    "evaluation", "inspection", "tasks", "training", "system/progress", "version",
    "addons/series", "addons/vision", "addons/checks",
)  # fmt: skip
"""Packages and modules of the reference, in its order."""

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^][]*)\]\((?P<path>[^)\s:#]+)(?:#(?P<name>[^)\s]*))?\)")

PART = re.compile(r"<(?:script|img|iframe|source|video|audio|link)\b[^>]*>")
"""A tag that may load a part of a page."""

ELSEWHERE = re.compile(r"""\b(?:src|srcset|href)\s*=\s*["']?\s*(?:https?:)?//""")
"""An address on another server."""

NO_PART = re.compile(r"""\brel\s*=\s*["']?(?:canonical|next|prev)\b""")
"""The kind of a link that loads nothing."""


def parts_elsewhere(html: str) -> list[str]:
    """Return the tags that make a browser load a part of a page from another server."""
    tags = (tag for tag in PART.findall(html) if not NO_PART.search(tag))
    return [tag for tag in tags if ELSEWHERE.search(tag)]


def relinked(markdown: str, page: str) -> str:
    """Return the text of `page` with the links of its source file turned into links of the site."""
    source = {uri: path for path, uri in PAGES.items()}.get(page, f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        text, name = match["text"], match["name"]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["path"]))
        if path.startswith("crosshead/") and path.endswith(".py"):
            dotted = _dotted(Path(path))
            return f"[{text}][{dotted}.{name}]" if name else f"[{text}][{dotted}]"
        inside = re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))  # notebooks become pages
        target = PAGES.get(path, inside if path.startswith("docs/") else None)
        if target is None:
            return match[0]
        relative = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"[{text}]({relative}{f'#{name}' if name else ''})"

    pieces, end = [], 0
    for block in FENCED.finditer(markdown):
        pieces += [LINK.sub(link, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*pieces, LINK.sub(link, markdown[end:])])


def modules() -> list[Path]:
    """List the public modules, as files in the repository: a package before its modules."""
    found = [Path("crosshead/__init__.py")]
    for name in DOCUMENTED:
        package = ROOT / "crosshead" / name
        paths = sorted(package.rglob("*.py"), key=lambda path: _dotted(path.relative_to(ROOT)))
        found += [path.relative_to(ROOT) for path in paths or [package.with_suffix(".py")]]
    return [path for path in found if not re.search(r"\b_(?!_init__\.py$)", path.as_posix())]


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which is parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def exported() -> set[tuple[str, str]]:
    """Return the exported names, each with the path of the module that defines it.

    They are those of every `__all__`, and those that code blocks of the documentation import.
    """
    found = set()
    for path in (ROOT / "crosshead").rglob("*.py"):
        if path.parent.name == "cli":  # used from a shell, not from Python
            continue
        tree = parsed(path)
        homes = _assigned(tree, "_HOMES") or {}
        found |= {(f"{home.replace('.', '/')}.py", name) for name, home in homes.items()}
        if names := _all_of(tree):
            found |= {(path.relative_to(ROOT).as_posix(), name) for name in names}
            found |= {each for each in _imports(tree) if each[1] in names}
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in PYTHON.findall(page.read_text(encoding="utf-8")):
            found |= _imports(ast.parse(block))
    return found


def _all_of(tree: ast.Module) -> list[str]:
    """Return the names in `__all__` of a module."""
    return list(_assigned(tree, "__all__") or [])


def _assigned(tree: ast.Module, name: str) -> Any:
    """Return the value that a module assigns to a name, or None."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == name:
                return ast.literal_eval(node.value)
    return None


def _imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Return the names that a module imports, each with the path of the module it comes from."""
    return {
        (f"{(node.module or '').replace('.', '/')}.py", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def reference() -> dict[str, str]:
    """Return the pages of the reference: a page for each module, and for each package a list."""
    pages = {}
    for path in modules():
        dotted = _dotted(path)
        tree = parsed(ROOT / path)
        if path.name != "__init__.py":
            pages[_page(path)] = f"::: {dotted}\n"
            continue
        lines = [f"::: {dotted}", "    options: {members: false, show_root_toc_entry: true}", ""]
        lines += _public_names(tree, dotted)
        lines += _contents(path)
        pages[_page(path)] = "\n".join(lines) + "\n"
    return pages


def _public_names(tree: ast.Module, dotted: str) -> list[str]:
    """List the names in `__all__` of a package, each with a link to where it is documented."""
    names = _all_of(tree)
    origins = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    public = [name for name in names if name in origins]
    if not public:
        return []
    links = (f"- [`{dotted}.{name}`][{origins[name]}]" for name in sorted(public, key=str.lower))
    return ["## Public names", "", *links, ""]


def _contents(package: Path) -> list[str]:
    """List the modules of a package with the first sentences of their docstrings."""
    inside = [path for path in modules() if path != package and _parent(path) == package.parent]
    if not inside:
        return []
    rows = [f"| [`{_dotted(path)}`][{_dotted(path)}] | {_summary(path)} |" for path in inside]
    return ["## Modules", "", "| module | contents |", "|---|---|", *rows, ""]


def _summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring, on one line."""
    docstring = ast.get_docstring(parsed(ROOT / path)) or ""
    return " ".join(docstring.partition("\n\n")[0].split()).replace("|", "\\|")


def _parent(path: Path) -> Path:
    """Return the folder of the documented package that a module or package is in."""
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    inside = len(folder.parts) < 2 or folder.parts[1] in DOCUMENTED
    return folder if inside else Path("crosshead")


def _dotted(path: Path) -> str:
    """Return the name by which a module is imported."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _page(path: Path) -> str:
    """Return the page of a module; a package's is the index of its folder."""
    inside = path.relative_to("crosshead").as_posix().removesuffix(".py")
    return f"reference/{inside.removesuffix('__init__')}{'index' * inside.endswith('__init__')}.md"


def navigation() -> list[Any]:
    """Return the navigation of the reference: packages, and their modules inside."""

    def entries(package: Path) -> list[Any]:
        inside = [path for path in modules() if path != package and _parent(path) == package.parent]
        return [
            {_dotted(path).rpartition(".")[2]: [_page(path), *entries(path)]}
            if path.name == "__init__.py"
            else {path.stem: _page(path)}
            for path in inside
        ]

    return entries(Path("crosshead/__init__.py"))
