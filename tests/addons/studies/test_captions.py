from pathlib import Path
from typing import NamedTuple, cast

import pytest
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional as F

from crosshead.addons.studies.captions import (
    NOUNS,
    TEST,
    VOCABULARY,
    as_text,
    captions_of,
    outputs,
    pairs,
    random_pairs,
    right,
    run_on,
    sentences,
    sides,
    text_of,
    transformer,
    translated,
)
from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.runs import MissingDataError
from crosshead.addons.studies.study import Trial
from crosshead.models.base import SequenceModel
from crosshead.vocabulary import BOS, EOS
from tests.addons.studies.trials import full, quick


def test_captions_that_are_not_there_are_missing_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=f"no multi30k/raw/train.en in {tmp_path}"):
        text_of(full(tmp_path))
    for text in (tmp_path / "multi30k", tmp_path / "multi30k" / "raw"):
        text.mkdir()
        (text / "train.en").write_text("")
        said: list[str] = []
        found = captions_of(Trial(False, 1, said.append, tmp_path))
        assert found.text == text and said[0].startswith(f"{text}: 10 minutes a run")


def test_a_run_has_the_settings_of_all_and_its_own(tmp_path: Path) -> None:
    train = {"seed": 7, "batch_tokens": 999}
    model, words = transformer(), {"kind": "words"}
    run = run_on(full(tmp_path), tmp_path, "captions", model, tokenizer=words, train=train)
    recipe = run.recipe
    assert (recipe.train.seed, recipe.train.batch_tokens, recipe.train.checkpoint_every) == (
        7, 999, 250,
    )  # fmt: skip
    assert recipe.data.valid_target == [str(tmp_path / "val.de")]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_trained_model_translates_the_test_set(tmp_path: Path) -> None:
    corpus = captions_of(quick(tmp_path))
    source, reference = sides(corpus.text, TEST)
    lines = outputs(source, corpus.run(quick(tmp_path), transformer(quick=True), 1))
    assert len(lines) == len(reference) == 8


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
