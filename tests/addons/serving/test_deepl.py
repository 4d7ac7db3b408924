"""DeepL's interface over real HTTP: values, codes, languages, and its own client."""

import hashlib
import json
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.errors import Failed
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.worker import Sentence
from crosshead.tasks.translation.translator import Translator
from tests.addons.serving.loopback import Answer, Client, running

TEXTS = ["A dog runs.", "Two men are walking down a street."]
GERMAN = "Zwei Hunde laufen schnell über die Straße."


def ask(client: Client, **values: object) -> Answer:
    return client.post("/v2/translate", {"text": TEXTS[:1], "target_lang": "DE"} | values)


def only(client: Client, **values: object) -> str:
    [found] = ask(client, **values).json["translations"]
    return str(found["text"])


def test_json_gives_what_the_library_gives(client: Client, translator: Translator) -> None:
    found = ask(client, text=TEXTS, source_lang="EN").json
    assert found == {
        "translations": [
            {
                "detected_source_language": "EN",
                "text": translator(text),
                "billed_characters": len(text),
            }
            for text in TEXTS
        ]
    }


def test_a_form_repeats_its_texts(client: Client, translator: Translator) -> None:
    fields = [*(("text", text) for text in TEXTS), ("target_lang", "de"), ("source_lang", "en")]
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    found = client.ask("/v2/translate", urllib.parse.urlencode(fields).encode(), kind).json
    assert [each["text"] for each in found["translations"]] == translator(TEXTS)


def test_each_text_is_detected_by_itself(client: Client) -> None:
    texts = [GERMAN, "Two dogs are running over the street.", "12"]
    found = ask(client, text=texts, target_lang="FR").json["translations"]
    assert [each["detected_source_language"] for each in found] == ["DE", "EN", "FR"]
    for number, source in enumerate(("de", "en")):
        alone = {"text": texts[number], "source": source, "target": "fr"}
        [own] = client.post("/v1/translate", alone).json["translations"]
        assert found[number]["text"] == own["text"]


def test_a_request_in_two_languages_is_refused_and_counted_as_a_whole(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [GERMAN, "Two dogs are running over the street."]
    with running(directory) as client:
        submit = client.scheduler.submit
        submitted: list[str] = []

        def noted(name: str, sentences: Sequence[Sentence], *rest: Any) -> None:
            submitted.append(name)
            # After the first language, the queue is full; later, no batch can be computed.
            client.scheduler.limits.waiting = 0 if len(submitted) == 1 else 10
            if len(submitted) == 5:
                raise Failed("broken")
            submit(name, sentences, *rest)

        monkeypatch.setattr(client.scheduler, "submit", noted)
        found = ask(client, text=texts, target_lang="FR")
        assert found.status == 200 and len(found.json["translations"]) == 2
        count = client.get("/v2/usage").json["character_count"]
        assert count == sum(map(len, texts)) and len(submitted) == 3
        assert ask(client, text=texts, target_lang="FR").status == 503
        assert client.get("/v2/usage").json["character_count"] == count
        assert f"characters_total {count}.0" in client.get("/metrics").body.decode()
        client.scheduler.limits.waiting = 0
        submitted.clear()
        assert ask(client, text=texts, target_lang="FR").status == 503 and not submitted


def test_a_detected_language_without_a_way_to_the_target_is_refused(client: Client) -> None:
    found = ask(client, text=["Deux chiens courent très vite dans la rue."], target_lang="DE")
    assert found.status == 400 and "French (fr)" in found.json["message"]


def test_line_breaks_split_unless_the_request_says_otherwise(
    client: Client, translator: Translator
) -> None:
    text = "A dog\nruns. A girl."
    one = translator("A dog runs.")
    assert only(client, text=[text]).split("\n")[0] == translator("A dog")
    flowing = only(client, text=[text], split_sentences="nonewlines")
    assert flowing == f"{one} {translator('A girl.')}"
    whole = only(client, text=[f"  {text}\n"], split_sentences="0")
    assert whole == f"  {translator('A dog runs. A girl.')}\n"


def test_html_keeps_its_tags(client: Client, translator: Translator) -> None:
    text = "<p>A dog &amp; a cat. <b translate='no'>stays</b></p>"
    found = only(client, text=[text], tag_handling="html")
    assert found.startswith("<p>") and found.endswith(" <b translate='no'>stays</b></p>")
    both = "<i>A dog. A girl.</i>"
    assert only(client, text=[both], tag_handling="html", split_sentences="0") == (
        f"<i>{translator('A dog. A girl.')}</i>"
    )


def test_the_requests_of_weblate_are_answered(client: Client) -> None:
    found = ask(
        client, text=['A dog runs, <x id="22"></x> he said.'], source_lang="EN",
        formality="default", tag_handling="xml", ignore_tags=["x"],
    )  # fmt: skip
    assert found.status == 200
    assert found.json["translations"][0]["text"].count('<x id="22"></x>') == 1
    pairs = client.get("/v2/glossary-language-pairs")
    assert (pairs.status, pairs.json) == (200, {"supported_languages": [
        {"source_lang": "de", "target_lang": "fr"}, {"source_lang": "en", "target_lang": "de"}
    ]})  # fmt: skip


def test_tags_of_xml_split_and_keep_as_asked(client: Client, translator: Translator) -> None:
    one, two = translator(["A dog runs.", "A girl."])
    text = "<p>A dog runs.</p><p>A girl.</p><k>A dog</k>"
    found = only(client, text=[text], tag_handling="xml", splitting_tags="p", ignore_tags="k, z")
    assert found == f"<p>{one}</p><p>{two}</p><k>A dog</k>"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"text": None}, "Parameter 'text' not specified."),
        ({"text": []}, "Value for 'text' not supported."),
        ({"text": [1]}, "Value for 'text' not supported."),
        ({"target_lang": None}, "Parameter 'target_lang' not specified."),
        ({"target_lang": "ZZ"}, "Value for 'target_lang' not supported."),
        (
            {"text": [GERMAN], "target_lang": "EN-US"},
            "English (en) is not available as a target language from German (de)",
        ),
        ({"target_lang": ["DE"]}, "Value for 'target_lang' not supported."),
        ({"source_lang": "ZZ"}, "Value for 'source_lang' not supported."),
        (
            {"source_lang": "FR"},
            "German (de) is not available as a target language from French (fr)",
        ),
        ({"split_sentences": "2"}, "Value for 'split_sentences' not supported."),
        ({"tag_handling": "tex"}, "Value for 'tag_handling' not supported."),
        ({"formality": "more"}, "Value for 'formality' not supported."),
        ({"formality": "most"}, "Value for 'formality' not supported."),
        ({"glossary_ids": "x"}, "Parameter 'glossary_ids' is not supported by this server."),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    client: Client, values: dict[str, object], message: str
) -> None:
    found = ask(client, **values)
    assert (found.status, found.json) == (400, {"message": message})


def test_what_changes_nothing_is_taken(client: Client, translator: Translator) -> None:
    values = {"formality": "prefer_more", "context": "Dogs.", "preserve_formatting": True}
    assert only(client, source_lang="EN", split_sentences=1, **values) == translator(TEXTS[0])


def test_limits(directory: Directory) -> None:
    with running(directory, Settings(characters=20, texts=2)) as client:
        long, many = ask(client, text=["a" * 21]), ask(client, text=["a", "b", "c"])
        assert long.status == 413 and "(21) exceeds text limit (20)" in long.json["message"]
        assert many.status == 400 and "(3) exceeds text limit (2)" in many.json["message"]


def test_languages(client: Client) -> None:
    sources = client.get("/v2/languages").json
    assert sources == [{"language": "DE", "name": "German"}, {"language": "EN", "name": "English"}]
    targets = client.get("/v2/languages?type=target").json
    assert targets == [
        {"language": "DE", "name": "German", "supports_formality": False},
        {"language": "FR", "name": "French", "supports_formality": False},
    ]
    wrong = client.get("/v2/languages?type=both")
    assert wrong.json == {"message": "Value for 'type' not supported."}


KEYS = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend", 60)})


@pytest.fixture(scope="module")
def locked(directory: Directory) -> Iterator[Client]:
    with running(directory, keys=KEYS) as client:
        yield client


def test_a_key_is_needed_for_everything(locked: Client) -> None:
    for headers in ({}, {"Authorization": "DeepL-Auth-Key Secret"}):
        assert locked.get("/v2/languages", headers).status == 403
        assert locked.get("/v2/usage", headers).status == 403
        found = locked.post("/v2/translate", {"text": ["a"], "target_lang": "DE"}, headers)
        assert found.status == 403 and set(found.json) == {"message"}


def test_usage_counts_the_characters_of_a_key(locked: Client) -> None:
    key = {"Authorization": "DeepL-Auth-Key secret"}
    before = locked.get("/v2/usage", key).json
    assert before["character_limit"] == 10**12
    locked.post("/v2/translate", {"text": TEXTS, "target_lang": "DE"}, key)
    after = locked.get("/v2/usage", key).json
    assert after["character_count"] - before["character_count"] == sum(map(len, TEXTS))


def test_english_is_listed_by_its_variants(translator: Translator) -> None:
    from crosshead.addons.serving.deepl import target_names
    from crosshead.addons.serving.directory import LanguagePair
    from crosshead.tasks.translation.model_engine import model_engines

    routes = {
        pair: LanguagePair(*pair, translator, "x", model_engines(translator))
        for pair in (("de", "en"), ("en", "pt"))
    }
    assert list(target_names(Directory(routes))) == ["en-GB", "en-US", "pt-BR", "pt-PT"]


def test_deepls_own_client(locked: Client, translator: Translator) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package `deepl`, of the extra `dev`")
    with closing(deepl.DeepLClient("secret", server_url=locked.address)) as theirs:
        found = theirs.translate_text(TEXTS, target_lang="DE", source_lang="EN")
        assert [each.text for each in found] == translator(TEXTS)
        detected = theirs.translate_text(GERMAN, target_lang="FR")
        assert detected.detected_source_lang == "DE" and detected.billed_characters == len(GERMAN)
        html = theirs.translate_text("<p>A dog runs.</p>", target_lang="DE", tag_handling="html")
        assert html.text == f"<p>{translator('A dog runs.')}</p>"
        assert [each.code for each in theirs.get_target_languages()] == ["DE", "FR"]
        assert [each.name for each in theirs.get_source_languages()] == ["German", "English"]
        assert theirs.get_usage().character.count > 0
        with pytest.raises(deepl.DeepLException, match="Value for 'target_lang' not supported"):
            theirs.translate_text("a", target_lang="ZZ")
    with (
        closing(deepl.DeepLClient("wrong", server_url=locked.address)) as theirs,
        pytest.raises(deepl.AuthorizationException),
    ):
        theirs.translate_text("a", target_lang="DE")


def test_errors_have_no_paths(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise RuntimeError("/home/somebody/model is broken")

    assert client.state.service is not None
    monkeypatch.setattr(client.state.service.detector, "detect", broken)
    found = ask(client)
    assert (found.status, json.loads(found.body)) == (500, {"message": "internal error"})
