"""From token ids to the vectors that enter the first layer."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from crosshead.attention.dropout import Dropout
from crosshead.attention.positions import SinusoidalPositions
from crosshead.errors import UserError
from crosshead.vocabulary import PAD


class LearnedPositions(nn.Module):
    """One learned vector a position (Gehring et al. 2017; Vaswani et al. 2017, Table 3, row E).

    They are drawn with the deviation `std`, by default that of `embedding_weight`.
    """

    def __init__(self, d_model: int, max_length: int, std: float | None = None) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5 if std is None else std)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """The vectors of positions `start` to `start + length - 1`.

        Raises `UserError` for a position past the end of the table: nothing was learned for it.
        """
        if start + length > self.table.shape[0]:
            raise UserError(
                f"a sequence of {start + length} tokens is longer than the {self.table.shape[0]} "
                "learned positions of this model (model.max_length); shorten or split it"
            )
        return self.table[start : start + length]


class Embeddings(nn.Module):
    """Dropout(sqrt(d_model) E[token] + PE(position)): Vaswani et al. 2017, sections 3.4 and 5.4.

    With another `scale` in the place of that root, which is 1 in ConvS2S (Gehring et al. 2017,
    section 3.1). Without `positions`, tokens alone: attention that knows positions needs none here.
    `weight` (`V D`) may be shared with other embeddings and with the output projection. Padding is
    embedded as the zero vector until training moves it through a shared output projection.
    """

    def __init__(
        self,
        weight: nn.Parameter,
        positions: SinusoidalPositions | LearnedPositions | None,
        dropout: float,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.weight = weight
        self.positions = positions
        self.scale = math.sqrt(weight.shape[1]) if scale is None else scale
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "B T"], start: int = 0) -> Float[Tensor, "B T D"]:
        """The vectors of `tokens`, the first of which stands at position `start`."""
        vectors = F.embedding(tokens, self.weight, padding_idx=PAD) * self.scale
        if self.positions is not None:
            vectors = vectors + self.positions(start, tokens.shape[1])
        return self.dropout(vectors)


def embedding_weight(vocabulary: int, d_model: int, std: float | None = None) -> nn.Parameter:
    """A `V D` matrix drawn from N(0, 1/d_model), so that it is of unit variance once scaled.

    The same matrix then gives logits of unit variance for normalised hidden states. Drawn with
    another deviation where `std` is one. The row of padding is zero.
    """
    weight = nn.Parameter(torch.empty(vocabulary, d_model))
    nn.init.normal_(weight, std=d_model**-0.5 if std is None else std)
    with torch.no_grad():
        weight[PAD].zero_()
    return weight


def for_both_sides(
    draw: Callable[[int], nn.Parameter], source: int, target: int, *, shared: bool
) -> tuple[nn.Parameter, nn.Parameter]:
    """The embeddings of so many source and target pieces; one matrix where they are `shared`.

    Raises `ValueError` where vocabularies that are to share one differ in size.
    """
    source_weight, target_weight = draw(source), draw(target)
    if not shared:
        return source_weight, target_weight
    if source != target:
        raise ValueError(
            f"three-way tying needs one joint vocabulary, found {source} source and {target} "
            "target pieces"
        )
    return target_weight, target_weight
