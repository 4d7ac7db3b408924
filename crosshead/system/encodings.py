"""Detection of encodings other than UTF-8, and the command that converts a file."""

import re
import shlex
from pathlib import Path

_HEAD = 4096
"""The number of bytes that distinguish UTF-16 from UTF-8."""

_MARKS = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\x00\x00\xfe\xff", "UTF-32"),
          (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))  # fmt: skip
"""Byte order marks, the longer ones first."""

_FEWEST_ZEROS = 16
_LEAST_SHARE = 0.1
_NOT_WESTERN = frozenset(b"\x81\x8d\x8f\x90\x9d")
"""Bytes without a character in Windows-1252."""


def wide_encoding(head: bytes) -> str | None:
    """Return the name of the UTF-16 or UTF-32 encoding of a file, or None.

    Without a byte order mark, UTF-16 is recognised by its zero bytes. All of them are at even
    places or all at odd places, because in most scripts letters, spaces and line ends have one zero
    byte each.
    """
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    head = head[:_HEAD]
    counts = head[::2].count(0), head[1::2].count(0)
    enough = max(_FEWEST_ZEROS, _LEAST_SHARE * len(head) / 2)
    if min(counts) == 0 and max(counts) >= enough:
        return "UTF-16BE" if counts[0] else "UTF-16LE"
    return None


def legacy_advice(raw: bytes, name: str) -> str:
    """Return a clause with the likely encoding of bytes that are not UTF-8, and the remedy."""
    text = raw.decode("utf-8", errors="replace")
    wrong = text.count("\ufffd")
    good = len(re.findall(r"[^\x00-\x7f\ufffd]", text))
    if good > 10 * wrong:
        return "the rest of the file looks like UTF-8, so repair this line"
    high = sum(byte > 0x7F for byte in raw)
    letters = len(re.findall(rb"[A-Za-z]", raw))
    if high > letters or _NOT_WESTERN & set(raw):
        return (
            f"convert the file, with the name of its encoding: {conversion('ENCODING', name)} "
            "(WINDOWS-1251, SHIFT_JIS, GB18030, EUC-KR and others: iconv -l lists them)"
        )
    return (
        "perhaps the file is windows-1252 (Western European), which this command converts: "
        f"{conversion('WINDOWS-1252', name)}"
    )


def conversion(encoding: str, name: str) -> str:
    """Return the command that writes a UTF-8 copy of a file.

    The copy of `train.en` is `train.utf8.en`: the suffix stays, because it names the content.
    """
    path = Path(name)
    if not path.suffix and not path.is_file():  # standard input
        return f"iconv -f {encoding} -t UTF-8 IN > OUT"
    return _copying(f"iconv -f {encoding} -t UTF-8", "", name, "utf8")


def line_feeds(name: str) -> str:
    """Return the command that writes a copy of a file with line feeds for carriage returns."""
    return _copying(r"tr '\r' '\n'", "< ", name, "lines")


def _copying(command: str, before: str, name: str, mark: str) -> str:
    """Return `command` on a file, gunzipped if need be, into a copy with `mark` in its name.

    `before` stands between the command and the name of a file that is not gzipped.
    """
    path = Path(name)
    zipped = path.suffix == ".gz"
    inner = path.with_suffix("") if zipped else path
    copy = shlex.quote(str(inner.with_name(f"{inner.stem}.{mark}{inner.suffix}")))
    if zipped:
        return f"gunzip -c {shlex.quote(name)} | {command} > {copy}"
    return f"{command} {before}{shlex.quote(name)} > {copy}"


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can express a text: a name of a file may hold other bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
