"""Recurrent layers: stacks of PyTorch's LSTM and GRU, over sequences of different lengths.

PyTorch's GRU applies the reset gate after the product with the state, where the papers apply it
before it (Cho et al. 2014, Eq. 8; Bahdanau et al. 2015, section A.1.1):

    n = tanh(W x + b + r * (U h + b'))      PyTorch
    n = tanh(W x + U (r * h) + b)           the papers

In general no choice of weights turns one into the other. PyTorch has kernels for its own form; the
papers' form would need a Python loop over positions. The update gate follows PyTorch and Cho,
h' = z * h + (1 - z) * n. Bahdanau's gate is one minus z, which is the same function with negated
weights.

Each layer is a PyTorch module of its own with dropout between them, because PyTorch's own dropout
draws from the global generator.
Axes: `B` sentences, `N` rows being decoded, `S` and `T` positions, `D` width, `L` layers.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from crosshead.attention.dropout import Dropout

Cell = Literal["lstm", "gru"]

Hidden = tuple[Float[Tensor, "L N D"], ...]
"""The states of all layers: outputs and cell states for an LSTM, outputs for a GRU."""

_CELLS: dict[Cell, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class EncodedSource(NamedTuple):
    """A source, encoded by a stack of recurrent layers.

    Attributes:
        memory: The last layer's hidden states, "B S D"; zeros at padding.
        final: The final states of every layer: of the forward direction after the last position,
            and beside it of the backward direction after the first.
    """

    memory: Float[Tensor, "B S D"]
    final: Hidden


class RecurrentEncoder(nn.Module):
    """A recurrent encoder of one direction or two.

    In a bidirectional encoder every layer reads both directions of the layer below.

    Reference:
        Schuster and Paliwal 1997.
    """

    def __init__(
        self, cell: Cell, layers: int, d_model: int, *, bidirectional: bool, dropout: float
    ) -> None:
        super().__init__()
        width = d_model // 2 if bidirectional else d_model
        self.layers: Sequence[nn.LSTM | nn.GRU] = nn.ModuleList(  # type: ignore[assignment]
            _layer(cell, d_model, width, bidirectional) for _ in range(layers)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> EncodedSource:
        """Encode padded sequences; padding is not computed."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        finals = []
        for number, layer in enumerate(self.layers):
            if number:
                packed = PackedSequence(self.dropout(packed.data), *packed[1:])
            packed, state = layer(packed)
            finals.append(tuple(part.transpose(0, 1).flatten(1) for part in _parts(state)))
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return EncodedSource(memory, _stacked(finals))


class RecurrentStack(nn.Module):
    """A stack of recurrent layers that read forwards from a given state."""

    def __init__(
        self, cell: Cell, layers: int, d_input: int, d_model: int, *, dropout: float
    ) -> None:
        super().__init__()
        self.layers: Sequence[nn.LSTM | nn.GRU] = nn.ModuleList(  # type: ignore[assignment]
            _layer(cell, d_model if number else d_input, d_model, False) for number in range(layers)
        )
        self.states_per_layer = 2 if cell == "lstm" else 1
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "N T _"], hidden: Hidden
    ) -> tuple[Float[Tensor, "N T D"], Hidden]:
        """Read the next positions."""
        states = []
        for number, layer in enumerate(self.layers):
            if number:
                x = self.dropout(x)
            before = tuple(part[number] for part in hidden)
            x, after = (_one_step if x.shape[1] == 1 else _all_steps)(layer, x, before)
            states.append(after)
        return x, _stacked(states)


def _layer(cell: Cell, d_input: int, width: int, bidirectional: bool) -> nn.LSTM | nn.GRU:
    """Return a PyTorch layer with the usual initialisation.

    Each gate's matrix is Glorot-uniform for the input and orthogonal for the state (Saxe et al.
    2014; Bahdanau et al. 2015, section B.1). Biases are zero, but 1 for an LSTM's forget gate, so
    that it starts open (Gers et al. 2000; Jozefowicz et al. 2015).
    """
    layer = _CELLS[cell](d_input, width, batch_first=True, bidirectional=bidirectional)
    for name, parameter in layer.named_parameters():
        gates = parameter.split(width, dim=0)  # input, forget, cell, output; reset, update, new
        if name.startswith("bias"):
            nn.init.zeros_(parameter)
            if cell == "lstm" and name.startswith("bias_ih"):  # the two biases are added
                nn.init.ones_(gates[1])
            continue
        initialise = nn.init.xavier_uniform_ if "weight_ih" in name else nn.init.orthogonal_
        for gate in gates:
            initialise(gate)
    return layer


def _all_steps(
    layer: nn.LSTM | nn.GRU, x: Tensor, before: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the outputs `N T D` of a layer, and its states after them, `N D` each."""
    first = tuple(part.unsqueeze(0) for part in before)
    x, state = layer(x, first if len(first) > 1 else first[0])
    return x, tuple(part[0] for part in _parts(state))


def _one_step(
    layer: nn.LSTM | nn.GRU, x: Tensor, before: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run the layer on one position, with its cell function.

    The result is the same. In loops the layer itself takes up to twice as long as its cell.
    """
    w_x, w_h, b_x, b_h = layer.parameters()
    if isinstance(layer, nn.LSTM):
        h, c = torch.lstm_cell(x[:, 0], before, w_x, w_h, b_x, b_h)
        return h.unsqueeze(1), (h, c)
    h = torch.gru_cell(x[:, 0], before[0], w_x, w_h, b_x, b_h)
    return h.unsqueeze(1), (h,)


def _parts(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the state as a tuple: two tensors for an LSTM, one for a GRU."""
    return state if isinstance(state, tuple) else (state,)


def _stacked(layers: list[tuple[Tensor, ...]]) -> Hidden:
    """Stack the states `N D` of all layers, outputs and cell states apart."""
    return tuple(torch.stack(kind) for kind in zip(*layers, strict=True))
