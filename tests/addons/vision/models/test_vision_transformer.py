"""The vision Transformer: identities, and parity with Hugging Face's."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

from crosshead.addons.vision.models.classifier import build_classifier
from crosshead.addons.vision.models.image_encoder import ImageShape
from crosshead.addons.vision.models.vision_transformer import (
    VisionTransformer,
    VisionTransformerConfig,
)
from crosshead.config import validate
from crosshead.errors import ConfigError

SMALL: dict[str, Any] = {"d_model": 16, "d_ff": 32, "heads": 2, "layers": 2, "dropout": 0.0}


def model(**settings: Any) -> VisionTransformer:
    torch.manual_seed(1)
    config = VisionTransformerConfig(**{**SMALL, **settings})
    found = build_classifier(config, ImageShape(8), 3).eval()
    assert isinstance(found, VisionTransformer)
    torch.nn.init.normal_(found.head.weight)
    return found


def test_the_class_token_or_the_mean_is_classified() -> None:
    images = torch.randn(2, 3, 8, 8)
    for pool in ("class", "mean"):
        vit = model(pool=pool)
        hidden = vit.encoder(images)
        assert hidden.shape == (2, 5 if pool == "class" else 4, 16)
        wanted = hidden[:, 0] if pool == "class" else hidden.mean(dim=1)
        torch.testing.assert_close(vit(images), F.linear(wanted, vit.head.weight, vit.head.bias))


def test_the_mean_without_positions_does_not_know_places() -> None:
    vit = model(pool="mean", patch_positions="none")
    images = torch.randn(2, 3, 8, 8)
    turned = torch.cat([images[..., 4:, :], images[..., :4, :]], dim=-2)
    torch.testing.assert_close(vit(images), vit(turned))
    placed = model(pool="mean")
    assert not torch.allclose(placed(images), placed(turned), atol=1e-4)


def test_a_batch_is_its_images() -> None:
    images = torch.randn(3, 3, 8, 8)
    vit = model(stem="convolution")
    torch.testing.assert_close(vit(images), torch.cat([vit(each[None]) for each in images]))


def test_hugging_faces_model_gives_the_same_logits() -> None:
    """The position of their class token is part of our class token."""
    vit = model(norm_eps=1e-12)
    torch.nn.init.normal_(vit.encoder.class_token)
    theirs = ViTForImageClassification(
        ViTConfig(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            image_size=8, patch_size=4, num_labels=3,
        )
    ).eval()  # fmt: skip
    ours, found = vit.state_dict(), theirs.state_dict()
    names = {
        "vit.embeddings.patch_embeddings.projection": "encoder.projection",
        "vit.layernorm": "encoder.stack.norm", "classifier": "head",
    }  # fmt: skip
    for layer in range(2):
        there, here = f"vit.layers.{layer}", f"encoder.stack.layers.{layer}"
        names |= {
            f"{there}.attention.q_proj": f"{here}.attention.query",
            f"{there}.attention.o_proj": f"{here}.attention.output",
            f"{there}.mlp.fc1": f"{here}.feedforward.inner",
            f"{there}.mlp.fc2": f"{here}.feedforward.outer",
            f"{there}.layernorm_before": f"{here}.add_norm_attention.norm",
            f"{there}.layernorm_after": f"{here}.add_norm_feedforward.norm",
        }
        for end in ("weight", "bias"):
            halves = ours[f"{here}.attention.key_value.{end}"].chunk(2)
            for name, half in zip(("k_proj", "v_proj"), halves, strict=True):
                found[f"{there}.attention.{name}.{end}"] = half
    for there, here in names.items():
        for end in ("weight", "bias"):
            found[f"{there}.{end}"] = ours[f"{here}.{end}"]
    table = ours["encoder.positions.table"]
    found["vit.embeddings.position_embeddings"] = F.pad(table, (0, 0, 1, 0))[None]
    found["vit.embeddings.cls_token"] = ours["encoder.class_token"].view(1, 1, -1)
    theirs.load_state_dict(found)
    images = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(vit(images), theirs(images).logits)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"positions": "rotary"}, "positions: patches have patch_positions"),
        ({"pattern": "window", "radius": 2}, "patches attend to all patches"),
        ({"max_length": 9}, "max_length: the number of patches follows data.image_size"),
        ({"stem": "convolution", "patch_size": 6}, "a power of 2, found 6"),
    ],
)
def test_settings_of_text_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        validate(VisionTransformerConfig, {**SMALL, **settings})


def test_the_number_of_patches_is_the_length_of_an_image() -> None:
    config = VisionTransformerConfig(**SMALL)
    assert config.tokens(ImageShape(32)) == 64
    assert "patches of 4 x 4 pixels, 2 layers" in config.shape()
    with pytest.raises(ValueError, match="not divisible into patches of 4"):
        config.tokens(ImageShape(30))
