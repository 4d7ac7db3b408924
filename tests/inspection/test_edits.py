import math

import pytest
import torch

from crosshead.errors import ConfigError, DataError
from crosshead.inspection import without_heads
from crosshead.inspection.edits import Edit, ForbiddenEdge, GivenWeights, HeadOff, Patch, Prefix
from crosshead.inspection.trace import trace
from crosshead.tasks.translation.translator import Translator
from tests.inspection.pipelines import pipeline_of

TEXT, TARGET = "to be or", "that is to be"


def test_given_weights_and_forbidden_edges_are_in_the_trace() -> None:
    pipeline = pipeline_of("transformer")
    edits = [
        GivenWeights("cross", 1, 2, "uniform"),
        GivenWeights("decoder", 1, None, "uniform"),
        GivenWeights("encoder", 2, 1, "diagonal"),
        ForbiddenEdge("cross", 3, 4, 5, 1),
    ]
    found = trace(pipeline, TEXT, TARGET, edits)
    queries, keys = (len(axis) for axis in found.axes["cross"])
    torch.testing.assert_close(found.weights("cross")[0, 1], torch.full((queries, keys), 1 / keys))
    rows = torch.tril(torch.ones(queries, queries))
    even = rows / rows.sum(-1, keepdim=True)
    torch.testing.assert_close(found.weights("decoder")[0], even.expand(4, -1, -1))
    torch.testing.assert_close(found.weights("encoder")[1, 0], torch.eye(keys))
    forbidden = found.weights("cross")[2]
    assert forbidden[3, 5, 1] == 0 and forbidden[3, 5].sum() == pytest.approx(1)
    assert forbidden[2, 5, 1] > 0 and forbidden[3, 4, 1] > 0


def test_a_head_that_is_off_is_one_without_its_rows_of_the_output_projection() -> None:
    pipeline = pipeline_of("transformer")
    found = trace(pipeline, TEXT, TARGET, [HeadOff("cross", 2, 3), HeadOff("cross", 2, 1)])
    with without_heads(pipeline, [(2, 3), (2, 1)], "cross"):
        assert isinstance(pipeline, Translator)
        [scored] = pipeline.score([TEXT], [TARGET])
    assert found.probabilities == pytest.approx(
        [math.exp(x) for x in scored.piece_log_probs], abs=1e-6
    )


def test_states_of_the_same_text_change_nothing_and_those_of_another_move_its_output() -> None:
    translator = pipeline_of("transformer")
    one, other = (trace(translator, text, TARGET) for text in ("to be or", "is to be"))
    for stack, layers in (("encoder", 3), ("decoder", 4)):
        assert len(one.states[stack]) == layers
        own = [Patch(one, stack, 1, place) for place in range(len(one.states[stack][0]))]
        assert trace(translator, "to be or", TARGET, own).probabilities == one.probabilities
    last = len(other.states["encoder"]) - 1
    all_states = [Patch(other, "encoder", last, n) for n in range(len(other.source))]
    moved = trace(translator, "to be or", TARGET, all_states)
    assert moved.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    assert moved.probabilities != pytest.approx(one.probabilities, abs=1e-6)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (HeadOff("cross", 4, 1), "no layer 4 in the cross-attention: it has layers 1 to 3"),
        (HeadOff("cross", 1, 5), "no head 5 in the cross-attention: it has heads 1 to 4"),
        (HeadOff("image", 1, 1), "no attention of kind 'image'"),
        (Prefix("that"), "a prefix is for a translation that the model finds"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(edit: Edit, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trace(pipeline_of("transformer"), TEXT, TARGET, [edit])


def test_a_state_that_is_not_there_is_refused() -> None:
    pipeline = pipeline_of("transformer")
    found = trace(pipeline, TEXT, TARGET)
    for patch, message in (
        (Patch(found, "stack", 0, 0), "no stack of layers 'stack' in this model; it has 'encoder'"),
        (Patch(found, "encoder", 3, 0), "no layer 3 in the encoder: it has 0"),
        (Patch(found, "decoder", 1, 99), "no position 99 in the decoder of the other trace"),
    ):
        with pytest.raises(ConfigError, match=message):
            trace(pipeline, TEXT, TARGET, [patch])
    with pytest.raises(DataError, match="the text is empty"):
        trace(pipeline, " ")


def test_the_keys_of_a_window_and_of_a_memory_have_the_positions_of_the_text() -> None:
    text = "to be or not to be that"
    pipeline = pipeline_of("transformer-xl")
    plain = trace(pipeline, text).weights("decoder")
    for query, key in ((11, 7), (11, 9), (5, 0)):
        found = trace(pipeline, text, None, [ForbiddenEdge("decoder", 1, 1, query, key)])
        assert plain[0, 0, query, key] > 0 and found.weights("decoder")[0, 0, query, key] == 0
        assert (found.weights("decoder")[0, 0, query] > 0).sum() == (
            plain[0, 0, query] > 0
        ).sum() - 1
    diagonal = trace(pipeline, text, None, [GivenWeights("decoder", 1, None, "diagonal")])
    places = diagonal.weights("decoder")[0, 0].argmax(-1)
    assert places.tolist() == list(range(len(diagonal.read)))


@pytest.mark.parametrize(("query", "key"), [(3, 2), (5, 4), (5, 1), (7, 6)])
def test_an_edge_in_a_window_is_the_same_in_search_and_in_reading(query: int, key: int) -> None:
    pipeline = pipeline_of("windows")
    decode = pipeline.bundle.config.decode.model_copy(update={"beam": 1, "min_length": 9})
    config = pipeline.bundle.config.model_copy(update={"decode": decode})
    object.__setattr__(pipeline.bundle, "config", config)
    found = trace(pipeline, TEXT, None, [ForbiddenEdge("decoder", 1, None, query, key)])
    known = sum(map(math.log, found.probabilities))
    assert found.found[0].log_prob == pytest.approx(known, abs=1e-4)


def test_places_outside_of_the_text_and_wrong_values_are_refused() -> None:
    pipeline = pipeline_of("transformer")
    for edit, message in (
        (ForbiddenEdge("cross", 1, 1, 500, 0), "no query 500 in the cross-attention: it has 0 to"),
        (ForbiddenEdge("cross", 1, 1, 0, -1), "no key -1 in the cross-attention: it has 0 to"),
        (("cross", 1), "edits: expected changes such as HeadOff"),
    ):
        with pytest.raises(ConfigError, match=message):
            trace(pipeline, TEXT, TARGET, [edit])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="shape: expected 'uniform' or 'diagonal'"):
        GivenWeights("cross", 1, 1, "unifrom")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"expected what crosshead\.load returns"):
        trace(pipeline.model, TEXT)  # type: ignore[arg-type]
