import json
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.vision.image_files import in_order, whole_images
from crosshead.errors import ConfigError, DataError


def test_broken_images_are_named_and_counted_and_the_others_are_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pixels(file: Path) -> np.ndarray:
        if file.stem == "broken":
            raise DataError(f"{file}: not a whole image")
        return np.full((2, 2, 3), int(file.stem), np.uint8)

    files = [Path("1.png"), Path("broken.png"), Path("2.png"), Path("broken.jpg")]
    read, broken = whole_images(files, pixels)
    assert [(file.name, found.max()) for file, found in read] == [("1.png", 1), ("2.png", 2)]
    assert list(broken.values()) == [f"{each}: not a whole image" for each in (files[1], files[3])]
    lines = {files[0]: "one\n", files[2]: "two\n"}
    one, error, two, _ = in_order(files, lines, broken)
    assert (one, two) == ("one\n", "two\n")
    assert json.loads(error) == {"image": "broken.png", "error": "broken.png: not a whole image"}
    first, second = capsys.readouterr().err.splitlines()
    assert first == "crosshead: error: broken.png: not a whole image" and "broken.jpg" in second


def test_a_mistake_that_concerns_all_images_is_raised_at_once() -> None:
    def pixels(file: Path) -> np.ndarray:
        raise ConfigError("install pillow")

    with pytest.raises(ConfigError):
        whole_images([Path("1.png"), Path("2.png")], pixels)
