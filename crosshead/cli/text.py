"""The verbs of models of text by itself."""

from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    DeviceOption,
    JsonlOption,
    PrecisionOption,
    ThreadsOption,
)
from crosshead.terminal import put

_BUNDLE_SAYS = "as the bundle says"


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead generate runs/shakespeare --prompt 'ROMEO:' --length 300\n"
    "  crosshead generate runs/shakespeare --temperature 0.8 --top-k 20 --seed 7 --samples 3"
)
def generate(
    bundle: BundleArgument,
    prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="What to go on with; else a line begins.")
    ] = "",
    length: Annotated[
        int, typer.Option(metavar="N", min=1, max=10**6, help="Tokens to write, at most.")
    ] = 500,
    samples: Annotated[int, typer.Option(metavar="N", min=1, max=10**6, help="So many texts.")] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T", help="Below 1: more cautious; above: bolder.", show_default=_BUNDLE_SAYS
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Of the K most probable tokens only.", show_default=_BUNDLE_SAYS
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Of the fewest that have this probability together.",
            show_default=_BUNDLE_SAYS,
        ),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="The most probable token each time.")
    ] = False,
    beam: BeamOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="Of what is drawn: the same text each time, unless another is given.",
            show_default=_BUNDLE_SAYS,
        ),
    ] = None,
    stop: Annotated[str, typer.Option(metavar="TEXT", help="End before this.")] = "",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Go on with a text.

    The prompt is printed, and behind it what the model writes, as it writes; with a beam, all at
    once. By default the search is as the bundle says, which is to draw samples as a rule; options
    of samples draw them. In --prompt and --stop, \\n is a line break.
    """
    from crosshead import answers
    from crosshead.pipelines import load_as
    from crosshead.writer import Writer

    writer = load_as(Writer, bundle, device, threads, precision)
    flags = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decode = answers.writing_settings(writer.bundle.config.decode, greedy, beam, flags)
    for text in answers.written(writer, prompt, length, samples, decode, stop):
        put(text)


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead fill runs/masked 'A man [MASK] a horse.'\n"
    "  crosshead fill runs/masked 'A man [MASK] a [MASK].' --top 5"
)
def fill(
    bundle: BundleArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="With [MASK] for a hidden token.")],
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=10**6, help="Show the N best candidates for each."),
    ] = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Find what is hidden in a text.

    For models that were trained on text with --model encoder. A [MASK] stands for one token: a
    word, or as the tokenizer cuts them a part of one. Of several the surest is filled first, and
    the others in its light. In TEXT, \\n is a line break.
    """
    from crosshead import answers
    from crosshead.filler import Filler
    from crosshead.pipelines import load_as

    filler = load_as(Filler, bundle, device, threads, precision)
    put(answers.filled(filler, text, top, jsonl))
