"""Marks in pairs whose translations are known: each word `x` of the source is `X` in the target."""

import numpy as np
import pytest

from crosshead.text.markers import MARKERS, TERM_MARKERS, ids_of, without_marks
from crosshead.text.parallel.examples import Example, Examples
from crosshead.text.parallel.tagged import Tagged, Tagging, word_forms
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.symbols import CharacterTokenizer, WordTokenizer

WORDS = [f"word{number}" for number in range(40)]


def lines(seed: int) -> tuple[list[str], list[str]]:
    draw = np.random.default_rng(seed)
    source = [" ".join(draw.choice(WORDS, draw.integers(3, 9), replace=False)) for _ in range(800)]
    # The last word of a source is the first of its translation.
    moved = [[line.split()[-1], *line.split()[:-1]] for line in source]
    return source, [" ".join(words).upper() for words in moved]


SIDES = lines(1)
TOKENIZER = WordTokenizer.train([*SIDES[0], *SIDES[1]], 200, [*MARKERS, *TERM_MARKERS])
IDS = ids_of(MARKERS, TOKENIZER)
TERMS = ids_of(TERM_MARKERS, TOKENIZER)
PAIRS = Examples.of(zip(*(TOKENIZER.encode_lines(side) for side in SIDES), strict=True))
ALIGNER = WordAligner(PAIRS, TOKENIZER.vocab_size)


def tagged(share: float = 1.0, epoch: int = 0, longest: int = 99, terms: bool = False) -> Tagged:
    pieces = TERMS if terms else ()
    tagging = Tagging((TOKENIZER, TOKENIZER), ALIGNER, IDS, pieces, share, 1, longest)
    return Tagged(PAIRS, tagging, epoch)


def without(example: Example) -> list[list[int]]:
    return [without_marks(side, IDS)[0] for side in example]


def beside(example: Example, mark: int) -> list[set[str]]:
    """The words before and behind a mark, on both sides, in capitals."""
    found = []
    for side in example:
        words = [piece.upper() for piece in TOKENIZER.pieces(side)]
        at = list(side).index(mark)
        found.append({*words[max(0, at - 1) : at], *words[at + 1 : at + 2]})
    return found


def test_both_sides_have_the_same_marks_beside_or_for_the_same_words() -> None:
    pairs = stood = alike = 0
    for usual, example in zip(PAIRS, tagged(), strict=True):
        marks = [{each for each in side if each in IDS} for side in example]
        assert marks[0] == marks[1]
        pairs += bool(marks[0])
        for mark in marks[0]:
            source, target = beside(example, mark)
            is_for = len(example[0]) < len(usual[0]) + len(marks[0])
            stood += is_for
            alike += bool(source & target)
    assert pairs > 0.95 * len(PAIRS) and stood > 0.1 * len(PAIRS)
    assert alike > 0.6 * len(PAIRS)


def test_only_words_that_marks_stand_for_are_missing() -> None:
    changed = 0
    for usual, example in zip(PAIRS, tagged(), strict=True):
        left = [TOKENIZER.decode(side).upper().split() for side in without(example)]
        assert sorted(left[0]) == sorted(left[1])
        changed += left[0] != TOKENIZER.decode(usual[0]).upper().split()
    assert 0.3 < changed / len(PAIRS) < 0.9


def test_the_share_and_the_epoch_draw_the_pairs() -> None:
    some = tagged(0.1)
    rows = np.flatnonzero(some.counts.any(axis=1))
    assert len(rows) / len(PAIRS) == pytest.approx(0.1, abs=0.04)
    assert all(some[row] == PAIRS[row] for row in range(len(PAIRS)) if row not in rows)
    assert list(some) == list(tagged(0.1))
    assert not np.array_equal(rows, np.flatnonzero(tagged(0.1, epoch=1).counts.any(axis=1)))


def test_lengths_are_room_for_the_marks() -> None:
    for room, example in zip(tagged(terms=True).lengths, tagged(terms=True), strict=True):
        assert all(len(side) <= most for side, most in zip(example, room, strict=True))
    assert tagged(longest=10).lengths.max() <= 10


def test_terms_are_followed_by_what_stands_for_them_in_the_target() -> None:
    own = foreign = 0
    for usual, (source, target) in zip(PAIRS, tagged(terms=True), strict=True):
        assert not set(target) & set(TERMS)
        if TERMS[0] not in source:
            continue
        first, second, last = map(list(source).index, TERMS)
        term, translation = source[first + 1 : second], source[second + 1 : last]
        assert set(term) <= set(usual[0])
        there = [list(translation) == list(target[at : at + len(translation)]) for at in range(99)]
        assert any(there)
        if {*TOKENIZER.decode(term).upper().split()} == {*TOKENIZER.decode(translation).split()}:
            own += 1
        else:
            foreign += 1
            own_ids = set(TOKENIZER.encode(TOKENIZER.decode(term).upper()))
            assert not (own_ids - set(translation)) & set(target)
    assert min(own, foreign) > 0.1 * len(PAIRS)


def test_terms_and_forms_are_of_the_language_of_the_target() -> None:
    """Each source begins with a tag of one of ten languages. Words of the first end in `X`."""
    sides = lines(2)
    target = [
        line if row % 10 else line.replace(" ", "X ") + "X" for row, line in enumerate(sides[1])
    ]
    tags = [f"<2{letter}>" for letter in "abcdefghij"]
    tokenizer = WordTokenizer.train([*sides[0], *target], 300, [*MARKERS, *TERM_MARKERS, *tags])
    ids = [tokenizer.encode(tag)[-1] for tag in tags]
    pairs = Examples.of(
        ([ids[row % 10], *tokenizer.encode(source)], tokenizer.encode(line))
        for row, (source, line) in enumerate(zip(sides[0], target, strict=True))
    )
    forms = word_forms(pairs, tokenizer, frozenset(ids))
    assert not any((tag, f"WORD{n}") in forms for tag in ids for n in range(40))
    tagging = Tagging(
        (tokenizer, tokenizer), WordAligner(pairs, tokenizer.vocab_size),
        ids_of(MARKERS, tokenizer), ids_of(TERM_MARKERS, tokenizer), 1.0, 1, 99, frozenset(ids),
    )  # fmt: skip
    foreign = 0
    for (usual, _), (source, line) in zip(pairs, Tagged(pairs, tagging, 0), strict=True):
        ends = {word.endswith("X") for word in tokenizer.decode(line).split() if "WORD" in word}
        assert ends <= {source[0] == ids[0]}
        own = tokenizer.decode(usual).upper().replace("X", "").split()
        words = tokenizer.decode(without_marks(line, tagging.markers)[0]).replace("X", "").split()
        foreign += not set(words) <= set(own)
    assert foreign > 0.15 * len(pairs)


def test_characters_of_a_script_without_spaces_are_terms() -> None:
    signs = [chr(0x4E00 + number) for number in range(40)]
    draw = np.random.default_rng(3)
    source = [" ".join(draw.choice(WORDS, 5, replace=False)) for _ in range(400)]
    target = ["".join(signs[int(word[4:])] for word in line.split()) for line in source]
    tokenizer = CharacterTokenizer.train([*source, *target], 300, [*MARKERS, *TERM_MARKERS])
    pairs = Examples.of(
        zip(*(tokenizer.encode_lines(side) for side in (source, target)), strict=True)
    )
    tagging = Tagging(
        (tokenizer, tokenizer), WordAligner(pairs, tokenizer.vocab_size),
        ids_of(MARKERS, tokenizer), ids_of(TERM_MARKERS, tokenizer), 1.0, 1, 99,
    )  # fmt: skip
    terms = [line for line, _ in Tagged(pairs, tagging, 0) if tagging.term_markers[0] in line]
    assert terms
