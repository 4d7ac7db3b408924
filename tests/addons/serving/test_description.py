"""The description of the operations is complete and true, and its page is sound HTML."""

import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.app import make_app
from crosshead.addons.serving.deepl import OTHERS
from crosshead.addons.serving.dialect import Operation
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys, Rates
from crosshead.addons.serving.pages import answers, docs_body, example, openapi, schema
from crosshead.addons.serving.requests import Settings, State
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.stores import Metrics, Suggestions
from tests.addons.serving.loopback import Answer, Client, running
from tests.addons.serving.test_libretranslate import upload

SCHEDULER = Scheduler(0)
DIALECTS = make_app(State(Settings(), Metrics(SCHEDULER), Rates(0)), SCHEDULER).dialects
ANSWERS = {
    (each.method, each.path): answers(dialect, each)
    for dialect in DIALECTS
    for each in dialect.operations()
}
OPERATIONS = [operation for dialect in DIALECTS for operation in dialect.operations()]
TRIED = [operation for operation in OPERATIONS if operation.example]
CODES = {"en": "en", "de": "de"}


def named(operation: Operation) -> tuple[str, str]:
    return operation.method, operation.path


def asked(client: Client, operation: Operation, drop: str = "", key: str = "") -> Answer:
    """The answer to the example of an operation, without one of its values."""
    values: dict[str, Any] = {
        name: each["examples"][0]
        for name, each in schema(operation).get("properties", {}).items()
        if "examples" in each and name != drop
    }
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if operation.method == "GET":
        query = "&".join(f"{name}={value}" for name, value in values.items())
        return client.get(f"{operation.path}?{query}", headers)
    if "file" in values:
        del values["file"]
        body, kind = upload("page.html", b"<p>A dog.</p>", **values)
        return client.ask(operation.path, body, kind | headers)
    return client.post(operation.path, values, headers)


@pytest.fixture(scope="module")
def open_server(directory: Directory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = Suggestions(tmp_path_factory.mktemp("suggestions") / "file")
    with running(directory, suggestions=store) as client:
        yield client


def test_the_router_and_the_description_have_the_same_routes(client: Client) -> None:
    app = make_app(client.state, client.scheduler)
    routes = {
        (method, route.path)
        for route in app.routes
        if route.path not in OTHERS
        for method in (route.methods or ()) - {"HEAD"}
    }
    assert routes == set(map(named, OPERATIONS)) and len(routes) == len(OPERATIONS) > 15


@pytest.mark.parametrize("operation", TRIED, ids=lambda each: f"{each.method} {each.path}")
def test_an_operation_answers_as_described(open_server: Client, operation: Operation) -> None:
    found, statuses = asked(open_server, operation), ANSWERS[named(operation)]
    assert found.status == 200 and 200 in statuses
    assert found.headers["Content-Type"].split(";")[0] == operation.media
    for name in schema(operation).get("required", ()):
        without = asked(open_server, operation, drop=name)
        assert without.status in (400, 422) and without.status in statuses
        assert name in without.body.decode()


def test_only_described_operations_need_a_key_and_are_limited(directory: Directory) -> None:
    secrets = {hashlib.sha256(b"one").hexdigest(): ApiKey("friend", 1)}
    with running(directory, keys=Keys(secrets)) as client:
        for operation in TRIED:
            refused = {asked(client, operation).status, asked(client, operation, key="no").status}
            if operation.path == "/suggest":  # it is disabled here, before a key is looked for
                assert refused == {403}
                continue
            assert refused.isdisjoint({200}) == operation.key
            assert refused <= ANSWERS[named(operation)].keys()
        assert asked(client, OPERATIONS[0], key="one").status == 200
        for operation in TRIED:
            limited = asked(client, operation, key="one").status == 429
            assert limited == (429 in ANSWERS[named(operation)]) or operation.path == "/suggest"


def test_what_needs_a_model_says_that_it_is_loading(tmp_path: Path) -> None:
    with running(None, suggestions=Suggestions(tmp_path / "file")) as client:
        for operation in TRIED:
            found = asked(client, operation).status
            assert (found == 503) == (503 in ANSWERS[named(operation)]), operation.path


def test_programs_get_every_operation_and_the_schema_that_requests_are_checked_by(
    client: Client,
) -> None:
    found = client.get("/spec").json
    assert found == client.get("/v1/openapi.json").json == openapi(DIALECTS)
    paths = found["paths"]
    assert sum(map(len, paths.values())) == len(OPERATIONS)
    assert all(
        each["responses"] and each["summary"].endswith(".")
        for methods in paths.values() for each in methods.values()
    )  # fmt: skip
    content = paths["/translate"]["post"]["requestBody"]["content"]
    assert list(content["application/json"]["schema"]["properties"]) == [
        "q", "source", "target", "format", "alternatives", "api_key"
    ]  # fmt: skip
    assert list(paths["/translate_file"]["post"]["requestBody"]["content"]) == [
        "multipart/form-data"
    ]
    content = paths["/v1/translate"]["post"]["requestBody"]["content"]
    assert content["application/json"]["schema"]["required"] == ["text", "target"]
    assert paths["/v2/languages"]["get"]["parameters"][0]["in"] == "query"
    assert paths["/download_file/{name}"]["get"]["parameters"][0]["in"] == "path"


class Checked(HTMLParser):
    """A page whose tags must be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [values["href"]] if values.get("href") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_operation_has_a_section_and_a_link(client: Client) -> None:
    page = Checked(client.get("/docs").body.decode())
    assert page.open == [] and len(set(page.ids)) == len(page.ids) == len(OPERATIONS)
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {
        "page/icon.svg", "page/style.css", "./", "spec"
    }  # fmt: skip


def test_every_value_and_status_is_on_the_page() -> None:
    page = docs_body(DIALECTS, "http://x/", CODES, False)
    for operation in OPERATIONS:
        section = page.partition(f"<code>{operation.method} {operation.path}</code></h3>")[2]
        section = re.split("<h3|</section>", section)[0]
        for name in schema(operation).get("properties", {}):
            assert f"<code>{name}</code></th>" in section
        for status in ANSWERS[named(operation)]:
            assert f"<code>{status}</code></th>" in section


def test_what_a_request_says_of_itself_is_escaped() -> None:
    page = docs_body(DIALECTS, "http://<script>'\"&/", CODES, True)
    assert "<script" not in page
    assert "It needs a key." in page and "Bearer KEY" in page


def test_a_key_is_in_the_commands_that_need_one() -> None:
    translate, *_, health = DIALECTS[0].operations()
    command = shlex.split(example(translate, "http://x/", CODES, True))
    assert command[:5] == ["curl", "-s", "http://x/translate", "-H", "Authorization: Bearer KEY"]
    assert {"q=A dog runs.", "source=en", "target=de"} < set(command)
    assert example(health, "http://x/", CODES, True) == "curl -s http://x/health"


def test_people_get_a_page_without_scripts_of_its_own(client: Client) -> None:
    found = client.get("/docs")
    assert found.status == 200 and found.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    page = found.body.decode()
    assert client.address in page and "source=en" in page
    assert "<style" not in page and " style=" not in page and page.count("<script") == 1
    assert client.get("/").body.decode().count('href="docs"') == 1


def test_the_page_is_open_and_names_the_key(directory: Directory) -> None:
    keys = Keys({hashlib.sha256(b"k").hexdigest(): ApiKey("friend")})
    with running(directory, keys=keys) as client:
        page = client.get("/docs").body.decode()
        assert client.get("/spec").status == 200
        assert client.get("/v1/openapi.json").status == 200
    assert "It needs a key." in page


def test_the_page_is_there_while_the_models_load() -> None:
    with running(None) as client:
        assert client.get("/docs").status == 200


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_work(client: Client, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>A dog.</p>")
    page = client.get("/docs").body.decode()
    commands = [unescape(each) for each in re.findall(r"<pre[^>]*><code>(.*?)</code>", page)]
    assert len(commands) == len(TRIED)
    for command in commands:
        done = subprocess.run(
            command.replace("curl -s", "curl -s -w '%{http_code}' -o answer"),
            shell=True, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        expected = "403" if "/suggest" in command else "200"  # suggestions are disabled
        assert (done.returncode, done.stdout) == (0, expected), command
