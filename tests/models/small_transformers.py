"""Small models of every kind, and random pieces to feed them."""

import torch
from torch import Tensor, nn

from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.vocabulary import PAD

VOCABULARY = 23
TINY = TransformerConfig(
    encoder_layers=2, decoder_layers=3, d_model=16, d_ff=24, heads=4, dropout=0.0
)
VARIANTS = {
    "base": TINY,
    "pre-norm": TINY.model_copy(update={"norm": "pre"}),
    "learned, odd widths": TINY.model_copy(
        update={"positions": "learned", "max_length": 64, "d_key": 3, "d_value": 5}
    ),
    "marian": TINY.model_copy(
        update={
            "positions": "sinusoidal-halves", "start": "pad",
            "output_bias": True, "activation": "swish",
        }
    ),
}  # fmt: skip


def model_of(config: TransformerConfig, seed: int = 0) -> Transformer:
    """A model in float64 for decoding, its constants randomised so that each of them matters."""
    torch.manual_seed(seed)
    model = Transformer(config, VOCABULARY, VOCABULARY).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def tokens(*shape: int, seed: int = 0) -> Tensor:
    """Ordinary pieces: no padding, no special ids."""
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def padded(rows: list[Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def shifted(config: TransformerConfig, target: Tensor) -> Tensor:
    return torch.cat((torch.full_like(target[:, :1], config.start_token), target[:, :-1]), dim=1)
