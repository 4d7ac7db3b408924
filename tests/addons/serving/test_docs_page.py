"""The page of documentation: every operation, sound HTML, and commands that work."""

import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.docs_page import docs_page, example
from crosshead.addons.serving.spec import GROUPS, LIBRETRANSLATE
from tests.addons.serving.loopback import Client

OPERATIONS = [operation for group in GROUPS for operation in group.operations]
VOID = {"meta", "link"}


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
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.ids += [values["id"]] if values.get("id") else []
        self.links += [values["href"]] if values.get("href") else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_operation_has_a_section_and_a_link() -> None:
    page = Checked(docs_page("http://x/", "en", "de", False))
    assert page.open == [] and len(set(page.ids)) == len(page.ids) == len(OPERATIONS)
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {
        "page/icon.svg", "page/style.css", "./", "spec"
    }  # fmt: skip


def test_every_value_and_status_is_on_the_page() -> None:
    page = docs_page("http://x/", "en", "de", False)
    for operation in OPERATIONS:
        section = page.partition(f"<code>{operation.method} {operation.path}</code></h3>")[2]
        section = re.split("<h3|</section>", section)[0]
        for value in operation.values:
            assert f"<code>{value.name}</code></th>" in section
        for status in operation.answers:
            assert f"<code>{status}</code></th>" in section


def test_what_a_request_says_of_itself_is_escaped() -> None:
    page = docs_page("http://<script>'\"&/", "en", "de", True)
    assert "<script>'" not in page and page.count("<script") == 1
    assert "It needs a key." in page and "Bearer KEY" in page


def test_a_key_is_in_the_commands_that_need_one() -> None:
    translate, *_, health = LIBRETRANSLATE.operations
    names = {"SOURCE": "en", "TARGET": "de"}
    assert example(translate, "http://x/", names, True) == (
        "curl -s http://x/translate -H 'Authorization: Bearer KEY' -d 'q=A dog runs.' -d source=en "
        "-d target=de"
    )
    assert example(health, "http://x/", names, True) == "curl -s http://x/health"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_work(client: Client, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>A dog.</p>")
    page = client.get("/docs").body.decode()
    commands = [unescape(each) for each in re.findall(r"<pre[^>]*><code>(.*?)</code>", page)]
    assert len(commands) == len([each for each in OPERATIONS if each.example is not None])
    for command in commands:
        done = subprocess.run(
            command.replace("curl -s", "curl -s -w '%{http_code}' -o answer"),
            shell=True, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        expected = "403" if "/suggest" in command else "200"  # suggestions are disabled
        assert (done.returncode, done.stdout) == (0, expected), command
