"""The command line: its verbs, their flags and their help. What they do is done elsewhere.

Whatever is slow to import (PyTorch above all) is imported inside the verb that needs it, so that
`crosshead --help` answers at once.
"""

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from crosshead import __version__
from crosshead.errors import UserError
from crosshead.terminal import end_on, guarded, note, put, stop_on_signals, table

app = typer.Typer(add_completion=False, rich_markup_mode=None)
data_app = typer.Typer(rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Get public data sets.")

BundleArgument = Annotated[Path, typer.Argument(metavar="BUNDLE", help="A bundle's directory.")]
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


def main() -> None:
    """Run the command line and end the process: the console script `crosshead`."""
    signal.signal(signal.SIGTERM, end_on)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGHUP, end_on)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line on these arguments, or help; returns the exit code."""
    command = typer.main.get_command(app)

    def work() -> None:
        with command.make_context("crosshead", list(arguments) or ["--help"]) as context:
            command.invoke(context)

    return guarded(work)


def _version(asked: bool) -> None:
    if asked:
        put(f"crosshead {__version__}\n")
        raise typer.Exit


@app.callback(
    epilog="\b\nExit codes: 0 done; 2 a mistake in what was given (one line says which);\n"
    "129 SIGHUP; 130 Ctrl-C; 141 the reader of a pipe left; 143 SIGTERM."
)
def crosshead(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Train Transformers on raw text, translate with them, and measure them."""


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead train --source train.en --target train.de --out runs/en-de\n"
    "  crosshead train --pairs corpus.jsonl --fields en,de --preset small --out runs/en-de\n"
    "  crosshead train recipe.toml --out runs/en-de --set model.heads=8 --max-minutes 30"
)
def train(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where run and bundle are written.")],
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="A TOML file, or a name of those that ship."),
    ] = None,
    source: Annotated[
        Files, typer.Option(metavar="F", help="Source sentences, one a line; repeatable.")
    ] = None,
    target: Annotated[
        Files, typer.Option(metavar="F", help="Their translations; one for each --source.")
    ] = None,
    pairs: Annotated[
        Files, typer.Option(metavar="F", help="TSV or JSONL with both sides; repeatable.")
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Source and target field of --pairs: names (a TSV's first line is then its "
            "header), or in a TSV numbers of columns from 1.",
        ),
    ] = None,
    valid_source: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    valid_target: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    valid_pairs: Annotated[Files, typer.Option(metavar="F", help="To validate with.")] = None,
    preset: Annotated[str | None, typer.Option(help="tiny (default), small, base, big.")] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="BUNDLE", help="Fine-tune this bundle: its model, its tokenizer."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run in --out, once there is a bundle.")
    ] = False,
    max_minutes: Annotated[
        float | None, typer.Option(metavar="M", help="End after so many.")
    ] = None,
    max_updates: Annotated[int | None, typer.Option(metavar="N", help="End after so many.")] = None,
    max_epochs: Annotated[int | None, typer.Option(metavar="N", help="End after so many.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices.")] = None,
    device: Annotated[str | None, typer.Option(metavar="D", help="auto, cpu, cuda, ...")] = None,
    threads: Annotated[int | None, typer.Option(metavar="T", help="CPU threads; 0: all.")] = None,
    precision: Annotated[str | None, typer.Option(metavar="P", help="auto, float32, ...")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any setting; repeatable."),
    ] = None,
) -> None:
    """Train a model on parallel text.

    It leaves a bundle in --out. Training ends with the first of --max-minutes, --max-updates and
    --max-epochs. Ctrl-C, SIGTERM, or nobody left to read the messages: a checkpoint is saved after
    the update under way, for --resume; a second signal ends at once. Without validation files, some
    pairs are held out. Settings: preset, then recipe, then flags, then --set; the result is written
    to DIR/recipe.toml.

    --resume takes the settings of DIR/recipe.toml in the place of a preset's. Those of how long to
    train, how to search and where to compute, the learning rate and the names of files may be given
    anew, others must agree. --preset and --from only begin a run: they are not read again.
    """
    from crosshead import reports
    from crosshead.training.log import choose_display
    from crosshead.training.run import train as run_recipe
    from crosshead.training.settings import new_recipe, resumed_recipe, without_unset

    flags: dict[str, dict[str, object]] = {
        "data": {
            "source": source,
            "target": target,
            "pairs": pairs,
            "fields": fields.split(",") if fields else None,
            "valid_source": valid_source,
            "valid_target": valid_target,
            "valid_pairs": valid_pairs,
        },
        "train": {
            "max_minutes": max_minutes,
            "max_updates": max_updates,
            "max_epochs": max_epochs,
            "seed": seed,
            "device": device,
            "threads": threads,
            "precision": precision,
        },
    }
    given = without_unset(flags)
    if resume:
        if force:
            raise UserError(f"--resume goes on with the run in {out}: leave out --force")
        settings = resumed_recipe(out, recipe, given, assignments or [])
        if preset or start:
            note(f"the run in {out} has begun: --preset and --from are not read again")
    else:
        settings = new_recipe(preset, recipe, given, assignments or [], start)
        if preset and start:
            note(f"--preset {preset} says how to train; model and tokenizer are those of {start}")
    with stop_on_signals() as request:
        summary = run_recipe(
            settings,
            out,
            start=start,
            resume=resume,
            force=force,
            command=shlex.join(["crosshead", *sys.argv[1:]]),
            display=choose_display(lambda: request.ask(signal.SIGPIPE)),
            should_stop=request,
        )
    if summary.rank == 0:  # of several processes the first one speaks
        (note if summary.interrupted else put)(reports.end_of_run(summary))
    raise typer.Exit(request.exit_code if summary.interrupted else 0)


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead translate runs/en-de input.txt --output output.txt\n"
    '  echo "A dog runs." | crosshead translate runs/en-de --beam 5\n'
    "  crosshead translate runs/en-de input.txt --n-best 3"
)
def translate(
    bundle: BundleArgument,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Text (.gz too); - is standard input.")
    ] = "-",
    output: Annotated[
        Path | None, typer.Option(metavar="F", help="A file, whole or absent; else the output.")
    ] = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    n_best: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Lines of `number ||| text ||| score`.")
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw instead of searching.")] = False,
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Of samples.")] = None,
    top_k: Annotated[int | None, typer.Option(metavar="K", help="Of samples.")] = None,
    top_p: Annotated[float | None, typer.Option(metavar="P", help="Of samples.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of samples.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Lines of `text<TAB>score`.")] = False,
    jsonl: JsonlOption = False,
    batch_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Source tokens decoded at once.")
    ] = None,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    precision: PrecisionOption = "float32",
) -> None:
    """Translate lines of text.

    One line out for each line in, in order, an empty one for an empty one. A pipe is answered as it
    comes. By default the search is as the bundle says. The score is the log-probability over the
    length penalty. A line too long for the model is split at the ends of sentences, with a warning.
    """
    from crosshead import answers
    from crosshead.pipelines import load

    answers.check_not_input(output, file)
    translator = load(bundle, device, threads, precision)
    flags = {
        "beam": beam,
        "length_penalty": length_penalty,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
        "batch_tokens": batch_tokens,
    }
    decode = answers.search_settings(translator.bundle.config.decode, sample, flags, n_best)
    answers.answer(translator, file, output, decode, n_best, scores, jsonl)


@app.command(
    epilog="\b\nExample:\n  crosshead evaluate runs/en-de --source test.en --reference test.de"
)
def evaluate(
    bundle: BundleArgument,
    source: SourceOption,
    reference: ReferenceOption,
    metrics: Annotated[
        str, typer.Option(metavar="LIST", help="Of bleu, chrf, ter and perplexity, by commas.")
    ] = "bleu,chrf",
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Translate a test set and score it.

    Each metric comes with its bootstrap interval of 95 % and a signature: sacreBLEU's, or of
    perplexity one that says how it is normalised. By default the search is as the bundle says.
    """
    from crosshead import reports
    from crosshead.data.corpora import read_aligned
    from crosshead.pipelines import load

    names = reports.metric_names(metrics, tokenize, ["perplexity"])
    sources, references = read_aligned(source, reference)
    translator = load(bundle, device, threads)
    flags = {"beam": beam, "length_penalty": length_penalty}
    scores = reports.evaluation(translator, sources, references, names, tokenize, flags)
    put(reports.scores_jsonl(scores) if jsonl else reports.scores_table(scores))


@app.command(
    epilog="\b\nExample:\n"
    "  crosshead compare runs/first runs/second --source test.en --reference test.de"
)
def compare(
    bundles: Annotated[
        list[Path],
        typer.Argument(metavar="BUNDLE", help="Two or more; the first is the baseline."),
    ],
    source: SourceOption,
    reference: ReferenceOption,
    metrics: MetricsOption = "bleu,chrf",
    tokenize: TokenizeOption = None,
    beam: BeamOption = None,
    length_penalty: PenaltyOption = None,
    jsonl: JsonlOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Compare bundles on a test set by paired bootstrap.

    p is how likely a difference from the first bundle at least as large is by chance.
    """
    from crosshead import reports
    from crosshead.data.corpora import read_aligned
    from crosshead.evaluation import compare as compare_systems
    from crosshead.pipelines import load

    names = reports.metric_names(metrics, tokenize)
    reports.check_distinct(bundles)
    sources, references = read_aligned(source, reference)
    flags = {"beam": beam, "length_penalty": length_penalty}
    systems: dict[str, Sequence[str]] = {
        str(bundle): reports.translated(load(bundle, device, threads), sources, flags)
        for bundle in bundles
    }
    scores = compare_systems(systems, references, names, tokenize)
    put(reports.scores_jsonl(scores) if jsonl else reports.comparison_table(scores))


@app.command(epilog="\b\nExample:\n  crosshead score runs/en-de --source test.en --target test.de")
def score(
    bundle: BundleArgument,
    source: SourceOption,
    target: Annotated[Path, typer.Option(metavar="F", help="A translation for each source line.")],
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="One JSON object a line, with every piece's.")
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Print log-probabilities of given translations.

    One for each line: natural logarithms, the end of the sentence included. White space around a
    line is left out, as in translation.
    """
    from crosshead import answers
    from crosshead.data.corpora import read_aligned
    from crosshead.pipelines import load

    sources, targets = read_aligned(source, target)
    translator = load(bundle, device, threads)
    for text in answers.scored(translator, sources, targets, jsonl):
        put(text)


@app.command(epilog="\b\nExample:\n  crosshead info runs/en-de")
def info(bundle: BundleArgument) -> None:
    """Say what a bundle is: its model, its tokenizer, its scores."""
    from crosshead import reports
    from crosshead.bundle import load_bundle

    put(table(reports.bundle_facts(bundle, load_bundle(bundle))))


@app.command(epilog="\b\nExample:\n  crosshead average runs/a runs/b runs/c --out runs/mean")
def average(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE", help="Two or more, of one shape.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new directory.")],
) -> None:
    """Average the weights of several bundles."""
    from crosshead.training.average import average_bundles

    average_bundles(bundles, out, command=shlex.join(["crosshead", *sys.argv[1:]]))
    put(f"{out}: the mean of {len(bundles)} bundles\n")


@data_app.command("get", epilog="\b\nExample:\n  crosshead data get multi30k")
def data_get(
    name: Annotated[str, typer.Argument(help="multi30k, tinyshakespeare, ett or dates.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to; data/NAME by default.")
    ] = None,
) -> None:
    """Get a data set: from its public source, with its SHA-256 checked; dates are made here."""
    from crosshead.data.download import download

    download(name, out or Path("data") / name, lambda line: put(f"{line}\n"))


@app.command(epilog="\b\nExample:\n  crosshead presets")
def presets() -> None:
    """List the presets: shapes, parameters, and sizes on disk."""
    from crosshead import reports

    put(table(reports.preset_rows(), numbers=7))
