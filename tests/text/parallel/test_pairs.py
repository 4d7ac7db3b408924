import numpy as np

from crosshead.text.parallel.pairs import (
    CHUNK,
    Origin,
    ParallelText,
    comparable,
    numbered,
    pair_hash,
    stripped,
    within,
)


def test_chunks_are_numbered_and_all_the_text() -> None:
    lines = [str(number) for number in range(2 * CHUNK + 5)]
    text = ParallelText(lines, lines[::-1], [Origin("f", 1)] * len(lines))
    found = list(numbered(text))
    assert [(first, len(source)) for first, (source, _) in found] == [
        (0, CHUNK), (CHUNK, CHUNK), (2 * CHUNK, 5),
    ]  # fmt: skip
    assert [line for _, (source, _) in found for line in source] == lines
    assert [line for _, (_, target) in found for line in target] == lines[::-1]


def test_rows_within_a_span() -> None:
    rows = np.array([2, 3, 7, 9])
    assert within(rows, 3, 9) == [3, 7]
    assert within(rows, 0, 2) == [] == within(np.zeros(0, np.int64), 0, 9)


def test_the_hash_of_a_pair_tells_where_its_source_ends() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("c", "ab")]
    assert len({pair_hash(pair) for pair in pairs}) == len(pairs)
    assert pair_hash(stripped((" ab\t", "c "))) == pair_hash(("ab", "c"))


def test_pairs_are_compared_in_one_unicode_form() -> None:
    assert comparable((" cafe\u0301\n", "u\u0308ber")) == ("caf\u00e9", "\u00fcber")
    assert stripped((" cafe\u0301\n", "a")) == ("cafe\u0301", "a")
