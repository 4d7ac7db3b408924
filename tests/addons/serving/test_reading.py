"""Functions that read bodies and documents."""

import resource
import subprocess
import sys
import urllib.parse

import pytest

from crosshead.addons.serving.languages import DETECTED
from crosshead.addons.serving.reading import (
    Reading,
    form_values,
    json_values,
    sample_of,
    sentences_of,
    with_translations,
)
from crosshead.errors import DataError


def test_a_language_is_detected_by_the_beginning_of_the_sentences() -> None:
    assert sample_of(["  a\nb", "c"], Reading()) == "a\nb\nc"
    assert sample_of(["a" * 1500, "b" * 1500, "c"], Reading()) == f"{'a' * 1500}\n{'b' * 499}"
    assert len(sample_of(["a" * 10**6], Reading())) == DETECTED
    page = "<p class='x'>caf&eacute;</p>\n<script>let x;</script><p>bar</p>"
    assert sample_of([page], Reading("html")) == "café\nbar"


@pytest.mark.parametrize(
    "body",
    ["a=1&b=&c&&a=2", "q=%41%zz%c3%a4+%2B%", "a=b=c;d", "%71=ä", "a=%ff", "=1", "&", ""],
)
def test_a_form_is_read_as_python_reads_it(body: str) -> None:
    expected = urllib.parse.parse_qsl(body, keep_blank_values=True)
    assert form_values(body.encode(), 100) == expected


def test_the_fields_of_a_form_are_counted() -> None:
    assert form_values(b"a=1&b=2", 2) == [("a", "1"), ("b", "2")]
    with pytest.raises(DataError, match="number of fields is 1"):
        form_values(b"a=1&b=2", 1)


def test_a_form_of_escapes_takes_little_more_memory_than_its_text() -> None:
    program = (
        "import resource, sys; from crosshead.addons.serving.reading import form_values\n"
        "body = b'q=' + b'%41' * 2**20; resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))\n"
        "assert form_values(body, 9) == [('q', 'A' * 2**20)]"
    ).replace("MOST", str(300 * 2**20))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_values_of_json_are_flat() -> None:
    body = b'{"q": ["a", 1, null], "n": 1.5, "x": {"a": 1}, "y": [[]], "t": true}'
    assert json_values(body, 5) == {"q": [{}], "n": 1.5, "x": {}, "y": [{}], "t": True}
    assert json_values(b'{"q": ["a", "b"], "x": ["a", "b"]}', 2) == {
        "q": ["a", "b"],
        "x": ["a", "b"],
    }
    assert json_values(b'{"q": ["a", "b", "c"]}', 1) == {"q": ["a", "b", "c"]}
    assert json_values(b'{"x": ["a", "b", "c"]}', 1) == {"x": ["a"]}
    with pytest.raises(DataError, match="number of fields is 4"):
        json_values(body, 4)
    for wrong in (b"[]", b"", b"{", b"[" * 10_000, b'{"q": "\\ud83d"}'):
        assert json_values(wrong, 9) is None


def test_a_text_is_read_and_written() -> None:
    texts = ["<p>One. <b>Two</b></p>", ""]
    assert sentences_of(texts, Reading("html")) == [["One.", "Two"], []]
    found = with_translations(texts, Reading("html"), [[["1", "2"], ["1", "2"], ["3", "4"]], [[]]])
    assert found == [["<p>1 <b>2</b></p>", "<p>3 <b>4</b></p>"], [""]]
    assert sentences_of(["A b. C\nd."], Reading("flowing", whole=True)) == [["A b. C d."]]
    assert sentences_of(["1\nhttp://a.b\nc"], Reading(lettered=True)) == [["c"]]
