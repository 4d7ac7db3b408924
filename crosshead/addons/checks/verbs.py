"""The verb `data check`."""

from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosshead.caller import split_names
from crosshead.cli.app import data_app
from crosshead.cli.options import Files
from crosshead.cli.terminal import at_terminal, note, put, shortened, table
from crosshead.cli.training_options import FieldsOption
from crosshead.errors import UserError

if TYPE_CHECKING:
    from crosshead.addons.checks.check import DataReport

_WIDEST = 50
"""The largest number of characters of a text in an example."""


@data_app.command(
    "check",
    epilog="\b\nExamples:\n"
    "  crosshead data check --source train.en --target train.de\n"
    "  crosshead data check --pairs sheet.csv --fields English,German --out checked\n"
    "  crosshead data check --pairs sheet.csv --fields English,German --out checked --apply \\\n"
    "      --skip near-duplicate,mark-up",
)
def data_check(
    source: Annotated[
        Files, typer.Option(metavar="F", help="File of source sentences, as for `crosshead train`.")
    ] = None,
    target: Annotated[
        Files, typer.Option(metavar="F", help="File of translations, one for each --source.")
    ] = None,
    pairs: Annotated[
        Files, typer.Option(metavar="F", help="File of both sides: TSV, CSV or JSON Lines.")
    ] = None,
    fields: FieldsOption = None,
    valid_source: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Source side of a validation or test set, to find training pairs that are also "
            "in that set. Repeat it for more sets.",
        ),
    ] = None,
    valid_target: Annotated[
        Files,
        typer.Option(metavar="F", help="Target side of the set. Give one for each --valid-source."),
    ] = None,
    valid_pairs: Annotated[
        Files,
        typer.Option(
            metavar="F",
            help="Validation or test set as one file with both sides, in a format of --pairs.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LIST",
            help="Checks to skip: kinds of pairs, separated by commas (default: none). Use it to "
            "keep such pairs in the cleaned files.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory for suspects.tsv, which lists every suspect pair."
        ),
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Write the files without the suspect pairs to --out. The checked files stay as "
            "they are.",
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace files in --out that have the names of the cleaned ones."
        ),
    ] = False,
) -> None:
    """Look for suspect pairs in parallel text: misaligned, repeated, in another language.

    The command prints a table with the number of pairs of each kind and an example. A suspect pair
    is not always wrong: read some of them before you remove them. A pair may be of several kinds.
    The kinds are empty, identical, placeholder, encoding, unicode, mark-up, exchanged, language,
    length, misaligned, number, duplicate, near-duplicate and overlap.

    --apply drops the suspect pairs, except for pairs of the kind unicode alone, which it writes in
    the usual Unicode form (NFC). Aligned files keep their names. A file of pairs becomes TSV with
    two columns, the source and the target; other columns are left out. The order stays.
    """
    from crosshead.addons.checks.files import SUSPECTS, check_files, check_outputs, write_files
    from crosshead.config import validate
    from crosshead.system.files import made_directory
    from crosshead.system.progress import choose_display, counted
    from crosshead.text.parallel.corpora import training_parts
    from crosshead.text.parallel.section import DataConfig

    if not (source or target or pairs):
        raise UserError("nothing to check: give --source and --target, or --pairs")
    if apply and out is None:
        raise UserError("--apply writes files: give a directory for them with --out")
    if force and not apply:
        raise UserError("--force replaces the files that --apply writes: give --apply too")
    given = {
        "source": source, "target": target, "pairs": pairs,
        "fields": split_names(fields) if fields else None,
        "valid_source": valid_source, "valid_target": valid_target, "valid_pairs": valid_pairs,
    }  # fmt: skip
    values = {key: value for key, value in given.items() if value}
    flags = {key: f"--{key.replace('_', '-')}" for key in values}
    config = validate(
        DataConfig, values, typed=flags | {f"data.{key}": flag for key, flag in flags.items()}
    )
    if out is not None:
        valid = [*config.valid_source, *config.valid_target, *config.valid_pairs]
        check_outputs(training_parts(config), out, apply=apply, force=force, others=valid)
    kinds = [kind.strip() for kind in ",".join(skip or []).split(",") if kind.strip()]
    # A place that cannot be written is an error before the check, which may take long.
    with made_directory(out) if out else nullcontext():
        with closing(choose_display(lambda: None, quiet=5.0)) as display:

            def advance(share: float, step: str) -> None:
                if display.due() or (share == 1 and at_terminal()):
                    display.advance(share, step)

            report, text = check_files(config, kinds, note, advance)
        written = [] if out is None else write_files(report, text, out, apply=apply, force=force)
    for line in report.notes:
        note(line)
    if report.verdict:
        put(f"{report.verdict[:1].upper()}{report.verdict[1:]}.\n\n")
    put(_summary(report))
    if out is None:
        if report.suspects:
            advice = "add --apply to write the files without them."
            put(f"\nGive --out DIR to list all suspect pairs; {advice}\n")
        return
    put(f"\n{out / SUSPECTS}: all suspect pairs, with the reason for each\n")
    if apply:
        left = len(report) - len(report.dropped())
        put(f"{', '.join(map(str, written))}: {counted(left, 'pair')} kept\n")


def _summary(report: "DataReport") -> str:
    """Return the table of suspect pairs, and a line with their number."""
    from crosshead.addons.checks.suspects import KINDS
    from crosshead.system.progress import counted

    counts, total, rows = report.counts(), len(report), len(report.rows())
    if not counts:
        return f"{counted(total, 'pair')} checked, none is suspect\n"
    lines = [["kind", "pairs", "share", "meaning"]]
    lines += [
        [kind, f"{count:,}", f"{count / total:.2%}", KINDS[kind]] for kind, count in counts.items()
    ]
    examples = []
    for kind in counts:
        found = [suspect for suspect in report.suspects if suspect.kind == kind]
        best = max(found, key=lambda suspect: suspect.score)
        file, line = report.origin(best.row)
        sides = (shortened(side[best.row], _WIDEST) for side in report.sides)
        examples.append(f"{kind}: {file}:{line}: {best.reason}\n    {' | '.join(sides)}\n")
    stretches = _stretches(report)
    advice = "lines are missing or added where a stretch begins; repair the files there"
    shifted = f"\nShifted stretches ({advice}):\n{stretches}" if stretches else ""
    verb = "is" if rows == 1 else "are"
    share = f"{rows:,} of {counted(total, 'pair')} {verb} suspect ({rows / total:.1%})"
    return f"{share}\n\n{table(lines)}\nAn example of each kind:\n{''.join(examples)}{shifted}"


def _stretches(report: "DataReport") -> str:
    """Return a line for each stretch of neighbouring pairs that are shifted by the same lines."""
    lines = []
    for first, last in report.stretches():
        (file, begin), (_, end) = report.origin(first.row), report.origin(last.row)
        lines.append(f"{file}:{begin} to {end}: {first.reason}\n")
    return "".join(lines)
