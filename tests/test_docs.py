"""Every code block of the documentation runs.

The ```python blocks of a page run in order in one namespace, its ```sh, ```bash and ```console
blocks with `bash -e -o pipefail`, all in one fresh folder and with this environment's commands
on the path. Of a console block the lines after `$ ` run. A block whose info string has the word
`text` is not run, nor is one under the line `<!-- not run: REASON -->`, which counts as skipped.
`crosshead` is a fork of a process that has imported PyTorch already (`tests/preloaded.py`).
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docs_pages
import pytest

import crosshead
from crosshead.models.attention_kinds import POSITIONS, SCORES
from crosshead.models.registry import CONFIGS, MODELS
from crosshead.recipe.presets import PRESETS
from crosshead.tasks.registry import TASKS
from tests.forks import BLANK
from tests.preloaded import folder_for_path

ROOT = Path(__file__).parent.parent
SHELLS = {"sh", "bash", "console"}
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]*?) -->\n+)?"
    r"^```(?P<info>[^\n`]+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One code block: its language, its text, the line it begins on, why it is not run."""

    language: str
    code: str
    line: int
    reason: str | None


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page that are meant to run, in order."""
    for match in BLOCK.finditer(text):
        language, *words = match["info"].split()
        if language in SHELLS | {"python"} and "text" not in words:
            line = text.count("\n", 0, match.start("code")) + 1
            yield Block(language, match["code"], line, match["reason"])


def pages() -> list[Path]:
    named = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [page for page in named if page.is_file() and any(blocks(page.read_text("utf-8")))]


def name(page: Path) -> str:
    """The page's path in the repository, for the test's name."""
    return page.relative_to(ROOT).as_posix()


def run(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    """Run one block in the current folder; its error tells the page and the line."""
    where = f"{page.name}:{block.line}"
    if block.language == "python":
        # Line numbers in a traceback are then those of the page.
        code = "\n" * (block.line - 1) + block.code
        exec(compile(code, str(page), "exec"), namespace)
        return
    lines = block.code.splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    folders = [folder_for_path(), str(Path(sys.executable).parent), os.environ["PATH"]]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        # The pictures of runs are drawn by other tests, and take as long as these short runs.
        env={**os.environ, "PATH": os.pathsep.join(folders), BLANK: "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{where} exits with {done.returncode}:\n{said}"


@contextlib.contextmanager
def registries_kept() -> Iterator[None]:
    """Forget at the end what the block has registered."""
    tables: list[dict[str, Any]] = [CONFIGS, MODELS, POSITIONS, PRESETS, SCORES, TASKS]
    kept = [dict(table) for table in tables]
    try:
        yield
    finally:
        for table, entries in zip(tables, kept, strict=True):
            table.clear()
            table.update(entries)


@pytest.mark.slow  # `make test-docs` runs them
@pytest.mark.parametrize("page", pages(), ids=name)
def test_code_blocks_run(page: Path, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(tmp_path), registries_kept():
        for block in blocks(page.read_text("utf-8")):
            if block.reason is None:
                run(block, page, namespace)


def test_the_tutorial_keeps_every_row_of_a_sheet(tmp_path: Path) -> None:
    """A cell may contain U+2028, which is no end of a line."""
    page = ROOT / "docs" / "tutorial.md"
    [split] = [each for each in blocks(page.read_text("utf-8")) if "shuffle" in each.code]
    header, rows = "English\tGerman", {f"one\u2028{n}\teins\u2029{n}" for n in range(300)}
    (tmp_path / "checked").mkdir()
    (tmp_path / "checked" / "sheet.tsv").write_text("\n".join([header, *rows, ""]), "utf-8")
    with contextlib.chdir(tmp_path):
        run(split, page, {})
    found = [(tmp_path / name).read_text("utf-8").split("\n") for name in ("test.tsv", "train.tsv")]
    assert [(lines[0], len(lines), lines[-1]) for lines in found] == [
        (header, 202, ""), (header, 102, ""),
    ]  # fmt: skip
    assert {row for lines in found for row in lines[1:-1]} == rows


def test_the_default_preset_is_documented(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen: list[object] = []

    def run_recipe(preset: str | None, *rest: object, **more: object) -> None:
        chosen.append(preset)
        raise KeyError

    monkeypatch.setattr("crosshead.training.api.run_recipe", run_recipe)
    with pytest.raises(KeyError):
        crosshead.train(source=["a"], target=["b"], out=tmp_path / "run")
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    assert re.findall(r"The default is `([\w-]+)`", page) == chosen


def test_blocks_are_found_and_told_apart() -> None:
    page = (
        "```python\nx = 1\n```\n"
        "```text\nno\n```\n"
        "```sh text\nno\n```\n"
        "<!-- not run: needs a GPU -->\n```sh\nmake\n```\n"
        "```\nno\n```\n"
        "```console\n$ ls\nREADME.md\n```\n"
    )
    assert list(blocks(page)) == [
        Block("python", "x = 1\n", 2, None),
        Block("sh", "make\n", 12, "needs a GPU"),
        Block("console", "$ ls\nREADME.md\n", 18, None),
    ]


def test_blocks_share_a_namespace_and_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    page = Path("page.md")
    run(Block("python", "x = 1\n", 1, None), page, namespace)
    run(Block("python", "open('made', 'w').close(); y = x + 1\n", 4, None), page, namespace)
    run(Block("console", "$ test -e made\nnot a command\n", 7, None), page, namespace)
    assert namespace["y"] == 2
    with pytest.raises(AssertionError, match=r"page.md:9 exits with 1"):
        run(Block("sh", "false\ntrue\n", 9, None), page, namespace)
    with pytest.raises(AssertionError, match=r"page.md:12 exits with 1"):
        run(Block("sh", "false | head\n", 12, None), page, namespace)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("index.md", "[a](docs/training.md)", "[a](training.md)"),
        ("index.md", "[a](ARCHITECTURE.md#x-y)", "[a](developers/architecture.md#x-y)"),
        ("developers/contributing.md", "[a](docs/models.md)", "[a](../models.md)"),
        ("developers/benchmarks.md", "[a](../docs/results.md)", "[a](../results.md)"),
        ("results.md", "[a](../benchmarks/README.md)", "[a](developers/benchmarks.md)"),
        ("course/index.md", "[a](0_x.ipynb)", "[a](0_x.md)"),
        ("results.md", "[a](#speed), [b](https://x.org/y.md)", None),
        ("models.md", "![a](studies/sets.png)", None),
        ("models.md", "```text\n[a](../README.md)\n```", None),
        ("models.md", "[`a`](../crosshead/text/batching.py)", "[`a`][crosshead.text.batching]"),
        ("models.md", "[a](../crosshead/attention/__init__.py)", "[a][crosshead.attention]"),
        ("models.md", "[a](../crosshead/x.py#B.c)", "[a][crosshead.x.B.c]"),
    ],
)
def test_links_between_files_become_links_between_pages(
    page: str, link: str, expected: str | None
) -> None:
    assert docs_pages.relinked(link, page) == (expected or link)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tag", "loads"),
    [
        ('<link href="https://cdn.x/a.css" rel="stylesheet">', True),
        ('<script async src="//cdn.x/a.js">', True),
        ("<img alt=a src=http://x/a.png>", True),
        ('<source srcset="https://x/a.png">', True),
        ('<link rel="canonical" href="https://x/">', False),
        ('<a href="https://x/">', False),
        ('<script src="../a.js">', False),
    ],
)
def test_parts_of_other_servers_are_found(tag: str, loads: bool) -> None:
    assert docs_pages.parts_elsewhere(f"<p>{tag}</p>") == [tag] * loads


def test_every_module_of_a_documented_package_has_a_page_in_the_reference() -> None:
    pages = docs_pages.reference()
    for path in (ROOT / "crosshead" / "attention").glob("[!_]*.py"):
        page = f"reference/attention/{path.stem}.md"
        assert pages[page] == f"::: crosshead.attention.{path.stem}\n"
        assert f"[`crosshead.attention.{path.stem}`]" in pages["reference/attention/index.md"]
    assert {"reference/evaluation/index.md", "reference/system/progress.md"} <= pages.keys()
    public = "[`crosshead.bundle.save_bundle`][crosshead.bundle.io.save_bundle]"
    assert public in pages["reference/bundle/index.md"]


def test_architecture_names_modules_and_functions_that_exist() -> None:
    """Modules by their path, and functions in parentheses behind the path of their module."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    found = re.findall(r"`((?:crosshead/)?[\w/]+/\w+\.py)`((?: \((?:`\w+`(?:, )?)+)?)", text)
    assert len(found) > 30
    for path, names in found:
        module = next(
            (file for file in (ROOT / "crosshead" / path, ROOT / path) if file.is_file()), None
        )
        assert module, f"ARCHITECTURE.md names {path}"
        for each in re.findall(r"`(\w+)`", names):
            assert each in module.read_text("utf-8"), f"{path} has no {each}"
