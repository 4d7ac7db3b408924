"""A study conducted: run from its seed, judged, and written down with where and when it was."""

import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch

from crosshead import __version__
from crosshead.errors import UserError
from crosshead.studies.effort import Effort, duration, minutes_of
from crosshead.studies.study import (
    LEFT_OUT,
    Band,
    Reported,
    Result,
    Say,
    Study,
    Table,
    Unmeasured,
    Value,
    Verdict,
    judge,
    number,
)
from crosshead.system.devices import available_cores
from crosshead.system.files import atomic_write_all, make_directory
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.system.progress import counted
from crosshead.training.hardware import instruction_sets


@dataclass(frozen=True)
class Record:
    """A study that was run: its result, its verdict, and under which circumstances."""

    study: Study
    result: Result
    verdict: Verdict
    effort: Effort
    seed: int
    threads: int
    date: str
    seconds: float
    found_again: str
    """A clause that names the runs not trained now; empty if all were."""

    @property
    def command(self) -> str:
        """The command that runs it again."""
        form = ""
        if self.effort.quick:
            form = " --quick"
        elif not self.effort.full:
            form = f" --minutes {minutes_of(self.effort, self.study.times):.6g}"
        return (
            f"crosshead study {self.study.name}{form} --seed {self.seed} --threads {self.threads}"
        )

    def said(self, *, brief: bool) -> str:
        """Return the verdict behind the caveat of the form; `brief` leaves out the quantities."""
        verdict = self.verdict.word if brief else str(self.verdict)
        if self.result.conclusion and not brief:
            verdict += f". {self.result.conclusion}"
        return f"({self.effort.caveat}) {verdict}" if self.effort.caveat else verdict

    @property
    def circumstances(self) -> dict[str, str]:
        """The command, the time and the machine of the run, by name."""
        return {
            "command": self.command,
            "form": self.effort.form,
            "version": f"crosshead {__version__}, PyTorch {torch.__version__}",
            "date": self.date,
            **({"found again": self.found_again} if self.found_again else {}),
            "cores": str(available_cores()),
            "processor units": ", ".join(instruction_sets()) or "unknown",
            "seconds": f"{self.seconds:.1f}",
        }


def conduct(study: Study, *, effort: Effort, seed: int, say: Say) -> Record:
    """Run a study: all that it draws depends on `seed` alone, and the generator is as before.

    Raises what the study raises.
    """
    now, began = datetime.now(UTC), time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        result = study.run(effort, seed, say)
    seconds = time.perf_counter() - began
    verdict = judge(study.bands, result.measured, study.reported)
    again = found_again(result.kept, now)
    date, threads = now.date().isoformat(), torch.get_num_threads()
    return Record(study, result, verdict, effort, seed, threads, date, seconds, again)


def found_again(kept: Sequence[Path], since: datetime) -> str:
    """Return a note on runs in these files that are older than `since`; "" if there are none.

    The note gives their number, dates and versions.
    """
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


def expectations(study: Study) -> list[str]:
    """Return a line for each quantity of a study: its band and the reason, or why it has none."""
    return [
        *(f"{band.name}: {band}. {band.why}" for band in study.bands),
        *(f"{each.name}: reported, not judged. {each.why}" for each in study.reported),
    ]


def findings(record: Record) -> Table:
    """Return the table of what was expected beside what was measured."""
    rows = [["quantity", "expected", "measured", ""]]
    for each in record.study.quantities:
        value = record.result.measured.get(each.name, LEFT_OUT)
        expected = str(each) if isinstance(each, Band) else ""
        rows.append([each.name, expected, *_outcome(each, value)])
    return Table("Expected and measured", rows)


def _outcome(of: Band | Reported, value: Value) -> tuple[str, str]:
    if isinstance(value, Unmeasured):
        return "not measured", value.reason
    if isinstance(of, Reported):
        return number(value), "reported, not judged"
    return number(value), "as expected" if of.holds(value) else "not as expected"


def listed(studies: Iterable[Study]) -> Table:
    """Return the table of studies with the time of each form."""
    rows = [["study", "full form", "quick form", "title"]]
    for each in studies:
        times = each.times
        rows.append([each.name, duration(times.full), duration(times.quick), each.title])
    return Table("Studies", rows)


def summary(records: Sequence[Record]) -> Table:
    """Return a table of several studies' verdicts, one line each."""
    rows = [["study", "verdict", "as expected", "seconds"]]
    for record in records:
        verdict, seconds = record.verdict, f"{record.seconds:,.1f}"
        rows.append([record.study.name, verdict.word, verdict.met_of_all, seconds])
    caveat = records[0].effort.caveat
    return Table(f"Verdicts ({caveat})" if caveat else "Verdicts", rows)


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
        if record.effort.caveat:
            figure.suptitle(record.effort.caveat, fontsize=9, color="tab:red")
        return rendered(figure, dpi=90)


def as_json(record: Record) -> str:
    """Return the record as JSON; "inf" has no end, and null was not measured."""

    def plain(value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    def found(name: str) -> dict[str, float | str | None]:
        value = record.result.measured.get(name, LEFT_OUT)
        if isinstance(value, Unmeasured):
            return {"measured": None, "not measured because": value.reason}
        return {"measured": plain(value)}

    study = record.study
    bands = [
        {
            "name": band.name,
            "low": plain(band.low),
            "high": plain(band.high),
            "why": band.why,
            **found(band.name),
            "met": band.name in record.verdict.met,
        }
        for band in study.bands
    ]
    reported = [{"name": each.name, "why": each.why, **found(each.name)} for each in study.reported]
    whole = {
        "study": study.name,
        "claim": study.claim,
        "source": study.source,
        **record.circumstances,
        "share": record.effort.share,
        "seed": record.seed,
        "threads": record.threads,
        "seconds": round(record.seconds, 1),
        "caveat": record.effort.caveat,
        "verdict": record.verdict.word,
        "conclusion": record.result.conclusion,
        "bands": bands,
        "reported": reported,
        "tables": [{"title": each.title, "rows": each.rows} for each in record.result.tables],
    }
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def as_markdown(record: Record, *, with_picture: bool) -> str:
    """Return the record as a page."""
    study, caveat = record.study, record.effort.caveat
    parts = [
        f"# {study.title}",
        *([f"**{_capital(caveat)}.**"] if caveat else []),
        f"> {study.claim}\n>\n> {study.source}",
        "Expected, before it was run:",
        "\n".join(f"- {line}" for line in expectations(study)),
        f"**{_capital(str(record.verdict))}.**",
        *([record.result.conclusion + "."] if record.result.conclusion else []),
        _markdown(findings(record)),
        *(f"{each.title}:\n\n{_markdown(each)}" for each in record.result.tables),
        *([f"![{study.title}]({study.name}.png)"] if with_picture else []),
        "\n".join(f"- {key}: {value}" for key, value in record.circumstances.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _markdown(table: Table) -> str:
    head, *rows = (f"| {' | '.join(row)} |" for row in table.rows)
    rule = "|" + "---|" * len(table.rows[0])
    return "\n".join([head, rule, *rows])
