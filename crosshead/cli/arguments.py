"""The arguments of verbs: bundles, files and languages, and checks of them."""

import os
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from crosshead.bundle.files import files_in_use
from crosshead.cli.options import bundle_place
from crosshead.cli.terminal import note
from crosshead.data.parallel.delimited import SAMPLE, looks_like_header
from crosshead.data.parallel.languages import column_language, contradict, suffix_language
from crosshead.data.parallel.tables import whole_lines_warning
from crosshead.errors import DataError, UserError
from crosshead.pipelines.translator import Translator
from crosshead.system.files import real_path
from crosshead.system.lines import check_regular, iter_lines

_SPREADSHEETS = frozenset({".xls", ".xlsx", ".ods"})
_DOCUMENTS = frozenset({".doc", ".docx", ".odt"})
_OF_TRANSLATORS = frozenset({".tmx", ".xlf", ".xliff", ".po"})
"""The ends of the names of translation memories and of other files of translation programs."""


def bundles_and_file(bundle: Path, more: Sequence[str]) -> tuple[list[Path], str]:
    """Return the bundles and the file among the arguments of `translate`.

    The last one of `more` is the file, unless it is a directory or a packed bundle. Without a file,
    the lines come from `-`, standard input.

    Raises:
        UserError: If a file that is no packed bundle stands in the place of a bundle, or the last
            argument is a text.
    """
    if _is_other_file(bundle):
        raise UserError(
            f"{bundle}: a file; the first argument is the bundle, its directory or a file that "
            "`crosshead pack` wrote: give the bundle first, then the file to translate"
        )
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
    for each in filter(_is_other_file, bundles):
        raise UserError(
            f"{each}: a file in the place of a bundle; expected bundles and then one file of text: "
            "give the file last, and translate several files one after the other"
        )
    return bundles, file


def _is_other_file(path: Path) -> bool:
    """Return whether a path is a file that is no packed bundle."""
    return path.is_file() and path.suffix != ".zip" and not _is_archive(path)


def _is_archive(path: Path) -> bool:
    """Return whether a path is a zip archive that may be a packed bundle.

    The files of office programs are zip archives, too. Their names tell them apart.
    """
    if path.suffix.lower() in _SPREADSHEETS | _DOCUMENTS:
        return False
    return path.is_file() and zipfile.is_zipfile(path)


def only(bundles: Sequence[Path], option: str) -> Path:
    """Return the only bundle; `option` names data that no ensemble takes.

    Raises:
        UserError: If there are several bundles.
    """
    if len(bundles) > 1:
        raise UserError(
            f"{option} takes one bundle, found {len(bundles)}; only models that translate text "
            "alone form an ensemble"
        )
    return bundles[0]


def into(translator: Translator, to: str | None) -> Translator:
    """Return the translator for the language of `--to`, if it is given.

    Raises:
        ConfigError: If the model does not translate to this language, or needs one.
    """
    if to is not None:
        return translator.into(to)
    translator.with_tag([])
    return translator


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Sequence[Path | str], bundle: Path
) -> None:
    """Raise `UserError` if an output would replace an input, a file of the model, or another one.

    Args:
        outputs: The files to write by their options.
        inputs: The files that are read. `-` and other words that name no file do not count.
        bundle: The bundle of the model.
    """
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


def check_reference(
    translator: Translator,
    reference: str | os.PathLike[str],
    field: str | None = None,
    *,
    model: str = "this model",
) -> None:
    """Check that the name of a file of references is not that of text in another language.

    Args:
        translator: The model.
        reference: The file of references.
        field: The field of the references in a file with both sides, whose name counts then.
        model: The name of the model in the message.

    Raises:
        UserError: If the text is named as text in a language that the model does not write.
    """
    writes = translator.target_language
    if field is None:
        named, what = suffix_language(os.fspath(reference)), ""
        other = "a file with another suffix"
    else:
        named, what = column_language(field), f" the reference field {field!r}"
        other = "another field"
    if contradict(named, writes):
        raise UserError(
            f"{reference}:{what} is named as text in {named}, but {model} translates to {writes}; "
            f"give references in {writes}, or {other}"
        )


def check_direction(
    translator: Translator,
    source: str | os.PathLike[str],
    field: str | None = None,
    *,
    model: str = "this model",
) -> None:
    """Check that the name of a source file is not that of text in the target language.

    Args:
        translator: The model.
        source: The file that the model reads.
        field: The field of the sources in a file with both sides, whose name counts then.
        model: The name of the model in the message.

    Raises:
        UserError: If the text is named as text in the language that the model writes.
    """
    reads, writes = translator.bundle.config.source_language, translator.target_language
    if field is None:
        named, what, other = suffix_language(os.fspath(source)), "", "a file with another suffix"
    else:
        named, what = column_language(field), f" the source field {field!r}"
        other = "exchange the fields"
    if reads and writes and named == writes != reads:
        raise UserError(
            f"{source}:{what} is named as text in {writes}, but {model} translates from {reads} "
            f"to {writes}; give a model of the other direction, or {other}"
        )


def warn_of_table(source: str | os.PathLike[str]) -> None:
    """Print a warning if a source file is named as a table, whose lines are no sentences.

    Args:
        source: The file that a model reads, line by line.
    """
    for line in whole_lines_warning(Path(source)):
        note(line)


def refuse_table(source: str | os.PathLike[str]) -> None:
    """Raise `UserError` if the lines of a text to translate are no sentences, judged by its name.

    The name is that of a table, of an office document, or of a file of a translation program.

    Args:
        source: The file that a model reads, line by line.
    """
    name = os.fspath(source)
    stem, ending = os.path.splitext(name.removesuffix(".gz"))
    table, text = shlex.quote(name), shlex.quote(f"{stem}.txt")
    unpacked = "cat" if stem + ending == name else "gzip -dc"
    kind = "a table"
    match ending.lower():
        case ".tsv":
            names, rest = "", ""
            if _has_column_names(Path(name)):
                names, rest = "without the names of the columns in line 1, ", " | tail -n +2"
            how = (
                f"copy column 1, for example, {names}with: "
                f"{unpacked} {table} | cut -f 1{rest} > {text}"
            )
        case ".jsonl":
            how = f"copy the field en, for example, with: {unpacked} {table} | jq -r .en > {text}"
        case other if other == ".csv" or other in _SPREADSHEETS:
            how = "copy one column from a spreadsheet program into such a file"
        case other if other in _DOCUMENTS:
            kind = "a document of an office program"
            how = "save it as text in that program"
        case other if other in _OF_TRANSLATORS:
            kind = "a file of a translation program"
            how = "export its sentences of one language as text from that program"
        case _:
            return
    raise UserError(
        f"{name}: {kind}, by its name; expected a text file with one sentence per line: {how}"
    )


def _has_column_names(table: Path) -> bool:
    """Return whether the first line of a table with tabs looks like names of columns.

    A file that cannot be read has none, and a pipe is not read.
    """
    with suppress(DataError):
        check_regular(table)
        rows = [line.split("\t")[:2] for line in islice(iter_lines(table), SAMPLE)]
        return bool(rows) and looks_like_header(rows[0], rows[1:])
    return False
