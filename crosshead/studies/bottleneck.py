"""The bottleneck: translation by length of source, through one vector and with attention."""

import hashlib
import json
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead import __version__
from crosshead.evaluation import bleu
from crosshead.models.base import decodable
from crosshead.models.registry import AnyConfig, build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.studies.captions import (
    MEANINGFUL,
    RUNS,
    Corpus,
    kept_in,
    made_up,
    multi30k,
    outputs,
    run_name,
    side_by_side,
    transformer,
)
from crosshead.studies.effort import Effort, seeds_of
from crosshead.studies.equal import (
    BAHDANAU,
    CONVOLUTIONAL,
    LUONG,
    PLAIN,
    TRANSFORMER,
    shapes,
    weights,
)
from crosshead.studies.fitting import drawn_from
from crosshead.studies.lexicon import VOCABULARY, learn, right, sentences
from crosshead.studies.sources import THIS_CODE
from crosshead.studies.study import (
    Band,
    Reported,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    number,
)
from crosshead.studies.times import TIMES
from crosshead.system.files import atomic_write, make_directory

LOOKING = (BAHDANAU, LUONG, CONVOLUTIONAL, TRANSFORMER)

WORD_RATES = {PLAIN: 6e-3, BAHDANAU: 6e-3, LUONG: 6e-3, CONVOLUTIONAL: 4e-3, TRANSFORMER: 2e-3}
"""Peaks of the learning rate for words, by short trials: at half of this one Bahdanau's attention
took more than twice the updates."""

BINS = (8, 11, 15, 1000)
"""The most words of a caption that belongs to each group: 174, 367, 314 and 145 of the captions."""


class Words(NamedTuple):
    """Amounts of the word task: width, lengths, updates, and sentences of each length."""

    d_model: int
    lengths: tuple[int, int]
    tested: tuple[int, ...]
    updates: int
    tests: int


FULL = Words(72, (5, 80), (5, 10, 20, 30, 40, 60, 80), 3000, 64)
QUICK = Words(72, (5, 10), (5, 10), 2, 4)

LEARNED = 0.5
"""The share of words right at ten from which on less at the longest says something."""

FALL = "words, {}: share right at the longest over that at ten"
ADDED = "captions: BLEU that {} adds"
SINKS = "captions: BLEU without attention over BLEU with Bahdanau's, longest group over shortest"
STAYS = "captions, LSTM, Bahdanau: BLEU of the longest group over that of the shortest"
CONVOLVED = "captions: BLEU of ConvS2S less that of LSTM, Luong"
ATTENDED = "captions: BLEU of the Transformer less the best of the others"

BANDS = (
    Band(
        FALL.format(PLAIN), 0, 0.5,
        "A vector of fixed length holds so many words: what it holds of ten it does not of eighty.",
    ),
    *(
        Band(FALL.format(name), 0.95, 1.05, "Each word is looked up where it stands.")
        for name in LOOKING
    ),
    Band(
        ADDED.format("Bahdanau's attention"), 2, math.inf,
        "7.6 to 8.9 in Bahdanau et al. 2015, Table 1, on longer sentences. Two seeds of one model "
        "lay up to 1.6 BLEU apart in earlier runs: a difference below 2 BLEU cannot be told from "
        "noise.",
    ),
    Band(
        ADDED.format("Luong's attention"), 2, math.inf,
        "2.8 in Luong et al. 2015, Table 1; the lower end as above.",
    ),
    Band(
        SINKS, 0, 0.9,
        "Figure 2: the two part as sentences grow. The 145 to 367 captions of a group tell BLEU to "
        "about a twentieth: a ratio of four of them within a tenth.",
    ),
    Band(
        STAYS, 0.9, math.inf,
        "\"No performance deterioration even with sentences of length 50 or more\" (section 5.1); "
        "a tenth is what such groups tell. But long captions may be harder in themselves.",
    ),
)  # fmt: skip

REPORTED = (
    Reported(
        CONVOLVED,
        '"We outperform the accuracy of the deep LSTM setup of Wu et al. (2016)" (Gehring et al. '
        "2017, abstract), an order of magnitude faster: no number follows for equal time.",
    ),
    Reported(
        ATTENDED,
        '"Superior in quality while being more parallelizable and requiring significantly less '
        'time to train" (Vaswani et al. 2017, abstract): no number follows for equal time.',
    ),
)

CAPTIONS = [
    name
    for name in (*(band.name for band in BANDS), *(each.name for each in REPORTED))
    if name.startswith("captions")
]


def _transformer(d_model: int) -> TransformerConfig:
    """For words: with four heads, norms first."""
    return TransformerConfig.model_validate(
        {
            "d_model": d_model, "d_ff": 2 * d_model, "heads": 4, "encoder_layers": 2,
            "decoder_layers": 2, "norm": "pre", "dropout": 0.0,
        }
    )  # fmt: skip


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Words, then captions where there are any; in the quick form sentences of words for them."""
    seeds, quick = seeds_of(effort, seed), effort.quick
    with tempfile.TemporaryDirectory() as scratch:
        kept = Path(scratch) if quick else RUNS
        spelled = on_words(effort, seeds, kept / "words", say)
        corpus = made_up(kept / "text", seed) if quick else multi30k(effort, say)
        scored = on_captions(corpus, seeds, say) if corpus else None
    measured, tables = words_measured(spelled), [words_table(spelled)]
    if scored:
        tables.append(captions_table(scored))
    if quick:
        measured |= dict.fromkeys(CAPTIONS, Unmeasured("the quick form trains on no captions"))
    elif scored:
        measured |= captions_measured(scored)
    else:
        measured |= dict.fromkeys(CAPTIONS, Unmeasured("the captions are not there"))
    found = [*spelled.kept, *(scored.kept if scored else [])]
    return Result(measured, tables, partial(draw, spelled, scored), kept=found)


class Learning(NamedTuple):
    """A model that learns words, and what it depends on."""

    shape: AnyConfig
    rate: float
    how: Words
    seed: int

    def settings(self) -> dict[str, Any]:
        """All that tells one from another, the code that learns among it."""
        changed = {"shape": self.shape.model_dump(), "how": self.how._asdict()}
        return {**self._asdict(), **changed, "crosshead": __version__, "code": THIS_CODE}

    def place(self, kept: Path) -> Path:
        """The file in the folder `kept` with what came of it."""
        name = hashlib.sha256(json.dumps(self.settings()).encode()).hexdigest()[:16]
        return kept / f"{name}.json"


class Spelled(NamedTuple):
    """Results of the word task: by name, for each seed, shares by length."""

    lengths: Sequence[int]
    weights: Mapping[str, int]
    words: dict[str, list[list[float]]]
    """Shares of words at their correct position."""
    whole: dict[str, list[list[float]]]
    """Shares of sentences without a mistake."""
    kept: Sequence[Path] = ()


def on_words(effort: Effort, seeds: Sequence[int], kept: Path, say: Say) -> Spelled:
    """Every model, learned from each seed."""
    how = QUICK if effort.quick else FULL._replace(updates=effort.amount(2, FULL.updates))
    compared = shapes(_transformer(how.d_model), VOCABULARY)
    sizes = {name: weights(shape, VOCABULARY) for name, shape in compared.items()}
    runs = {
        f"{name}, seed {seed}": Learning(shape, WORD_RATES[name], how, seed)
        for seed in seeds
        for name, shape in compared.items()
    }
    jobs, done = {name: partial(spelling, run, kept) for name, run in runs.items()}, {}
    for job, found in side_by_side(jobs, quick=effort.quick):
        done[job] = found
        shares = ", ".join(map(number, found["words"]))
        say(f"words, {job}: {shares} right at lengths {', '.join(map(str, how.tested))}")

    def by_name(what: str) -> dict[str, list[list[float]]]:
        return {n: [done[f"{n}, seed {seed}"][what] for seed in seeds] for n in compared}

    files = [run.place(kept) for run in runs.values()]
    return Spelled(how.tested, sizes, by_name("words"), by_name("whole"), files)


def spelling(run: Learning, kept: Path) -> dict[str, list[float]]:
    """Learn a language and be tested in it, or what came of that before: shares by length."""
    place, (shape, rate, how, seed) = run.place(kept), run
    if place.is_file():
        found: dict[str, list[float]] = json.loads(place.read_text())["found"]
        return found
    with drawn_from(seed) as generator:
        model = decodable(build_model(shape, VOCABULARY, VOCABULARY))
    learn(model, how.lengths, generator, most=how.updates, rate=rate)
    found = {"words": [], "whole": []}
    for length in how.tested:
        stands = right(model, sentences(how.tests, length, generator)).double()
        found["words"].append(float(stands.mean()))
        found["whole"].append(float(stands.prod(dim=1).mean()))
    make_directory(kept)
    atomic_write(place, json.dumps({**run.settings(), "found": found}, indent=1).encode())
    return found


class Scored(NamedTuple):
    """BLEU of caption translations: by name, for each seed, of all captions and of each group."""

    title: str
    weights: Mapping[str, int]
    bleu: dict[str, list[float]]
    groups: dict[str, list[list[float]]]
    kept: Sequence[Path] = ()


def on_captions(corpus: Corpus, seeds: Sequence[int], say: Say) -> Scored:
    """Every model, trained from each seed."""
    compared = shapes(transformer(quick=corpus.quick), corpus.vocabulary)
    sizes = {name: weights(shape, corpus.vocabulary) for name, shape in compared.items()}
    jobs = {}
    for seed in seeds:
        for name, shape in compared.items():
            recipe = corpus.recipe(shape, seed)
            place = run_name(shape, seed)
            jobs[f"{name}, seed {seed}"] = partial(outputs, corpus, place, recipe)
    source, reference = corpus.test()
    all_of, groups = {}, {}
    for job, lines in side_by_side(jobs, quick=corpus.quick):
        all_of[job], groups[job] = bleu(lines, reference), by_length(source, lines, reference)
        say(f"captions, {job}: BLEU {all_of[job]:.1f}")
    return Scored(
        corpus.title,
        sizes,
        {name: [all_of[f"{name}, seed {seed}"] for seed in seeds] for name in compared},
        {name: [groups[f"{name}, seed {seed}"] for seed in seeds] for name in compared},
        [kept_in(corpus, run_name(each, seed)) for each in compared.values() for seed in seeds],
    )


def by_length(source: Sequence[str], lines: Sequence[str], reference: Sequence[str]) -> list[float]:
    """BLEU of the captions of each of the groups `BINS`; NaN where it has none."""
    scores, least = [], 0
    for most in BINS:
        rows = [row for row, line in enumerate(source) if least < len(line.split()) <= most]
        pairs = [lines[row] for row in rows], [reference[row] for row in rows]
        scores.append(bleu(*pairs) if rows else math.nan)
        least = most
    return scores


def words_measured(found: Spelled) -> dict[str, Value]:
    """The quantities of the bands about words, means over seeds.

    What is left at the longest tells something where sentences of ten words have been learned.
    """
    ten = min(range(len(found.lengths)), key=lambda at: abs(found.lengths[at] - 10))
    measured: dict[str, Value] = {}
    for name, runs in found.words.items():
        mean = _means(runs)
        value: Value = Unmeasured("no sentence longer than ten words was tested")
        if found.lengths[-1] > found.lengths[ten]:
            value = Unmeasured(f"only {mean[ten]:.0%} of the words are right at ten")
            if mean[ten] >= LEARNED:
                value = mean[-1] / mean[ten]
        measured[FALL.format(name)] = value
    return measured


def captions_measured(found: Scored) -> dict[str, Value]:
    """The quantities of the bands about captions, means over seeds.

    Nothing is compared where not even the models with attention have learned something.
    """
    mean = {name: statistics.mean(scores) for name, scores in found.bleu.items()}
    low = [name for name in LOOKING if mean[name] < MEANINGFUL]
    if low:
        why = f"BLEU of {low[0]} is {mean[low[0]]:.1f}, below {MEANINGFUL:g}"
        return dict.fromkeys(CAPTIONS, Unmeasured(why))
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


def words_table(found: Spelled) -> Table:
    """Shares of words, and of whole sentences, by length: the mean over seeds."""
    rows = [["model", "weights", *(f"{length} words" for length in found.lengths)]]
    for name in found.words:
        both = zip(_means(found.words[name]), _means(found.whole[name]), strict=True)
        cells = [f"{word:.1%} ({whole:.1%})" for word, whole in both]
        rows.append([name, f"{found.weights[name]:,}", *cells])
    return Table("Words that stand where they belong (and sentences without a mistake)", rows)


def captions_table(found: Scored) -> Table:
    """BLEU of all captions by seed, and the mean over seeds in each group."""
    heads, least = [], 0
    for most in BINS:
        heads.append(f"{least + 1} to {most} words" if most < BINS[-1] else f"{least + 1} and more")
        least = most
    rows = [["model", "weights", "BLEU by seed", *heads]]
    for name, scores in found.bleu.items():
        groups = [f"{score:.1f}" for score in _means(found.groups[name])]
        seeds = ", ".join(f"{score:.1f}" for score in scores)
        rows.append([name, f"{found.weights[name]:,}", seeds, *groups])
    return Table(f"BLEU on {found.title}, greedy search", rows)


def _means(runs: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.mean(each) for each in zip(*runs, strict=True)]


def draw(spelled: Spelled, scored: Scored | None, figure: Any) -> None:
    """Quality by length, a line a model and a thin one a seed."""
    panels = figure.subplots(1, 2)
    for axes, places, runs in (
        (panels[0], spelled.lengths, spelled.words),
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
    TIMES["bottleneck"],
    REPORTED,
)
