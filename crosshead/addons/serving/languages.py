"""Language codes: LibreTranslate's aliases, and detection."""

import functools
import re
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

from langcodes import Language
from langcodes.tag_parser import LanguageTagError
from py3langid.langid import (  # type: ignore[import-untyped]
    MODEL_FILE,
    LanguageIdentifier,
)

from crosshead.addons.serving.reading import DETECTED, has_letters

_UNSERVED, _SERVED = 0.5, 0.02
"""The least share of a language that is not served, and the largest of all that are, by which a
text is not in any of these. No beginning of a Multi30k sentence, of one word or more, is refused
where its language is served."""

_ALIASES = {"pb": "pt-BR", "zt": "zh-Hant"}
"""LibreTranslate's names of languages with a region or a script."""


class Detection(NamedTuple):
    """A detected language.

    Attributes:
        language: The language code.
        confidence: From 0 to 100.
    """

    language: str
    confidence: float


def canonical(code: str) -> str:
    """Return a language code in its usual case, such as `en`, `pt-BR` or `zh-Hans`.

    Requests may write a code in any case, so two spellings of one code must not be two languages.
    """
    language = _language(code)
    return code if language is None else str(language)


def familiarity(code: str) -> int:
    """Return 0 for an unknown code, 2 for a language, 1 for one in another region or script."""
    language = _language(code)
    if language is None or not language.is_valid():
        return 0
    usual = Language.make(language.language)
    return 2 if language.maximize() == usual.maximize() else 1


def matching(code: str, known: Iterable[str]) -> str | None:
    """Return the known code that a request means, or None.

    `pt` and `pt-BR` mean the same, as Unicode's likely subtags say, and `en-GB` means `en` if no
    code is nearer.
    """
    wanted = _ALIASES.get(code.lower(), code).lower()
    exact, likely = _spellings(tuple(known))
    general = re.sub("-[a-z]{2}$", "", wanted)
    return exact.get(wanted) or likely.get(wanted) or exact.get(general)


@functools.lru_cache
def _spellings(known: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Return codes by their own spellings in small letters, and by others that mean the same.

    langcodes keeps every code that it reads, so that it reads none of a request.
    """
    exact = {_ALIASES.get(each.lower(), each).lower(): each for each in known}
    likely = dict[str, str]()
    for spelling, each in exact.items():
        if (language := _language(spelling)) is None:
            continue
        full = language.maximize()
        for script, territory in product((None, full.script), (None, full.territory)):
            other = Language.make(full.language, script=script, territory=territory)
            if other.maximize() == full:
                likely[str(other).lower()] = each
    return exact, likely


def _language(code: str) -> Language | None:
    try:
        return Language.get(code, normalize=False)
    except LanguageTagError:
        return None


class Detector:
    """Detects the language of a text, among those that are served.

    Args:
        languages: The codes of the languages.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        self._codes: dict[str, str] = {}
        for code in sorted(languages):
            short = code.lower().split("-")[0]
            if short in _identifier().labels:
                self._codes.setdefault(short, code)

    def detect(self, text: str) -> list[Detection]:
        """Return the languages that the text may be in, best first; none without letters.

        The confidences are shares among the languages of the detector. If the text is clearly in
        another language, they are shares among all languages, and low.

        Args:
            text: The text, of which the beginning is read.
        """
        text = text[:DETECTED]
        if not self._codes or not has_letters(text):
            return []
        ranked = _identifier().rank(text)
        served = [(self._codes[code], share) for code, share in ranked if code in self._codes]
        whole = 1.0 if self._unserved(ranked) else sum(share for _, share in served)
        found = [Detection(code, round(100 * share / whole, 1)) for code, share in served]
        return [each for each in found if each.confidence >= 1] or found[:1]

    def unserved(self, text: str) -> str | None:
        """Return the language that a text is clearly in, if it is none of the detector's.

        Args:
            text: The text, of which the beginning is read.
        """
        text = text[:DETECTED]
        if not self._codes or not has_letters(text):
            return None
        return self._unserved(_identifier().rank(text))

    def _unserved(self, ranked: list[tuple[str, float]]) -> str | None:
        (best, share), *_ = ranked
        served = sum(each for code, each in ranked if code in self._codes)
        return best if share >= _UNSERVED and served < _SERVED else None


@functools.cache
def _identifier() -> Any:
    """Return the model of all languages, which takes half a second to read."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
