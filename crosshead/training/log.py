"""The log of a run: log.jsonl and TensorBoard events."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crosshead.errors import UserError, why_unreadable
from crosshead.system.files import explained, write_all

LOG = "log.jsonl"
TENSORBOARD = "tensorboard"


class RunLog:
    """`log.jsonl`: one object a line with `kind`, and TensorBoard events.

    The kinds are `train`, `valid`, `average` (the validation of averaged weights) and `end`. `keep`
    bytes of an earlier log are kept when a run goes on from a checkpoint: what was logged after it
    is logged again. What there is no number for is null: losses where no update was finite.
    `check` is called before anything is written; it raises an error where the directory has moved.
    """

    def __init__(
        self, directory: Path, keep: int = 0, check: Callable[[], None] = lambda: None
    ) -> None:
        self.path, self._check = directory / LOG, check
        # Unbuffered: what a full disk refused must not come up again when the file is closed.
        self._file = self.path.open("a+b", buffering=0)
        self._file.truncate(min(keep, self.path.stat().st_size))
        self._file.seek(0, os.SEEK_END)  # `tell` would say where the earlier log ended
        self._events = _tensorboard(directory)

    def write(self, kind: str, update: int, **values: Any) -> None:
        """Append a line, and scalars to TensorBoard where it is installed."""
        self._check()
        line = json.dumps({"kind": kind, "update": update, **values}) + "\n"
        with explained(self.path):
            write_all(self._file, line.encode())
        if self._events is not None:
            with explained(self.path.with_name(TENSORBOARD)):
                for name, value in values.items():
                    if isinstance(value, int | float):
                        self._events.add_scalar(f"{kind}/{name}", value, update)

    def tell(self) -> int:
        """The length of the log in bytes, once it is on the disk."""
        self._check()
        with explained(self.path):
            os.fsync(self._file.fileno())
            return self._file.tell()

    def contents(self) -> bytes:
        """Return all that was written, also where the file was removed meanwhile."""
        self._file.seek(0)
        return self._file.readall()

    def close(self) -> None:
        """Close the files; nothing is written afterwards."""
        self._file.close()
        if self._events is not None:
            self._events.close()


def read_log(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Read a log as far as it is whole.

    Returns:
        The lines as objects, each with a `kind` and an `update`, and the numbers of the damaged
        lines, counted from 1. A line without its end counts as damaged: writing it was cut off.

    Raises:
        UserError: If the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {why_unreadable(error)}") from None
    rows, damaged = [], []
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        row = _row(line)
        if row is None:
            damaged.append(number)
        else:
            rows.append(row)
    return rows, damaged


_WORDS = {"kind", "best", "reason", "weights", "search"}
"""The keys of a line whose values are no numbers."""


def _row(line: bytes) -> dict[str, Any] | None:
    """Return what a line of a log says, or None where it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not line.endswith(b"\n") or not isinstance(row, dict):
        return None
    whole = isinstance(row.get("kind"), str) and _is_number(row.get("update"))
    # What there is no number for is null.
    values = (value for key, value in row.items() if key not in _WORDS)
    return row if whole and all(each is None or _is_number(each) for each in values) else None


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory / TENSORBOARD))
