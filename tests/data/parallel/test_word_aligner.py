"""Alignments beside a plain form, and on pairs whose alignments are known."""

import numpy as np
import pytest

from crosshead.data.parallel import word_aligner
from crosshead.data.parallel.examples import Example, Examples
from crosshead.data.parallel.word_aligner import WordAligner
from crosshead.vocabulary import EOS, PAD

FIRST, SOURCES, VOCABULARY = 4, 30, 100


def translated(count: int, rng: np.random.Generator) -> list[Example]:
    """Sentences of random words, and their translations with two neighbours exchanged."""
    found = []
    for _ in range(count):
        source = rng.integers(FIRST, FIRST + SOURCES, rng.integers(2, 9)).tolist()
        target = [word + 40 for word in source]
        target[0], target[1] = target[1], target[0]
        found.append((source, target))
    return found


def padded(sides: list[list[int]]) -> np.ndarray:
    width = max(map(len, sides)) + 1
    return np.array([[*side, EOS, *[PAD] * (width - 1 - len(side))] for side in sides])


def batch_of(examples: list[Example]) -> tuple[np.ndarray, np.ndarray]:
    return padded([list(s) for s, _ in examples]), padded([list(t) for _, t in examples])


def test_the_most_probable_source_token_is_the_translated_one() -> None:
    examples = translated(600, np.random.default_rng(0))
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    source, target = batch_of(translated(50, np.random.default_rng(1)))
    found = aligner.align(source, target)
    chosen = np.take_along_axis(source, found.argmax(axis=2), axis=1)
    inside = target != PAD
    right = np.where(target == EOS, EOS, target - 40)
    assert (chosen == right)[inside].mean() > 0.98
    assert found.sum(axis=2)[inside].mean() > 0.9


@pytest.mark.parametrize(("reversed_order", "least", "most"), [(False, 3, 8), (True, 0, 0.1)])
def test_positions_count_only_if_they_tell_something(
    reversed_order: bool, least: float, most: float
) -> None:
    examples = translated(600, np.random.default_rng(0))
    if reversed_order:
        examples = [(source, list(target)[::-1]) for source, target in examples]
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    assert least <= aligner.precision <= most
    source, target = batch_of(examples[:50])
    chosen = np.take_along_axis(source, aligner.align(source, target).argmax(axis=2), axis=1)
    words = target > EOS
    assert (chosen == target - 40)[words].mean() > 0.95


def test_rows_are_distributions_and_padding_has_none() -> None:
    examples = translated(50, np.random.default_rng(0))
    found = WordAligner(Examples.of(examples), VOCABULARY).align(*batch_of(examples[:8]))
    source, target = batch_of(examples[:8])
    assert found.dtype == np.float32 and found.shape == (8, target.shape[1], source.shape[1])
    assert (found >= 0).all() and (found.sum(axis=2) <= 1 + 1e-6).all()
    assert not found[target == PAD].any() and not found.transpose(0, 2, 1)[source == PAD].any()
    alone = [WordAligner(Examples.of(examples), VOCABULARY).align(*batch_of([each]))[0]
             for each in examples[:8]]  # fmt: skip
    for row, each in enumerate(alone):
        np.testing.assert_allclose(found[row, : each.shape[0], : each.shape[1]], each, atol=1e-6)


def test_tokens_that_were_never_together_have_no_alignment() -> None:
    aligner = WordAligner(Examples.of([([4, 5], [44, 45]), ([6], [46])]), VOCABULARY)
    found = aligner.align(*batch_of([([4], [46]), ([90], [91])]))
    assert not found[0, 0, 0] and not found[1, 0].any()


def test_it_is_bayes_rule_on_the_learned_probabilities() -> None:
    examples = translated(40, np.random.default_rng(0))
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    source, target = ([*side, EOS] for side in examples[0])
    found = aligner.align(*batch_of(examples[:1]))[0]
    known = dict(zip(aligner._pairs.tolist(), aligner._probabilities.tolist(), strict=True))
    for t, b in enumerate(target):
        near = [
            np.exp(-aligner.precision * abs((s + 0.5) / len(source) - (t + 0.5) / len(target)))
            for s in range(len(source))
        ]
        joint = np.array([
            0.92 * near[s] / sum(near) * known.get(a * VOCABULARY + b, 0)
            for s, a in enumerate(source)
        ])  # fmt: skip
        whole = joint.sum() + 0.08 * aligner._frequency[b]
        np.testing.assert_allclose(found[t], joint / whole, rtol=1e-4)


def test_a_large_corpus_is_learned_from_some_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = translated(90, np.random.default_rng(0))
    lengths = Examples.of(examples).lengths.astype(int) + 1
    monkeypatch.setattr(word_aligner, "MOST_LINKS", -(-int(lengths.prod(axis=1).sum()) // 3))
    some = WordAligner(Examples.of(examples), VOCABULARY)
    monkeypatch.undo()
    third = WordAligner(Examples.of(examples[::3]), VOCABULARY)
    np.testing.assert_array_equal(some.align(*batch_of(examples)), third.align(*batch_of(examples)))
