"""Stored glossaries: DeepL's own client, keys, files, and limits."""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving import glossaries as module
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.glossaries import Glossaries, entries_of
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.errors import DataError, UserError
from crosshead.tasks.translation.line_translator import LineTranslator, PlannedLines
from crosshead.text.glossary import Entry, Glossary
from tests.addons.serving.loopback import Client, running

KEYS = Keys({hashlib.sha256(each.encode()).hexdigest(): ApiKey(each) for each in ("one", "two")})
VALUES = {
    "name": "Animals", "source_lang": "EN", "target_lang": "DE", "entries": "dog\tHund\ncat\tKatze",
    "entries_format": "tsv",
}  # fmt: skip


def key(name: str) -> dict[str, str]:
    return {"Authorization": f"DeepL-Auth-Key {name}"}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[tuple[int, int, str]]]]:
    """Each planned line with the terms of the glossary that its translator got."""
    found: list[tuple[str, list[tuple[int, int, str]]]] = []
    plan = LineTranslator.planned

    def noted(
        self: LineTranslator, lines: list[str], first: int, glossary: Glossary | None = None
    ) -> PlannedLines:
        found.extend((line, [] if glossary is None else [*glossary.terms(line)]) for line in lines)
        return plan(self, lines, first, glossary)

    monkeypatch.setattr(LineTranslator, "planned", noted)
    return found


@pytest.fixture(scope="module")
def locked(directory: Directory) -> Iterator[Client]:
    with running(directory, keys=KEYS) as client:
        yield client


def test_deepls_own_client(locked: Client, planned: list[Any]) -> None:
    deepl = pytest.importorskip("deepl", reason="needs the package `deepl`, of the extra `dev`")
    entries = {"coat": "Mantel", "New York": "New York"}
    with closing(deepl.DeepLClient("one", server_url=locked.address)) as theirs:
        pairs = {(each.source_lang, each.target_lang) for each in theirs.get_glossary_languages()}
        assert pairs == {("en", "de"), ("de", "fr")}
        made = theirs.create_glossary("Mine", source_lang="EN", target_lang="DE", entries=entries)
        assert (made.name, made.ready, made.entry_count) == ("Mine", True, 2)
        assert (made.source_lang, made.target_lang) == ("EN", "DE")
        csv = theirs.create_glossary_from_csv("Csv", "EN", "DE", '"a, b",c,en,de\r\nd,e,en,de\r\n')
        assert theirs.get_glossary_entries(csv) == {"a, b": "c", "d": "e"}
        assert theirs.get_glossary_entries(made) == entries
        listed = [each.glossary_id for each in theirs.list_glossaries()]
        assert listed == [made.glossary_id, csv.glossary_id]
        assert theirs.get_glossary(made.glossary_id).creation_time == made.creation_time
        lines = ["Coats hang.", "A cat."]
        theirs.translate_text(lines, source_lang="EN", target_lang="DE", glossary=made)
        assert sorted(planned) == [("A cat.", []), ("Coats hang.", [(0, 5, "Mantel")])]
        theirs.translate_text_with_glossary("A coat.", made)
        assert planned[-1] == ("A coat.", [(2, 6, "Mantel")])
        with pytest.raises(deepl.DeepLException, match="do not match"):
            theirs.translate_text(
                "a", source_lang="DE", target_lang="FR", glossary=made.glossary_id
            )
        with pytest.raises(deepl.DeepLException, match="Unsupported glossary"):
            theirs.create_glossary("Mine", "EN", "FR", entries)
        theirs.delete_glossary(made)
        with pytest.raises(deepl.GlossaryNotFoundException):
            theirs.get_glossary(made.glossary_id)
        theirs.delete_glossary(csv)
        assert theirs.list_glossaries() == []


def test_a_glossary_belongs_to_the_key_that_made_it(locked: Client) -> None:
    made = locked.post("/v2/glossaries", VALUES, key("one"))
    assert made.status == 201
    place = f"/v2/glossaries/{made.json['glossary_id']}"
    values = {
        "text": ["a"], "source_lang": "EN", "target_lang": "DE",
        "glossary_id": made.json["glossary_id"],
    }  # fmt: skip
    for path in (place, f"{place}/entries"):
        assert locked.get(path, key("one")).status == 200
        assert locked.get(path, key("two")).status == 404
        assert locked.get(path, key("three")).status == 403
    assert locked.post("/v2/translate", values, key("one")).status == 200
    assert locked.post("/v2/translate", values, key("two")).status == 404
    assert locked.get("/v2/glossaries", key("two")).json == {"glossaries": []}
    assert locked.ask(place, None, key("two"), "DELETE").status == 404
    gone = locked.ask(place, None, key("one"), "DELETE")
    assert (gone.status, gone.body) == (204, b"")
    assert locked.get(place, key("one")).status == 404


def test_without_keys_glossaries_are_shared(client: Client) -> None:
    made = client.post("/v2/glossaries", VALUES | {"target_lang": "de-AT"})
    assert made.json["target_lang"] == "de"
    assert client.get("/v2/glossaries").json["glossaries"] == [made.json]
    values = {"text": ["a"], "target_lang": "DE", "glossary_id": made.json["glossary_id"]}
    found = client.post("/v2/translate", values)
    assert found.status == 400 and "source_lang" in found.json["message"]
    options = client.ask("/v2/glossaries", None, {}, "OPTIONS")
    assert options.headers["Allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": ""}, "Parameter 'name' not specified."),
        ({"entries": None}, "Parameter 'entries' not specified."),
        ({"entries": "\n"}, "expected 1 to"),
        ({"entries": "dog\t"}, "the target of 'dog' is empty"),
        ({"entries": "a\tb\na\tc"}, "'a' has the target 'c'"),
        ({"entries_format": "xls"}, "Value for 'entries_format' not supported."),
        ({"source_lang": "ZZ"}, "Unsupported glossary source and target language pair."),
        ({"target_lang": "EN"}, "Unsupported glossary source and target language pair."),
    ],
)
def test_a_wrong_glossary_is_refused(
    client: Client, values: dict[str, object], message: str
) -> None:
    found = client.post("/v2/glossaries", VALUES | values)
    assert found.status == 400 and message in found.json["message"]


def test_a_request_of_v1_may_have_a_glossary(client: Client, planned: list[Any]) -> None:
    values = {"text": "A dog runs.", "source": "en", "target": "de", "glossary": {"dog": "Köter"}}
    assert client.post("/v1/translate", values).status == 200
    assert planned == [("A dog runs.", [(2, 5, "Köter")])]
    for wrong in ({"dog": ""}, {"dog": 1}, ["dog"], "dog"):
        assert client.post("/v1/translate", values | {"glossary": wrong}).status in (400, 422)
    third = client.post("/v1/translate", values | {"target": "fr"})
    assert third.status == 400 and "glossary" in third.json["error"]


def add(store: Glossaries, owner: str = "me", name: str = "x", size: int = 1) -> str:
    entries = (Entry("dog", "H" * size), Entry("run", "laufen", ("ran",)))
    return asyncio.run(store.add(owner, name, ("en", "de"), entries)).glossary_id


def test_glossaries_outlive_the_server(tmp_path: Path) -> None:
    store = Glossaries(tmp_path / "made" / "glossaries")
    kept, gone = add(store, name="Größe"), add(store)
    asyncio.run(store.delete("me", gone))
    again = Glossaries(tmp_path / "made" / "glossaries")
    assert again.of("me") == store.of("me") == [again.get("me", kept)]
    assert again.get("me", kept).entries[1].forms == ("ran",)
    [path] = (tmp_path / "made" / "glossaries").iterdir()
    path.write_text("{}")
    with pytest.raises(UserError, match="no glossary of this server"):
        Glossaries(path.parent)


def test_a_folder_that_cannot_be_written_hides_its_path(tmp_path: Path) -> None:
    store = Glossaries(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    with pytest.raises(RequestError) as raised:
        add(store)
    assert raised.value.status == 500 and str(tmp_path) not in raised.value.message
    assert store.of("me") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_must_be_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="cannot be written"):
        Glossaries(tmp_path)


def test_a_key_has_a_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    store = Glossaries()
    first, _ = add(store), add(store)
    with pytest.raises(RequestError, match="Too many glossaries"):
        add(store)
    assert add(store, "you")
    asyncio.run(store.delete("me", first))
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    with pytest.raises(RequestError, match="Too many glossaries"):
        add(store, size=1000)
    assert add(store)


def test_entries_of_a_request_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert entries_of("a,b\r\n\r\nc,d,en,de\r\n", "csv") == (Entry("a", "b"), Entry("c", "d"))
    with pytest.raises(DataError, match="entries:2"):
        entries_of("a\tb\nc\td\te\tf\tg", "tsv")
    monkeypatch.setattr(module, "MOST_ENTRIES", 2)
    with pytest.raises(RequestError, match="1 to 2"):
        entries_of("a\tb\nc\td\ne\tf", "tsv")
