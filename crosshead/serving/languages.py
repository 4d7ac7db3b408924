"""Language codes: their names, LibreTranslate's aliases, and detection."""

import copy
import functools
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

NAMES = {
    "ar": "Arabic", "az": "Azerbaijani", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan",
    "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian",
    "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese", "ka": "Georgian",
    "kk": "Kazakh", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "mk": "Macedonian",
    "ml": "Malayalam", "mr": "Marathi", "ms": "Malay", "mt": "Maltese", "nb": "Norwegian",
    "nl": "Dutch", "pa": "Punjabi", "pl": "Polish", "pt": "Portuguese",
    "pt-br": "Portuguese (Brazil)", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
    "zh-hans": "Chinese", "zh-hant": "Chinese (traditional)",
}  # fmt: skip
"""English names of languages by lower-case code."""

DETECTED = 2000
"""The number of characters by which a language is detected."""

_ALIASES = {"pb": "pt-br", "zh": "zh-hans", "zt": "zh-hant"}


class Detection(NamedTuple):
    """A detected language.

    Attributes:
        language: The language code.
        confidence: From 0 to 100.
    """

    language: str
    confidence: float


def name_of(code: str) -> str:
    """Return the English name of a language, or its code if the name is not known.

    Args:
        code: The language code.
    """
    return NAMES.get(code.lower(), code)


def matching(code: str, known: Iterable[str]) -> str | None:
    """Return the known code that a request means, or None.

    Case does not matter. `pb`, `zh` and `zt` are LibreTranslate's names of `pt-BR`, `zh-Hans` and
    `zh-Hant`.

    Args:
        code: The code of a request.
        known: The codes that are served.
    """
    by_lower = {each.lower(): each for each in known}
    wanted = code.lower()
    aliases = {**_ALIASES, **{theirs: ours for ours, theirs in _ALIASES.items()}}
    return by_lower.get(wanted) or by_lower.get(aliases.get(wanted, ""))


class Detector:
    """Detects the language of a text, among those that are served.

    Args:
        languages: The codes of the languages.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        self._identifier = copy.copy(_identifier())  # its languages are its own
        self._codes: dict[str, str] = {}
        for code in sorted(languages):
            short = code.lower().split("-")[0]
            if short in self._identifier.labels:
                self._codes.setdefault(short, code)
        if self._codes:
            self._identifier.set_languages(list(self._codes))
        self._lock = threading.Lock()

    def detect(self, text: str) -> list[Detection]:
        """Return the languages that the text may be in, best first; none without letters.

        Args:
            text: The text, of which the beginning is read.
        """
        text = text[:DETECTED]
        if not self._codes or not any(character.isalpha() for character in text):
            return []
        with self._lock:
            ranked = self._identifier.rank(text)
        found = [
            Detection(self._codes[code], round(100 * float(share), 1)) for code, share in ranked
        ]
        return [each for each in found if each.confidence >= 1] or found[:1]


@functools.cache
def _identifier() -> Any:
    """Return the model of all languages, which takes half a second to read."""
    from py3langid.langid import (  # type: ignore[import-untyped]
        MODEL_FILE,
        LanguageIdentifier,
    )

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
