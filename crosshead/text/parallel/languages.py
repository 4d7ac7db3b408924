"""Language codes and names, in files, columns and pages, and tags of target languages.

A tag such as `<2de>` names the language of the target (Johnson et al. 2017, section 3). It is one
piece of the tokenizer, which the program puts before each source in training and in translation.
"""

import functools
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence

_USUAL_NAMES = {
    "bn": "Bengali", "nb": "Norwegian", "tl": "Tagalog", "zh-hans": "Chinese",
    "zh-hant": "Chinese (traditional)",
}  # fmt: skip
"""The names of languages in Argos Translate and LibreTranslate, where langcodes has another one."""

_CODE = re.compile(r"([a-z]{2,3})([-_]([A-Z][a-z]{3}|[A-Za-z]{2}|[0-9]{3}))?")
"""A language, optionally followed by a script or a region."""

_BETWEEN = re.compile(rf"[\s{re.escape(string.punctuation)}‘’“”„«»]+")
"""The signs and spaces between the words of a name."""

_MOST_WORDS = 2
"""The largest number of words in the name of a column that states its language. A longer name may
state another one, as `Translation from English` does."""

_NO_LANGUAGES = frozenset({"gz", "txt", "tok", "bpe", "lc", "clean"})
"""Suffixes that may follow a language code."""


@functools.cache
def _is_language(code: str) -> bool:
    """Return whether a code of two letters is a language, or one of three that people speak.

    The registry has 8,000 codes of three letters, and `txt`, `tsv`, `src` and `tgt` are among them.
    They have no known speakers. `new` (Newari) has, but is an English word in names.
    """
    import langcodes

    language = langcodes.Language.get(code)
    is_used = len(language.language or "") == 2 or language.speaking_population() > 0
    return language.is_valid() and is_used and code != "new"


@functools.cache
def _named(word: str) -> str | None:
    """Return the code of the language that a word of four letters or more names in any language."""
    import langcodes

    try:
        language = langcodes.find(word)
    except LookupError:
        return None
    return language.to_tag() if len(word) > 3 and language.speaking_population() else None


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known."""
    import langcodes

    if name := _USUAL_NAMES.get(code.lower()):
        return name
    return langcodes.get(code).display_name() if langcodes.tag_is_valid(code) else code


def looks_like_code(name: str) -> bool:
    """Return whether a name has the form of a language code (BCP 47), listed or not."""
    return _CODE.fullmatch(name) is not None


def language_code(name: str) -> str | None:
    """Return a name as a language code, or None if it is not one.

    `en`, `deu`, `pt_BR` and `zh-Hans` are codes. An underscore becomes a hyphen, as in BCP 47.
    """
    found = _CODE.fullmatch(name)
    return name.replace("_", "-") if found and _is_language(found[1]) else None


def column_language(name: str) -> str | None:
    """Return the language code of a column or a JSON key, or None.

    The name is a code, such as `en` or `text.en`, or one of its two words names a language:
    `English`, `German sentence` or `source_english`.
    """
    if code := language_code(name.rpartition(".")[2]):
        return code
    words = _BETWEEN.sub(" ", unicodedata.normalize("NFC", name)).split()
    found = {_named(word) for word in words if len(words) <= _MOST_WORDS} - {None}
    return found.pop() if len(found) == 1 else None


def suffix_language(name: str) -> str | None:
    """Return the language code at the end of a file name, or None.

    Suffixes such as `.gz` and `.txt` are skipped: `train.en.gz` and `train.en.txt` both give `en`.
    """
    parts = name.rpartition("/")[2].split(".")[1:]
    while parts and parts[-1] in _NO_LANGUAGES:
        parts.pop()
    return language_code(parts[-1]) if parts else None


_TAG = re.compile(r"<2(.+)>")
_TAGS_BEFORE = re.compile(r"\A(?:<[^<>\s]+>\s+)+")


def tag_of(language: str) -> str:
    """Return the tag of a target language: `<2de>`."""
    return f"<2{language}>"


def without_tags(source: str) -> str:
    """Return a source without the tags before it."""
    return _TAGS_BEFORE.sub("", source)


def tagged_languages(pieces: Iterable[str]) -> list[str]:
    """Return the languages whose tags are among the pieces, sorted."""
    found = [_TAG.fullmatch(piece) for piece in pieces]
    return sorted(match[1] for match in found if match and looks_like_code(match[1]))


def with_tag(tag: str, lines: Sequence[str]) -> list[str]:
    """Return lines with a tag before each. A blank line stays as it is."""
    if not tag:
        return list(lines)
    return [f"{tag} {line.strip()}" if line.strip() else line for line in lines]


def languages_in_names(
    files: Sequence[str], fields: Sequence[str]
) -> tuple[str | None, str | None]:
    """Return the source and the target language in the names of a corpus."""
    if len(files) == 2:
        return suffix_language(files[0]), suffix_language(files[1])
    names = fields or ["", ""]
    return column_language(names[0]), column_language(names[1])
