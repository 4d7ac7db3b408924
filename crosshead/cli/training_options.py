"""Options of the verb `train`: the keys of a recipe that have a flag, and those of the run itself.

The keys are listed here, because the recipe's classes import PyTorch, which `--help` does without.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from crosshead.cli.options import Files, bundle_place

OutOption = Annotated[
    Path, typer.Option(metavar="DIR", help="Directory for the run and its bundle.")
]
RecipeArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE",
        help="Recipe: a TOML file, or a recipe of the package: cifar10, multi30k, "
        "multi30k-r-drop, multi30k-tiny-paper, quickstart, tinyshakespeare, tinyshakespeare-long. "
        "Without one, the preset gives all settings.",
    ),
]
FieldsOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Source and target field of --pairs: names from the first line of a TSV or CSV, "
        "keys of JSON Lines (translation.en for a key inside another), or numbers of columns "
        "from 1 (default: 1,2 in a file of two columns).",
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Size of the model and its training settings: tiny, small, base, big; student, a "
        "fast model for the pairs of `crosshead distill`; or auto, which chooses them for your "
        "data, budget and machine (default: auto for pairs of texts; tiny with a RECIPE, with "
        "--from, and for other data and architectures). "
        "`crosshead presets` lists them.",
    ),
]
StartOption = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="BUNDLE",
        parser=bundle_place,
        help="Fine-tune this bundle, or the bundle hf://ORG/NAME: start from its weights and "
        "keep its tokenizer.",
    ),
]
MixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="Mix in the training data of this earlier run, so that --from forgets less, and "
        "report on its validation set too. data.old_ratio sets the number of old pairs for "
        "each new pair (default: 1).",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue the run in --out from its last checkpoint.")
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace the run in --out. The old run stays until the new one has a bundle.",
    ),
]
AssignmentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Set any key of a recipe, such as model.heads=8. Repeat it for more keys.",
    ),
]


def parameter(key: str) -> str:
    """Return the parameter of a key, such as `max_updates`, which gives its flag the name."""
    section, _, name = key.partition(".")
    return section if section == "model" else name


def _flag(kind: Any, metavar: str, text: str) -> Any:
    return Annotated[kind, typer.Option(metavar=metavar, help=text)]


_LANGUAGE = (
    "Language code of the {}, such as {}, for the bundle and its card (default: from the file "
    "suffix or --fields)."
)
SETTINGS: dict[str, dict[str, Any]] = {
    "": {
        "data.source": _flag(Files, "F", "File of source sentences, one per line (repeatable)."),
        "data.target": _flag(Files, "F", "File of translations, one for each --source in order."),
        "data.pairs": _flag(Files, "F", "File of both sides: TSV, CSV, JSON Lines (repeatable)."),
        "data.fields": FieldsOption,
        "data.valid_source": _flag(Files, "F", "Validation sources (default: held-out pairs)."),
        "data.valid_target": _flag(Files, "F", "Validation targets, one for each source file."),
        "train.max_minutes": _flag(
            float | None,
            "M",
            "Limit the run to this many minutes, reading and final scoring included (default: the "
            "recipe's, or no limit).",
        ),
    },
    "pairs": {
        "data.valid_pairs": _flag(Files, "F", "Validation set in a format of --pairs."),
        "data.source_language": _flag(str | None, "CODE", _LANGUAGE.format("sources", "en")),
        "data.target_language": _flag(str | None, "CODE", _LANGUAGE.format("targets", "de")),
        "data.license": _flag(
            str | None,
            "ID",
            "Licence of the model as model hubs spell it, such as cc-by-4.0, for the bundle and "
            "its card (default: none, or with --from the licence of that bundle).",
        ),
    },
    "text": {
        "data.text": _flag(Files, "F", "File of text, for a language model (repeatable)."),
        "data.valid_text": _flag(Files, "F", "Validation text (default: the end of --text)."),
        "data.context": _flag(
            int | None,
            "N",
            "Past steps that a forecast of --series reads (default: 336), or tokens of a window "
            "of --text (default: 256).",
        ),
    },
    "run": {
        "model.architecture": _flag(
            str | None, "A", "Architecture: see `crosshead presets` (default: by the data)."
        ),
        "train.max_updates": _flag(
            int | None, "N", "Stop training after this many updates (default: the recipe's)."
        ),
        "train.max_epochs": _flag(
            int | None, "N", "Stop training after this many epochs (default: the recipe's)."
        ),
        "train.seed": _flag(
            int | None,
            "S",
            "Random seed (default: 1). On a CPU, the same seed, data and thread count give the "
            "same model, unless --max-minutes ends the run.",
        ),
        "train.device": _flag(
            str | None,
            "D",
            "Device, such as cpu, cuda:1, mps or xpu (default: the first CUDA GPU, or the CPU).",
        ),
        "train.threads": _flag(
            int | None, "T", "Number of CPU threads; 0 takes all cores (default: 0)."
        ),
        "train.precision": _flag(
            str | None,
            "P",
            "Number format: float32, bfloat16 or float16 (default: auto, bfloat16 if this machine "
            "is faster with it, otherwise float32).",
        ),
    },
}
"""The keys of a recipe that have a flag, by the group of help that shows them; the first screen
shows the group without a name."""
