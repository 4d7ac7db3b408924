"""Training from Python: `crosshead.train`, with data from files or from memory."""

import contextlib
import hashlib
import inspect
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.bundle.places import RECIPE, earlier_run_path
from crosshead.caller import PYTHON, calling_from
from crosshead.config import nearest, shown
from crosshead.data.parallel.tables import field_names, field_of
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.recipe.presets import PRESETS
from crosshead.recipe.recipe import Recipe
from crosshead.system.files import StrPath, atomic_file, make_directory, real_path
from crosshead.system.progress import Display, choose_display
from crosshead.tasks.recipes import compose, known_keys
from crosshead.training import run
from crosshead.training.context import Callback, ignore
from crosshead.training.result import Summary
from crosshead.training.settings import new_recipe, resumed_recipe, shipped_recipes

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
    (`OUT.data/train-CHECKSUM.jsonl` and so on), because a run reads its data several times, and
    again when it is resumed.

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
        ConfigError: If a section is not a mapping.
        UserError: If the recipe, the data or the directory cannot be used.
        KeyboardInterrupt: After Ctrl-C, when a checkpoint is saved: `resume=True` continues.
        BaseException: An exception of a callback, when a checkpoint is saved in the same way.

    Example:
        >>> crosshead.train(source=["a b", "b c"], target=["x y", "y z"], out="runs/letters",
        ...                 train={"max_updates": 100})  # doctest: +SKIP
    """
    out = _directory(out)
    _check_sections(sections)
    data = _Data(out)
    with data.kept(), calling_from(PYTHON):
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


def _check_sections(sections: Mapping[str, object]) -> None:
    """Raise `ConfigError` for an argument that is no section, with the section of a key."""
    known = known_keys().sections
    for name, value in sections.items():
        if name not in known:
            owners = [section for section, keys in known.items() if name in keys]
            advice = " or ".join(f"{section}={{{name!r}: {shown(value)}}}" for section in owners)
            arguments = [*inspect.signature(train).parameters, *known]
            hint = f"give {advice}" if owners else nearest(name, arguments)
            raise ConfigError(f"train has no argument or section {name!r}; {hint}")
        if not isinstance(value, Mapping | str) or (name == "data" and isinstance(value, str)):
            raise ConfigError(f"{name}: expected settings by name, found {value!r:.60}")


def _directory(out: StrPath) -> Path:
    """Return the run directory, which must have a name."""
    if "\0" in os.fspath(out) or not real_path(Path(out)).name:
        raise UserError(f"out: expected the name of a directory, found {os.fspath(out)!r}")
    return Path(out)


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
    if not isinstance(recipe, str | os.PathLike | None):
        raise ConfigError(
            f"recipe: expected a name, a path or a Recipe, found {type(recipe).__name__}; give "
            "sections by name, such as train={'max_updates': 1000}"
        )
    name = None if recipe is None else os.fspath(recipe)
    preset, presets = None, {size for sizes in PRESETS.values() for size in sizes}
    if name in presets:
        preset, name = name, None
    elif name is not None and not name.endswith(".toml"):
        known = [*presets, *shipped_recipes()]
        if name not in known:
            raise ConfigError(f"there is no preset or recipe {name!r}; {nearest(name, known)}")
    if resume:
        return resumed_recipe(out, name, flags, ())
    return new_recipe(preset, name, flags, (), start)


_NAME = re.compile(r"(train|valid)-[0-9a-f]{12}\.(jsonl|txt)")
"""The name of a file of data that were given in memory."""


class _Data:
    """The data of a run: files as they are, and data in memory as files beside the run.

    The name of a file in memory contains its checksum, so that no file is ever replaced: the data
    of an earlier run stay until a new run has taken its place.

    Args:
        out: The run directory.
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

    def _write(self, name: str, lines: Iterable[str]) -> str:
        """Write a file with its checksum in its name, if it does not exist; return its path."""
        make_directory(self._folder)
        stem, suffix = name.split(".")
        checksum = hashlib.sha256()
        new = self._folder / f"{name}.{os.getpid()}.new"
        try:
            with atomic_file(new) as write:
                for number, line in enumerate(lines, 1):
                    encoded = _encoded(line, name, number)
                    checksum.update(encoded)
                    write(encoded)
            path = self._folder / f"{stem}-{checksum.hexdigest()[:12]}.{suffix}"
            if not path.is_file():
                self._new.append(path)
                new.replace(path)
        finally:
            new.unlink(missing_ok=True)
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
    if not isinstance(pairs, Iterable) and not hasattr(pairs, "__getitem__"):
        raise DataError(f"{name}: expected pairs or the name of a file, found {pairs!r:.60}")
    for number, row in enumerate(pairs, 1):
        if isinstance(row, Mapping):
            try:
                pair = tuple(field_of(row, field) for field in fields)
            except KeyError:
                raise DataError(
                    f"{name}: row {number} has the keys {', '.join(field_names(row))}, expected "
                    f"{fields[0]} and {fields[1]}; name both with fields"
                ) from None
        else:
            pair = tuple(row) if isinstance(row, Sequence) and not isinstance(row, str) else (row,)
        if len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise DataError(f"{name}: row {number} is no pair of texts")
        yield " ".join(pair[0].splitlines()), " ".join(pair[1].splitlines())
