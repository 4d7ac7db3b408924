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
    foreign_ids,
    tokenizer_files,
    tokenizer_json,
    vocabulary,
)
from crosshead.addons.interop.weights import from_rows, to_rows
from crosshead.text.streams import decode_text, encode_text
from crosshead.text.subwords import SubwordTokenizer
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS
from tests.addons.interop.small_bundles import (
    TEXT,
    byte_level_tokenizer,
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


def fast(tokenizer: SubwordTokenizer) -> Fast:
    return Fast.from_str(tokenizer_json(tokenizer).decode())


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
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_ids_and_the_texts_are_crossheads(kind: str, special: list[str]) -> None:
    size = {"bpe": 310, "unigram": 295}[kind]
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

    tokenizer = train_tokenizer(
        TokenizerConfig(kind="bpe", vocab_size=310), LINES_LANGUAGE_TOKENIZER
    )
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
