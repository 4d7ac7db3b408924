from pathlib import Path

import pytest
import torch

from crosshead.errors import ConfigError, DataError
from crosshead.inspection import draw_heads, measure_heads, without_heads
from crosshead.inspection.edits import GivenWeights, changes
from crosshead.inspection.probe import probed
from crosshead.tasks.translation.translator import Translator
from tests.inspection.pipelines import pipeline_of

SOURCES, TARGETS = ["to be or", "be not"], ["that is", "not to be"]


def translator_of(name: str) -> Translator:
    found = pipeline_of(name)
    assert isinstance(found, Translator)
    return found


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_the_loss_is_that_without_the_head(name: str) -> None:
    translator = translator_of(name)

    def loss() -> float:
        scores = translator.score(SOURCES, TARGETS)
        pieces = [each for score in scores for each in score.piece_log_probs]
        return -sum(pieces) / len(pieces)

    before = loss()
    found = [*measure_heads(translator, SOURCES, TARGETS)]
    assert len(found) == sum(
        m.heads for each in translator.model.attentions().values() for m in each
    )
    for kind, layer, head, entropy, distance, lost, bleu in found:
        with without_heads(translator, [(layer, head)], kind):
            assert lost == pytest.approx(loss() - before, abs=1e-5)
        assert entropy >= 0 and distance >= 0 and bleu is None


def test_even_weights_have_the_entropy_of_their_number() -> None:
    translator = translator_of("transformer")
    edit = GivenWeights("encoder", 1, 2, "uniform")
    with probed(translator.model, *changes(translator.model, [edit]), keeps="nothing"):
        found = {each[:3]: each for each in measure_heads(translator, ["to be"], ["not"])}
    keys = torch.arange(6.0)
    assert found["encoder", 1, 2].entropy == pytest.approx(float(torch.tensor(6.0).log()))
    mean = float((keys[:, None] - keys).abs().mean())
    assert found["encoder", 1, 2].distance == pytest.approx(mean)


def test_the_cost_is_drawn_for_each_kind(tmp_path: Path) -> None:
    translator = translator_of("transformer")
    found = [*measure_heads(translator, SOURCES, TARGETS, scored=True)]
    assert all(each.bleu is not None for each in found)
    figure = draw_heads(found, path=tmp_path / "heads.svg")
    assert len(figure.axes) == 4 and (tmp_path / "heads.svg").exists()


def test_what_cannot_be_measured_is_told() -> None:
    with pytest.raises(ConfigError, match="this model has no attention"):
        [*measure_heads(translator_of("no attention"), SOURCES, TARGETS)]
    with pytest.raises(DataError):
        [*measure_heads(translator_of("transformer"), SOURCES, TARGETS[:1])]
    with pytest.raises(DataError, match="no pairs"):
        [*measure_heads(translator_of("transformer"), [], [])]
