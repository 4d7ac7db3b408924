"""The decoders of recurrent models: how what was read enters what is written.

A layer of PyTorch's goes over the whole target at once where every input of it is known before; a
loop over positions stands only where a step needs what the one before gave.

Axes: `N` rows being decoded, `T` target positions, `D` width, `L` layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from crosshead.attention.cache import KeyValues
from crosshead.attention.dropout import Dropout
from crosshead.layers.rnn import Encoded, Hidden, RecurrentStack
from crosshead.layers.source_attention import SourceAttention


class Written(NamedTuple):
    """The state of a recurrent decoder for its rows."""

    hidden: Hidden
    carried: Float[Tensor, "N D"] | None = None
    """A vector that the next step reads beside its token."""

    def select(self, rows: Int[Tensor, " M"]) -> "Written":
        """Return the state of these rows."""
        carried = None if self.carried is None else self.carried[rows]
        return Written(tuple(part[:, rows] for part in self.hidden), carried)


class RecurrentDecoder(nn.Module, ABC):
    """A decoder: from the encoded source and target embeddings to hidden states."""

    @abstractmethod
    def begin(self, encoded: Encoded) -> Written:
        """Return the state before the first token, one row per sentence."""

    def look(self, memory: Float[Tensor, "B S D"]) -> Sequence[KeyValues]:
        """Return the keys and values of each sentence; none without attention."""
        return ()

    @abstractmethod
    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """The features from which the token after each is predicted, and what is remembered."""


class Maxout(nn.Module):
    """Parts of one width added in two projections, and of each pair of units the larger one.

    Goodfellow et al. 2013, as Cho et al. 2014 (section A.1.2) and Bahdanau et al. 2015 (section
    A.2.2) read out of decoder, token and context.
    """

    def __init__(self, parts: int, d_model: int) -> None:
        super().__init__()
        self.projection = glorot(parts * d_model, 2 * d_model)

    def forward(self, *parts: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        """The readout of vectors that belong together."""
        return torch.maximum(*self.projection(torch.cat(parts, dim=-1)).chunk(2, dim=-1))


class FinalState(RecurrentDecoder):
    """A decoder whose layers begin with the encoder's final states (Sutskever et al. 2014).

    These states are all that the decoder sees of the source. Its outputs are the hidden states that
    are projected to logits (section 2).
    """

    def __init__(self, stack: RecurrentStack, dropout: float) -> None:
        super().__init__()
        self.stack, self.dropout = stack, Dropout(dropout)

    def begin(self, encoded: Encoded) -> Written:
        """The final states."""
        return Written(encoded.final)

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """All positions in one call."""
        x, hidden = self.stack(x, written.hidden)
        return self.dropout(x), Written(hidden)


class Summary(RecurrentDecoder):
    """A decoder that reads one source vector c at every step (Cho et al. 2014, section A.1).

    c = tanh(V h) of what the encoder's last layer ends with, of a bidirectional one both directions
    (forwards at the last position, backwards at the first; Cho's reads forwards), and layers begin
    with tanh(V' c). Of several layers the first reads c at every step, and so does the readout.
    """

    def __init__(self, stack: RecurrentStack, d_model: int, dropout: float) -> None:
        super().__init__()
        self.stack, self.dropout = stack, Dropout(dropout)
        self.summary = glorot(d_model, d_model)
        self.first = FirstState(d_model, d_model, stack)
        self.readout = Maxout(3, d_model)

    def begin(self, encoded: Encoded) -> Written:
        """c, and what layers make of it."""
        c = torch.tanh(self.summary(encoded.final[0][-1]))
        return Written(self.first(c), c)

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """All positions in one call."""
        assert written.carried is not None
        c = written.carried.unsqueeze(1).expand_as(x)
        y, hidden = self.stack(torch.cat((x, c), dim=-1), written.hidden)
        return self.dropout(self.readout(y, x, c)), Written(hidden, written.carried)


class Bahdanau(RecurrentDecoder):
    """Attention before the cell (Bahdanau et al. 2015, sections 3.1 and A.2.2).

        s_i = f(s_{i-1}, y_{i-1}, c_i)      c_i = sum_j softmax_j(a(s_{i-1}, h_j)) h_j

    The first layer reads the context c_i beside the token, and the last one's output before is what
    looks; layers begin with tanh(W_s h), of the encoder's last state in its last direction
    (`d_final` wide), which is backwards in one that reads both ways.
    The readout reads s_i, on which Eq. 4 says that the next token depends, where A.2.2 has s_{i-1}.
    With a GRU, f is PyTorch's, whose reset gate acts after the product: see `layers.recurrent`.
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
        self.first = FirstState(d_final, d_model, stack)
        self.readout = Maxout(3, d_model)

    def begin(self, encoded: Encoded) -> Written:
        """Initialise the decoder from the backward encoder's final state.

        The backward encoder reads the source from the last token to the first (Bahdanau et al.
        2015, appendix A.2.2), or the other way round if the source was given in reverse. An encoder
        of one direction gives its own final state.
        """
        return Written(self.first(encoded.final[0][-1][:, -self.d_final :]))

    def look(self, memory: Float[Tensor, "B S D"]) -> Sequence[KeyValues]:
        """The annotations, projected once (section A.1.2)."""
        return [self.cross_attention.project(memory)]

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """Run position after position; the query is the previous decoder state."""
        hidden, outputs, contexts = written.hidden, [], []
        for token in x.split(1, dim=1):
            context = self.cross_attention(hidden[0][-1].unsqueeze(1), seen[0], mask)
            y, hidden = self.stack(torch.cat((token, context), dim=-1), hidden)
            outputs.append(y)
            contexts.append(context)
        features = self.readout(torch.cat(outputs, dim=1), x, torch.cat(contexts, dim=1))
        return self.dropout(features), Written(hidden)


class Luong(RecurrentDecoder):
    """Attention after the cell (Luong et al. 2015, section 3): h~ = tanh(W_c [c; h]), Eq. 5.

    Each layer begins with what its layer of the encoder ended with. All positions are computed in
    one call.
    """

    def __init__(
        self, stack: RecurrentStack, attention: SourceAttention, d_model: int, dropout: float
    ) -> None:
        super().__init__()
        self.stack, self.cross_attention, self.dropout = stack, attention, Dropout(dropout)
        self.output = glorot(2 * d_model, d_model, bias=False)

    def begin(self, encoded: Encoded) -> Written:
        """The final states."""
        return Written(encoded.final)

    def look(self, memory: Float[Tensor, "B S D"]) -> Sequence[KeyValues]:
        """The source's states, projected once."""
        return [self.cross_attention.project(memory)]

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """All positions in one call."""
        h, hidden = self.stack(x, written.hidden)
        return self.dropout(self.attentional(h, seen[0], mask)), Written(hidden)

    def attentional(
        self, h: Float[Tensor, "N T D"], memory: KeyValues, mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "N T D"]:
        """h~ (Eq. 5)."""
        context = self.cross_attention(h, memory, mask)
        return torch.tanh(self.output(torch.cat((context, h), dim=-1)))


class InputFeeding(RecurrentDecoder):
    """Luong's decoder whose next step also reads h~, what it said (section 3.3): a loop."""

    def __init__(self, inner: Luong) -> None:
        super().__init__()
        self.inner = inner

    def begin(self, encoded: Encoded) -> Written:
        """The final states, and nothing said."""
        final = self.inner.begin(encoded).hidden
        return Written(final, torch.zeros_like(final[0][-1]))

    def look(self, memory: Float[Tensor, "B S D"]) -> Sequence[KeyValues]:
        """The source's states, projected once."""
        return self.inner.look(memory)

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        written: Written,
        seen: Sequence[KeyValues],
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "N T D"], Written]:
        """Position after position."""
        assert written.carried is not None
        hidden, said = written.hidden, [written.carried.unsqueeze(1)]
        for token in x.split(1, dim=1):
            h, hidden = self.inner.stack(torch.cat((token, said[-1]), dim=-1), hidden)
            said.append(self.inner.dropout(self.inner.attentional(h, seen[0], mask)))
        return torch.cat(said[1:], dim=1), Written(hidden, said[-1].squeeze(1))


class FirstState(nn.Module):
    """tanh(W x + b) for every layer of a stack, each with a W of its own.

    The cell of an LSTM begins like its output: the papers that begin so have GRUs.
    """

    def __init__(self, d_input: int, d_model: int, stack: RecurrentStack) -> None:
        super().__init__()
        self.kinds = stack.kinds
        self.projections = nn.ModuleList(glorot(d_input, d_model) for _ in stack.layers)

    def forward(self, x: Float[Tensor, "N _"]) -> Hidden:
        """Return the initial states of the layers."""
        states = torch.stack([torch.tanh(projection(x)) for projection in self.projections])
        return (states,) * self.kinds


def glorot(d_input: int, d_output: int, bias: bool = True) -> nn.Linear:
    """A Glorot-uniform matrix, and where there is one a bias of zero."""
    layer = nn.Linear(d_input, d_output, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer
