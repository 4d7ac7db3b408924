import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.languages import Detector, matching
from crosshead.text.parallel.languages import language_name


@pytest.mark.parametrize(
    ("code", "known", "expected"),
    [
        ("EN", ["en", "de"], "en"),
        ("pb", ["pt-BR"], "pt-BR"),
        ("pt-br", ["pb"], "pb"),
        ("zh", ["zh-Hans"], "zh-Hans"),
        ("zt", ["zh-Hant", "zh"], "zh-Hant"),
        ("fr", ["en"], None),
        ("", ["en"], None),
        ("xx", ["XX"], "XX"),
        ("EN-US", ["de", "en"], "en"),
        ("en-gb", ["en", "en-GB"], "en-GB"),
        ("PT-BR", ["pt"], "pt"),
        ("PT", ["pt-BR"], "pt-BR"),
        ("PT-PT", ["pt-BR"], None),
        ("ZH", ["zh-Hans"], "zh-Hans"),
        ("ZH-HANT", ["zh"], None),
        ("ZH-HANS", ["zh"], "zh"),
        ("DE-CH", ["de"], "de"),
    ],
)
def test_codes_match_whatever_their_case_and_alias(
    code: str, known: list[str], expected: str | None
) -> None:
    assert matching(code, known) == expected


def test_names() -> None:
    assert [language_name(code) for code in ("en", "pt-BR", "yo", "bn", "zh-Hant", "xx")] == [
        "English", "Portuguese (Brazil)", "Yoruba", "Bengali", "Chinese (traditional)", "xx",
    ]  # fmt: skip


SENTENCES = {
    "en": "A man in a blue shirt is standing on a ladder.",
    "de": "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
    "fr": "Un homme en chemise bleue est debout sur une échelle.",
    "cs": "Muž v modré košili stojí na žebříku.",
}


def test_the_language_of_a_sentence_is_found_among_those_served() -> None:
    detector = Detector(SENTENCES)
    for code, text in SENTENCES.items():
        best, *others = detector.detect(text)
        assert best.language == code and 50 < best.confidence <= 100
        assert all(other.confidence <= best.confidence for other in others)


def test_detectors_know_their_own_languages_alone() -> None:
    few, many = Detector(["en", "de"]), Detector(SENTENCES)
    assert {each.language for each in few.detect(SENTENCES["cs"])} <= {"en", "de"}
    assert many.detect(SENTENCES["cs"])[0].language == "cs"


@pytest.mark.parametrize(
    ("code", "served", "unserved"),
    [("fr", ["en", "de"], "fr"), ("fr", ["en", "fr"], None), ("cs", ["en", "de"], "cs"),
     ("en", ["en", "de"], None)],
)  # fmt: skip
def test_a_text_that_is_clearly_in_no_served_language_is_told(
    code: str, served: list[str], unserved: str | None
) -> None:
    detector = Detector(served)
    assert detector.unserved(SENTENCES[code]) == unserved
    assert (detector.detect(SENTENCES[code])[0].confidence < 5) == (unserved is not None)
    for short in ("A", "Taxi", "Two men", "OK", "12", "Guten Tag"):
        assert detector.unserved(short) is None


@pytest.mark.parametrize("text", ["", "123 ?!", "🙂🙂"])
def test_a_text_without_letters_has_no_language(text: str) -> None:
    assert Detector(["en", "de"]).detect(text) == []


@pytest.mark.slow
def test_a_language_that_nobody_can_detect_is_left_out() -> None:
    assert Detector(["xx"]).detect("some text") == []
    assert Detector(["xx", "en"]).detect("some text")[0].language == "en"
