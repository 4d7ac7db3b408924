"""Texts in one case: all capitals, small letters alone, or a capital at the head of each word.

Their case tells nothing, and a model that has seen few of them cannot read them. So each word is
read in the case that its tokenizer knows best (after Lita et al. 2003, "tRuEcasIng").
"""

import re
from collections.abc import Callable

_WORD = re.compile(r"(?<!\w)[^\W\d_]+(?:['’][^\W\d_]+)*(?!\w)")
"""A word of letters, not a code such as A4."""

_LEAST_WORDS, _SHORT = 4, 3
"""A title has so many words or more. Its words of at most so many letters may be small."""


def in_capitals(text: str) -> bool:
    """Return whether a text has two letters or more, and no small ones."""
    return text.isupper() and sum(map(str.isupper, text)) > 1


def _is_title(text: str) -> bool:
    words = _WORD.findall(text)
    return len(words) >= _LEAST_WORDS and all(
        (word[0].isupper() and word[1:] == word[1:].lower())
        or (word.islower() and len(word) <= _SHORT)
        for word in words
    )


def recased(text: str, cost: Callable[[str], int]) -> str:
    """Return a text in one case with each word in the case in which it costs least.

    Where a word costs the same in both, its small letters are taken. Sentences of a text with
    capitals begin with one. Other texts stay as they are, and so do texts that would not cost less,
    such as one of a few German nouns. No word changes its length. `cost` returns what a text or a
    word costs, such as the number of its tokens.
    """
    has_capitals = in_capitals(text) or _is_title(text)
    if not (has_capitals or text.islower()):
        return text
    end = 0

    def known(match: re.Match[str]) -> str:
        nonlocal end
        between = ("" if end else ".") + text[end : match.start()]
        word, end = match[0], match.end()
        small = word.lower()
        first = word[:1].title() + small[1:]
        begins = has_capitals and re.match(r"\W*?[.!?]", between[::-1])
        forms = (first, word) if begins else (small, first, word)
        return min((form for form in forms if len(form) == len(word)), key=cost)

    return min(text, _WORD.sub(known, text), key=cost)
