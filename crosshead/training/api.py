"""Training from Python: `crosshead.train`, with data from files or from memory."""

import contextlib
import filecmp
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.errors import ConfigError, DataError, UserError
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import StrPath, atomic_file, make_directory
from crosshead.system.progress import Display, choose_display
from crosshead.tasks.recipes import compose
from crosshead.training import run
from crosshead.training.context import Callback, ignore
from crosshead.training.directory import holds_run
from crosshead.training.run import Summary
from crosshead.training.settings import new_recipe, resumed_recipe

Texts = StrPath | Iterable[str] | Iterable[os.PathLike[str]]
"""The name of a file, several `Path`s, or texts in memory."""

Pairs = StrPath | Iterable[Any] | Mapping[str, Sequence[str]]
"""Files, or pairs in memory: tuples, mappings by field, or columns by field."""


def train(
    recipe: Recipe | StrPath | None = None,
    *,
    out: StrPath,
    source: Texts | None = None,
    target: Texts | None = None,
    pairs: Pairs | None = None,
    fields: Sequence[str] | None = None,
    text: Texts | None = None,
    valid_source: Texts | None = None,
    valid_target: Texts | None = None,
    valid_pairs: Pairs | None = None,
    valid_text: Texts | None = None,
    start: StrPath | None = None,
    resume: bool = False,
    force: bool = False,
    display: Display | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_update: Callback = ignore,
    on_validation: Callback = ignore,
    **sections: Mapping[str, Any] | str,
) -> Summary:
    """Train a model on files or on data in memory, and write a bundle.

    A `str` or a `Path` names a file, and so does each `Path` of a list. A list of `str` is data:
    one sentence each. Data in memory is written to files beside the run directory
    (`OUT.train.jsonl` and so on), because a run reads its data several times, and again when it is
    resumed.

    Args:
        recipe: A preset (`tiny`, `small`, `base`, `big`), the name of a recipe that ships, the path
            of a TOML file, or a `Recipe`. By default the preset `tiny`.
        out: The run directory, which becomes a bundle.
        source: Source sentences.
        target: Their translations, in the same order.
        pairs: Pairs in place of `source` and `target`: files; an iterable of tuples (source,
            target); an iterable of mappings, or a mapping or table of columns, with `fields`.
        fields: The source field and the target field of `pairs`.
        text: Monolingual text, for a language model.
        valid_source: Source sentences for validation. By default some pairs are held out.
        valid_target: Their translations.
        valid_pairs: Pairs for validation, in a form of `pairs`.
        valid_text: Text for validation. By default the end of `text` is held out.
        start: A bundle to fine-tune.
        resume: Continue the run in `out`.
        force: Replace the run in `out`.
        display: Shows messages and progress. By default they go to standard error; `Silent()`
            shows nothing.
        should_stop: Asked after each update whether to stop.
        on_update: Receives a row after each update: `update`, `epoch`, `loss` and so on.
        on_validation: Receives a row after each validation: `update`, `epoch`, `loss`, `bleu`.
        **sections: Sections of the recipe, which replace single keys of it:
            `model={"heads": 8}`, `train={"max_updates": 1000}`. `model="recurrent"` chooses an
            architecture.

    Returns:
        The end of the run, with its scores.

    Raises:
        UserError: If the recipe, the data or the directory cannot be used.
        KeyboardInterrupt: After Ctrl-C, when a checkpoint is saved: `resume=True` continues.

    Example:
        >>> crosshead.train(source=["a b", "b c"], target=["x y", "y z"], out="runs/letters",
        ...                 train={"max_updates": 100})  # doctest: +SKIP
    """
    out = Path(out)
    data = _Data(out, force=force)
    with data.kept():
        given: dict[str, Any] = dict(sections.pop("data", {}))  # type: ignore[arg-type]
        given |= data.split("train", "", source, target, pairs, text, fields)
        given |= data.split(
            "valid", "valid_", valid_source, valid_target, valid_pairs, valid_text, fields
        )
        flags: dict[str, Any] = {**sections, "data": given}
        return run.train(
            _recipe(recipe, flags, out, start, resume=resume),
            out,
            start=start,
            resume=resume,
            force=force,
            command="crosshead.train",
            display=display or choose_display(lambda: None),
            should_stop=should_stop,
            on_update=on_update,
            on_validation=on_validation,
        )


def _recipe(
    recipe: Recipe | StrPath | None,
    flags: dict[str, Any],
    out: Path,
    start: StrPath | None,
    *,
    resume: bool,
) -> Recipe:
    """Return the recipe with the settings of `flags`."""
    if isinstance(recipe, Recipe):
        composed: Recipe = compose(None, recipe.model_dump(), flags)
        return composed
    name = None if recipe is None else os.fspath(recipe)
    preset = None
    if name in {size for sizes in PRESETS.values() for size in sizes}:
        preset, name = name, None
    if resume:
        return resumed_recipe(out, name, flags, ())
    return new_recipe(preset, name, flags, (), start)


class _Data:
    """The data of a run: files as they are, and data in memory as files beside the run.

    Args:
        out: The run directory.
        force: True if files of an earlier run may be replaced.
    """

    def __init__(self, out: Path, *, force: bool) -> None:
        self._out, self._force = out, force
        self._folder = out.with_name(f"{out.name}.data")
        self._new: list[Path] = []

    def split(
        self,
        name: str,
        prefix: str,
        source: Texts | None,
        target: Texts | None,
        pairs: Pairs | None,
        text: Texts | None,
        fields: Sequence[str] | None,
    ) -> dict[str, list[str]]:
        """Return the keys of `[data]` for one split, and write data in memory to files.

        Raises:
            ConfigError: If the arguments contradict each other.
            DataError: If an item is not a pair or not a text.
            UserError: If a file cannot be written.
        """
        given = {"source": source, "target": target, "pairs": pairs, "text": text}
        names = {key: _names(value) for key, value in given.items()}
        found = {f"{prefix}{key}": files for key, files in names.items() if files is not None}
        rows: Iterable[tuple[str, str]] | None = None
        keys = tuple(fields or ("source", "target"))
        if len(keys) != 2:
            raise ConfigError(f"fields: expected a source field and a target field, found {keys}")
        sides = [given[key] is not None and names[key] is None for key in ("source", "target")]
        if any(sides):
            if not all(sides):
                raise ConfigError(
                    f"{prefix}source and {prefix}target: one is data and the other is missing or "
                    "a file; give both in one form"
                )
            rows = _aligned(_texts(source, f"{prefix}source"), _texts(target, f"{prefix}target"))
        if pairs is not None and names["pairs"] is None:
            if rows is not None:
                raise ConfigError(f"{prefix}pairs: leave it out, or {prefix}source and target")
            rows = _rows(pairs, keys, f"{prefix}pairs")
        if rows is not None:
            lines = (
                json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=False) for row in rows
            )
            found[f"{prefix}pairs"] = [self._write(f"{name}.jsonl", lines)]
            found["fields"] = list(keys)
        elif fields:
            found["fields"] = list(fields)
        if text is not None and names["text"] is None:
            lines = (line for each in _checked(text, f"{prefix}text") for line in each.splitlines())
            found[f"{prefix}text"] = [self._write(f"{name}.txt", lines)]
        return found

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Remove the new files if the block leaves no run."""
        try:
            yield
        finally:
            if not holds_run(self._out):
                for path in self._new:
                    path.unlink(missing_ok=True)
                with contextlib.suppress(OSError):  # it holds other files, or does not exist
                    self._folder.rmdir()

    def _write(self, name: str, lines: Iterable[str]) -> str:
        """Write a file, unless it exists with the same content; return its path."""
        make_directory(self._folder)
        path = self._folder / name
        new = path.with_name(f"{name}.new")
        try:
            with atomic_file(new) as write:
                for line in lines:
                    write(f"{line}\n".encode())
            if path.is_file():
                if filecmp.cmp(new, path, shallow=False):
                    return str(path)
                if holds_run(self._out) and not self._force:
                    raise UserError(
                        f"{path}: the run in {self._out} was trained on the different data in this "
                        "file; pass the same data, another `out`, or force=True"
                    )
            else:
                self._new.append(path)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        return str(path)


def _names(given: Any) -> list[str] | None:
    """Return the file names, or None for data in memory and for missing data."""
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    if not isinstance(given, Sequence) or not given:
        return None
    if all(isinstance(each, os.PathLike) for each in given):
        return [os.fspath(each) for each in given]
    if all(isinstance(each, str) and len(each) < 1000 and os.path.isfile(each) for each in given):
        raise ConfigError(
            f"a list of str is data, but {given[0]!r} is a file: give one name, or a list of Path"
        )
    return None


def _checked(given: Any, name: str) -> Iterator[str]:
    """Yield texts in memory."""
    if not isinstance(given, Iterable):
        raise DataError(
            f"{name}: expected texts or the name of a file, found {type(given).__name__}"
        )
    for number, text in enumerate(given, 1):
        if not isinstance(text, str):
            raise DataError(f"{name}: expected a text, found {type(text).__name__} at {number}")
        yield text


def _texts(given: Any, name: str) -> Iterator[str]:
    """Yield texts in memory, each as one line."""
    return (" ".join(text.splitlines()) for text in _checked(given, name))


def _aligned(sources: Iterable[str], targets: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of two sides of the same length."""
    missing = object()
    for number, pair in enumerate(itertools.zip_longest(sources, targets, fillvalue=missing), 1):
        if missing in pair:
            longer, shorter = ("target", "source") if pair[0] is missing else ("source", "target")
            raise DataError(f"{shorter} ends before {longer}: there is no {shorter} {number}")
        yield pair  # type: ignore[misc]


def _rows(pairs: Any, fields: tuple[str, ...], name: str) -> Iterator[tuple[str, str]]:
    """Yield pairs from tuples, from mappings by field, or from columns by field."""
    if hasattr(pairs, "keys"):  # a mapping or a table of columns
        missing = [field for field in fields if field not in pairs.keys()]  # noqa: SIM118
        if missing:
            raise DataError(f"{name}: there is no column {missing[0]!r}; name both with fields")
        sides = [_texts(pairs[field], f"{name}[{field!r}]") for field in fields]
        yield from _aligned(sides[0], sides[1])
        return
    for number, row in enumerate(pairs, 1):
        if isinstance(row, Mapping):
            if not all(field in row for field in fields):
                raise DataError(
                    f"{name}: row {number} has the keys {', '.join(map(str, row))}, expected "
                    f"{fields[0]} and {fields[1]}; name both with fields"
                )
            pair = tuple(row[field] for field in fields)
        else:
            pair = tuple(row) if isinstance(row, Sequence) and not isinstance(row, str) else (row,)
        if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise DataError(f"{name}: row {number} is no pair of texts")
        yield " ".join(pair[0].splitlines()), " ".join(pair[1].splitlines())
