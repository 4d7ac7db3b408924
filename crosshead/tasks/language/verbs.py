"""The verbs for models of monolingual text: `generate` and `fill`."""

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
from crosshead.cli.terminal import put_bytes


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead generate runs/shakespeare --prompt 'ROMEO:' --length 300\n"
    "  crosshead generate runs/shakespeare --temperature 0.8 --top-k 20 --seed 7 --samples 3"
)
def generate(
    bundle: BundleArgument,
    prompt: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Text to continue (default: none, the model starts a new line).",
            show_default=False,
        ),
    ] = "",
    length: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=10**6,
            show_default=False,
            help="Largest number of tokens to write per text (default: 500).",
        ),
    ] = 500,
    samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=10**6,
            show_default=False,
            help="Number of texts to write (default: 1; needs sampling).",
        ),
    ] = 1,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="Sampling temperature: below 1 is more conservative, above 1 more varied "
            "(default: the bundle's).",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            help="Sample from the K most probable tokens only; 0 is no limit (default: the "
            "bundle's). Small values avoid improbable tokens.",
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Sample from the smallest set of tokens with this total probability, above 0 and "
            "up to 1 (default: the bundle's). Small values avoid improbable tokens.",
        ),
    ] = None,
    greedy: Annotated[
        bool,
        typer.Option("--greedy", help="Take the most probable token each time, without sampling."),
    ] = False,
    beam: BeamOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S",
            help="Random seed of the samples (default: the bundle's). The same seed gives the same "
            "text; change it for another one.",
        ),
    ] = None,
    stop: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Stop before the first occurrence of this text (default: none).",
            show_default=False,
        ),
    ] = "",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Continue a text with a language model.

    The command prints the prompt, then each token as the model writes it. With --beam above 1 the
    continuation appears at the end. Most bundles sample by default. --temperature, --top-k, --top-p
    and --seed turn sampling on. In --prompt and --stop, \\n is a line break.
    """
    from crosshead.cli import answers, search_flags
    from crosshead.tasks.language.text_generator import TextGenerator
    from crosshead.tasks.loading import load_as

    writer = load_as(TextGenerator, bundle, device, threads, precision)
    flags = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decode = search_flags.writing_settings(writer.bundle.config.decode, greedy, beam, flags)
    for text in answers.written(writer, prompt, length, samples, decode, stop):
        put_bytes(text.encode(errors="backslashreplace"))


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead fill runs/masked 'A man [MASK] a horse.'\n"
    "  crosshead fill runs/masked 'A man [MASK] a [MASK].' --top 5"
)
def fill(
    bundle: BundleArgument,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="Text with [MASK] for each masked token.")
    ],
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=10**6,
            help="Number of candidates to list for each [MASK] (default: none).",
        ),
    ] = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Fill in the masked tokens of a text.

    This needs a model trained with --text and --model encoder. Each [MASK] stands for one token: a
    word or a part of a word, depending on the tokenizer. The model fills the [MASK] it is most
    certain of first, then predicts the others again. In TEXT, \\n is a line break.
    """
    from crosshead.cli import answers
    from crosshead.tasks.masked.mask_filler import MaskFiller
    from crosshead.tasks.loading import load_as

    filler = load_as(MaskFiller, bundle, device, threads, precision)
    put_bytes(answers.filled(filler, text, top, jsonl).encode(errors="backslashreplace"))
