"""Markdown: code, links' addresses and marks stay; the lines of a paragraph are one text.

The time grows in proportion to the document: a pattern never goes back over what it has read, or
what it reads ends at the next mark of its own kind.
"""

import re
from collections import Counter

from crosshead.text.documents.block import Block
from crosshead.text.documents.document import TextPart

_FENCE = re.compile(r"\s{0,3}(`{3,}+(?!.*`)|~{3,})")
_PREFIX = re.compile(r"\s*+(?:(?:#{1,6}|[-*+]|\d{1,9}[.)]|>)(?:\s++(?:\[[ xX]\]\s++)?|$))*+")
_ITEM = re.compile(r"[-*+\d]")
_WHOLE = re.compile(r"\s*+(?:\[[^\]]++\]:|[-*_=]{2}[\s\-*_=]*+$|:?--.*\||[\s:|-]*+$)")
_RAW_BLOCK = re.compile(r"\s{0,3}(?:<(script|pre|style|textarea)(?![\w-])|<!--|<\?)", re.IGNORECASE)

_HARD_BREAKS = ("  ", "\\")

_ADDRESS = (
    r"(?:[^()\s\\]|\\\S?|\((?:[^()\s\\]|\\\S?|\([^()\s]*+\))*+\))*+"  # (a (b)) is the deepest
)
_TITLE = r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\([^()]*+\)"
_INLINE = re.compile(
    r"\\[!-/:-@\[-`{-~]"  # a character that is no mark
    r"|(?P<note>\[\^[^\]\s]++\])"
    r"|(?P<lookup>`++|<!--|<\?)"  # the start of code and of a comment: where they end is looked up
    rf"|(?P<open>!?\[)|(?P<close>\](?:\(\s*+(?:<[^<>]*+>|{_ADDRESS})(?:\s++(?:{_TITLE}))?+\s*+\)"
    r"|\[[^\]]*+\])?+)"  # links
    r"|(?P<tag></?(?P<name>[a-zA-Z][\w-]*+)(?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+>|<[a-zA-Z/!][^<>]*+>)"
    r"|(?P<address>https?://(?:[^\s<>()]|\([^\s<>()]*+\))++)"
    r"|(?P<both>\*{1,3}|~~|(?<!\w)_{1,2}(?=\S)|(?<=\S)_{1,2}(?!\w))|(?P<cell>\|)"
)

_LIVE = re.compile(r"<(?=[a-zA-Z/!?])")

_LOOKED_UP = {"<!--": "-->", "<?": "?>"}


def markdown_parts(document: str) -> list[TextPart]:
    """Return the parts of a Markdown document."""
    parts: list[TextPart] = []
    paragraph: list[str] = []
    fence, closing = "", ""  # what ends a block of code, or of HTML
    margin = 0  # the column of the text of a list's item: code is four columns to its right
    front = document.startswith(("---\n", "---\r\n"))
    for number, line in enumerate(document.splitlines(keepends=True)):
        core = line.rstrip("\r\n")
        end = line[len(core) :]
        if front:
            front = number == 0 or core not in ("---", "...")
            parts.append(TextPart(line))
            continue
        if closing:
            closing = "" if closing in core.lower() else closing
            parts.append(TextPart(line))
            continue
        mark = _FENCE.match(core)
        raw = "" if fence else _raw_block(core)
        starts = _PREFIX.match(core)
        prefix = starts.group() if starts else ""
        indent = len(core[: len(core) - len(core.lstrip(" \t"))].expandtabs(4))
        code = indent >= margin + 4 and not paragraph
        if fence or mark or raw or code or _WHOLE.match(core):
            _end_paragraph(parts, paragraph)
            paragraph = []
            if core.strip() and indent < 2 and not fence:
                margin = 0
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1].startswith(fence) and core.strip() == mark[1]:
                fence = ""
            closing = "" if raw in core.lower() else raw
            parts.append(TextPart(line))
            continue
        if paragraph and not prefix.strip() and not paragraph[-1].endswith(_HARD_BREAKS):
            # A paragraph goes on: its lines are one text.
            newline = parts.pop()
            paragraph.append(core.lstrip() if core.endswith(_HARD_BREAKS) else core.strip())
            parts.append(TextPart(end or newline.text))
            continue
        _end_paragraph(parts, paragraph)
        if _ITEM.search(prefix):
            margin = len(prefix.partition("[")[0].expandtabs(4))
        elif indent < 2:
            margin = 0
        parts.append(TextPart(prefix))
        paragraph = [core[len(prefix) :]]
        parts.append(TextPart(end))
    _end_paragraph(parts, paragraph)
    return parts


def _raw_block(core: str) -> str:
    """Return what ends the block that stays as it is and that begins with a line, or nothing."""
    found = _RAW_BLOCK.match(core)
    if found is None:
        return ""
    if found[1]:
        return f"</{found[1].lower()}>"
    closing = "?>" if found.group().endswith("?") else "-->"
    # A comment on a single line is a mark in a paragraph.
    return "" if closing in core else closing


def _written(text: str) -> str:
    """Return a text in which no tag of HTML begins."""
    return _LIVE.sub(r"\\<", text)


def _end_paragraph(parts: list[TextPart], lines: list[str]) -> None:
    """Insert a paragraph before the line break that is the last part."""
    if lines:
        newline = parts.pop()
        parts.extend(_inline(" ".join(lines)))
        parts.append(newline)


def _inline(text: str) -> list[TextPart]:
    """Return the parts of a paragraph: its cells, each a text with the marks in it."""
    parts: list[TextPart] = []
    block = Block(_written)
    code = _code_ends(text)
    last = {start: text.rfind(end) for start, end in _LOOKED_UP.items()}
    emphasised, counts = list[str](), Counter[str]()
    begin = position = 0
    while (match := _INLINE.search(text, position)) is not None:
        position = end = match.end()
        mark = match.group()
        if mark[0] == "`":
            end = code.get(match.start(), 0)
        elif mark in last:
            found = last[mark] >= position - 2 and text.find(_LOOKED_UP[mark], position - 2)
            end = found + len(_LOOKED_UP[mark]) if found else 0
        if not end:
            continue  # the mark is text
        block.add(text[begin : match.start()])
        kept = [TextPart(text[match.start() : end])]
        begin = position = end
        if match["cell"]:
            parts += [*block.parts(), *kept]
            block = Block(_written)
        elif match["both"]:
            closes = counts[mark] > 0 and not text[match.start() - 1].isspace()
            block.mark(kept, "close" if closes else "open", mark)
            if closes:
                while counts[mark] and (ended := emphasised.pop()):
                    counts[ended] -= 1
                    if ended == mark:
                        break
            else:
                emphasised.append(mark)
                counts[mark] += 1
        elif match["open"] or match["close"]:
            block.mark(kept, "open" if match["open"] else "close", "[")
        elif match["name"] and not mark.endswith("/>"):
            block.mark(kept, "close" if mark[1] == "/" else "open", match["name"].lower())
        else:
            block.mark(kept, "word" if mark[0] == "`" else "lone")
    rest = text[begin:].rstrip()
    block.add(rest)
    block.add(text[begin:][len(rest) :])
    return [*parts, *block.parts()]


def _code_ends(text: str) -> dict[int, int]:
    """Return where the code ends that begins at a run of backticks: at a run of the same length."""
    ends: dict[int, int] = {}
    following: dict[int, int] = {}
    for start, end in reversed([match.span() for match in re.finditer("`+", text)]):
        if end - start in following:
            ends[start] = following[end - start]
        following[end - start] = end
    return ends
