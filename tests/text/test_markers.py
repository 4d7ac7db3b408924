import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.markers import MARKERS, Mark, ids_of, token_ends, with_ids, without_marks
from crosshead.text.symbols import ByteTokenizer, WordTokenizer
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import UNK

LINES = [f"one two three {n} <0> four" for n in range(200)]
IDS = range(100, 100 + len(MARKERS))


@given(
    st.lists(st.integers(4, 99), max_size=9),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(range(len(MARKERS)))), max_size=6),
)
def test_marks_come_out_as_they_went_in(ids: list[int], places: list[tuple[int, int]]) -> None:
    marks = [Mark(min(at, len(ids)), marker) for at, marker in sorted(places)]
    inserted = [(mark.at, [IDS[mark.number]]) for mark in marks]
    assert without_marks(with_ids(ids, inserted), IDS) == (ids, marks)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_each_kind_of_tokenizer_has_a_piece_for_each_mark(kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=310, special=list(MARKERS))
    tokenizer = train_tokenizer(config, LINES)
    assert tokenizer.pieces(ids_of(MARKERS, tokenizer)) == list(MARKERS)


def test_a_tokenizer_without_all_pieces_has_none() -> None:
    assert ids_of(MARKERS, ByteTokenizer(MARKERS[:-1])) == ()
    assert ids_of(MARKERS, WordTokenizer.train(LINES, 50, ())) == ()


@pytest.mark.parametrize(
    ("kind", "ends"), [("words", [1, 9, 12, 16]), ("characters", list(range(1, 17)))]
)
def test_an_unknown_token_is_as_long_as_its_part_of_the_text(kind: str, ends: list[int]) -> None:
    config = TokenizerConfig.model_validate({"kind": kind, "vocab_size": 20})
    tokenizer, text = train_tokenizer(config, ["a dog is on a log"]), "a giraffe is far"
    ids = tokenizer.encode(text)
    assert UNK in ids and token_ends(tokenizer, ids, text) == ends
