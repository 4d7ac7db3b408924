"""A document: its parts (markup that stays, and texts to translate), and their sentences.

In a text, characters of `crosshead.text.marks` stand for the markup inside it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from crosshead.text.marks import split_marked, with_markup, with_tags_of
from crosshead.text.sentences import join_parts, split_sentences


def unchanged(text: str) -> str:
    """Return the text."""
    return text


@dataclass(frozen=True)
class TextPart:
    """A part of a document.

    Attributes:
        text: The source: markup as it stands in the document, or a text as a person reads it.
        translated: True if the part is a text to translate.
        write: Function that turns a text into the document's notation, for example by escaping.
        marks: The markup of each mark in the text. It may have texts to translate too.
        is_language: True if the part is the code of the document's language.
    """

    text: str
    translated: bool = False
    write: Callable[[str], str] = unchanged
    marks: Mapping[str, Sequence["TextPart"]] = field(default_factory=dict)
    is_language: bool = False

    def kept(self) -> "TextPart":
        """Return the part as markup that stays."""
        return replace(self, text=self.write(self.text), translated=False)


Parser = Callable[[str], list[TextPart]]
"""A function of a document that returns its parts."""


def texts_of(parts: Sequence[TextPart]) -> list[str]:
    """Return the texts to translate: those in the markup of a text, then the text itself."""
    found: list[str] = []
    for part in parts:
        for markup in part.marks.values():
            found += texts_of(markup)
        if part.translated:
            found.append(part.text)
    return found


def rebuilt(
    parts: Sequence[TextPart], translations: Iterable[str], language: str | None = None
) -> str:
    """Return the document with its texts replaced by translations, in the order of `texts_of`."""
    remaining, found = iter(translations), []
    for part in parts:
        markup = {mark: rebuilt(each, remaining) for mark, each in part.marks.items()}
        text = part.write(next(remaining)) if part.translated else part.text
        text = language if part.is_language and language else text
        found.append(with_markup(text, markup))
    return "".join(found)


@dataclass(frozen=True)
class Document:
    """A document as markup that stays, and sentences that are translated.

    Attributes:
        parts: The parts.
        texts: The sentences of each part that is translated; joined, they are its text.
        target: The language of the translations, if it is known.
    """

    parts: list[TextPart]
    texts: list[list[str]]
    target: str | None = None

    @classmethod
    def of(
        cls,
        text: str,
        parser: Parser,
        language: str | None = None,
        target: str | None = None,
        *,
        whole: bool = False,
    ) -> "Document":
        """Return a document in a language. If `whole`, each of its texts is one sentence.

        A text without letters, such as a number, stays as it is.
        """
        parts = [
            part if not part.translated or any(map(str.isalpha, part.text)) else part.kept()
            for part in parser(text)
        ]

        def sentences(each: str) -> list[str]:
            return [each] if whole else split_sentences(each, language)

        return cls(parts, [split_marked(each, sentences) for each in texts_of(parts)], target)

    @property
    def sentences(self) -> list[str]:
        """The sentences in order, without white space around them."""
        return [each.strip() for text in self.texts for each in text]

    def with_translations(self, translations: Sequence[str]) -> str:
        """Return the document with its sentences replaced."""
        pairs = zip(self.sentences, translations, strict=True)
        found = (with_tags_of(sentence, each.strip()) for sentence, each in pairs)
        joined = (join_parts(text, [next(found) for _ in text]) for text in self.texts)
        return rebuilt(self.parts, joined, self.target)
