"""The training curve, drawn from log.jsonl."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosshead.system.files import atomic_write
from crosshead.system.plotting import drawing, new_figure, rendered
from crosshead.tasks.validation import Metric
from crosshead.training.log import read_log


def draw_training_curve(log: Path, picture: Path, metrics: Sequence[Metric] = ()) -> list[int]:
    """Draw training loss, validation loss and one measured metric as a PNG picture."""
    rows, damaged = read_log(log)
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
    return damaged


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
