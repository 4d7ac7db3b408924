"""A translated text or document, and the translations of its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

from crosshead.tasks.translation.line_translator import Translation
from crosshead.text.documents.document import Document


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text and its translations.

    Attributes:
        source: The sentence.
        translations: Its translations, best first, one or more.
    """

    source: str
    translations: list[Translation]


@dataclass(frozen=True)
class TranslatedText:
    """A text or document and its translations.

    Attributes:
        texts: The translations of the whole, best first, all different.
        sentences: The sentences that it was split into, in order.
    """

    texts: list[str]
    sentences: list[TranslatedSentence]

    @classmethod
    def of(
        cls, document: Document, found: Sequence[list[Translation]], count: int
    ) -> "TranslatedText":
        """Return a document with the translations of its sentences.

        Args:
            document: The document.
            found: The translations of each sentence, best first.
            count: The largest number of translations of the whole. The n-th joins the n-th of each
                sentence, or its last one.
        """
        wholes = [
            document.with_translations([each[min(rank, len(each) - 1)].text for each in found])
            for rank in range(count)
        ]
        pairs = zip(document.sentences, found, strict=True)
        sentences = [TranslatedSentence(source, translations) for source, translations in pairs]
        return cls(list(dict.fromkeys(wholes)), sentences)

    @property
    def text(self) -> str:
        """The best translation of the whole."""
        return self.texts[0]

    @property
    def score(self) -> float:
        """The sum of the scores of the best translations of all sentences."""
        return sum(each.translations[0].score for each in self.sentences)
