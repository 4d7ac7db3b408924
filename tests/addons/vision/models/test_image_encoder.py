import pytest
import torch
from torch.nn import functional as F

from crosshead.addons.vision.models.image_encoder import (
    ImageEncoder,
    ImageShape,
    ImageStackConfig,
    PatchPositionTable,
)


class Config(ImageStackConfig):
    architecture: str = "images"

    def shape(self) -> str:
        return "images"


SMALL = {"d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.0, "patch_size": 4}


def encoder(*, class_token: bool = False, layers: int = 2, **more: object) -> ImageEncoder:
    torch.manual_seed(1)
    config = Config.model_validate({**SMALL, **more})
    return ImageEncoder(config, ImageShape(8), layers, class_token=class_token).eval()


def test_a_patch_is_projected_as_one_flat_vector() -> None:
    """A strided convolution is one linear layer over the pixels of each patch, row by row."""
    model = encoder(patch_positions="none")
    images = torch.randn(3, 3, 8, 8)
    cut = F.unfold(images, kernel_size=4, stride=4).transpose(1, 2)
    expected = F.linear(cut, model.projection.weight.flatten(1), model.projection.bias)
    found = model.projection(images).flatten(2).transpose(1, 2)
    torch.testing.assert_close(found, expected)


def test_without_positions_patches_are_a_set() -> None:
    """Patches that change places take their hidden states with them."""
    model, images = encoder(patch_positions="none"), torch.randn(1, 3, 8, 8)
    swapped = images.clone()
    swapped[..., :4, :4], swapped[..., 4:, 4:] = images[..., 4:, 4:], images[..., :4, :4]
    torch.testing.assert_close(model(swapped), model(images)[:, [3, 1, 2, 0]])
    placed = encoder(patch_positions="sinusoidal")
    assert not torch.allclose(placed(swapped), placed(images)[:, [3, 1, 2, 0]], atol=1e-3)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "none"])
def test_the_class_token_stands_first(kind: str) -> None:
    assert encoder(patch_positions=kind)(torch.randn(2, 3, 8, 8)).shape == (2, 4, 16)
    with_class = encoder(patch_positions=kind, class_token=True)
    assert with_class(torch.randn(2, 3, 8, 8)).shape == (2, 5, 16)
    images = torch.randn(1, 3, 8, 8, requires_grad=True)
    with_class(images)[0, 0, 0].backward()
    assert images.grad is not None
    assert bool((images.grad != 0).any())  # it reads the patches


def test_sinusoids_know_row_and_column_apart() -> None:
    table = PatchPositionTable(16, 3)(0, 9).view(3, 3, 16)
    for index in range(3):
        assert torch.equal(table[index, 0, :8], table[index, 2, :8])
        assert torch.equal(table[0, index, 8:], table[2, index, 8:])
    assert torch.equal(table[1, 2, :8], table[2, 1, 8:])
    assert len({tuple(row.tolist()) for row in table.flatten(0, 1)}) == 9


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="30 pixels are not divisible into patches of 4"):
        ImageShape(30).patches(4)
    with pytest.raises(ValueError, match="divisible by 4, found 6"):
        encoder(d_model=6, patch_positions="sinusoidal")


def test_a_decoder_s_positions_do_not_act_between_patches() -> None:
    assert encoder(positions="alibi").state_dict().keys() == encoder().state_dict().keys()
    images = torch.randn(1, 3, 8, 8)
    torch.testing.assert_close(encoder(positions="alibi")(images), encoder()(images))


def test_convolutions_of_the_stem_end_at_the_patches() -> None:
    model = encoder(stem="convolution", patch_size=4)
    images = torch.randn(2, 3, 8, 8)
    assert model.projection(images).shape == (2, 16, 2, 2)
    changed = images.clone()
    changed[..., 7, 7] += 1.0
    before, after = model.projection[0](images), model.projection[0](changed)
    assert (before != after).any(dim=1)[0].nonzero().tolist() == [[6, 6], [6, 7], [7, 6], [7, 7]]
    patches = [part for part in model.projection if isinstance(part, torch.nn.Conv2d)]
    assert [part.weight.shape[:2] for part in patches] == [(8, 3), (16, 8), (16, 16)]


def test_a_stem_of_convolutions_needs_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="a power of 2, found 3"):
        Config.model_validate({**SMALL, "patch_size": 3, "stem": "convolution"})
