"""Captions of scenes: whether the cross-attention of a noun finds the object that it names."""

import math
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

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
from crosshead.addons.vision.caption_maps import Grounding, grounding
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.caption_scores import caption_scores
from crosshead.addons.vision.data.caption_sets import read_caption_set
from crosshead.addons.vision.data.scenes import IMAGES, read_regions, write_scenes
from crosshead.decoding.search import DecodeConfig
from crosshead.tasks.loading import load_as
from crosshead.tasks.recipes import compose

EXACT = "captions of new scenes that are exactly right, in per cent"
UNSEEN = "captions of scenes with combinations not in training that are exactly right, in per cent"
INSIDE = "weight of a noun inside the region of its object, best head"
PEAKS = "nouns whose largest weight is inside the region, best head"
CHANCE = "weight inside the region for uniform attention"
UNSEEN_INSIDE = "weight inside the region, best head, combinations not in training"
FIRST = "first layer of the decoder in which half of the weight of a noun is inside, best head"

BANDS = (
    Band(
        EXACT, 95, 100,
        "A caption is a function of its scene, and 12,000 scenes show every combination of words "
        "hundreds of times. A twentieth is left for edges between places.",
    ),
    Band(
        INSIDE, 0.8, 1,
        "The pixels of one object decide a noun. A fifth is left for patches beside the region, "
        "whose hidden states contain information from it.",
    ),
    Band(PEAKS, 0.8, 1, "As for the weight."),
    reported(CHANCE, "The area of the regions: about 8 % of the patches."),
    reported(UNSEEN, "No source has a figure for these scenes."),
    reported(UNSEEN_INSIDE, "Colour and shape are known, their combination is not."),
    reported(FIRST, "Layers that only collect the caption so far need no image."),
)  # fmt: skip

_TRAIN = {
    "max_updates": 3000, "learning_rate": 0.003, "warmup": 200, "valid_every": 750, "device": "cpu",
    "threads": 1, "keep_last": 1,
}  # fmt: skip
MEASURED_SCENES = 200
"""The scenes of each set whose attention is measured."""


class NounFindings(NamedTuple):
    """The results of a captioner."""

    exact: float
    unseen: float
    valid: Grounding
    test: Grounding
    new: Grounding
    """The attention in scenes of combinations that training did not have."""


def run(effort: Effort, seed: int, say: Say) -> Result:
    """Train a captioner of scenes, and measure the attention of its nouns."""
    seeds = seeds_of(effort, seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if effort.quick else runs.RUNS / "scenes"
        sizes = {"train": 40, "others": 6} if effort.quick else {}
        write_scenes(folder / "data", **sizes)
        jobs = {each: partial(_measured, folder, effort, each) for each in seeds}
        found: dict[int, NounFindings] = {}
        kept = []
        for each, result in runs.side_by_side(jobs, quick=effort.quick):
            found[each] = result
            say(f"seed {each}: {result.exact:.1f} % exactly right, inside {_inside(result)[0]:.2f}")
            kept.append(runs.finished(_place(folder, effort, each)))
    results = [found[each] for each in seeds]
    return Result(
        quantities(results, effort), tables(results), partial(draw, seeds, results), kept=kept
    )


def _recipe(folder: Path, effort: Effort, seed: int) -> Any:
    data = folder / "data"
    updates = 2 if effort.quick else max(2, round(effort.share * _TRAIN["max_updates"]))  # type: ignore[operator]
    train = {**_TRAIN, "max_updates": updates, "seed": seed}
    train |= {"warmup": min(200, updates), "valid_every": max(1, updates // 4)}
    return compose(
        recipe={
            "data": {
                "images": [str(data / IMAGES)], "captions": [str(data / "train.jsonl")],
                "valid_captions": [str(data / "valid.jsonl")],
            },
            "model": {"architecture": "captioner"},
            "train": train,
            "decode": {"beam": 1},
        }
    )  # fmt: skip


def _place(folder: Path, effort: Effort, seed: int) -> Path:
    return runs.place_of(folder, _recipe(folder, effort, seed), effort.share)


def _measured(folder: Path, effort: Effort, seed: int) -> NounFindings:
    """Train a captioner, if it is not trained, and return its results."""
    place, recipe = _place(folder, effort, seed), _recipe(folder, effort, seed)
    runs.ensure_trained(place, recipe)
    captioner = load_as(ImageCaptioner, place, "cpu")
    exact = partial(_exact, captioner, folder / "data")
    attention = partial(_attention, captioner, folder / "data")
    return NounFindings(
        exact("test"), exact("unseen"), attention("valid"), attention("test"), attention("unseen")
    )


def _exact(captioner: ImageCaptioner, data: Path, name: str) -> float:
    """Return the percentage of captions of a set that are exactly right."""
    given = read_caption_set(
        [str(data / IMAGES)], [str(data / f"{name}.jsonl")], captioner.bundle.config.image_size
    )
    best = captioner.search(given.pixels, DecodeConfig(beam=1))
    texts = [each[0].text for each in best]
    return caption_scores(texts, given.references(), [])[-1].value


def _attention(captioner: ImageCaptioner, data: Path, name: str) -> Grounding:
    """Return the attention of the nouns of the first scenes of a set."""
    path = data / f"{name}.jsonl"
    given = read_caption_set([str(data / IMAGES)], [str(path)], captioner.bundle.config.image_size)
    rows = slice(0, MEASURED_SCENES)
    pixels = [given.pixels[each.image] for each in given.captions[rows]]
    return grounding(captioner, pixels, given.texts[rows], read_regions(path)[rows])


def _inside(found: NounFindings) -> tuple[float, float, float]:
    """Return weight and peaks on the test set, and weight for new combinations.

    They are of the head with the most weight inside on the validation set.
    """
    layer, head = (each - 1 for each in found.valid.best())
    return (
        float(found.test.inside[layer, head]),
        float(found.test.peaks[layer, head]),
        float(found.new.inside[layer, head]),
    )


def first_layer(valid: Grounding, test: Grounding) -> float:
    """Return the first layer, from 1, whose best head has half its weight inside, or infinity."""
    heads = valid.inside.argmax(dim=1, keepdim=True)
    best = test.inside.gather(1, heads).squeeze(1).tolist()
    return next((float(layer) for layer, each in enumerate(best, 1) if each >= 0.5), math.inf)


def quantities(results: Sequence[NounFindings], effort: Effort) -> dict[str, Value]:
    """Return the quantities of the bands, averaged over seeds."""
    inside, peaks, new = (
        statistics.mean(each) for each in zip(*map(_inside, results), strict=True)
    )
    values = after_training(effort, {
        EXACT: statistics.mean(each.exact for each in results),
        UNSEEN: statistics.mean(each.unseen for each in results),
        INSIDE: inside, PEAKS: peaks, UNSEEN_INSIDE: new,
        FIRST: statistics.mean(first_layer(each.valid, each.test) for each in results),
    })  # fmt: skip
    return {**values, CHANCE: statistics.mean(each.test.chance for each in results)}


def tables(results: Sequence[NounFindings]) -> list[Table]:
    """Return the weight inside the region by layer and head, and exact matches, by seed."""
    layers, heads = results[0].test.inside.shape
    rows = [["layer", *(f"head {head + 1}" for head in range(heads))]]
    rows += [
        [str(layer + 1)]
        + [
            joined((float(each.test.inside[layer, head]) for each in results), ".2f")
            for head in range(heads)
        ]
        for layer in range(layers)
    ]
    right = [
        ["combinations", "exactly right, %, by seed"],
        ["seen in training", joined((each.exact for each in results), ".1f")],
        ["not in training", joined((each.unseen for each in results), ".1f")],
    ]
    title = "Weight of nouns inside the region of their object, test scenes, by seed"
    return [Table(title, rows), Table("Captions of 500 scenes each", right)]


def draw(seeds: Sequence[int], results: Sequence[NounFindings], figure: Any) -> None:
    """Draw the weight inside the region, a point for each head, by layer and seed."""
    axes = figure.subplots()
    layers, heads = results[0].test.inside.shape
    for place, (seed, each) in enumerate(zip(seeds, results, strict=True)):
        shift = 0.1 * (place - (len(results) - 1) / 2)
        layer_of_head = (torch.arange(1, layers + 1) + shift).repeat_interleave(heads)
        values = each.test.inside.flatten()
        axes.plot(
            layer_of_head.tolist(), values.tolist(), "o",
            color=f"C{place}", alpha=0.7, label=f"seed {seed}",
        )  # fmt: skip
    axes.axhline(results[0].test.chance, color="gray", ls=":", label="uniform attention")
    axes.set(ylim=(0, 1.02), xlabel="layer of the decoder", ylabel="weight inside the region")
    axes.set_xticks(range(1, layers + 1))
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


GROUNDING = Study(
    "grounding",
    "The cross-attention of a noun finds the object that it names",
    "We also show through visualization how the model is able to automatically learn to fix its "
    "gaze on salient objects while generating the corresponding words in the output sequence.",
    "Xu et al. 2015, abstract",
    BANDS,
    run,
    Times(quick=5, full=500),  # estimated: 700 seconds in one thread of an Intel Xeon
)
