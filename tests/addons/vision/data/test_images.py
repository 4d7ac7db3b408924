import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crosshead.addons.vision.data.images import (
    MOST_BYTES,
    MOST_PIXELS,
    ImageFolder,
    as_floats,
    decode_image,
    image_extent,
    pixels_of,
    read_image,
)
from crosshead.errors import DataError


def encoded(pixels: np.ndarray, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


PIXELS = np.random.default_rng(1).integers(0, 256, (6, 8, 3)).astype(np.uint8)


def test_pixels_are_kept() -> None:
    assert np.array_equal(decode_image(encoded(PIXELS), None, "a.png"), PIXELS)
    assert decode_image(encoded(PIXELS), 4, "a.png").shape == (4, 4, 3)


def test_floats_go_from_minus_one_to_one() -> None:
    found = as_floats(PIXELS[None])
    assert found.shape == (1, 3, 6, 8)
    torch.testing.assert_close(found[0, 2, 3, 5], torch.tensor(PIXELS[3, 5, 2] / 127.5 - 1).float())


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_every_mode_becomes_red_green_blue(mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(PIXELS).convert(mode)
    file = io.BytesIO()
    # Pillow before 13 cannot read the TIFF files that it writes of YCbCr, which is JPEG's mode.
    image.save(file, "JPEG" if mode == "YCbCr" else "TIFF")
    found = decode_image(file.getvalue(), None, "a.tif")
    assert (found.shape, found.dtype) == ((6, 8, 3), np.uint8)
    if mode == "I;16":
        assert np.array_equal(found[..., 0], PIXELS[..., 0])


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (np.array([[0, 100, 400]], np.uint16), [0, 0, 2]),
        (np.array([[0, 257, 65535]], np.uint16), [0, 1, 255]),
        (np.array([[0, 257, 65535]], np.int32), [0, 1, 255]),
    ],
)
def test_grey_values_of_16_bits_are_scaled(values: np.ndarray, levels: list[int]) -> None:
    found = decode_image(encoded(values, "TIFF"), None, "a.tif")
    assert found[0, :, 0].tolist() == levels


@pytest.mark.parametrize(
    "values", [np.array([[0, 0.2]], np.float32), np.array([[0, 70_000]], np.int32)]
)
def test_floats_and_values_of_more_than_16_bits_are_refused(values: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"^a.tif: it has values that are no whole numbers from 0"):
        decode_image(encoded(values, "TIFF"), None, "a.tif")


def test_pixels_are_those_of_a_file_an_image_or_an_array(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(PIXELS))
    given = (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(PIXELS), PIXELS)
    for size in (None, 4, 12):
        first, *others = (pixels_of(each, size) for each in given)
        assert all(np.array_equal(first, each) for each in others)
    grey = pixels_of(PIXELS[..., 0], None)
    assert all(np.array_equal(grey[..., channel], PIXELS[..., 0]) for channel in range(3))
    opaque = np.concatenate([PIXELS, np.full((6, 8, 1), 255, np.uint8)], axis=2)
    assert np.array_equal(pixels_of(opaque, None), PIXELS)
    for pixels in (PIXELS / 255, PIXELS[0, 0], PIXELS[..., :0], np.zeros((2, 2, 5), np.uint8)):
        with pytest.raises(DataError, match="expected pixels from 0 to 255 in an array"):
            pixels_of(pixels, 4)
    with pytest.raises(DataError, match="expected a file, an image or an array, found 7"):
        pixels_of(7, 4)  # type: ignore[arg-type]
    (tmp_path / "a.png").write_bytes(encoded(PIXELS)[:60])
    with (
        Image.open(tmp_path / "a.png") as torn,
        pytest.raises(DataError, match="the image: not a whole image"),
    ):
        pixels_of(torn, 4)


def test_transparent_parts_are_white() -> None:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = (10, 20, 30, 255)
    found = decode_image(encoded(pixels), None, "a.png")
    assert found[0, 0].tolist() == [10, 20, 30]
    assert found[1, 1].tolist() == [255, 255, 255]


def test_an_image_is_turned_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees, clockwise
    data = encoded(PIXELS, "PNG", exif=exif.tobytes())
    assert np.array_equal(decode_image(data, None, "a.png"), np.rot90(PIXELS, -1))
    assert np.array_equal(pixels_of(Image.open(io.BytesIO(data)), None), np.rot90(PIXELS, -1))


def test_truncated_and_foreign_files_are_refused_by_name() -> None:
    whole = encoded(np.repeat(np.repeat(PIXELS, 20, 0), 20, 1))
    with pytest.raises(DataError, match=r"^b/a.png: not a whole image"):
        decode_image(whole[: len(whole) // 2], 8, "b/a.png")
    for data in (b"", b"no image", whole[10:]):
        with pytest.raises(DataError, match=r"^b/a.png: not a whole image"):
            decode_image(data, 8, "b/a.png")


def test_a_decompression_bomb_is_refused_before_it_is_decoded() -> None:
    side = int(MOST_PIXELS**0.5) + 1
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    assert len(file.getvalue()) < 100_000
    with pytest.raises(DataError, match=r"a.png: .* pixels are more than 50,000,000"):
        decode_image(file.getvalue(), 8, "a.png")


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_and_its_zip_hold_the_same_images(tmp_path: Path, packed: bool) -> None:
    files = {"b/2.png": encoded(PIXELS), "a/1.JPG": encoded(PIXELS, "JPEG")}
    others = {"notes.txt": b"no image", ".hidden/3.png": b"", "__MACOSX/a/._1.jpg": b""}
    for name, data in {**files, **others}.items():
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).write_bytes(data)
    place = tmp_path / "set"
    if packed:
        place = tmp_path / "set.zip"
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in {**files, **others}.items():
                archive.writestr(name, data)
    folder = ImageFolder(place)
    assert folder.names == sorted(files)
    assert {name: folder.read(name) for name in folder.names} == files


def test_what_is_no_folder_of_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK no archive")
    with pytest.raises(DataError, match="neither a folder nor a whole zip"):
        ImageFolder(tmp_path / "a.zip")
    with pytest.raises(DataError, match="missing: no such file or folder; give a folder"):
        ImageFolder(tmp_path / "missing")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no.png: no such file"):
        read_image(tmp_path / "no.png")
    with pytest.raises(DataError, match=r"is a directory, .* image; give its files: .*/\*$"):
        read_image(tmp_path)
    (tmp_path / "large.png").touch()
    os.truncate(tmp_path / "large.png", MOST_BYTES + 1)
    with pytest.raises(DataError, match=r"larger than 64 MiB"):
        read_image(tmp_path / "large.png")


def test_the_extent_is_read_from_the_head() -> None:
    assert image_extent(encoded(PIXELS)[:60]) == (6, 8)
    assert image_extent(b"no image") is None


@pytest.mark.parametrize(
    "packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_STORED]
)
def test_a_damaged_file_of_an_archive_is_one_broken_image(tmp_path: Path, packing: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("a.bmp", encoded(np.zeros((40, 40, 3), np.uint8), "BMP"))
    data = bytearray(path.read_bytes())
    data[36:60] = bytes([7]) * 24
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.zip: a\.bmp cannot be read"):
        ImageFolder(path).read("a.bmp")


def test_a_name_that_an_archive_holds_twice_is_one_image(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.png", b"first")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.png", b"second")
    folder = ImageFolder(tmp_path / "a.zip")
    assert folder.names == ["a.png"] and folder.read("a.png") == b"second"


def test_linked_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    for name in ("set/left", "other"):
        (tmp_path / name).mkdir(parents=True)
        for suffix in ("png", "jfif", "JPE", "j2k"):
            (tmp_path / name / f"a.{suffix}").write_bytes(b"")
    (tmp_path / "set" / "right").symlink_to(tmp_path / "other")
    (tmp_path / "set" / "left" / "up").symlink_to(tmp_path / "set")
    found = ImageFolder(tmp_path / "set").names
    names = ("a.JPE", "a.j2k", "a.jfif", "a.png")
    assert found == [f"{side}/{name}" for side in ("left", "right") for name in names]


def test_a_link_to_nothing_is_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(PIXELS))
    (tmp_path / "b.png").symlink_to(tmp_path / "nowhere.png")
    folder = ImageFolder(tmp_path)
    assert folder.names == ["a.png", "b.png"]
    with pytest.raises(DataError, match=r"b\.png"):
        folder.read("b.png")


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    Path(os.fsdecode(folder), "1.png").write_bytes(encoded(PIXELS))
    with pytest.raises(DataError, match=r"'caf\\udce9/1.png' is not UTF-8: rename the"):
        ImageFolder(tmp_path)


def test_a_link_to_itself_is_an_image_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "loop.png").symlink_to("loop.png")
    folder = ImageFolder(tmp_path)
    assert folder.names == ["loop.png"]
    with pytest.raises(DataError, match=r"loop\.png"):
        folder.read("loop.png")


def test_a_format_that_would_start_a_program_is_no_image() -> None:
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n"
    with pytest.raises(DataError, match="not a whole image"):
        decode_image(postscript, None, "a.png")
    assert image_extent(postscript) is None


def test_memory_that_runs_out_is_no_fault_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("crosshead.addons.vision.data.images._fitted", fail)
    with pytest.raises(MemoryError):
        decode_image(encoded(PIXELS), None, "a.png")
