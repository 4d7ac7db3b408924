import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.markers import MARKERS, Mark, marker_ids, with_marks, without_marks
from crosshead.text.symbols import ByteTokenizer, WordTokenizer
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer

LINES = [f"one two three {n} <0> four" for n in range(200)]
IDS = range(100, 100 + len(MARKERS))


@given(
    st.lists(st.integers(4, 99), max_size=9),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(range(len(MARKERS)))), max_size=6),
)
def test_marks_come_out_as_they_went_in(ids: list[int], places: list[tuple[int, int]]) -> None:
    marks = [Mark(min(at, len(ids)), marker) for at, marker in sorted(places)]
    assert without_marks(with_marks(ids, marks, IDS), IDS) == (ids, marks)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_each_kind_of_tokenizer_has_a_piece_for_each_mark(kind: str) -> None:
    config = TokenizerConfig(kind=kind, vocab_size=310, special=list(MARKERS))
    tokenizer = train_tokenizer(config, LINES)
    assert tokenizer.pieces(marker_ids(tokenizer)) == list(MARKERS)


def test_a_tokenizer_without_all_pieces_has_none() -> None:
    assert marker_ids(ByteTokenizer(MARKERS[:-1])) == ()
    assert marker_ids(WordTokenizer.train(LINES, 50, ())) == ()
