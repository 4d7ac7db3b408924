"""Markdown: code, links' addresses and marks stay; the lines of a paragraph are one text."""

import re

from crosshead.data.documents.parts import TextPart

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_PREFIX = re.compile(r"\s*(?:(?:#{1,6}|[-*+]|\d{1,9}[.)]|>)(?:\s+(?:\[[ xX]\]\s+)?|$))*")
_WHOLE = re.compile(r"\s*(?:\[[^\]]+\]:.*|[-*_=]{2,}[\s\-*_=]*|:?-{2,}.*\|.*|\|?[\s:|-]*)$")
_INLINE = re.compile(
    r"(`+)(?:(?!\1).)+\1"  # code
    r"|!?\[|\]\([^()\s]*(?:\s+\"[^\"]*\")?\)|\]\[[^\]]*\]|\]"  # links and images
    r"|<[a-zA-Z/!][^>]*>|https?://[^\s<>)]+"  # tags and addresses
    r"|\*{1,3}|~~|(?<!\w)_{1,2}(?=\S)|(?<=\S)_{1,2}(?!\w)|\|"  # emphasis and cells
)


def markdown_parts(document: str) -> list[TextPart]:
    """Return the parts of a Markdown document.

    Args:
        document: The Markdown.
    """
    parts: list[TextPart] = []
    fence, paragraph = "", ""
    front = document.startswith(("---\n", "---\r\n"))
    for number, line in enumerate(document.splitlines(keepends=True)):
        core = line.rstrip("\r\n")
        end = line[len(core) :]
        if front:
            front = number == 0 or core not in ("---", "...")
            parts.append(TextPart(line))
            continue
        mark = _FENCE.match(core)
        starts = _PREFIX.match(core)
        prefix = starts.group() if starts else ""
        if fence or mark or _WHOLE.match(core) or (core.startswith("    ") and not paragraph):
            _end_paragraph(parts, paragraph)
            paragraph = ""
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1].startswith(fence) and core.strip() == mark[1]:
                fence = ""
            parts.append(TextPart(line))
            continue
        if paragraph and not prefix.strip() and not paragraph.endswith(("  ", "\\")):
            # A paragraph goes on: its lines are one text.
            newline = parts.pop()
            paragraph = f"{paragraph} {core.strip()}"
            parts.append(TextPart(end or newline.text))
            continue
        _end_paragraph(parts, paragraph)
        parts.append(TextPart(prefix))
        paragraph = core[len(prefix) :]
        parts.append(TextPart(end))
    _end_paragraph(parts, paragraph)
    return parts


def _end_paragraph(parts: list[TextPart], paragraph: str) -> None:
    """Insert a paragraph before the line break that is the last part."""
    if paragraph:
        newline = parts.pop()
        parts.extend(_inline(paragraph))
        parts.append(newline)


def _inline(text: str) -> list[TextPart]:
    """Return the parts of a paragraph: marks, and the texts between them."""
    parts: list[TextPart] = []
    position = 0
    for match in _INLINE.finditer(text):
        parts.append(_text(text[position : match.start()]))
        parts.append(TextPart(match.group()))
        position = match.end()
    parts.append(_text(text[position:]))
    return [part for part in parts if part.text]


def _text(raw: str) -> TextPart:
    core = raw.strip()
    if not any(character.isalpha() for character in core):
        return TextPart(raw)
    lead, trail = raw.split(core, 1)
    return TextPart(core, translated=True, write=lambda text: lead + text.strip() + trail)
