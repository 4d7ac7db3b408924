"""The verb `study`, which tests claims about attention."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import ThreadsOption
from crosshead.cli.terminal import note, put, table


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead study list\n"
    "  crosshead study sets\n"
    "  crosshead study all --quick --out /tmp/studies"
)
def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Name of a study, all, or list (default: list).",
        ),
    ] = "list",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Try the code at a small size, and judge nothing.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for NAME.md, .json and .png (default: studies; studies/quick with "
            "--quick).",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="S",
            min=0,
            max=2**31 - 1,
            show_default=False,
            help="Random seed (default: 1). The same seed gives the same numbers, but other times.",
        ),
    ] = 1,
    threads: ThreadsOption = None,
) -> None:
    """Test a claim about attention by measurement.

    Each study quotes its claim and states the expected values before it runs. It ends with a
    verdict computed from the measured values. `all` runs every study and ends with a table of
    verdicts. `list` (or no name) shows the studies and their running times.
    """
    from crosshead.addons.studies import conduct
    from crosshead.addons.studies.study import CAVEAT
    from crosshead.system.devices import choose_threads
    from crosshead.system.files import make_directory

    if name == "list":
        put(table(conduct.listed(conduct.STUDIES.values()).rows))
        return
    studies = conduct.chosen(name)
    # Each form has its own folder: results of hours are not replaced by results of seconds.
    out = out or Path("studies/quick" if quick else "studies")
    make_directory(out)  # before anything takes minutes
    if threads is not None:
        choose_threads(threads)
    records = []
    for number, each in enumerate(studies):
        put(f"{chr(10) if number else ''}{each.title}\n\n  “{each.claim}”\n  {each.source}\n\n")
        put("Expected:\n" + "".join(f"- {line}\n" for line in conduct.expectations(each)))
        if quick:
            put(f"\nThis is the {CAVEAT}.\n")
        record = conduct.conduct(each, quick=quick, seed=seed, say=note)
        for found in (*record.result.all_tables, conduct.findings(record)):
            put(f"\n{found.title}:\n{table(found.rows)}")
        records.append(record)
        # With several studies, only the tables name the quantities that were missed.
        put(f"\nVerdict: {record.said(brief=len(studies) > 1)}.\n")
        written = conduct.write(record, out, note)
        put(f"Written: {', '.join(map(str, written))}\n")
    if len(records) > 1:
        verdicts = conduct.summary(records)
        put(f"\n{verdicts.title}:\n{table(verdicts.rows, numbers=2)}")
