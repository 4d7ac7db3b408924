from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional as F

from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.lexicon import (
    NOUNS,
    VOCABULARY,
    as_text,
    pairs,
    random_pairs,
    right,
    sentences,
    translated,
)
from crosshead.models.base import SequenceModel
from crosshead.vocabulary import BOS, EOS

CAT, DOG = FIRST, FIRST + 1
RED, OLD = FIRST + NOUNS, FIRST + NOUNS + 1


def word_for_word(source: list[int]) -> list[int]:
    """One word at a time is its own translation."""
    return [int(translated(torch.tensor([[word]]))) for word in source]


def test_an_adjective_before_a_noun_goes_behind_it() -> None:
    found = translated(torch.tensor([[RED, CAT, OLD, RED, DOG, OLD]]))
    assert found[0].tolist() == word_for_word([CAT, RED, OLD, DOG, RED, OLD])


def test_every_word_has_a_translation_of_its_own() -> None:
    words = torch.arange(FIRST, VOCABULARY)
    found = word_for_word(words.tolist())
    assert sorted(found) == words.tolist() and found != words.tolist()


def test_a_batch_begins_and_ends_as_any_does() -> None:
    batch = pairs(torch.tensor([[RED, CAT]]))
    target = word_for_word([CAT, RED])
    assert batch.source.tolist() == [[RED, CAT, EOS]]
    assert batch.target_input.tolist() == [[BOS, *target]]
    assert batch.target_output.tolist() == [[*target, EOS]]


def test_batches_have_every_length_and_so_many_tokens() -> None:
    generator = Generator().manual_seed(1)
    shapes = {tuple(random_pairs((2, 5), 60, generator).source.shape) for _ in range(50)}
    assert shapes == {(30, 3), (20, 4), (15, 5), (12, 6)}


def test_text_is_a_line_a_sentence() -> None:
    assert as_text(torch.tensor([[7, 40], [5, 5]])) == "a7 a40\na5 a5\n"


class Says(NamedTuple):
    """What is still to be said, row by row."""

    rest: Tensor

    def select(self, rows: Int[Tensor, " M"]) -> "Says":
        return Says(self.rest[rows])


class Script:
    """Says what it was given, whatever the source."""

    def __init__(self, lines: Tensor) -> None:
        self.lines = lines
        self.training = True

    def eval(self) -> None:
        self.training = False

    def train(self) -> None:
        self.training = True

    def start(self, source: Int[Tensor, "B S"]) -> Says:
        assert not self.training
        return Says(self.lines)

    def step(self, state: Says, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N D"], Says]:
        now = F.one_hot(state.rest[:, 0], VOCABULARY).float() * 9
        return now, Says(state.rest[:, 1:])

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return features


def test_words_count_where_they_belong() -> None:
    source = sentences(4, 3, Generator().manual_seed(3))
    target = translated(source)
    said = torch.cat([target, torch.full((4, 2), EOS)], dim=1)
    other = FIRST + (target[:, 1] - FIRST + 1) % (VOCABULARY - FIRST)
    said[1, 1] = other[1]  # a wrong word
    said[2, 2] = EOS  # too short
    said[3, 3] = target[3, 0]  # too long: not looked at
    model = Script(said)
    found = right(cast(SequenceModel, model), source)
    expected = torch.ones(4, 3, dtype=torch.bool)
    expected[1, 1] = expected[2, 2] = False
    assert torch.equal(found, expected)
    assert model.training
