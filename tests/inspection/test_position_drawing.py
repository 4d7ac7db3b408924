from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from crosshead.attention.positions import sinusoidal
from crosshead.attention.relative import alibi_slopes
from crosshead.errors import ConfigError
from crosshead.inspection import draw_positions
from crosshead.models.transformer import Transformer, TransformerConfig
from tests.inspection.pipelines import pipeline_of

SMALL = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "d_ff": 8, "heads": 2}


def model_with(positions: str) -> Transformer:
    """A small model with these positions."""
    return Transformer(TransformerConfig(positions=positions, max_length=None, **SMALL), 9, 9)


def drawn(positions: Any, **options: Any) -> tuple[np.ndarray, str, str, list[float]]:
    """The numbers of a picture, the names of its axes and its extent."""
    axes = draw_positions(positions, **options).axes[0]
    [image] = axes.images
    low, high = image.get_clim()
    assert low == -high
    return image.get_array(), axes.get_xlabel(), axes.get_ylabel(), image.get_extent()


def test_sinusoids_of_a_model_and_vectors_are_drawn_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    found, across, down, extent = drawn(pipeline_of("transformer"), length=30, path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    rows = sinusoidal(30, 16)
    assert (across, down, extent) == ("dimension", "position", [-0.5, 15.5, 29.5, -0.5])
    np.testing.assert_allclose(found, rows)
    np.testing.assert_allclose(drawn(rows)[0], rows)


def test_a_learned_table_is_drawn_as_far_as_it_goes() -> None:
    model = model_with("learned")
    table = model.source_embeddings.positions.table.detach()
    np.testing.assert_allclose(drawn(model, length=5)[0], table[:5])
    np.testing.assert_allclose(drawn(model, length=9000)[0], table)


def test_a_module_of_another_package_is_drawn() -> None:
    class Ramp(nn.Module):
        def forward(self, start: int, length: int) -> torch.Tensor:
            return torch.arange(start, start + length)[:, None].expand(length, 3)

    assert drawn(Ramp(), length=4)[0].tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]


def test_positions_in_attention_are_drawn() -> None:
    found, across, _, _ = drawn(model_with("rotary"), length=6)
    np.testing.assert_allclose(found, sinusoidal(6, 8, pairing="halves"))
    assert "sines, then cosines" in across

    found, across, down, extent = drawn(model_with("alibi"), length=3)
    slopes = np.array(alibi_slopes(2))[:, None]
    np.testing.assert_allclose(found, -slopes * [3, 2, 1, 0, 1, 2, 3])
    assert "key" in across and down == "head" and extent == [-3.5, 3.5, 2.5, 0.5]

    model = model_with("shaw")
    found, _, down, extent = drawn(model)
    keys = model.encoder.layers[0].attention.score.vectors  # type: ignore[union-attr]
    np.testing.assert_allclose(found, keys.table.detach())  # type: ignore[union-attr]
    assert "key" in down and extent[2:] == [16.5, -16.5]


def test_a_model_without_positions_is_refused() -> None:
    for model in (pipeline_of("bahdanau"), model_with("none")):
        with pytest.raises(ConfigError, match="no positions"):
            draw_positions(model)
