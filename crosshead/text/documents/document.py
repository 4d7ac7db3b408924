"""A document: its parts, and the sentences of each text to translate."""

from collections.abc import Sequence
from dataclasses import dataclass

from crosshead.text.documents.formats import Parser
from crosshead.text.documents.parts import TextPart, rebuilt, texts_of
from crosshead.text.sentences import join_parts, split_sentences


@dataclass(frozen=True)
class Document:
    """A document as markup that stays, and sentences that are translated.

    Attributes:
        parts: The parts.
        texts: The sentences of each part that is translated; joined, they are its text.
    """

    parts: list[TextPart]
    texts: list[list[str]]

    @classmethod
    def of(
        cls, text: str, parser: Parser, language: str | None = None, *, whole: bool = False
    ) -> "Document":
        """Return a document in a language. If `whole`, each of its texts is one sentence."""
        parts = parser(text)
        texts = texts_of(parts)
        return cls(parts, [[each] if whole else split_sentences(each, language) for each in texts])

    @property
    def sentences(self) -> list[str]:
        """The sentences in order, without white space around them."""
        return [each.strip() for text in self.texts for each in text]

    def with_translations(self, translations: Sequence[str]) -> str:
        """Return the document with its sentences replaced."""
        found = (each.strip() for each in translations)
        joined = [join_parts(text, [next(found) for _ in text]) for text in self.texts]
        return rebuilt(self.parts, joined)
