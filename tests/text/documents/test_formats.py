import time
from collections.abc import Sequence

import pytest

from crosshead.errors import ConfigError
from crosshead.text.documents.document import Document, rebuilt, texts_of
from crosshead.text.documents.formats import ENDS, FORMATS, parser_of

DOCUMENTS = {
    "text": "One.\n\nTwo.\n",
    "markdown": "# One\n\nTwo `three`.\n",
    "html": "<p>One &amp; two</p>\n",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nOne.\n",
}


def test_a_document_of_each_format_is_rebuilt_from_its_texts() -> None:
    assert DOCUMENTS.keys() == FORMATS.keys() == set(ENDS.values())
    for name in FORMATS:
        parts = parser_of(name)(DOCUMENTS[name])
        assert texts_of(parts) and rebuilt(parts, texts_of(parts)) == DOCUMENTS[name]


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown format 'htm'; did you mean 'html'"):
        parser_of("htm")


# Texts that make a pattern with nested or overlapping repetitions slow. Each is a start, a piece
# that is repeated, and an end.
_TIMES = "1\n00:00:01,000 --> 00:00:02,000\n"
SLOW_TEXTS = [
    *[
        ("html", *text)
        for text in [
            ("", "<", ""), ("", "<a", ""), ("", "<a ", ""), ("", '<a "', ""), ("", "<a '\"", ""),
            ("", "<a='", ""), ("<a x=", ' class="', ">"), ("<a", " ", ">x"), ("<a", " =", ""),
            ("<a", "/", ""), ("<a x", "=", ""), ("", "<!", ""), ("", "<!-", ""), ("", "<!--", ""),
            ("<!--", "-", ""), ("", "<!-->", ""), ("", "<?", ""), ("", "<?php ", ""),
            ("", "<![CDATA[", ""), ("", "</", ""), ("", "<script>", ""),
            ("<script>", "</script", ""), ("", "<script></script>", ""),
            ("", "&", ""), ("", "&lt;", ""), ("", "&#1", ""),
            ("&#", "1", ";"), ("&#", "0", ";"), ("&#x", "1", ";"), ("a", " ", "b"), ("", "<b>", ""),
            ("<svg>", "<b></i>", ""), ("", "<p>", ""), ("<p><button>", "<b><div></div>", ""),
            ("", "<li><ul>", ""), ("", "</p>", ""), ("", "a>", ""), ("", "<style>", ""),
            ("", "<p>x", ""), ("", "<code>", ""), ("", "<a><div>", ""), ("", "<table><td>", ""),
            ("<p><b a><b b><b c><b d><b e>", "<p>x", ""), ("", "<i translate=no><p></i>", ""),
        ]
    ],
    *[
        ("markdown", *text)
        for text in [
            ("", "-", "x"), ("", "=", "x"), ("", "- ", "x"), ("", "-", "|"), ("", " ", "x"),
            ("", "|", "x"), ("|", ": ", "x"), ("", "[", ""), ("", "[a", "]"), ("", "a\n", ""),
            ("", "a  \n", ""), ("", "> ", "x"), ("", "1. ", "x"), ("- ", "[ ] ", "x"),
            ("", "`", "b"), ("a ", "`", "b"), ("a ", "`` ` ", ""), ("", "```\n", ""),
            ("", "~~~a\n", ""), ("", "```a", "`"), ("a ", "![", ""), ("a ", "](", ""),
            ("a ", "](a", ""), ("a ", "](a(", ""), ("a ](x", "](x)", ""), ("a ", "](a(b(c(d)", ""),
            ("a ", "]( ", ""), ("a ](", " ", "b"), ("a ", '](b "', ""), ("a ", "](b 'c\" (", ""),
            ("a ", "](<b", ""), ("a ", "](b\\", ""), ("a ", "][", ""), ("a ", "]", ""),
            ("a ", "<a", ""), ("a ", '<a "', ""), ("a ", "<a '\"", ""), ("a ", "<a x='\"'", ""),
            ("a ", "<!--", ""), ("a ", "<!-->", ""), ("a ", "<?", ""), ("", "<script>", ""),
            ("", "<pre>\n", ""), ("", "<!--\n", ""), ("a ", "http://", ""), ("a ", "http://(", ""),
            ("a http://", "a(b)", "("), ("", "a", "@"), ("", "a@", ""), ("", "a.", "@"),
            ("a@", "b-", ""), ("a@b", ".c", "@"), ("a ", "*", "b"), ("a ", "_", "b"),
            ("a", " _", ""), ("---\n", "a\n", ""), ("", "a\n", ""), ("", "- a\n\n\t", ""),
        ]
    ],
    *[
        ("srt", *text)
        for text in [
            (_TIMES, "<a", ""), (_TIMES, "<a ", ">"), (_TIMES, "{\\", ""), (_TIMES, "{\\a", "}"),
            (_TIMES, " ", "x"), (_TIMES, "-", ""), (_TIMES, "a\n", ""), (_TIMES, "a ", "\nb"),
            (_TIMES + "a\n", "bb ", "c"), (_TIMES + "a\n", "a-", "b"), (_TIMES + "a\nb", "-", "b"),
            (_TIMES + "a\n", "b\t", ""), ("", _TIMES, ""), (_TIMES, "1", ""), (_TIMES, "1:", ""),
        ]
    ],
    ("text", "a", " ", "b"), ("text", "", "\r", ""), ("text", "", ".", ""),
    ("text", "", "Hi!)", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "start", "piece", "end"),
    [
        ("markdown", "a ", "`", "b"),
        ("markdown", "", "-", "x"),
        ("markdown", "", "a\n", ""),
        ("html", "<svg>", "<b></i>", ""),
        ("srt", _TIMES, "<a", ""),
        ("srt", _TIMES + "a\n", "bb ", "c"),
    ],
)
def test_the_time_grows_in_proportion_to_the_text(
    name: str, start: str, piece: str, end: str
) -> None:
    check_growth(name, start, piece, end, SIZES[:-1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "start", "piece", "end"), SLOW_TEXTS)
def test_no_pattern_goes_back(name: str, start: str, piece: str, end: str) -> None:
    check_growth(name, start, piece, end)


SIZES = (50, 200, 800, 3_200, 12_800, 51_200, 204_800)
NOISE = 0.05
"""Seconds below which a difference says nothing."""


def check_growth(name: str, start: str, piece: str, end: str, sizes: Sequence[int] = SIZES) -> None:
    """Four times the text takes about four times as long; a quadratic parser takes 16 times."""
    allowed = float("inf")
    for size in sizes:
        text = start + piece * (size // len(piece)) + end
        enough = allowed if size == sizes[-1] else NOISE  # a faster run would change nothing
        used = float("inf")
        for _ in range(3):  # the least disturbed of three
            used = min(used, _seconds(text, name))
            if used <= enough:
                break
        assert used <= allowed, f"{size} characters"
        allowed = 10 * max(used, NOISE)


def _seconds(text: str, name: str) -> float:
    begin = time.process_time()
    document = Document.of(text, parser_of(name))
    document.with_translations(document.sentences)
    return time.process_time() - begin
