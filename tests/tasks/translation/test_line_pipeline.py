import pytest

from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import DataError
from crosshead.models.recurrent import RecurrentConfig
from tests.tasks.translation.translators import untrained


def test_what_bounds_the_source_alone_does_not_bound_what_is_written() -> None:
    """The places that location-based attention knows are places of the source."""
    shape = RecurrentConfig(
        encoder_layers=1, decoder_layers=1, d_model=8, attention="luong-location", max_length=12
    )
    translator = untrained(shape)
    assert translator.max_source_length == 11
    decode = DecodeConfig(beam=1, max_extra=30)
    [[cut], [whole]] = translator.translate(["a" * 20, "a"], decode=decode)
    assert cut.was_split and not whole.was_split
    assert len(whole.pieces) > 12
    translator.score(["a"], ["a" * 40])
    with pytest.raises(
        DataError, match="pair 1: its source has 21 tokens, but the model takes at most 12"
    ):
        translator.score(["a" * 20], ["a"])
