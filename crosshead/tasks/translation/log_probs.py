"""Scores of given translations: log-probabilities under a model, without a search."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import DataError
from crosshead.models.base import SequenceModel
from crosshead.tasks.pipeline import LONGEST_SCORED
from crosshead.tasks.translation.line_translator import MostPositions
from crosshead.tasks.translation.text_translator import checked_lines
from crosshead.text.batching import Batch, Example, collate, example_lengths, plan_in_order
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS

SCORED_LOGITS = 2**25
"""The number of logits that scoring holds at once: 128 MiB of float32."""


@dataclass(frozen=True)
class ScoredTranslation:
    """Log-probabilities of a given translation under the model.

    Attributes:
        log_prob: The sum of `piece_log_probs`.
        pieces: The tokens of the translation, including the end of the sentence.
        piece_log_probs: The natural log-probabilities of the pieces.
    """

    log_prob: float
    pieces: list[str]
    piece_log_probs: list[float]


def score_examples(
    model: SequenceModel,
    bundle: TextBundle,
    examples: Sequence[Example],
    progress: Callable[[float], None] = lambda share: None,
) -> list[ScoredTranslation]:
    """Return the log-probability of each target as a translation of its source, in order."""
    lengths = example_lengths(examples)
    device = next(model.parameters()).device
    # A small vocabulary does not allow any number of tokens: hidden states need memory too.
    budget = max(SCORED_LOGITS // bundle.config.target_vocabulary, 1)
    budget = min(budget, bundle.config.decode.batch_tokens)
    scored: dict[int, ScoredTranslation] = {}
    with torch.inference_mode():
        for rows in plan_in_order(lengths, budget):
            batch = collate(examples, rows.tolist(), bundle.specials.start).to(device)
            for row, values in zip(rows.tolist(), _log_probs(model, batch), strict=True):
                ids = [*examples[row][1], EOS]
                piece_log_probs = values[: len(ids)]
                scored[row] = ScoredTranslation(
                    math.fsum(piece_log_probs),
                    bundle.target_tokenizer.pieces(ids),
                    piece_log_probs,
                )
            progress(len(scored) / len(examples))
    return [scored[row] for row in range(len(examples))]


def encode_pairs(
    bundle: TextBundle, sources: Sequence[str], targets: Sequence[str]
) -> list[Example]:
    """Return the token ids of sources and targets."""
    sources, targets = checked_lines(sources), checked_lines(targets)
    if len(sources) != len(targets):
        raise DataError(
            f"expected a target for each source, found {len(sources)} sources and "
            f"{len(targets)} targets"
        )
    return list(
        zip(
            token_ids(bundle.source_tokenizer, sources),
            token_ids(bundle.target_tokenizer, targets),
            strict=True,
        )
    )


def why_too_long(
    most_positions: MostPositions, examples: Sequence[Example], first: int
) -> dict[int, str]:
    """Return why pairs are too long to be scored, by their rows from 0."""
    bounds = [min(LONGEST_SCORED, positions or LONGEST_SCORED) for positions in most_positions]
    found = {}
    for row, lengths in enumerate(example_lengths(examples).tolist()):
        for side, length, most in zip(("source", "target"), lengths, bounds, strict=True):
            if length > most and row not in found:
                found[row] = (
                    f"pair {first + row + 1}: its {side} has {length:,} tokens, but the model "
                    f"takes at most {most:,}"
                )
    return found


def _log_probs(model: SequenceModel, batch: Batch) -> list[list[float]]:
    """Return the log-probability of each target token and of the end."""
    logits = model(batch.source, batch.target_input).float()
    expected = batch.target_output
    losses = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), reduction="none")
    rows: list[list[float]] = losses.neg().view(expected.shape).tolist()
    return rows
