from dataclasses import replace

import numpy as np
import pytest
import torch

import crosshead
from crosshead.bundle.text_bundle import TextBundle
from crosshead.inspection.record import attention_weights
from crosshead.tasks.translation.alignment import AttentionAlignments
from crosshead.tasks.translation.translator import Translator
from crosshead.text.markers import token_ends
from tests.tasks.translation.test_translator import STORED

PAIRS = [("One two three.", "Eins zwei drei."), ("Four.", "Vier vier.")]


@pytest.fixture(scope="module")
def stored() -> Translator:
    found = crosshead.load(STORED)
    assert isinstance(found, Translator)
    return found


def examples(bundle: TextBundle) -> list[tuple[list[int], list[int]]]:
    return [
        (bundle.source_tokenizer.encode(source), bundle.target_tokenizer.encode(target))
        for source, target in PAIRS
    ]


@pytest.mark.parametrize("guided", [False, True])
def test_an_alignment_is_the_attention_of_a_layer_both_ways(
    stored: Translator, guided: bool
) -> None:
    config = stored.bundle.config.model_copy(update={"guided": guided})
    found = AttentionAlignments(replace(stored.bundle, config=config)).of(examples(stored.bundle))
    for (source, target), weights in zip(PAIRS, found, strict=True):
        shown = attention_weights(stored, source, target=target).weights
        layer = shown[max(0, len(shown) - 2), :, :-1, :-1]
        one_way = layer[0] if guided else layer.mean(0)
        expected = one_way * (one_way / one_way.sum(axis=0))
        np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_a_model_stays_as_it_is(stored: Translator) -> None:
    cross = stored.model.attentions()["cross"]
    AttentionAlignments(stored.bundle).of(examples(stored.bundle))
    assert all(each.observe is None for each in cross)


def test_an_alignment_shares_the_weights_of_its_model(stored: Translator) -> None:
    alignments = AttentionAlignments(stored.bundle)
    found = {id(each) for each in alignments._model.parameters()}  # type: ignore[union-attr]
    assert found == {id(each) for each in stored.model.parameters()}


def test_a_model_without_attention_translates_in_order(stored: Translator) -> None:
    bundle = replace(stored.bundle, model=torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    [weights] = AttentionAlignments(bundle).of([([5, 6, 7], [8, 9, 10])])
    assert weights.argmax(1).tolist() == [0, 1, 2]


def test_the_ends_of_tokens_are_places_in_the_text(stored: Translator) -> None:
    tokenizer, text = stored.bundle.source_tokenizer, "One two three."
    ids = tokenizer.encode(text)
    ends = token_ends(tokenizer, ids, text)
    assert len(ends) == len(ids) and ends[-1] == len(text) and ends == sorted(ends)
    assert token_ends(tokenizer, ids, text * 2)[-1] == 2 * len(text)
