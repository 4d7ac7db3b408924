"""What the tests of corpora share: files written, configurations of them, refusals."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crosshead.addons.series import reading
from crosshead.addons.series.reading import Series
from crosshead.addons.series.steps import Step
from crosshead.addons.vision.data.ambiguous import PicturedPair, ambiguous_pairs
from crosshead.addons.vision.data.images import encode_png
from crosshead.addons.vision.data.scenes import Scene, scenes
from crosshead.config import validate
from crosshead.errors import UserError
from crosshead.text.parallel.section import DataConfig

HOUR = Step(3_600_000_000)


def config(**values: object) -> DataConfig:
    as_given = {
        key: [str(path) for path in value] if isinstance(value, list) else value
        for key, value in values.items()
    }
    return validate(DataConfig, as_given)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_series(path: Path, rows: int = 300, start: str = "2024-01-01") -> Path:
    """Write hours of two columns with a season of a day: `load` has a trend, `price` has none."""
    hours = np.arange(rows)
    load = 10 + 3 * np.sin(hours * np.pi / 12) + hours / 100
    price = 5 + np.cos(hours * np.pi / 12)
    times = np.datetime64(start, "s") + hours * np.timedelta64(1, "h")
    lines = ["date,load,price", *map("{},{:.5f},{:.5f}".format, times, load, price)]
    return write(path, "\n".join(lines) + "\n")


def hours(values: list[object], skip: tuple[int, ...] = ()) -> str:
    """The text of a series of hours with one column `a`, without some of its rows."""
    rows = [f"2024-01-01 {hour:02}:00,{value}" for hour, value in enumerate(values)]
    return "\n".join(["date,a", *(row for hour, row in enumerate(rows) if hour not in skip)])


def read_series(*given: Any) -> Series:
    """The only series of files."""
    [found] = reading.read_series(*given)
    return found


def read(path: Path, text: str, *target: str) -> Series:
    """The series of a text, by way of a file in the folder `path`."""
    return read_series([str(write(path / "s.csv", text))], target)


def write_captions(folder: Path, images: int, size: int = 24, each: int = 1) -> list[Scene]:
    """Write scenes as `images/NNN.png` and `captions.jsonl`; an image may have several captions."""
    found = list(scenes(images, size, seed=1))
    (folder / "images").mkdir(exist_ok=True)
    rows = []
    for number, scene in enumerate(found):
        name = f"{number:03d}.png"
        (folder / "images" / name).write_bytes(encode_png(scene.pixels))
        texts = [scene.caption, f"here is {scene.caption}"][:each]
        rows += [json.dumps({"image": name, "caption": text}) for text in texts]
    write(folder / "captions.jsonl", "\n".join(rows) + "\n")
    return found


def write_image_pairs(folder: Path, count: int, size: int = 24) -> list[PicturedPair]:
    """Write pairs beside images as `images/NNN.png` and `pairs.jsonl`."""
    found = list(ambiguous_pairs(count, size, seed=1))
    (folder / "images").mkdir(exist_ok=True)
    rows = []
    for number, pair in enumerate(found):
        name = f"{number:03d}.png"
        (folder / "images" / name).write_bytes(encode_png(pair.pixels))
        rows.append(json.dumps({"image": name, "source": pair.source, "target": pair.target}))
    write(folder / "pairs.jsonl", "\n".join(rows) + "\n")
    return found


def refusal(*read: object) -> str:
    """The one line with which `read[0]` refuses the rest."""
    function, *arguments = read
    assert callable(function)
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)
