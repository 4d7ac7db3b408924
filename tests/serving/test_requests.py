"""What every request goes through, over real HTTP."""

import urllib.parse

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from tests.serving.loopback import Client

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_line_endings_of_a_form_are_those_of_a_text(client: Client) -> None:
    values = {"q": "12\r\n34", "source": "en", "target": "en"}
    body = urllib.parse.urlencode(values).encode()
    assert client.ask("/translate", body, FORM).json == {"translatedText": "12\n34"}
    assert client.post("/translate", values).json == {"translatedText": "12\r\n34"}


def test_a_form_may_follow_a_query(client: Client) -> None:
    found = client.ask("/translate?source=en&target=en", b"q=1", FORM)
    assert found.json == {"translatedText": "1"}


@pytest.mark.parametrize("fields", [21, 2000])
def test_a_form_of_too_many_fields_is_refused(client: Client, fields: int) -> None:
    body = b"&".join(b"f%d=1" % number for number in range(fields))
    assert client.ask("/translate", body, FORM).status == 400


def test_a_broken_multipart_form_is_refused(client: Client) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    for body in (
        b"--x\r\nbroken",
        b"--y",
        b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--",
    ):
        assert client.ask("/translate_file", body, kind).status == 400


HALVES = [rb"a \ud83d b", rb"\uDE00", rb"\udE00\ud83d", b"\xed\xa0\x80"]


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v1/translate", "/v2/translate"])
def test_half_a_character_is_no_text(client: Client, path: str) -> None:
    for half in HALVES:
        body = b'{"q": "%s", "text": "%s", "source": "en", "target": "en"}' % (half, half)
        found = client.ask(path, body, {"Content-Type": "application/json"})
        assert found.status == 400 and "Invalid JSON format" in found.body.decode()


@pytest.mark.parametrize("name", ["source", "target", "format"])
def test_half_a_character_is_not_repeated_in_an_error(client: Client, name: str) -> None:
    values = {"q": "a", "source": "en", "target": "en", name: "\ud83d"}
    assert client.post("/translate", values).status == 400


def test_a_character_in_two_halves_is_one(client: Client) -> None:
    body = rb'{"q": "\ud83d\ude00", "source": "en", "target": "en"}'
    found = client.ask("/translate", body, {"Content-Type": "application/json"})
    assert found.json == {"translatedText": "\U0001f600"}
