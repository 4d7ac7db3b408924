import re

import pytest

from crosshead.system.web import page_files

PACKAGES = ["crosshead.addons.serving", "crosshead.inspection"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_page_has_its_own_files_and_those_of_all_pages(package: str) -> None:
    found = page_files(package)
    assert {"base.css", "theme.mjs", "icon.svg"} < found.keys()
    assert {each.kind for each in found.values()} >= {"text/html", "text/css", "text/javascript"}
    tags = {each.headers["ETag"] for each in found.values()}
    assert len(tags) == len(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_names_another_server_or_makes_code_of_text(package: str) -> None:
    for name, file in page_files(package).items():
        text = re.sub(r"http://www.w3.org/[\w/]+", "", file.content.decode())
        assert not re.search(r"https?:|(?:src|href|url)\s*[=(]\s*[\"']?//|@import", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\b|new Function", text)
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text), name


def test_nothing_is_allowed_that_the_page_does_not_need() -> None:
    policy = page_files(PACKAGES[0])["index.html"].headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
