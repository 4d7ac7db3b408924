import pytest
import torch

from crosshead.decoding.beam import BeamRules
from crosshead.models.base import SequenceModel
from crosshead.serving.engine import Query
from crosshead.serving.model_engine import ModelEngine
from tests.models.decodable import SOURCES, specials
from tests.models.small_recurrents import KINDS
from tests.models.small_recurrents import model_of as recurrent_of
from tests.models.small_transformers import TINY, model_of

MODELS: dict[str, SequenceModel] = {
    "transformer": model_of(TINY),
    "recurrent": recurrent_of(KINDS["general"]),
}


def engine_of(model: SequenceModel, beam: int = 2) -> ModelEngine:
    return ModelEngine(model, specials(model.config), BeamRules(beam, 0.6), torch.device("cpu"))


@pytest.mark.parametrize("name", MODELS)
def test_the_measured_size_is_that_of_a_real_batch(name: str) -> None:
    """Before the caches grow, and never less than the batch holds afterwards, spare room aside."""
    engine = engine_of(MODELS[name])
    batch = engine.batch()
    ids = [each.tolist() for each in SOURCES]
    batch.add([Query(number, each, 16, 1) for number, each in enumerate(ids)])
    longest = max(map(len, ids)) + 1
    assert batch.running.state.nbytes == pytest.approx(engine.bytes(3, longest, 16), rel=0.02)
