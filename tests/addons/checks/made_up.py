"""Pairs of made-up languages: each word has one translation, and the order of words turns round."""

import random
from itertools import product

from crosshead.text.parallel.pairs import Sides

SYLLABLES = {
    "source": ("bdgk", "ae"),
    "target": ("lmnr", "io"),
    "other": ("ptsz", "uy"),
}
"""The consonants and vowels of each language."""


def words(language: str) -> list[str]:
    """Return 256 words of a language. Words at the same place translate each other."""
    syllables = list(map("".join, product(*SYLLABLES[language])))
    found = list(map("".join, product(syllables, syllables, syllables)))[::2]
    random.Random(language).shuffle(found)
    return found


def sentences(count: int, seed: int = 1) -> list[list[int]]:
    """Return sentences of 5 to 9 words, as numbers of words. Small numbers are more frequent."""
    rng = random.Random(seed)
    return [[int(256 * rng.random() ** 2) for _ in range(rng.randint(5, 9))] for _ in range(count)]


def pairs(count: int, languages: tuple[str, str] = ("source", "target"), seed: int = 1) -> Sides:
    """Return sources and their translations."""
    left, right = map(words, languages)
    numbers = sentences(count, seed)
    return (
        [" ".join(left[number] for number in each) for each in numbers],
        [" ".join(right[number] for number in each[::-1]) for each in numbers],
    )
