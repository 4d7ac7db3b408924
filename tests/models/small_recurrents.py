"""Small recurrent models of every kind."""

import torch

from crosshead.config import validate
from crosshead.models.recurrent import Recurrent, RecurrentConfig
from tests.models.decodable import for_decoding
from tests.models.small_transformers import VOCABULARY

TINY = RecurrentConfig(encoder_layers=2, decoder_layers=2, d_model=12, dropout=0.0)


def tiny(**changes: object) -> RecurrentConfig:
    return validate(RecurrentConfig, TINY.model_dump() | changes)


KINDS = {
    "none, lstm": tiny(attention="none"),
    "none, gru": tiny(attention="none", cell="gru", encoder_layers=1),
    "none, reversed, one way": tiny(
        attention="none", reverse_source=True, bidirectional=False, tie="none"
    ),
    "bahdanau, gru": tiny(attention="bahdanau", cell="gru", encoder_layers=1),
    "bahdanau, lstm": tiny(attention="bahdanau", bidirectional=False, reverse_source=True),
    "dot": tiny(attention="luong-dot"),
    "general": tiny(attention="luong-general", tie="two-way"),
    "concat": tiny(attention="luong-concat", cell="gru"),
    "location": tiny(attention="luong-location", max_length=9),
    "local": tiny(attention="luong-local", radius=2, reverse_source=True),
    "general, fed": tiny(attention="luong-general", input_feeding=True),
    "local, fed": tiny(attention="luong-local", radius=1, input_feeding=True, cell="gru"),
}
"""Every attention, both cells with each way of using them, and every option."""


def model_of(config: RecurrentConfig, seed: int = 0) -> Recurrent:
    """A model in float64 for decoding."""
    torch.manual_seed(seed)
    model = for_decoding(Recurrent(config, VOCABULARY, VOCABULARY))
    assert isinstance(model, Recurrent)
    return model
