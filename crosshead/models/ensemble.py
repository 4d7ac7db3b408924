"""Ensemble: several models that predict the next token together.

Axes: `B` sentences, `T` target positions, `N` rows being decoded, `D` widths of all members in a
row, `V` vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from crosshead.attention.attend import Attention
from crosshead.errors import ConfigError
from crosshead.models.base import AttentionKind, SequenceModel


@dataclass(frozen=True)
class EnsembleState:
    """The decoding states of all members, for the same rows."""

    members: tuple[Any, ...]

    def select(self, rows: Int[Tensor, " M"]) -> Self:
        """Return the state whose row i continues row `rows[i]` of this one."""
        return type(self)(tuple(state.select(rows) for state in self.members))

    def join(self, other: Self) -> Self:
        """Return a state with the rows of this one, and then those of another."""
        pairs = zip(self.members, other.members, strict=True)
        return type(self)(tuple(mine.join(new) for mine, new in pairs))

    @property
    def nbytes(self) -> int:
        """The size of all members' states in bytes."""
        return sum(state.nbytes for state in self.members)


class Ensemble(SequenceModel):
    """Several autoregressive models as one: the mean of their next-token distributions.

    P(y | history, source) is the arithmetic mean of the members' probabilities, as in the ensembles
    of Sutskever et al. and of fairseq. Some toolkits take the mean of the log-probabilities
    instead, and normalise it again. This is a geometric mean: a token is then improbable as soon as
    one member finds it improbable.

    The hidden states of an ensemble are those of all members, side by side. The models may differ
    in architecture and size. They read the same source ids and predict the same target ids.

    Args:
        members: The models.

    Raises:
        ValueError: If there is no model.

    Reference:
        Sutskever et al. 2014, section 3.6; Hansen and Salamon 1990.
    """

    def __init__(self, members: Sequence[SequenceModel]) -> None:
        super().__init__()
        if not members:
            raise ValueError("expected one model or more, found none")
        self.members = nn.ModuleList(members)
        self.config = members[0].config
        self._models = tuple(members)
        self._widths = [model.projection.in_features for model in members]

    def features(self, *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        """Return the last hidden states of all members, side by side, "B T D".

        Args:
            inputs: A source, "B S", and a shifted target, "B T".
            named: Further arguments of the models.
        """
        return torch.cat([model.features(*inputs, **named) for model in self._models], dim=-1)

    def forward(self, *inputs: Tensor) -> Float[Tensor, "B T V"]:
        """Return the logarithm of the mean probabilities of every position, "B T V".

        Args:
            inputs: As for `features`.
        """
        return self.logits(self.features(*inputs))

    def start(self, source: Any) -> EnsembleState:
        """Return the states of all members before the first token.

        Args:
            source: The sources: padded token ids, "B S".
        """
        return EnsembleState(tuple(model.start(source) for model in self._models))

    def step(
        self, state: EnsembleState, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], EnsembleState]:
        """Feed each row its next tokens, in all members.

        Args:
            state: The state so far. Do not use it again.
            tokens: Token ids, "N T".

        Returns:
            The last hidden states of all members, side by side, "N D", and the new state.
        """
        pairs = zip(self._models, state.members, strict=True)
        hidden, states = zip(*(model.step(each, tokens) for model, each in pairs), strict=True)
        return torch.cat(hidden, dim=-1), EnsembleState(states)

    def logits(self, features: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Return the logarithm of the mean of the members' distributions, "... V".

        It is normalised already, in float32 or higher precision.

        Args:
            features: Hidden states of all members, side by side, "... D".
        """
        parts = features.split(self._widths, dim=-1)
        total = _log_probs(self._models[0], parts[0])
        for model, part in zip(self._models[1:], parts[1:], strict=True):
            total = torch.logaddexp(total, _log_probs(model, part))
        return total - math.log(len(self._models))

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Refuse to name attention modules, because each member has its own.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError("each model of an ensemble has its own attention; load one bundle")


def _log_probs(model: SequenceModel, hidden: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
    logits = model.logits(hidden)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits - logits.logsumexp(dim=-1, keepdim=True)
