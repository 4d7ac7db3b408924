"""The options of `train`, and the kinds of `translate` and `evaluate`, for images."""

from pathlib import Path
from typing import Annotated, Any

import typer

from crosshead.cli.kinds import TRAIN, TrainOptions, evaluate, translate
from crosshead.cli.options import (
    BundleArgument,
    BundlesArgument,
    DeviceOption,
    Files,
    PairsOption,
    PrecisionOption,
    ThreadsOption,
)
from crosshead.cli.terminal import put
from crosshead.errors import UserError
from crosshead.system.lines import check_text
from crosshead.tasks.translation.verbs.translate import MoreArgument, translate_input

_OUTPUT = ("jsonl", "device", "threads")
_SEARCH = ("metrics", "tokenize", "beam", "length_penalty", *_OUTPUT)

BesideOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Folder or zip archive of images, for a model that translates beside images: the "
        "lines are then `image<TAB>sentence`. Repeat it for more images.",
    ),
]
ImagesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="Folder or zip archive of images. Without --captions and --pairs, a classifier is "
        "scored: the folder of an image is its class, and of a set with splits the folder test "
        "is used.",
    ),
]
CaptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="F",
        help="File of captions of --images to compare with, for a captioner. Repeat it for "
        "more files.",
    ),
]


def _files(metavar: str, about: str) -> Any:
    return Annotated[Files, typer.Option(metavar=metavar, help=about)]


TRAIN.append(
    TrainOptions(
        "images",
        {
            "images": _files(
                "PATH",
                "Folder or zip archive of images. With --pairs, these are JSON Lines with the keys "
                "image, source and target, or lines `image<TAB>source<TAB>target`. Without "
                "--captions and --pairs, the folder of an image is its class, and folders train, "
                "valid and test above the classes are splits. Repeat it for more images.",
            ),
            "captions": _files(
                "F",
                "File of captions of --images, for a captioner: JSON Lines with the keys image and "
                "caption, CSV that begins with `image,caption` or `image;caption`, or lines "
                "`image#n<TAB>caption`. Repeat it for more files.",
            ),
            "valid_images": _files(
                "PATH",
                "Validation set for --images. Without one, the folder valid is used, or a tenth of "
                "the training images of each class is held out.",
            ),
            "valid_captions": _files(
                "F",
                "Validation captions, in a format of --captions; their images are in --images. "
                "Without them, some images are held out.",
            ),
        },
    )
)


@translate.kind(
    "images",
    without=("to", "kind", "glossary", "exact_terms", "engine"),
    examples=("crosshead translate runs/signs input.tsv --images photos.zip",),
)
def translate_beside_images(
    bundle: BundleArgument,
    more: MoreArgument = None,
    images: BesideOption = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
    **options: Any,
) -> None:
    """Give --images for a model that translates beside images.

    A line whose image cannot be read is named on standard error and gets an empty line, and the
    exit code is 2 at the end.
    """
    from crosshead.addons.vision.beside_images import BesideImages
    from crosshead.cli import arguments

    bundles, file = arguments.bundles_and_file(bundle, more or [])
    for each in bundles:
        arguments.check_outputs({"--output": options["output"]}, [file], each)
    only = arguments.only(bundles, "--images")
    translator = BesideImages(only, images or [], device, threads, precision)
    written = {key: options.pop(key) for key in ("output", "n_best", "scores", "jsonl")}
    says, sample = translator.bundle.config.decode, options.pop("sample")
    decode = arguments.search_settings(says, sample, options, written["n_best"])
    translate_input(decode, translator.translate, file, None, check_text, **written)
    translator.finish()


@evaluate.kind(
    "images", usual=_OUTPUT, examples=("crosshead evaluate runs/photos --images photos.zip",)
)
def evaluate_classes(bundles: BundlesArgument, images: ImagesOption = None, **options: Any) -> None:
    """Give --images for a classifier of images.

    The command prints the accuracy with its 95 % interval (Wilson 1927), and the most frequent
    confusions. With --jsonl it prints how many images of each class were given each class.
    """
    from crosshead.addons.vision.classify import image_evaluation
    from crosshead.cli.arguments import only

    first, *others = images or []
    if others:
        raise UserError("--images: give one folder or archive of images with classes")
    put(image_evaluation(only(bundles, "--images"), Path(first), **options))


@evaluate.kind(
    "images",
    "captions",
    usual=_SEARCH,
    examples=("crosshead evaluate runs/scenes --images images.zip --captions test.jsonl",),
)
def evaluate_captions(
    bundles: BundlesArgument,
    images: ImagesOption = None,
    captions: CaptionsOption = None,
    **options: Any,
) -> None:
    """Give --captions and --images for a captioner.

    The command writes a caption of each image, and compares it with all its captions in the files:
    BLEU, chrF and exact match.
    """
    from crosshead.addons.vision.beside_images import text_evaluation
    from crosshead.addons.vision.data.caption_sets import CAPTIONS
    from crosshead.cli.arguments import only

    bundle = only(bundles, "--captions")
    put(text_evaluation(CAPTIONS, bundle, images or [], captions or [], **options))


@evaluate.kind(
    "images",
    "pairs",
    usual=_SEARCH,
    examples=("crosshead evaluate runs/signs --images images.zip --pairs test.jsonl",),
)
def evaluate_beside_images(
    bundles: BundlesArgument,
    images: ImagesOption = None,
    pairs: PairsOption = None,
    **options: Any,
) -> None:
    """Give --pairs and --images for a model that translates beside images.

    The pairs are JSON Lines with the keys image, source and target, or lines
    `image<TAB>source<TAB>target`. The command prints BLEU and chrF with the right images, and with
    images shuffled among the sentences (Caglayan et al. 2019), as `compare` does. If p is large,
    the images are of no use to the model.
    """
    from crosshead.addons.vision.beside_images import text_evaluation
    from crosshead.addons.vision.data.caption_sets import PAIRS
    from crosshead.cli.arguments import only

    put(text_evaluation(PAIRS, only(bundles, "--images"), images or [], pairs or [], **options))
