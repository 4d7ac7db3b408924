"""The decoders of recurrent models, which differ in how the source enters them.

One call of a PyTorch layer computes the whole target if all its inputs are known in advance. A loop
over positions is needed only if a step reads the output of the step before.

Axes: `B` sentences, `N` rows being decoded, `S` and `T` positions, `D` width, `L` layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from crosshead.attention.dropout import Dropout
from crosshead.attention.kv_cache import KeyValues
from crosshead.layers.rnn import EncodedSource, Hidden, RecurrentStack
from crosshead.layers.source_attention import SourceAttention

Vectors = Float[Tensor, "N T D"]
Memories = Sequence[KeyValues]
SourceMask = Bool[Tensor, "B 1 1 S"]


class RecurrentDecoderState(NamedTuple):
    """The state of a recurrent decoder for its rows.

    Attributes:
        hidden: The states of all layers.
        extra_input: A vector that the next step reads beside its token, "N D".
    """

    hidden: Hidden
    extra_input: Float[Tensor, "N D"] | None = None

    def select(self, rows: Int[Tensor, " M"]) -> "RecurrentDecoderState":
        """Return the state of these rows."""
        extra_input = None if self.extra_input is None else self.extra_input[rows]
        return RecurrentDecoderState(tuple(part[:, rows] for part in self.hidden), extra_input)

    def join(self, other: "RecurrentDecoderState") -> "RecurrentDecoderState":
        """Return the state of these rows, and then those of another state."""
        hidden = zip(self.hidden, other.hidden, strict=True)
        extra_input = None
        if self.extra_input is not None and other.extra_input is not None:
            extra_input = torch.cat([self.extra_input, other.extra_input])
        return RecurrentDecoderState(tuple(torch.cat(pair, dim=1) for pair in hidden), extra_input)

    @property
    def nbytes(self) -> int:
        """The size of the state in bytes."""
        extra_input = 0 if self.extra_input is None else self.extra_input.nbytes
        return sum(part.nbytes for part in self.hidden) + extra_input


class RecurrentDecoder(nn.Module, ABC):
    """The interface of decoders: encoded source and target embeddings in, hidden states out."""

    @abstractmethod
    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return the state before the first token."""

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> Memories:
        """Return the keys and values that the decoder attends to."""
        return ()

    @abstractmethod
    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Decode the next target positions."""


class Maxout(nn.Module):
    """A maxout readout: the larger of each pair of units of a projection of all inputs.

    Recurrent decoders use it to combine decoder state, token and context.

    Reference:
        Goodfellow et al. 2013; Cho et al. 2014, section A.1.2; Bahdanau et al. 2015, section A.2.2.
    """

    def __init__(self, parts: int, d_model: int) -> None:
        super().__init__()
        self.projection = glorot(parts * d_model, 2 * d_model)

    def forward(self, *parts: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        """Return the readout at every position."""
        return torch.maximum(*self.projection(torch.cat(parts, dim=-1)).chunk(2, dim=-1))


class SutskeverDecoder(RecurrentDecoder):
    """A decoder whose layers start from the encoder's final states.

    The decoder sees nothing else of the source. Its outputs are projected to logits.

    Reference:
        Sutskever et al. 2014, section 2.
    """

    def __init__(self, stack: RecurrentStack, dropout: float) -> None:
        super().__init__()
        self.stack, self.dropout = stack, Dropout(dropout)

    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return the encoder's final states."""
        return RecurrentDecoderState(encoded.final)

    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Compute all positions in one call."""
        x, hidden = self.stack(x, state.hidden)
        return self.dropout(x), RecurrentDecoderState(hidden)


class ChoDecoder(RecurrentDecoder):
    """A decoder that reads one source vector c at every step.

    c = tanh(V h), where h is the final state of the encoder's last layer. A bidirectional encoder
    gives both directions: forwards at the last position and backwards at the first. The paper's
    encoder reads forwards. Layers start from tanh(V' c). The first layer and the readout read c at
    every step.

    Reference:
        Cho et al. 2014, section A.1.
    """

    def __init__(self, stack: RecurrentStack, d_model: int, dropout: float) -> None:
        super().__init__()
        self.stack, self.dropout = stack, Dropout(dropout)
        self.summary = glorot(d_model, d_model)
        self.first = InitialState(d_model, d_model, stack)
        self.readout = Maxout(3, d_model)

    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return the states computed from c, and c itself."""
        c = torch.tanh(self.summary(encoded.final[0][-1]))
        return RecurrentDecoderState(self.first(c), c)

    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Compute all positions in one call."""
        assert state.extra_input is not None
        c = state.extra_input.unsqueeze(1).expand_as(x)
        y, hidden = self.stack(torch.cat((x, c), dim=-1), state.hidden)
        return self.dropout(self.readout(y, x, c)), RecurrentDecoderState(hidden, state.extra_input)


class BahdanauDecoder(RecurrentDecoder):
    """A decoder with attention before the cell.

        s_i = f(s_{i-1}, y_{i-1}, c_i)      c_i = sum_j softmax_j(a(s_{i-1}, h_j)) h_j

    The query is the previous state of the last layer. The first layer reads the context c_i beside
    the token. Layers start from tanh(W_s h), where h is the encoder's final state, of the backward
    direction if there are two. The readout reads s_i, on which the next token depends in Eq. 4;
    section A.2.2 has s_{i-1}. With a GRU, f is PyTorch's, whose reset gate acts after the product:
    see `crosshead.layers.rnn`.

    Reference:
        Bahdanau et al. 2015, sections 3.1 and A.2.2.
    """

    def __init__(
        self,
        stack: RecurrentStack,
        attention: SourceAttention,
        d_model: int,
        d_final: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.stack, self.cross_attention, self.dropout = stack, attention, Dropout(dropout)
        self.d_final = d_final
        self.first = InitialState(d_final, d_model, stack)
        self.readout = Maxout(3, d_model)

    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return states from the backward encoder's final state (appendix A.2.2).

        The backward encoder reads the source from the last token to the first, or from the first to
        the last if the source was reversed. An encoder with one direction gives its final state.
        """
        return RecurrentDecoderState(self.first(encoded.final[0][-1][:, -self.d_final :]))

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> Memories:
        """Return the annotations, projected once (section A.1.2)."""
        return [self.cross_attention.project(memory)]

    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Run position after position; the query is the previous decoder state."""
        hidden, outputs, contexts = state.hidden, [], []
        for token in x.split(1, dim=1):
            context = self.cross_attention(hidden[0][-1].unsqueeze(1), memories[0], mask)
            y, hidden = self.stack(torch.cat((token, context), dim=-1), hidden)
            outputs.append(y)
            contexts.append(context)
        readout = self.readout(torch.cat(outputs, dim=1), x, torch.cat(contexts, dim=1))
        return self.dropout(readout), RecurrentDecoderState(hidden)


class LuongDecoder(RecurrentDecoder):
    """A decoder with attention after the cell.

        h~ = tanh(W_c [c; h])      Eq. 5

    Each layer starts from the final state of the same layer of the encoder. All positions are
    computed in one call.

    Reference:
        Luong et al. 2015, section 3, Eq. 5.
    """

    def __init__(
        self, stack: RecurrentStack, attention: SourceAttention, d_model: int, dropout: float
    ) -> None:
        super().__init__()
        self.stack, self.cross_attention, self.dropout = stack, attention, Dropout(dropout)
        self.output = glorot(2 * d_model, d_model, bias=False)

    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return the encoder's final states."""
        return RecurrentDecoderState(encoded.final)

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> Memories:
        """Return the source's hidden states, projected once."""
        return [self.cross_attention.project(memory)]

    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Compute all positions in one call."""
        h, hidden = self.stack(x, state.hidden)
        return self.dropout(self.attentional(h, memories[0], mask)), RecurrentDecoderState(hidden)

    def attentional(self, h: Vectors, memory: KeyValues, mask: SourceMask) -> Vectors:
        """Return the attentional hidden states h~ (Eq. 5)."""
        context = self.cross_attention(h, memory, mask)
        return torch.tanh(self.output(torch.cat((context, h), dim=-1)))


class InputFeedingDecoder(RecurrentDecoder):
    """Luong's decoder with input feeding: each step also reads the h~ of the step before.

    Reference:
        Luong et al. 2015, section 3.3.
    """

    def __init__(self, inner: LuongDecoder) -> None:
        super().__init__()
        self.inner = inner

    def initial_state(self, encoded: EncodedSource) -> RecurrentDecoderState:
        """Return the encoder's final states, and zeros for h~."""
        final = self.inner.initial_state(encoded).hidden
        return RecurrentDecoderState(final, torch.zeros_like(final[0][-1]))

    def project_memory(self, memory: Float[Tensor, "B S D"]) -> Memories:
        """Return the source's hidden states, projected once."""
        return self.inner.project_memory(memory)

    def forward(
        self, x: Vectors, state: RecurrentDecoderState, memories: Memories, mask: SourceMask
    ) -> tuple[Vectors, RecurrentDecoderState]:
        """Run position after position."""
        assert state.extra_input is not None
        hidden, outputs = state.hidden, [state.extra_input.unsqueeze(1)]
        for token in x.split(1, dim=1):
            h, hidden = self.inner.stack(torch.cat((token, outputs[-1]), dim=-1), hidden)
            outputs.append(self.inner.dropout(self.inner.attentional(h, memories[0], mask)))
        return torch.cat(outputs[1:], dim=1), RecurrentDecoderState(hidden, outputs[-1].squeeze(1))


class InitialState(nn.Module):
    """Initial states tanh(W x + b), with a W for each layer of a stack.

    The cell state of an LSTM starts equal to its output; the papers have GRUs.
    """

    def __init__(self, d_input: int, d_model: int, stack: RecurrentStack) -> None:
        super().__init__()
        self.states_per_layer = stack.states_per_layer
        self.projections = nn.ModuleList(glorot(d_input, d_model) for _ in stack.layers)

    def forward(self, x: Float[Tensor, "N _"]) -> Hidden:
        """Return the initial states of the layers."""
        states = torch.stack([torch.tanh(projection(x)) for projection in self.projections])
        return (states,) * self.states_per_layer


def glorot(d_input: int, d_output: int, bias: bool = True) -> nn.Linear:
    """Return a linear layer with a Glorot-uniform matrix."""
    layer = nn.Linear(d_input, d_output, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
