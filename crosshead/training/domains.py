"""The report of a fine-tuned run on its new domain and on an old one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.tasks.validation import OLD, Metric
from crosshead.training.log import read_log


def domain_rows(log: Path, metrics: Sequence[Metric]) -> list[list[str]]:
    """Return how fine-tuning has changed each metric on both domains."""
    rows, _ = read_log(log)
    measured = [row for row in rows if row["kind"] in ("valid", "average")]
    chosen = [row for row in measured if row.get("best")]
    if not chosen or measured[0]["update"] != 0:
        return []
    return [
        [domain, _change(measured[0], chosen[-1], metric, prefix)]
        for domain, prefix in (("new domain", ""), ("old domain", OLD))
        for metric in metrics
    ]


def _change(
    before: Mapping[str, Any], after: Mapping[str, Any], metric: Metric, prefix: str
) -> str:
    """Return a metric at update 0 and now, and in which direction it has changed."""
    old, new = (float(row[f"{prefix}{metric.name}"]) for row in (before, after))
    gain = (new - old) * (1 if metric.higher_is_better else -1)
    change = "better" if gain > 0 else "worse" if gain < 0 else "unchanged"
    if max(old, new) <= metric.chance:
        change = "both too low to compare"
    return f"{metric.shown(old)} at update 0, {new:.{metric.digits}f} now: {change}"
