"""The command line that looks inside, as a new user would run it."""

import sys
from pathlib import Path

import pytest

from crosshead.bundle.io import save_bundle
from tests.cli.tools import BUNDLE, Refused, output_of
from tests.inspection.pipelines import CONFIGS, pipeline_of
from tests.parameters import mostly_slow


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of every architecture, by its name."""
    folder = tmp_path_factory.mktemp("bundles")
    for name in CONFIGS:
        save_bundle(folder / name, pipeline_of(name).bundle, "a card")
    return folder


LARGE = ["transformer", "--target", "be", "--layer", 3, "--head", 4]


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(
        [
            ["transformer", "--target", "be"],
            LARGE,
            ["windows", "--kind", "encoder", "--layer", 2],
            ["convolutional", "--target", "be"],
            ["luong", "--target", "be"],
            ["language"],
            ["transformer-xl", "--layer", 1, "--head", 1],
            ["encoder"],
        ],
        [LARGE, ["convolutional", "--target", "be"]],
    ),
)
def test_a_picture_of_every_architecture(
    arguments: list[object], saved: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, *options = arguments
    out = tmp_path / "a.svg"
    said = output_of(["attention", saved / str(name), "to b", *options, "--out", out], capfd)
    assert str(out) in said and "attention" in said
    assert out.read_bytes().startswith(b"<?xml")
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("name", "magic"),
    mostly_slow(
        [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.SVG", b"<?xml")], [("a.SVG", b"<?xml")]
    ),
)
def test_the_suffix_chooses_the_kind_of_file(
    name: str, magic: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the model's own translation."""
    output_of(["attention", BUNDLE, "Seven eight.", "--out", tmp_path / name], capfd)
    assert (tmp_path / name).read_bytes().startswith(magic)


@pytest.mark.slow
def test_in_a_text_a_line_break_can_be_written(
    saved: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pictures = []
    for text in ("to\\nbe", "to\nbe"):
        output_of(["attention", saved / "language", text, "--out", tmp_path / "a.png"], capfd)
        pictures.append((tmp_path / "a.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_what_cannot_be_is_one_line(saved: Path, tmp_path: Path, refused: Refused) -> None:
    def said(name: str, *arguments: object, text: str = "to be", out: str = "a.png") -> str:
        return refused("attention", saved / name, text, "--out", tmp_path / out, *arguments)

    assert "it has 'decoder' (decoder self-attention)" in said("language", "--kind", "cross")
    assert "it has 'cross' (cross-attention)" in said("luong", "--kind", "encoder")
    assert "this model has no attention" in said("no attention")
    target = ["--target", "be"]
    assert "it has layers 1 to 3" in said("transformer", *target, "--layer", 4)
    assert "it has layers 1 to 3" in said("transformer", *target, "--layer", 0)
    assert "it has heads 1 to 4" in said("transformer", *target, "--layer", 1, "--head", 5)
    assert "does not translate" in said("encoder", *target)
    assert "the text is empty" in said("transformer", text=" ")
    assert ".png, .svg, .pdf or .html" in said("transformer", *target, out="a.gif")
    assert "make the directory" in said("language", out="missing/a.png")
    assert "Missing option '--out'" in refused("attention", BUNDLE, "One.")
    assert "no such directory" in refused("attention", tmp_path / "b", "a", "--out", "a.png")
    assert not list(tmp_path.iterdir())


def test_a_missing_matplotlib_is_one_line(
    saved: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    found = refused("attention", saved / "language", "to be", "--out", tmp_path / "a.png")
    assert "pip install 'crosshead[plot]'" in found
    assert not list(tmp_path.iterdir())


def test_help_has_examples(capfd: pytest.CaptureFixture[str]) -> None:
    said = output_of(["attention", "--help"], capfd)
    assert "crosshead attention runs/en-de 'A dog runs.' --out attention.png" in said


def test_a_page_shows_every_head(
    tmp_path: Path, refused: Refused, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.html"
    output_of(["attention", BUNDLE, "Seven eight.", "--out", out], capfd)
    assert "Content-Security-Policy" in out.read_text("utf-8")
    said = refused("attention", BUNDLE, "One.", "--out", out, "--layer", 1)
    assert "a page shows every head" in said


def test_heads_are_measured_on_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one two\nthree\n")
    target.write_text("eins zwei\ndrei\n")
    files = ["heads", BUNDLE, "--source", source, "--target", target]
    head, *rows = output_of([*files, "--bleu", "--plot", tmp_path / "a.png"], capfd).splitlines()
    assert head.split() == ["kind", "layer", "head", "entropy", "distance", "loss", "bleu"]
    assert {row.split()[0] for row in rows} == {"cross", "encoder", "decoder"}
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len(output_of(files, capfd).splitlines()) == len(rows) + 1
