"""Terminal handling of the command line: output, tables, signals, errors and exit codes."""

import contextlib
import json
import logging
import os
import shlex
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import call
from pathlib import Path
from typing import Any, TextIO

import typer

from crosshead.errors import UserError, is_out_of_memory, printable
from crosshead.system.files import Write, atomic_file

INTERRUPTED = 128 + signal.SIGINT
READER_LEFT = 128 + signal.SIGPIPE
"""Exit code that a shell reports for `cat` in `cat FILE | head -1`."""

LONGEST_MESSAGE = 1000
"""Largest number of characters of a message, which may contain a value of any length."""

_EXPECTED = {
    "Input should be a valid integer, unable to parse string as an integer":
        "expected a whole number",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be greater than": "expected a number greater than",
    ": Value error, ": ": ",
}  # fmt: skip
"""Replacements for pydantic's wording in the messages of some versions of typer."""

# For wrong usage, typer raises its own or click's class, depending on its version.
_USAGE_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")


def guarded(work: Callable[[], None]) -> int:
    """Do the work and return the exit code; report a user's mistake in one line."""
    _open_standard_error()
    try:
        with _notes_shown():
            work()
    except typer.Exit as end:
        return int(end.exit_code)
    except _USAGE_ERROR as error:
        return _usage_error(error)
    except UserError as error:
        return _fail(str(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _close(sys.stdout)
        return READER_LEFT
    except OSError as error:
        _close(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail(
            "out of memory; reduce the batch (translate --batch-tokens, train --set "
            "train.batch_tokens=...), or use a smaller model"
            if isinstance(error, RuntimeError)
            else "out of memory; give the program more memory, or less data at once"
        )
    return 0


def put(text: str) -> None:
    """Write a report to standard output at once, always in UTF-8.

    Control characters except tabs and line ends become escapes: names and quotes may hold them.
    """
    put_bytes(printable(text, keep="\n\t").encode())


def put_bytes(data: bytes) -> None:
    """Write what was asked for to standard output at once, such as a translation: as it is."""
    if sys.stdout is None:
        raise UserError("standard output is closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _close(sys.stdout)
        advice = "free some disk space, or send the output elsewhere"
        reason = f"cannot be written: {error.strerror}; {advice}"
        raise UserError(f"standard output: {reason}") from None


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[Write]:
    """Yield a function that writes to standard output, or to a file.

    The file appears as a whole when the block ends, or not at all.
    """
    if path is None:
        yield put_bytes
        return
    with atomic_file(path) as write:
        yield write


def watched(output: Path | None) -> bool:
    """Return whether a person at a terminal waits while the output goes to a file."""
    return at_terminal() and (output is not None or stat.S_ISREG(os.fstat(1).st_mode))


def at_terminal() -> bool:
    """Return whether standard error, which shows the messages, is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def program() -> str:
    """Return the command to type for `crosshead`: its path, if the shell would find another."""
    beside = Path(sys.executable).with_name("crosshead")
    found = shutil.which("crosshead")
    if not beside.exists() or (found and os.path.samefile(found, beside)):
        return "crosshead"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if here in beside.parents else beside))


def json_line(values: Mapping[str, Any]) -> str:
    """Return a line of JSON; non-ASCII characters are not escaped."""
    return json.dumps(values, ensure_ascii=False) + "\n"


def note(text: str) -> None:
    """Print a line to standard error, if it is open; a long line is cut in the middle."""
    line = printable(text)
    if len(line) > LONGEST_MESSAGE:
        left_out = len(line) - LONGEST_MESSAGE
        first, last = line[: LONGEST_MESSAGE // 2], line[-LONGEST_MESSAGE // 2 :]
        line = f"{first} [{left_out:,} characters left out] {last}"
    try:
        print(f"crosshead: {line}", file=sys.stderr, flush=True)
    except OSError:
        _close(sys.stderr)


def table(rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Return rows as aligned columns; the last `numbers` columns are aligned to the right."""
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust] * (len(widths) - numbers) + [str.rjust] * numbers
    return "".join("  ".join(map(call, sides, row, widths)).rstrip() + "\n" for row in rows)


def shortened(text: str, most: int = 80) -> str:
    """Return a text on one line of at most `most` characters."""
    line = printable(" ".join(text.split())) or "(nothing)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


class _Notes(logging.Handler):
    """Shows the log messages of the package as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@contextlib.contextmanager
def _notes_shown() -> Iterator[None]:
    """Show the package's log messages, from level INFO on, on standard error in the block."""
    logger, handler = logging.getLogger("crosshead"), _Notes(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _usage_error(error: Exception) -> int:
    """Report wrong usage in one line, and return the exit code."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "crosshead"
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    if suggested := _options_called(getattr(error, "option_name", ""), context):
        message = f"No such option: {error.option_name}; did you mean {' or '.join(suggested)}?"  # type: ignore[attr-defined]
    elif "unexpected extra argument" in message and "--pairs" in _flags(context):
        message += "; files have options: --pairs for one with both sides, or --source and --target"
    for theirs, ours in _EXPECTED.items():
        message = message.replace(theirs, ours)
    return _fail(f"{message}{' See' if message.endswith('?') else '; see'} `{path} --help`")


def _options_called(name: str, context: Any) -> list[str]:
    """Return the options that other toolkits call `name`: flags, or keys of `--set`."""
    from crosshead.config import usual_names  # here, because `--help` does not need pydantic

    flags, found = _flags(context), []
    for key in usual_names(name.lstrip("-")):
        flag = f"--{key.replace('_', '-')}"
        if flag in flags:
            found.append(flag)
        elif "--set" in flags:
            found.append(f"--set {key}=...")
    return found


def _flags(context: Any) -> set[str]:
    """Return the options of the command of a context, or none without a context."""
    parameters = context.command.params if context else []
    return {flag for parameter in parameters for flag in parameter.opts}


def _fail(message: str) -> int:
    note(f"error: {message}")
    return 2


def _open_standard_error() -> None:
    """Discard messages if standard error is closed (`2>&-`).

    Otherwise the next opened file would get the number of standard error, and receive the messages.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - stays open until the process ends
        os.dup2(sys.stderr.fileno(), 2)


def _close(stream: TextIO | None) -> None:
    """Discard buffered output; otherwise Python reports an error when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
    os.close(nowhere)


_QUIET = 2.0
"""Seconds before plain lines of progress begin."""


@contextlib.contextmanager
def answering(
    total: int | None, unit: str = "lines", then: str = "", known: int = 0
) -> Iterator[Callable[..., None]]:
    """Yield a callback that reports how many lines are answered.

    The callback takes the number of lines answered before a group, the number of lines in the
    group, and the share of the group that is done. A progress bar shows the answered share of
    `total` lines; away from a terminal, plain lines do after two seconds. If `total` is None or 0,
    nothing is shown. `known` lines were answered by an earlier call.
    """
    if not total:
        yield lambda before, lines, share: None
        return
    from crosshead.system.progress import choose_display  # here, because `--help` needs no rich

    display, began = choose_display(lambda: None), time.monotonic()
    quiet = 0.0 if at_terminal() else _QUIET

    def advance(before: int, lines: int, share: float) -> None:
        done = before + share * lines
        took = time.monotonic() - began
        if took < quiet or not (display.due() or done >= total):
            return
        speed, follows = (done - known) / max(took, 1e-3), then if done >= total else ""
        line = f"{int(done):,} of {total:,} {unit}, {speed:,.0f} {unit}/s{follows}"
        display.advance(done / total, line)

    try:
        advance(known, 0, 0.0)
        yield advance
    finally:
        display.close()
