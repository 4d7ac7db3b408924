"""Random GPT-2s with tokenizers learned from a few lines, as transformers saves them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.addons.interop.byte_level import byte_level
from tests.addons.interop.small_bundles import TEXT

LINES = [*TEXT["source"], *TEXT["target"]]
POSITIONS = 48


def gpt2_model(pieces: int, **changes: Any) -> "transformers.GPT2LMHeadModel":
    """A random model in which every weight matters."""
    values = {
        "vocab_size": pieces, "n_positions": POSITIONS, "n_embd": 16, "n_layer": 2, "n_head": 4,
        "initializer_range": 0.3, "bos_token_id": pieces - 1, "eos_token_id": pieces - 1,
    }  # fmt: skip
    torch.manual_seed(0)
    model = (
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**values, **changes}))
        .eval()
        .requires_grad_(False)
    )
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def write_gpt2(
    directory: Path, *, pickled: bool = False, **changes: Any
) -> "transformers.GPT2LMHeadModel":
    """Write a model with its tokenizer, and return the model."""
    tokenizer = byte_level(LINES)
    model = gpt2_model(tokenizer.get_vocab_size(), **changes)
    model.save_pretrained(directory)
    if pickled:  # as OpenAI's weights were published: without the prefix, and with masks
        body = model.transformer.state_dict()
        masks = {f"h.{n}.attn.bias": torch.ones(1, 1, 4, 4) for n in range(2)}
        torch.save({**body, **masks}, directory / "pytorch_model.bin")
        (directory / "model.safetensors").unlink()
    tokenizer.save(str(directory / "tokenizer.json"))
    return model


def change(path: Path, values: Mapping[str, Any]) -> None:
    """Change values of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
