"""Synthetic scenes: coloured shapes on a grid, captions that name them, and where each one is.

The caption is a function of the scene: "a red circle left of a small blue square and above a small
green cross". Two or three objects stand in a grid of three by three cells. Large objects are named
first, and objects of one size in reading order. The first object shares its row or its column with
each of the others.

Some combinations of colour and shape are never seen in training. The set `unseen` has one of them
in every scene. So it tests whether a model names what it has never seen together.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from crosshead.addons.vision.data.images import encode_png
from crosshead.errors import DataError
from crosshead.system.files import atomic_write, make_directory
from crosshead.system.lines import iter_lines

COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 90, 200),
    "yellow": (240, 200, 20),
    "purple": (148, 80, 190),
    "black": (20, 20, 20),
}
"""The colours by name: red, green and blue from 0 to 255."""

SHAPES = ("circle", "square", "triangle", "cross")
"""The names of the shapes, which are the nouns of the captions."""

ColouredShape = tuple[str, str]
"""A colour and a shape."""

KINDS: tuple[ColouredShape, ...] = tuple((colour, shape) for colour in COLOURS for shape in SHAPES)
"""All combinations of colour and shape."""

UNSEEN: tuple[ColouredShape, ...] = (
    ("red", "cross"),
    ("green", "triangle"),
    ("blue", "circle"),
    ("yellow", "square"),
)
"""The combinations of colour and shape that occur in the set `unseen` alone."""

CELLS = 3
"""Rows and columns of the grid."""

SETS = ("train", "valid", "test", "unseen")
"""The names of the sets."""

IMAGES = "images.zip"
"""The file of all images."""

_BACKGROUND, _NOISE = 236.0, 4.0
_LARGE, _SMALL = 5 / 12, 3 / 12
"""Half the width of an object, in cells."""


class Thing(NamedTuple):
    """An object of a scene."""

    colour: str
    shape: str
    small: bool
    row: int
    column: int

    @property
    def phrase(self) -> str:
        """The words for the object; the noun is the last one."""
        return f"a {'small ' if self.small else ''}{self.colour} {self.shape}"


class Region(NamedTuple):
    """The place in an image of one word of its caption."""

    word: int
    """The number of the word in the caption, counted from 0."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom in pixels; the last two are exclusive."""


@dataclass(frozen=True)
class Scene:
    """An image, its caption, and the region of each noun."""

    pixels: np.ndarray
    """Pixels "H W C", `uint8`."""
    caption: str
    regions: list[Region]


def scenes(count: int, size: int, seed: int, *, unseen: bool = False) -> Iterator[Scene]:
    """Yield scenes; the same arguments give the same scenes."""
    check_size(size)
    rng = np.random.default_rng([seed, int(unseen)])
    for _ in range(count):
        yield _scene(rng, size, unseen)


def check_size(size: int) -> None:
    """Raise `DataError` if images of `size` pixels are too small for scenes."""
    if size < 24:
        raise DataError(f"scenes of {size} pixels are too small to draw; give 24 or more")


def write_scenes(
    directory: Path, size: int = 36, seed: int = 1, train: int = 12_000, others: int = 500
) -> list[Path]:
    """Write the sets of scenes: all images as `images.zip`, and a caption file for each set.

    A line of a caption file, such as `train.jsonl`, has the keys `image`, `caption` and `regions`,
    a list of objects with `word` and `box` (see `Region`).

    Args:
        directory: The folder of the files.
        size: Height and width of the images in pixels.
        seed: The random seed.
        train: The number of training scenes.
        others: The number of scenes of each other set.

    Returns:
        The files.

    Raises:
        DataError: If the size is too small.
        UserError: If Pillow is missing, or a file cannot be written.
    """

    def rows(name: str, count: int, seed: int) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        for scene in scenes(count, size, seed, unseen=name == "unseen"):
            regions = [each._asdict() for each in scene.regions]
            yield scene.pixels, {"caption": scene.caption, "regions": regions}

    return write_sets(directory, rows, SETS, seed, train, others)


def write_sets(
    directory: Path,
    drawn: Callable[[str, int, int], Iterator[tuple[np.ndarray, dict[str, Any]]]],
    names: Sequence[str],
    seed: int,
    train: int,
    others: int,
) -> list[Path]:
    """Write sets of images with facts: all images as `images.zip`, and JSON Lines for each set.

    `drawn` yields the images of a set, by its name, size and seed.
    """
    make_directory(directory)
    images, contents = io.BytesIO(), {}
    with zipfile.ZipFile(images, "w") as archive:
        for number, name in enumerate(names):
            rows = []
            count = train if name == "train" else others
            found = drawn(name, count, seed * len(names) + number)
            for index, (pixels, facts) in enumerate(found):
                image = f"{name}/{index:06d}.png"
                # Without a date, the same arguments give the same bytes.
                archive.writestr(zipfile.ZipInfo(image), encode_png(pixels))
                rows.append(json.dumps({"image": image, **facts}, ensure_ascii=False) + "\n")
            contents[f"{name}.jsonl"] = "".join(rows).encode()
    for name, content in {IMAGES: images.getvalue(), **contents}.items():
        atomic_write(directory / name, content)
    return [directory / name for name in (IMAGES, *contents)]


def read_regions(path: Path) -> list[list[Region]]:
    """Return the regions of each line of a caption file that `write_scenes` has written.

    Args:
        path: The file.

    Returns:
        The regions of each caption, in the order of the lines.

    Raises:
        DataError: If the file cannot be read, or a line has no regions.
    """
    found = []
    for number, line in enumerate(iter_lines(path), 1):
        try:
            rows = json.loads(line)["regions"]
            found.append([Region(int(row["word"]), tuple(map(int, row["box"]))) for row in rows])  # type: ignore[arg-type]
        except (ValueError, KeyError, TypeError):
            raise DataError(
                f"{path}:{number}: expected `regions`, a list of objects with `word` and `box`; "
                "give a caption file of `crosshead data get scenes`"
            ) from None
    return found


def patches_of(region: Region, size: int, patch: int) -> np.ndarray:
    """Return which patches of an image a region touches, "R C"."""
    left, top, right, bottom = region.box
    found = np.zeros((size // patch, size // patch), bool)
    found[top // patch : -(-bottom // patch), left // patch : -(-right // patch)] = True
    return found


def _scene(rng: np.random.Generator, size: int, unseen: bool) -> Scene:
    """Draw a scene of two or three objects, and write its caption."""
    things = placed(rng, _kinds(rng, 2 + int(rng.integers(2)), unseen))
    pixels, boxes = drawn(rng, size, things)
    caption = sentence(things, [each.phrase for each in things])
    nouns = [number for number, word in enumerate(caption.split()) if word in SHAPES]
    regions = [Region(*each) for each in zip(nouns, boxes, strict=True)]
    return Scene(pixels, caption, regions)


def _kinds(rng: np.random.Generator, count: int, unseen: bool) -> list[ColouredShape]:
    """Return different kinds of objects, one of them from `UNSEEN` if `unseen` is true."""
    seen = [kind for kind in KINDS if kind not in UNSEEN]
    chosen = [seen[index] for index in rng.choice(len(seen), count, replace=False)]
    if unseen:
        chosen[int(rng.integers(count))] = UNSEEN[int(rng.integers(len(UNSEEN)))]
    return chosen


def placed(rng: np.random.Generator, kinds: Sequence[ColouredShape]) -> list[Thing]:
    """Return objects of two or three kinds with sizes and places, in the order of the caption.

    Large objects come first, and objects of one size in reading order. The first object shares its
    row or its column with each of the others.
    """
    count = len(kinds)
    while True:
        row, column = (int(each) for each in rng.integers(CELLS, size=2))
        other_row, other_column = (
            (each + int(rng.integers(1, CELLS))) % CELLS for each in (row, column)
        )
        beside, below = (row, other_column), (other_row, column)
        others = [beside, below] if count == 3 else [beside if rng.integers(2) else below]
        small = rng.integers(2, size=count).astype(bool).tolist()
        ordered = sorted(zip(small, [(row, column), *others], strict=True))
        if ordered[0][1] == (row, column):
            return [
                Thing(colour, shape, is_small, *place)
                for (colour, shape), (is_small, place) in zip(kinds, ordered, strict=True)
            ]


def relation(one: Thing, other: Thing) -> str:
    """Return the words between two objects of one row or of one column."""
    if one.row == other.row:
        return "left of" if one.column < other.column else "right of"
    return "above" if one.row < other.row else "below"


def sentence(
    things: Sequence[Thing],
    phrases: Sequence[str],
    conjunction: str = "and",
    words: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the phrases of objects with their relations to the first one between them.

    `words` translates the relations.
    """
    parts = []
    for thing, phrase in zip(things[1:], phrases[1:], strict=True):
        between = relation(things[0], thing)
        parts.append(f"{words.get(between, between)} {phrase}")
    return f"{phrases[0]} " + f" {conjunction} ".join(parts)


def drawn(
    rng: np.random.Generator, size: int, things: Sequence[Thing]
) -> tuple[np.ndarray, list[tuple[int, int, int, int]]]:
    """Return the image of some objects and the box of each object."""
    pixels = rng.normal(_BACKGROUND, _NOISE, (size, size, 3))
    boxes = [_draw(rng, pixels, thing) for thing in things]
    return pixels.round().clip(0, 255).astype(np.uint8), boxes


def _draw(rng: np.random.Generator, pixels: np.ndarray, thing: Thing) -> tuple[int, int, int, int]:
    """Draw an object into its cell, a little off its middle, and return its box."""
    size = len(pixels)
    cell = size // CELLS
    radius = (_SMALL if thing.small else _LARGE) * cell
    slack = int(cell / 2 - radius)
    edge = (size - CELLS * cell) // 2
    y, x = (
        edge + (place + 0.5) * cell + int(rng.integers(-slack, slack + 1))
        for place in (thing.row, thing.column)
    )
    down, right = np.mgrid[:size, :size] + 0.5
    mask = _inside(thing.shape, (down - y) / radius, (right - x) / radius)
    shade = rng.uniform(0.9, 1.1)
    pixels[mask] = np.array(COLOURS[thing.colour]) * shade + rng.normal(0, _NOISE, 3)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _inside(shape: str, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return which points are inside a shape; it reaches from -1 to 1 in both directions."""
    square: np.ndarray = np.maximum(abs(x), abs(y)) <= 1
    found: dict[str, np.ndarray] = {
        "circle": x**2 + y**2 <= 1,
        "square": square,
        "triangle": square & (abs(x) <= (y + 1) / 2),
        "cross": square & (np.minimum(abs(x), abs(y)) <= 1 / 3),
    }
    return found[shape]
