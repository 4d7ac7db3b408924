"""The engine of crosshead: how much memory its batches take."""

import pytest
import torch

from crosshead.decoding.settings import BeamRules
from crosshead.models.base import SequenceModel
from crosshead.tasks.translation.engine import (
    Query,
)
from crosshead.tasks.translation.model_engine import ModelEngine, measured_size, model_engines
from crosshead.tasks.translation.translator import Translator
from tests.models.decodable import SOURCES, specials
from tests.models.small_recurrents import KINDS
from tests.models.small_recurrents import model_of as recurrent_of
from tests.models.small_transformers import TINY, model_of

MODELS: dict[str, SequenceModel] = {
    "transformer": model_of(TINY),
    "recurrent": recurrent_of(KINDS["general"]),
}


def engine_of(model: SequenceModel, beam: int = 2) -> ModelEngine:
    kinds, device = specials(model.config), torch.device("cpu")
    size = measured_size(model, kinds, device)
    return ModelEngine(model, kinds, BeamRules(beam, 0.6), device, size)


@pytest.mark.parametrize("name", MODELS)
def test_the_measured_size_is_that_of_a_real_batch(name: str) -> None:
    """Before the caches grow, and never less than the batch holds afterwards, spare room aside."""
    engine = engine_of(MODELS[name])
    batch = engine.batch()
    ids = [each.tolist() for each in SOURCES]
    batch.add([Query(number, each, 16, 1) for number, each in enumerate(ids)])
    longest = max(map(len, ids)) + 1
    assert batch.running.state.nbytes == pytest.approx(engine.bytes(3, longest, 16), rel=0.02)


def test_a_new_beam_does_not_run_the_model(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = model_engines(translator)

    def broken(*given: object) -> None:
        raise AssertionError("the model runs")

    for name in ("start", "step"):
        monkeypatch.setattr(translator.model, name, broken)
    engine, wider = make(4), make(9)
    assert (engine.beam, wider.beam) == (4, 9)
    assert engine.bytes(1, 8, 8) < wider.bytes(1, 8, 8)
