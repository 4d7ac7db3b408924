"""Count the lines of code in crosshead/: neither blank, nor comments, nor docstrings.

    python tools/count_code.py            print the lines of each folder
    python tools/count_code.py --check    fail if there are more than CONTRIBUTING.md allows

CONTRIBUTING.md has a table of the numbers allowed, each with the ability that it was raised for.
The last row counts.
"""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = re.compile(r"^\| ([\d,]+) \| .+ \|$", re.MULTILINE)


def code_lines(source: str) -> int:
    """Return the number of lines of code of a module."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            documented.update(range(value.lineno, (value.end_lineno or value.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in documented
    )


def by_folder(root: Path) -> Counter[str]:
    """Return the lines of code of each folder in crosshead/, and of modules beside the folders."""
    found: Counter[str] = Counter()
    package = root / "crosshead"
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).parts
        depth = 2 if inside[0] == "addons" else 1
        folder = "/".join(inside[: min(depth, len(inside) - 1)])
        found[f"{folder}/" if folder else inside[0]] += code_lines(path.read_text("utf-8"))
    return found


def allowed(contributing: str) -> int:
    """Return the number of lines that CONTRIBUTING.md allows.

    Raises:
        ValueError: If it has no row of a number and an ability.
    """
    if not (rows := ALLOWED.findall(contributing)):
        raise ValueError("CONTRIBUTING.md has no row `| lines | ability |`")
    return int(rows[-1].replace(",", ""))


def main(root: Path, check: bool) -> int:
    """Print the lines of each folder, and return 1 if a check finds too many."""
    found = by_folder(root)
    total = sum(found.values())
    most = allowed((root / "CONTRIBUTING.md").read_text("utf-8"))
    if not check:
        for folder, lines in sorted(found.items()):
            print(f"{lines:7,}  {folder}")
        print(f"{total:7,}  of {most:,} allowed")
    elif total > most:
        print(f"{total:,} lines of code, {most:,} are allowed: delete some, or see CONTRIBUTING.md")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(ROOT, "--check" in sys.argv[1:]))
