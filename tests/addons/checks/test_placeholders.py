import pytest

from crosshead.addons.checks.placeholders import placeholders
from tests.addons.checks.made_up import pairs


@pytest.mark.parametrize(
    "text", ["TODO", "#N/A", "Siehe oben.", "This text is not translated yet."]
)
def test_one_text_opposite_many_different_texts_is_found(text: str) -> None:
    source, target = pairs(300)
    for row in range(0, 300, 30):
        target[row] = text
    found = placeholders(target, source, "target")
    assert [(each.row, each.kind) for each in found] == [
        (row, "placeholder") for row in range(0, 300, 30)
    ]
    assert {each.reason for each in found} == {"the target stands opposite 10 different texts"}
    assert placeholders(source, target, "source") == []


def test_a_text_with_few_or_similar_translations_is_not_found() -> None:
    source, target = pairs(300)
    source[:20] = ["Yes"] * 10 + ["I do not know"] * 10
    target[:10] = ["Ja", "Ja.", "Doch", "Ja!", *["Ja"] * 6]
    words = ["es", "das", "dies", "ja", "doch", "so", "jetzt", "noch", "auch", "selbst"]
    target[10:20] = [f"ich weiß {word} nicht" for word in words]
    assert placeholders(source, target, "source") == []
    assert placeholders(target, source, "target") == []


def test_short_terms_may_share_a_translation() -> None:
    source, target = pairs(300)
    terms = ["People", "Persons", "the people", "All persons", "Human beings", "Users", "Members"]
    assert placeholders([*target, *["人物"] * 7], [*source, *terms], "target") == []
    sentences = [f"{term} {source[row]}" for row, term in enumerate(terms)]
    assert len(placeholders([*target, *["人物"] * 7], [*source, *sentences], "target")) == 7


@pytest.mark.parametrize(
    "text", ["50394", "-", "... ?", "3,5 %", "http://x.de/abc", "(www.x.de) 5"]
)
def test_a_single_line_without_words_opposite_a_sentence_is_found(text: str) -> None:
    source, target = pairs(300)
    target[7] = text
    (found,) = placeholders(target, source, "target")
    words = len(source[7].split())
    assert (found.row, found.kind, found.score) == (7, "placeholder", 1 - 1 / words)
    assert found.reason == f"the target has no words, but the opposite side has {words}"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("5.12.", "am fünften Dezember 2026"),
        ("http://x.de/abc", "see http://x.de/a-b-c-d-e for more"),
        ("", "eine leere Zeile steht hier"),
        (",", "अंतर्राष्ट्रीयता"),
        ("x = 5", "hier ist x gleich fünf"),
    ],
)
def test_numbers_and_urls_may_stand_opposite_a_few_words(text: str, other: str) -> None:
    source, target = pairs(300)
    assert placeholders([*target, text], [*source, other], "target") == []


def test_a_text_about_numbers_has_lines_without_words() -> None:
    source, _ = pairs(300)
    assert placeholders([str(row) for row in range(300)], source, "target") == []
