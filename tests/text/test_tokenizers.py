import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.config import validate
from crosshead.errors import ConfigError, DamagedBundle, DataError
from crosshead.text.subwords import BpeTokenizer
from crosshead.text.tokenizers import (
    BOS,
    EOS,
    PAD,
    TOKENIZER_FILES,
    UNK,
    Tokenizer,
    TokenizerConfig,
    VocabularyError,
    load_tokenizer,
    load_tokenizers,
    save_tokenizers,
    token_ids,
    train_model,
    train_tokenizer,
)
from tests.text.test_subwords import LINES as PERMUTED

LINES = [
    "A man in a blue shirt is standing on a ladder.",
    "Two young, White males are outside near many bushes.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter.\tund\rweiter",
] * 5
KINDS = ["bpe", "unigram", "words", "characters", "bytes"]
SIZES = {"bpe": 380, "unigram": 330}
TRICKY = [
    "",
    " ",
    "  two  spaces  ",
    "\ttab\t",
    "½ €5 № ﬁ",
    "\u2581 and \u2581\u2581 \u2585 \x1a0 \x1a1 \x1a",
    "👩\u200d👩\u200d👧 🏴 e\u0301 \u0301",
    "\0 NUL \x0b\x0c \u2028 \u0085 \ufeff",
    "a\rb\nc",
    "<s> </s> <unk> <pad> <0x0A> <0xE2><0x96><0x81> <2de>@@URL@@",
    "\U0010ffff\ufffe",
]


def make(kind: str, **more: object) -> Tokenizer:
    values = {"kind": kind, "vocab_size": SIZES.get(kind, 1000), **more}
    return train_tokenizer(validate(TokenizerConfig, values), LINES)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return make(request.param, special=["<2de>", "@@URL@@"])


@pytest.fixture(scope="module", params=["bpe", "unigram", "bytes"])
def lossless(request: pytest.FixtureRequest) -> Tokenizer:
    return make(request.param, special=["<2de>", "@@URL@@"])


def test_the_first_ids_and_the_size(tokenizer: Tokenizer) -> None:
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert tokenizer.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
    last = tokenizer.vocab_size - 1
    assert len(tokenizer.pieces([last])) == 1
    with pytest.raises(IndexError):
        tokenizer.pieces([last + 1])


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_text_comes_back(lossless: Tokenizer, text: str) -> None:
    ids = lossless.encode(text)
    assert lossless.decode(ids) == text
    assert UNK not in ids
    assert not {PAD, BOS, EOS} & set(ids)


@given(text=st.text())
def test_any_text_comes_back(lossless: Tokenizer, text: str) -> None:
    assert lossless.decode(lossless.encode(text)) == text


@given(text=st.text(st.sampled_from(" \t▁▅\x1a012<>seu2d@URL½\0\u2028\r\n\ud7ff💡ä")))
def test_text_of_what_is_special_comes_back(lossless: Tokenizer, text: str) -> None:
    assert lossless.decode(lossless.encode(text)) == text


@given(words=st.lists(st.sampled_from([*" ".join(LINES).split(" "), "", "<2de>"])))
def test_text_of_known_words_comes_back(tokenizer: Tokenizer, words: list[str]) -> None:
    text = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_unknown_is_written_unk() -> None:
    words, characters = make("words"), make("characters")
    assert words.encode("A zebra is standing")[1] == UNK
    assert words.decode(words.encode("A zebra is standing")) == "A <unk> is standing"
    assert characters.decode(characters.encode("A q€")) == "A <unk><unk>"


@given(text=st.text(st.sampled_from("A dog<2e>q€ "), max_size=30))
def test_what_is_unknown_is_what_has_no_id(tokenizer: Tokenizer, text: str) -> None:
    unknown, ids = tokenizer.unknown(text), tokenizer.encode(text)
    assert [UNK] * len(unknown) == [index for index in ids if index == UNK]
    for symbol in unknown:
        assert symbol in text and tokenizer.encode(symbol) == [UNK]


def test_padding_begin_and_end_are_not_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(LINES[0])
    assert tokenizer.decode([BOS, *ids[:3], PAD, *ids[3:], EOS, PAD]) == LINES[0]


def test_many_lines_are_as_one_at_a_time(tokenizer: Tokenizer) -> None:
    lines = [*LINES, "", "unknown wörds  ▁"]
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]
    assert tokenizer.encode_lines([]) == []


def test_special_pieces_are_never_split(tokenizer: Tokenizer) -> None:
    special = ["<2de>", "@@URL@@"]
    pieces = tokenizer.pieces(tokenizer.encode("<2de> A @@URL@@ <2de>"))
    assert [piece for piece in pieces if piece in special] == [*special, "<2de>"]


def test_line_breaks_are_the_ids_that_spell_one(tokenizer: Tokenizer) -> None:
    spell_one = {
        index
        for index in range(tokenizer.vocab_size)
        if set(tokenizer.decode([index])) & {"\n", "\r"}
    }
    assert tokenizer.line_breaks == spell_one
    assert set(tokenizer.encode("und\rweiter")) & tokenizer.line_breaks or tokenizer.kind == "words"


def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "source")
    again = load_tokenizer(tmp_path, "source")
    everything = list(range(tokenizer.vocab_size))
    assert again.pieces(everything) == tokenizer.pieces(everything)
    assert again.encode_lines(TRICKY) == tokenizer.encode_lines(TRICKY)
    assert (again.kind, again.vocab_size, again.line_breaks) == (
        tokenizer.kind,
        tokenizer.vocab_size,
        tokenizer.line_breaks,
    )
    again.save(tmp_path, "again")
    for path in tmp_path.glob("source.*"):
        assert path.with_stem("again").read_bytes() == path.read_bytes()


def test_the_same_lines_train_the_same_files(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "one")
    make(tokenizer.kind, special=["<2de>", "@@URL@@"]).save(tmp_path, "two")
    written = list(tmp_path.glob("one.*"))
    assert written
    for path in written:
        assert path.with_stem("two").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_the_size_is_an_upper_bound_and_the_most_frequent_are_kept(kind: str) -> None:
    tokenizer = make(kind, vocab_size=10)
    assert tokenizer.vocab_size == 10
    assert make(kind).vocab_size < 1000
    lines = ["b b b a a a c c d"] * 2
    few = train_tokenizer(TokenizerConfig(kind=kind, vocab_size=7), lines)
    kept = few.pieces(range(4, 7))
    assert kept == (["", "a", "b"] if kind == "words" else [" ", "a", "b"])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_no_text_to_learn_from(kind: str) -> None:
    with pytest.raises(DataError, match="no text to learn a tokenizer from"):
        train_tokenizer(TokenizerConfig(kind=kind), [])


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_too_small_a_vocabulary_names_the_smallest(kind: str) -> None:
    with pytest.raises(ConfigError, match=r"vocab_size=4 is too small; the smallest that fits is"):
        make(kind, vocab_size=4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"special": [""]}, "special: '' is empty"),
        ({"special": ["a b"]}, "white space"),
        ({"special": ["a\u2581"]}, "which are reserved"),
        ({"special": ["<s>"]}, "every tokenizer has"),
        ({"special": ["<0x0A>"]}, "every tokenizer has"),
        ({"special": ["x", "x"]}, "given twice"),
        ({"special": ["\ud800"]}, "without control characters"),
        ({"sampling": 1.0}, "sampling"),
        ({"sampling": float("nan")}, "sampling"),
        ({"sampling": 0.1, "kind": "unigram"}, "sampling needs kind = 'bpe'"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"kind": "bqe"}, "kind"),
    ],
)
def test_wrong_configurations(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        validate(TokenizerConfig, values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes"])
def test_a_lone_surrogate_is_refused(kind: str) -> None:
    with pytest.raises(DataError, match=r"character 3 .* U\+D83D, a lone surrogate"):
        make(kind).encode("ab\ud83d")


def test_without_sampling_a_generator_changes_nothing(tokenizer: Tokenizer) -> None:
    rng = np.random.default_rng(0)
    assert tokenizer.encode(LINES[0], rng) == tokenizer.encode(LINES[0])


def test_bundles_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(DamagedBundle, match=r"nothing\.json: missing; the bundle is damaged: take"):
        load_tokenizer(tmp_path, "nothing")

    make("bpe").save(tmp_path, "tokenizer")
    model, metadata = tmp_path / "tokenizer.model", tmp_path / "tokenizer.json"
    whole, text = model.read_bytes(), metadata.read_text()
    model.write_bytes(whole[:-1000])
    with pytest.raises(DamagedBundle, match=r"tokenizer\.model: its SHA-256 is not"):
        load_tokenizer(tmp_path, "tokenizer")
    model.unlink()
    with pytest.raises(DamagedBundle, match=r"tokenizer\.model: missing"):
        load_tokenizer(tmp_path, "tokenizer")
    model.write_bytes(whole)

    for damaged, found in (
        (text[:20], r"not valid JSON \(line 3, column \d+\)"),
        ("\0", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["bpe"]', "expected a JSON object, found list"),
        ('{"kind": "bqe"}', "expected a kind of tokenizer .*, found 'bqe'"),
        ('{"kind": ["bpe"]}', "expected a kind of tokenizer"),
    ):
        metadata.write_text(damaged)
        with pytest.raises(DamagedBundle, match=rf"tokenizer\.json: {found}"):
            load_tokenizer(tmp_path, "tokenizer")
    for key in ("special", "sampling"):
        metadata.write_text(json.dumps({**json.loads(text), key: [1]}))
        with pytest.raises(DamagedBundle, match=rf"tokenizer\.json: '{key}' is not a"):
            load_tokenizer(tmp_path, "tokenizer")
    metadata.write_text(json.dumps({**json.loads(text), "special": ["absent"]}))
    with pytest.raises(DamagedBundle, match=r"tokenizer\.json: 'absent'"):
        load_tokenizer(tmp_path, "tokenizer")
    model.write_bytes(b"no model")
    digest = hashlib.sha256(b"no model").hexdigest()
    metadata.write_text(json.dumps({**json.loads(text), "model_sha256": digest}))
    with pytest.raises(DamagedBundle, match=r"tokenizer\.model: no SentencePiece model"):
        load_tokenizer(tmp_path, "tokenizer")


def test_configurations_and_text_need_no_torch() -> None:
    code = "import sys, crosshead.text.parallel.filters; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_white_space_around_a_line_is_not_part_of_it(tokenizer: Tokenizer) -> None:
    spaced = [f" \t{LINES[0]}\u3000", f"{LINES[1]}\r\n", " ", ""]
    assert token_ids(tokenizer, spaced) == tokenizer.encode_lines([*LINES[:2], "", ""])


@pytest.mark.parametrize("joint", [True, False])
def test_the_tokenizers_of_both_sides_come_back(joint: bool, tmp_path: Path) -> None:
    source = make("bpe")
    target = source if joint else make("bytes")
    save_tokenizers(tmp_path, source, target, joint=joint)
    assert {path.name for path in tmp_path.iterdir()} <= set(TOKENIZER_FILES)
    found = load_tokenizers(tmp_path, joint=joint)
    assert [each.kind for each in found] == ["bpe", "bpe" if joint else "bytes"]
    assert (found[0] is found[1]) == joint
    with pytest.raises(DamagedBundle, match="missing"):
        load_tokenizers(tmp_path, joint=not joint)


# Gaps

LINE = "to be, or not to be:  that is the question of questions"


@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_any_symbol_may_be_missing(kind: str) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind), [LINE])
    whole = tokenizer.encode(LINE)
    for at in range(len(LINE)):
        ids = tokenizer.encode_gaps([LINE[:at], LINE[at + 1 :]], gap=1)
        assert ids == [*whole[:at], 1, *whole[at + 1 :]]
        assert tokenizer.fill_gaps([LINE[:at], LINE[at + 1 :]], [whole[at]]) == LINE
    assert tokenizer.encode_gaps(["", "", ""], gap=1) == [1, 1]


def test_bytes_next_to_each_other_spell_one_character() -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="bytes"), [LINE])
    assert tokenizer.fill_gaps(["a", "", "", "\xe9"], tokenizer.encode("\u2603")) == "a\u2603\xe9"
    [first, *_] = tokenizer.encode("\u2603")
    assert tokenizer.fill_gaps(["a", "\xe9"], [first]) == "a\ufffd\xe9"


def test_any_word_may_be_missing() -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="words"), [LINE])
    words, whole = LINE.split(" "), tokenizer.encode(LINE)
    for at in range(len(words)):
        before = " ".join([*words[:at], ""]) if at else ""
        behind = " ".join(["", *words[at + 1 :]]) if at < len(words) - 1 else ""
        ids = tokenizer.encode_gaps([before, behind], gap=1)
        assert ids == [*whole[:at], 1, *whole[at + 1 :]]
        assert tokenizer.fill_gaps([before, behind], [whole[at]]) == LINE
    assert tokenizer.encode_gaps(["to ", " ", ""], gap=1) == [whole[0], 1, 1]
    assert tokenizer.encode_gaps(["to", "be"], gap=1) == [whole[0], 1, *tokenizer.encode("be")]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_any_piece_may_be_missing_with_the_space_before_it(kind: str) -> None:
    """A gap that is filled with what was there is the line again, however it is cut."""
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind, vocab_size=280), [LINE] * 3)
    whole = tokenizer.encode(LINE)
    for at, index in enumerate(whole):
        before, with_it = (tokenizer.decode(whole[:end]) for end in (at, at + 1))
        if before.endswith(" ") and with_it[-1] != " ":
            continue  # a space before a gap belongs to it, as most pieces begin with theirs
        behind = LINE[len(with_it) :]
        spaced = before + " " * (at > 0 and with_it[len(before)] == " ")
        ids = tokenizer.encode_gaps([spaced, behind], gap=1)
        assert ids.count(1) == 1
        assert tokenizer.decode([index if found == 1 else found for found in ids]) == LINE
        assert tokenizer.fill_gaps([spaced, behind], [index]) == LINE
    alone = tokenizer.encode_gaps(["", " be", "s"], gap=1)
    assert alone[0] == 1 and tokenizer.pieces(alone[-1:]) == ["s"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_space_before_a_gap_is_there_where_the_piece_has_one(kind: str) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind, vocab_size=280), [LINE] * 3)
    [with_one, without] = (
        [*map(tokenizer.pieces, [[i] for i in range(280)])].index([piece])
        for piece in ("\u2581", "e")
    )
    for parts, filled in (
        (["a ", "b"], ["a b", "aeb"]),
        (["a", "b"], ["a b", "aeb"]),
        (["a  ", " b"], ["a   b", "a e b"]),
        (["", " b"], [" b", "e b"]),  # at the beginning of a line a piece's space is not shown
        ([" ", "b"], [" b", "eb"]),
    ):
        found = [tokenizer.fill_gaps(parts, [index]) for index in (with_one, without)]
        assert found == filled
    assert tokenizer.fill_gaps(["", " ", "", " "], [without, with_one, with_one]) == "e   "


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_large_names_the_largest_which_then_fits(kind: str) -> None:
    with pytest.raises(VocabularyError, match="vocab_size=50000 is larger than the data") as caught:
        train_model(kind, PERMUTED, 50_000, [])
    largest = caught.value.fits
    train_model(kind, PERMUTED, largest, [])
    for size in (largest + 1, 2**31, 10**30):
        with pytest.raises(VocabularyError, match=f"--set tokenizer.vocab_size={largest}$"):
            train_model(kind, PERMUTED, size, [])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_vocabulary_too_small_names_the_smallest_which_then_fits(kind: str) -> None:
    with pytest.raises(VocabularyError, match="vocab_size=100 is too small") as caught:
        train_model(kind, PERMUTED, 100, ["<x>"])
    smallest = caught.value.fits
    train_model(kind, PERMUTED, smallest, ["<x>"])
    for size in (1, 3, smallest - 1):
        with pytest.raises(VocabularyError, match=f"--set tokenizer.vocab_size={smallest}$"):
            train_model(kind, PERMUTED, size, ["<x>"])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_long_lines_are_learned_from(kind: str) -> None:
    line = "Donaudampfschiff " * 20_000 + "z" * 200_000
    tokenizer = BpeTokenizer(train_model(kind, [line], 285, []))
    pieces = tokenizer.pieces(range(260, 285))
    assert any(len(piece) > 1 and piece in "\u2581Donaudampfschiff" for piece in pieces)
    assert any(len(piece) > 1 and set(piece) == {"z"} for piece in pieces)


@pytest.mark.parametrize("odd", ["\u2585", "\u2581", "\0", "\t", "<unk>"])
def test_lines_with_odd_characters_are_learned_from(odd: str) -> None:
    model = train_model("bpe", [f"newest {odd} newest"] * 100 + ["lower"], 276, [])
    pieces = BpeTokenizer(model).pieces(range(260, 276))
    assert any(len(piece) > 2 and piece in "newest" for piece in pieces)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_nothing_to_learn_from(lines: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn a tokenizer from"):
        train_model("bpe", lines, 300, [])
