"""The names of options in messages: flags of the command line, or arguments in Python.

The same code trains for `crosshead train` and for `crosshead.train`. A message gets the name of an
option from `option` or `setting`. The command line is the default; `crosshead.train` runs in
`calling_from(PYTHON)`.
"""

import contextlib
import csv
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CommandLine:
    """The shell, where options are flags."""

    program: str = "crosshead"
    """The command that starts crosshead."""

    def option(self, name: str, value: str = "") -> str:
        """Return a flag: `--force`, `--from runs/a`."""
        return f"--{name} {shlex.quote(value)}" if value else f"--{name}"

    def setting(self, key: str, value: object = None, *, has_flag: bool = False) -> str:
        """Return a flag with its value, or an argument of `--set`."""
        if isinstance(value, bool):
            value = str(value).lower()
        if not has_flag:
            return f"--set {key}={'...' if value is None else value}"
        flag = f"--{key.partition('.')[2].replace('_', '-')}"
        return flag if value is None else f"{flag} {value}"

    def resume(self, directory: Path, *assignments: str) -> str:
        """Return a command for the shell."""
        out = shlex.quote(str(directory))
        return " ".join((f"{self.program} train --resume --out {out}", *assignments))

    def check(self, files: Mapping[str, Sequence[str]]) -> str:
        """Return a command for the shell."""
        options = [
            f"--{key.replace('_', '-')} {shlex.quote(name)}"
            for key, names in files.items()
            for name in ([joined_names(names)] if key == "fields" else names)
        ]
        return " ".join((f"{self.program} data check", *options))


class PythonProgram:
    """Python, where options are arguments of `crosshead.train`."""

    def option(self, name: str, value: str = "") -> str:
        """Return an argument: `force=True`, `start='runs/a'`, `valid_source`."""
        known = {"force": "force=True", "resume": "resume=True", "from": "start"}
        argument = known.get(name, name.replace("-", "_"))
        return f"{argument}={value!r}" if value else argument

    def setting(self, key: str, value: object = None, *, has_flag: bool = False) -> str:
        """Return an argument with a section: `train={'patience': 3}`."""
        section, _, name = key.partition(".")
        return f"{section}={{{name!r}: {'...' if value is None else value}}}"

    def resume(self, directory: Path, *assignments: str) -> str:
        """Return a call of `crosshead.train`."""
        arguments = (f"out={str(directory)!r}", "resume=True", *assignments)
        return f"crosshead.train({', '.join(arguments)})"

    def check(self, files: Mapping[str, Sequence[str]]) -> str:
        """Return a call of `crosshead.check_data`."""
        arguments = []
        for key, names in files.items():
            if key == "fields":
                value = repr(list(names))
            elif len(names) == 1:
                value = repr(names[0])
            else:
                value = f"[{', '.join(f'Path({name!r})' for name in names)}]"
            arguments.append(f"{key}={value}")
        return f"crosshead.check_data({', '.join(arguments)})"


def joined_names(names: Sequence[str]) -> str:
    """Return names as one text with commas between them; a name with a comma is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def split_names(text: str) -> list[str]:
    """Return the names in a text with commas between them; a name with a comma is quoted."""
    (names,) = csv.reader([text], skipinitialspace=True)
    return names


Caller = CommandLine | PythonProgram
COMMAND_LINE, PYTHON = CommandLine(), PythonProgram()

_CALLER: ContextVar[Caller] = ContextVar("caller", default=COMMAND_LINE)


def option(name: str, value: str = "") -> str:
    """Return an option of training that is no key of the recipe, or is a file, for a message."""
    return _CALLER.get().option(name, value)


def setting(key: str, value: object = None, *, has_flag: bool = False) -> str:
    """Return the assignment of a value to a key of the recipe, for a message."""
    return _CALLER.get().setting(key, value, has_flag=has_flag)


def how_to_resume(directory: Path, *assignments: str) -> str:
    """Return the call that resumes the run in a directory and writes its bundle."""
    return _CALLER.get().resume(directory, *assignments)


def how_to_check(files: Mapping[str, Sequence[str]]) -> str:
    """Return the call that checks the pairs in some files."""
    return _CALLER.get().check(files)


@contextlib.contextmanager
def calling_from(who: Caller) -> Iterator[None]:
    """Let the messages of a block name options as `who` states them."""
    token = _CALLER.set(who)
    try:
        yield
    finally:
        _CALLER.reset(token)
