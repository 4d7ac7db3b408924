"""Training pairs whose one side a model has written: distillation and back-translation.

A model translates a text, block by block, into a file with one translation per line. A stopped
command continues from the last whole block. A block is always translated as one call, so a resumed
file equals an uninterrupted one.
"""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.places import CONFIG
from crosshead.caller import option
from crosshead.cli.terminal import answering, note
from crosshead.config import validate
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import DataError, UserError
from crosshead.system.files import (
    atomic_file,
    atomic_write,
    explain_os_errors,
    is_unused,
    write_all,
)
from crosshead.system.lines import check_regular, check_sentences, file_sha256, head_of, iter_lines
from crosshead.system.stored import read_metadata, read_stored
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.languages import suffix_language
from crosshead.text.profile import flags_of
from crosshead.text.tokenizers import TokenizerConfig
from crosshead.training.directory import locked_directory

BLOCK = 1024
"""The number of lines that are translated in one call and stored together."""

SETTINGS, TRANSLATIONS = "settings.json", "translations.txt"
"""Files of a synthetic set: what its translations depend on, and one translation per line. The line
of a text that was not translated is empty."""


@dataclass(frozen=True)
class Synthesis:
    """A text that a model translates into training pairs.

    Attributes:
        bundles: The bundle of the model, or several bundles of an ensemble.
        text: The file to translate.
        decode: The settings of the search.
    """

    bundles: Sequence[Path]
    text: Path
    decode: DecodeConfig

    def settings(self, tag: str | None) -> dict[str, Any]:
        """Return what the translations depend on, as JSON values."""
        configs = [read_stored(bundle / CONFIG) for bundle in self.bundles]
        return {
            "models": [hashlib.sha256(config).hexdigest() for config in configs],
            "text": file_sha256(self.text),
            "to": tag or "",
            "decode": self.decode.model_dump(),
        }


class Odd(NamedTuple):
    """The translations of a set that may be bad: see `flags_of`."""

    translations: int
    """The number of all translations."""
    flagged: int
    """The number of translations with a flag."""
    flags: Counter[str]
    """The number of translations with each flag."""


class SyntheticPairs(NamedTuple):
    """The files of a finished synthetic set, and the number of their pairs."""

    source: Path
    target: Path
    pairs: int
    left_out: dict[str, int]
    """The number of pairs that were left out, by reason."""
    odd: Odd


def distill(translator: Translator, work: Synthesis, out: Path) -> SyntheticPairs:
    """Translate the sources of a training set with a teacher, and write both as a new set.

    The student learns from the teacher's best translations: sequence-level knowledge distillation.

    Reference:
        Kim and Rush 2016, section 3.2.
    """
    lines = _count(work.text)
    with locked_directory(out):
        _translate(translator, work, out, lines)
        written = zip(iter_lines(work.text), iter_lines(out / TRANSLATIONS), strict=True)
        return _write(out, translator, work.text, written, reverse=False)


def back_translate(
    translator: Translator, work: Synthesis, out: Path, tag: str | None
) -> SyntheticPairs:
    """Write a text as targets, and its translations by a reverse model as sources.

    Reference:
        Sennrich et al. 2016, section 3.2; Caswell et al. 2019, section 3.2.
    """
    if tag is not None:
        validate(TokenizerConfig, {"special": [tag]}, typed={"special": option("tag")})
    lines = _count(work.text)
    with locked_directory(out):
        _translate(translator, work, out, lines)
        before = "" if tag is None else f"{tag} "
        pairs = zip(iter_lines(out / TRANSLATIONS), iter_lines(work.text), strict=True)
        tagged = ((f"{before}{source}" if source.strip() else "", text) for source, text in pairs)
        return _write(out, translator, work.text, tagged, reverse=True)


def _count(text: Path) -> int:
    """Return the number of lines to translate."""
    check_regular(text)
    check_sentences(head_of(text), str(text))
    count = sum(1 for _ in iter_lines(text))
    if not count:
        raise DataError(f"{text}: empty; expected text to translate")
    return count


def _translate(translator: Translator, work: Synthesis, out: Path, lines: int) -> None:
    """Translate all lines that are not translated yet, block by block."""
    _check_settings(work, out, translator.tag)
    path = out / TRANSLATIONS
    with explain_os_errors(path), path.open("ab", buffering=0) as file:
        done = _whole_blocks(path, file, lines)
        if 0 < done < lines:
            note(f"{out}: continues after {done:,} of {lines:,} lines")
        rest = islice(iter_lines(work.text), done, None)
        with answering(lines if done < lines else 0, known=done) as advance:
            for first in range(done, lines, BLOCK):
                block = list(islice(rest, BLOCK))
                show = partial(advance, first, len(block))
                found = translator.translate(
                    block, decode=work.decode, first=first, scored=False, progress=show
                )
                write_all(file, _stored(found))


def _stored(found: Sequence[Sequence[Translation]]) -> bytes:
    """Return the best translations, one per line, empty for a line that was passed through."""
    texts = ["" if best[0].was_passed_through else best[0].text.strip() for best in found]
    return "".join(f"{text}\n" for text in texts).encode()


def _check_settings(work: Synthesis, out: Path, tag: str | None) -> None:
    """Check that `out` is unused or holds the same work, and store what the work depends on."""
    wanted, path = work.settings(tag), out / SETTINGS
    if not path.exists():
        if not is_unused(out):
            raise UserError(
                f"{out}: is not empty and holds no synthetic set; give another {option('out')}"
            )
        atomic_write(path, (json.dumps(wanted, indent=1) + "\n").encode())
        return
    found = read_metadata(path)
    other = [key for key, value in wanted.items() if found.get(key) != value]
    if other:
        names = {"to": "target language", "decode": "search"}
        raise UserError(
            f"{out}: holds translations with other settings "
            f"({', '.join(names.get(key, key) for key in other)}); give another {option('out')}"
        )


def _whole_blocks(path: Path, file: io.FileIO, lines: int) -> int:
    """Cut a file of translations after its last whole block, and return its number of lines."""
    done = size = whole = end = 0
    with path.open("rb") as stored:
        for line in stored:
            if not line.endswith(b"\n"):
                break
            done, size = done + 1, size + len(line)
            if done % BLOCK == 0 or done == lines:
                whole, end = done, size
    file.truncate(end)
    return whole


def _write(
    out: Path,
    translator: Translator,
    text: Path,
    pairs: Iterator[tuple[str, str]],
    *,
    reverse: bool,
) -> SyntheticPairs:
    """Write pairs as two aligned files, without empty sides and repeated pairs.

    The suffixes are the languages of the model, if they are known. `reverse` exchanges them. A
    model of several directions has no single source language; the suffix of `text` names it then.
    """
    read, written = translator.bundle.config.source_language, translator.target_language
    read = read or suffix_language(text.name)
    found = [read if read != written else None, written]
    languages = found[::-1] if reverse else found
    suffixes = zip(languages, ("source", "target"), strict=True)
    source, target = (out / f"train.{language or side}" for language, side in suffixes)
    odd = _odd(translator, text, out / TRANSLATIONS)
    seen: set[bytes] = set()
    left_out = {"with an empty side": 0, "repeated": 0}
    with atomic_file(source) as left, atomic_file(target) as right:
        for sides in pairs:
            each, other = (side.strip() for side in sides)
            digest = hashlib.blake2b(f"{each}\n{other}".encode(), digest_size=16).digest()
            if not each or not other:
                left_out["with an empty side"] += 1
            elif digest in seen:
                left_out["repeated"] += 1
            else:
                seen.add(digest)
                left(f"{each}\n".encode())
                right(f"{other}\n".encode())
        if not seen:
            raise DataError(
                f"{text}: no pairs, because every line is empty, was not translated, or has an "
                "empty translation; give a better model or another text, and another "
                f"{option('out')}"
            )
    return SyntheticPairs(source, target, len(seen), left_out, odd)


def _odd(translator: Translator, text: Path, translations: Path) -> Odd:
    """Return the translations that may be bad, without the lines that were not translated.

    The stored lines are read, because a resumed command has translated only some of them.
    """
    profile, tokenizer = translator.bundle.config.profile, translator.bundle.source_tokenizer
    lines = zip(iter_lines(text), iter_lines(translations), strict=True)
    found = [
        flags_of(profile, line, tokenizer.encode(line.strip()), written)
        for line, written in lines
        if written
    ]
    return Odd(
        len(found), sum(map(bool, found)), Counter(each for flags in found for each in flags)
    )
