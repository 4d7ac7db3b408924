"""`tokenizers` reads `tokenizer.json` as crosshead reads its tokenizer, odd text included."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers import Tokenizer as Fast

from crosshead.addons.interop.tokenizer_json import (
    LINE_BREAK,
    MARK,
    foreign_ids,
    joined_vocabulary,
    tokenizer_files,
    tokenizer_json,
    vocabulary,
)
from crosshead.addons.interop.weights import from_rows, to_rows
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer
from crosshead.text.streams import decode_text, encode_text
from crosshead.text.subwords import SubwordTokenizer
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS
from tests.addons.interop.sentencepieces import learned, marian_vocabulary
from tests.addons.interop.small_bundles import (
    TEXT,
    byte_level_tokenizer,
    imported_tokenizer,
    small_bundle,
)

ODD = [
    "", " ", "   ", " a dog", "a dog ", "a  dog   runs", "\ta\tdog", "a dog\u00a0runs", "a\u3000b",
    "▁", "a▁dog", "▁▁a ▁", "\x1a", "\x1a0", "\x1a1▁\x1a2", "▅", "a▅b", "\x1a\x1a0",
    "\x00", "\x01\x7f", "a\nb", "a\r\nb", "\u2028", "\ufeffdog", "\u200bdog", "\u00ad",
    "Männer sitzen", "Ma\u0308nner", "ＦＵＬＬ width", "ﬁne", "日本語のテキスト", "中文", "שלום",
    "العربية", "😀 dog 👩‍👩‍👧‍👦", "🇩🇪", "\U0010ffff",
    "\ufffd", "e\u0301\u0301", "<0x41>", "<0xE2><0x96><0x81>",
    "<unk", "< /s>", "<2de", "2de>", "aaaaaaaaaa", "a" * 300, "dog" * 60,
    "'\"&<>;", "\\n\\t", "%s{}",
]  # fmt: skip
LINES = [
    "a dog runs over the green grass <>0x41",
    "<0xE2><0x96><0x81> two men",
    *TEXT["source"][:3],
]


def odd_lines(count: int = 300) -> list[str]:
    """Odd lines, and lines of random characters, words and spaces."""
    rng = random.Random(0)
    words = [*" ".join(LINES + TEXT["target"]).split(), *(each for each in ODD if each)]
    made_up = []
    for _ in range(count):
        letter = chr(rng.randrange(1, 0x3000))
        parts = [rng.choice([*rng.choices(words, k=2), " ", " ", letter]) for _ in range(6)]
        made_up.append("".join(parts[: rng.randrange(1, 7)]))
    return ODD + made_up


def fast(tokenizer: SubwordTokenizer | ImportedTokenizer) -> Fast:
    joined = joined_vocabulary(tokenizer, tokenizer)
    return Fast.from_str(tokenizer_json(tokenizer, joined).decode())


def own(kind: str, special: Sequence[str] = ()) -> SubwordTokenizer:
    config = TokenizerConfig(kind=kind, vocab_size=300, special=list(special))
    found = train_tokenizer(config, [*LINES, *TEXT["source"], *TEXT["target"]])
    assert isinstance(found, SubwordTokenizer)
    return found


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("special", [(), ("<2de>", "<2fr>", "<2-x.+>")], ids=["plain", "special"])
def test_the_ids_and_the_texts_are_those_of_the_tokenizer(
    kind: str, special: tuple[str, ...]
) -> None:
    tokenizer = own(kind, special)
    theirs = fast(tokenizer)
    lines = odd_lines()
    lines += [f"{each} {line}" for each, line in zip(special, lines, strict=False)]
    lines += [f"a{each}{each} b" for each in special]
    for line in lines:
        ids = tokenizer.encode(line)
        assert theirs.encode(line).ids == [*ids, 2], line
        assert theirs.decode(ids) == tokenizer.decode(ids) == line


def test_an_imported_tokenizer_keeps_its_own_ids() -> None:
    tokenizer = imported_tokenizer([*TEXT["source"], *TEXT["target"]], (">>deu<<", ">>fra<<"))
    theirs, rows = fast(tokenizer), foreign_ids(tokenizer)
    end = rows[2]
    lines = [line for line in odd_lines() if "▁" not in line]
    for line in [*lines, ">>fra<< a dog", ">>deu<<two men", ">>ita<< a dog"]:
        ids = tokenizer.encode(line)
        assert theirs.encode(line).ids == [*(rows[each] for each in ids), end], repr(line)
    ids = tokenizer.encode("a dog runs")
    assert theirs.decode([rows[each] for each in ids]) == tokenizer.decode(ids) == "a dog runs"  # type: ignore[misc]


def test_an_imported_bpe_model_is_the_same() -> None:
    lines = TEXT["source"] * 4
    model = learned(lines, 45, "bpe")
    pieces = list(marian_vocabulary(model))
    control = (pieces.index("<pad>"), None, 0, 1)
    tokenizer = ImportedTokenizer(model, ForeignVocabulary(tuple(pieces), control))
    theirs, rows = fast(tokenizer), foreign_ids(tokenizer)
    for line in [*lines[:3], " the  dogs ", "xyz dog", "Ä dog"]:
        ids = tokenizer.encode(line)
        assert theirs.encode(line).ids == [*(rows[each] for each in ids), 0], line


def test_a_control_piece_in_a_text_becomes_that_piece() -> None:
    """A difference from crosshead that every tokenizer of Hugging Face has."""
    tokenizer = own("bpe")
    assert fast(tokenizer).encode("</s>").ids == [2, 2]
    assert 2 not in tokenizer.encode("</s>")


LINES_LANGUAGE_TOKENIZER = [*TEXT["source"], *TEXT["target"]]
TEXTS = (
    "a dog runs\nthe dog", "\n", "a\n\nb", "  two  spaces \n and more ", "<0x41>", "<2de> a dog",
    "a<2de>b\n<2de>", "ein Hund, \u2581\u2585\x1a1 日本", "r\tun\r\n",
)  # fmt: skip


@pytest.mark.parametrize("special", [[], ["<2de>", "<2"]], ids=["plain", "special"])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "bytes"])
def test_the_ids_and_the_texts_are_crossheads(kind: str, special: list[str]) -> None:
    size = {"bpe": 310, "unigram": 295}.get(kind)
    settings = TokenizerConfig(kind=kind, vocab_size=size, special=special)
    tokenizer = train_tokenizer(settings, LINES_LANGUAGE_TOKENIZER)
    files = tokenizer_files(tokenizer, 30)
    theirs = Tokenizer.from_str(files["tokenizer.json"].decode())
    assert theirs.get_vocab_size() == tokenizer.vocab_size
    for text in (*TEXTS, *LINES_LANGUAGE_TOKENIZER[:2]):
        ids = encode_text(tokenizer, text).tolist()
        assert theirs.encode(text).ids == [EOS, *ids], text
        # Unlike crosshead, the library leaves out no space if the ids begin in a line.
        shown = theirs.decode([EOS, *ids], skip_special_tokens=False)
        assert shown == LINE_BREAK + decode_text(tokenizer, ids), text


def test_an_imported_file_is_written_as_it_was() -> None:
    tokenizer = byte_level_tokenizer(LINES_LANGUAGE_TOKENIZER)
    files = tokenizer_files(tokenizer, 30)
    assert files["tokenizer.json"] == tokenizer.model
    settings = json.loads(files["tokenizer_config.json"])
    assert settings["eos_token"] == settings["bos_token"] == "<|endoftext|>"
    assert "pad_token" not in settings and settings["model_max_length"] == 30


def test_transformers_loads_the_files(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), LINES_LANGUAGE_TOKENIZER)
    for name, data in tokenizer_files(tokenizer, 30).items():
        (tmp_path / name).write_bytes(data)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded("a dog")["input_ids"] == [EOS, *tokenizer.encode("a dog")]
    assert (loaded.pad_token_id, loaded.unk_token_id, loaded.eos_token_id) == (0, 3, None)


def test_rows_come_back_and_absent_ones_are_filled() -> None:
    ours = torch.arange(10.0).reshape(5, 2)
    rows = [None, 2, 0, None, 1]
    theirs = to_rows(ours, rows)
    assert theirs.tolist() == [ours[2].tolist(), ours[4].tolist(), ours[1].tolist()]
    back = from_rows(theirs, rows, -7.0)
    assert torch.equal(back[[1, 2, 4]], ours[[1, 2, 4]])
    assert back[[0, 3]].eq(-7).all()


def test_exported_ids_are_those_of_the_other_toolkit() -> None:
    own, imported = small_bundle(), small_bundle({}, {"kind": "sentencepiece"})
    assert foreign_ids(own.source_tokenizer)[:4] == [0, 1, 2, 3]
    tokenizer = imported.source_tokenizer
    rows, found = foreign_ids(tokenizer), vocabulary(tokenizer)
    assert rows != sorted(row for row in rows if row is not None)
    assert list(found.values()) == sorted(row for row in rows if row is not None)
    assert found["</s>"] == rows[2]


def test_equal_vocabularies_stay_as_they_are() -> None:
    tokenizer = imported_tokenizer(TEXT["source"])
    joined = joined_vocabulary(tokenizer, tokenizer)
    assert joined.source == joined.target == foreign_ids(tokenizer)
    assert joined.target_rows is None and not any(piece[0] == MARK for piece in joined.pieces)


def test_the_pieces_of_the_target_come_after_those_of_the_source() -> None:
    source, target = own("bpe"), small_bundle({"tie": "none"}, {"joint": False}).target_tokenizer
    joined = joined_vocabulary(source, target)
    assert (
        len(joined.pieces) == len(set(joined.pieces)) == source.vocab_size + target.vocab_size - 4
    )
    assert joined.source == list(range(source.vocab_size))
    assert joined.target[:5] == [0, 1, 2, 3, source.vocab_size]
    assert joined.target_rows is not None
    for index, row in enumerate(joined.target):
        assert row is not None and joined.target_rows[row] == index
    assert not any(joined.target_rows[4 : source.vocab_size])  # the row of padding


def test_one_file_encodes_sources_and_decodes_targets() -> None:
    for kind in ("bpe", "unigram"):
        source, target = own(kind, ("<2de>",)), own("bpe")
        joined = joined_vocabulary(source, target)
        theirs = Fast.from_str(tokenizer_json(source, joined).decode())
        # A mark in a text is a space, which is another piece.
        for line in [*odd_lines(), *(f"{MARK}{MARK}{each}" for each in TEXT["target"][:3])]:
            ids = [joined.source[each] for each in source.encode(line)]
            assert theirs.encode(line).ids == [*ids, 2], line
            shown = theirs.decode([joined.target[each] for each in target.encode(line)])  # type: ignore[misc]
            assert shown == target.decode(target.encode(line)) == line


def test_two_imported_models_may_share_a_vocabulary() -> None:
    """Marian's usual form: a piece that the source's own model lacks is never in a source."""
    models = [learned(TEXT[side] * 2, 45) for side in ("source", "target")]
    both = sorted({piece for each in models for piece in marian_vocabulary(each)})
    control = (both.index("<pad>"), None, both.index("</s>"), both.index("<unk>"))
    shared = ForeignVocabulary(tuple(both), control)
    source, target = (ImportedTokenizer(each, shared) for each in models)
    joined = joined_vocabulary(source, target)
    assert joined.target_rows is None and joined.pieces == tuple(both)
    theirs = Fast.from_str(tokenizer_json(source, joined).decode())
    # A single character that the source's model lacks is found, as in crosshead.
    for line in [*TEXT["source"][:3], TEXT["target"][0]]:
        ids = [joined.source[each] for each in source.encode(line)]
        assert theirs.encode(line).ids == [*ids, control[2]], line
    for line in TEXT["target"][:3]:
        wanted = target.encode(line)
        shown = theirs.decode([joined.target[each] for each in wanted])  # type: ignore[misc]
        assert shown == target.decode(wanted) == line


def test_imported_models_may_have_a_vocabulary_each() -> None:
    models = [learned(TEXT[side] * 2, 45) for side in ("source", "target")]
    sides = []
    for model in models:
        pieces = list(marian_vocabulary(model))
        control = (pieces.index("<pad>"), None, pieces.index("</s>"), pieces.index("<unk>"))
        sides.append(ImportedTokenizer(model, ForeignVocabulary(tuple(pieces), control)))
    source, target = sides
    joined = joined_vocabulary(source, target)
    assert joined.target_rows is not None and joined.target[1] is None
    assert joined.target[0] == joined.source[0] and joined.target[2:4] == joined.source[2:4]
    for index, row in enumerate(foreign_ids(target)):
        exported = joined.target[index]
        assert exported is None or joined.target_rows[exported] == row
    theirs = Fast.from_str(tokenizer_json(source, joined).decode())
    line = TEXT["target"][0]
    assert theirs.decode([joined.target[each] for each in target.encode(line)]) == line  # type: ignore[misc]
