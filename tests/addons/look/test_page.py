"""The page in Chromium, live and saved."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from crosshead.addons.look.server import Server
from crosshead.addons.look.session import Session
from crosshead.inspection import AttentionWeights, HeadOff, trace
from crosshead.inspection.forms import weights_form
from crosshead.inspection.saved_page import saved_page
from crosshead.tasks.translation.translator import Translator
from tests.browser import opened, violations
from tests.inspection.pipelines import pipeline_of
from tests.parameters import mostly_slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

TEXT = "to be or"
SIXTY = "to be or not to be that is the question to be or not to be "
VIEWS = ["Step by step", "Heads", "Numbers", "Beam", "Layers", "What matters", "Two models"]
LOOKS = [*itertools.product(["light", "dark"], [1280, 360])]
CODE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>", "<math><mtext><img src onerror=alert(1)>",
    "<style>@import 'x'</style>", "<a href='javascript:alert(1)'>a</a>", "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}", "<object data='data:text/html,<b>'>",
    "<base href='//x'>", "<meta http-equiv=refresh content='0;url=//x'>", "&lt;b&gt;",
    "<input autofocus onfocus=alert(1)>", "<link rel=stylesheet href=//x>", "__proto__",
    "<template><script>alert(1)</script></template>", "\\u003cscript>alert(1)", "constructor",
    "<details open ontoggle=alert(1)>",
]  # fmt: skip
AROUND = [
    "{}",
    '"{}',
    "'{}",
    "</script>{}",
    "<!--{}",
    "]]>{}",
    "\u202e{}",
    "`{}",
    "\u2028{}",
    "</style>{}",
]
HOSTILE = [around.replace("{}", code) for around in AROUND for code in CODE]


def translator() -> Translator:
    """A model of sixty pieces whose output has at least five."""
    found = pipeline_of("transformer")
    assert isinstance(found, Translator)
    decode = found.bundle.config.decode.model_copy(update={"max_extra": 6, "min_length": 5})
    config = found.bundle.config.model_copy(update={"decode": decode, "longest_source": 60})
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


def press_cell(page: "Page", query: int, key: int) -> None:
    """Click on a cell of the matrix; numbers below 0 count from the end."""
    canvas = page.locator(".map canvas")
    rows, columns = (int(canvas.get_attribute(each) or 0) for each in ("height", "width"))
    canvas.click(position={"x": 24 * (key % columns) + 12, "y": 24 * (query % rows) + 12})


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
    view(page, "Beam")
    assert page.locator("svg text.best").count() > 1


def test_an_edge_is_forbidden_and_a_state_patched(page: "Page") -> None:
    view(page, "Heads")
    press_cell(page, 0, 0)
    page.get_by_role("button", name="may not attend to").wait_for()
    view(page, "What matters")
    page.get_by_label("Other text").fill("be or to")
    page.get_by_role("button", name="Compute").click()
    page.locator(".map").wait_for()
    press_cell(page, -1, -1)
    page.get_by_role("button", name="from the other text").wait_for()


def test_edges_of_sixty_pieces_are_forbidden_by_the_pointer_and_by_keys(
    browser: "Browser", address: str
) -> None:
    with opened(browser, address, forced_colors="active") as page:
        page.get_by_label("Text").fill(SIXTY)
        page.get_by_role("button", name="Look", exact=True).click()
        settled(page)
        view(page, "Heads")
        page.get_by_label("Attention").select_option("encoder")
        press_cell(page, 49, 39)
        page.get_by_role("button", name="50 may not attend to 40").wait_for()
        cell = page.locator("#cell:focus")
        for key in ("ArrowRight", "ArrowUp", "Enter"):
            cell.press(key)
        page.get_by_role("button", name="49 may not attend to 41").wait_for()
        words = [page.locator(".says").inner_text(), cell.get_attribute("aria-label")]
        assert words == ["␣ → t: masked"] * 2


def test_the_output_is_played_to_its_end(
    browser: "Browser", address: str, session: Session, tmp_path: Path
) -> None:
    for place in (address, saved(session, tmp_path).as_uri()):
        with opened(browser, place) as page:
            page.clock.install()
            play, count = page.locator("#play"), page.locator("#count")
            last = page.locator("#step").get_attribute("max")
            assert last is not None
            play.press("Enter")
            assert play.inner_text() == "Pause"
            page.clock.run_for(60_000)
            steps = int(last) + 1
            assert (play.inner_text(), count.inner_text()) == ("Play", f"Step {steps} of {steps}")
            play.press("Enter")  # from the beginning again
            page.clock.run_for(2_000)
            assert count.inner_text() == f"Step 3 of {steps}"
            page.get_by_role("heading", name="Look inside").click()
            ended = count.inner_text()  # real time passes, too, on a busy machine
            page.clock.run_for(2_000)
            assert (play.inner_text(), count.inner_text()) == ("Play", ended)


def test_a_change_before_the_answer_to_another_keeps_both(page: "Page") -> None:
    view(page, "Heads")
    held: list[Route] = []
    page.route("**/ask", lambda route: held.append(route))
    for head in (1, 2):
        page.get_by_role("button", name=f"layer 1, head {head}").click()
        page.get_by_role("button", name="Switch this head off").click()
    for route in held:
        route.continue_()
    page.unroute("**/ask")
    page.get_by_role("button", name="head 2 of layer 1").wait_for()
    assert page.locator("#edits button").count() == 2


def test_a_change_of_a_head_stays_with_another_text_that_is_looked_at(page: "Page") -> None:
    """A text that is only typed is not looked at by a change."""
    view(page, "Heads")
    page.get_by_label("Text").fill("that is")
    page.get_by_role("button", name="Switch this head off").click()
    page.get_by_role("button", name="head 1 of layer 1").wait_for()
    before = page.locator("#translation").inner_text()
    changed = trace(translator(), TEXT, edits=[HeadOff("cross", 1, 1)])
    assert before.strip() == changed.found[0].text.strip()
    page.get_by_role("button", name="Look", exact=True).click()
    settled(page)
    other = trace(translator(), "that is", edits=[HeadOff("cross", 1, 1)])
    page.get_by_text(other.found[0].text.strip(), exact=False).first.wait_for()
    assert page.locator("#edits button").count() == 1


def test_a_change_that_fails_is_not_in_force(page: "Page") -> None:
    view(page, "Heads")
    press_cell(page, -1, -1)  # an edge that a shorter output does not have
    page.get_by_role("button", name="may not attend to").wait_for()
    page.route("**/ask", lambda route: route.fulfill(status=400, json={"error": "no query 6"}))
    page.get_by_role("button", name="Diagonal weights").click()
    page.get_by_text("no query 6").wait_for()
    assert page.locator("#edits button").count() == 1
    page.unroute("**/ask")
    page.get_by_role("button", name="Take back").click()
    page.locator("#before").wait_for(state="detached")


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


def hostile_answers(texts: list[str]) -> list[dict[str, Any]]:
    """The answers of a model all of whose texts are hostile."""
    count = len(texts)
    packed = weights_form(AttentionWeights("encoder", texts, texts, torch.eye(count)[None, None]))
    best = [[[text, 0.5, 0]] for text in texts]
    row = {"parent": 0, "log_prob": 0.0, "best": []}
    found = {"score": 0.0, "log_prob": 0.0, "finished": True}
    trace = packed | {
        "source": texts, "read": texts, "target": texts, "ids": [0] * count, "best": best,
        "probabilities": [0.5] * count, "lens": [best, best],
        "beam": [[row | {"piece": text}] for text in texts],
        "found": [found | {"text": text} for text in texts],
    }  # fmt: skip
    effect = {"kind": "encoder", "layer": 1, "head": 1, "effect": -1.0}
    return [
        {"request": {"ask": "trace", "text": texts[0]}, "answer": trace},
        {"request": {"ask": "heads", "text": texts[0]}, "answer": {"effects": [effect]}},
    ]


def test_no_text_becomes_code(browser: "Browser", session: Session, tmp_path: Path) -> None:
    """The texts are the source, its pieces, the output, names of models, and parts of a file."""
    assert len(HOSTILE) == 200
    models = [session.models[0] | {"name": HOSTILE[1], "shape": HOSTILE[2]}]
    file = tmp_path / "page.html"
    file.write_text(saved_page(models, HOSTILE[0], hostile_answers(HOSTILE)), "utf-8")
    with opened(browser, file.as_uri()) as page:
        page.on("dialog", lambda _: pytest.fail("the text was executed"))
        page.get_by_role("tab").first.wait_for()
        for name in ("Step by step", "Heads", "Beam", "Layers", "What matters"):
            view(page, name)
            settled(page)
            assert page.locator("main :is(img, script, iframe, object, style, base)").count() == 0
            assert page.get_by_text("alert(1)").count() > 0, name


@pytest.mark.slow
def test_no_text_that_is_typed_becomes_code(page: "Page") -> None:
    page.on("dialog", lambda _: pytest.fail("the text was executed"))
    for text in HOSTILE[:: len(CODE) + 1]:
        page.get_by_label("Text").fill(text)
        page.get_by_role("button", name="Look", exact=True).click()
        settled(page)
        assert page.locator("main :is(img, script, iframe, object, style, base)").count() == 0


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
