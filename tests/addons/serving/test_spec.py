"""The description of the routes is complete and true: compared with the router and with answers."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.app import make_app
from crosshead.addons.serving.deepl import OTHERS
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.spec import GROUPS, Operation, openapi, swagger
from crosshead.addons.serving.stores import Suggestions
from tests.addons.serving.loopback import Answer, Client, running
from tests.addons.serving.test_libretranslate import upload

OPERATIONS = [operation for group in GROUPS for operation in group.operations]
TRIED = [operation for operation in OPERATIONS if operation.example is not None]


def asked(client: Client, operation: Operation, drop: str = "", key: str = "") -> Answer:
    """The answer to the example of an operation, without one of its values."""
    names = {"SOURCE": "en", "TARGET": "de"}
    example = {name: value for name, value in (operation.example or {}).items() if name != drop}
    values: dict[str, Any] = {name: names.get(value, value) for name, value in example.items()}
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
        (method, "/page/{name}" if route.path.startswith("/page/") else route.path)
        for route in app.routes
        if route.path not in OTHERS
        for method in (route.methods or ()) - {"HEAD"}
    }
    described = {
        (each.method, each.path.replace("/download_file/{name}", "/download_file/{name:path}"))
        for each in OPERATIONS
    }
    assert routes == described and len(described) == len(OPERATIONS) > 15


@pytest.mark.parametrize("operation", TRIED, ids=lambda each: f"{each.method} {each.path}")
def test_an_operation_answers_as_described(open_server: Client, operation: Operation) -> None:
    found = asked(open_server, operation)
    assert found.status == 200 and 200 in operation.answers
    assert found.headers["Content-Type"].split(";")[0] == operation.form
    for value in operation.values:
        if value.needed:
            without = asked(open_server, operation, drop=value.name)
            assert without.status in (400, 422) and without.status in operation.answers
            assert value.name in without.body.decode()


def test_only_described_operations_need_a_key_and_are_limited(directory: Directory) -> None:
    secrets = {hashlib.sha256(b"one").hexdigest(): ApiKey("friend", 1)}
    with running(directory, keys=Keys(secrets)) as client:
        for operation in TRIED:
            refused = {asked(client, operation).status, asked(client, operation, key="no").status}
            if operation.path == "/suggest":  # it is disabled here, before a key is looked for
                assert refused == {403}
                continue
            assert refused.isdisjoint({200}) == operation.key
            assert refused <= operation.answers.keys()
        assert asked(client, OPERATIONS[0], key="one").status == 200
        for operation in TRIED:
            limited = asked(client, operation, key="one").status == 429
            assert limited == (429 in operation.answers) or operation.path == "/suggest"


def test_what_needs_a_model_says_that_it_is_loading(tmp_path: Path) -> None:
    with running(None, suggestions=Suggestions(tmp_path / "file")) as client:
        for operation in TRIED:
            found = asked(client, operation).status
            assert (found == 503) == (503 in operation.answers), operation.path


def test_the_descriptions_have_every_operation_and_value() -> None:
    paths = swagger()["paths"]
    assert sum(map(len, paths.values())) == len(OPERATIONS)
    translate = paths["/translate"]["post"]
    assert [each["name"] for each in translate["parameters"]] == [
        "q", "source", "target", "format", "alternatives", "api_key"
    ]  # fmt: skip
    assert (
        translate["parameters"][4]["type"] == "integer"
        and not translate["parameters"][4]["required"]
    )
    assert paths["/translate_file"]["post"]["consumes"] == ["multipart/form-data"]
    [body] = paths["/v1/translate"]["post"]["parameters"]
    assert body["schema"]["required"] == ["text", "target"]
    assert all(
        each["responses"] and each["summary"].endswith(".")
        for methods in paths.values() for each in methods.values()
    )  # fmt: skip


def test_openapi_has_the_schema_that_requests_are_checked_by() -> None:
    paths = openapi()["paths"]
    content = paths["/v1/translate"]["post"]["requestBody"]["content"]["application/json"]
    assert set(content["schema"]["properties"]) == {
        "text", "source", "target", "format", "alternatives"
    }  # fmt: skip
    assert set(paths) == {"/v1/translate", "/v1/limits", "/v1/openapi.json"}
