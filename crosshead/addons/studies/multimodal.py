"""Translation beside images: whether the image helps only where the text is ambiguous."""

import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.addons.studies import runs
from crosshead.addons.studies.effort import Effort, Times, seeds_of
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.study import (
    Band,
    Result,
    Say,
    Study,
    Table,
    Value,
    after_training,
    reported,
)
from crosshead.addons.vision.data.ambiguous import (
    AMBIGUOUS,
    ambiguous_right,
    is_ambiguous,
    write_ambiguous,
)
from crosshead.addons.vision.data.caption_sets import CaptionSet, read_caption_set
from crosshead.addons.vision.data.image_pairs import PAIRS, other_images
from crosshead.addons.vision.data.scenes import IMAGES
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.decoding.search import DecodeConfig
from crosshead.pipelines.translator import Translator
from crosshead.tasks.loading import load_as
from crosshead.tasks.recipes import compose

RIGHT, SHUFFLED, WITHOUT = "right image", "shuffled image", "no image"

AMBIGUOUS_RIGHT = f"ambiguous words right, in per cent, {RIGHT}"
AMBIGUOUS_SHUFFLED = f"ambiguous words right, {SHUFFLED}"
AMBIGUOUS_WITHOUT = f"ambiguous words right, {WITHOUT}: a Transformer of the same shape"
EXACT_GAIN = (
    "sentences without an ambiguous word: exactly right, in points, with the image less without"
)
EXACT_SHUFFLED = (
    "sentences without an ambiguous word: exactly right, in points, right image less shuffled image"
)
EXACT_WITHOUT = "sentences without an ambiguous word that are exactly right, no image"
GATE = "mean gate of the ambiguous word"
OTHER_GATE = "mean gate of the other words"

BANDS = (
    Band(
        AMBIGUOUS_RIGHT, 95, 100,
        "The colour of the ambiguous word names one object of the image, and its shape is the "
        "answer. A twentieth is left for shapes at the edges of patches.",
    ),
    Band(
        AMBIGUOUS_SHUFFLED, 35, 60,
        "Another image is independent of the answer: at most one half, and three standard errors "
        "of 500 words are 7 points. It is less where the other image shows a third shape.",
    ),
    Band(
        AMBIGUOUS_WITHOUT, 43, 57,
        "Nothing in the sentence says which: one half, within three standard errors of 500 words.",
    ),
    Band(
        EXACT_GAIN, -2, 2,
        "The sentence says everything, so a text model is right too. Two of a hundred are left "
        "for what training has not reached.",
    ),
    Band(
        EXACT_SHUFFLED, -2, 2,
        "A model that looks where the text is ambiguous only is not misled elsewhere.",
    ),
    reported(EXACT_WITHOUT, "It shows whether the difference has room on both sides."),
    reported(
        GATE,
        'Wu et al. 2021, "Good for Misconceived Reasons", found gates near zero on Multi30k. The '
        "scale of the two hidden states is free, so no number follows for this gate.",
    ),
    reported(OTHER_GATE, "The same reason."),
)  # fmt: skip

_TRAIN = {
    "max_updates": 4000, "learning_rate": 0.003, "warmup": 100, "valid_every": 1000,
    "batch_tokens": 1024, "device": "cpu", "threads": 1, "precision": "float32", "keep_last": 1,
    "schedule": "cosine", "average": 0, "patience": 0, "label_smoothing": 0.0,
}  # fmt: skip
_SHAPE = {
    "encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "d_ff": 128, "heads": 4,
    "dropout": 0.0, "norm": "pre",
}  # fmt: skip
_OVER_IMAGES = {"architecture": "multimodal", "patch_size": 6, "patch_positions": "sinusoidal"}


class PairFindings(NamedTuple):
    """The results of one seed, in per cent, by `RIGHT`, `SHUFFLED` and `WITHOUT`."""

    words: Mapping[str, float]
    """The ambiguous words that are right."""
    exact: Mapping[str, float]
    """The sentences without an ambiguous word that are exactly right."""
    gate: float
    other_gate: float


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train a model beside images and one without, and test both with several images."""
    seeds = seeds_of(effort, seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if effort.quick else runs.RUNS / "ambiguous"
        sizes = {"size": 24, "train": 40, "others": 6} if effort.quick else {}
        write_ambiguous(folder / "data", **sizes)
        _write_sides(folder / "data")
        jobs = {each: partial(_measured, folder, effort, each) for each in seeds}
        found: dict[int, PairFindings] = {}
        kept = []
        for each, result in runs.side_by_side(jobs, quick=effort.quick):
            found[each] = result
            say(f"seed {each}: " + ", ".join(f"{n} {v:.1f} %" for n, v in result.words.items()))
            recipes = _recipes(folder, effort, each)
            kept += [runs.finished(_place(folder, effort, recipe)) for recipe in recipes]
    results = [found[each] for each in seeds]
    return Result(quantities(results, effort), tables(results), partial(draw, results), kept=kept)


def _write_sides(data: Path) -> None:
    """Write the sentences of each set as aligned files, for the model without images."""
    for name in ("train", "valid"):
        rows = [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]
        for key, end in (("source", "en"), ("target", "de")):
            (data / f"{name}.{end}").write_text("".join(f"{row[key]}\n" for row in rows))


def _recipes(folder: Path, effort: Effort, seed: int) -> tuple[Any, Any]:
    """Return the recipe of the model beside images, and of the model without."""
    data = folder / "data"
    updates = 2 if effort.quick else max(2, round(effort.share * _TRAIN["max_updates"]))  # type: ignore[operator]
    train = {**_TRAIN, "max_updates": updates, "seed": seed}
    train |= {"warmup": min(100, updates), "valid_every": max(1, updates // 4)}
    beside = {
        "images": [str(data / IMAGES)],
        "pairs": [str(data / "train.jsonl")],
        "valid_pairs": [str(data / "valid.jsonl")],
    }
    alone = {"source": "train.en", "target": "train.de"}
    alone |= {"valid_source": "valid.en", "valid_target": "valid.de"}
    shared = {
        "tokenizer": {"kind": "words", "vocab_size": 8000},
        "train": train,
        "decode": {"beam": 1},
    }
    sides = {key: [str(data / name)] for key, name in alone.items()}
    return (
        compose(recipe={"data": beside, "model": {**_SHAPE, **_OVER_IMAGES}, **shared}),
        compose(recipe={"data": sides, "model": _SHAPE, **shared}),
    )


def _place(folder: Path, effort: Effort, recipe: Any) -> Path:
    return runs.place_of(folder, recipe, effort.share)


def _measured(folder: Path, effort: Effort, seed: int) -> PairFindings:
    """Train both models, if they are not trained, and return their results on the test set."""
    recipes = _recipes(folder, effort, seed)
    places = [_place(folder, effort, recipe) for recipe in recipes]
    for place, recipe in zip(places, recipes, strict=True):
        runs.ensure_trained(place, recipe)
    beside = load_as(MultimodalTranslator, places[0], "cpu")
    alone = load_as(Translator, places[1], "cpu")
    size, greedy = beside.bundle.config.image_size, DecodeConfig(beam=1)
    data = folder / "data"
    test = read_caption_set([str(data / IMAGES)], [str(data / "test.jsonl")], size, kind=PAIRS)
    right = [each.image for each in test.captions]
    found = {
        RIGHT: beside.search(test.pixels, right, test.sources, greedy),
        SHUFFLED: beside.search(test.pixels, other_images(right), test.sources, greedy),
        WITHOUT: alone.translate(test.sources, decode=greedy),
    }
    outputs = {name: [best[0].text for best in each] for name, each in found.items()}
    gate, other = gates(beside, test)
    return PairFindings(
        {
            name: 100 * ambiguous_right(test.sources, texts, test.texts)
            for name, texts in outputs.items()
        },
        {name: exact_elsewhere(test.sources, texts, test.texts) for name, texts in outputs.items()},
        gate,
        other,
    )


def exact_elsewhere(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> float:
    """Return the percentage of exact translations among sentences without an ambiguous word."""
    rows = zip(sources, outputs, references, strict=True)
    return 100 * statistics.mean(
        output == reference for source, output, reference in rows if not is_ambiguous(source)
    )


def gates(beside: MultimodalTranslator, test: CaptionSet) -> tuple[float, float]:
    """Return the mean gate of the ambiguous word, and of the other words of its sentences."""
    of_word: dict[bool, list[float]] = {True: [], False: []}
    for each in test.captions[:200]:
        if is_ambiguous(each.source):
            # The last piece is the end of the sentence.
            for piece, gate in beside.gates(test.pixels[each.image], each.source)[:-1]:
                of_word[piece == AMBIGUOUS].append(gate)
    return statistics.mean(of_word[True]), statistics.mean(of_word[False])


def quantities(results: Sequence[PairFindings], effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands, averaged over seeds."""

    def mean(values: Sequence[float]) -> float:
        return statistics.mean(values)

    values = {
        AMBIGUOUS_RIGHT: mean([each.words[RIGHT] for each in results]),
        AMBIGUOUS_SHUFFLED: mean([each.words[SHUFFLED] for each in results]),
        AMBIGUOUS_WITHOUT: mean([each.words[WITHOUT] for each in results]),
        EXACT_GAIN: mean([each.exact[RIGHT] - each.exact[WITHOUT] for each in results]),
        EXACT_SHUFFLED: mean([each.exact[RIGHT] - each.exact[SHUFFLED] for each in results]),
        EXACT_WITHOUT: mean([each.exact[WITHOUT] for each in results]),
        GATE: mean([each.gate for each in results]),
        OTHER_GATE: mean([each.other_gate for each in results]),
    }
    return after_training(effort, values)


def tables(results: Sequence[PairFindings]) -> list[Table]:
    """Return ambiguous words right and sentences exactly right, by image and seed."""
    rows = [["image", "ambiguous words right, %", "other sentences exactly right, %"]]
    rows += [
        [
            name,
            joined((each.words[name] for each in results), ".1f"),
            joined((each.exact[name] for each in results), ".1f"),
        ]
        for name in (RIGHT, SHUFFLED, WITHOUT)
    ]
    return [Table("1,000 test sentences, half of them with an ambiguous word, by seed", rows)]


def draw(results: Sequence[PairFindings], figure: Any) -> None:
    """Draw both percentages by image, a point for each seed."""
    axes = figure.subplots()
    names = [RIGHT, SHUFFLED, WITHOUT]
    for seed, each in enumerate(results):
        for values, mark, colour in ((each.words, "o", "C0"), (each.exact, "s", "C1")):
            label = {"o": "ambiguous words right", "s": "other sentences exactly right"}[mark]
            shown = [values[name] for name in names]
            axes.plot(names, shown, mark, color=colour, alpha=0.7, label=None if seed else label)
    axes.axhline(50, color="gray", ls=":", label="chance")
    axes.set(ylim=(0, 105), ylabel="per cent")
    axes.grid(alpha=0.3)
    axes.legend()


MULTIMODAL = Study(
    "multimodal",
    "The image helps translation only where the text is ambiguous",
    "Our results show that under limited textual context, models are capable of leveraging the "
    "visual input to generate better translations.",
    "Caglayan et al. 2019, abstract",
    BANDS,
    run,
    Times(quick=6, full=600),  # estimated: 860 seconds in one thread of an Intel Xeon
)
