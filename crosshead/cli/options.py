"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

BundleArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="A bundle: a directory, or a file made by `pack`.")
]
SourceOption = Annotated[Path, typer.Option(metavar="F", help="Source sentences (.gz too).")]
ReferenceOption = Annotated[Path, typer.Option(metavar="F", help="A reference for each line.")]
MetricsOption = Annotated[str, typer.Option(metavar="LIST", help="Of bleu, chrf, ter, by commas.")]
TokenizeOption = Annotated[
    str | None, typer.Option(metavar="T", help="sacreBLEU's tokenisation: 13a, none, zh, ...")
]
BeamOption = Annotated[int | None, typer.Option(metavar="K", help="1 is greedy.")]
PenaltyOption = Annotated[float | None, typer.Option(metavar="A", help="0 favours short ones.")]
DeviceOption = Annotated[str, typer.Option(metavar="D", help="auto, cpu, cuda:1, mps, xpu, ...")]
ThreadsOption = Annotated[
    int | None, typer.Option(metavar="T", help="CPU threads; 0: all; PyTorch's choice by default.")
]
PrecisionOption = Annotated[str, typer.Option(metavar="P", help="float32 or bfloat16.")]
JsonlOption = Annotated[bool, typer.Option("--jsonl", help="One JSON object a line.")]
Files = list[str] | None
