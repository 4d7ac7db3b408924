"""What every request goes through, over real HTTP."""

import hashlib
import urllib.parse

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.requests import Settings
from tests.addons.serving.loopback import Client, running

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def directory(own_directory: Directory) -> Directory:
    """Of one engine: what these tests see is the same with both."""
    return own_directory


def test_line_endings_of_a_form_are_those_of_a_text(client: Client) -> None:
    values = {"q": "12\r\n34", "source": "en", "target": "en"}
    body = urllib.parse.urlencode(values).encode()
    assert client.ask("/translate", body, FORM).json == {"translatedText": "12\n34"}
    assert client.post("/translate", values).json == {"translatedText": "12\r\n34"}


def test_a_form_may_follow_a_query(client: Client) -> None:
    found = client.ask("/translate?source=en&target=en", b"q=1", FORM)
    assert found.json == {"translatedText": "1"}


MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
ASKED = [("source", "en"), ("target", "en"), ("q", "1")]


def multipart(fields: list[tuple[str, str]]) -> bytes:
    """A form as a page sends it with files."""
    parts = [f'--x\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}' for n, v in fields]
    return "\r\n".join([*parts, "--x--\r\n"]).encode()


@pytest.mark.parametrize("charset", ["punycode", "undefined", "unicode_escape", "nonsense"])
def test_a_form_in_an_odd_charset_is_refused(client: Client, charset: str) -> None:
    kind = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    found = client.ask("/translate", multipart(ASKED), kind)
    message = f"Invalid request: the form is in {charset}; send it in UTF-8"
    assert (found.status, found.json) == (400, {"error": message})
    usual = {"Content-Type": "multipart/form-data; boundary=x; charset=UTF-8"}
    assert client.ask("/translate", multipart(ASKED), usual).json == {"translatedText": "1"}


@pytest.mark.parametrize("count", [101, 2000])
def test_a_form_of_too_many_fields_is_refused(client: Client, count: int) -> None:
    fields = ASKED + [(f"f{number}", "1") for number in range(count - len(ASKED))]
    message = {"error": "Invalid request: Too many fields. Maximum number of fields is 100."}
    for many, few, kind in (
        (urllib.parse.urlencode(fields).encode(), urllib.parse.urlencode(fields[:100]), FORM),
        (multipart(fields), multipart(fields[:100]), MULTIPART),
    ):
        found = client.ask("/translate", many, kind)
        assert (found.status, found.json) == (400, message)
        few = few.encode() if isinstance(few, str) else few
        assert client.ask("/translate", few, kind).json == {"translatedText": "1"}


def test_a_form_may_repeat_as_many_texts_as_a_request_may_have(directory: Directory) -> None:
    fields = [("target_lang", "DE"), ("source_lang", "DE"), *[("text", "1")] * 151]
    with running(directory, Settings(texts=151)) as client:
        for body, kind in (
            (urllib.parse.urlencode(fields).encode(), FORM),
            (multipart(fields), MULTIPART),
        ):
            found = client.ask("/v2/translate", body, kind)
            assert [each["text"] for each in found.json["translations"]] == ["1"] * 151


def test_a_field_may_be_as_large_as_the_body(directory: Directory) -> None:
    fields = [*ASKED[:2], ("q", "1" * 2_000_000)]
    forms = ((urllib.parse.urlencode(fields).encode(), FORM), (multipart(fields), MULTIPART))
    with running(directory) as client:
        for body, kind in forms:
            found = client.ask("/translate", body, kind)
            assert found.status == 200 and found.json["translatedText"] == fields[-1][1]
    with running(directory, Settings(body=1000)) as client:
        found = client.ask("/translate", b"q=" + b"1" * 2000, FORM)
        message = "Invalid request: the body is larger than 1000 bytes"
        assert (found.status, found.json) == (413, {"error": message})


@pytest.mark.parametrize("body", ["q=ä€", urllib.parse.urlencode({"q": "ä€"})])
def test_a_form_is_in_utf_8_with_or_without_escapes(client: Client, body: str) -> None:
    found = client.ask("/translate?source=en&target=en", body.encode(), FORM)
    assert found.json == {"translatedText": "ä€"}


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


KEYS = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend")})
RIGHT, WRONG = ({"Authorization": f"Bearer {key}"} for key in ("secret", "Secret"))
BROKEN = b"{"


@pytest.mark.parametrize(
    ("path", "missing"),
    [("/translate", 400), ("/detect", 400), ("/v1/translate", 401), ("/v2/translate", 400)],
)
def test_a_key_in_the_headers_is_checked_before_the_body_is_read(
    directory: Directory, path: str, missing: int
) -> None:
    kind = {"Content-Type": "application/json"}
    with running(directory, keys=KEYS) as client:
        found = [client.ask(path, BROKEN, kind | more).status for more in (RIGHT, WRONG, {})]
    assert found == [400, 403, missing]  # without a key in the headers, the body may have it


def test_a_large_body_needs_its_key_in_the_header(directory: Directory) -> None:
    values = {"q": "1" * 100_000, "source": "en", "target": "en", "api_key": "secret"}
    with running(directory, keys=KEYS) as client:
        found = client.post("/translate", values)
        assert found.status == 413 and "Authorization" in found.json["error"]
        body = b"q=" + b"1" * 100_000
        head = b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert client.exchange(head + b"%x\r\n%s\r\n" % (len(body), body))[9:12] == b"413"
        assert client.post("/translate", values, RIGHT).status == 200
        assert client.post("/translate", values | {"q": "1"}).status == 200


def test_a_client_without_a_key_is_limited_before_its_body_is_read(directory: Directory) -> None:
    kind = {"Content-Type": "application/json"}
    with running(directory, per_minute=1) as client:
        found = [client.ask("/translate", BROKEN, kind).status for _ in range(2)]
    assert found == [400, 429]


def test_wrong_keys_are_limited_by_address(directory: Directory) -> None:
    values = {"q": "1", "source": "en", "target": "en"}
    near, far = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in (1, 2))
    with running(directory, keys=KEYS, per_minute=3) as client:
        wrong = [client.post("/translate", values, WRONG | near).status for _ in range(2)]
        in_body = client.post("/translate", values | {"api_key": "Secret"}, near)
        assert [*wrong, in_body.status] == [403, 403, 403]
        # A right key is not told from a wrong one any more, wherever it stands.
        for more, headers in (({}, WRONG), ({}, RIGHT), ({"api_key": "secret"}, {}), ({}, {})):
            found = client.post("/translate", values | more, headers | near)
            assert found.status == 429 and int(found.headers["Retry-After"]) > 0
        assert client.post("/translate", values, RIGHT | far).status == 200


def test_wrong_keys_are_limited_on_a_server_without_a_limit(directory: Directory) -> None:
    with running(directory, keys=KEYS) as client:
        found = [client.get("/v2/usage", WRONG).status for _ in range(80)]
        assert found[:60] == [403] * 60 and found[-1] == 429
