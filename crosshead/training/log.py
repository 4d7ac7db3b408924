"""The log of a run, log.jsonl and TensorBoard events, and the training curve drawn from it."""

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from crosshead.errors import UserError, why_unreadable
from crosshead.system.files import atomic_write, explain_os_errors, write_all
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.tasks.validation import Metric

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class RunLog:
    """Writer of `log.jsonl`, with one JSON object per line, and of TensorBoard events.

    The `kind` of a line is `train`, `valid`, `average` (the validation of averaged weights) or
    `end`. A missing number is null: for example a loss, if no update was finite.
    """

    def __init__(
        self, directory: Path, keep: int = 0, check: Callable[[], None] = lambda: None
    ) -> None:
        self.path, self._check = directory / LOG, check
        # Unbuffered, so that bytes that a full disk refused are not written again on closing.
        if self.path.exists() and not self.path.is_file():
            raise UserError(f"{self.path}: is not a regular file; remove it")
        self._file = self.path.open("a+b", buffering=0)
        self._file.truncate(min(keep, self.path.stat().st_size))
        self._file.seek(0, os.SEEK_END)  # otherwise `tell` returns the end of the earlier log
        self._events = _tensorboard(directory)

    def write(self, kind: str, update: int, **values: Any) -> None:
        """Append a line to the log, and its numbers to TensorBoard if it is installed."""
        self._check()
        line = json.dumps({"kind": kind, "update": update, **values}) + "\n"
        with explain_os_errors(self.path):
            write_all(self._file, line.encode())
        if self._events is not None:
            with explain_os_errors(self.path.with_name(TENSORBOARD)):
                for name, value in values.items():
                    if isinstance(value, int | float):
                        self._events.add_scalar(f"{kind}/{name}", value, update)

    def tell(self) -> int:
        """Write the log to disk and return its length in bytes."""
        self._check()
        with explain_os_errors(self.path):
            os.fsync(self._file.fileno())
            return self._file.tell()

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._events is not None:
            with contextlib.suppress(OSError):  # the directory may be gone
                self._events.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log as objects. Damaged lines are left out."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {why_unreadable(error)}") from None
    rows = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and {"kind", "update"} <= row.keys():
                rows.append(row)
    return rows


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory / TENSORBOARD))


def draw_training_curve(log: Path, picture: Path, metrics: Sequence[Metric] = ()) -> None:
    """Draw training loss, validation loss and one measured metric as a PNG picture."""
    rows = read_log(log)
    trained = [row for row in rows if row["kind"] == "train"]
    valid = [row for row in rows if row["kind"] == "valid"]
    with drawing():
        figure = new_figure(figsize=(7, 4))
        losses = figure.subplots()
        losses.set_xlabel("update")
        losses.xaxis.get_major_locator().set_params(integer=True)
        key = "nll" if any("nll" in row for row in [*trained, *valid]) else "loss"
        losses.set_ylabel(_LABELS[key])
        losses.grid(alpha=0.3)
        lines = [
            *_line(losses, trained, key, "training", "tab:blue"),
            *_line(losses, valid, key, "validation", "tab:orange"),
        ]
        for metric in [each for each in metrics if each.higher_is_better][:1]:
            scored = [row for row in valid if row.get(metric.name) is not None]
            if scored:
                scores = losses.twinx()
                scores.set_ylabel(metric.label)
                most = max(row[metric.name] for row in scored)
                scores.set_ylim(bottom=0, top=max(LEAST_SCORE, 1.1 * most))
                label = f"validation {metric.label}{', ' * bool(metric.search)}{metric.search}"
                lines += _line(scores, scored, metric.name, f"{label} (right)", "tab:green")
        if lines:
            figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))
        drawn = rendered(figure)
    atomic_write(picture, drawn)


_LABELS = {"nll": "mean negative log-likelihood\n(nats)", "loss": "loss"}

LEAST_SCORE = 10.0
"""The smallest upper end of the score axis, so that a BLEU of 0.5 looks as low as it is."""


def _line(axes: Any, rows: Sequence[dict[str, Any]], key: str, label: str, color: str) -> list[Any]:
    if not rows:
        return []
    updates = [row["update"] for row in rows]
    # NaN leaves a gap: no update was finite there.
    values = [float("nan") if row.get(key) is None else row[key] for row in rows]
    marker = "o" if len(rows) <= 30 else None
    drawn: list[Any] = axes.plot(updates, values, label=label, color=color, marker=marker, ms=3)
    return drawn
