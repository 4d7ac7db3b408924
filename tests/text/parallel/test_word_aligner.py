"""Alignments beside a plain form, and on pairs whose alignments are known."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from crosshead.text.parallel import word_aligner
from crosshead.text.parallel.examples import Chosen, Example, Examples
from crosshead.text.parallel.word_aligner import (
    PRIOR,
    Translations,
    WordAligner,
    WordIds,
    WordPairs,
    _Sample,
    learn,
    links,
)
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


@pytest.mark.parametrize(("reversed_order", "least", "most"), [(False, 8.1, 14), (True, 0, 0.1)])
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


def slow_alignment(
    examples: list[Example], precision: float, source: list[int], target: list[int]
) -> np.ndarray:
    """IBM model 1 with positions, word by word, and then Bayes' rule for one pair."""
    rows = [([*s, EOS], [*t, EOS]) for s, t in [*examples, ([], [])]]
    said = Counter(word for _, row in rows for word in row)
    frequency = {b: (said[b] + 1) / (said.total() + VOCABULARY) for b in range(VOCABULARY)}

    def likely(s: int, length: int, t: int, other: int) -> float:
        near = [math.exp(-precision * abs((i + 0.5) / length - (t + 0.5) / other))
                for i in range(length)]  # fmt: skip
        return 0.92 * near[s] / sum(near)

    probability = {(a, b): frequency[b] for s, t in rows for a in s for b in t}
    for _ in range(4):
        counts: Counter[tuple[int, int]] = Counter()
        for s, t in rows:
            for j, b in enumerate(t):
                parts = [likely(i, len(s), j, len(t)) * probability[a, b] for i, a in enumerate(s)]
                for a, part in zip(s, parts, strict=True):
                    counts[a, b] += part / (sum(parts) + 0.08 * frequency[b])
        totals: Counter[int] = Counter()
        for (a, _), count in counts.items():
            totals[a] += count
        probability = {(a, b): count / totals[a] for (a, b), count in counts.items()}
    smoothed = {(a, b): (counts[a, b] + 3 * frequency[b]) / (totals[a] + 3) for a, b in probability}
    found = np.zeros((len(target), len(source)))
    for j, b in enumerate(target):
        for i, a in enumerate(source):
            known = smoothed.get((a, b), 0.0)
            found[j, i] = likely(i, len(source), j, len(target)) * known * (known >= 1e-4)
        found[j] /= found[j].sum() + 0.08 * frequency[b]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_model_word_by_word(seed: int) -> None:
    pairs = enumerate(translated(12, np.random.default_rng(seed)))
    examples = [(source, [*target, 98, 99] if n % 2 else target) for n, (source, target) in pairs]
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    assert aligner.precision > 1
    for pair in [*examples[:3], ([4, 5], [44]), ([4], [99])]:
        source, target = ([*side, EOS] for side in pair)
        expected = slow_alignment(examples, aligner.precision, source, target)
        np.testing.assert_allclose(aligner.align(*batch_of([pair]))[0], expected, atol=1e-6)


def test_the_precision_is_that_of_the_mean_distance_of_linked_tokens() -> None:
    """Another search beside the bisection, where every third sentence is reversed."""
    examples = [
        (source, list(target)[:: -1 if number % 3 == 0 else 1])
        for number, (source, target) in enumerate(translated(300, np.random.default_rng(0)))
    ]
    sample = _Sample(Examples.of(examples), VOCABULARY, 10**6)
    distance = np.abs(sample.places[0] - sample.places[1])
    precision = 0.0
    for _ in range(2):
        linked = sample.linked(sample.likely(precision))
        share = np.bincount(sample.target_place, linked)
        assert share.min() < 0.98  # some tokens are linked to none
        found = (linked * distance).sum() / share.sum()
        tried = np.linspace(0, 8, 801)
        expected = [
            (sample.likely(each) / 0.92 * share[sample.target_place] * distance).sum() / share.sum()
            for each in tried
        ]
        precision = float(tried[np.abs(np.array(expected) - found).argmin()])
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    assert 1 < precision < 8
    assert aligner.precision == pytest.approx(precision, abs=0.03)


def test_rare_translations_are_forgotten() -> None:
    examples: list[Example] = [([5], [45])] * 30_000 + [([5], [46])] * 1
    aligner = WordAligner(Examples.of(examples), VOCABULARY)
    found = aligner.align(*batch_of([([5], [46]), ([5], [45])]))
    assert not found[0, 0, 0] and found[1, 0, 0] > 0.4


@pytest.fixture
def few_links(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOST_LINKS", "FEW_LINKS"):
        monkeypatch.setattr(word_aligner, name, 40_000)


@pytest.mark.usefixtures("few_links")
def test_a_large_corpus_is_learned_from_random_rows() -> None:
    """Also one whose rows alternate between two domains."""
    examples = translated(4000, np.random.default_rng(0))
    other = [([a + 15 for a in s], [b + 15 for b in t]) for s, t in examples]
    mixed = [pair for both in zip(examples, other, strict=True) for pair in both]
    vocabulary = VOCABULARY + 15
    links = sum((len(s) + 1) * (len(t) + 1) for s, t in mixed)
    assert links > 5 * 40_000
    aligner = WordAligner(Examples.of(mixed), vocabulary)
    for pairs in (examples, other):
        source, target = batch_of(pairs[:200])
        assert aligner.align(source, target).sum(axis=2)[target != PAD].mean() > 0.9


@pytest.mark.usefixtures("few_links")
def test_rows_that_are_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_aligner, "MOST_OF_A_ROW", 100)
    examples = translated(300, np.random.default_rng(0))
    long: Example = ([4] * 200, [99] * 200)
    short, both = (WordAligner(Examples.of(each), VOCABULARY)
                   for each in (examples, [*examples, long]))  # fmt: skip
    batch = batch_of(examples[:20])
    np.testing.assert_allclose(both.align(*batch), short.align(*batch), atol=0.2)
    assert not both.align(*batch_of([([4], [99])]))[0, 0, 0]
    alone = WordAligner(Examples.of([long]), VOCABULARY)
    assert not alone.align(*batch_of([long]))[0, :200, :200].any()


def test_it_learns_from_an_epoch_that_draws_its_rows() -> None:
    examples = Examples.of(translated(60, np.random.default_rng(0)))
    rows = np.arange(0, 60, 2, dtype=np.int32)
    chosen = WordAligner(Chosen(examples, rows), VOCABULARY)
    same = WordAligner(Examples.of([examples[int(row)] for row in rows]), VOCABULARY)
    batch = batch_of([examples[row] for row in range(60)])
    np.testing.assert_array_equal(chosen.align(*batch), same.align(*batch))


def test_learning_can_be_stopped() -> None:
    examples, calls = Examples.of(translated(9, np.random.default_rng(0))), []

    def check() -> None:
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        WordAligner(examples, VOCABULARY, check)
    assert len(calls) == 3


A, B, X, Y = range(4)


def words(*rows: list[int], size: int = 4) -> WordIds:
    ends = np.cumsum([len(row) for row in rows])
    return WordIds(np.array(list(itertools.chain(*rows))), ends, size)


def learned(
    source: WordIds, target: WordIds, likely: float = 1.0, none: float = 1.0
) -> tuple[Translations, list[tuple[int, int]]]:
    """The probabilities of translations, and their pairs of words."""
    sides = source, target
    pairs = WordPairs(sides, target.size)
    found = learn(pairs, sides, 1, likely=likely, none=none)
    return found, list(zip(*(each.tolist() for each in pairs.words), strict=True))


def test_links_are_all_pairs_of_words_of_a_row() -> None:
    source, target = words([B, A], [], [B]), words([X], [Y], [X, Y])
    assert [places.tolist() for places in links(source, target)] == [[1, 0, 2, 2], [0, 0, 2, 3]]
    assert [places.tolist() for places in links(target, source)] == [[0, 0, 2, 3], [0, 1, 2, 2]]


def test_a_side_may_have_many_more_words_than_the_other() -> None:
    """Numbers of words are sorted in the smallest type that holds those of their side."""
    rows = np.random.default_rng(1).permutation(600).reshape(-1, 3).tolist()
    many, few = words(*rows, size=600), words(*([row[0] % 200] for row in rows), size=200)
    expected = {(word, row[0] % 200) for row in rows for word in row}
    for sides in ((many, few), (few, many)):
        pairs = WordPairs(sides, sides[1].size)
        found = zip(*(each.tolist() for each in pairs.words), strict=True)
        assert {pair if sides[0] is many else pair[::-1] for pair in found} == expected
        index, known = pairs.find(*pairs.words)
        assert known.all() and index.tolist() == list(range(len(known)))


def test_pairs_are_found_and_forgotten() -> None:
    pairs = WordPairs((words([B, A], [A], [B]), words([X], [Y], [X])), 4)
    assert list(zip(*pairs.words, strict=True)) == [(A, X), (A, Y), (B, X)]
    assert [each.tolist() for each in pairs.places] == [[1, 2, 0, 3], [0, 1, 0, 2]]
    assert pairs.of_links(np.array([5, 6, 7])).tolist() == [5, 6, 7, 7]
    index, known = pairs.find(np.array([[A], [B]]), np.array([X, Y]))
    assert known.tolist() == [[True, True], [True, False]]
    assert index[known].tolist() == [0, 1, 2]
    pairs.forget(np.array([True, False, True]))
    index, known = pairs.find(np.array([[A], [B]]), np.array([X, Y]))
    assert known.tolist() == [[True, False], [True, False]] and index[known].tolist() == [0, 1]


def test_some_rows_keep_their_words() -> None:
    found = words([A, B], [], [B], [X, Y]).some(np.array([3, 0, 1]))
    assert found.ids.tolist() == [X, Y, A, B] and found.ends.tolist() == [2, 4, 4]
    assert found.lengths.tolist() == [2, 2, 0]


def test_one_iteration_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brown et al. 1993, equations 10 and 17, on two pairs and all alignments one by one."""
    monkeypatch.setattr(word_aligner, "ITERATIONS", 1)
    model, pairs = learned(words([A, B], [A]), words([X, Y], [X]))
    frequency = {X: 3 / 7, Y: 2 / 7}  # one is added to the count of each of the four words
    # At first, a word translates into x with the frequency of x, and so does the empty word.
    counts = {(A, X): 1 / 3 + 1 / 2, (A, Y): 1 / 3, (B, X): 1 / 3, (B, Y): 1 / 3}
    totals = {A: counts[A, X] + counts[A, Y], B: 2 / 3}
    expected = [(counts[a, b] + PRIOR * frequency[b]) / (totals[a] + PRIOR) for a, b in pairs]
    np.testing.assert_allclose(model.frequency[[X, Y]], [3 / 7, 2 / 7])
    np.testing.assert_allclose(model.probabilities, expected)
    np.testing.assert_allclose(model.unknown[[A, B]], [PRIOR / (totals[a] + PRIOR) for a in (A, B)])


def test_factors_of_links_count_only_beside_the_one_of_no_word() -> None:
    pairs = words([A, B], [A], [B, A]), words([X, Y], [X], [Y, X])
    (whole, _), (doubled, _), (other, _) = (
        learned(*pairs), learned(*pairs, likely=2.0, none=2.0), learned(*pairs, none=2.0)
    )  # fmt: skip
    np.testing.assert_allclose(doubled.probabilities, whole.probabilities)
    assert not np.allclose(other.probabilities, whole.probabilities)


def test_words_that_occur_together_translate_each_other() -> None:
    rows = [(A, X), (B, Y)] * 40
    both = [[one, other] for one, other in itertools.product((A, B), repeat=2)] * 10
    translate = {A: X, B: Y}
    source = words(*[[a] for a, _ in rows], *both)
    target = words(*[[b] for _, b in rows], *[[translate[a] for a in row] for row in both])
    found, pairs = learned(source, target)
    by_pair = dict(zip(pairs, found.probabilities, strict=True))
    assert min(by_pair[A, X], by_pair[B, Y]) > 0.8 > 0.2 > max(by_pair[A, Y], by_pair[B, X])
