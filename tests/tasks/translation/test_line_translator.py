import math

import pytest

from crosshead.tasks.translation.line_translator import TranslatedText, Translation
from crosshead.tasks.translation.translator import Translator
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import FORMATS
from tests.tasks.translation.test_translator import english, german


def test_a_paragraph_is_split_at_its_sentences(translator: Translator) -> None:
    sentences = [["one", "two", "three"], ["four"], ["ten", "nine", "eight", "seven"]] * 3
    paragraph = "  ".join(english(words) for words in sentences)
    [[found]] = translator.translate([paragraph])
    assert found.was_split
    assert found.text == "  ".join(german(words) for words in sentences)
    assert found.pieces.count("</s>") == len(sentences)
    assert found.log_prob == pytest.approx(math.fsum(found.piece_log_probs))
    [[short]] = translator.translate(["One two. Three."])
    assert not short.was_split


def test_n_best_of_a_paragraph_are_in_order(translator: Translator) -> None:
    paragraph = " ".join(english(["one", "two", "three", "four"]) for _ in range(4))
    [found] = translator.translate([paragraph], n_best=3)
    assert len({each.text for each in found}) == 3
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("stretch", ["x" * 10_001, "x" * 10**6, "\0" * 10_001, "\u0301" * 10_001])
def test_a_line_that_is_no_text_is_passed_through(translator: Translator, stretch: str) -> None:
    line = f" One two. {stretch}\rThree.\r"
    found = translator.translate(["One.", line, "Two."], n_best=2)
    assert [best[0].was_passed_through for best in found] == [False, True, False]
    assert [best[0].text for best in found] == [
        "Eins.", f" One two. {stretch} Three.", "Zwei.",
    ]  # fmt: skip
    [passed] = found[1]
    assert (passed.pieces, passed.log_prob, passed.was_split) == ([], 0.0, False)
    assert translator("One.\n" + "x" * 20_000) == "Eins.\n" + "x" * 20_000


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
