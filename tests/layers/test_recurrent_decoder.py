"""Each decoder against the equations of its paper, written out for one sentence at a time."""

import pytest
import torch
from torch import Tensor, nn

from crosshead.attention.scores import Location, ProjectedAdditive, ScaledDot
from crosshead.layers.recurrent_decoder import (
    BahdanauDecoder,
    ChoDecoder,
    InputFeedingDecoder,
    LuongDecoder,
    Maxout,
    RecurrentDecoder,
    RecurrentDecoderState,
    SutskeverDecoder,
)
from crosshead.layers.rnn import EncodedSource, RecurrentStack
from crosshead.layers.source_attention import SourceAttention

WIDTH, LENGTHS, STEPS = 6, [4, 7, 1], 5


def encoded(kinds: int) -> tuple[EncodedSource, Tensor]:
    """What might have been read of three sentences, in one layer, and its mask."""
    generator = torch.Generator().manual_seed(1)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    memory = torch.randn(3, max(LENGTHS), WIDTH, generator=generator).double() * mask[..., None]
    final = torch.randn(kinds, 1, 3, WIDTH, generator=generator).double()
    return EncodedSource(memory, tuple(final)), mask[:, None, None]


def tokens() -> Tensor:
    return torch.randn(3, STEPS, WIDTH, generator=torch.Generator().manual_seed(2)).double()


def linear(width: int = WIDTH) -> nn.Linear:
    return nn.Linear(width, WIDTH, bias=False)


def decoded(decoder: RecurrentDecoder, kinds: int) -> Tensor:
    read, mask = encoded(kinds)
    features, _ = decoder(
        tokens(), decoder.initial_state(read), decoder.project_memory(read.memory), mask
    )
    return features


def randomised(decoder: RecurrentDecoder) -> RecurrentDecoder:
    """In float64, with biases that matter."""
    decoder = decoder.double().eval().requires_grad_(False)
    for parameter in decoder.parameters():
        if parameter.dim() == 1:
            parameter.normal_()
    return decoder


def gates(layer: nn.LSTM | nn.GRU, x: Tensor, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What each gate is given by the input, and by the state."""
    from_input = layer.weight_ih_l0 @ x + layer.bias_ih_l0
    from_state = layer.weight_hh_l0 @ h + layer.bias_hh_l0
    return list(from_input.split(WIDTH)), list(from_state.split(WIDTH))


def gru(layer: nn.GRU, x: Tensor, h: Tensor) -> Tensor:
    """Cho et al. 2014, Eq. 5-8, in the form that cuDNN computes."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = gates(layer, x, h)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    return (1 - z) * torch.tanh(x_n + r * h_n) + z * h


def lstm(layer: nn.LSTM, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000."""
    i, f, g, o = (a + b for a, b in zip(*gates(layer, x, h), strict=True))
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def maxout(readout: Maxout, *parts: Tensor) -> Tensor:
    """t_k = max of two units of U s + V Ey + C c."""
    t = readout.projection.weight @ torch.cat(parts) + readout.projection.bias
    return torch.stack([max(t[k], t[k + WIDTH]) for k in range(WIDTH)])


def test_bahdanau_is_the_equations_of_his_appendix() -> None:
    """Bahdanau et al. 2015, sections A.1.2 and A.2.2, but for the readout, which reads s_i."""
    torch.manual_seed(0)
    stack = RecurrentStack("gru", 1, 2 * WIDTH, WIDTH, dropout=0.0)
    attention = SourceAttention(linear(), linear(), ProjectedAdditive(1, WIDTH))
    decoder = randomised(BahdanauDecoder(stack, attention, WIDTH, WIDTH // 2, dropout=0.0))
    assert isinstance(decoder, BahdanauDecoder)
    found = decoded(decoder, kinds=1)
    (cell,), (first,) = stack.layers, decoder.first.projections
    assert isinstance(cell, nn.GRU)
    w_a, u_a, v_a = attention.query.weight, attention.key.weight, attention.score.v[0]
    read, _ = encoded(1)
    for row, length in enumerate(LENGTHS):
        h = read.memory[row, :length]
        backwards = read.final[0][0, row, WIDTH // 2 :]
        s = torch.tanh(first.weight @ backwards + first.bias)
        for i, y in enumerate(tokens()[row]):
            e = torch.stack([v_a @ torch.tanh(w_a @ s + u_a @ h_j) for h_j in h])
            c = e.softmax(0) @ h
            s = gru(cell, torch.cat((y, c)), s)
            torch.testing.assert_close(found[row, i], maxout(decoder.readout, s, y, c))


def align(attention: SourceAttention, h_t: Tensor, h: Tensor) -> Tensor:
    """Luong et al. 2015, Eq. 7 and what is beneath it, and Eq. 8 for the location-based."""
    score = attention.score
    if isinstance(score, Location):
        return (h_t @ score.weight[0])[: len(h)].softmax(0)
    if isinstance(score, ProjectedAdditive):  # W_a [h_t; h_s], in two halves
        w_a = torch.cat((attention.query.weight, attention.key.weight), dim=1)
        scores = [score.v[0] @ torch.tanh(w_a @ torch.cat((h_t, h_s))) for h_s in h]
    elif isinstance(attention.query, nn.Linear):
        scores = [h_t @ attention.query.weight.T @ h_s for h_s in h]
    else:
        scores = [h_t @ h_s for h_s in h]
    return torch.stack(scores).softmax(0)


LUONG = {
    "dot": lambda: SourceAttention(nn.Identity(), nn.Identity(), ScaledDot(1.0)),
    "general": lambda: SourceAttention(linear(), nn.Identity(), ScaledDot(1.0)),
    "concat": lambda: SourceAttention(linear(), linear(), ProjectedAdditive(1, WIDTH)),
    "location": lambda: SourceAttention(nn.Identity(), nn.Identity(), Location(1, WIDTH, 8)),
}


@pytest.mark.parametrize("fed", [False, True], ids=["", "fed"])
@pytest.mark.parametrize("name", LUONG)
def test_luong_is_the_equations_of_his_section_3(name: str, fed: bool) -> None:
    torch.manual_seed(0)
    stack = RecurrentStack("lstm", 1, WIDTH * (1 + fed), WIDTH, dropout=0.0)
    attention = LUONG[name]()
    luong = randomised(LuongDecoder(stack, attention, WIDTH, dropout=0.0))
    assert isinstance(luong, LuongDecoder)
    found = decoded(InputFeedingDecoder(luong) if fed else luong, kinds=2)
    (cell,), w_c = stack.layers, luong.output.weight
    assert isinstance(cell, nn.LSTM)
    read, _ = encoded(2)
    for row, length in enumerate(LENGTHS):
        h = read.memory[row, :length]
        h_t, c_t = (kind[0, row] for kind in read.final)
        said = torch.zeros(WIDTH).double()
        for t, y in enumerate(tokens()[row]):
            h_t, c_t = lstm(cell, torch.cat((y, said)) if fed else y, h_t, c_t)
            context = align(attention, h_t, h) @ h
            said = torch.tanh(w_c @ torch.cat((context, h_t)))  # Eq. 5
            torch.testing.assert_close(found[row, t], said)


def test_cho_reads_one_vector_at_every_step() -> None:
    """Cho et al. 2014, section A.1."""
    torch.manual_seed(0)
    stack = RecurrentStack("gru", 1, 2 * WIDTH, WIDTH, dropout=0.0)
    decoder = randomised(ChoDecoder(stack, WIDTH, dropout=0.0))
    assert isinstance(decoder, ChoDecoder)
    found = decoded(decoder, kinds=1)
    (cell,), (first,) = stack.layers, decoder.first.projections
    assert isinstance(cell, nn.GRU)
    read, _ = encoded(1)
    for row in range(3):
        c = torch.tanh(decoder.summary.weight @ read.final[0][0, row] + decoder.summary.bias)
        h = torch.tanh(first.weight @ c + first.bias)
        for t, y in enumerate(tokens()[row]):
            h = gru(cell, torch.cat((y, c)), h)
            torch.testing.assert_close(found[row, t], maxout(decoder.readout, h, y, c))


def test_sutskever_goes_on_from_the_final_state() -> None:
    """Sutskever et al. 2014, section 2."""
    torch.manual_seed(0)
    stack = RecurrentStack("lstm", 1, WIDTH, WIDTH, dropout=0.0)
    found = decoded(randomised(SutskeverDecoder(stack, dropout=0.0)), kinds=2)
    (cell,) = stack.layers
    assert isinstance(cell, nn.LSTM)
    read, _ = encoded(2)
    for row in range(3):
        h, c = (kind[0, row] for kind in read.final)
        for t, y in enumerate(tokens()[row]):
            h, c = lstm(cell, y, h, c)
            torch.testing.assert_close(found[row, t], h)


def test_an_lstms_cells_begin_like_its_outputs_where_a_matrix_makes_them() -> None:
    stack = RecurrentStack("lstm", 2, 2 * WIDTH, WIDTH, dropout=0.0)
    h, c = ChoDecoder(stack, WIDTH, dropout=0.0).double().initial_state(encoded(2)[0]).hidden
    assert torch.equal(h, c)
    assert not torch.equal(h[0], h[1])


def test_selected_rows_carry_what_is_theirs() -> None:
    hidden = (torch.randn(2, 3, WIDTH), torch.randn(2, 3, WIDTH))
    written = RecurrentDecoderState(hidden, torch.randn(3, WIDTH))
    chosen = written.select(torch.tensor([2, 0, 2]))
    assert torch.equal(chosen.extra_input, written.extra_input[[2, 0, 2]])
    for part, whole in zip(chosen.hidden, hidden, strict=True):
        assert torch.equal(part, whole[:, [2, 0, 2]])
