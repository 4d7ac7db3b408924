"""The bottleneck: translation by length of source, through one vector and with attention."""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from crosshead.addons.studies import captions, equal
from crosshead.addons.studies.captions import MEANINGFUL, Captions
from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.equal import BAHDANAU, CONVOLUTIONAL, LUONG, PLAIN, TRANSFORMER
from crosshead.addons.studies.fitting import drawn_from, train
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.lexicon import VOCABULARY, random_pairs, right, sentences
from crosshead.addons.studies.runs import MissingDataError, results, stored, stored_at
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, Value
from crosshead.evaluation.sacrebleu_metrics import bleu
from crosshead.models.base import decodable
from crosshead.models.registry import AnyTokenConfig, build_model

BATCH = 2048  # words
LOOKING = (BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER)

WORD_RATES = {PLAIN: 6e-3, BAHDANAU: 6e-3, LUONG: 6e-3, CONVOLUTIONAL: 4e-3, TRANSFORMER: 2e-3}
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
    Band(FALL.format(PLAIN), 0, 0.5, "A vector of fixed length holds ten better than eighty."),
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


Scores = Mapping[str, Sequence[Sequence[float]]]
"""By model, a list for each seed: of words, the shares in place by length; of captions, BLEU of all
and of each group."""


def run(trial: Trial) -> Result:
    """Train on words, then on captions; in the quick form on made-up sentences instead."""
    words = on_words(trial)
    try:
        of = on_captions(captions.captions_of(trial), trial)
    except MissingDataError as missing:
        of = Result(dict.fromkeys(CAPTIONS, str(missing)))
    tables, panels = [*words.tables, *of.tables], [*words.panels, *of.panels]
    return Result({**words.measured, **of.measured}, tables, panels, [*words.kept, *of.kept])


class WordRun(NamedTuple):
    """The settings of a model that learns words."""

    shape: AnyTokenConfig
    rate: float
    how: WordTask
    seed: int


def on_words(trial: Trial) -> Result:
    """Let every model learn the language from each seed."""
    how = QUICK if trial.quick else FULL._replace(updates=trial.amount(2, FULL.updates))
    reference = equal.transformer(how.d_model, 2 * how.d_model, 4, 2, norm="pre")
    compared, folder = equal.shapes(reference, VOCABULARY), trial.folder / "words"
    runs = {
        (name, each): WordRun(shape, WORD_RATES[name], how, each)
        for name, shape in compared.items()
        for each in trial.seeds()
    }
    found = partial(spelling, folder)
    scores = results(runs, found, trial, lambda shares: f"{joined(shares, '.1%')} of words right")
    rows = [["model", "weights", *(f"{length} words" for length in how.tested)]]
    for name, mean in means(scores).items():
        shown = f"{equal.weights(compared[name], VOCABULARY):,}"
        rows.append([name, shown, *(f"{share:.1%}" for share in mean)])
    return Result(
        words_measured(scores, how.tested),
        [Table("Words that stand where they belong", rows)],
        [Panel("share of words right, by their number", lines(scores, how.tested))],
        [stored_at(run, folder) for run in runs.values()],
    )


def spelling(folder: Path, run: WordRun) -> list[float]:
    """Return the shares right of a model that has learned the language, stored or new."""

    def compute() -> list[float]:
        with drawn_from(run.seed) as generator:
            model = decodable(build_model(run.shape, VOCABULARY, VOCABULARY))
        draw_pairs, most = partial(random_pairs, run.how.lengths, BATCH), run.how.updates
        train(model, draw_pairs, generator, most=most, rate=run.rate, warmup=max(1, most // 10))
        tests = [sentences(run.how.tests, length, generator) for length in run.how.tested]
        return [float(right(model, test).double().mean()) for test in tests]

    found: list[float] = stored(run, folder, compute)
    return found


def on_captions(corpus: Captions, trial: Trial) -> Result:
    """Train every model on captions from each seed."""
    compared = equal.shapes(captions.transformer(quick=trial.quick), corpus.vocabulary)
    runs = {
        (name, each): corpus.run(shape, each)
        for name, shape in compared.items()
        for each in trial.seeds()
    }
    source, reference = captions.sides(corpus.text, captions.TEST)
    outputs = partial(captions.outputs, source)
    done = results(runs, outputs, trial, lambda lines: f"BLEU {bleu(lines, reference):.1f}")
    scores = {
        name: [[bleu(found, reference), *by_length(source, found, reference)] for found in each]
        for name, each in done.items()
    }
    ends = zip((0, *BINS[:-2]), BINS[:-1], strict=True)
    heads = [*(f"{least + 1} to {most} words" for least, most in ends), f"{BINS[-2] + 1} and more"]
    rows = [["model", "weights", "BLEU by seed", *heads]]
    for name, (_, *groups) in means(scores).items():
        shown = f"{equal.weights(compared[name], corpus.vocabulary):,}"
        whole = joined((each[0] for each in scores[name]), ".1f")
        rows.append([name, shown, whole, *(f"{group:.1f}" for group in groups)])
    parts = {name: [each[1:] for each in of] for name, of in scores.items()}
    return Result(
        captions_measured(scores),
        [Table(f"BLEU on {corpus.title}, greedy search", rows)],
        [Panel("BLEU, by group of lengths", lines(parts, range(len(BINS))))],
        [run.finished for run in runs.values()],
    )


def by_length(source: Sequence[str], found: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Return BLEU of the captions in each of the groups `BINS`; NaN for an empty group."""
    scores, least = [], 0
    for most in BINS:
        rows = [row for row, line in enumerate(source) if least < len(line.split()) <= most]
        pairs = [found[row] for row in rows], [reference[row] for row in rows]
        scores.append(bleu(*pairs) if rows else math.nan)
        least = most
    return scores


def means(scores: Scores) -> dict[str, list[float]]:
    """Return the scores of each model as means over seeds."""
    return {
        name: [statistics.mean(each) for each in zip(*of, strict=True)]
        for name, of in scores.items()
    }


def words_measured(scores: Scores, lengths: Sequence[int]) -> dict[str, Value]:
    """Return the quantities about words, if sentences of ten words have been learned."""
    ten = lengths.index(10)
    return {
        FALL.format(name): mean[-1] / mean[ten]
        if mean[ten] >= LEARNED
        else f"only {mean[ten]:.0%} of the words are right at ten"
        for name, mean in means(scores).items()
    }


def captions_measured(scores: Scores) -> dict[str, Value]:
    """Return the quantities about captions, if all models with attention have learned something."""
    mean = {name: each for name, (each, *_) in means(scores).items()}
    for name in LOOKING:
        if mean[name] < MEANINGFUL:
            why = f"BLEU of {name} is {mean[name]:.1f}, below {MEANINGFUL:g}"
            return dict.fromkeys(CAPTIONS, why)
    plain, attending = (means(scores)[name] for name in (PLAIN, BAHDANAU))
    stays = attending[-1] / attending[1]
    return {
        ADDED.format("Bahdanau's attention"): mean[BAHDANAU] - mean[PLAIN],
        ADDED.format("Luong's attention"): mean[LUONG] - mean[PLAIN],
        SINKS: plain[-1] / plain[1] / stays,
        STAYS: stays,
    }


def lines(scores: Scores, places: Sequence[int]) -> list[Line]:
    """Show scores by length: a line for each model, in a band over its seeds."""
    spread = {
        name: [(min(each), max(each)) for each in zip(*of, strict=True)]
        for name, of in scores.items()
    }
    return [Line(places, mean, n, spread=spread[n]) for n, mean in means(scores).items()]


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
