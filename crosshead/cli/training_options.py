"""Options of the verb `train`: the data, the model, the run."""

from pathlib import Path
from typing import Annotated

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
SourceOption = Annotated[
    Files,
    typer.Option(
        metavar="F", help="File of source sentences, one per line. Repeat it for more files."
    ),
]
TargetOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="File of translations, line by line. Give one for each --source, in order.",
    ),
]
PairsOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="File with both sides: TSV, CSV or JSON Lines. Repeat it for more files.",
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
SourceLanguageOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language code of the sources, such as en, for the bundle and its card (default: "
        "from the file suffix or --fields).",
    ),
]
TargetLanguageOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language code of the targets, such as de, for the bundle and its card "
        "(default: from the file suffix or --fields).",
    ),
]
LicenceOption = Annotated[
    str | None,
    typer.Option(
        "--license",
        metavar="ID",
        help="Licence of the model as model hubs spell it, such as cc-by-4.0, for the bundle and "
        "its card (default: none, or with --from the licence of that bundle).",
    ),
]
TextOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="File of monolingual text, for a language model. Repeat it for more files.",
    ),
]
ContextOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Past steps that a forecast of --series reads (default: 336), or tokens of a "
        "window of --text (default: 256).",
    ),
]
ValidSourceOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="Source side of the validation set. Without one, some training pairs are held out.",
    ),
]
ValidTargetOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="Target side of the validation set. Give one for each --valid-source.",
    ),
]
ValidPairsOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="Validation set as one file with both sides, in a format of --pairs.",
    ),
]
ValidTextOption = Annotated[
    Files,
    typer.Option(
        metavar="F",
        help="Validation set for --text. Without one, the end of the text is held out.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="A",
        help="Architecture, out of those that `crosshead presets` lists (default: by the data, "
        "such as transformer for pairs).",
    ),
]
PresetOption = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Size of the model and its training settings: tiny, small, base, big; or auto, "
        "which chooses them for your data, budget and machine (default: auto for pairs of "
        "texts; tiny with a RECIPE, with --from, and for other data and architectures). "
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
MaxMinutesOption = Annotated[
    float | None,
    typer.Option(
        metavar="M",
        help="Limit the run to this many minutes, reading and final scoring included (default: "
        "the recipe's, or no limit).",
    ),
]
MaxUpdatesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Stop training after this many updates (default: the recipe's or the preset's; "
        "no limit with auto).",
    ),
]
MaxEpochsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Stop training after this many passes over the data (default: the recipe's, or no "
        "limit; auto chooses a limit).",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="S",
        help="Random seed (default: 1). On a CPU, the same seed, data and thread count give the "
        "same model, unless --max-minutes ends the run.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="D",
        help="Device to train on, such as cpu, cuda:1, mps or xpu (default: auto, the first "
        "CUDA GPU or else the CPU).",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        metavar="T",
        help="Number of CPU threads; 0 takes all cores (default: 0). Lower it to leave cores "
        "to other programs.",
    ),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Number format: float32, bfloat16 or float16 (default: auto, bfloat16 if this "
        "machine is faster with it, otherwise float32).",
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
