"""Hold the tree in ARCHITECTURE.md to the modules of crosshead/.

    python tools/check_architecture.py            fail if the tree is not that of the modules
    python tools/check_architecture.py --write    write it anew

The tree is the ```text block that begins with the line `crosshead/`. It has a line for each folder
and module: its name, and the first sentence of its docstring.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

BLOCK = re.compile(r"(?<=```text\n)crosshead/\n.*?(?=```)", re.DOTALL)
COLUMN = 25
"""The column of the sentences."""


def sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.exists() else None
    first = " ".join((text or "").partition("\n\n")[0].split())
    return re.split(r"\. (?=[A-Z`])|\.$", first)[0]


def tree(folder: Path, depth: int = 1) -> Iterator[str]:
    """Yield the lines of a folder: its modules, then its folders."""
    inside = sorted(folder.iterdir())
    modules = [each for each in inside if each.suffix == ".py" and not each.stem.startswith("__")]
    for path in modules + [each for each in inside if (each / "__init__.py").exists()]:
        name = f"{'  ' * depth}{path.name}{'/' * path.is_dir()}"
        about = sentence(path / "__init__.py" if path.is_dir() else path)
        yield f"{name:{COLUMN}} {about}\n"
        if path.is_dir():
            yield from tree(path, depth + 1)


def main(root: Path, write: bool) -> int:
    """Compare the tree of ARCHITECTURE.md with the modules, or write it; return the exit code."""
    page = root / "ARCHITECTURE.md"
    text = page.read_text("utf-8")
    new, found = BLOCK.subn(lambda old: "".join(["crosshead/\n", *tree(root / "crosshead")]), text)
    if not found:
        print("ARCHITECTURE.md: no ```text block that begins with crosshead/")
        return 1
    if write:
        page.write_text(new, "utf-8")
    elif new != text:
        print("ARCHITECTURE.md: the tree is not that of crosshead/; tools/check_architecture.py")
        print("writes it anew with --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, "--write" in sys.argv[1:]))
