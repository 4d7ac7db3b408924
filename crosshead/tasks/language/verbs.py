"""The verb `generate`, and the kind of `evaluate` for text."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.kinds import evaluate
from crosshead.cli.options import (
    BeamOption,
    BundleArgument,
    BundlesArgument,
    DeviceOption,
    JsonlOption,
    PrecisionOption,
    SeedOption,
    TemperatureOption,
    ThreadsOption,
    TopKOption,
    TopPOption,
    count_option,
)
from crosshead.cli.terminal import put, put_bytes
from crosshead.errors import BundleError, ConfigError, DataError

if TYPE_CHECKING:
    from crosshead.decoding.settings import DecodeConfig
    from crosshead.evaluation.bootstrap import CorpusScore
    from crosshead.tasks.language.text_generator import TextGenerator


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
        int, count_option("Largest number of tokens to write per text (default: 500).")
    ] = 500,
    samples: Annotated[
        int, count_option("Number of texts to write (default: 1; needs sampling).")
    ] = 1,
    temperature: TemperatureOption = None,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    greedy: Annotated[
        bool,
        typer.Option("--greedy", help="Take the most probable token each time, without sampling."),
    ] = False,
    beam: BeamOption = None,
    seed: SeedOption = None,
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
    from crosshead.cli import arguments
    from crosshead.tasks.language.text_generator import TextGenerator
    from crosshead.tasks.loading import load_as

    writer = load_as(TextGenerator, bundle, device, threads, precision)
    flags = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    decode = arguments.writing_settings(writer.bundle.config.decode, greedy, beam, flags)
    for text in _written(writer, prompt, length, samples, decode, stop):
        put_bytes(text.encode(errors="backslashreplace"))


def _written(
    writer: "TextGenerator",
    prompt: str,
    length: int,
    samples: int,
    decode: "DecodeConfig",
    stop: str,
) -> Iterator[str]:
    """Yield the prompt and its continuation, piece by piece, with an empty line between samples."""
    if samples > 1 and not decode.sample:
        raise ConfigError(
            f"--samples {samples} needs sampling: this search is deterministic and would print one "
            f"text {samples} times; remove --samples, or turn sampling on (leave out --greedy and "
            "--beam, and give --seed 1)"
        )
    prompt, stop = (text.replace("\\n", "\n") for text in (prompt, stop))
    for number in range(samples):
        yield ("\n" if number else "") + prompt
        yield from writer.write(prompt, length=length, decode=decode, stop=stop, number=number)
        yield "\n"


TextOption = Annotated[
    Path | None,
    typer.Option(metavar="F", help="File of text to score, for a model of monolingual text."),
]
StrideOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of tokens by which the window over --text moves (default: the window's "
        "length). Smaller values give each token more context and take longer.",
    ),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        max=10**6,
        help="Memory of a transformer-xl, in positions (default: as in training).",
    ),
]


@evaluate.kind(
    "text", examples=("crosshead evaluate runs/shakespeare --text test.txt --stride 64",)
)
def evaluate_text(
    bundles: BundlesArgument,
    text: TextOption = None,
    stride: StrideOption = None,
    memory: MemoryOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Give --text for a model of monolingual text.

    The command prints perplexity and bits per
    character, or for a masked language model masked perplexity and accuracy. The model reads the
    text in windows of the training length, which move by --stride. A model with a memory
    reads the text in one pass instead, unless --stride is given.
    """
    from crosshead.cli import arguments
    from crosshead.cli.evaluation import scores_jsonl, scores_table

    assert text is not None
    bundle = arguments.only(bundles, "--text")
    scores = text_evaluation(bundle, text, stride, memory, device, threads)
    put(scores_jsonl(scores) if jsonl else scores_table(scores))


def text_evaluation(
    bundle: Path,
    text: Path,
    stride: int | None,
    memory: int | None,
    device: str,
    threads: int | None,
) -> "list[CorpusScore]":
    """Return the scores of a model of monolingual text on a text."""
    from crosshead.cli.evaluation import SCORES_FOLLOW
    from crosshead.cli.terminal import answering
    from crosshead.system.lines import LONGEST_TEXT, read_lines
    from crosshead.tasks.language.text_generator import TextGenerator
    from crosshead.tasks.likelihood import masked_scores, text_scores
    from crosshead.tasks.loading import load
    from crosshead.tasks.masked.mask_filler import MaskFiller

    lines = read_lines(text, LONGEST_TEXT)
    if not any(lines):
        raise DataError(f"{text}: empty; expected text")
    model = load(bundle, device, threads)
    joined = "".join(f"{line}\n" for line in lines)
    if not isinstance(model, MaskFiller | TextGenerator):
        raise BundleError(f"{bundle} is a model that {model.does}; --text is for models of text")
    if isinstance(model, MaskFiller) and (stride is not None or memory is not None):
        raise ConfigError(
            "--stride and --memory need a language model; this is a masked language model, which "
            "reads windows of its training length: leave them out"
        )
    with answering(len(joined), "characters", SCORES_FOLLOW) as advance:
        progress = partial(advance, 0, len(joined))
        if isinstance(model, MaskFiller):
            scores = masked_scores(model.score(joined, progress))
        else:
            scores = text_scores(model.score(joined, stride, memory, progress))
        progress(1.0)
    return scores
