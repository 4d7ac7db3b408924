import pytest

from crosshead.errors import DataError
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import parser_of


def test_sentences_of_all_texts_come_in_order_and_go_back_to_their_places() -> None:
    document = Document.of("<p>One dog. Two cats!</p> <b>Three.</b>", parser_of("html"))
    assert document.sentences == ["One dog.", "Two cats!", "Three."]
    assert document.with_translations(["1 <", "2", "3"]) == "<p>1 &lt; 2</p> <b>3</b>"


def test_a_text_may_stay_whole() -> None:
    document = Document.of(" One dog. Two cats! \n", parser_of("text"), whole=True)
    assert document.sentences == ["One dog. Two cats!"]
    assert document.with_translations(["x"]) == " x \n"


def test_sentences_are_joined_with_the_white_space_between_them() -> None:
    document = Document.of("One dog.  Two cats!\tThree. ", parser_of("text"))
    assert document.sentences == ["One dog.", "Two cats!", "Three."]
    joined = document.with_translations(["Ein Hund.", "Zwei Katzen!", "Drei."])
    assert joined == "Ein Hund.  Zwei Katzen!\tDrei. "


@pytest.mark.parametrize("text", ["", " \n", "<br>", "12\n"])
def test_a_document_with_few_words_is_a_document(text: str) -> None:
    document = Document.of(text, parser_of("html"))
    assert document.with_translations(document.sentences) == text


def test_a_page_says_its_new_language() -> None:
    page = '<html class="x" lang="en-GB"><body lang="en">One.</body></html>'
    for target, expected in (("de", page.replace("en-GB", "de")), (None, page)):
        document = Document.of(page, parser_of("html"), "en", target)
        assert document.with_translations(document.sentences) == expected


def test_a_broken_document_is_refused() -> None:
    with pytest.raises(DataError, match="no line has the times of a subtitle"):
        Document.of("hello\n", parser_of("srt"))
