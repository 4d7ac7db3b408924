"""Data that are given to a run: in memory, which become files, or the data of an earlier run."""

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.bundle.places import RECIPE, earlier_run_path
from crosshead.caller import option, setting
from crosshead.data import file_names
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.system.files import StrPath, atomic_file, hidden_directory, make_directory, real_path
from crosshead.tasks.base import WriteLines
from crosshead.text.parallel.corpora import survey, training_parts
from crosshead.text.parallel.filters import HELD_OUT, read_held_out
from crosshead.text.parallel.held_out import hold_out
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.parallel.section import TRAIN, VALID, DataConfig
from crosshead.text.parallel.tables import field_names, field_of
from crosshead.training.directory import stored_recipe

Texts = StrPath | Iterable[str] | Iterable[os.PathLike[str]]
"""The name of a file, several `Path`s, or texts in memory."""

Pairs = StrPath | Iterable[Any] | Mapping[str, Sequence[str]]
"""Files, or pairs in memory: tuples, mappings by field, or columns by field."""

_NAME = re.compile(r"(train|valid)-[0-9a-f]{12}\.(csv|jsonl|txt)")
"""The name of a file of data that were given in memory."""


class GivenData:
    """The data of a run: files as they are, and data in memory as files beside the run.

    The name of a file in memory contains its checksum, so that no file is ever replaced: the data
    of an earlier run stay until a new run has taken its place.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._folder = real_path(out).with_name(f"{real_path(out).name}.data")
        self._new: list[Path] = []

    def split(
        self,
        name: str,
        prefix: str,
        source: Texts | None,
        target: Texts | None,
        pairs: Pairs | None,
        text: Texts | None,
        fields: Sequence[str | int] | None,
    ) -> dict[str, list[str]]:
        """Return the keys of `[data]` for one split, and write data in memory to files."""
        given = {"source": source, "target": target, "pairs": pairs, "text": text}
        names = {key: file_names(value) for key, value in given.items()}
        found = {f"{prefix}{key}": files for key, files in names.items() if files is not None}
        memory = {key for key, value in given.items() if value is not None and names[key] is None}
        keys, sides = tuple(fields or ("source", "target")), memory & {"source", "target"}
        if len(keys) != 2:
            raise ConfigError(f"fields: expected a source field and a target field, found {keys}")
        if len(sides) == 1 or (sides and "pairs" in memory):
            raise ConfigError(
                f"{prefix}source, {prefix}target and {prefix}pairs: give both sides in one form, "
                "or pairs alone"
            )
        if fields:
            found["fields"] = list(map(str, fields))
        if sides or "pairs" in memory:
            rows = (
                _aligned(prefix + "source", source, prefix + "target", target)
                if sides
                else _rows(pairs, keys, f"{prefix}pairs")
            )
            named = (dict(zip(map(str, keys), row, strict=True)) for row in rows)
            lines = (json.dumps(row, ensure_ascii=False) for row in named)
            found[f"{prefix}pairs"] = [self.write(f"{name}.jsonl", lines)]
            found["fields"] = list(map(str, keys))
        if "text" in memory:
            lines = (line for each in _texts(text, f"{prefix}text") for line in each.splitlines())
            found[f"{prefix}text"] = [self.write(f"{name}.txt", lines)]
        return found

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Remove new files that no run uses, and after the block the files of a replaced run."""
        old: list[Path] = []
        try:
            yield
            old = [path for path in self._folder.glob("*-*") if _NAME.fullmatch(path.name)]
        finally:
            recipes = [place / RECIPE for place in (self._out, earlier_run_path(self._out))]
            used = "".join(path.read_text() for path in recipes if path.is_file())
            for path in (*self._new, *old):
                if path.name not in used:
                    path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # it holds other files, or does not exist
                self._folder.rmdir()

    def write(self, name: str, lines: Iterable[str]) -> str:
        """Write a file with its checksum in its name, if it does not exist; return its path."""
        make_directory(self._folder)
        stem, suffix = name.split(".")
        checksum = hashlib.sha256()
        with hidden_directory(self._folder / name) as hidden:
            new = hidden / name
            with atomic_file(new) as write:
                for number, line in enumerate(lines, 1):
                    encoded = _encoded(line, name, number)
                    checksum.update(encoded)
                    write(encoded)
            path = self._folder / f"{stem}-{checksum.hexdigest()[:12]}.{suffix}"
            if not path.is_file():
                self._new.append(path)
                new.replace(path)
        return str(path)


def _encoded(line: str, name: str, number: int) -> bytes:
    """Return a line as UTF-8."""
    try:
        return f"{line}\n".encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{Path(name).stem}: text {number} has half of a character, {line[error.start]!a}, "
            "which UTF-8 cannot represent; remove it"
        ) from None


def _texts(given: Any, name: str) -> Iterator[str]:
    """Yield texts in memory."""
    if not isinstance(given, Iterable):
        raise DataError(
            f"{name}: expected texts or the name of a file, found {type(given).__name__}"
        )
    for number, text in enumerate(given, 1):
        if not isinstance(text, str):
            raise DataError(f"{name}: expected a text, found {type(text).__name__} at {number}")
        yield text


def _aligned(left: str, sources: Any, right: str, targets: Any) -> Iterator[Sequence[str]]:
    """Yield pairs of two named sides of the same length, each text as one line."""
    sides = _texts(sources, left), _texts(targets, right)
    for number, pair in enumerate(itertools.zip_longest(*sides), 1):
        if None in pair:
            shorter = left if pair[0] is None else right
            raise DataError(f"{shorter}: too short, there is no text {number}; give equal lengths")
        yield _lines(pair)


def _rows(pairs: Any, fields: tuple[str | int, ...], name: str) -> Iterator[Sequence[str]]:
    """Yield pairs from tuples, from mappings by field, or from columns by field."""
    if hasattr(pairs, "keys"):  # a mapping or a table of columns
        missing = [field for field in fields if field not in pairs.keys()]  # noqa: SIM118
        if missing:
            raise DataError(f"{name}: there is no column {missing[0]!r}; name both with fields")
        source, target = fields
        yield from _aligned(
            f"{name}[{source!r}]", pairs[source], f"{name}[{target!r}]", pairs[target]
        )
        return
    if not isinstance(pairs, Iterable) and not hasattr(pairs, "__getitem__"):
        raise DataError(f"{name}: expected pairs or the name of a file, found {pairs!r:.60}")
    for number, row in enumerate(pairs, 1):
        pair = row
        if isinstance(row, Mapping):
            try:
                pair = [field_of(row, field) for field in fields]
            except (DataError, KeyError):
                raise DataError(
                    f"{name}: row {number} has the keys {', '.join(field_names(row))}, expected "
                    f"{fields[0]} and {fields[1]}; name both with fields"
                ) from None
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not is_pair or not all(isinstance(each, str) for each in pair):
            raise DataError(f"{name}: row {number} is no pair of texts")
        yield _lines(pair)


def _lines(texts: Sequence[str]) -> list[str]:
    """Return texts, each as one line."""
    return [" ".join(text.splitlines()) for text in texts]


def old_domain(run: Path, write: WriteLines) -> dict[str, list[str]]:
    """Return the keys of `[data]` that mix in the files of an earlier run.

    If its validation pairs were held out of its training files, they are written to files. Training
    leaves out the old pairs that are among them.
    """
    if not (run / RECIPE).is_file():
        raise UserError(f"{run}: holds no {RECIPE}; name the directory of a run to mix in")
    recipe = stored_recipe(run)
    data = recipe.data
    if not isinstance(data, DataConfig) or not (data.source or data.pairs):
        raise UserError(f"{run}: was not trained on pairs of texts; name another run to mix in")
    found = {f"old_{key}": list(getattr(data, key)) for key in (*TRAIN, *VALID)}
    if found["old_pairs"] or found["old_valid_pairs"]:
        found["old_fields"] = list(data.fields) or ["1", "2"]
    if found["old_valid_source"] or found["old_valid_pairs"]:
        return found
    pairs = _held_out(run, data, recipe.train.seed)
    # JSON Lines may hold line breaks, which a file of lines cannot.
    rows = [
        row
        for row, sides in enumerate(zip(pairs.source, pairs.target, strict=True))
        if not any("\n" in side for side in sides)
    ]
    for key, side in (("old_valid_source", pairs.source), ("old_valid_target", pairs.target)):
        found[key] = [write("valid.txt", (side[row] for row in rows))]
    return found


def _held_out(run: Path, data: DataConfig, seed: int) -> ParallelText:
    """Return the pairs that an earlier run has held out for validation."""
    keys = ("old_source", "old_target", "old_valid_source", "old_valid_target")
    given = " ".join(setting(f"data.{key}", key.upper()) for key in keys)
    advice = f"in place of {option('mix')}, name files of its domain: {given}"
    if data.directions != "one":
        raise UserError(f"{run}: its model has several directions; {advice}")
    held = hold_out(survey(training_parts(data)), data, seed)
    if [origin.line for origin in held.valid.origins] != read_held_out(run / HELD_OUT):
        raise UserError(
            f"{run}: its held-out pairs are not found again, because its training files or "
            f"{HELD_OUT} changed; {advice}"
        )
    return held.valid
