"""LibreTranslate's interface over real HTTP: values, texts, codes, and its own client."""

import json
import shutil
import urllib.parse
from pathlib import Path, PurePath

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from libretranslatepy import LibreTranslateAPI

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.libretranslate import in_form_of
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.stores import Suggestions
from crosshead.tasks.translation.translator import Translator
from crosshead.text.documents.formats import ENDS, FORMATS
from tests.addons.serving.loopback import Client, running

PAIR = {"source": "en", "target": "de"}
TEXTS = ["A dog runs.", "Two men are walking down a street.", "A girl."]


def form(values: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return urllib.parse.urlencode(values).encode(), kind


def upload(name: str, data: bytes, **values: str) -> tuple[bytes, dict[str, str]]:
    """A form with a file, as a browser sends it."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in
             values.items()]  # fmt: skip
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = "".join(parts).encode() + head.encode() + data + b"\r\n--x--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=x"}


def test_json_form_and_query_give_what_the_library_gives(
    client: Client, translator: Translator
) -> None:
    values = PAIR | {"q": TEXTS[1]}
    expected = {"translatedText": translator(TEXTS[1])}
    assert client.post("/translate", values).json == expected
    assert client.ask("/translate", *form(values)).json == expected
    assert client.ask(f"/translate?{urllib.parse.urlencode(values)}", b"", {}).json == expected


def test_a_list_gives_a_list(client: Client, translator: Translator) -> None:
    found = client.post("/translate", PAIR | {"q": TEXTS}).json
    expected = [in_form_of(text, translator(text)) for text in TEXTS]
    assert found == {"translatedText": expected}


def test_alternatives_and_detection(client: Client) -> None:
    values = {"q": TEXTS[:2], "source": "auto", "target": "de", "alternatives": 2}
    found = client.post("/translate", values).json
    assert [each["language"] for each in found["detectedLanguage"]] == ["en", "en"]
    assert [len(each) for each in found["alternatives"]] == [2, 2]
    for best, others in zip(found["translatedText"], found["alternatives"], strict=True):
        assert len({best, *others}) == 3
    one = client.post("/translate", values | {"q": TEXTS[0], "format": "html"}).json
    assert one["alternatives"] == [] and one["detectedLanguage"]["confidence"] > 50


def test_lines_and_blank_lines_stay(client: Client, translator: Translator) -> None:
    text = f"{TEXTS[0]}\n\n  {TEXTS[2]}\n"
    found = client.post("/translate", PAIR | {"q": text}).json["translatedText"]
    assert found == f"{translator(TEXTS[0])}\n\n  {translator(TEXTS[2])}\n"


def test_html_keeps_its_tags(client: Client, translator: Translator) -> None:
    text = "<p class='x'>A dog runs. <b>A girl.</b><br></p>"
    found = client.post("/translate", PAIR | {"q": text, "format": "html"}).json
    dog, girl = (translator(each) for each in ("A dog runs.", "A girl."))
    assert found["translatedText"] == f"<p class='x'>{dog} <b>{girl}</b><br></p>"


def test_a_third_language_is_the_way(client: Client, translator: Translator) -> None:
    found = client.post("/translate", {"q": TEXTS[0], "source": "en", "target": "fr"}).json
    expected = translator(translator(TEXTS[0]))
    assert found["translatedText"] == in_form_of(TEXTS[0], expected)


def test_a_language_to_itself_and_codes_in_capitals(client: Client) -> None:
    found = client.post("/translate", {"q": "A < B.", "source": "EN", "target": "en"}).json
    assert found == {"translatedText": "A < B."}


@pytest.mark.parametrize("kind", FORMATS)
def test_texts_without_words_stay(client: Client, kind: str) -> None:
    texts = ["\U0001f642\U0001f642", "12.5 %", "", "https://example.org/a?b=1"]
    if kind == "srt":
        texts = ["1\n00:00:01,000 --> 00:00:02,000\n12\n"]
    asked = {"q": texts, "source": "auto", "target": "de", "format": kind}
    found = client.post("/translate", asked).json
    assert found["translatedText"] == texts
    if kind != "srt":
        emoji = client.post("/translate", asked | {"q": texts[0]}).json
        nothing = {"confidence": 0.0, "language": "en"}
        assert emoji == {"translatedText": texts[0], "detectedLanguage": nothing}


@pytest.mark.parametrize("text", ["Two dogs", "two dogs", "A DOG!", "Two men?"])
def test_a_translation_has_the_form_of_its_source(client: Client, text: str) -> None:
    values = PAIR | {"q": text, "alternatives": 3}
    asked = PAIR | {"text": text, "alternatives": 3}
    found = client.post("/translate", values).json
    [v1] = client.post("/v1/translate", asked).json["translations"]
    own = [v1["text"], *v1["alternatives"]]
    expected = list(dict.fromkeys(in_form_of(text, each) for each in own))
    assert [found["translatedText"], *found["alternatives"]] == expected != own


def test_text_without_letters_is_not_detected(client: Client) -> None:
    assert client.post("/detect", {"q": "12 !?"}).json == [{"confidence": 0.0, "language": "en"}]
    found = client.post("/detect", {"q": "Zwei Hunde laufen über die Straße."}).json
    assert found[0]["language"] == "de" and 50 < found[0]["confidence"] <= 100


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": "a"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        (PAIR | {"q": "a", "target": "zz"}, "zz is not supported"),
        (PAIR | {"q": "a", "format": "foo"}, "foo format is not supported"),
        (PAIR | {"q": "a", "alternatives": "many"},
         "Invalid request: alternatives parameter is not a number"),
        (PAIR | {"q": "a", "alternatives": 10},
         "Invalid request: alternatives parameter should be less than or equal to 9"),
        (PAIR | {"q": "a", "alternatives": -1},
         "Invalid request: alternatives parameter should be greater than or equal to 0"),
        (PAIR | {"q": 5}, "Invalid request: q parameter should be a valid string"),
        (PAIR | {"q": [None]}, "Invalid request: q parameter should be a valid string"),
        ({"q": "a", "source": "fr", "target": "en"},
         "English (en) is not available as a target language from French (fr)"),
    ],
)  # fmt: skip
def test_a_wrong_request_gets_libretranslates_text(
    client: Client, values: dict[str, object], message: str
) -> None:
    found = client.post("/translate", values)
    assert (found.status, found.json) == (400, {"error": message})


@pytest.mark.parametrize("value", [-1, 10**18, 1.5, [], {}, "8a", "\u0663"])
def test_a_wrong_number_is_refused(client: Client, value: object) -> None:
    found = client.post("/translate", PAIR | {"q": "a", "alternatives": value})
    assert found.status == 400 and "alternatives" in found.json["error"]


@pytest.mark.parametrize("body", [b"[1]", b"{", b"", b"\xff", b"[" * 100_000, b"null"])
def test_a_body_that_is_no_object_is_refused(client: Client, body: bytes) -> None:
    found = client.ask("/translate", body, {"Content-Type": "application/json"})
    assert (found.status, found.json) == (400, {"error": "Invalid JSON format"})


def test_languages_settings_and_health(client: Client) -> None:
    languages = {each["code"]: each for each in client.get("/languages").json}
    assert languages["en"] == {"code": "en", "name": "English", "targets": ["de", "en", "fr"]}
    assert languages["fr"]["targets"] == ["fr"]
    settings = client.get("/frontend/settings").json
    assert settings["charLimit"] == -1 and settings["language"]["source"]["code"] == "en"
    assert set(settings) == {
        "charLimit", "frontendTimeout", "apiKeys", "keyRequired", "suggestions",
        "filesTranslation", "supportedFilesFormat", "language",
    }  # fmt: skip
    assert client.get("/health").json == {"status": "ok"}
    assert client.get("/translate").status == 405
    assert client.get("/nothing").status == 404


def test_a_file_is_translated_and_downloaded_once_named(
    client: Client, translator: Translator
) -> None:
    body, headers = upload("notes.md", b"# A dog runs.\n\n`code`\n", **PAIR)
    url = client.ask("/translate_file", body, headers).json["translatedFileUrl"]
    assert url.startswith(client.address)
    found = client.get(url.removeprefix(client.address))
    assert found.body.decode() == f"# {translator('A dog runs.')}\n\n`code`\n"
    assert "notes_de.md" in found.headers["Content-Disposition"]


@pytest.mark.parametrize("name", ["a..b.txt", "c\\d.txt", "...txt", ".a.txt"])
def test_a_file_of_an_odd_name_can_be_downloaded(client: Client, name: str) -> None:
    body, headers = upload(name, b"1" * 100_000, **PAIR)
    url = client.ask("/translate_file", body, headers).json["translatedFileUrl"]
    found = client.get(url.removeprefix(client.address))
    assert (found.status, found.body) == (200, b"1" * 100_000)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (
            "a.pdf",
            b"x",
            "Invalid request: file format not supported; use .txt, .md, .markdown, .html, .htm, "
            ".srt",
        ),
        ("", b"x", "Invalid request: empty file"),
        ("a.txt", b"\xff\xfe", "Invalid request: the file is not in UTF-8"),
        ("a.srt", b"no times", "Invalid request: no line has the times of a subtitle"),
    ],
)
def test_a_wrong_file_is_refused(client: Client, name: str, data: bytes, message: str) -> None:
    found = client.ask("/translate_file", *upload(name, data, **PAIR))
    assert found.status == 400 and found.json["error"].startswith(message)


def test_what_is_no_text_or_no_file_is_refused(client: Client) -> None:
    found = client.post("/detect", {"q": ["a"]})
    assert found.status == 400 and " q parameter " in found.json["error"]
    found = client.ask("/translate_file", *form(PAIR | {"file": "a.txt"}))
    assert found.status == 400
    assert found.json["error"].startswith("Invalid request: missing file parameter")


@pytest.mark.parametrize("name", ["../etc/passwd", "..%2f..%2fetc", "a/b", "a%5cb", "a"])
def test_a_file_that_is_not_there_is_not_found(client: Client, name: str) -> None:
    assert client.get(f"/download_file/{name}").status == 404


def test_suggestions_are_kept(directory: Directory, tmp_path: Path) -> None:
    path = tmp_path / "suggestions.jsonl"
    with running(directory, suggestions=Suggestions(path)) as client:
        values = PAIR | {"q": "A dog.", "s": "Ein Hund."}
        assert client.post("/suggest", values).json == {"success": True}
        missing = client.post("/suggest", PAIR | {"q": "A dog."})
    assert missing.json == {"error": "Invalid request: missing s parameter"}
    [line] = path.read_text("utf-8").splitlines()
    assert json.loads(line) == values


def test_a_suggestion_that_cannot_be_written_may_come_again(
    directory: Directory, tmp_path: Path
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    with running(directory, suggestions=Suggestions(folder / "s.jsonl")) as client:
        shutil.rmtree(folder)
        values = PAIR | {"q": "A dog.", "s": "Ein Hund."}
        found = client.post("/suggest", values)
        message = "the suggestion cannot be stored now; try again later"
        assert (found.status, found.json) == (503, {"error": message})
        assert int(found.headers["Retry-After"]) > 0
        folder.mkdir()
        assert client.post("/suggest", values).json == {"success": True}


def test_suggestions_may_be_disabled(client: Client) -> None:
    found = client.post("/suggest", {})
    message = "Suggestions are disabled on this server."
    assert (found.status, found.json) == (403, {"error": message})


GERMAN = "Zwei Hunde laufen schnell über die Straße. Das Mädchen sitzt neben ihnen."
ENGLISH = "two-small-dogs are running over the street and the other people are watching them"
DOCUMENTS = {
    "page.html": (
        "".join(f"<div class='{ENGLISH}' title='{n}'><br></div>" for n in range(30))
        + f"<p>{GERMAN}</p>"
    ),
    "film.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{GERMAN}\n",
    "notes.md": f"```\n{ENGLISH * 30}\n```\n\n{GERMAN}\n",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_language_of_a_document_is_that_of_its_sentences(client: Client, name: str) -> None:
    document, form = DOCUMENTS[name], ENDS[PurePath(name).suffix]
    values = {"q": document, "source": "auto", "target": "fr", "format": form}
    found = client.post("/translate", values).json
    assert found["detectedLanguage"]["language"] == "de"
    asked = {"text": document, "target": "fr", "format": form}
    assert client.post("/v1/translate", asked).json["detected_language"]["language"] == "de"
    sent = {"source": "auto", "target": "fr"}
    url = client.ask("/translate_file", *upload(name, document.encode(), **sent)).json
    file = client.get(url["translatedFileUrl"].removeprefix(client.address))
    assert file.body.decode() == found["translatedText"]
    if form == "html":
        html = {"text": [document], "target_lang": "FR", "tag_handling": "html"}
        [deepl] = client.post("/v2/translate", html).json["translations"]
        assert deepl["detected_source_language"] == "DE"


def test_a_broken_document_is_refused_when_its_language_is_detected(client: Client) -> None:
    found = client.ask("/translate_file", *upload("a.srt", b"no times", source="auto", target="de"))
    assert found.status == 400 and "no line has the times" in found.json["error"]


def test_limits_of_characters_and_texts(directory: Directory) -> None:
    with running(directory, Settings(characters=5, texts=2)) as client:
        long = client.post("/translate", PAIR | {"q": "123456"})
        many = client.post("/translate", PAIR | {"q": ["a", "b", "c"]})
    assert long.json == {"error": "Invalid request: request (6) exceeds text limit (5)"}
    assert many.json == {"error": "Invalid request: request (3) exceeds text limit (2)"}


def test_libretranslates_own_client(client: Client, translator: Translator) -> None:
    api = LibreTranslateAPI(client.address)
    assert api.translate(TEXTS[0], "en", "de") == translator(TEXTS[0])
    assert api.detect("A small dog runs over the grass.")[0]["language"] == "en"
    assert [each["code"] for each in api.languages()] == ["de", "en", "fr"]


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
