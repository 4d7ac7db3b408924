"""All studies; how one is run from its seed, judged, and written down with time and machine."""

import json
import math
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.studies.bottleneck import BOTTLENECK
from crosshead.addons.studies.charts import Table, draw, number
from crosshead.addons.studies.feedforward import FEEDFORWARD
from crosshead.addons.studies.forecasting import LINEAR, PATCHES
from crosshead.addons.studies.gradients import GRADIENTS
from crosshead.addons.studies.heads import HEADCOST, HEADS
from crosshead.addons.studies.long import LONG
from crosshead.addons.studies.positions import EXTRAPOLATION, SETS
from crosshead.addons.studies.runs import MissingDataError
from crosshead.addons.studies.scaling import SCALING
from crosshead.addons.studies.scenes import GROUNDING, MULTIMODAL
from crosshead.addons.studies.stability import STABILITY
from crosshead.addons.studies.study import (
    CAVEAT,
    Band,
    Result,
    Say,
    Study,
    Trial,
    Verdict,
    duration,
    judge,
    value_of,
)
from crosshead.addons.studies.table1 import TABLE1
from crosshead.addons.studies.vision import VISION
from crosshead.config import nearest
from crosshead.errors import ConfigError, UserError
from crosshead.system.files import atomic_write_all, make_directory
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.system.processor import available_cores, instruction_sets
from crosshead.version import __version__

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        BOTTLENECK, SCALING, SETS, EXTRAPOLATION, FEEDFORWARD, GRADIENTS,
        STABILITY, HEADS, HEADCOST, TABLE1, LONG, LINEAR,
        PATCHES, GROUNDING, VISION, MULTIMODAL,
    )
}  # fmt: skip
"""In the order in which they are run and listed."""

RUNS = Path("runs") / "studies"
"""The directory of training runs, which studies share. An interrupted study continues there."""


def chosen(name: str) -> list[Study]:
    """Return the study of this name, or all studies for `all`."""
    if name == "all":
        return list(STUDIES.values())
    if name not in STUDIES:
        raise ConfigError(f"unknown study {name!r}; {nearest(name, [*STUDIES, 'all', 'list'])}")
    return [STUDIES[name]]


@dataclass(frozen=True)
class Record:
    """A completed study; `circumstances` are command, time and machine of the run, by name."""

    study: Study
    result: Result
    verdict: Verdict
    quick: bool
    seed: int
    seconds: float
    circumstances: dict[str, str]

    @property
    def caveat(self) -> str:
        """The limit of the verdict; empty for the full form."""
        return CAVEAT if self.quick else ""

    def said(self, *, brief: bool) -> str:
        """Return the verdict behind the caveat of the form; `brief` leaves out the quantities."""
        verdict = self.verdict.word if brief else str(self.verdict)
        return f"({self.caveat}) {verdict}" if self.quick else verdict


def conduct(study: Study, *, quick: bool, seed: int, say: Say) -> Record:
    """Run a study; everything random depends on `seed` alone. Without its data, nothing is run."""
    began = time.perf_counter()
    names = [band.name for band in study.bands]
    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as scratch:
        torch.manual_seed(seed)
        trial = Trial(quick, seed, say, Path(scratch) if quick else RUNS)
        try:
            result = study.run(trial)
        except MissingDataError as missing:
            say(str(missing))
            result = Result(dict.fromkeys(names, str(missing)))
    if quick:
        result = replace(result, measured=dict.fromkeys(names, "too small to measure"))
    seconds = time.perf_counter() - began
    circumstances = {
        "command": command(study, quick, seed),
        "form": "quick form" if quick else "full form",
        "version": f"crosshead {__version__}, PyTorch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
        "runs found again": f"{sum(trial.kept.values())} of {len(trial.kept)}",
        "cores": str(available_cores()),
        "processor units": ", ".join(instruction_sets()) or "unknown",
        "seconds": f"{seconds:.1f}",
    }
    verdict = judge(study.bands, result.measured)
    return Record(study, result, verdict, quick, seed, seconds, circumstances)


def command(study: Study, quick: bool, seed: int) -> str:
    """Return the command that runs a study again."""
    form = " --quick" * quick
    return f"crosshead study {study.name}{form} --seed {seed} --threads {torch.get_num_threads()}"


def expectations(study: Study) -> list[str]:
    """Return a line for each quantity of a study: its band and the reason, or why it has none."""
    return [
        f"{band.name}: {band if band.judged else 'reported, not judged'}. {band.why}"
        for band in study.bands
    ]


def findings(record: Record) -> Table:
    """Return the table of what was expected beside what was measured."""
    rows = [["quantity", "expected", "measured", ""]]
    for band in record.study.bands:
        value = value_of(band, record.result.measured)
        if isinstance(value, str):
            outcome = "not measured", value
        elif band.judged:
            outcome = number(value), "as expected" if band.holds(value) else "not as expected"
        else:
            outcome = number(value), "reported, not judged"
        rows.append([band.name, str(band) if band.judged else "", *outcome])
    return Table("Expected and measured", rows)


def listed(studies: Iterable[Study]) -> Table:
    """Return the table of studies with the time of the full form."""
    rows = [[each.name, duration(each.seconds), each.title] for each in studies]
    return Table("Studies", [["study", "full form", "title"], *rows])


def summary(records: Sequence[Record]) -> Table:
    """Return a table of several studies' verdicts, one line each."""
    rows = [["study", "verdict", "as expected", "seconds"]]
    for record in records:
        verdict, seconds = record.verdict, f"{record.seconds:,.1f}"
        rows.append([record.study.name, verdict.word, verdict.met_of_all, seconds])
    caveat = records[0].caveat
    return Table(f"Verdicts ({caveat})" if caveat else "Verdicts", rows)


def write(record: Record, directory: Path, say: Say) -> list[Path]:
    """Write NAME.md, NAME.json and NAME.png; return their paths.

    Without matplotlib there is no picture, and `say` gets a line that says so.
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
    """Return the picture of a result as PNG; raises `UserError` without matplotlib."""
    with drawing():
        figure = new_figure(figsize=(8, 3.6))
        draw(figure, [each for each in record.result.sheets if each.drawn])
        if record.quick:
            figure.suptitle(CAVEAT, fontsize=9, color="tab:red")
        return rendered(figure, dpi=90)


def as_json(record: Record) -> str:
    """Return the record as JSON: "inf" stands for infinity, null for a value not measured."""

    def plain(value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    def entry(band: Band) -> dict[str, Any]:
        value = value_of(band, record.result.measured)
        return {
            "name": band.name, "low": plain(band.low), "high": plain(band.high), "why": band.why,
            "judged": band.judged, "met": band.name in record.verdict.met,
            "measured": None if isinstance(value, str) else plain(value),
            "not measured because": value if isinstance(value, str) else None,
        }  # fmt: skip

    study, result = record.study, record.result
    whole = {
        "study": study.name, "claim": study.claim, "source": study.source,
        **record.circumstances,
        "seed": record.seed, "seconds": round(record.seconds, 1),
        "caveat": record.caveat,
        "verdict": record.verdict.word,
        "bands": [entry(band) for band in study.bands],
        "tables": [each._asdict() for each in result.all_tables],
    }  # fmt: skip
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def as_markdown(record: Record, *, with_picture: bool) -> str:
    """Return the record as a page."""
    study, caveat = record.study, record.caveat
    parts = [
        f"# {study.title}",
        *([f"**{_capital(caveat)}.**"] if caveat else []),
        f"> {study.claim}\n>\n> {study.source}",
        "Expected, before it was run:",
        "\n".join(f"- {line}" for line in expectations(study)),
        f"**{_capital(str(record.verdict))}.**",
        _markdown(findings(record)),
        *(f"{each.title}:\n\n{_markdown(each)}" for each in record.result.all_tables),
        *([f"![{study.title}]({study.name}.png)"] if with_picture else []),
        "\n".join(f"- {key}: {value}" for key, value in record.circumstances.items()),
    ]
    return "\n\n".join(parts) + "\n"


def _capital(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _markdown(table: Table) -> str:
    head, *rows = (f"| {' | '.join(row)} |" for row in table.rows)
    return "\n".join([head, "|" + "---|" * len(table.rows[0]), *rows])
