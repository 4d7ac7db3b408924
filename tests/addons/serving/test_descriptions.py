"""The routes of descriptions over real HTTP."""

import hashlib

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.spec import openapi, swagger
from tests.addons.serving.loopback import Client, running


def test_programs_get_the_descriptions(client: Client) -> None:
    assert client.get("/spec").json == swagger()
    assert client.get("/v1/openapi.json").json == openapi()


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
