import pytest
import torch
from torch import Tensor, nn

from crosshead.layers.rnn import Cell, RecurrentEncoder, RecurrentStack

WIDTH = 8
TORCH: dict[Cell, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
CELLS = pytest.mark.parametrize("cell", TORCH)


def torch_stack(layers: nn.ModuleList, cell: Cell, bidirectional: bool) -> nn.LSTM | nn.GRU:
    """PyTorch's own stack, with the weights of these layers."""
    stack = TORCH[cell](
        layers[0].input_size, layers[0].hidden_size, len(layers), batch_first=True,
        bidirectional=bidirectional,
    ).double()  # fmt: skip
    weights = {
        name.replace("l0", f"l{number}"): parameter
        for number, layer in enumerate(layers)
        for name, parameter in layer.named_parameters()
    }
    stack.load_state_dict(weights)
    return stack


def parts(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


@CELLS
@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_encoder_says_what_pytorchs_stack_says(cell: Cell, bidirectional: bool) -> None:
    """Of each sentence by itself, whatever stands behind it; no sentence fills the batch."""
    torch.manual_seed(0)
    encoder = RecurrentEncoder(cell, 3, WIDTH, bidirectional=bidirectional, dropout=0.3)
    encoder = encoder.double().eval()
    stack = torch_stack(encoder.layers, cell, bidirectional)
    x, lengths = torch.randn(3, 6, WIDTH).double(), [4, 5, 1]
    memory, final = encoder(x, torch.tensor(lengths))
    assert memory.shape == (3, 6, WIDTH)
    for row, length in enumerate(lengths):
        outputs, state = stack(x[row : row + 1, :length])
        torch.testing.assert_close(memory[row, :length], outputs[0])
        assert not memory[row, length:].any()
        for kind, expected in zip(final, parts(state), strict=True):
            directions = expected[:, 0].unflatten(0, (3, -1))  # layer by layer, forwards first
            torch.testing.assert_close(kind[:, row], directions.flatten(1))


@CELLS
def test_the_stack_says_what_pytorchs_says_all_at_once_and_step_by_step(cell: Cell) -> None:
    torch.manual_seed(0)
    ours = RecurrentStack(cell, 2, 5, WIDTH, dropout=0.3).double().eval()
    stack = torch_stack(ours.layers, cell, bidirectional=False)
    x = torch.randn(3, 4, 5).double()
    before = tuple(torch.randn(2, 3, WIDTH).double() for _ in range(ours.states_per_layer))
    outputs, after = stack(x, before if len(before) > 1 else before[0])
    found, hidden = ours(x, before)
    torch.testing.assert_close(found, outputs)
    torch.testing.assert_close(hidden, parts(after))
    hidden = before
    for t in range(4):
        found, hidden = ours(x[:, t : t + 1], hidden)
        torch.testing.assert_close(found, outputs[:, t : t + 1])
    torch.testing.assert_close(hidden, parts(after))


def test_dropout_stands_between_layers_alone() -> None:
    """What a single layer says does not depend on it, and what two say does."""
    x, lengths = torch.randn(2, 3, WIDTH), torch.tensor([3, 2])
    for layers, same in ((1, True), (2, False)):
        encoder = RecurrentEncoder("gru", layers, WIDTH, bidirectional=True, dropout=0.5)
        stack = RecurrentStack("gru", layers, WIDTH, WIDTH, dropout=0.5)
        before = (torch.zeros(layers, 2, WIDTH),)
        assert torch.equal(encoder(x, lengths).memory, encoder(x, lengths).memory) == same
        assert torch.equal(stack(x, before)[0], stack(x, before)[0]) == same


@CELLS
def test_layers_begin_as_documented(cell: Cell) -> None:
    """Each gate Glorot-uniform from the input, orthogonal from the state, and closed but one."""
    torch.manual_seed(0)
    (layer,) = RecurrentStack(cell, 1, 60, 40, dropout=0.0).layers
    gates = 4 if cell == "lstm" else 3
    for gate in layer.weight_ih_l0.split(40):
        assert 0.93 < gate.var() / (2 / (60 + 40)) < 1.07
        assert gate.abs().max() <= (6 / (60 + 40)) ** 0.5
    for gate in layer.weight_hh_l0.split(40):
        torch.testing.assert_close(gate @ gate.T, torch.eye(40), rtol=0, atol=1e-5)
    bias = (layer.bias_ih_l0 + layer.bias_hh_l0).unflatten(0, (gates, 40))
    forget = torch.arange(gates) == (1 if cell == "lstm" else -1)
    assert torch.equal(bias, forget.float()[:, None].expand(-1, 40))
