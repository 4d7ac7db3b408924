"""The notebooks of the course: they run, their checkers work, and they hold no outputs."""

import json
import re
from pathlib import Path
from typing import Any

import course
import pytest

DRAWN = "%matplotlib inline\nfrom matplotlib import pyplot\npyplot.plot([1]);"

SECTIONS = 42
"""The claims of the course, one a section."""


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    """The cells of a kind."""
    found = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def name(path: Path) -> str:
    return path.stem


@pytest.mark.slow  # `make test-docs` runs them
@pytest.mark.parametrize("path", course.NOTEBOOKS, ids=name)
def test_a_notebook_runs_and_becomes_a_page(path: Path) -> None:
    """Each worked answer is right and each wrong one is refused: the notebooks assert it."""
    page = course.course_page(path.stem, path.read_text("utf-8"))
    solutions = [
        cell for cell in cells(path, "code") if "solution" in cell["metadata"].get("tags", ())
    ]
    assert page.markdown.count("\n    right\n    wrong: ") == len(solutions)
    assert all(f"]({picture})" in page.markdown for picture in page.pictures)


@pytest.mark.parametrize("path", course.NOTEBOOKS, ids=name)
def test_a_notebook_holds_no_outputs(path: Path) -> None:
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None, (
            f"{path.name} holds outputs; jupyter nbconvert --clear-output --inplace {path}"
        )


def test_each_section_has_a_formula_and_an_exercise_with_a_checker() -> None:
    sections = 0
    for path in course.NOTEBOOKS:
        text = "\n".join(source(cell) for cell in cells(path, "markdown"))
        each = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        solutions = [
            cell
            for cell in cells(path, "code")
            if source(cell).startswith("prove(") or "\nprove(" in source(cell)
        ]
        assert len(solutions) == len(each)
        assert all("$" in section and "**Exercise.**" in section for section in each), path.name
        sections += len(each)
    assert sections == SECTIONS


def test_a_page_has_outputs_pictures_and_folded_answers() -> None:
    code = [
        {"source": "print('a')\nprint('b')", "metadata": {}},
        {"source": DRAWN, "metadata": {}},
        {"source": "1 + 1", "metadata": {"tags": ["solution"]}},
    ]  # fmt: skip
    text = json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [
                {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# T\n[n](x.ipynb)"},
                *(
                    {
                        "cell_type": "code",
                        "id": f"b{n}",
                        "execution_count": None,
                        "outputs": [],
                        **cell,
                    }
                    for n, cell in enumerate(code)
                ),
            ],
        }
    )
    page = course.course_page("t", text)
    assert page.markdown.startswith('# T\n[n](x.ipynb)\n\n<a href="t.ipynb" download>')
    assert "```text\na\nb\n```" in page.markdown
    assert list(page.pictures) == ["t-0.png"] and page.pictures["t-0.png"].startswith(b"\x89PNG")
    assert '??? example "' in page.markdown
    assert "\n    ```python\n    1 + 1\n    ```\n\n    ```text\n    2\n    ```\n" in page.markdown
