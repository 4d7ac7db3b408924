"""A real browser for the tests of pages: Chromium, driven by Playwright."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def launched() -> "Iterator[Browser]":
    """Chromium, or a test that is skipped."""
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright, of the extra `dev`")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with api.sync_playwright() as playwright:
        # A container has no sandbox for the administrator.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def opened(browser: "Browser", address: str, path: str = "", **wishes: Any) -> "Iterator[Page]":
    """The page in a new window; errors in its console fail the test."""
    complaints: list[str] = []
    with browser.new_context(**wishes) as context:
        context.set_default_timeout(20_000)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda line: (
                complaints.append(line.text)
                if re.search(r"Content Security Policy|\[DOM\]", line.text)
                else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(address) else complaints.append(request.url)
            ),
        )
        page.goto(address + path)
        yield page
    assert complaints == []


WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]


def violations(page: "Page") -> list[str]:
    """What axe-core finds against its rules for WCAG 2.2 A and AA."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-core")
    rules = {"runOnly": {"type": "tag", "values": WCAG}}
    found = axe.Axe().run(page, options=rules).response["violations"]
    return [f"{each['id']}: {node['target']}" for each in found for node in each["nodes"]]
