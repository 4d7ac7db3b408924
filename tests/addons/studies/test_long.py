import pytest
import torch

from crosshead.addons.studies.fitting import FIRST
from crosshead.addons.studies.long import (
    ASKED,
    COPIED,
    COPIERS,
    FEW,
    FILLER,
    FULL,
    INDICES,
    LETTERS,
    SHORT,
    copies,
    copying,
    mixed,
)

FAR = 128


def test_each_index_is_asked_for_the_letter_that_it_was_given() -> None:
    batch = copying(6, torch.Generator().manual_seed(1), 3)
    tokens, labels = batch.inputs[0], batch.target_output
    index, letters = (tokens[:, :INDICES] - FIRST) // LETTERS, (tokens[:, :INDICES] - FIRST) % 4
    assert torch.equal(index, torch.arange(INDICES).expand(3, INDICES))
    assert (tokens[:, INDICES:-INDICES] == FILLER).all()
    assert torch.equal(tokens[:, -INDICES:] - ASKED, index)
    assert torch.equal(labels[:, -INDICES:] - FIRST, letters)
    assert (labels[:, :-INDICES] == 0).all()


def test_filler_is_of_four_lengths_of_as_many_tokens() -> None:
    generator = torch.Generator().manual_seed(1)
    shapes = {tuple(mixed(FAR, generator).inputs[0].shape) for _ in range(40)}
    lengths = {FAR: 2, FAR // 4: 8, FAR // 16: 32, FAR // 64: 64}
    assert shapes == {(rows, filler + 2 * INDICES) for filler, rows in lengths.items()}


@pytest.mark.parametrize("name", COPIERS)
def test_the_first_token_reaches_the_first_question_where_it_is_said_to(name: str) -> None:
    torch.manual_seed(1)
    model = COPIERS[name](FAR).double()
    tokens = copying(FAR, torch.Generator().manual_seed(1), 1).inputs[0]
    other = tokens.clone()
    other[0, 0] = FIRST + (tokens[0, 0] - FIRST + 1) % LETTERS
    with torch.no_grad():
        changed = not torch.equal(*(model.features(t)[0, -INDICES] for t in (tokens, other)))
    assert changed == (name not in (SHORT, FEW))


def test_guessing_counts_where_attention_to_all_has_learned() -> None:
    means = {**dict.fromkeys(COPIERS, 0.25), FULL: 1.0}
    assert copies(means)[COPIED.format(SHORT)] == 0.25
    nobody = copies({**means, FULL: 0.3})
    for name in (SHORT, FEW):
        assert nobody[COPIED.format(name)] == "attention to all copied only 30% either"
    assert nobody[COPIED.format(FULL)] == 0.3
