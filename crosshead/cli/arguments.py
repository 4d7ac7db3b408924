"""The arguments of verbs, checked: bundles, files, languages and settings of the search."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from crosshead.bundle.files import files_in_use
from crosshead.bundle.foreign import content_of, foreign_models
from crosshead.bundle.places import CONFIG
from crosshead.cli.options import bundle_place
from crosshead.config import validate
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.system.files import real_path
from crosshead.system.lines import ARCHIVE, head_of, kind_of
from crosshead.text.parallel.languages import column_language, suffix_language

if TYPE_CHECKING:
    from crosshead.tasks.translation.text_translator import TextTranslator
    from crosshead.tasks.translation.translator import Translator

T = TypeVar("T", bound="TextTranslator")


def bundles_and_file(bundle: Path, more: Sequence[str]) -> tuple[list[Path], str]:
    """Return the bundles and the file among the arguments of `translate`.

    The last one of `more` is the file, unless it is a directory or a packed bundle. Without a file,
    the lines come from `-`, standard input.
    """
    if more and len(more[-1].split()) > 1 and not os.path.exists(more[-1]):
        raise UserError(
            f"{more[-1]}: no such file; to translate a text, send it through a pipe: echo "
            f"{shlex.quote(more[-1])} | crosshead translate {shlex.quote(str(bundle))}"
        )
    bundles = [bundle, *map(bundle_place, more)]
    last = bundles[-1]
    file = "-"
    if more and not (last.is_dir() or _is_archive(last)):
        bundles, file = bundles[:-1], more[-1]
    return bundles, file


def _is_archive(path: Path) -> bool:
    """Return whether a path is a zip archive that may be a packed bundle.

    A whole archive of something else is none. A damaged one gets its message when it is loaded.
    """
    names, config = content_of(path)
    is_model = not names or CONFIG in names or bool(foreign_models(names, config))
    return is_model and kind_of(head_of(path)) is ARCHIVE


def only(bundles: Sequence[Path], option: str) -> Path:
    """Return the only bundle; `option` names data that no ensemble takes."""
    if len(bundles) > 1:
        raise UserError(
            f"{option} takes one bundle, found {len(bundles)}; only models that translate text "
            "alone form an ensemble"
        )
    return bundles[0]


def into(translator: T, to: str | None) -> T:
    """Return the translator for the language of `--to`, if it is given."""
    if to is not None:
        return translator.into(to)
    translator.with_tag([])
    return translator


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Sequence[Path | str], bundle: Path
) -> None:
    """Raise `UserError` if an output would replace an input, a file of the model or another one."""
    options: dict[Path, str] = {}
    for option, output in outputs.items():
        if output is None:
            continue
        other = options.setdefault(real_path(output), option)
        if other != option:
            raise UserError(f"{other} and {option} both name {output}; give two files")
        if not output.is_file():
            continue
        if any(os.path.isfile(file) and output.samefile(file) for file in inputs if file != "-"):
            raise UserError(f"{output} is the input file; give another {option}")
        if real_path(output) in map(real_path, files_in_use(bundle)):
            raise UserError(f"{output} is a file of the model {bundle}; give another {option}")


def check_direction(
    translator: "Translator",
    source: str | os.PathLike[str],
    field: str | None = None,
    *,
    model: str = "this model",
) -> None:
    """Check that the name of a source file is not that of text in the target language."""
    reads, writes = translator.bundle.config.source_language, translator.target_language
    named = suffix_language(os.fspath(source)) if field is None else column_language(field)
    what = "" if field is None else f" the source field {field!r}"
    other = "a file with another suffix" if field is None else "exchange the fields"
    if reads and writes and named == writes != reads:
        raise UserError(
            f"{source}:{what} is named as text in {writes}, but {model} translates from {reads} "
            f"to {writes}; give a model of the other direction, or {other}"
        )


def search_settings(
    bundle_says: DecodeConfig, sample: bool, flags: Mapping[str, Any], n_best: int | None
) -> DecodeConfig:
    """Return the bundle's search settings, overridden by the given (not None) flags.

    `sample` without a beam sets the beam to 1, because sampling keeps no beam.
    """
    values = bundle_says.model_dump()
    if sample:
        values |= {"sample": True, "beam": 1}
    for key in ("temperature", "top_k", "top_p", "seed"):
        if flags.get(key) is not None and not values["sample"]:
            raise ConfigError(f"{_flag(key)} applies to sampling only: add --sample")
    values |= {key: value for key, value in flags.items() if value is not None}
    typed = {key: _flag(key) for key, value in flags.items() if value is not None}
    decode = validate(DecodeConfig, values, typed=typed)
    if n_best is not None and n_best > decode.beam and not decode.sample:
        raise ConfigError(
            f"--n-best {n_best} needs a beam of at least {n_best}; the beam is {decode.beam}: give "
            f"--beam {n_best}"
        )
    return decode


def writing_settings(
    bundle_says: DecodeConfig, greedy: bool, beam: int | None, flags: Mapping[str, Any]
) -> DecodeConfig:
    """Return the bundle's settings for writing text, overridden by the given (not None) options.

    `flags` are the options of sampling: any of them turns sampling on. `greedy` and `beam` turn it
    off.
    """
    given = [_flag(key) for key, value in flags.items() if value is not None]
    searched = "--greedy" if greedy else "--beam" if beam is not None else None
    if greedy and beam is not None:
        raise ConfigError(f"--beam {beam} and --greedy exclude each other; leave out one of them")
    if searched and given:
        raise ConfigError(f"{given[0]} applies to sampling only; leave out it or {searched}")
    if searched:
        drawn = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        bundle_says = bundle_says.model_copy(update=drawn)
        flags = {"beam": 1 if greedy else beam}
    return search_settings(bundle_says, bool(given), flags, None)


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"
