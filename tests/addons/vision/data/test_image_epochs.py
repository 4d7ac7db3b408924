import numpy as np
import pytest

from crosshead.addons.vision.data.image_epochs import ImageRows, cutmix, mixup, moved
from crosshead.addons.vision.data.labelled_images import ImageData, LabelledImages
from crosshead.errors import DataError
from tests.addons.vision.drawn_images import SIZE

PIXELS = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)


def rows(count: int = 6, drawn: tuple[int, ...] = (1, 1), **augment: object) -> ImageRows:
    pixels = np.random.default_rng(1).integers(0, 256, (count, SIZE, SIZE, 3)).astype(np.uint8)
    images = LabelledImages(pixels, np.arange(count) % 3, [""] * count)
    return ImageRows(images, 4, 3, ImageData.model_validate(augment), drawn)


def test_an_augmented_image_depends_on_seed_epoch_and_row_alone() -> None:
    settings = {"crop": 2, "flip": True, "mixup": 0.8, "cutmix": 1.0}
    whole = rows(**settings).collate(range(6))
    parts = [rows(**settings).collate([row]) for row in range(6)]
    for row, part in enumerate(parts):
        assert np.array_equal(whole.images[row], part.images[0])
        assert np.array_equal(whole.targets[row], part.targets[0])
    for other in ((1, 2), (2, 1)):
        again = rows(drawn=other, **settings).collate(range(6))
        assert not any(
            np.array_equal(*pair) for pair in zip(whole.images, again.images, strict=True)
        )
    assert whole.count == 6 and (whole.targets >= 0).all()
    assert np.allclose(whole.targets.sum(dim=1), 1)


def test_without_augmentation_images_are_as_they_are() -> None:
    plain, off = rows().collate([2, 0]), rows(crop=0).collate([2, 0])
    assert np.array_equal(plain.images, off.images) and plain.targets.argmax(dim=1).tolist() == [
        2,
        0,
    ]
    wanted = rows().images.pixels[[2, 0]].transpose(0, 3, 1, 2) / 127.5 - 1
    assert np.allclose(plain.images, wanted, atol=1e-6)
    assert plain.targets.tolist() == [[0, 0, 1], [1, 0, 0]]


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
        batch = ImageRows(images, 4, 2, settings, (3, 1)).collate(range(10))
        bright = ((batch.images + 1) * 127.5 / 200).mean(dim=(1, 2, 3))
        assert np.allclose(bright, batch.targets[:, 1], atol=0.01)
        assert (batch.targets.amax(dim=1) < 0.999).any()


def test_plans_hold_every_image_once_in_batches_of_patches() -> None:
    images = rows(10)
    plan = images.plan(16, seed=1, epoch=1)
    assert [len(each) for each in plan] == [4, 4, 2]
    assert sorted(np.concatenate(plan)) == list(range(10))
    assert not np.array_equal(plan[0], images.plan(16, seed=1, epoch=2)[0])
    assert [each.tolist() for each in images.in_order(24)] == [[*range(6)], [*range(6, 10)]]
    assert images.lengths.tolist() == [[4]] * 10 and images.extent(0) == "8 x 8 pixels"
    with pytest.raises(DataError, match=r"image of 8 x 8 pixels has 4 patches, more than the 3"):
        images.plan(3, 1, 1)
