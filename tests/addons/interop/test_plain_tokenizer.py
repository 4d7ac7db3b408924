"""Programs without crosshead tokenize as crosshead does, from the files beside a model."""

from pathlib import Path
from typing import Any

import pytest

from crosshead.addons.interop.plain_tokenizer import plain_tokenizers, program
from crosshead.addons.interop.verify import source_ids, tagged_sources
from crosshead.vocabulary import UNK
from tests.addons.interop.small_bundles import TEXT, shown, small_bundle

LINES = [*TEXT["source"][:3], "a  dog, naïve", "日本 \ufffd", "<0x41> dog", "x"]
KINDS = ("bpe", "unigram", "words", "characters", "bytes", "sentencepiece")


def plain(bundle, directory: Path):  # type: ignore[no-untyped-def]
    for name, data in bundle.files().items():
        (directory / name).write_bytes(data)
    return plain_tokenizers(bundle, directory)


@pytest.mark.parametrize("tagged", [False, True], ids=["one", "several"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_are_crossheads(kind: str, tagged: bool, tmp_path: Path) -> None:
    tokenizer = {"kind": kind}
    if tagged:
        tokenizer["special"] = [">>deu<<"] if kind == "sentencepiece" else ["<2de>", "<2fr>"]  # type: ignore[assignment]
    languages = tagged and kind != "sentencepiece"
    bundle = small_bundle({}, tokenizer, languages=languages, ends=False)
    read, show = plain(bundle, tmp_path)
    lines = [f">>deu<< {line}" for line in LINES] if tagged and not languages else LINES
    ours = bundle.source_tokenizer
    ids = {piece: n for n, piece in enumerate(ours.pieces(range(ours.vocab_size)))}
    for line, wanted in zip(tagged_sources(bundle, lines), source_ids(bundle, lines), strict=True):
        assert [ids.get(piece, UNK) for piece in read.encode(line)] == wanted, line
        if UNK not in wanted:
            pieces = ours.pieces(wanted)
            assert shown(show.decode(pieces)) == shown(bundle.target_tokenizer.decode(wanted))


def test_each_side_has_its_files(tmp_path: Path) -> None:
    bundle = small_bundle({"tie": "none"}, {"joint": False}, ends=False)
    read, show = plain(bundle, tmp_path)
    text = TEXT["target"][0]
    assert read.encode(text) != show.encode(text)
    assert show.encode(text) == bundle.target_tokenizer.pieces(bundle.target_tokenizer.encode(text))


def test_plain_sentencepiece_reads_escaped_characters_otherwise(tmp_path: Path) -> None:
    """A difference that docs/export.md names."""
    bundle = small_bundle(ends=False)
    read, _ = plain(bundle, tmp_path)
    for line in ("a \u2581 dog", "a\x1adog"):
        own = bundle.source_tokenizer
        assert read.encode(line) != own.pieces(own.encode(line))


@pytest.mark.parametrize("kind", KINDS)
def test_the_program_tokenizes_as_the_verification(kind: str, tmp_path: Path) -> None:
    special = [] if kind == "sentencepiece" else ["<2de>", "<2fr>"]
    bundle = small_bundle({}, {"kind": kind, "special": special}, languages=bool(special))
    read, show = plain(bundle, tmp_path)
    functions, setup, encoded = program(bundle, "a dog")
    names: dict[str, Any] = {"directory": tmp_path, "Path": Path, "Any": Any}
    exec(f"{functions}\n{setup}\npieces = {encoded}", names)
    [line] = tagged_sources(bundle, ["a dog"])
    pieces = names["pieces"]
    assert pieces == read.encode(line)
    assert names["decode"](pieces[-2:]) == show.decode(pieces[-2:])
