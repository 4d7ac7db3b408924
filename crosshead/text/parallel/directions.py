"""Directions of translation: tags before the sources, such as `<2de>`, for one model of several.

The tag names the language of the target (Johnson et al. 2017, section 3). It is one piece of the
tokenizer, which the program puts before each source in training and in translation.
"""

import re
from collections.abc import Iterable, Sequence

from crosshead.text.parallel.languages import column_language, looks_like_code, suffix_language

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
