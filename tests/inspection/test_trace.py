import math

import pytest
import torch

from crosshead.errors import ConfigError
from crosshead.inspection import attention_weights
from crosshead.inspection.edits import Edit, ForbiddenEdge, GivenWeights, HeadOff, Patch, Prefix
from crosshead.inspection.trace import Trace, log_probabilities, trace
from crosshead.tasks.translation.translator import Translator
from tests.inspection.pipelines import CONFIGS, pipeline_of

TEXT, TARGET = "to be or", "that is to be"
PAIRS = [name for name, config in CONFIGS.items() if config.task == "translation"]


def translator_of(name: str, beam: int = 4) -> Translator:
    pipeline = pipeline_of(name)
    assert isinstance(pipeline, Translator)
    decode = pipeline.bundle.config.decode.model_copy(
        update={"beam": beam, "max_extra": 6, "min_length": 5}
    )
    config = pipeline.bundle.config.model_copy(update={"decode": decode})
    object.__setattr__(pipeline.bundle, "config", config)
    return pipeline


@pytest.mark.parametrize("name", CONFIGS)
def test_the_numbers_are_those_of_the_model(name: str) -> None:
    pipeline = pipeline_of(name)
    is_pair = isinstance(pipeline, Translator)
    found = trace(pipeline, TEXT, TARGET if is_pair else None)
    assert len(found.read) == len(found.target) == len(found.probabilities) == len(found.best)
    if isinstance(pipeline, Translator):
        [scored] = pipeline.score([TEXT], [TARGET])
        expected = [math.exp(each) for each in scored.piece_log_probs]
        assert found.probabilities == pytest.approx(expected, abs=1e-6)
    for kind, layers in found.attention.items():
        target = TARGET if is_pair and kind != "encoder" else None
        drawn = attention_weights(pipeline, TEXT, target=target, kind=kind)
        assert found.axes[kind] == (drawn.queries, drawn.keys)
        torch.testing.assert_close(found.weights(kind), drawn.weights)
        for layer in layers:
            hidden = layer.scores.masked_fill(~layer.mask, -torch.inf)
            torch.testing.assert_close(hidden.softmax(-1).nan_to_num(), layer.weights)
    for probability, best in zip(found.probabilities, found.best, strict=True):
        assert len(best) == 5 and best[0].probability >= probability - 1e-6
    if found.lens:
        assert found.lens[-1] == [
            [(each.piece, pytest.approx(each.probability, abs=1e-5), each.id) for each in best]
            for best in found.best
        ]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("beam", [1, 4])
def test_the_search_is_that_of_the_translator(name: str, beam: int) -> None:
    translator = translator_of(name, beam)
    [expected] = translator.translate([TEXT], n_best=beam)
    found = trace(translator, TEXT)
    assert [each.text for each in found.found] == [each.text for each in expected]
    assert found.found[0].score == pytest.approx(expected[0].score, abs=1e-5)
    assert all(1 <= len(rows) <= beam for rows in found.beam)
    for before, rows in zip(found.beam, found.beam[1:], strict=False):
        assert all(row.log_prob <= before[row.parent].log_prob + 1e-5 for row in rows)
        assert rows[0].log_prob == max(row.log_prob for row in rows)


def edits_of(other: Trace) -> list[list[Edit]]:
    return [
        [HeadOff("cross", 2, 3)],
        [HeadOff("decoder", 1)],
        [GivenWeights("cross", 1, 2, "uniform")],
        [GivenWeights("decoder", 2, None, "diagonal")],
        [GivenWeights("encoder", 1, None, "diagonal"), GivenWeights("cross", 3, None, "diagonal")],
        [ForbiddenEdge("cross", 1, None, 2, 1), ForbiddenEdge("decoder", 1, 1, 0, 0)],
        [Patch(other, "encoder", 1, 2)],
        [Patch(other, "decoder", 2, 1), Patch(other, "decoder", 0, 3)],
    ]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("name", ["transformer", "windows"])
def test_a_change_is_the_same_in_search_and_in_reading(name: str, number: int) -> None:
    translator = translator_of(name)
    plain = trace(translator, TEXT)
    edits = edits_of(trace(translator, "that is", "is that or not"))[number]
    changed = trace(translator, TEXT, edits=edits)
    best = changed.found[0]
    known = [math.log(each) for each in changed.probabilities]
    finished = sum(known) == pytest.approx(best.log_prob, abs=1e-4)
    assert finished or sum(known[:-1]) == pytest.approx(best.log_prob, abs=1e-4)  # cut off
    assert best.log_prob != pytest.approx(plain.found[0].log_prob, abs=1e-6)
    again = trace(translator, TEXT)
    assert again.found == plain.found and again.probabilities == plain.probabilities


def test_edits_may_come_from_an_iterator() -> None:
    translator = translator_of("transformer")
    edits = [HeadOff("cross", layer) for layer in (1, 2, 3)]
    assert trace(translator, TEXT, edits=iter(edits)).probabilities == (  # type: ignore[arg-type]
        trace(translator, TEXT, edits=edits).probabilities
    )


def test_a_query_without_a_key_has_no_weights() -> None:
    """Its first position is the only one that it may see."""
    found = trace(
        translator_of("transformer"), TEXT, "that is", [ForbiddenEdge("decoder", 1, 1, 0, 0)]
    ).attention["decoder"][0]
    assert not found.mask[0, 0].any()
    assert not found.weights[0, 0].any() and not found.norms[0, 0].any()
    assert found.weights[0, 1].sum() == pytest.approx(1, abs=1e-5)


def test_a_state_is_patched_within_the_text_alone() -> None:
    translator = translator_of("transformer")
    longer = trace(translator, "to be or not to be")
    with pytest.raises(ConfigError, match="no position 12 in the encoder: it has 0 to"):
        trace(translator, TEXT, edits=[Patch(longer, "encoder", 1, 12)])


def test_log_probabilities_are_those_of_the_trace() -> None:
    for name in ("transformer", "language", "encoder"):
        pipeline = pipeline_of(name)
        whole = trace(pipeline, TEXT)
        target = whole.ids[:-1] if isinstance(pipeline, Translator) else None
        found = log_probabilities(pipeline, TEXT, target, ())
        compared = trace(pipeline, TEXT, target)
        assert len(found) == len(compared.ids) - compared.is_guessed
        expected = compared.probabilities[: len(found)]
        assert [math.exp(each) for each in found] == pytest.approx(expected, abs=1e-5)


def test_a_prefix_is_what_the_output_begins_with() -> None:
    translator = translator_of("transformer")
    found = trace(translator, TEXT, edits=[Prefix("that")])
    assert found.target[:4] == list("that") and found.read[1:5] == list("that")
    assert all(each.text.startswith("that") for each in found.found)


def test_a_printed_trace_shows_the_pieces_and_no_tensors() -> None:
    printed = repr(trace(pipeline_of("transformer"), TEXT, TARGET))
    assert printed.startswith("Trace(source=[") and "target=[" in printed
    assert "tensor(" not in printed and len(printed) < 2000


def test_the_difference_of_two_traces() -> None:
    pipeline = pipeline_of("transformer")
    plain = trace(pipeline, TEXT, TARGET)
    changed = trace(pipeline, TEXT, TARGET, [HeadOff("decoder", 2, 1)])
    found = changed - plain
    assert found.probabilities == [
        a - b for a, b in zip(changed.probabilities, plain.probabilities, strict=True)
    ]
    assert not found.states["encoder"].any() and not found.states["decoder"][:2].any()
    assert found.states["decoder"][2:].all() and not found.weights["encoder"].any()
    assert found.weights["decoder"][2].any() and not found.weights["decoder"][:2].any()
    with pytest.raises(ConfigError, match="the traces have other pieces"):
        changed - trace(pipeline, TEXT, "to be")


def test_the_head_that_an_aligner_has_taught_is_marked() -> None:
    translator = translator_of("transformer")
    assert trace(translator, TEXT, TARGET).supervised is None
    config = translator.bundle.config.model_copy(update={"guided": True})
    object.__setattr__(translator.bundle, "config", config)
    assert trace(translator, TEXT, TARGET).supervised == ("cross", 2, 1)
