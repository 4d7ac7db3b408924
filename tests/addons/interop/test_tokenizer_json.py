"""`tokenizers` reads `tokenizer.json` as crosshead reads its tokenizer, odd text included."""

import random
from collections.abc import Sequence

import pytest
from tokenizers import Tokenizer as Fast

from crosshead.addons.interop.joined_vocabulary import joined_vocabulary
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.tokenizer_json import tokenizer_json
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer
from crosshead.text.subwords import SubwordTokenizer
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from tests.addons.interop.sentencepieces import learned, marian_vocabulary
from tests.addons.interop.small_bundles import TEXT, imported_tokenizer

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
