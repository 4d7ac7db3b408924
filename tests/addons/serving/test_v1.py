"""`/v1/translate` over real HTTP, and its description."""

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import Keys
from crosshead.addons.serving.requests import Settings
from crosshead.tasks.translation.translator import Translator
from crosshead.text.documents.formats import FORMATS
from tests.addons.serving.loopback import Client, running

PAIR = {"source": "en", "target": "de"}


def test_it_tells_what_the_library_tells(
    client: Client, translator: Translator, engine_name: str
) -> None:
    text = "A dog runs. Two men sit."
    found = client.post("/v1/translate", PAIR | {"text": text, "alternatives": 2})
    [answer] = found.json["translations"]
    expected = translator.translate(["A dog runs.", "Two men sit."], n_best=3)
    assert answer["text"] == " ".join(each[0].text for each in expected)
    assert len(answer["alternatives"]) == 2
    assert [each["source"] for each in answer["sentences"]] == ["A dog runs.", "Two men sit."]
    # The log-probabilities of CTranslate2 leave out the tokens that search never produces.
    close, closer = (1e-4, 1e-5) if engine_name == "crosshead" else (1e-2, 2e-3)
    for sentence, translations in zip(answer["sentences"], expected, strict=True):
        for mine, other in zip(sentence["translations"], translations, strict=True):
            assert mine["text"] == other.text and mine["pieces"] == other.pieces
            assert mine["score"] == pytest.approx(other.score, abs=closer)
            assert mine["piece_log_probs"] == pytest.approx(other.piece_log_probs, abs=close)
    assert answer["score"] == pytest.approx(sum(each[0].score for each in expected), abs=close)


DOCUMENTS = {
    "text": "A dog runs. Two men sit.\n\nA girl.\n",
    "markdown": "# A dog\n\n- `code` Two men sit.\n",
    "html": "<p>A dog runs. <b>A girl.</b></p>",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nA dog runs.\nTwo men sit.\n",
}


def test_a_document_of_every_format_is_that_of_the_library(
    client: Client, translator: Translator
) -> None:
    assert DOCUMENTS.keys() == FORMATS.keys()
    for name, text in DOCUMENTS.items():
        values = PAIR | {"text": text, "format": name, "alternatives": 1}
        [answer] = client.post("/v1/translate", values).json["translations"]
        expected = translator.translate_document(text, name, n_best=2)
        assert [answer["text"], *answer["alternatives"]] == expected.texts
        assert [each["source"] for each in answer["sentences"]] == [
            each.source for each in expected.sentences
        ]


def test_it_names_the_languages_on_the_way(client: Client) -> None:
    values = {"text": "A small dog runs over the grass.", "target": "fr"}
    found = client.post("/v1/translate", values).json
    assert [each["code"] for each in found["translations"][0]["languages"]] == ["en", "de", "fr"]
    assert found["detected_language"]["language"] == "en"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"target": "de"}, "text"),
        ({"text": 1, "target": "de"}, "text"),
        (PAIR | {"text": "a", "alternatives": -1}, "alternatives"),
        (PAIR | {"text": "a", "alternatives": "8"}, "alternatives"),
        (PAIR | {"text": "a", "alternatives": 10**18}, "alternatives"),
        (PAIR | {"text": "a", "alternatives": None}, "alternatives"),
        (PAIR | {"text": "a", "alternatives": True}, "alternatives"),
        (PAIR | {"text": "a", "beam": 4}, "beam"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    client: Client, values: dict[str, object], name: str
) -> None:
    found = client.post("/v1/translate", values)
    assert found.status == 422 and found.json["error"].startswith(f"{name}: ")


@pytest.mark.parametrize("text", ["", "12", [], ["", "12"]])
def test_texts_without_letters_are_nothing_to_detect(client: Client, text: str | list[str]) -> None:
    found = client.post("/v1/translate", {"text": text, "target": "de"})
    texts = [text] if isinstance(text, str) else text
    assert found.status == 200 and "detected_language" not in found.json
    assert [each["text"] for each in found.json["translations"]] == texts


def test_limits(directory: Directory) -> None:
    with running(directory, Settings(characters=5, texts=2)) as client:
        long = client.post("/v1/translate", PAIR | {"text": "123456"})
        many = client.post("/v1/translate", PAIR | {"text": ["a", "b", "c"]})
    assert (long.status, many.status) == (413, 422)


def test_the_limits_are_open_to_everybody(directory: Directory) -> None:
    settings = Settings(characters=5, texts=2, body=1000)
    with running(directory, settings, keys=Keys({})) as client:
        found = client.get("/v1/limits").json
    assert found == {"characters": 5, "texts": 2, "alternatives": 9, "body_bytes": 1000}


def test_many_wrong_values_are_refused_at_once(client: Client) -> None:
    for values in (
        {"text": [1] * 50_000},
        {"text": "a"} | {f"x{each}": 1 for each in range(5_000)},
    ):
        found = client.post("/v1/translate", {"target": "de"} | values)
        assert found.status in (400, 422) and len(found.body) < 2_000
