"""The bottleneck: translation by length of source, through one vector and with attention."""

import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.studies import captions, equal
from crosshead.addons.studies.captions import MEANINGFUL, TranslationText
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.equal import BAHDANAU, CONVOLUTIONAL, LUONG, PLAIN, TRANSFORMER
from crosshead.addons.studies.fitting import drawn_from, train
from crosshead.addons.studies.formats import joined, number
from crosshead.addons.studies.lexicon import VOCABULARY, random_pairs, right, sentences
from crosshead.addons.studies.runs import RUNS, side_by_side
from crosshead.addons.studies.sources import stored, stored_at
from crosshead.addons.studies.study import Band, Result, Say, Study, Table, Value, reported
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


Scores = Mapping[tuple[str, int], Mapping[str, list[float]]]
"""By model and seed. Of words: `words`, the shares in place by length, and `whole`, the shares of
sentences without a mistake. Of captions: `bleu` of all, and `groups`, BLEU of each group."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train on words, then on captions; in the quick form on made-up sentences instead."""
    seeds, quick = seeds_of(effort, seed), effort.quick
    lengths = (QUICK if quick else FULL).tested
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if quick else RUNS
        words, sizes, kept = on_words(effort, seeds, folder / "words", say)
        tables = [words_table(words, lengths, sizes)]
        corpus = captions.for_effort(effort, folder / "text", seed, say)
        scores: Scores = {}
        measured: dict[str, Value] = dict.fromkeys(CAPTIONS, captions.MISSING)
        if corpus:
            scores, sizes, files = on_captions(corpus, seeds, say)
            tables.append(captions_table(scores, corpus.title, sizes))
            kept, measured = [*kept, *files], captions_measured(scores)
    if quick:
        measured = dict.fromkeys(CAPTIONS, "the quick form trains on no captions")
    measured = words_measured(words, lengths) | measured
    return Result(measured, tables, partial(draw, words, lengths, scores), kept=kept)


class WordRun(NamedTuple):
    """The settings of a model that learns words."""

    shape: AnyTokenConfig
    rate: float
    how: WordTask
    seed: int


def on_words(
    effort: Effort, seeds: Sequence[int], folder: Path, say: Say
) -> tuple[Scores, dict[str, int], list[Path]]:
    """Let every model learn from each seed; return scores, numbers of weights, and stored files."""
    how = QUICK if effort.quick else FULL._replace(updates=effort.amount(2, FULL.updates))
    reference = equal.transformer(how.d_model, 2 * how.d_model, 4, 2, norm="pre")
    compared = equal.shapes(reference, VOCABULARY)
    runs = {
        (name, seed): WordRun(shape, WORD_RATES[name], how, seed)
        for seed in seeds
        for name, shape in compared.items()
    }
    jobs, scores = {job: partial(spelling, run, folder) for job, run in runs.items()}, {}
    for (name, seed), found in side_by_side(jobs, quick=effort.quick):
        scores[name, seed] = found
        shares, lengths = ", ".join(map(number, found["words"])), ", ".join(map(str, how.tested))
        say(f"words, {name}, seed {seed}: {shares} right at lengths {lengths}")
    sizes = {name: equal.weights(shape, VOCABULARY) for name, shape in compared.items()}
    return scores, sizes, [stored_at(run, folder) for run in runs.values()]


def spelling(run: WordRun, folder: Path) -> dict[str, list[float]]:
    """Return the scores of a model that has learned the language, stored or new."""

    def compute() -> dict[str, list[float]]:
        with drawn_from(run.seed) as generator:
            model = decodable(build_model(run.shape, VOCABULARY, VOCABULARY))
        draw_pairs, most = partial(random_pairs, run.how.lengths, BATCH), run.how.updates
        train(model, draw_pairs, generator, most=most, rate=run.rate, warmup=max(1, most // 10))
        tests = [sentences(run.how.tests, length, generator) for length in run.how.tested]
        rights = [right(model, test).double() for test in tests]
        return {
            "words": [float(each.mean()) for each in rights],
            "whole": [float(each.prod(dim=1).mean()) for each in rights],
        }

    found: dict[str, list[float]] = stored(run, folder, compute)
    return found


def on_captions(
    corpus: TranslationText, seeds: Sequence[int], say: Say
) -> tuple[Scores, dict[str, int], list[Path]]:
    """Train every model from each seed; return scores, numbers of weights, and stored files."""
    compared = equal.shapes(captions.transformer(quick=corpus.quick), corpus.vocabulary)
    recipes = {
        (name, seed): corpus.recipe(shape, seed)
        for seed in seeds
        for name, shape in compared.items()
    }
    jobs = {run: partial(captions.outputs, corpus, recipe) for run, recipe in recipes.items()}
    (source, reference), scores = corpus.test(), {}
    for run, lines in side_by_side(jobs, quick=corpus.quick):
        whole, groups = bleu(lines, reference), by_length(source, lines, reference)
        scores[run] = {"bleu": [whole], "groups": groups}
        say(f"captions, {run[0]}, seed {run[1]}: BLEU {whole:.1f}")
    sizes = {name: equal.weights(shape, corpus.vocabulary) for name, shape in compared.items()}
    return scores, sizes, [corpus.finished(recipe) for recipe in recipes.values()]


def by_length(source: Sequence[str], lines: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Return BLEU of the captions in each of the groups `BINS`; NaN for an empty group."""
    scores, least = [], 0
    for most in BINS:
        rows = [row for row, line in enumerate(source) if least < len(line.split()) <= most]
        pairs = [lines[row] for row in rows], [reference[row] for row in rows]
        scores.append(bleu(*pairs) if rows else math.nan)
        least = most
    return scores


def by_seed(scores: Scores, score_name: str) -> dict[str, list[list[float]]]:
    """Return one kind of scores by model, in the order of the seeds."""
    found: dict[str, list[list[float]]] = {name: [] for name in (PLAIN, *LOOKING)}
    for name, seed in sorted(scores, key=lambda run: run[1]):
        found[name].append(list(scores[name, seed][score_name]))
    return {name: each for name, each in found.items() if each}


def means(scores: Scores, score_name: str) -> dict[str, list[float]]:
    """Return one kind of scores by model, as means over seeds."""
    return {
        name: [statistics.mean(each) for each in zip(*runs, strict=True)]
        for name, runs in by_seed(scores, score_name).items()
    }


def words_measured(scores: Scores, lengths: Sequence[int]) -> dict[str, Value]:
    """Return the quantities about words, if sentences of ten words have been learned."""
    ten = min(range(len(lengths)), key=lambda at: abs(lengths[at] - 10))
    measured: dict[str, Value] = {}
    for name, mean in means(scores, "words").items():
        if lengths[-1] <= lengths[ten]:
            value: Value = "no sentence longer than ten words was tested"
        elif mean[ten] < LEARNED:
            value = f"only {mean[ten]:.0%} of the words are right at ten"
        else:
            value = mean[-1] / mean[ten]
        measured[FALL.format(name)] = value
    return measured


def captions_measured(scores: Scores) -> dict[str, Value]:
    """Return the quantities about captions, if all models with attention have learned something."""
    mean = {name: each for name, [each] in means(scores, "bleu").items()}
    for name in LOOKING:
        if mean[name] < MEANINGFUL:
            why = f"BLEU of {name} is {mean[name]:.1f}, below {MEANINGFUL:g}"
            return dict.fromkeys(CAPTIONS, why)
    groups = means(scores, "groups")
    short, long = (groups[PLAIN][end] / groups[BAHDANAU][end] for end in (0, -1))
    return {
        ADDED.format("Bahdanau's attention"): mean[BAHDANAU] - mean[PLAIN],
        ADDED.format("Luong's attention"): mean[LUONG] - mean[PLAIN],
        SINKS: long / short,
        STAYS: groups[BAHDANAU][-1] / groups[BAHDANAU][0],
        CONVOLVED: mean[CONVOLUTIONAL] - mean[LUONG],
        ATTENDED: mean[TRANSFORMER] - max(mean[BAHDANAU], mean[LUONG], mean[CONVOLUTIONAL]),
    }


def words_table(scores: Scores, lengths: Sequence[int], sizes: Mapping[str, int]) -> Table:
    """Return shares of words, and of whole sentences, by length: the mean over seeds."""
    rows = [["model", "weights", *(f"{length} words" for length in lengths)]]
    whole = means(scores, "whole")
    for name, words in means(scores, "words").items():
        cells = (f"{word:.1%} ({all_:.1%})" for word, all_ in zip(words, whole[name], strict=True))
        rows.append([name, f"{sizes[name]:,}", *cells])
    return Table("Words that stand where they belong (and sentences without a mistake)", rows)


def captions_table(scores: Scores, title: str, sizes: Mapping[str, int]) -> Table:
    """Return BLEU of all captions by seed, and the mean over seeds in each group."""
    ends = zip((0, *BINS[:-2]), BINS[:-1], strict=True)
    heads = [*(f"{least + 1} to {most} words" for least, most in ends), f"{BINS[-2] + 1} and more"]
    rows, groups = [["model", "weights", "BLEU by seed", *heads]], means(scores, "groups")
    for name, runs in by_seed(scores, "bleu").items():
        bleu_of = joined((each for [each] in runs), ".1f")
        rows.append([name, f"{sizes[name]:,}", bleu_of, *(f"{g:.1f}" for g in groups[name])])
    return Table(f"BLEU on {title}, greedy search", rows)


def draw(words: Scores, lengths: Sequence[int], scores: Scores, figure: Any) -> None:
    """Draw quality by length: a line for each model, and a thin one for each seed."""
    left, right = figure.subplots(1, 2)
    for axes, places, found, score_name in (
        (left, lengths, words, "words"), (right, range(len(BINS)), scores, "groups"),
    ):  # fmt: skip
        runs = by_seed(found, score_name)
        for name, mean in means(found, score_name).items():
            [line] = axes.plot(places, mean, "o-", label=name)
            for one in runs[name]:
                axes.plot(places, one, color=line.get_color(), lw=0.5)
        axes.grid(alpha=0.3)
    left.set(xlabel="words of a sentence", ylabel="share right", ylim=(0, 1.05))
    left.legend(fontsize="small")
    right.set(xlabel="words of a caption, at most", ylabel="BLEU")
    right.set_xticks(range(len(BINS)), [*map(str, BINS[:-1]), "more"])


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
