"""Parallel text from files: aligned pairs of files, TSV, CSV and JSONL, plain or gzipped.

A file of n lines gives n pairs, except for table cells with line breaks. `crosshead.system.lines`
defines where a line ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from crosshead.caller import option
from crosshead.errors import DataError
from crosshead.system.lines import check_regular
from crosshead.text.parallel.languages import (
    column_language,
    languages_in_names,
    suffix_language,
    tag_of,
)
from crosshead.text.parallel.pairs import ParallelText, Sides
from crosshead.text.parallel.parts import Part, aligned_chunks, survey
from crosshead.text.parallel.section import DataConfig


def training_parts(config: DataConfig) -> list[Part]:
    """Return the training corpora: `source` and `target`, then `pairs`, then the old domain."""
    if not config.source and not config.pairs:
        raise DataError(
            f"no training data: give two line-aligned files ({option('source')} and "
            f"{option('target')}) or files with both sides ({option('pairs')}), or their keys in "
            "[data]"
        )
    new = _parts(config.source, config.target, config.pairs, config.fields)
    old = _parts(config.old_source, config.old_target, config.old_pairs, config.fields_of_old)
    return _directed([*new, *old], config)


def read_pairs(config: DataConfig) -> ParallelText:
    """Return the training pairs, held in memory."""
    return survey(training_parts(config)).read()


def read_valid_pairs(
    config: DataConfig, say: Callable[[str], None] = lambda line: None, *, old: bool = False
) -> ParallelText | None:
    """Return the validation pairs, or None if there are no files for them."""
    files = config.valid_source, config.valid_target, config.valid_pairs, config.fields
    if old:
        files = (
            config.old_valid_source, config.old_valid_target, config.old_valid_pairs,
            config.fields_of_old,
        )  # fmt: skip
    if not any(files[:3]):
        return None
    parts = _directed(_parts(*files), config)
    for part in parts:
        for note in () if part.exchanged else part.notes():
            say(note)
    return survey(parts).read()


def named_languages(config: DataConfig) -> tuple[str | None, str | None]:
    """Return the source and the target language in the names of the training files.

    File suffixes (`train.en`) give the languages of aligned files, and field names those of files
    of pairs. A side has no language if no name tells it, or if two names disagree.
    """
    source, target = (_only(codes) for codes in _codes(config))
    return source, target


def read_aligned(source: Path, target: Path) -> tuple[list[str], list[str]]:
    """Return the lines of two aligned files."""
    sides: Sides = [], []
    for left, right in aligned_chunks(source, target):
        sides[0].extend(left)
        sides[1].extend(right)
    return sides


def _parts(
    source: Sequence[str], target: Sequence[str], pairs: Sequence[str], fields: Sequence[str]
) -> list[Part]:
    """Return the corpora of aligned `source` and `target` files and of `pairs`."""
    for name in chain(source, target, pairs):
        check_regular(Path(name))
    aligned = [Part(names, []) for names in zip(source, target, strict=True)]
    return [*aligned, *(Part((name,), fields) for name in pairs)]


def _directed(parts: Sequence[Part], config: DataConfig) -> list[Part]:
    """Return the corpora with their tags, and with `directions` "both" also in reverse."""
    if config.directions == "one":
        return list(parts)
    languages = [languages_of(part, config) for part in parts]
    found = [
        replace(part, tag=tag_of(target))
        for part, (_, target) in zip(parts, languages, strict=True)
    ]
    if config.directions == "both":
        found += [
            replace(part, tag=tag_of(source), exchanged=True)
            for part, (source, _) in zip(parts, languages, strict=True)
        ]
    return found


def languages_of(part: Part, config: DataConfig) -> tuple[str, str]:
    """Return the source and the target language of a corpus with tags."""
    stated = config.source_language, config.target_language
    named = languages_in_names(part.files, part.fields)
    source, target = (given or name for given, name in zip(stated, named, strict=True))
    if source is None or target is None or source == target:
        raise DataError(
            f"{' and '.join(part.files)}: expected two languages in the names, such as train.en "
            f"and train.de, for data.directions = {config.directions!r}, found "
            f"{source or 'none'} and {target or 'none'}; rename the files or fields, or give "
            f"{option('source-language')} and {option('target-language')}"
        )
    return source, target


def _codes(config: DataConfig) -> Iterator[list[str | None]]:
    """Yield the languages in the names of each side. A name without a language gives None."""
    fields: Sequence[str] = config.fields if config.pairs else []
    for side, files in enumerate((config.source, config.target)):
        yield [*map(suffix_language, files), *map(column_language, fields[side : side + 1])]


def _only(codes: Sequence[str | None]) -> str | None:
    """Return the language if all names with a language agree, else None."""
    languages = set(codes) - {None}
    return languages.pop() if len(languages) == 1 else None
