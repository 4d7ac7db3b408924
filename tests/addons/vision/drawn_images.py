"""What the tests of images share: small pictures of three classes, as folders and as archives."""

import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("low", "high", "left")
SIZE = 8


def picture(label: str, number: int) -> np.ndarray:
    """Noise that is bright in its lower, upper or left half."""
    rng = np.random.default_rng([CLASSES.index(label), number])
    pixels = rng.integers(0, 120, (SIZE, SIZE, 3))
    half = SIZE // 2
    places = {"low": np.s_[half:, :], "high": np.s_[:half, :], "left": np.s_[:, :half]}
    pixels[places[label]] += 130
    return pixels.astype(np.uint8)


def write_images(folder: Path, each: int = 12, splits: tuple[str, ...] = ()) -> Path:
    """Write `each` pictures of every class, by default without splits."""
    for place, split in enumerate(splits or ("",)):
        for label in CLASSES:
            (folder / split / label).mkdir(parents=True)
            for number in range(each):
                image = Image.fromarray(picture(label, 1000 * place + number))
                image.save(folder / split / label / f"{number:03}.png")
    return folder


def packed(folder: Path) -> Path:
    """Pack a folder into a zip archive beside it, under its own name."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, file.relative_to(folder.parent))
    return path


def broken(path: Path) -> Path:
    """Cut a picture off in the middle."""
    path.write_bytes(path.read_bytes()[:100])
    return path
