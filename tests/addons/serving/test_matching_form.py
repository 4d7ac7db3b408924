import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.matching_form import in_form_of, lettered
from crosshead.text.documents.document import rebuilt, texts_of
from crosshead.text.documents.formats import FORMATS


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("Two dogs", "Zwei Hunde.", "Zwei Hunde"),
        ("Two dogs!", "Zwei Hunde.", "Zwei Hunde!"),
        ("Two dogs.", "Zwei Hunde", "Zwei Hunde."),
        ("Two dogs.", "\u4e24\u53ea\u72d7\u3002", "\u4e24\u53ea\u72d7\u3002"),
        ("Two dogs:", "Zwei Hunde:", "Zwei Hunde:"),
        ("hello", "Hallo.", "hallo"),
        ("TWO DOGS", "Zwei Hunde", "ZWEI HUNDE"),
        ("I", "Ich", "Ich"),
        ("dogs in Berlin", "Hunde in Berlin", "hunde in Berlin"),
        ("Dogs in Berlin", "hunde in Berlin", "Hunde in Berlin"),
        ("  Dogs\n", "  hunde.\n", "  Hunde\n"),
        ("1 Dog", "ein Hund", "ein Hund"),
        ("Dogs", "", ""),
        ("Dogs", ".", "."),
    ],
)
def test_a_translation_gets_the_form_of_its_source(
    source: str, translation: str, expected: str
) -> None:
    assert in_form_of(source, translation) == expected


@pytest.mark.parametrize("text", ["12.5 %", "\U0001f642\U0001f642", "https://example.org/a?b=1"])
def test_what_has_no_words_stays(text: str) -> None:
    parts = lettered(FORMATS["text"])(f"{text}\nA dog.\n")
    assert texts_of(parts) == ["A dog."]
    assert rebuilt(parts, ["Ein Hund."]) == f"{text}\nEin Hund.\n"
    html = lettered(FORMATS["html"])("<p>1 &lt; 2</p>A dog.")
    assert rebuilt(html, ["Ein Hund."]) == "<p>1 &lt; 2</p>Ein Hund."
