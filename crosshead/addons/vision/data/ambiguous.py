"""Synthetic pairs with an ambiguous word that only the image resolves.

The images are scenes of coloured shapes (`scenes.py`). The source names the objects in
English and the target in German: "a red sign above a small blue cross" becomes "ein roter Kreis
über einem kleinen blauen Kreuz". A sign is a circle or a triangle, as signs beside a road are.
Nothing in the sentence says which: both are equally frequent beside all other words, and no other
object has the colour of the sign. So a model without the image is right for half of the signs. A
sign is never small, because the set tests the use of an image and not its resolution.

Half of the sentences have one sign. In the others all shapes have their own names.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crosshead.addons.vision.data.scenes import (
    KINDS,
    Thing,
    check_size,
    drawn,
    placed,
    sentence,
    write_sets,
)
from crosshead.errors import DataError

AMBIGUOUS = "sign"
"""The ambiguous word of the sources."""

MEANINGS = ("circle", "triangle")
"""The shapes that the ambiguous word may mean."""

SETS = ("train", "valid", "test")
"""The names of the sets."""

NOUNS = {"circle": "Kreis", "square": "Quadrat", "triangle": "Dreieck", "cross": "Kreuz"}
"""The German nouns of the shapes. `Kreis` is masculine, and the others are neuter."""

_STEMS = {
    "red": "rot", "green": "grün", "blue": "blau", "yellow": "gelb", "purple": "violett",
    "black": "schwarz", "small": "klein",
}  # fmt: skip
_RELATIONS = {
    "left of": "links von", "right of": "rechts von", "above": "über", "below": "unter",
}  # fmt: skip


class PicturedPair(NamedTuple):
    """An image, an English sentence about it, and its German translation."""

    pixels: np.ndarray
    """Pixels "H W C", `uint8`."""
    source: str
    target: str


def ambiguous_pairs(count: int, size: int, seed: int) -> Iterator[PicturedPair]:
    """Yield pairs, of which every second has the ambiguous word.

    The same arguments give the same pairs.
    """
    check_size(size)
    rng = np.random.default_rng(seed)
    for index in range(count):
        things, sign = _things(rng, ambiguous=index % 2 == 0)
        pixels, _ = drawn(rng, size, things)
        english = [each._replace(shape=AMBIGUOUS) if each is sign else each for each in things]
        source = sentence(things, [each.phrase for each in english])
        # The first object is in the nominative, the others are in the dative.
        german = [_german(each, dative=number > 0) for number, each in enumerate(things)]
        yield PicturedPair(pixels, source, sentence(things, german, "und", _RELATIONS))


def write_ambiguous(
    directory: Path, size: int = 36, seed: int = 1, train: int = 12_000, others: int = 1000
) -> list[Path]:
    """Write the sets of pairs: all images as `images.zip`, and a file of pairs for each set.

    A line of a file, such as `train.jsonl`, has the keys `image`, `source` and `target`.

    Args:
        directory: The folder of the files.
        size: Height and width of the images in pixels.
        seed: The random seed.
        train: The number of training pairs.
        others: The number of pairs of each other set.

    Returns:
        The files.

    Raises:
        DataError: If the size is too small.
        UserError: If Pillow is missing, or a file cannot be written.
    """

    def rows(name: str, count: int, seed: int) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        for pair in ambiguous_pairs(count, size, seed):
            yield pair.pixels, {"source": pair.source, "target": pair.target}

    return write_sets(directory, rows, SETS, seed, train, others)


def is_ambiguous(source: str) -> bool:
    """Return whether a sentence has the ambiguous word."""
    return AMBIGUOUS in source.split()


def ambiguous_right(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> float:
    """Return the share of ambiguous words, from 0 to 1, whose translation is right.

    The noun of an output that stands at the place of the ambiguous word among the nouns has to be
    the noun of the reference. An output without a noun at this place is wrong.

    Args:
        sources: The English sentences.
        outputs: The translations of a model.
        references: The right translations.

    Raises:
        DataError: If no source has the ambiguous word.
    """
    right = []
    for source, output, reference in zip(sources, outputs, references, strict=True):
        english = [word for word in source.split() if word in NOUNS or word == AMBIGUOUS]
        if AMBIGUOUS not in english:
            continue
        place = english.index(AMBIGUOUS)
        found, wanted = (
            [word for word in text.split() if word in NOUNS.values()]
            for text in (output, reference)
        )
        right.append(found[place : place + 1] == wanted[place : place + 1])
    if not right:
        raise DataError(
            f"no sentence has the word {AMBIGUOUS!r}; give pairs of `crosshead data get ambiguous`"
        )
    return sum(right) / len(right)


def _things(rng: np.random.Generator, *, ambiguous: bool) -> tuple[list[Thing], Thing | None]:
    """Return two or three objects of different kinds, and the object that is called a sign."""
    while True:
        count = 2 + int(rng.integers(2))
        kinds = [KINDS[index] for index in rng.choice(len(KINDS), count, replace=False)]
        things = placed(rng, kinds)
        if not ambiguous:
            return things, None
        colours = [each.colour for each in things]
        # A second object of the colour would tell something of the shape: kinds are different.
        signs = [
            each
            for each in things
            if each.shape in MEANINGS and not each.small and colours.count(each.colour) == 1
        ]
        if signs:
            return things, signs[int(rng.integers(len(signs)))]


def _german(thing: Thing, *, dative: bool) -> str:
    """Return the German words for an object with the indefinite article."""
    adjectives = [*(["small"] if thing.small else []), thing.colour]
    ending = "en" if dative else "er" if thing.shape == "circle" else "es"
    words = [f"{_STEMS[each]}{ending}" for each in adjectives]
    return " ".join(["einem" if dative else "ein", *words, NOUNS[thing.shape]])
