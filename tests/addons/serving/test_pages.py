"""The web page: its routes and headers, its functions in Node, and the whole in Chromium."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("uvicorn", reason="needs the extra `serve`")

from crosshead.addons.serving.directory import Directory
from crosshead.addons.serving.keys import ApiKey, Keys
from crosshead.addons.serving.requests import Settings
from crosshead.addons.serving.scheduler import Limits
from crosshead.addons.serving.service import Service
from crosshead.tasks.translation.translator import Translator
from tests.addons.serving.loopback import Client, running
from tests.browser import opened, violations
from tests.conftest import ROOT
from tests.parameters import mostly_slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGE = ROOT / "crosshead" / "addons" / "serving" / "page"
SHARED = ROOT / "crosshead" / "system" / "page"
FILES = {path.name: path for folder in (PAGE, SHARED) for path in folder.iterdir()}


@pytest.fixture(scope="module")
def directory(own_directory: Directory) -> Directory:
    """The page does not know the engine, so one is enough."""
    return own_directory


def address(name: str) -> str:
    return {"index.html": "/", "docs.html": "/docs"}.get(name, f"/page/{name}")


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_served_with_its_type_and_a_strict_policy(client: Client, name: str) -> None:
    found = client.get(address(name))
    assert found.status == 200 and found.body == FILES[name].read_bytes()
    kinds = {"html": "text/html", "css": "text/css", "mjs": "text/javascript", "svg": "image/svg"}
    assert found.headers["Content-Type"].startswith(kinds[name.split(".")[1]])
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Referrer-Policy"] == "no-referrer"


def test_a_browser_that_has_a_file_gets_304(client: Client) -> None:
    found = client.get("/")
    assert found.headers["Cache-Control"] == "no-cache"
    again = client.get("/", {"If-None-Match": found.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert again.headers["Content-Security-Policy"] == found.headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/page/", "/page/x.mjs", "/page/index.html", "/page/../app.py"])
def test_nothing_else_is_served(client: Client, path: str) -> None:
    assert client.get(path).status == 404


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_the_functions_of_texts() -> None:
    file = Path(__file__).parent / "page" / "text.test.mjs"
    done = subprocess.run(["node", "--test", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# What follows drives the page in Chromium.


@pytest.fixture
def page(browser: "Browser", client: Client) -> "Iterator[Page]":
    with opened(browser, client.address, viewport={"width": 1280, "height": 800}) as found:
        found.locator("#source option").first.wait_for(state="attached")
        yield found


def until(page: "Page", condition: Callable[[], object]) -> None:
    for _ in range(400):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it did not happen within 20 seconds")


def translated(page: "Page") -> str:
    """The translation, once there is one."""
    until(page, lambda: "Translated." in page.locator("#status").inner_text())
    return page.locator("#translation").inner_text()


def test_it_translates_as_one_types(page: "Page", client: Client, translator: Translator) -> None:
    page.select_option("#source", "en")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.post_data or ""))
    page.locator("#text").press_sequentially("A dog runs.", delay=10)
    assert translated(page) == translator("A dog runs.")
    assert len(asked) < 4  # by pauses, not by keys
    page.fill("#text", "Two men sit.\n\nA girl.")
    lines = [translator("Two men sit."), "", translator("A girl.")]
    until(page, lambda: page.locator("#translation").inner_text() == "\n".join(lines))
    page.click("#clear")
    assert page.locator("#translation").inner_text() == ""
    assert page.evaluate("document.activeElement.id") == "text"


@pytest.mark.slow
def test_a_request_is_aborted_by_the_next_one(page: "Page", client: Client) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.select_option("#source", "en")
    page.fill("#text", "A dog runs over the street. " * 500)
    until(page, lambda: client.scheduler.running > 0)
    page.fill("#text", "A dog.")
    until(page, lambda: failed)
    assert translated(page)
    until(page, lambda: client.scheduler.running + client.scheduler.waiting == 0)


@pytest.mark.slow
def test_detection_a_third_language_and_swap(page: "Page") -> None:
    assert page.input_value("#source") == "auto"
    page.select_option("#target", "fr")
    page.fill("#text", "Two small dogs are running over the street.")
    assert translated(page)
    said = page.locator("#status").inner_text()
    assert "Detected language: English." in said and "through German" in said
    assert page.locator("#translation").get_attribute("lang") == "fr"
    # No bundle translates from French.
    assert page.locator("#swap").get_attribute("aria-disabled") == "true"
    page.locator("#swap").press("Enter")
    assert "does not translate French to English" in page.locator("#status").inner_text()


@pytest.mark.slow
def test_swap_takes_the_translation_along(browser: "Browser", directory: Directory) -> None:
    both = Directory({
        pair: next(iter(directory.pairs.values())) for pair in (("en", "de"), ("de", "en"))
    })  # fmt: skip
    with running(both) as client, opened(browser, client.address) as page:
        page.locator("#source option").first.wait_for(state="attached")
        page.select_option("#source", "en")
        page.fill("#text", "A dog runs.")
        before = translated(page)
        page.click("#swap")
        assert (page.input_value("#source"), page.input_value("#target")) == ("de", "en")
        assert page.input_value("#text") == before
        page.reload()  # the languages are remembered, the text is not sent anywhere else
        until(page, lambda: page.input_value("#source") == "de")


@pytest.mark.slow
def test_a_click_on_a_sentence_offers_others(page: "Page", client: Client) -> None:
    page.select_option("#source", "en")
    page.fill("#text", "A dog runs. Two men sit.")
    whole = translated(page)
    first, second = page.locator(".sentence").all()
    best = second.inner_text()
    second.click()
    page.locator("#menu button").first.wait_for()
    offered = page.locator("#menu button").all_inner_texts()
    asked = {"text": "Two men sit.", "source": "en", "target": "de", "alternatives": 4}
    [found] = client.post("/v1/translate", asked).json["translations"]
    assert offered[:5] == [found["text"], *found["alternatives"]]
    other = next(text for text in offered if text != best)
    page.get_by_role("menuitemradio", name=other, exact=True).click()
    assert page.locator("#translation").inner_text() == f"{first.inner_text()} {other}" != whole
    # The choice stays while the sentence does.
    page.fill("#text", "A girl. Two men sit.")
    begin = first.inner_text()
    until(page, lambda: not page.locator("#translation").inner_text().startswith(begin))
    assert page.locator("#translation").inner_text().endswith(other)


@pytest.mark.slow
def test_it_works_without_a_mouse(page: "Page") -> None:
    reached = []
    for _ in range(9):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    wanted = ["theme", "source", "swap", "target", "text", "file"]
    assert [each for each in reached if each in wanted][:6] == wanted
    page.locator("#text").focus()
    page.keyboard.type("A dog runs. Two men sit.")
    translated(page)
    page.locator(".sentence").first.wait_for()
    while page.evaluate("document.activeElement.className") != "sentence":
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator("#menu button").first.wait_for()
    page.keyboard.press("ArrowDown")
    chosen = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == chosen
    assert page.locator("#translation").inner_text().endswith(chosen)
    page.keyboard.press("Space")
    page.locator("#menu button").first.wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("#menu").is_visible()
    assert page.evaluate("document.activeElement.textContent") == chosen


@pytest.mark.slow
def test_a_file_is_sent_and_comes_back(page: "Page", translator: Translator) -> None:
    page.select_option("#source", "en")
    file = {"name": "my notes.txt", "mimeType": "text/plain", "buffer": b"A dog runs.\n"}
    page.set_input_files("#file", [file])  # type: ignore[list-item]
    page.click("#send")
    link = page.locator("#download")
    link.wait_for()
    assert link.inner_text() == "Download my notes_de.txt"
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == "my notes_de.txt"
    assert download.value.path().read_text() == f"{translator('A dog runs.')}\n"


@pytest.mark.slow
def test_the_progress_of_a_file_is_seen_and_can_be_cancelled(page: "Page", client: Client) -> None:
    page.select_option("#source", "en")
    book = ("A dog runs over the street. " * 3000).encode()
    page.set_input_files("#file", [{"name": "b.txt", "mimeType": "text/plain", "buffer": book}])  # type: ignore[list-item]
    page.click("#send")
    until(page, lambda: page.locator("#file-status").inner_text() == "Translating…")
    assert page.locator("#progress").is_visible()
    page.click("#cancel")
    until(page, lambda: page.locator("#file-status").inner_text() == "Cancelled.")
    assert not page.locator("#progress").is_visible()
    until(page, lambda: client.scheduler.running + client.scheduler.waiting == 0)


@pytest.mark.slow
def test_another_file_takes_the_place_of_one_under_way(page: "Page", client: Client) -> None:
    page.select_option("#source", "en")
    book = ("A dog runs over the street. " * 3000).encode()
    page.set_input_files("#file", [{"name": "b.txt", "mimeType": "text/plain", "buffer": book}])  # type: ignore[list-item]
    page.click("#send")
    until(page, lambda: client.scheduler.running > 0)
    page.set_input_files("#file", [{"name": "a.xyz", "mimeType": "text/plain", "buffer": b"a"}])  # type: ignore[list-item]
    page.click("#send")
    said = page.locator("#file-error")
    until(page, lambda: "file format not supported" in said.inner_text())
    # No translation of the first file comes later, with a link beside this error.
    until(page, lambda: client.scheduler.running + client.scheduler.waiting == 0)
    assert said.inner_text() and page.locator("#file-status").inner_text() == ""
    assert not page.locator("#download").is_visible()


@pytest.mark.slow
def test_a_file_that_cannot_be_translated_is_told(browser: "Browser", directory: Directory) -> None:
    with running(directory, Settings(body=2000)) as client, opened(browser, client.address) as page:
        page.locator("#file-section").wait_for()
        said = page.locator("#file-error")
        assert page.locator("#send").is_disabled()  # no file is chosen
        for name, data, words in (
            ("a.txt", b"a" * 3000, "a.txt has 3 KiB, and the server takes at most 2 KiB."),
            (
                "a.xyz",
                b"a",
                "Invalid request: file format not supported; use .txt, .md, .markdown, .html, "
                ".htm, .srt, .vtt.",
            ),
            ("a.txt", b"\xff\xff", "Invalid request: the file is not in UTF-8."),
        ):
            one = {"name": name, "mimeType": "text/plain", "buffer": data}
            page.set_input_files("#file", [one])  # type: ignore[list-item]
            page.click("#send")
            until(page, lambda words=words: said.inner_text() == words)  # type: ignore[misc]


@pytest.mark.slow
def test_a_key_is_asked_for_where_one_is_needed(browser: "Browser", directory: Directory) -> None:
    keys = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend")})
    with running(directory, keys=keys) as client, opened(browser, client.address) as page:
        page.get_by_label("API key").wait_for()
        page.select_option("#source", "en")
        page.fill("#text", "A dog runs.")
        said = page.locator("#error")
        until(page, lambda: said.inner_text() == "Enter your API key above.")
        page.fill("#key", "wrong")
        until(page, lambda: said.inner_text() == "Invalid API key.")
        page.fill("#key", "secret")
        assert translated(page) and said.inner_text() == ""
        page.press("#key", "Enter")  # sends no form
        assert translated(page) and page.url == f"{client.address}/"
        page.reload()
        until(page, lambda: page.input_value("#key") == "secret")


@pytest.mark.slow
def test_errors_are_sentences_and_a_busy_server_is_asked_again(
    browser: "Browser", directory: Directory
) -> None:
    with (
        running(directory, Settings(characters=20), Limits(waiting=0)) as client,
        opened(browser, client.address) as page,
    ):
        page.locator("#source option").first.wait_for(state="attached")
        page.select_option("#source", "en")
        said = page.locator("#error")
        page.fill("#text", "a" * 21)
        long = "The text has 21 characters, and this server takes 20."
        until(page, lambda: said.inner_text() == long)
        page.fill("#text", "A dog runs.")
        until(
            page,
            lambda: "The server is busy; try again later. Trying again in" in said.inner_text(),
        )
        client.scheduler.limits = Limits()
        assert translated(page) and said.inner_text() == ""


@pytest.mark.slow
def test_a_server_that_loads_is_asked_until_it_is_ready(
    browser: "Browser", directory: Directory
) -> None:
    with running(None) as client, opened(browser, client.address) as page:
        said = page.locator("#error")
        until(page, lambda: said.inner_text().startswith("The server is loading its models."))
        client.state.service = Service(client.scheduler, directory)
        until(page, lambda: page.locator("#source option").count() == 3)


@pytest.mark.slow
def test_a_server_that_cannot_be_reached_is_asked_again_by_a_button(
    browser: "Browser", client: Client, translator: Translator
) -> None:
    with opened(browser, client.address, path="/page/base.css") as page:
        page.route("**/languages", lambda route: route.abort())
        page.goto(client.address)
        said, again = page.locator("#error"), page.get_by_role("button", name="Try again")
        again.wait_for()
        assert said.inner_text() == "The server cannot be reached. Check the connection."
        page.unroute("**/languages")
        again.click()
        until(page, lambda: page.locator("#source option").count() == 3)
        assert said.inner_text() == "" and not again.is_visible()
        page.select_option("#source", "en")
        page.route("**/v1/translate", lambda route: route.abort())
        page.fill("#text", "A dog runs.")
        again.wait_for()
        page.unroute("**/v1/translate")
        again.press("Enter")
        assert translated(page) == translator("A dog runs.") and not again.is_visible()
        assert page.evaluate("document.activeElement.id") == "text"


@pytest.mark.slow
def test_it_works_where_the_browser_stores_nothing(
    browser: "Browser", directory: Directory
) -> None:
    blocked = "".join(
        f"Object.defineProperty(window, '{area}', {{get() {{throw new DOMException('no')}}}});"
        for area in ("localStorage", "sessionStorage")
    )
    keys = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend")})
    with (
        running(directory, keys=keys) as client,
        opened(browser, client.address, path="/page/base.css") as page,
    ):
        page.add_init_script(blocked)
        page.goto(client.address)
        page.get_by_label("API key").wait_for()
        page.fill("#key", "secret")
        page.select_option("#source", "en")
        page.fill("#text", "A dog runs.")
        assert translated(page)


@pytest.mark.slow
@pytest.mark.parametrize("damaged", ["{", "7", "[1]"])
def test_damaged_languages_are_forgotten(page: "Page", client: Client, damaged: str) -> None:
    page.evaluate("value => localStorage.setItem('crosshead.languages', value)", damaged)
    page.reload()
    until(page, lambda: page.input_value("#source") == "auto")
    assert page.locator("#error").inner_text() == ""


@pytest.mark.slow
def test_a_proxy_may_put_it_under_a_path(page: "Page", client: Client) -> None:
    def forwarded(route: Any) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace("/below/", "/")))

    page.route(f"{client.address}/below/**", forwarded)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{client.address}/below/")
    page.locator("#source option").first.wait_for(state="attached")
    page.select_option("#source", "en")
    page.fill("#text", "A dog runs.")
    assert translated(page)
    file = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"A dog runs."}
    page.set_input_files("#file", [file])  # type: ignore[list-item]
    page.click("#send")
    page.locator("#download").wait_for()
    address = page.locator("#download").evaluate("link => link.href")
    assert all(each.startswith(f"{client.address}/below/") for each in [*asked, address])


@pytest.mark.slow
def test_light_dark_and_the_switch(browser: "Browser", client: Client) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, client.address, color_scheme="dark") as page:
        dark = page.evaluate(colour)
        page.get_by_role("button", name="Light theme").click()  # the label is what it does
        light = page.evaluate(colour)
        assert page.get_by_role("button", name="Dark theme").is_visible() and light != dark
        page.reload()
        assert page.evaluate(colour) == light
    with opened(browser, client.address, color_scheme="light") as page:
        assert page.evaluate(colour) == light


@pytest.mark.slow
def test_one_pair_on_a_phone(browser: "Browser", directory: Directory) -> None:
    one = Directory({("en", "de"): directory.pairs["en", "de"]})
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    with running(one) as client, opened(browser, client.address, **phone) as page:
        page.locator("#source option").first.wait_for(state="attached")
        reason = page.get_by_text("This server does not translate German to English.")
        assert reason.bounding_box()["height"] > 10  # type: ignore[index]
        style = "button => getComputedStyle(button).cursor"
        assert page.locator("#swap").evaluate(style) == "not-allowed"
        page.fill("#text", "A dog runs.")
        translated(page)
        hint = page.locator("#sentences-hint").inner_text()
        assert hint == "Select a sentence to see other translations."


@pytest.mark.slow
@pytest.mark.parametrize("width", mostly_slow([320, 390, 1280], [320]))
def test_no_width_needs_sideways_scrolling(browser: "Browser", client: Client, width: int) -> None:
    with opened(browser, client.address, viewport={"width": width, "height": 800}) as page:
        page.locator("#source option").first.wait_for(state="attached")
        page.select_option("#source", "en")
        page.fill("#text", "Two men are walking down a street" + ", and down a street" * 9)
        assert len(translated(page)) > 100
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_every_control_has_a_name(page: "Page") -> None:
    page.fill("#text", "A dog runs.")
    translated(page)
    # The text inside an element names a button. In a select it is that of the options.
    names = page.locator("button:visible, select, textarea, input:visible").evaluate_all(
        "all => all.map(e => (e.labels?.[0]?.textContent ?? e.getAttribute('aria-label')"
        " ?? (e.tagName === 'BUTTON' ? e.textContent : '')).trim())"
    )
    assert len(names) > 7 and all(names)
    assert page.locator("html").get_attribute("lang") == "en" and page.title()


def looks(scheme: str, width: int) -> dict[str, Any]:
    """A window; axe-core itself does what the policy of the page forbids."""
    size = {"width": width, "height": 800}
    return {"color_scheme": scheme, "viewport": size, "bypass_csp": True}


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_six_states_of_the_page(
    browser: "Browser", directory: Directory, scheme: str, width: int
) -> None:
    found: dict[str, list[str]] = {}
    keys = Keys({hashlib.sha256(b"secret").hexdigest(): ApiKey("friend")})
    with (
        running(directory, keys=keys) as client,
        opened(browser, client.address, **looks(scheme, width)) as page,
    ):
        page.get_by_label("API key").wait_for()
        found["empty"] = violations(page)
        page.fill("#key", "wrong")
        page.select_option("#source", "en")
        page.fill("#text", "A dog runs. Two men sit.")
        until(page, lambda: page.locator("#error").inner_text() == "Invalid API key.")
        found["a wrong key"] = violations(page)
        page.fill("#key", "secret")
        translated(page)
        found["translated"] = violations(page)
        page.locator(".sentence").first.click()
        page.locator("#menu button").first.wait_for()
        found["other translations"] = violations(page)
        page.keyboard.press("Escape")
        for text in (b"A dog runs over the street. " * 3000, b"A dog runs."):
            file = {"name": "a.txt", "mimeType": "text/plain", "buffer": text}
            page.set_input_files("#file", [file])  # type: ignore[list-item]
            page.click("#send")
            if len(text) > 1000:
                status = page.locator("#file-status")
                until(page, lambda: status.inner_text() == "Translating…")  # noqa: B023
                found["a file under way"] = violations(page)
                page.click("#cancel")
        page.locator("#download").wait_for()
        found["a file done"] = violations(page)
    assert len(found) == 6 and found == {name: [] for name in found}


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_the_documentation(
    browser: "Browser", directory: Directory, scheme: str, width: int
) -> None:
    for keys in (None, Keys({})):
        with (
            running(directory, keys=keys) as client,
            opened(browser, client.address, path="/docs", **looks(scheme, width)) as page,
        ):
            page.locator("h3").first.wait_for()
            assert violations(page) == []


@pytest.mark.slow
def test_axe_would_find_a_violation(browser: "Browser", client: Client) -> None:
    with opened(browser, client.address, **looks("light", 1280)) as page:
        page.locator("#source option").first.wait_for(state="attached")
        page.evaluate("document.querySelector('label[for=source]').remove()")
        assert violations(page) == ["select-name: ['#source']"]
