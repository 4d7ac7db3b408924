from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crosshead.data.images import ImageFolder
from crosshead.data.labelled_images import (
    ImageData,
    ImageRows,
    LabelledImages,
    common_size,
    cutmix,
    listed,
    mixup,
    moved,
    read_image_sets,
    scored_images,
)
from crosshead.errors import DataError
from tests.data.drawn_images import CLASSES, SIZE, broken, packed, picture, write_images

PIXELS = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)


def data(*paths: Path, **more: object) -> ImageData:
    return ImageData.model_validate({"images": [str(path) for path in paths], **more})


def rows(count: int = 6, drawn: tuple[int, ...] = (1, 1), **augment: object) -> ImageRows:
    pixels = np.random.default_rng(1).integers(0, 256, (count, SIZE, SIZE, 3)).astype(np.uint8)
    images = LabelledImages(pixels, np.arange(count) % 3, [""] * count)
    return ImageRows(images, 4, ImageData.model_validate(augment) if augment else None, drawn)


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


def test_images_of_one_size_keep_it(tmp_path: Path) -> None:
    folder = write_images(tmp_path / "set", each=2)
    assert common_size(listed(folder)) == SIZE
    Image.fromarray(PIXELS[0]).save(folder / "low" / "wide.png")
    assert common_size(listed(folder)) == 64
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
    with pytest.raises(DataError, match=r"lies in no folder of a class"):
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
    with pytest.raises(DataError, match=r"splits train, but no test"):
        scored_images(write_images(tmp_path / "only", each=1, splits=("train",)))


def test_more_than_fits_into_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.data.labelled_images.MOST_MEMORY", 1000)
    monkeypatch.setattr(ImageFolder, "read", None)
    with pytest.raises(DataError, match=r"lower data.image_size or data.train_images"):
        read_image_sets(data(write_images(tmp_path / "set"), image_size=SIZE))


def test_an_augmented_image_depends_on_seed_epoch_and_row_alone() -> None:
    settings = {"crop": 2, "flip": True, "mixup": 0.8, "cutmix": 1.0}
    whole = rows(**settings).collate(range(6))
    parts = [rows(**settings).collate([row]) for row in range(6)]
    for row, part in enumerate(parts):
        assert np.array_equal(whole.images[row], part.images[0])
        assert (whole.labels[row], whole.shares[row]) == (part.labels[0], part.shares[0])
    for other in ((1, 2), (2, 1)):
        again = rows(drawn=other, **settings).collate(range(6))
        assert not any(
            np.array_equal(*pair) for pair in zip(whole.images, again.images, strict=True)
        )
    assert whole.count == 6 and ((whole.shares >= 0.5) & (whole.shares <= 1)).all()


def test_without_augmentation_images_are_as_they_are() -> None:
    plain, off = rows().collate([2, 0]), rows(crop=0).collate([2, 0])
    assert np.array_equal(plain.images, off.images) and plain.labels.tolist() == [2, 0]
    wanted = rows().images.pixels[[2, 0]].transpose(0, 3, 1, 2) / 127.5 - 1
    assert np.allclose(plain.images, wanted, atol=1e-6)
    assert plain.shares.tolist() == [1, 1] and plain.others.tolist() == [2, 0]


def test_half_of_the_images_are_mirrored() -> None:
    many = rows(200, flip=True)
    found = many.collate(range(200)).images.numpy()
    plain = rows(200).collate(range(200)).images.numpy()
    same = sum(np.array_equal(*pair) for pair in zip(found, plain, strict=True))
    mirrored = sum(np.array_equal(*pair) for pair in zip(found, plain[..., ::-1], strict=True))
    assert same + mirrored == 200 and 70 < mirrored < 130


def test_a_moved_image_leaves_grey_behind() -> None:
    image = PIXELS[0]
    found = moved(image, 1, -2)
    assert np.array_equal(found[1:, :2], image[:2, 2:])
    assert (found[0] == 128).all() and (found[:, 2:] == 128).all()
    assert np.array_equal(moved(image, 0, 0), image)


def test_mixup_blends_and_cutmix_pastes() -> None:
    rng = np.random.default_rng(1)
    dark, bright = np.zeros((40, 40, 3), np.uint8), np.full((40, 40, 3), 200, np.uint8)
    blend, share = mixup(dark, bright, 0.25, rng)
    assert share == 0.25 and (blend == 150).all()
    for wanted in (0.0, 0.3, 1.0):
        for _ in range(20):
            found, share = cutmix(dark, bright, wanted, rng)
            assert set(np.unique(found)) <= {0, 200}
            assert share == pytest.approx((found == 0).mean())
            assert share >= wanted - 0.05
    assert (cutmix(dark, bright, 1.0, rng)[0] == 0).all()


def test_mixed_classes_have_the_shares_of_their_pixels() -> None:
    """Images of one colour for each class: the colours of a mixture tell the shares."""
    pixels = np.repeat(np.array([0, 200], np.uint8), 5)[:, None, None, None]
    images = LabelledImages(
        np.broadcast_to(pixels, (10, 16, 16, 3)).copy(), np.repeat([0, 1], 5), [""] * 10
    )
    for key in ("mixup", "cutmix"):
        settings = ImageData.model_validate({key: 1.0})
        batch = ImageRows(images, 4, settings, (3, 1)).collate(range(10))
        bright = ((batch.images + 1) * 127.5 / 200).mean(dim=(1, 2, 3))
        share = batch.shares * (batch.labels == 1) + (1 - batch.shares) * (batch.others == 1)
        assert np.allclose(bright, share, atol=0.01)
        assert (batch.shares < 0.999).any()


def test_plans_hold_every_image_once_in_batches_of_patches() -> None:
    images = rows(10)
    plan = images.plan(16, seed=1, epoch=1)
    assert [len(each) for each in plan] == [4, 4, 2]
    assert sorted(np.concatenate(plan)) == list(range(10))
    assert not np.array_equal(plan[0], images.plan(16, seed=1, epoch=2)[0])
    assert [each.tolist() for each in images.in_order(24)] == [[*range(6)], [*range(6, 10)]]
    assert images.lengths.tolist() == [[4]] * 10 and images.extent(0) == "8 x 8 pixels"
    with pytest.raises(DataError, match=r"an image has 4 patches, more than the 3 of"):
        images.plan(3, 1, 1)
