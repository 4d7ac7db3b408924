"""Masks that no recipe names learn what they let be known, to the last position."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.attention.masks import (
    Mask,
    allowed,
    causal,
    documents,
    global_tokens,
    prefix,
    window,
)
from crosshead.models.encoder_only import EncoderConfig, TransformerEncoder
from crosshead.vocabulary import PAD
from tests.learning import SEEDS, learns

LENGTH, LETTERS, FIRST = 16, 8, 4
FILLER = FIRST + LETTERS
NOISE = LETTERS + 1
"""What makes a letter one that nobody asks for."""
VOCABULARY = FILLER + NOISE


class Case(NamedTuple):
    """Sentences `B T`, what each position is to say of them, and the mask they are read with."""

    tokens: Tensor
    wanted: Tensor
    mask: Mask


def letters(rows: int, length: int) -> Tensor:
    return torch.randint(FIRST, FILLER, (rows, length))


def with_a_prefix(rows: int) -> Case:
    """The first half says what comes next in it, which `causal` hides; the second, what was."""
    half = LENGTH // 2
    said = letters(rows, half)
    tokens = torch.cat([said, torch.full_like(said, FILLER)], dim=1)
    return Case(tokens, torch.cat([said.roll(-1, dims=1), said], dim=1), causal | prefix(half))


def in_documents(rows: int) -> Case:
    """Two documents, the second from anywhere on; all say the letter of their own."""
    ids = torch.arange(LENGTH) >= torch.randint(4, LENGTH - 4, (rows, 1))
    own = torch.where(ids, *letters(rows, 2).split(1, dim=1))
    shows = (torch.arange(LENGTH) == 1) | (torch.arange(LENGTH) == LENGTH - 2)
    return Case(torch.where(shows, own, FILLER), own, documents(ids.long()))


def with_a_global_token(rows: int) -> Case:
    """All say the letter of the third position, whatever else stands around them."""
    tokens, said = letters(rows, LENGTH) + NOISE, letters(rows, 1)
    tokens[:, 2:3] = said
    return Case(tokens, said.expand(-1, LENGTH), window(1) | global_tokens([2]))


def by_a_table(rows: int) -> Case:
    """Each position sees another alone, which one by a table, and says what stands there."""
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(1))
    tokens = letters(rows, LENGTH)
    return Case(tokens, tokens[:, order], allowed(torch.eye(LENGTH)[order].bool()))


def by_what_another_forbids(rows: int) -> Case:
    """What `causal` hides of the neighbours is the next one: that is to be said."""
    tokens = letters(rows, LENGTH)
    wanted = tokens.roll(-1, dims=1)
    wanted[:, -1] = PAD  # behind the last there is none
    return Case(tokens, wanted, ~causal & window(1))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "draw",
    [with_a_prefix, in_documents, with_a_global_token, by_a_table, by_what_another_forbids],
    ids=lambda draw: draw.__name__,
)
def test_what_a_mask_shows_is_learned(draw: Callable[[int], Case], seed: int) -> None:
    torch.manual_seed(seed)
    config = EncoderConfig(layers=1, d_model=32, d_ff=64, heads=2, dropout=0.0, positions="shaw")
    model = TransformerEncoder(config, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def logits(case: Case) -> Tensor:
        mask = case.mask.evaluate(LENGTH, LENGTH, batch=len(case.tokens))
        x = model.embeddings(case.tokens)
        for layer in model.stack.layers:
            x = layer(x, mask)
        return model.projection(model.stack.norm(x))

    def update(number: int) -> float:
        case = draw(64)
        loss = F.cross_entropy(logits(case).flatten(0, 1), case.wanted.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    test = draw(200)
    asked = test.wanted != PAD

    @torch.inference_mode()
    def learned() -> bool:
        return torch.equal(logits(test).argmax(dim=-1)[asked], test.wanted[asked])

    assert learns(update, learned, most=1000)
