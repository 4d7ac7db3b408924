"""Embeddings: token ids to the vectors that enter the first layer."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.dropout import Dropout
from crosshead.attention.kv_cache import Positions
from crosshead.attention.positions import last_position, rows_of
from crosshead.errors import UserError
from crosshead.vocabulary import CUT, PAD


class LearnedPositions(nn.Module):
    """Learned positions: a table with a vector for each position.

    Reference:
        Gehring et al. 2017; Vaswani et al. 2017, Table 3, row E.
    """

    def __init__(self, d_model: int, max_length: int, std: float | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5 if std is None else std)

    def forward(
        self, start: Positions, length: int
    ) -> Float[Tensor, "T D"] | Float[Tensor, "N T D"]:
        """Return the vectors of positions `start` to `start + length - 1`."""
        end = last_position(start) + length
        if end > self.table.shape[0]:
            raise UserError(
                f"a sequence of {end} tokens is longer than the {self.table.shape[0]} "
                "learned positions of this model (model.max_length); shorten or split it"
            )
        return rows_of(self.table, start, length)


class Embeddings(nn.Module):
    """Token embeddings with positions: Dropout(sqrt(d_model) E[token] + PE(position)).

    Padding is embedded as the zero vector until training moves it through a shared output
    projection.

    Reference:
        Vaswani et al. 2017, sections 3.4 and 5.4; Gehring et al. 2017, section 3.1 (the scale of
        ConvS2S).
    """

    def __init__(
        self,
        weight: nn.Parameter,
        positions: nn.Module | None,
        dropout: float,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.scale = math.sqrt(weight.shape[1]) if scale is None else scale
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "B T"], start: Positions = 0) -> Float[Tensor, "B T D"]:
        """Return the vectors of tokens, "B T D"."""
        vectors = self._of_tokens(tokens) * self.scale
        if self.positions is not None:
            vectors = (vectors + self.positions(start, tokens.shape[1])).to(vectors.dtype)
        return self.dropout(vectors)

    def _of_tokens(self, tokens: Tensor) -> Tensor:
        """Return the rows of E, and zero vectors for tokens that are `CUT`."""
        # A GPU would wait for the answer to "are there any?".
        if not self.training or (tokens.is_cpu and not bool((tokens == CUT).any())):
            return F.embedding(tokens, self.weight, padding_idx=PAD)
        kept = tokens != CUT
        vectors = F.embedding(tokens.where(kept, PAD), self.weight, padding_idx=PAD)
        return vectors * kept[..., None].to(vectors.dtype)


def embedding_weight(vocabulary: int, d_model: int, std: float | None = None) -> nn.Parameter:
    """Return an initial embedding matrix, drawn from N(0, 1/d_model).

    Scaled by sqrt(d_model) it has unit variance. As an output projection it gives logits of unit
    variance for normalised hidden states.
    """
    weight = nn.Parameter(torch.empty(vocabulary, d_model))
    nn.init.normal_(weight, std=d_model**-0.5 if std is None else std)
    with torch.no_grad():
        weight[PAD].zero_()
    return weight


def source_and_target_weights(
    draw: Callable[[int], nn.Parameter], source: int, target: int, *, shared: bool
) -> tuple[nn.Parameter, nn.Parameter]:
    """Return the embedding matrices of source and target."""
    source_weight, target_weight = draw(source), draw(target)
    if not shared:
        return source_weight, target_weight
    if source != target:
        raise ValueError(
            f"three-way tying needs one joint vocabulary, found {source} source and {target} "
            "target pieces"
        )
    return target_weight, target_weight
