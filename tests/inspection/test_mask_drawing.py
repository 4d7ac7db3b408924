from pathlib import Path

import pytest
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from crosshead.attention.masks import (
    Mask,
    allowed,
    causal,
    dilated,
    documents,
    fixed,
    global_tokens,
    padding_mask,
    prefix,
    strided,
    window,
)
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.inspection import draw_mask

DRAWN: dict[str, tuple[Mask, str]] = {
    "causal": (causal, "■··· ■■·· ■■■· ■■■■"),
    "not causal": (~causal, "·■■ ··■ ···"),
    "padding": (padding_mask(torch.tensor([[True, True, False]])), "■■· ■■·"),
    "any": (allowed(torch.tensor([[True, False, True], [False, True, False]])), "■·■ ·■·"),
    "window": (window(1), "■■··· ■■■·· ·■■■· ··■■■ ···■■"),
    "dilated": (dilated(1, 2), "■·■·· ·■·■· ■·■·■ ·■·■· ··■·■"),
    "prefix": (causal | prefix(2), "■■·· ■■·· ■■■· ■■■■"),
    "prefixes": (causal | prefix(torch.tensor([1, 3])), "■·· ■■· ■■■"),
    "documents": (documents(torch.tensor([[0, 0, 1, 1]])), "■■·· ■■·· ··■■ ··■■"),
    "global": (window(0) | global_tokens([1]), "■■·· ■■■■ ·■■· ·■·■"),
    "strided": (
        causal & strided(3),
        "■······· ■■······ ■■■····· ■■■■···· ·■■■■··· ··■■■■·· ■··■■■■· ·■··■■■■",
    ),
    "fixed": (
        causal & fixed(3, 1),
        "■······· ■■······ ■■■····· ··■■···· ··■■■··· ··■■■■·· ··■··■■· ··■··■■■",
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_mask_is_drawn_as_text(name: str) -> None:
    mask, expected = DRAWN[name]
    rows = expected.split(" ")
    *drawn, legend = draw_mask(mask, len(rows), len(rows[0])).split("\n")
    assert drawn == rows
    assert legend == "■ the query (line) may attend to the key (column)  · it may not"


def test_of_a_mask_of_sentences_the_first_is_drawn() -> None:
    valid = torch.tensor([[True, True, False], [True, False, False]])
    assert draw_mask(padding_mask(valid), 2, 3).startswith("■■·\n■■·\n")


def test_a_matrix_is_drawn_as_the_mask_of_it() -> None:
    table = torch.tensor([[True, False, True], [False, True, False]])
    assert draw_mask(table, 2, 3) == draw_mask(allowed(table), 2, 3)
    for other in (table.T, table.float(), table[0]):
        with pytest.raises(ValueError, match="a matrix of 2 x 3 booleans, found a tensor of"):
            draw_mask(other, 2, 3)


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_a_mask_is_drawn_as_a_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    assert draw_mask(causal, 3, 4, tmp_path / name) == draw_mask(causal, 3, 4)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_the_picture_of_a_mask_says_what_it_shows(tmp_path: Path) -> None:
    with rc_context({"svg.fonttype": "none"}):
        draw_mask(causal, 3, 4, tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for label in ("key position", "query position", "may attend", "may not attend"):
        assert f">{label}<" in picture
    assert ">0.5<" not in picture and ">1<" in picture  # positions are whole numbers


def test_the_picture_of_a_mask_names_pieces(tmp_path: Path) -> None:
    pieces = ["attention", " is", "$cool$"]
    with rc_context({"svg.fonttype": "none"}):
        assert draw_mask(causal, pieces, 3, tmp_path / "a.svg") == draw_mask(causal, 3, 3)
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for label in ("attention", "␣is", "$cool$", "query", "key position"):
        assert f">{label}<" in picture


def test_a_mask_that_cannot_be_drawn_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.jpeg: expected .* \.png, \.svg or \.pdf"):
        draw_mask(causal, 3, 3, tmp_path / "a.jpeg")
    with pytest.raises(DataError, match="a mask of 3 queries and 501 keys is too large to draw"):
        draw_mask(causal, 3, 501, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_a_picture_that_fails_as_it_is_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(figure: Figure) -> None:
        raise MemoryError

    monkeypatch.setattr(Figure, "subplots", failing)
    with pytest.raises(UserError, match=r"^no picture: matplotlib fails"):
        draw_mask(causal, 3, 3, tmp_path / "mask.png")
    assert not (tmp_path / "mask.png").exists()
