"""Language codes: LibreTranslate's aliases, and detection."""

import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

DETECTED = 2000
"""The number of characters by which a language is detected."""

_UNSERVED, _SERVED = 0.5, 0.02
"""The least share of a language that is not served, and the largest of all that are, by which a
text is not in any of these. No beginning of a Multi30k sentence, of one word or more, is refused
where its language is served."""

ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}
"""LibreTranslate's names of languages with a region or a script."""


class Detection(NamedTuple):
    """A detected language.

    Attributes:
        language: The language code.
        confidence: From 0 to 100.
    """

    language: str
    confidence: float


def matching(code: str, known: Iterable[str]) -> str | None:
    """Return the known code that a request means, or None.

    Case does not matter. `pb`, `zh` and `zt` are LibreTranslate's names of `pt-BR`, `zh-Hans` and
    `zh-Hant`.
    """
    by_lower = {each.lower(): each for each in known}
    wanted = code.lower()
    aliases = {**ALIASES, **{theirs: ours for ours, theirs in ALIASES.items()}}
    return by_lower.get(wanted) or by_lower.get(aliases.get(wanted, ""))


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


def has_letters(text: str) -> bool:
    """Return whether a text has a letter of any script."""
    return any(character.isalpha() for character in text)


@functools.cache
def _identifier() -> Any:
    """Return the model of all languages, which takes half a second to read."""
    from py3langid.langid import (  # type: ignore[import-untyped]
        MODEL_FILE,
        LanguageIdentifier,
    )

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
