"""The bottleneck: translation by length of source, through one vector and with attention."""

import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.weights import build_model
from crosshead.evaluation import bleu
from crosshead.models.base import decodable
from crosshead.models.registry import AnyConfig
from crosshead.studies import captions, equal
from crosshead.studies.captions import CaptionCorpus
from crosshead.studies.effort import Effort, Times, seeds_of
from crosshead.studies.equal import BAHDANAU, CONVOLUTIONAL, LUONG, PLAIN, TRANSFORMER
from crosshead.studies.fitting import drawn_from
from crosshead.studies.formats import joined, number
from crosshead.studies.lexicon import VOCABULARY, learn, right, sentences
from crosshead.studies.sources import stored, stored_at
from crosshead.studies.study import Band, Result, Say, Study, Table, Value, reported

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
CONVOLVED = "captions: BLEU of ConvS2S less that of LSTM, Luong"
ATTENDED = "captions: BLEU of the Transformer less the best of the others"

BANDS = (
    Band(
        FALL.format(PLAIN), 0, 0.5,
        "A vector of fixed length holds so many words: it holds ten better than eighty.",
    ),
    *(
        Band(FALL.format(name), 0.95, 1.05, "The decoder looks each word up at its position.")
        for name in LOOKING
    ),
    Band(
        ADDED.format("Bahdanau's attention"), 2, math.inf,
        "7.6 to 8.9 in Bahdanau et al. 2015, Table 1, on longer sentences. Two seeds of one model "
        "were up to 1.6 BLEU apart in earlier runs: a difference below 2 BLEU cannot be told from "
        "noise.",
    ),
    Band(
        ADDED.format("Luong's attention"), 2, math.inf,
        "2.8 in Luong et al. 2015, Table 1; the lower end as above.",
    ),
    Band(
        SINKS, 0, 0.9,
        "Figure 2: the two models part as sentences grow. A group of 145 to 367 captions measures "
        "BLEU to about a twentieth, so a ratio of four scores is within a tenth.",
    ),
    Band(
        STAYS, 0.9, math.inf,
        "\"No performance deterioration even with sentences of length 50 or more\" (section 5.1). "
        "Such groups measure a ratio to a tenth. But long captions may be harder in themselves.",
    ),
    reported(
        CONVOLVED,
        '"We outperform the accuracy of the deep LSTM setup of Wu et al. (2016)" (Gehring et al. '
        "2017, abstract), an order of magnitude faster: no number follows for equal time.",
    ),
    reported(
        ATTENDED,
        '"Superior in quality while being more parallelizable and requiring significantly less '
        'time to train" (Vaswani et al. 2017, abstract): no number follows for equal time.',
    ),
)  # fmt: skip

CAPTIONS = [band.name for band in BANDS if band.name.startswith("captions")]


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train on words, then on captions; in the quick form on made-up sentences instead."""
    seeds, quick = seeds_of(effort, seed), effort.quick
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if quick else captions.RUNS
        words = on_words(effort, seeds, folder / "words", say)
        corpus = captions.for_effort(effort, folder / "text", seed, say)
        scored = on_captions(corpus, seeds, say) if corpus else None
    tables, kept = [words_table(words)], [*words.kept]
    measured: dict[str, Value] = dict.fromkeys(CAPTIONS, captions.MISSING)
    if scored:
        tables.append(captions_table(scored))
        kept += scored.kept
        measured = captions_measured(scored)
    if quick:
        measured = dict.fromkeys(CAPTIONS, "the quick form trains on no captions")
    draws = partial(draw, words, scored)
    return Result(words_measured(words) | measured, tables, draws, kept=kept)


class WordRun(NamedTuple):
    """The settings of a model that learns words."""

    shape: AnyConfig
    rate: float
    how: WordTask
    seed: int


class WordScores(NamedTuple):
    """By name and seed: shares by length of words in place, and of sentences without error."""

    lengths: Sequence[int]
    weights: Mapping[str, int]
    words: dict[str, list[list[float]]]
    whole: dict[str, list[list[float]]]
    kept: Sequence[Path] = ()


def on_words(effort: Effort, seeds: Sequence[int], folder: Path, say: Say) -> WordScores:
    """Let every model learn from each seed."""
    how = QUICK if effort.quick else FULL._replace(updates=effort.amount(2, FULL.updates))
    reference = equal.transformer(how.d_model, 2 * how.d_model, 4, 2, norm="pre")
    compared = equal.shapes(reference, VOCABULARY)
    runs = {
        (name, seed): WordRun(shape, WORD_RATES[name], how, seed)
        for seed in seeds
        for name, shape in compared.items()
    }
    jobs, done = {key: partial(spelling, run, folder) for key, run in runs.items()}, {}
    for (name, seed), found in captions.side_by_side(jobs, quick=effort.quick):
        done[name, seed] = found
        shares = ", ".join(map(number, found["words"]))
        lengths = ", ".join(map(str, how.tested))
        say(f"words, {name}, seed {seed}: {shares} right at lengths {lengths}")

    def by_name(what: str) -> dict[str, list[list[float]]]:
        return {name: [done[name, seed][what] for seed in seeds] for name in compared}

    sizes = {name: equal.weights(shape, VOCABULARY) for name, shape in compared.items()}
    files = [stored_at(run, folder) for run in runs.values()]
    return WordScores(how.tested, sizes, by_name("words"), by_name("whole"), files)


def spelling(run: WordRun, folder: Path) -> dict[str, list[float]]:
    """Return the shares by length of a model that has learned the language, stored or new."""

    def compute() -> dict[str, list[float]]:
        with drawn_from(run.seed) as generator:
            model = decodable(build_model(run.shape, VOCABULARY, VOCABULARY))
        learn(model, run.how.lengths, generator, most=run.how.updates, rate=run.rate)
        tests = [sentences(run.how.tests, length, generator) for length in run.how.tested]
        rights = [right(model, test).double() for test in tests]
        return {
            "words": [float(each.mean()) for each in rights],
            "whole": [float(each.prod(dim=1).mean()) for each in rights],
        }

    found: dict[str, list[float]] = stored(run, folder, compute)
    return found


class CaptionScores(NamedTuple):
    """BLEU of caption translations: by name, for each seed, of all captions and of each group."""

    title: str
    weights: Mapping[str, int]
    bleu: dict[str, list[float]]
    groups: dict[str, list[list[float]]]
    kept: Sequence[Path] = ()


def on_captions(corpus: CaptionCorpus, seeds: Sequence[int], say: Say) -> CaptionScores:
    """Train every model from each seed."""
    compared = equal.shapes(captions.transformer(quick=corpus.quick), corpus.vocabulary)
    sizes = {name: equal.weights(shape, corpus.vocabulary) for name, shape in compared.items()}
    runs = [(name, seed) for seed in seeds for name in compared]
    recipes = {(name, seed): corpus.recipe(compared[name], seed) for name, seed in runs}
    jobs = {run: partial(captions.outputs, corpus, recipe) for run, recipe in recipes.items()}
    source, reference = corpus.test()
    scores = {}
    for run, lines in captions.side_by_side(jobs, quick=corpus.quick):
        scores[run] = bleu(lines, reference), by_length(source, lines, reference)
        say(f"captions, {run[0]}, seed {run[1]}: BLEU {scores[run][0]:.1f}")
    whole = {name: [scores[name, seed][0] for seed in seeds] for name in compared}
    groups = {name: [scores[name, seed][1] for seed in seeds] for name in compared}
    kept = [corpus.finished(recipe) for recipe in recipes.values()]
    return CaptionScores(corpus.title, sizes, whole, groups, kept)


def by_length(source: Sequence[str], lines: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Return BLEU of the captions in each of the groups `BINS`; NaN for an empty group."""
    scores, least = [], 0
    for most in BINS:
        rows = [row for row, line in enumerate(source) if least < len(line.split()) <= most]
        pairs = [lines[row] for row in rows], [reference[row] for row in rows]
        scores.append(bleu(*pairs) if rows else math.nan)
        least = most
    return scores


def words_measured(found: WordScores) -> dict[str, Value]:
    """Return the quantities about words, as means over seeds.

    The share at the longest is compared if sentences of ten words have been learned.
    """
    ten = min(range(len(found.lengths)), key=lambda at: abs(found.lengths[at] - 10))
    measured: dict[str, Value] = {}
    for name, runs in found.words.items():
        mean = _means(runs)
        if found.lengths[-1] <= found.lengths[ten]:
            value: Value = "no sentence longer than ten words was tested"
        elif mean[ten] < LEARNED:
            value = f"only {mean[ten]:.0%} of the words are right at ten"
        else:
            value = mean[-1] / mean[ten]
        measured[FALL.format(name)] = value
    return measured


def captions_measured(found: CaptionScores) -> dict[str, Value]:
    """Return the quantities about captions, as means over seeds.

    Nothing is compared if one of the models with attention has learned nothing.
    """
    mean = {name: statistics.mean(scores) for name, scores in found.bleu.items()}
    for name in LOOKING:
        if mean[name] < captions.MEANINGFUL:
            why = f"BLEU of {name} is {mean[name]:.1f}, below {captions.MEANINGFUL:g}"
            return dict.fromkeys(CAPTIONS, why)
    groups = {name: _means(runs) for name, runs in found.groups.items()}
    short, long = (groups[PLAIN][end] / groups[BAHDANAU][end] for end in (0, -1))
    return {
        ADDED.format("Bahdanau's attention"): mean[BAHDANAU] - mean[PLAIN],
        ADDED.format("Luong's attention"): mean[LUONG] - mean[PLAIN],
        SINKS: long / short,
        STAYS: groups[BAHDANAU][-1] / groups[BAHDANAU][0],
        CONVOLVED: mean[CONVOLUTIONAL] - mean[LUONG],
        ATTENDED: mean[TRANSFORMER] - max(mean[BAHDANAU], mean[LUONG], mean[CONVOLUTIONAL]),
    }


def words_table(found: WordScores) -> Table:
    """Return shares of words, and of whole sentences, by length: the mean over seeds."""
    rows = [["model", "weights", *(f"{length} words" for length in found.lengths)]]
    for name in found.words:
        both = zip(_means(found.words[name]), _means(found.whole[name]), strict=True)
        cells = [f"{word:.1%} ({whole:.1%})" for word, whole in both]
        rows.append([name, f"{found.weights[name]:,}", *cells])
    return Table("Words that stand where they belong (and sentences without a mistake)", rows)


def captions_table(found: CaptionScores) -> Table:
    """Return BLEU of all captions by seed, and the mean over seeds in each group."""
    ends = zip((0, *BINS[:-2]), BINS[:-1], strict=True)
    heads = [*(f"{least + 1} to {most} words" for least, most in ends), f"{BINS[-2] + 1} and more"]
    rows = [["model", "weights", "BLEU by seed", *heads]]
    for name, scores in found.bleu.items():
        groups = [f"{score:.1f}" for score in _means(found.groups[name])]
        rows.append([name, f"{found.weights[name]:,}", joined(scores, ".1f"), *groups])
    return Table(f"BLEU on {found.title}, greedy search", rows)


def _means(runs: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.mean(each) for each in zip(*runs, strict=True)]


def draw(words: WordScores, scored: CaptionScores | None, figure: Any) -> None:
    """Quality by length: a line for each model, and a thin one for each seed."""
    panels = figure.subplots(1, 2)
    for axes, places, runs in (
        (panels[0], words.lengths, words.words),
        (panels[1], range(len(BINS)), scored.groups if scored else {}),
    ):
        for name, each in runs.items():
            [line] = axes.plot(places, _means(each), "o-", label=name)
            for one in each:
                axes.plot(places, one, color=line.get_color(), lw=0.5)
        axes.grid(alpha=0.3)
    panels[0].set(xlabel="words of a sentence", ylabel="share right", ylim=(0, 1.05))
    panels[0].legend(fontsize="small")
    panels[1].set(xlabel="words of a caption, at most", ylabel="BLEU")
    panels[1].set_xticks(range(len(BINS)), [*map(str, BINS[:-1]), "more"])


BOTTLENECK = Study(
    "bottleneck",
    "One vector for a sentence is a bottleneck, and attention opens it",
    "A neural network needs to be able to compress all the necessary information of a source "
    "sentence into a fixed-length vector. This may make it difficult for the neural network to "
    "cope with long sentences, especially those that are longer than the sentences in the training "
    "corpus.",
    "Bahdanau et al. 2015, section 1",
    BANDS,
    run,
    Times(quick=26, full=5100),
)
