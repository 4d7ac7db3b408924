"""Translation beside images: whether the image helps only where the text is ambiguous."""

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from crosshead.addons.studies.charts import Panel, points
from crosshead.addons.studies.formats import joined
from crosshead.addons.studies.runs import Run, results, run_of
from crosshead.addons.studies.study import Band, Result, Study, Table, Trial
from crosshead.addons.vision.data.ambiguous import ambiguous_right, is_ambiguous, write_ambiguous
from crosshead.addons.vision.data.caption_sets import PAIRS, other_images, read_caption_set
from crosshead.addons.vision.data.scenes import IMAGES
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.decoding.search import DecodeConfig
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

RIGHT, SHUFFLED, WITHOUT = "right image", "shuffled image", "no image"

AMBIGUOUS_RIGHT = f"ambiguous words right, in per cent, {RIGHT}"
AMBIGUOUS_SHUFFLED = f"ambiguous words right, {SHUFFLED}"
AMBIGUOUS_WITHOUT = f"ambiguous words right, {WITHOUT}: a Transformer of the same shape"
EXACT_GAIN = "other sentences exactly right, in points: with the image less without"
EXACT_SHUFFLED = "other sentences exactly right, in points: right image less shuffled image"

BANDS = (
    Band(
        AMBIGUOUS_RIGHT, 95, 100,
        "The colour names one object of the image, and its shape is the answer.",
    ),
    Band(
        AMBIGUOUS_SHUFFLED, 35, 60,
        "Another image is independent of the answer: one half or, with a third shape, less.",
    ),
    Band(AMBIGUOUS_WITHOUT, 43, 57, "One half, within three standard errors of 500 words."),
    Band(EXACT_GAIN, -2, 2, "The sentence says everything, so a text model is right too."),
    Band(
        EXACT_SHUFFLED, -2, 2,
        "A model that looks only where the text is ambiguous is not misled elsewhere.",
    ),
)  # fmt: skip

UPDATES = 4000
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


def run(trial: Trial) -> Result:
    """Train a model beside images and one without, and test both with several images."""
    folder = trial.folder / "ambiguous"
    data = folder / "data"
    write_ambiguous(data, **({"size": 24, "train": 40, "others": 6} if trial.quick else {}))
    _write_sides(data)
    runs = {("both models", each): runs_on(folder, trial, each) for each in trial.seeds()}
    measured = partial(_measured, data)
    [found] = results(runs, measured, trial, lambda of: f"{of.words[RIGHT]:.1f} % right").values()
    kept = [run.finished for both in runs.values() for run in both]
    panels = [
        Panel(title, [points(by_image(found, each))], "per cent", at=50)
        for title, each in (("ambiguous words right", "words"), ("other sentences right", "exact"))
    ]
    return Result(quantities(found), tables(found), panels, kept=kept)


def _write_sides(data: Path) -> None:
    """Write the sentences of each set as aligned files, for the model without images."""
    for name in ("train", "valid"):
        rows = [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]
        for key, end in (("source", "en"), ("target", "de")):
            (data / f"{name}.{end}").write_text("".join(f"{row[key]}\n" for row in rows))


def runs_on(folder: Path, trial: Trial, seed: int) -> tuple[Run, Run]:
    """Return the run of the model beside images, and that of the model without."""
    data, updates = folder / "data", trial.amount(2, UPDATES)
    train = {
        "max_updates": updates, "seed": seed, "learning_rate": 0.003, "warmup": min(100, updates),
        "valid_every": max(1, updates // 4), "batch_tokens": 1024, "schedule": "cosine",
        "average": 0, "patience": 0, "label_smoothing": 0.0,
    }  # fmt: skip
    beside = {"images": IMAGES, "pairs": "train.jsonl", "valid_pairs": "valid.jsonl"}
    alone = {
        "source": "train.en", "target": "train.de", "valid_source": "valid.en",
        "valid_target": "valid.de",
    }  # fmt: skip

    def of(files: Mapping[str, str], **model: object) -> Run:
        return run_of(
            folder, train, data={key: [str(data / name)] for key, name in files.items()},
            model={**_SHAPE, **model}, tokenizer={"kind": "words", "vocab_size": 8000},
            decode={"beam": 1},
        )  # fmt: skip

    return of(beside, **_OVER_IMAGES), of(alone)


def _measured(data: Path, runs: tuple[Run, Run]) -> PairFindings:
    """Train both models, if they are not trained, and return their results on the test set."""
    beside = load_as(MultimodalTranslator, runs[0].trained(), "cpu")
    alone = load_as(Translator, runs[1].trained(), "cpu")
    size, greedy = beside.bundle.config.image_size, DecodeConfig(beam=1)
    test = read_caption_set([str(data / IMAGES)], [str(data / "test.jsonl")], size, kind=PAIRS)
    right = [each.image for each in test.captions]
    found = {
        RIGHT: beside.search(test.pixels, right, test.sources, greedy),
        SHUFFLED: beside.search(test.pixels, other_images(right), test.sources, greedy),
        WITHOUT: alone.translate(test.sources, decode=greedy),
    }
    texts = {name: [best[0].text for best in each] for name, each in found.items()}
    return PairFindings(
        {n: 100 * ambiguous_right(test.sources, each, test.texts) for n, each in texts.items()},
        {n: exact_elsewhere(test.sources, each, test.texts) for n, each in texts.items()},
    )


def exact_elsewhere(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> float:
    """Return the percentage of exact translations among sentences without an ambiguous word."""
    rows = zip(sources, outputs, references, strict=True)
    return 100 * statistics.mean(
        output == reference for source, output, reference in rows if not is_ambiguous(source)
    )


def by_image(found: Sequence[PairFindings], what: str) -> dict[str, list[float]]:
    """Return `words` or `exact` by image, a value for each seed."""
    return {
        name: [getattr(each, what)[name] for each in found] for name in (RIGHT, SHUFFLED, WITHOUT)
    }


def quantities(found: Sequence[PairFindings]) -> dict[str, float]:
    """Return the quantities of the bands, averaged over seeds."""
    words, exact = (
        {name: statistics.mean(each) for name, each in by_image(found, what).items()}
        for what in ("words", "exact")
    )
    return {
        AMBIGUOUS_RIGHT: words[RIGHT],
        AMBIGUOUS_SHUFFLED: words[SHUFFLED],
        AMBIGUOUS_WITHOUT: words[WITHOUT],
        EXACT_GAIN: exact[RIGHT] - exact[WITHOUT],
        EXACT_SHUFFLED: exact[RIGHT] - exact[SHUFFLED],
    }


def tables(found: Sequence[PairFindings]) -> list[Table]:
    """Return ambiguous words right and sentences exactly right, by image and seed."""
    rows = [["image", "ambiguous words right, %", "other sentences exactly right, %"]]
    exact = by_image(found, "exact")
    for name, words in by_image(found, "words").items():
        rows.append([name, joined(words, ".1f"), joined(exact[name], ".1f")])
    return [Table("1,000 test sentences, half of them with an ambiguous word, by seed", rows)]


MULTIMODAL = Study(
    "multimodal",
    "The image helps translation only where the text is ambiguous",
    "Our results show that under limited textual context, models are capable of leveraging the "
    "visual input to generate better translations.",
    "Caglayan et al. 2019, abstract",
    BANDS,
    run,
    seconds=600,  # estimated: 860 seconds in one thread of an Intel Xeon
)
