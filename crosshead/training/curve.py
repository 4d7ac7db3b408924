"""The training curve: a picture of what log.jsonl says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crosshead.files import atomic_write
from crosshead.pictures import drawing, new_figure, rendered
from crosshead.training.log import read_log


def plot_curve(log: Path, picture: Path) -> list[int]:
    """Draw the losses of training and validation, and BLEU where it was measured, as a PNG.

    Returns:
        The numbers of the damaged lines of the log, counted from 1, which are left out.

    Raises:
        UserError: If the log cannot be read, matplotlib is missing or fails, as under a limit of
            memory, or the picture cannot be written.
    """
    rows, damaged = read_log(log)
    trained = [row for row in rows if row["kind"] == "train"]
    valid = [row for row in rows if row["kind"] == "valid"]
    with drawing():
        figure = new_figure(figsize=(7, 4))
        losses = figure.subplots()
        losses.set_xlabel("update")
        losses.xaxis.get_major_locator().set_params(integer=True)
        losses.set_ylabel("negative log-likelihood (nats per token)")
        losses.grid(alpha=0.3)
        lines = [
            *_line(losses, trained, "nll", "training", "tab:blue"),
            *_line(losses, valid, "nll", "validation", "tab:orange"),
        ]
        scored = [row for row in valid if row.get("bleu") is not None]
        if scored:
            scores = losses.twinx()
            scores.set_ylabel("BLEU")
            scores.set_ylim(bottom=0, top=max(1.0, 1.1 * max(row["bleu"] for row in scored)))
            lines += _line(scores, scored, "bleu", "validation BLEU (right)", "tab:green")
        if lines:
            figure.legend(handles=lines, loc="outside upper center", ncols=len(lines))
        drawn = rendered(figure)
    atomic_write(picture, drawn)
    return damaged


def _line(axes: Any, rows: Sequence[dict[str, Any]], key: str, label: str, color: str) -> list[Any]:
    if not rows:
        return []
    updates = [row["update"] for row in rows]
    marker = "o" if len(rows) <= 30 else None
    # A gap where there is no number: no update was finite.
    values = [float("nan") if row.get(key) is None else row[key] for row in rows]
    drawn: list[Any] = axes.plot(updates, values, label=label, color=color, marker=marker, ms=3)
    return drawn
