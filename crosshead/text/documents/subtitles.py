"""Subtitles in SubRip's and WebVTT's format: times stay, the lines of a subtitle are one text.

Tags in a text are found where placeholders are (`crosshead.text.marks`).
"""

import re
import textwrap
from bisect import bisect_left

from crosshead.errors import DataError
from crosshead.text.documents.document import TextPart

_TIME = r"(?:\d+:)?\d\d:\d\d[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
_TAG = re.compile(r"<[^<>]*+>")


def subtitle_parts(document: str) -> list[TextPart]:
    """Return the parts of subtitles.

    A translation is broken into as many lines as the source has. Lines that begin with a dash are
    said by different people, and stay lines of their own.
    """
    lines = document.splitlines(keepends=True)
    if not any(map(_TIMES.match, lines)):
        raise DataError(
            "no line has the times of a subtitle, such as `00:00:01,000 --> 00:00:02,500`; give a "
            "file in SubRip's format"
        )
    parts: list[TextPart] = []
    spoken: list[str] = []
    inside = False
    for line in lines:
        if inside and line.strip() and not _TIMES.match(line):
            spoken.append(line)
            continue
        parts += _subtitle(spoken)
        spoken = []
        inside = bool(_TIMES.match(line)) or (inside and bool(line.strip()))
        parts.append(TextPart(line))
    return parts + _subtitle(spoken)


def _subtitle(lines: list[str]) -> list[TextPart]:
    """Return the parts of the spoken lines of one subtitle."""
    spoken_by_one = not any(line.lstrip().startswith(("-", "–")) for line in lines)
    if len(lines) > 1 and spoken_by_one:
        return _together(lines)
    return [part for line in lines for part in _line(line)]


def _together(lines: list[str]) -> list[TextPart]:
    text = " ".join(line.strip() for line in lines)
    breaks = [line[len(line.rstrip("\r\n")) :] for line in lines]

    def write(translation: str) -> str:
        return (breaks[0] or "\n").join(_broken(translation, len(lines)))

    return [TextPart(text, translated=True, write=write), TextPart(breaks[-1])]


def _line(line: str) -> list[TextPart]:
    core = line.rstrip("\r\n")
    dash = re.match(r"\s*[-–]?\s*", core)
    start = dash.end() if dash else 0
    text = core[start:]
    parts = (TextPart(core[:start]), TextPart(text, translated=bool(text.strip())))
    return [*(part for part in parts if part.text), TextPart(line[len(core) :])]


def _broken(text: str, count: int) -> list[str]:
    """Return the text in at most `count` lines of similar length."""
    shortest = max(1, -(-len(text) // count))

    # A tag is not broken.
    joined = _TAG.sub(lambda tag: tag[0].replace(" ", "\0"), text)

    def lines(width: int) -> list[str]:
        wrapped = textwrap.wrap(joined, width, break_long_words=False, expand_tabs=False)
        return [line.replace("\0", " ") for line in wrapped]

    widths = range(shortest, len(text) + 1)
    fitting = bisect_left(widths, True, key=lambda width: len(lines(width)) <= count)
    return lines(shortest + fitting) or [text]
