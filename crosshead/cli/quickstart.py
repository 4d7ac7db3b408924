"""The quickstart: from nothing to a trained Transformer that translates, in a few minutes.

    python -m crosshead.cli.quickstart [DIRECTORY]

Writes dates in English and German as text files, trains on them in the same way as
`crosshead train`, and shows the results: exact matches, some translations, a picture of attention.
"""

import shlex
import signal
import sys
from pathlib import Path

import typer

from crosshead.cli.reports import end_of_run
from crosshead.cli.terminal import READER_LEFT, guarded, note, program, put, table
from crosshead.evaluation.sacrebleu_metrics import exact_match
from crosshead.inspection import attention_weights, draw_attention
from crosshead.recipe.stored import run_recipe
from crosshead.system.progress import choose_display
from crosshead.system.signals import stop_on_signals
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.synthetic import Pair, date_pairs, write_date_files
from crosshead.training.directory import holds_run
from crosshead.training.run import train

SHOWN = ("Friday, March 5, 2021", "7 Sept 2099", "31/12/1999", "Q3 1905")


def main() -> None:
    """Run the quickstart in the directory given, or in `runs/quickstart`."""
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/quickstart")
    sys.exit(guarded(lambda: run(directory)))


def run(directory: Path) -> None:
    """Make the text, train on it, and show the results."""
    pairs = date_pairs()
    write_date_files(directory, pairs)
    put(f"{len(pairs.train):,} dates in English and German: {directory}/train.en, train.de\n")
    data = {
        key: [str(directory / name)]
        for key, name in (
            ("source", "train.en"),
            ("target", "train.de"),
            ("valid_source", "valid.en"),
            ("valid_target", "valid.de"),
        )
    }
    out = directory / "model"
    with stop_on_signals() as request:
        summary = train(
            run_recipe(None, "quickstart", {"data": data}),
            out,
            force=holds_run(out),
            command="python -m crosshead.cli.quickstart",
            display=choose_display(lambda: request.ask(signal.SIGPIPE)),
        )
        (note if summary.interrupted else put)(end_of_run(summary))
    if summary.interrupted:
        raise typer.Exit(READER_LEFT)
    show(load_as(Translator, out), directory, pairs.test, pairs.unseen_patterns)


def show(translator: Translator, directory: Path, test: list[Pair], unseen: list[Pair]) -> None:
    """Report exact matches, some translations and a picture of attention."""
    known, new = (_exact(translator, pairs) for pairs in (test, unseen))
    put(f"\nexact matches on {len(test)} dates never seen: {known:.1%}\n")
    put(f"exact matches on {len(unseen)} dates in patterns never seen: {new:.1%}\n\n")
    put(table([[source, translator(source)] for source in SHOWN]))
    picture = directory / "attention.png"
    draw_attention(attention_weights(translator, SHOWN[0]), path=picture)
    model = shlex.quote(str(directory / "model"))
    put(f"\nattention weights for {SHOWN[0]!r}: {picture}\n")
    put(f"translate more:  echo '5 March 2021' | {program()} translate {model}\n")


def _exact(translator: Translator, pairs: list[Pair]) -> float:
    sources, targets = zip(*pairs, strict=True)
    return exact_match(translator(sources), targets)


if __name__ == "__main__":
    main()
