"""The description of the operations is complete and true."""

import hashlib
import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.app import make_app
from crosshead.addons.serving.dialect import Operation
from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys, Rates
from crosshead.addons.serving.pages import openapi, schema
from crosshead.addons.serving.requests import Settings, State
from crosshead.addons.serving.scheduler import Scheduler
from crosshead.addons.serving.stores import Metrics, Suggestions
from tests.addons.serving.loopback import Answer, Client, running
from tests.addons.serving.test_libretranslate import upload
from tests.conftest import ROOT

SCHEDULER = Scheduler(0)
DIALECTS = make_app(State(Settings(), Metrics(SCHEDULER), Rates(0)), SCHEDULER).dialects
OPERATIONS = [operation for dialect in DIALECTS for operation in dialect.operations()]
TRIED = [operation for operation in OPERATIONS if "{" not in operation.path]
UNLOADED = {
    "/", "/docs", "/spec", "/v1/openapi.json", "/livez", "/metrics", "/v1/limits", "/v2/usage",
}  # fmt: skip
"""The paths that need no model."""
PAGE = ROOT / "crosshead" / "addons" / "serving" / "page"


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
        (method, route.path) for route in app.routes for method in (route.methods or ()) - {"HEAD"}
    }
    assert routes == set(map(named, OPERATIONS)) and len(routes) == len(OPERATIONS) > 15


@pytest.mark.parametrize("operation", TRIED, ids=lambda each: f"{each.method} {each.path}")
def test_an_operation_answers_as_described(open_server: Client, operation: Operation) -> None:
    found = asked(open_server, operation)
    assert found.status == operation.status
    assert found.headers["Content-Type"].split(";")[0] == operation.media
    for name in schema(operation).get("required", ()):
        without = asked(open_server, operation, drop=name)
        assert without.status in (400, 422)
        assert name in without.body.decode()


def test_only_described_operations_need_a_key_and_are_limited(directory: Directory) -> None:
    secrets = {hashlib.sha256(b"one").hexdigest(): ApiKey("friend", 1)}
    with running(directory, keys=Keys(secrets)) as client:
        for operation in TRIED:
            refused = {asked(client, operation).status, asked(client, operation, key="no").status}
            if operation.path == "/suggest":  # it is disabled here, before a key is looked for
                assert refused == {403}
                continue
            assert refused.isdisjoint({operation.status}) == operation.key
            assert refused <= {operation.status, 400, 401, 403}
        assert asked(client, OPERATIONS[0], key="one").status == 200
        for operation in TRIED:
            limited = asked(client, operation, key="one").status == 429
            assert limited == operation.key or operation.path == "/suggest"


def test_what_needs_a_model_says_that_it_is_loading(tmp_path: Path) -> None:
    with running(None, suggestions=Suggestions(tmp_path / "file")) as client:
        for operation in TRIED:
            expected = operation.status if operation.path in UNLOADED else 503
            assert asked(client, operation).status == expected, operation.path


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


@pytest.mark.skipif(not all(map(shutil.which, ("curl", "node"))), reason="needs curl and Node")
def test_the_commands_of_the_page_work(client: Client, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>A dog.</p>")
    (tmp_path / "commands.mjs").write_text(f"""
        import {{ command }} from {str(PAGE / "text.mjs")!r};
        const {{ paths }} = await (await fetch({client.address + "/spec"!r})).json();
        const found = Object.entries(paths).flatMap(([path, methods]) =>
            Object.entries(methods).map(
                ([method, each]) => command({client.address + "/"!r}, method, path, each)));
        console.log(JSON.stringify(found));
    """)
    commands = json.loads(subprocess.check_output(["node", tmp_path / "commands.mjs"]))
    commands = [each for each in commands if "{" not in shlex.split(each)[2]]
    assert len(commands) == len(TRIED)
    for command, operation in zip(commands, TRIED, strict=True):
        done = subprocess.run(
            command.replace("curl -s", "curl -s -w '%{http_code}' -o answer"),
            shell=True, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        expected = "403" if "/suggest" in command else str(operation.status)  # it is disabled
        assert (done.returncode, done.stdout) == (0, expected), command


def test_the_description_is_open_and_names_the_key(directory: Directory) -> None:
    keys = Keys({hashlib.sha256(b"k").hexdigest(): ApiKey("friend")})
    with running(directory, keys=keys) as client:
        for path in ("/docs", "/spec", "/v1/openapi.json"):
            assert client.get(path).status == 200
        paths = client.get("/spec").json["paths"]
    for operation in OPERATIONS:
        described = paths[operation.path][operation.method.lower()]
        assert ("security" in described) == operation.key


def test_the_page_is_there_while_the_models_load() -> None:
    with running(None) as client:
        assert client.get("/docs").status == client.get("/spec").status == 200
