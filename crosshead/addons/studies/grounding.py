"""Captions of scenes: whether the cross-attention of a noun finds the object that it names."""

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from crosshead.addons.studies.charts import Line, Panel
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.runs import Run, results, run_of
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial, at_any_size, reported
from crosshead.addons.vision.caption_maps import Grounding, grounding
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.caption_sets import read_caption_set
from crosshead.addons.vision.data.scenes import IMAGES, read_regions, write_scenes
from crosshead.addons.vision.scores import caption_scores
from crosshead.decoding.search import DecodeConfig
from crosshead.tasks.loading import load_as

EXACT = "captions of new scenes that are exactly right, in per cent"
UNSEEN = "captions of scenes with combinations not in training that are exactly right, in per cent"
INSIDE = "weight of a noun inside the region of its object, best head"
PEAKS = "nouns whose largest weight is inside the region, best head"
CHANCE = "weight inside the region for uniform attention"
UNSEEN_INSIDE = "weight inside the region, best head, combinations not in training"

BANDS = (
    Band(
        EXACT, 95, 100,
        "A caption is a function of its scene. A twentieth is left for edges between places.",
    ),
    Band(
        INSIDE, 0.8, 1,
        "The pixels of one object decide a noun. A fifth is left for patches beside the region.",
    ),
    Band(PEAKS, 0.8, 1, "As for the weight."),
    *at_any_size(reported(CHANCE, "The area of the regions: about 8 % of the patches.")),
    reported(UNSEEN, "No source has a figure for these scenes."),
    reported(UNSEEN_INSIDE, "Colour and shape are known, their combination is not."),
)  # fmt: skip

UPDATES = 3000
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


def run(trial: Trial) -> Result:
    """Train a captioner of scenes, and measure the attention of its nouns."""
    folder = trial.folder / "scenes"
    data = folder / "data"
    write_scenes(data, **({"train": 40, "others": 6} if trial.quick else {}))
    runs = {("captioner", each): run_on(folder, trial, each) for each in trial.seeds()}
    measured = partial(_measured, data)
    [found] = results(runs, measured, trial, lambda of: f"{of.exact:.1f} % right").values()
    kept = [run.finished for run in runs.values()]
    return Result(quantities(found), tables(found), [panel(found)], kept)


def run_on(folder: Path, trial: Trial, seed: int) -> Run:
    """Return the run of a captioner on the scenes of a folder."""
    data, updates = folder / "data", trial.amount(2, UPDATES)
    train = {
        "max_updates": updates, "seed": seed, "learning_rate": 0.003, "warmup": min(200, updates),
        "valid_every": max(1, updates // 4),
    }  # fmt: skip
    files = {
        "images": [str(data / IMAGES)], "captions": [str(data / "train.jsonl")],
        "valid_captions": [str(data / "valid.jsonl")],
    }  # fmt: skip
    return run_of(
        folder, train, data=files, model={"architecture": "captioner"}, decode={"beam": 1}
    )


def _measured(data: Path, run: Run) -> NounFindings:
    """Train a captioner, if it is not trained, and return its results."""
    captioner = load_as(ImageCaptioner, run.trained(), "cpu")
    size, rows = captioner.bundle.config.image_size, slice(0, MEASURED_SCENES)
    exact: dict[str, float] = {}
    attention: dict[str, Grounding] = {}
    for name in ("valid", "test", "unseen"):
        path = data / f"{name}.jsonl"
        given = read_caption_set([str(data / IMAGES)], [str(path)], size)
        texts = [best.text for best, *_ in captioner.search(given.pixels, DecodeConfig(beam=1))]
        exact[name] = caption_scores(texts, given.references(), [])[-1].value
        pixels = [given.pixels[each.image] for each in given.captions[rows]]
        regions = read_regions(path)[rows]
        attention[name] = grounding(captioner, pixels, given.texts[rows], regions)
    return NounFindings(exact["test"], exact["unseen"], *attention.values())


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


def quantities(found: Sequence[NounFindings]) -> dict[str, float]:
    """Return the quantities of the bands, averaged over seeds."""
    inside, peaks, new = (statistics.mean(each) for each in zip(*map(_inside, found), strict=True))
    return {
        EXACT: statistics.mean(each.exact for each in found),
        UNSEEN: statistics.mean(each.unseen for each in found),
        INSIDE: inside, PEAKS: peaks, UNSEEN_INSIDE: new,
        CHANCE: statistics.mean(each.test.chance for each in found),
    }  # fmt: skip


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


def panel(found: Sequence[NounFindings]) -> Panel:
    """Show the weight inside the region, a point for each head, by layer and seed."""
    lines = []
    for place, each in enumerate(found, 1):
        layers, heads = each.test.inside.shape
        layer_of_head = torch.arange(1, layers + 1).repeat_interleave(heads).tolist()
        lines.append(Line(layer_of_head, each.test.inside.flatten().tolist(), f"seed {place}", "o"))
    title = "weight inside the region; dotted: uniform attention"
    return Panel(title, lines, "layer of the decoder", level=each.test.chance)


GROUNDING = Study(
    "grounding",
    "The cross-attention of a noun finds the object that it names",
    "We also show through visualization how the model is able to automatically learn to fix its "
    "gaze on salient objects while generating the corresponding words in the output sequence.",
    "Xu et al. 2015, abstract",
    BANDS,
    run,
    seconds=500,  # estimated: 700 seconds in one thread of an Intel Xeon
)
