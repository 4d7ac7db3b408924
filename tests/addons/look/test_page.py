"""The page in Chromium, live and saved."""

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crosshead.addons.look.server import Server
from crosshead.addons.look.session import Session
from crosshead.inspection import HeadOff, trace
from crosshead.inspection.saved_page import saved_page
from crosshead.tasks.translation.translator import Translator
from tests.browser import opened, violations
from tests.inspection.pipelines import pipeline_of
from tests.parameters import mostly_slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXT = "to be or"
VIEWS = ["Step by step", "Heads", "Numbers", "Beam", "Layers", "What matters", "Two models"]
LOOKS = [*itertools.product(["light", "dark"], [1280, 360])]
HOSTILE = [
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "</script><script>alert(1)",
    '"><svg onload=alert(1)>', "javascript:alert(1)", "{{7*7}}", "${alert(1)}", "<!--", "]]>",
    "\u202eabc", "&lt;b&gt;", "<iframe srcdoc='<script>alert(1)</script>'>", "a\u2028b",
    "<math><mtext><style><img src onerror=alert(1)>", "__proto__", "constructor", "' onclick='x",
]  # fmt: skip


def translator() -> Translator:
    """A model whose output has at least five pieces."""
    found = pipeline_of("transformer")
    assert isinstance(found, Translator)
    decode = found.bundle.config.decode.model_copy(update={"max_extra": 6, "min_length": 5})
    config = found.bundle.config.model_copy(update={"decode": decode})
    object.__setattr__(found.bundle, "config", config)
    return found


@pytest.fixture(scope="module")
def session() -> Session:
    return Session({"first": translator(), "second": pipeline_of("luong")})


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    server = Server(session, 0, TEXT)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def page(browser: "Browser", address: str) -> "Iterator[Page]":
    with opened(browser, address, viewport={"width": 1280, "height": 720}) as found:
        found.get_by_role("tab").first.wait_for()
        yield found


def view(page: "Page", name: str) -> None:
    page.get_by_role("tab", name=name).click()
    page.locator(f'[role=tab][aria-selected=true]:text-is("{name}")').wait_for()


def settled(page: "Page") -> None:
    """Wait until nothing is being computed."""
    page.locator("#status:empty").wait_for(state="attached")
    for each in page.get_by_text("Computing").all():
        each.wait_for(state="detached")


def saved(session: Session, tmp_path: Path, text: str = TEXT) -> Path:
    requests = [{"ask": ask, "text": text} for ask in ("trace", "heads")]
    answers = [{"request": each, "answer": session.answer(each)} for each in requests]
    file = tmp_path / "page.html"
    file.write_text(saved_page(session.models, text, answers), "utf-8")
    return file


def test_the_numbers_of_the_page_are_those_of_the_trace(page: "Page", session: Session) -> None:
    found = trace(translator(), TEXT)
    view(page, "Numbers")
    page.get_by_label("Query").select_option("1")
    layer = found.attention["cross"][0]
    products = layer.query[0, 1] @ layer.key[0].T
    rows = page.locator("tbody tr").all()[:-1]
    cells = [
        [cell.replace("−", "-") for cell in row.locator("td").all_inner_texts()] for row in rows
    ]
    for key, cell in enumerate(cells):
        assert float(cell[0]) == pytest.approx(float(products[key]), abs=6e-4)
        assert float(cell[1]) == pytest.approx(float(layer.scores[0, 1, key]), abs=6e-4)
        assert float(cell[2]) == pytest.approx(float(layer.weights[0, 1, key]), abs=6e-4)
    # What the page computes from the tensors, without the digits that it leaves out.
    exact = page.evaluate(
        """async (text) => {
          const { opened } = await import("/page/tensor.mjs");
          const { rowOf } = await import("/page/numbers.mjs");
          const headers = { "Content-Type": "application/json" };
          const body = JSON.stringify({ ask: "trace", text });
          const answer = await (await fetch("/ask", { method: "POST", headers, body })).json();
          const row = rowOf(opened(answer).attention.cross.layers[0], 0, 1);
          return [row.products, row.scaled, row.softmax, [...row.context]];
        }""",
        TEXT,
    )
    context = layer.weights[0, 1] @ layer.value[0]
    expected = [products, layer.scores[0, 1], layer.weights[0, 1], context]
    for own, other in zip(exact, expected, strict=True):
        assert own == pytest.approx(other.tolist(), abs=1e-6)


def test_a_head_is_switched_off_and_on_again(page: "Page") -> None:
    changed = trace(translator(), TEXT, edits=[HeadOff("cross", 2, 3)])
    view(page, "Heads")
    page.get_by_role("button", name="layer 2, head 3").click()
    page.get_by_role("button", name="Switch this head off").click()
    page.locator("#before").wait_for()
    assert page.locator("#translation").inner_text().strip() == changed.found[0].text.strip()
    settled(page)
    assert "nats" in page.locator("#matters").inner_text()
    page.get_by_role("button", name="Take back").click()
    page.locator("#before").wait_for(state="detached")


def test_a_piece_is_forced_and_the_output_goes_on(page: "Page") -> None:
    page.get_by_role("button", name="Next", exact=True).click()
    choices = page.get_by_role("group", name="Most probable pieces").get_by_role("button")
    piece = choices.last.inner_text()
    choices.last.click()
    page.locator("#before").wait_for()
    page.get_by_role("button", name="Back", exact=True).click()
    assert page.locator(".pieces li.now").inner_text() == piece


def test_an_edge_is_forbidden_and_a_state_patched(page: "Page") -> None:
    view(page, "Heads")
    page.locator("svg .cell").first.click()
    page.get_by_role("button", name="may not attend to").wait_for()
    view(page, "What matters")
    page.get_by_label("Other text").fill("be or to")
    page.get_by_role("button", name="Compute").click()
    page.locator("svg .cell").first.wait_for()
    page.locator("svg .cell").last.click()
    page.get_by_role("button", name="from the other text").wait_for()


def test_an_error_is_shown_and_does_not_stay(page: "Page") -> None:
    page.get_by_label("Text").fill("to be or not " * 200)
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator("#error:not(:empty)").wait_for()
    page.get_by_label("Text").fill("be")
    page.get_by_role("button", name="Look", exact=True).click()
    page.locator("#error:empty").wait_for(state="attached")


def test_the_views_are_reached_by_the_keyboard(page: "Page") -> None:
    page.get_by_role("tab").first.focus()
    for name in VIEWS[1:]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.textContent") == name
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == name
    page.keyboard.press("Home")
    assert page.evaluate("document.activeElement.textContent") == VIEWS[0]


@pytest.mark.parametrize(("scheme", "width"), mostly_slow(LOOKS, [LOOKS[0], LOOKS[-1]]))
def test_every_view_fits_and_can_be_used_by_all(
    browser: "Browser", address: str, scheme: Any, width: int
) -> None:
    size = {"width": width, "height": 720}
    with opened(browser, address, viewport=size, color_scheme=scheme, bypass_csp=True) as page:
        page.get_by_role("tab").first.wait_for()
        for name in VIEWS:
            view(page, name)
            settled(page)
            assert violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("hostile", mostly_slow(HOSTILE, HOSTILE[:2]))
def test_no_text_becomes_code(
    browser: "Browser", session: Session, address: str, tmp_path: Path, hostile: str
) -> None:
    """The text is the source, its pieces, the output, a name of a model, and a part of a file."""
    answer = session.answer({"ask": "trace", "text": TEXT})
    told = json.loads(json.dumps(answer).replace('"to"', json.dumps(hostile)))
    for name in ("source", "read", "target"):
        told[name] = [hostile] * len(told[name])
    for each in told["attention"].values():
        each["queries"], each["keys"] = (
            [hostile] * len(each[side]) for side in ("queries", "keys")
        )
    told["found"] = [each | {"text": hostile} for each in told["found"]]
    told["beam"] = [[row | {"piece": hostile} for row in rows] for rows in told["beam"]]
    told["best"] = [[[hostile, *rest] for _, *rest in rows] for rows in told["best"]]
    told["lens"] = [[[[hostile, *r] for _, *r in rows] for rows in layer] for layer in told["lens"]]
    models = [each | {"name": hostile, "shape": hostile} for each in session.models[:1]]
    requests = [{"ask": ask, "text": hostile} for ask in ("trace", "heads")]
    effects = session.answer({"ask": "heads", "text": TEXT})
    answers = [
        {"request": each, "answer": found}
        for each, found in zip(requests, (told, effects), strict=True)
    ]
    file = tmp_path / "page.html"
    file.write_text(saved_page(models, hostile, answers), "utf-8")
    with opened(browser, file.as_uri()) as page:
        page.on("dialog", lambda _: pytest.fail("the text was executed"))
        page.get_by_role("tab").first.wait_for()
        for name in VIEWS[:-1]:
            view(page, name)
            settled(page)
            assert page.locator("#panel img, #panel script, #panel iframe").count() == 0
    with opened(browser, address) as page:
        page.on("dialog", lambda _: pytest.fail("the text was executed"))
        page.get_by_role("tab").first.wait_for()
        page.get_by_label("Text").fill(hostile)
        page.get_by_role("button", name="Look", exact=True).click()
        settled(page)
        for name in VIEWS[:-1]:
            view(page, name)


def test_a_saved_page_works_without_a_server(
    browser: "Browser", session: Session, tmp_path: Path
) -> None:
    file = saved(session, tmp_path)
    with opened(browser, file.as_uri(), offline=True) as page:
        page.get_by_role("tab").first.wait_for()
        for name in VIEWS[:6]:
            view(page, name)
            settled(page)
        assert page.get_by_role("button", name="Switch").count() == 0
        assert page.locator("#error").inner_text() == ""
