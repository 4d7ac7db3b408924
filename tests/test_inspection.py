import html
import re
import sys
from pathlib import Path

import pytest
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from crosshead.attention.attend import sdpa
from crosshead.attention.masks import (
    Mask,
    allowed,
    causal,
    dilated,
    documents,
    fixed,
    global_tokens,
    prefix,
    present,
    strided,
    window,
)
from crosshead.attention.multihead import MultiHeadAttention
from crosshead.bundle import build_model
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.inspection import (
    CrossAttention,
    cross_attention,
    draw_mask,
    plot_cross_attention,
    record_attention,
)
from crosshead.models.transformer import TransformerConfig
from crosshead.pipelines import Translator, load
from crosshead.writer import Writer

STORED = Path(__file__).parent / "fixtures" / "bundle-format-1"
SHAPE = TransformerConfig(encoder_layers=2, decoder_layers=3, d_model=8, d_ff=8, heads=2)
SOURCE = torch.tensor([[5, 6, 7, 2], [5, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6], [1, 5, 6]])


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(STORED, "cpu")


def attentions(model: torch.nn.Module) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def test_every_attention_is_recorded_by_name() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    with record_attention(model) as recorded:
        model(SOURCE, TARGET)
    assert recorded.keys() == {
        *(f"encoder.layers.{n}.attention" for n in range(2)),
        *(f"decoder.layers.{n}.self_attention" for n in range(3)),
        *(f"decoder.layers.{n}.cross_attention" for n in range(3)),
    }
    [weights] = recorded["decoder.layers.2.cross_attention"]
    assert weights.shape == (2, 2, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert torch.all(weights[1, :, :, 2:] == 0)  # padding
    [written] = recorded["decoder.layers.0.self_attention"]
    assert torch.all(written.triu(1) == 0)


def test_recording_changes_no_output_and_is_undone() -> None:
    model = build_model(SHAPE, 10, 10).eval()
    seen: list[torch.Tensor] = []
    for module in attentions(model):
        module.backend = sdpa
    before = model(SOURCE, TARGET)
    attentions(model)[0].backend = attentions(build_model(SHAPE, 10, 10))[0].backend
    attentions(model)[0].observe = seen.append

    def interrupted() -> None:
        with record_attention(model) as recorded:
            torch.testing.assert_close(model(SOURCE, TARGET), before)
            assert all(len(calls) == 1 for calls in recorded.values())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not seen
    model(SOURCE, TARGET)
    assert len(seen) == 1
    assert all(
        module.backend is sdpa and module.observe is None for module in attentions(model)[1:]
    )


def test_cross_attention_has_a_row_for_each_target_piece(translator: Translator) -> None:
    found = cross_attention(translator, "One two.", "Eins zwei drei.")
    assert found.source[-1] == found.target[-1] == "</s>"
    assert found.weights.shape == (1, 2, len(found.target), len(found.source))
    torch.testing.assert_close(found.weights.sum(-1), torch.ones(found.weights.shape[:-1]))


def test_without_a_target_it_is_that_of_the_translation(translator: Translator) -> None:
    found = cross_attention(translator, "Seven eight.")
    given = cross_attention(translator, "Seven eight.", "Sieben acht.")
    assert found.target == given.target
    torch.testing.assert_close(found.weights, given.weights)


def test_cross_attention_refuses_what_is_too_long(translator: Translator) -> None:
    with pytest.raises(DataError, match="pair 1: its source has 10,001 tokens"):
        cross_attention(translator, "One. " * 2500, "Eins.")


def test_cross_attention_refuses_a_model_without_a_source(translator: Translator) -> None:
    writer = Writer(translator.bundle)
    with pytest.raises(UserError, match=r"goes on with text: .*no source .*`record_attention`"):
        cross_attention(writer, "a")


def test_cross_attention_sees_no_white_space_around_lines(translator: Translator) -> None:
    bare = cross_attention(translator, "Seven eight.", "Sieben acht.")
    spaced = cross_attention(translator, " Seven eight.\t", "\u3000Sieben acht.\n")
    assert (spaced.source, spaced.target) == (bare.source, bare.target)
    torch.testing.assert_close(spaced.weights, bare.weights)


def test_cross_attention_is_that_of_decoding_step_by_step(translator: Translator) -> None:
    found = cross_attention(translator, "Ten nine.", "Zehn neun.")
    bundle = translator.bundle
    source = torch.tensor([[*bundle.source_tokenizer.encode("Ten nine."), 2]])
    target = [1, *bundle.target_tokenizer.encode("Zehn neun.")]
    with torch.inference_mode(), record_attention(bundle.model) as recorded:
        state = bundle.model.start(source)
        for token in target:
            _, state = bundle.model.step(state, torch.tensor([[token]]))
    steps = torch.cat(recorded["decoder.layers.0.cross_attention"], dim=2)
    torch.testing.assert_close(steps[0], found.weights[0])


PICTURE = CrossAttention(
    source=["▁$a$", "漢", "😀", "<0x0A>", "_^\\", "</s>"],
    target=["▁x", "</s>"],
    weights=torch.full((2, 2, 2, 6), 1 / 6),
)


@pytest.mark.parametrize(
    ("name", "magic"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_a_picture_of_any_pieces_is_drawn(tmp_path: Path, name: str, magic: bytes) -> None:
    plot_cross_attention(str(tmp_path / name), PICTURE, layer=0)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_a_space_is_to_be_seen(tmp_path: Path) -> None:
    pieces = CrossAttention(["a", " ", "b"], [" of ", "</s>"], torch.full((1, 1, 2, 3), 1 / 3))
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        plot_cross_attention(tmp_path / "a.svg", pieces)
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">␣<" in picture and ">␣of␣<" in picture
    font = get_font(findfont(FontProperties()))
    assert font.get_char_index(ord("␣"))  # it is no box


@pytest.mark.parametrize(
    ("pieces", "labels"),
    [
        (["<0xE6>", "<0x97>", "<0xA5>"], ["<0xE6>", "<0x97>", "日"]),
        (["<0x24>", "<0x0A>", "<0x20>"], ["$", "<0x0A>", "␣"]),
        (["a", "<0xC3>", "<0xA9>", "b"], ["a", "<0xC3>", "é", "b"]),
        (["<0xC3>", "a", "<0xA9>", "<0xA5>"], ["<0xC3>", "a", "<0xA9>", "<0xA5>"]),
        (["<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x24>"],
         ["<0xF0>", "<0x9F>", "<0x98>", "😀", "$"]),
    ],
)  # fmt: skip
def test_bytes_are_to_be_read_as_characters(
    tmp_path: Path, pieces: list[str], labels: list[str]
) -> None:
    weights = torch.full((1, 1, 1, len(pieces)), 1 / len(pieces))
    with rc_context({"svg.fonttype": "none"}):
        plot_cross_attention(tmp_path / "a.svg", CrossAttention(pieces, ["</s>"], weights))
    picture = html.unescape((tmp_path / "a.svg").read_text(encoding="utf-8"))
    drawn = re.findall(r"<text [^>]*>(.*?)</text>", picture)
    assert drawn[: len(labels)] == labels


def test_a_picture_that_cannot_be_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="layer 2: the decoder has layers 0 to 1"):
        plot_cross_attention(tmp_path / "a.png", PICTURE, layer=2)
    long = CrossAttention(["a"] * 501, ["b"], torch.full((1, 1, 1, 501), 1 / 501))
    with pytest.raises(DataError, match="1 target and 501 source pieces are too many to draw"):
        plot_cross_attention(tmp_path / "a.png", long)
    with pytest.raises(ConfigError, match=r"a\.jpeg: expected .* \.png, \.svg or \.pdf"):
        plot_cross_attention(tmp_path / "a.jpeg", PICTURE)
    with pytest.raises(UserError, match=r"missing/a\.png: cannot be written"):
        plot_cross_attention(tmp_path / "missing" / "a.png", PICTURE)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[plot\]'"):
        plot_cross_attention(tmp_path / "a.png", PICTURE)
    assert not list(tmp_path.iterdir())


DRAWN: dict[str, tuple[Mask, str]] = {
    "causal": (causal, "■··· ■■·· ■■■· ■■■■"),
    "not causal": (~causal, "·■■ ··■ ···"),
    "present": (present(torch.tensor([[True, True, False]])), "■■· ■■·"),
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
    assert draw_mask(present(valid), 2, 3).startswith("■■·\n■■·\n")


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
