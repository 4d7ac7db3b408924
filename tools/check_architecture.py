"""Check that the tree in ARCHITECTURE.md and the modules of crosshead/ name each other.

The tree is the first ```text block that begins with the line `crosshead/`. Below it, two spaces
deeper for each level, stand lines of a name and a sentence:

    crosshead/
      config.py      the base of every configuration
      attention/     scores, masks, and the one softmax
        attend.py    weights from scores

A folder that lists none of its modules stands for them all; one that lists some must list all.
`__init__.py` and `__main__.py` need no line.
"""

import sys
from pathlib import Path

INDENT = 2
UNLISTED = {"__init__.py", "__main__.py"}


def read_tree(text: str) -> dict[str, str]:
    """Return the sentence of each path in the tree of ARCHITECTURE.md. Folders end with /.

    Raises:
        ValueError: If there is no tree, or the indentation of a line is not a level of the tree.
    """
    _, found, rest = text.partition("```text\ncrosshead/")
    if not found:
        raise ValueError("no ```text block that begins with crosshead/")
    tree: dict[str, str] = {}
    folders = ["crosshead/"]
    for line in rest.partition("```")[0].split("\n")[1:]:
        name, _, sentence = line.strip().partition(" ")
        if not name:
            continue
        depth, odd = divmod(len(line) - len(line.lstrip()), INDENT)
        if odd or not 1 <= depth <= len(folders):
            raise ValueError(f"indented by other than {INDENT} spaces a level: {line!r}")
        path = folders[depth - 1] + name
        tree[path] = sentence.strip()
        folders = [*folders[:depth], path] if name.endswith("/") else folders[:depth]
    return tree


def complaints(tree: dict[str, str], root: Path) -> list[str]:
    """Return the faults of a tree: missing files, unlisted files, names without a sentence."""
    lines = [f"{path} is in the tree and not on disk" for path in tree if not _exists(root, path)]
    lines += [f"{path} has no sentence" for path, sentence in tree.items() if not sentence]
    for module in sorted((root / "crosshead").rglob("*.py")):
        path = module.relative_to(root).as_posix()
        folder = path.removesuffix(module.name)
        stands_for_all = folder in tree and not any(_directly_in(folder, other) for other in tree)
        if path not in tree and module.name not in UNLISTED and not stands_for_all:
            lines.append(f"{path} is on disk and not in the tree")
    return lines


def _exists(root: Path, path: str) -> bool:
    return (root / path).is_dir() if path.endswith("/") else (root / path).is_file()


def _directly_in(folder: str, path: str) -> bool:
    return path.startswith(folder) and path.endswith(".py") and "/" not in path[len(folder) :]


def main(root: Path) -> int:
    """Print what is wrong with ARCHITECTURE.md below `root`; the number of complaints."""
    try:
        tree = read_tree((root / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"ARCHITECTURE.md: {error}")
        return 1
    lines = complaints(tree, root)
    for line in lines:
        print(f"ARCHITECTURE.md: {line}")
    return len(lines)


if __name__ == "__main__":
    sys.exit(min(main(Path(__file__).resolve().parent.parent), 1))
