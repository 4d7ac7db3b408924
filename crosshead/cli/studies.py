"""The verb that runs claims: `study`."""

from pathlib import Path
from typing import Annotated

import typer

from crosshead.cli.app import app
from crosshead.cli.options import ThreadsOption
from crosshead.terminal import note, put, table


@app.command(
    epilog="\b\nExamples:\n"
    "  crosshead study list\n"
    "  crosshead study masks\n"
    "  crosshead study all --quick --out /tmp/studies"
)
def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A study, all of them, or list.")
    ] = "list",
    quick: Annotated[
        bool, typer.Option("--quick", help="The same code at a size that takes seconds.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where NAME.md, .json and .png are written: studies, or studies/quick by default.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", min=0, max=2**31 - 1, help="Of all random choices.")
    ] = 1,
    threads: ThreadsOption = None,
) -> None:
    """Run a claim about attention: what is expected, what is measured, and whether it holds.

    Each study quotes its claim, states before it runs where its quantities should be, and ends
    with a verdict computed from where they are; `all` ends with a table of verdicts. `list` (or no
    name) says what there is.
    """
    from crosshead.devices import choose_threads
    from crosshead.files import make_directory
    from crosshead.studies.conduct import conduct, findings, summary, write
    from crosshead.studies.registry import STUDIES, chosen

    if name == "list":
        put(table([[each.name, each.title] for each in STUDIES.values()]))
        return
    studies = chosen(name)
    # What was made in hours is not replaced by what takes seconds.
    out = out or (Path("studies") / "quick" if quick else Path("studies"))
    make_directory(out)  # before anything takes minutes
    if threads is not None:
        choose_threads(threads)
    records = []
    for number, each in enumerate(studies):
        put(f"{chr(10) if number else ''}{each.title}\n\n  “{each.claim}”\n  {each.source}\n\n")
        put("Expected:\n" + "".join(f"- {band.name}: {band}. {band.why}\n" for band in each.bands))
        record = conduct(each, quick=quick, seed=seed, say=note)
        for found in (*record.result.tables, findings(record)):
            put(f"\n{found.title}:\n{table(found.rows)}")
        records.append(record)
        # Among several, what was missed stands in the tables alone.
        said = record.verdict if len(studies) == 1 else record.verdict.word
        put(f"\nVerdict: {said}.\n")
        written = write(record, out, note)
        put(f"Written: {', '.join(map(str, written))}\n")
    if len(records) > 1:
        verdicts = summary(records)
        put(f"\n{verdicts.title}:\n{table(verdicts.rows, numbers=2)}")
