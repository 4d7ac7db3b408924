"""Made-up scenes: whether a noun's attention finds its object, and an image settles a word."""

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from crosshead.addons.studies.charts import Sheet, by_seed
from crosshead.addons.studies.runs import Run, means, results, run_of
from crosshead.addons.studies.study import Band, Result, Study, Trial, reported
from crosshead.addons.vision.attention_maps import Grounding, grounding
from crosshead.addons.vision.caption_pipeline import ImageCaptioner
from crosshead.addons.vision.data.ambiguous import ambiguous_right, is_ambiguous, write_ambiguous
from crosshead.addons.vision.data.caption_sets import PAIRS, other_images, read_caption_set
from crosshead.addons.vision.data.scenes import IMAGES, read_regions, write_scenes
from crosshead.addons.vision.multimodal_translator import MultimodalTranslator
from crosshead.addons.vision.scores import caption_scores
from crosshead.decoding.settings import DecodeConfig
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator

GREEDY = DecodeConfig(beam=1)

EXACT = "captions of new scenes that are exactly right, in per cent"
UNSEEN = "captions of scenes with combinations not in training that are exactly right, in per cent"
INSIDE = "weight of a noun inside the region of its object, best head"
PEAKS = "nouns whose largest weight is inside the region, best head"
CHANCE = "weight inside the region for uniform attention"
UNSEEN_INSIDE = "weight inside the region, best head, combinations not in training"

GROUNDING_BANDS = (
    Band(
        EXACT, 95, 100,
        "A caption is a function of its scene. A twentieth is left for edges between places.",
    ),
    Band(
        INSIDE, 0.8, 1,
        "The pixels of one object decide a noun. A fifth is left for patches beside the region.",
    ),
    Band(PEAKS, 0.8, 1, "As for the weight."),
    reported(CHANCE, "The area of the regions: about 8 % of the patches."),
    reported(UNSEEN, "No source has a figure for these scenes."),
    reported(UNSEEN_INSIDE, "Colour and shape are known, their combination is not."),
)  # fmt: skip

CAPTION_UPDATES = 3000
MEASURED_SCENES = 200
"""The scenes of each set whose attention is measured."""


def run_grounding(trial: Trial) -> Result:
    """Train a captioner of scenes, and measure the attention of its nouns."""
    data = trial.folder / "scenes" / "data"
    write_scenes(data, **({"train": 40, "others": 6} if trial.quick else {}))
    updates = trial.amount(2, CAPTION_UPDATES)
    files = {
        "images": [str(data / IMAGES)], "captions": [str(data / "train.jsonl")],
        "valid_captions": [str(data / "valid.jsonl")],
    }  # fmt: skip

    def plan(name: str, seed: int) -> Run:
        train = {
            "max_updates": updates, "seed": seed, "learning_rate": 0.003,
            "warmup": min(200, updates), "valid_every": max(1, updates // 4),
        }  # fmt: skip
        model = {"architecture": "captioner"}
        return run_of(trial, "scenes", train, data=files, model=model, decode={"beam": 1})

    found = results(trial, ["captioner"], plan, partial(_grounded, data))["captioner"]
    measured = {name: [each[name] for each, _ in found] for name in found[0][0]}
    inside = {
        f"head {head}": dict(enumerate(zip(*layers, strict=True), 1))
        for head, layers in enumerate(zip(*(weights for _, weights in found), strict=True), 1)
    }
    title, chance = "Weight inside the region of the noun's object", measured[CHANCE][0]
    sheets = [
        Sheet(title, inside, "layer of the decoder", ".2f", level=chance),
        Sheet("Quantities", by_seed(measured), drawn=False),
    ]
    return Result(means(measured), sheets)


def _grounded(data: Path, run: Run) -> tuple[dict[str, float], list[list[float]]]:
    """Train a captioner, if it is not trained; return its quantities, and weights by head."""
    captioner = load_as(ImageCaptioner, run.trained(), "cpu")
    size, rows = captioner.bundle.config.image_size, slice(0, MEASURED_SCENES)
    exact: dict[str, float] = {}
    attention: dict[str, Grounding] = {}
    for name in ("valid", "test", "unseen"):
        path = data / f"{name}.jsonl"
        given = read_caption_set([str(data / IMAGES)], [str(path)], size)
        texts = [best.text for best, *_ in captioner.search(given.pixels, GREEDY)]
        exact[name] = caption_scores(texts, given.references(), [])[-1].value
        pixels = [given.pixels[each.image] for each in given.captions[rows]]
        regions = read_regions(path)[rows]
        attention[name] = grounding(captioner, pixels, given.texts[rows], regions)
    found = {EXACT: exact["test"], UNSEEN: exact["unseen"], **attended(*attention.values())}
    return found, attention["test"].inside.T.tolist()


def attended(valid: Grounding, test: Grounding, unseen: Grounding) -> dict[str, float]:
    """Return the quantities of attention, of the head with the most weight on validation scenes."""
    layer, head = (each - 1 for each in valid.best())
    return {
        INSIDE: float(test.inside[layer, head]),
        PEAKS: float(test.peaks[layer, head]),
        UNSEEN_INSIDE: float(unseen.inside[layer, head]),
        CHANCE: test.chance,
    }


GROUNDING = Study(
    "grounding",
    "The cross-attention of a noun finds the object that it names",
    "We also show through visualization how the model is able to automatically learn to fix its "
    "gaze on salient objects while generating the corresponding words in the output sequence.",
    "Xu et al. 2015, abstract",
    GROUNDING_BANDS,
    run_grounding,
    seconds=500,  # estimated: 700 seconds in one thread of an Intel Xeon
)

RIGHT, SHUFFLED, WITHOUT = "right image", "shuffled image", "no image"

AMBIGUOUS_RIGHT = f"ambiguous words right, in per cent, {RIGHT}"
AMBIGUOUS_SHUFFLED = f"ambiguous words right, {SHUFFLED}"
AMBIGUOUS_WITHOUT = f"ambiguous words right, {WITHOUT}: a Transformer of the same shape"
EXACT_GAIN = "other sentences exactly right, in points: with the image less without"
EXACT_SHUFFLED = "other sentences exactly right, in points: right image less shuffled image"
EXACT_WITHOUT = "other sentences exactly right, in per cent, no image"

MULTIMODAL_BANDS = (
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
    reported(EXACT_WITHOUT, "How hard the other sentences are."),
)  # fmt: skip

PAIR_UPDATES = 4000
_SHAPE = {
    "encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "d_ff": 128, "heads": 4,
    "dropout": 0.0, "norm": "pre",
}  # fmt: skip
_OVER_IMAGES = {"architecture": "multimodal", "patch_size": 6, "patch_positions": "sinusoidal"}


def run_multimodal(trial: Trial) -> Result:
    """Train a model beside images and one without, and test both with several images."""
    data = trial.folder / "ambiguous" / "data"
    write_ambiguous(data, **({"size": 24, "train": 40, "others": 6} if trial.quick else {}))
    _write_sides(data)
    found = results(
        trial, ["both models"], lambda name, seed: runs_on(trial, data, seed),
        partial(_translated, data),
    )["both models"]  # fmt: skip
    measured = {name: [each[name] for each in found] for name in found[0]}
    sheet = Sheet("Quantities of 1,000 test sentences", by_seed(measured), form=".1f")
    return Result(means(measured), [sheet])


def _write_sides(data: Path) -> None:
    """Write the sentences of each set as aligned files, for the model without images."""
    for name in ("train", "valid"):
        rows = [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]
        for key, end in (("source", "en"), ("target", "de")):
            (data / f"{name}.{end}").write_text("".join(f"{row[key]}\n" for row in rows))


def runs_on(trial: Trial, data: Path, seed: int) -> tuple[Run, Run]:
    """Return the run of the model beside images, and that of the model without."""
    updates = trial.amount(2, PAIR_UPDATES)
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
        paths = {key: [str(data / name)] for key, name in files.items()}
        return run_of(
            trial, "ambiguous", train, data=paths, model={**_SHAPE, **model},
            tokenizer={"kind": "words", "vocab_size": 8000}, decode={"beam": 1},
        )  # fmt: skip

    return of(beside, **_OVER_IMAGES), of(alone)


def _translated(data: Path, runs: tuple[Run, Run]) -> dict[str, float]:
    """Train both models, if they are not trained, and return their results on the test set."""
    beside = load_as(MultimodalTranslator, runs[0].trained(), "cpu")
    alone = load_as(Translator, runs[1].trained(), "cpu")
    size = beside.bundle.config.image_size
    test = read_caption_set([str(data / IMAGES)], [str(data / "test.jsonl")], size, kind=PAIRS)
    right = [each.image for each in test.captions]
    found = {
        RIGHT: beside.search(test.pixels, right, test.sources, GREEDY),
        SHUFFLED: beside.search(test.pixels, other_images(right), test.sources, GREEDY),
        WITHOUT: alone.translate(test.sources, decode=GREEDY),
    }
    texts = {name: [best[0].text for best in each] for name, each in found.items()}
    words = {n: 100 * ambiguous_right(test.sources, each, test.texts) for n, each in texts.items()}
    exact = {n: exact_elsewhere(test.sources, each, test.texts) for n, each in texts.items()}
    return pair_quantities(words, exact)


def exact_elsewhere(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> float:
    """Return the percentage of exact translations among sentences without an ambiguous word."""
    rows = zip(sources, outputs, references, strict=True)
    return 100 * statistics.mean(
        output == reference for source, output, reference in rows if not is_ambiguous(source)
    )


def pair_quantities(words: Mapping[str, float], exact: Mapping[str, float]) -> dict[str, float]:
    """Return the quantities of a seed: ambiguous words and other sentences right, by image."""
    return {
        AMBIGUOUS_RIGHT: words[RIGHT],
        AMBIGUOUS_SHUFFLED: words[SHUFFLED],
        AMBIGUOUS_WITHOUT: words[WITHOUT],
        EXACT_GAIN: exact[RIGHT] - exact[WITHOUT],
        EXACT_SHUFFLED: exact[RIGHT] - exact[SHUFFLED],
        EXACT_WITHOUT: exact[WITHOUT],
    }


MULTIMODAL = Study(
    "multimodal",
    "The image helps translation only where the text is ambiguous",
    "Our results show that under limited textual context, models are capable of leveraging the "
    "visual input to generate better translations.",
    "Caglayan et al. 2019, abstract",
    MULTIMODAL_BANDS,
    run_multimodal,
    seconds=600,  # estimated: 860 seconds in one thread of an Intel Xeon
)
