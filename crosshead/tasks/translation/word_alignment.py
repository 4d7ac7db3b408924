"""Word alignments of pairs by the attention of a model.

Axes: `T` words or tokens of a target, `S` words or tokens of a source.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from crosshead.errors import DataError
from crosshead.tasks.translation.translator import Translator
from crosshead.text.markers import token_ends
from crosshead.text.visible import visible

Links = set[tuple[int, int]]
"""Pairs of a source word and a target word that translate each other, both counted from 0. Words
are what spaces separate."""

Symmetry = Literal["intersection", "grow-diag"]
"""The links of both directions that count: those that both have, or also their neighbours."""

AT_ONCE = 500
"""The number of pairs that are read at once."""

_BESIDE = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""The places of the neighbours of a link, in the order in which it grows."""

_LINK = re.compile(r"(\d+)([-?])(\d+)")


class Gold(NamedTuple):
    """The links of a pair that people have made.

    Attributes:
        sure: Links that an alignment must have.
        possible: Links that it may have, the sure ones among them.
    """

    sure: Links
    possible: Links


def alignments(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], symmetry: Symmetry
) -> Iterator[Links]:
    """Yield the links of pairs."""
    bundle = translator.bundle
    for first in range(0, len(sources), AT_ONCE):
        rows = slice(first, first + AT_ONCE)
        texts = [
            [" ".join(map(visible, text.split())) for text in side[rows]]
            for side in (sources, targets)
        ]
        examples = translator.examples(*texts, first=first)
        weights = translator.alignments.of(examples)
        for source, target, (ids, target_ids), found in zip(*texts, examples, weights, strict=True):
            own = bundle.source_tokenizer.encode(source)
            tag = len(ids) - len(own)
            words = _by_words(
                found[:, tag:],
                _owners(source, token_ends(bundle.source_tokenizer, own, source)),
                _owners(target, token_ends(bundle.target_tokenizer, target_ids, target)),
            )
            yield symmetrised(words, symmetry)


def _owners(text: str, ends: Sequence[int]) -> np.ndarray:
    """Return the word of each token of a text: the one with its last character."""
    words = np.cumsum([len(word) + 1 for word in text.split(" ")]) - 1
    return np.minimum(words.searchsorted(ends), len(words) - 1)


def _by_words(weights: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the weights of words, "T S", from those of their tokens."""
    if not weights.size:
        return np.zeros((0, 0))
    found = np.zeros((target.max() + 1, source.max() + 1))
    np.add.at(found, np.ix_(target, source), weights)
    return found


def symmetrised(weights: np.ndarray, symmetry: Symmetry) -> Links:
    """Return the links of a pair from weights of words, "T S".

    In one direction a target word is linked to the source word with its largest weight, and in the
    other a source word to the target word. Their intersection may grow by links of one direction
    that are beside a link, diagonals included, and have a word without a link.

    Reference:
        Koehn, Och & Marcu 2003, "Statistical Phrase-Based Translation", section 4.2 (grow-diag).
    """
    if not weights.size:
        return set()
    forward = {(int(s), t) for t, s in enumerate(weights.argmax(1))}
    backward = {(s, int(t)) for s, t in enumerate(weights.argmax(0))}
    found, either = forward & backward, forward | backward
    if symmetry == "intersection":
        return found
    linked = [{link[side] for link in found} for side in (0, 1)]
    before = 0
    while len(found) > before:
        before = len(found)
        for s, t in sorted(either, key=lambda link: link[::-1]):
            for j, i in _BESIDE if (s, t) in found else ():
                link = s + i, t + j
                is_free = link[0] not in linked[0] or link[1] not in linked[1]
                if link in either and link not in found and is_free:
                    found.add(link)
                    linked[0].add(link[0])
                    linked[1].add(link[1])
    return found


def pharaoh(links: Links) -> str:
    """Return links as a line: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_gold(lines: Iterable[str], name: str) -> list[Gold]:
    """Return the links of lines such as `0-0 1-2 2?2`. A question mark makes one possible only."""
    found = []
    for number, line in enumerate(lines, 1):
        gold = Gold(set(), set())
        for part in line.split():
            link = _LINK.fullmatch(part)
            if link is None:
                raise DataError(
                    f"{name}:{number}: expected links such as 0-0 or 1?2, found {part!r}"
                )
            pair = int(link[1]), int(link[3])
            gold.possible.add(pair)
            if link[2] == "-":
                gold.sure.add(pair)
        found.append(gold)
    return found


def check_gold(
    gold: Sequence[Gold], sources: Sequence[str], targets: Sequence[str], name: str
) -> None:
    """Raise `DataError` if a link is outside of its pair."""
    for number, (each, *pair) in enumerate(zip(gold, sources, targets, strict=True), 1):
        sizes = [len(text.split()) for text in pair]
        for source, target in sorted(each.possible):
            if source >= sizes[0] or target >= sizes[1]:
                raise DataError(
                    f"{name}:{number}: the link {source}-{target} is outside of the pair, which "
                    f"has {sizes[0]} and {sizes[1]} words; count them from 0"
                )


def error_rate(found: Sequence[Links], gold: Sequence[Gold]) -> float:
    """Return the alignment error rate, 1 - (|A and S| + |A and P|) / (|A| + |S|).

    Reference:
        Och & Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", Eq. 42.
    """
    right = sum(
        len(links & each.sure) + len(links & each.possible)
        for links, each in zip(found, gold, strict=True)
    )
    whole = sum(len(links) + len(each.sure) for links, each in zip(found, gold, strict=True))
    return 1 - right / whole if whole else 0.0
