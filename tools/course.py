"""Run the notebooks of the course, and turn them into pages of the documentation site.

A notebook is committed without outputs. The site shows what its cells print and draw when the site
is built. Cells with a tag of `FOLDED` are folded there.
"""

import base64
import textwrap
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "course").glob("*.ipynb"))
"""The files of the course, in its order."""

FOLDED = {
    "setup": "Imports, and two functions that the exercises use",
    "solution": "A worked answer, and a wrong one",
}
"""The tags of cells that the site folds, and the lines that unfold them."""


class CoursePage(NamedTuple):
    """A notebook as a page of the site: its Markdown, and its pictures by name."""

    markdown: str
    pictures: dict[str, bytes]


def executed(text: str) -> Any:
    """Return the notebook with this text, with the outputs of its cells; an error is raised."""
    notebook = nbformat.reads(text, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", coalesce_streams=True)
    return client.execute()


@cache
def course_page(name: str, text: str) -> CoursePage:
    """Run the notebook with this text, and return its page; the same text is run once."""
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in executed(text).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        shown = f"```python\n{cell.source}\n```\n\n"
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures)}.png"
                pictures[picture] = base64.b64decode(data["image/png"])
                shown += f"![what this cell draws]({picture})\n\n"
            elif said := output.get("text") or data.get("text/plain"):
                shown += f"```text\n{said.rstrip()}\n```\n\n"
        for tag in FOLDED.keys() & cell.metadata.get("tags", ()):
            shown = f'??? example "{FOLDED[tag]}"\n\n{textwrap.indent(shown, "    ")}'
        parts.append(shown)
    first, *rest = parts
    link = f'<a href="{name}.ipynb" download>Download the notebook</a>: [how to run it](index.md).'
    return CoursePage("\n\n".join([first, link, *rest]), pictures)
