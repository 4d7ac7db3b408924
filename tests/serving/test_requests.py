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
