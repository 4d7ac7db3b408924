"""A study conducted: run from its seed, judged, and written down with where and when it was."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from crosshead import __version__
from crosshead.devices import available_cores
from crosshead.errors import UserError
from crosshead.files import atomic_write_all, make_directory
from crosshead.pictures import drawing, new_figure, rendered
from crosshead.studies.study import Result, Say, Study, Table, Verdict, judge, number
from crosshead.training.hardware import instruction_sets
from crosshead.training.log import counted


@dataclass(frozen=True)
class Record:
    """A study that was run: its result, its verdict, and under which circumstances."""

    study: Study
    result: Result
    verdict: Verdict
    quick: bool
    seed: int
    threads: int
    date: str
    seconds: float
    found_again: str
    """Which runs were not trained now, in a clause; empty where all were."""

    @property
    def command(self) -> str:
        """What to type to run it again."""
        quick = " --quick" if self.quick else ""
        return (
            f"crosshead study {self.study.name}{quick} --seed {self.seed} --threads {self.threads}"
        )

    @property
    def circumstances(self) -> dict[str, str]:
        """With what, when and where it was run."""
        return {
            "command": self.command,
            "version": f"crosshead {__version__}, PyTorch {torch.__version__}",
            "date": self.date,
            **({"found again": self.found_again} if self.found_again else {}),
            "cores": str(available_cores()),
            "processor units": ", ".join(instruction_sets()) or "unknown",
            "seconds": f"{self.seconds:.1f}",
        }


def conduct(study: Study, *, quick: bool, seed: int, say: Say) -> Record:
    """Run a study: all that it draws depends on `seed` alone, and the generator is as before.

    Raises what the study raises.
    """
    now, began = datetime.now(UTC), time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = study.run(quick, seed, say)
    seconds = time.perf_counter() - began
    verdict = judge(study.bands, result.measured)
    again = found_again(result.kept, now)
    date, threads = now.date().isoformat(), torch.get_num_threads()
    return Record(study, result, verdict, quick, seed, threads, date, seconds, again)


def found_again(kept: Sequence[Path], since: datetime) -> str:
    """How many of the runs in these files are older, of when and which versions; "" for none."""
    ended = {
        path: datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in kept if path.is_file()
    }
    there = {path: end.date().isoformat() for path, end in ended.items() if end < since}
    if not there:
        return ""
    days = " to ".join(sorted({min(there.values()), max(there.values())}))
    versions = sorted({json.loads(path.read_text("utf-8"))["crosshead"] for path in there})
    return (
        f"{len(there)} of {counted(len(kept), 'run')}, trained on {days} by crosshead "
        f"{' and '.join(versions)}"
    )


def findings(record: Record) -> Table:
    """What was expected beside what was measured."""
    rows = [["quantity", "expected", "measured", ""]]
    for band in record.study.bands:
        value = record.result.measured.get(band.name, math.nan)
        met = "as expected" if band.name in record.verdict.met else "not as expected"
        measured = ["not measured", ""] if math.isnan(value) else [number(value), met]
        rows.append([band.name, str(band), *measured])
    return Table("Expected and measured", rows)


def summary(records: Sequence[Record]) -> Table:
    """What came out of several studies, a line each."""
    rows = [["study", "verdict", "as expected", "seconds"]]
    for record in records:
        verdict, seconds = record.verdict, f"{record.seconds:,.1f}"
        rows.append([record.study.name, verdict.word, verdict.met_of_all, seconds])
    return Table("Verdicts", rows)


def write(record: Record, directory: Path, say: Say) -> list[Path]:
    """Write NAME.md, NAME.json and NAME.png into `directory`; the paths of those written.

    Without matplotlib there is no picture, and `say` says so. Raises `UserError` where they cannot
    be written; earlier files are intact then.
    """
    make_directory(directory)
    name = record.study.name
    contents = {}
    try:
        contents[f"{name}.png"] = picture(record)
    except UserError as error:
        say(str(error))
    contents[f"{name}.json"] = as_json(record).encode()
    contents[f"{name}.md"] = as_markdown(record, with_picture=f"{name}.png" in contents).encode()
    atomic_write_all(directory, contents)
    return [directory / each for each in contents]


def picture(record: Record) -> bytes:
    """The picture of a result, a PNG; raises `UserError` where matplotlib is missing or fails."""
    with drawing():
        figure = new_figure(figsize=(8, 3.6))
        record.result.draw(figure)
        return rendered(figure, dpi=90)


def as_json(record: Record) -> str:
    """The record as JSON; "inf" is what has no end, and null what was not measured."""

    def plain(value: float) -> float | str | None:
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else str(value)

    study = record.study
    bands = [
        {
            "name": band.name,
            "low": plain(band.low),
            "high": plain(band.high),
            "why": band.why,
            "measured": plain(record.result.measured.get(band.name, math.nan)),
            "met": band.name in record.verdict.met,
        }
        for band in study.bands
    ]
    whole = {
        "study": study.name,
        "claim": study.claim,
        "source": study.source,
        **record.circumstances,
        "quick": record.quick,
        "seed": record.seed,
        "threads": record.threads,
        "seconds": round(record.seconds, 1),
        "verdict": record.verdict.word,
        "bands": bands,
        "tables": [{"title": each.title, "rows": each.rows} for each in record.result.tables],
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def as_markdown(record: Record, *, with_picture: bool) -> str:
    """The record as a page."""
    study = record.study
    parts = [
        f"# {study.title}",
        f"> {study.claim}\n>\n> {study.source}",
        "Expected, before it was run:",
        "\n".join(f"- {band.name}: {band}. {band.why}" for band in study.bands),
        f"**{record.verdict.word[0].upper()}{str(record.verdict)[1:]}.**",
        _markdown(findings(record)),
        *(f"{each.title}:\n\n{_markdown(each)}" for each in record.result.tables),
        *([f"![{study.title}]({study.name}.png)"] if with_picture else []),
        "\n".join(f"- {key}: {value}" for key, value in record.circumstances.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    head, *rows = (f"| {' | '.join(row)} |" for row in table.rows)
    rule = "|" + "---|" * len(table.rows[0])
    return "\n".join([head, rule, *rows])
