import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crosshead.addons.vision.data.image_decoding import common_size
from crosshead.addons.vision.data.images import ImageFolder
from crosshead.addons.vision.data.labelled_images import (
    ImageData,
    images_sha256,
    listed,
    read_image_sets,
    read_labelled,
    scored_images,
)
from crosshead.errors import DataError
from tests.addons.vision.drawn_images import CLASSES, SIZE, broken, packed, picture, write_images

PIXELS = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)


def data(*paths: Path, **more: object) -> ImageData:
    return ImageData.model_validate({"images": [str(path) for path in paths], **more})


def test_a_folder_and_its_archive_are_the_same_set(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", splits=("train", "test"))
    sets, again = (read_image_sets(data(each)) for each in (folder, packed(folder)))
    for part, other in zip(sets[:3], again[:3], strict=True):
        assert np.array_equal(part.pixels, other.pixels)
        assert np.array_equal(part.labels, other.labels)
    assert (sets.classes, sets.size, sets.held_out) == (sorted(CLASSES), SIZE, True)
    assert sets.counts == {str(folder): 72}
    name = Path(sets.train.names[0])
    label = sets.classes[sets.train.labels[0]]
    assert name.parts[-3:-1] == ("train", label)
    assert np.array_equal(sets.train.pixels[0], picture(label, int(name.stem)))


def test_splits_are_folders_above_the_classes(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2, splits=("train", "val", "test"))
    found = listed(folder)
    assert {each.split for each in found} == {"train", "valid", "test"}
    sets = read_image_sets(data(folder))
    assert not sets.held_out and [len(part) for part in sets[:3]] == [6, 6, 6]
    assert {Path(name).parts[-3] for name in sets.valid.names} == {"val"}
    own = write_images(tmp_path / "own", each=1)
    assert len(read_image_sets(data(folder, valid_images=[str(own)])).valid) == 3
    part = listed(folder / "train")
    assert {each.split for each in part} == {""} and len(part) == 6
    assert len(scored_images(folder)[0]) == 6 and scored_images(folder)[1] == "test"
    assert len(scored_images(own)[0]) == 3 and scored_images(own)[1] == "all"


@pytest.mark.parametrize("stray", ["sample/overview.png", "overview.png", "test/preview.png"])
@pytest.mark.parametrize("above", ["", "pets"])
def test_with_splits_no_image_may_lie_elsewhere(tmp_path: Path, above: str, stray: str) -> None:
    """Or test images would be trained on."""
    folder = write_images(tmp_path / "set" / above, each=1, splits=("train", "test"))
    (folder / stray).parent.mkdir(exist_ok=True)
    Image.fromarray(PIXELS[0]).save(folder / stray)
    with pytest.raises(DataError, match=rf"{stray} lies in no split \(test, train are there\)"):
        listed(tmp_path / "set")


def test_a_class_that_is_called_like_a_split_is_a_class(tmp_path: Path) -> None:
    for label in ("train", "bus"):
        (tmp_path / label).mkdir()
        Image.fromarray(PIXELS[0]).save(tmp_path / label / "1.png")
    assert {(each.split, each.label) for each in listed(tmp_path)} == {("", "train"), ("", "bus")}


def test_the_held_out_images_have_all_classes_and_are_always_the_same(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=20)
    sets = read_image_sets(data(folder))
    assert np.bincount(sets.valid.labels).tolist() == [2, 2, 2]
    assert not set(sets.valid.names) & set(sets.train.names)
    few, more = (read_image_sets(data(folder, train_images=count)) for count in (6, 30))
    assert few.valid.names == more.valid.names == sets.valid.names
    assert set(few.train.names) < set(more.train.names) < set(sets.train.names)
    assert np.bincount(few.train.labels).tolist() == [2, 2, 2]


def test_the_only_image_of_a_class_is_never_held_out(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=1)
    Image.fromarray(PIXELS[0]).save(folder / "low" / "more.png")
    sets = read_image_sets(data(folder, valid_share=0.9))
    assert [sets.classes[label] for label in sets.valid.labels] == ["low"]
    assert sorted(sets.train.labels.tolist()) == [0, 1, 2]
    with pytest.raises(DataError, match=r"3 images to train on are too few to hold some of them"):
        read_image_sets(data(write_images(tmp_path / "lone", each=1)))


def test_images_of_one_size_keep_it(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2)
    assert common_size([each.place for each in listed(folder)]) == SIZE
    Image.fromarray(PIXELS[0]).save(folder / "low" / "wide.png")
    assert common_size([each.place for each in listed(folder)]) == 64
    sets = read_image_sets(data(folder))
    assert sets.train.pixels.shape[1:] == (64, 64, 3)
    assert read_image_sets(data(folder, image_size=4)).size == 4


def test_broken_images_are_left_out_and_named(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=4)
    damaged = broken(folder / "low" / "002.png")
    sets = read_image_sets(data(folder))
    [message] = sets.broken
    assert "002.png: not a whole image" in message
    names = {name for part in (sets.train, sets.valid) for name in part.names}
    assert len(names) == 11 and str(damaged) not in names
    labels = [sets.classes[label] for label in sets.train.labels]
    assert labels == [Path(name).parent.name for name in sets.train.names]
    for path in folder.rglob("*.png"):
        broken(path)
    with pytest.raises(DataError, match=r"none of 11 images is whole; the first: .*\.png"):
        read_image_sets(data(folder))


def test_sets_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2, splits=("train", "test"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no images in it"):
        listed(tmp_path / "empty")
    with pytest.raises(DataError, match=r"lies in no class"):
        listed(folder / "train" / "low")
    with pytest.raises(DataError, match=r"0 images to train on are too few"):
        read_image_sets(data(write_images(tmp_path / "tests", each=1, splits=("test",))))
    lone = tmp_path / "lone" / "one"
    lone.mkdir(parents=True)
    for number in range(3):
        Image.fromarray(PIXELS[0]).save(lone / f"{number}.png")
    with pytest.raises(DataError, match=r"all images to train on are of the class 'one'"):
        read_image_sets(data(lone.parent))
    (folder / "test" / "lowe").mkdir()
    Image.fromarray(PIXELS[0]).save(folder / "test" / "lowe" / "1.png")
    with pytest.raises(DataError, match=r"class 'lowe', which .* did you mean 'low'"):
        read_image_sets(data(folder))
    with pytest.raises(DataError, match=r"'lowe', which the model does not know; "):
        read_image_sets(data(folder), sorted(CLASSES))
    with pytest.raises(DataError, match=r"splits train, but no test"):
        scored_images(write_images(tmp_path / "only", each=1, splits=("train",)))


def test_more_than_fits_into_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.addons.vision.data.image_decoding.MOST_MEMORY", 1000)
    monkeypatch.setattr(ImageFolder, "read", None)
    with pytest.raises(DataError, match=r"36 images of 8 x 8 pixels take .* lower data.image_size"):
        read_image_sets(data(write_images(tmp_path / "set"), image_size=SIZE))


def test_the_folder_of_validation_may_have_its_long_name(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2, splits=("train", "validation"))
    assert {each.split for each in listed(folder)} == {"train", "valid"}


def test_images_in_a_format_that_is_not_read_count_as_broken(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=20)
    (folder / "low" / "IMG_1.HEIC").write_bytes(b"heic")
    [line] = read_image_sets(data(folder)).broken
    assert "low/IMG_1.HEIC: not a whole image" in line and "convert it to JPEG or PNG" in line


def test_the_checksum_of_a_folder_does_not_depend_on_the_order(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=4)
    sets = read_image_sets(data(folder))
    whole, _ = read_labelled(listed(folder), sets.classes, sets.size)
    found = images_sha256(folder, [sets.train, sets.valid])
    assert (
        found == images_sha256(folder, [whole]) == images_sha256(folder, [sets.valid, sets.train])
    )
    assert found != images_sha256(folder, [sets.train])
    archive = packed(folder)
    assert images_sha256(archive, []) == hashlib.sha256(archive.read_bytes()).hexdigest()
