"""The form of a translation that LibreTranslate gives it: final mark and case of the source."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from crosshead.addons.serving.languages import has_letters
from crosshead.text.documents.document import Parser, TextPart

_MARKS = {".": ".", "\u3002": ".", "!": "!", "\uff01": "!", "?": "?", "\uff1f": "?", "\u061f": "?",
          ",": ",", "\uff0c": ",", "\u060c": ",", ";": ";", "\uff1b": ";"}  # fmt: skip
"""Final marks, each with the Latin one that means the same."""


def in_form_of(source: str, translation: str) -> str:
    """Return a translation with the final mark and the case of its source.

    A mark at the end is added, replaced or removed. If all letters of the source are small, so are
    those of the translation; if all are capitals, likewise; otherwise the first letter counts.
    White space around the translation stays.
    """
    wanted, found = source.strip(), translation.strip()
    if not wanted or not found:
        return translation
    start = translation.index(found)
    formed = _in_case_of(wanted, _with_mark_of(wanted, found))
    return translation[:start] + formed + translation[start + len(found) :]


def lettered(parser: Parser) -> Parser:
    """Return a parser that leaves texts without letters, and single addresses, as they are."""

    def parts(text: str) -> list[TextPart]:
        return [
            part if not part.translated or _is_words(part.text)
            else replace(part, text=part.write(part.text), translated=False)
            for part in parser(text)
        ]  # fmt: skip

    return parts


def _is_words(text: str) -> bool:
    return has_letters(text) and not ("://" in text and len(text.split()) == 1)


def _with_mark_of(source: str, translation: str) -> str:
    wanted, found = source[-1], translation[-1]
    if _MARKS.get(wanted) == _MARKS.get(found):
        return translation
    bare = translation[:-1] if found in _MARKS else translation
    formed = bare.rstrip() + wanted if wanted in _MARKS else bare.rstrip()
    return formed if has_letters(formed) else translation


def _in_case_of(source: str, translation: str) -> str:
    if source.islower():
        return translation.lower()
    if source.isupper() and len(list(islice(filter(str.isalpha, source), 2))) > 1:  # "I" is a word
        return translation.upper()
    case: Callable[[str], str] | None = None
    if source[0].islower():
        case = str.lower
    elif source[0].isupper():
        case = str.upper
    return translation if case is None else case(translation[0]) + translation[1:]
