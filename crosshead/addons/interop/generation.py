"""The search settings of exports that transformers reads: `generation_config.json`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import ForeignSearch, json_bytes
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.verify import in_batches, token_log_probs
from crosshead.bundle.text_bundle import TextBundle
from crosshead.system.files import atomic_write
from crosshead.text.batching import Batch, Example, collate
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, PAD

GENERATION = "generation_config.json"
"""The file of the search settings."""


def search_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return search settings as arguments of `generate` for an encoder-decoder."""
    # The start token counts.
    return {"max_length": search.max_length + 1, **beam_arguments(search)}


def beam_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return the settings of beam search as arguments of `generate`.

    Greedy search has no others: transformers warns of settings that it does not use.
    """
    if search.beam == 1:
        return {"num_beams": 1}
    return {
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": "never" if search.exact else False,
    }


def control(ids: Sequence[int | None], start: int) -> dict[str, int | None]:
    """Return the exported ids of padding, end and start, by their keys in `config.json`."""
    return {
        "pad_token_id": ids[PAD],
        "eos_token_id": ids[EOS],
        "decoder_start_token_id": ids[start],
    }


def forbidden_ids(bundle: TextBundle) -> list[list[int]]:
    """Return the exported ids that search never produces, each as a list, as `generate` has it."""
    ids = foreign_ids(bundle.target_tokenizer)
    return [[row] for index in bundle.forbidden if (row := ids[index]) is not None]


def scored(
    bundle: TextBundle, examples: Sequence[Example], logits: Callable[[Batch], Tensor]
) -> list[list[float]]:
    """Return the log-probability of each target token, as `Foreign` says.

    `logits` returns those of a batch by the exported ids.
    """
    target = own_to_foreign(bundle.target_tokenizer)
    never = [row[0] for row in forbidden_ids(bundle)]

    def of_batch(rows: list[int]) -> list[list[float]]:
        batch = collate(examples, rows, bundle.specials.start)
        with torch.inference_mode():
            return token_log_probs(logits(batch), target[batch.target_output], never)

    return in_batches(examples, of_batch)


def own_to_foreign(tokenizer: Tokenizer) -> Tensor:
    """Return the exported id of each id; 0 for one that is not exported."""
    return torch.tensor([row or 0 for row in foreign_ids(tokenizer)])


def write_generation(values: Mapping[str, Any], directory: Path) -> None:
    """Write the defaults of `generate`."""
    atomic_write(directory / GENERATION, json_bytes(values))
