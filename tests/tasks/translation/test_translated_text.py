"""A translated document from the translations of its sentences."""

import pytest

from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.translated_text import TranslatedText
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import FORMATS


def found(*texts: str) -> list[Translation]:
    return [Translation(text, -1.0, -0.5 - rank, [], []) for rank, text in enumerate(texts)]


def test_the_n_th_translation_joins_the_n_th_of_each_sentence_or_its_last() -> None:
    document = Document.of("<i>One.</i> Two.", FORMATS["html"])
    text = TranslatedText.of(document, [found("a", "b", "c"), found("x", "y")], 3)
    assert text.texts == ["<i>a</i> x", "<i>b</i> y", "<i>c</i> y"] and text.text == "<i>a</i> x"
    assert [each.source for each in text.sentences] == ["One.", "Two."]
    assert text.score == pytest.approx(-1.0)


def test_translations_are_different_and_one_is_enough() -> None:
    document = Document.of("One.", FORMATS["text"])
    assert TranslatedText.of(document, [found("a", "a")], 2).texts == ["a"]
    nothing = TranslatedText.of(Document.of("\n", FORMATS["text"]), [], 2)
    assert (nothing.texts, nothing.sentences, nothing.score) == (["\n"], [], 0)
