"""Translation of lines and documents by any search. Nothing here needs PyTorch."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Self, overload

from crosshead.bundle.texts import TextParts
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.tasks.translation.engine import Search
from crosshead.tasks.translation.line_translator import (
    LineTranslator,
    PlannedLines,
    TranslatedText,
    Translation,
)
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import parser_of
from crosshead.text.glossary import Glossary
from crosshead.text.parallel.languages import tag_of, tagged_languages

__all__ = ["TextTranslator"]


class TextTranslator(LineTranslator):
    """Translates lines and documents.

    A call translates a text or a list of lines with the bundle's search settings. `translate` takes
    other settings and returns more about each line. `into` chooses the language of a model of
    several directions.

    Args:
        bundle: The settings and the tokenizers of a bundle that translates.
    """

    def __init__(self, bundle: TextParts) -> None:
        self.bundle = bundle
        languages = bundle.config.target_languages
        if languages:
            self.tag = tag_of(languages[0]) if len(languages) == 1 else None

    @abstractmethod
    def searcher(self, planned: PlannedLines, decode: DecodeConfig, scored: bool) -> Search:
        """Return the search for the hypotheses of the parts of lines.

        Args:
            planned: The parts.
            decode: The settings of the search.
            scored: False if nobody reads the log-probabilities of pieces.

        Returns:
            A search with the number of hypotheses and a callback `progress`, which gets the
            finished share. It finds the hypotheses of each part, best first.
        """

    def into(self, language: str) -> Self:
        """Return this translator for a target language of a model of several directions.

        Args:
            language: The language code.

        Raises:
            ConfigError: If the model does not translate to this language.
        """
        languages = self.bundle.config.target_languages
        if not languages and language == self.bundle.config.target_language:
            return self
        if language not in languages:
            own = self.bundle.config.target_language
            knows = " and ".join(languages or ([own] if own else []))
            raise ConfigError(
                f"this model does not translate to {language!r}; "
                + (
                    f"it translates to {knows}"
                    if knows
                    else "the languages of its one direction are not stated"
                )
                + (": choose one of them" if len(languages) > 1 else ": leave the language out")
            )
        return self._with(tag_of(language))

    @property
    def target_language(self) -> str | None:
        """The language that is translated to, if it is known."""
        chosen = tagged_languages([self.tag or ""])
        return chosen[0] if chosen else self.bundle.config.target_language

    def of_tagged_lines(self) -> Self:
        """Return this translator for lines that already begin with a tag, if they need one."""
        return self._with("")

    def _with(self, tag: str) -> Self:
        chosen = copy.copy(self)
        chosen.tag = tag
        return chosen

    @overload
    def __call__(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Sequence[str]) -> list[str]: ...

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Return the best translation of a text, line by line, or of each line in a list.

        The translation of a text has as many lines as the text. In a list, each item is one line
        with one line of translation, and a line break inside it is white space.

        Args:
            text: A text, or a list of lines.

        Raises:
            TypeError: If `text` is neither.
        """
        if isinstance(text, str):
            return "\n".join(self(text.split("\n")))
        return [translations[0].text for translations in self.translate(text, scored=False)]

    def translate(
        self,
        lines: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        glossary: Glossary | None = None,
        first: int = 0,
        scored: bool = True,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[Translation]]:
        """Translate lines.

        A blank line has one empty translation. A line longer than the longest training source is
        split at sentence ends, translated in parts and joined again. The model does not see white
        space around lines and parts. This white space is put around the translations, except for
        line breaks. A line with more than `LONGEST_STRETCH` characters without a space or the end
        of a clause is passed through: its only translation is the line itself. The translation of a
        line does not depend on other lines. Samples depend on the line's number.

        Args:
            lines: The lines.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of translations per line.
            glossary: Terms and the translations that they must have.
            first: The number of the first line, for samples.
            scored: False if nobody reads the log-probabilities of pieces. An engine that must
                compute them afterwards then gives NaN.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translations of each line, best first, for all lines in order. A list is shorter
            than `n_best` if the vocabulary offers no more.

        Raises:
            TypeError: If `lines` is not a list of texts, for example a single text.
            ConfigError: If the beam is smaller than `n_best`.
        """
        decode = decode or self.bundle.config.decode
        decode.check_count(n_best)
        lines = checked_lines(lines)
        planned = self.planned(lines, first, glossary)
        search = self.searcher(planned, decode, scored)
        hypotheses = search.find(n_best, progress=progress)
        return self.joined(lines, planned, hypotheses, n_best, decode, search.engine)

    def translate_document(
        self,
        text: str,
        format: str = "text",
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        glossary: Glossary | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> TranslatedText:
        """Translate a document sentence by sentence, and keep its markup, as the server does.

        Args:
            text: The document.
            format: `text` (lines and their sentences), `markdown`, `html` or `srt` (subtitles).
            decode: The settings of the search, by default the bundle's.
            n_best: The largest number of translations of the document. The n-th consists of the
                n-th translations of its sentences.
            glossary: As in `translate`.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translated document, with its sentences.

        Raises:
            ConfigError: If the format is unknown, or as in `translate`.
            DataError: If the document is broken.
        """
        document = Document.of(text, parser_of(format), self.source_language, self.target_language)
        found = self.translate(
            document.sentences, decode=decode, n_best=n_best, glossary=glossary, progress=progress
        )
        return TranslatedText.of(document, found, n_best)


def checked_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines as a list; raise `TypeError` for a single text or other values."""
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise TypeError(f"expected a list of lines of text, found {type(lines).__name__}")
    found = list(lines)
    for index, line in enumerate(found):
        if not isinstance(line, str):
            raise TypeError(f"expected lines of text, found {type(line).__name__} at index {index}")
    return found
