"""Many images: decoded in their order, their common size and memory."""

from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.vision.data.image_decoding import (
    ImagePlace,
    common_size,
    decode_images,
    kept_size,
)
from crosshead.addons.vision.data.images import MOST_BYTES, ImageFolder, decode_image
from crosshead.errors import DataError
from tests.addons.vision.drawn_images import SIZE, broken, packed, write_images


def places(folder: ImageFolder) -> list[ImagePlace]:
    return [ImagePlace(folder, name) for name in folder.names]


def test_images_keep_their_order_and_broken_ones_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_images(tmp_path / "set", each=5)
    broken(folder / "high" / "003.png")
    found = places(ImageFolder(packed(folder))) + places(ImageFolder(folder / "low"))
    lines: list[str] = []
    monkeypatch.setattr("crosshead.addons.vision.data.image_decoding._PAUSE", 0.0)
    monkeypatch.setattr("crosshead.addons.vision.data.image_decoding._AT_ONCE", 8)
    several = decode_images(found, 4, lines.append)
    assert lines == [f"decoded {done} of 20 images" for done in (0, 8, 16)]
    assert several.pixels.shape == (19, 4, 4, 3)
    [message] = several.broken
    assert message.startswith(f"{tmp_path}/set.zip/set/high/003.png: not a whole image")
    whole = [each for each in found if "high/003" not in each.path]
    assert [found[place] for place in several.places] == whole
    for each, pixels in zip(whole, several.pixels, strict=True):
        assert np.array_equal(pixels, decode_image(each.folder.read(each.name), 4, each.name))

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode_images(found, 4, check=stop)


def test_more_than_fits_into_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = places(ImageFolder(write_images(tmp_path / "set", each=1)))
    monkeypatch.setattr(
        "crosshead.addons.vision.data.image_decoding.MOST_MEMORY", 3 * SIZE * SIZE * 3
    )
    assert len(decode_images(found, SIZE).pixels) == 3
    monkeypatch.setattr(ImageFolder, "read", None)
    with pytest.raises(DataError, match=r"^3 images of 9 x 9 pixels take .* lower data.image_size"):
        decode_images(found, SIZE + 1)


def test_broken_images_do_not_change_the_common_size(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2)
    (folder / "high" / "000.png").write_bytes(b"no image")
    (folder / "high" / "link.png").symlink_to("nothing.png")
    with (folder / "low" / "large.png").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert common_size(places(ImageFolder(folder))) == SIZE


def test_a_bundle_keeps_the_size_of_its_images() -> None:
    assert kept_size(None, 32) == kept_size(32, 32) == 32
    with pytest.raises(DataError, match=r"data.image_size is 64, and the bundle has 32"):
        kept_size(64, 32)
