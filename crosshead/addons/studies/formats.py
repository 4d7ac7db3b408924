"""Numbers as tables, verdicts and progress lines show them."""

from collections.abc import Iterable


def number(value: float) -> str:
    """Format a number with three significant digits, as tables and verdicts show it."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        whole = abs(value) >= 100 or value == int(value)
        return f"{value:,.0f}" if whole else f"{value:.3g}"
    return f"{value:.1e}"


def joined(values: Iterable[float], form: str) -> str:
    """Format numbers by the same format specification, with commas between them."""
    return ", ".join(format(value, form) for value in values)
