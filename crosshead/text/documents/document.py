"""A document: its parts, and the sentences of each text to translate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crosshead.text.documents.formats import Parser
from crosshead.text.documents.parts import SplitText, TextPart, rebuilt, texts_of


@dataclass(frozen=True)
class Document:
    """A document as markup that stays, and sentences that are translated.

    Attributes:
        parts: The parts.
        texts: The parts that are translated, split into sentences.
    """

    parts: list[TextPart]
    texts: list[SplitText]

    @classmethod
    def of(
        cls, text: str, parser: Parser, split: Callable[[str], SplitText] = SplitText.of
    ) -> "Document":
        """Return a document."""
        parts = parser(text)
        return cls(parts, [split(each) for each in texts_of(parts)])

    @property
    def sentences(self) -> list[str]:
        """The sentences in order, without white space around them."""
        return [each.strip() for text in self.texts for each in text.sentences]

    def with_translations(self, translations: Sequence[str]) -> str:
        """Return the document with its sentences replaced."""
        remaining = iter(translations)
        joined = [text.joined([next(remaining) for _ in text.sentences]) for text in self.texts]
        return rebuilt(self.parts, joined)
