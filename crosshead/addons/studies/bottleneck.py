"""The bottleneck: translation by length of source, through one vector and with attention."""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from crosshead.addons.studies import captions, fitting
from crosshead.addons.studies.charts import Sheet
from crosshead.addons.studies.runs import MissingDataError, Stored, results, stored
from crosshead.addons.studies.study import Band, Result, Study, Trial, Value
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.models.base import decodable
from crosshead.models.registry import AnyTokenConfig, build_model

BATCH = 2048  # words
LOOKING = (fitting.BAHDANAU, fitting.LUONG, fitting.CONVOLUTIONAL, fitting.TRANSFORMER)

WORD_RATES = {
    fitting.PLAIN: 6e-3,
    fitting.BAHDANAU: 6e-3,
    fitting.LUONG: 6e-3,
    fitting.CONVOLUTIONAL: 4e-3,
    fitting.TRANSFORMER: 2e-3,
}
"""Peaks of the learning rate for words, from short trials: at half of this peak Bahdanau's
attention took more than twice the updates."""

BINS = (8, 11, 15, 1000)
"""The largest number of words of a caption in each group: 174, 367, 314 and 145 captions."""


class WordTask(NamedTuple):
    """Amounts of the word task: width, lengths, updates, and sentences of each length."""

    d_model: int
    lengths: tuple[int, int]
    tested: tuple[int, ...]
    updates: int
    tests: int


FULL = WordTask(72, (5, 80), (5, 10, 20, 30, 40, 60, 80), 3000, 64)
QUICK = WordTask(72, (5, 10), (5, 10), 2, 4)

LEARNED = 0.5
"""The share of words right at ten from which on a smaller share at the longest tells something."""

FALL = "words, {}: share right at the longest over that at ten"
ADDED = "captions: BLEU that {} adds"
SINKS = "captions: BLEU without attention over BLEU with Bahdanau's, longest group over shortest"
STAYS = "captions, LSTM, Bahdanau: BLEU of the longest group over that of the shortest"

BANDS = (
    Band(FALL.format(fitting.PLAIN), 0, 0.5, "A vector of fixed length holds ten words better."),
    *(
        Band(FALL.format(name), 0.95, 1.05, "The decoder looks each word up at its position.")
        for name in LOOKING
    ),
    Band(
        ADDED.format("Bahdanau's attention"), 2, math.inf,
        "7.6 to 8.9 in Bahdanau et al. 2015, Table 1, on longer sentences. Two seeds were up to "
        "1.6 BLEU apart in earlier runs, so less than 2 cannot be told from noise.",
    ),
    Band(ADDED.format("Luong's attention"), 2, math.inf, "2.8 in Luong et al. 2015, Table 1."),
    Band(
        SINKS, 0, 0.9,
        "Figure 2: the two models part as sentences grow. Groups of 145 to 367 captions measure a "
        "ratio of four scores to a tenth.",
    ),
    Band(
        STAYS, 0.9, math.inf,
        "“No performance deterioration even with sentences of length 50 or more” (section 5.1). "
        "But long captions may be harder in themselves.",
    ),
)  # fmt: skip

CAPTIONS = [band.name for band in BANDS if band.name.startswith("captions")]


Scores = Mapping[str, Mapping[Any, Sequence[float]]]
"""By model and column, a value for each seed: of words, the share in place by length; of captions,
BLEU of `ALL` and of each group of `GROUPS`."""

ALL = "all"
GROUPS = ("1 to 8 words", "9 to 11", "12 to 15", "16 and more")


def run(trial: Trial) -> Result:
    """Train on words, then on captions; in the quick form on made-up sentences instead."""
    words = on_words(trial)
    try:
        of = on_captions(captions.captions_of(trial), trial)
    except MissingDataError as missing:
        of = Result(dict.fromkeys(CAPTIONS, str(missing)))
    return Result({**words.measured, **of.measured}, [*words.sheets, *of.sheets])


class WordRun(NamedTuple):
    """The settings of a model that learns words."""

    shape: AnyTokenConfig
    rate: float
    how: WordTask
    seed: int


def on_words(trial: Trial) -> Result:
    """Let every model learn the language from each seed."""
    how = QUICK if trial.quick else FULL
    compared = fitting.shapes(
        fitting.transformer(how.d_model, 2 * how.d_model, 4, 2, norm="pre"), captions.VOCABULARY
    )
    found = results(
        trial, compared,
        lambda name, seed: stored(
            trial, "words", WordRun(compared[name], WORD_RATES[name], how, seed)
        ),
        spelling,
    )  # fmt: skip
    scores = by_column(found, how.tested)
    many = f"{fitting.weights(compared[fitting.PLAIN], captions.VOCABULARY):,} weights"
    title = f"Share of words at their place, by the words of a sentence ({many})"
    return Result(words_measured(scores, how.tested), [Sheet(title, scores, "words", ".1%")])


def by_column(found: Mapping[str, Sequence[Sequence[float]]], columns: Sequence[Any]) -> Scores:
    """Return the values of each model by column, from lists of them by seed."""
    return {
        name: dict(zip(columns, zip(*of, strict=True), strict=True)) for name, of in found.items()
    }


def spelling(run: Stored) -> list[float]:
    """Return the shares right of a model that has learned the language, stored or new."""
    found: list[float] = run.result(spelled)
    return found


def spelled(run: WordRun) -> list[float]:
    """Let a model learn the language; return its shares right."""
    with fitting.drawn_from(run.seed) as generator:
        model = decodable(build_model(run.shape, captions.VOCABULARY, captions.VOCABULARY))
    draw_pairs, most = partial(captions.random_pairs, run.how.lengths, BATCH), run.how.updates
    fitting.train(model, draw_pairs, generator, most=most, rate=run.rate, warmup=max(1, most // 10))
    tests = [captions.sentences(run.how.tests, length, generator) for length in run.how.tested]
    return [float(captions.right(model, test).double().mean()) for test in tests]


def on_captions(corpus: captions.Captions, trial: Trial) -> Result:
    """Train every model on captions from each seed."""
    compared = fitting.shapes(captions.transformer(quick=trial.quick), corpus.vocabulary)
    source, reference = captions.sides(corpus.text, captions.TEST)
    done = {
        name: [[bleu(found, reference), *by_length(source, found, reference)] for found in of]
        for name, of in corpus.translations(trial, compared).items()
    }
    scores = by_column(done, (ALL, *GROUPS))
    many = f"{fitting.weights(compared[fitting.PLAIN], corpus.vocabulary):,} weights"
    title = f"BLEU on {corpus.title}, greedy search ({many})"
    return Result(captions_measured(scores), [Sheet(title, scores, "words of the source", ".1f")])


def by_length(source: Sequence[str], found: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Return BLEU of the captions in each of the groups `BINS`; NaN for an empty group."""
    scores, least = [], 0
    for most in BINS:
        rows = [row for row, line in enumerate(source) if least < len(line.split()) <= most]
        pairs = [found[row] for row in rows], [reference[row] for row in rows]
        scores.append(bleu(*pairs) if rows else math.nan)
        least = most
    return scores


def mean(scores: Scores, name: str, column: Any) -> float:
    """Return a score as a mean over seeds."""
    return statistics.mean(scores[name][column])


def words_measured(scores: Scores, lengths: Sequence[int]) -> dict[str, Value]:
    """Return the quantities about words, if sentences of ten words have been learned."""
    found: dict[str, Value] = {}
    for name in scores:
        ten, longest = (mean(scores, name, length) for length in (10, lengths[-1]))
        few = f"only {ten:.0%} of the words are right at ten"
        found[FALL.format(name)] = longest / ten if ten >= LEARNED else few
    return found


def captions_measured(scores: Scores) -> dict[str, Value]:
    """Return the quantities about captions, if all models with attention have learned something."""
    whole = {name: mean(scores, name, ALL) for name in scores}
    for name in LOOKING:
        if whole[name] < captions.MEANINGFUL:
            why = f"BLEU of {name} is {whole[name]:.1f}, below {captions.MEANINGFUL:g}"
            return dict.fromkeys(CAPTIONS, why)
    plain, stays = (
        mean(scores, name, GROUPS[-1]) / mean(scores, name, GROUPS[0])
        for name in (fitting.PLAIN, fitting.BAHDANAU)
    )
    return {
        ADDED.format("Bahdanau's attention"): whole[fitting.BAHDANAU] - whole[fitting.PLAIN],
        ADDED.format("Luong's attention"): whole[fitting.LUONG] - whole[fitting.PLAIN],
        SINKS: plain / stays,
        STAYS: stays,
    }


BOTTLENECK = Study(
    "bottleneck",
    "One vector for a sentence is a bottleneck, and attention opens it",
    "A neural network needs to be able to compress all the necessary information of a source "
    "sentence into a fixed-length vector. This may make it difficult [...] to cope with long "
    "sentences.",
    "Bahdanau et al. 2015, section 1",
    BANDS,
    run,
    seconds=5100,
)
