import numpy as np
import pytest
import torch

from crosshead.text.masking import HIDDEN, REPLACED, SHARE, MaskedWindows
from crosshead.text.streams import Windows
from crosshead.vocabulary import MASK, PAD, UNK

VOCABULARY = 40
IDS = np.random.default_rng(0).integers(UNK + 1, VOCABULARY, 20_011).astype(np.int32)
WINDOWS = Windows(IDS, context=50, first=3)


def masked(epoch: int = 0, *, all_hidden: bool = False) -> MaskedWindows:
    ids, context, first = WINDOWS.ids, WINDOWS.context, WINDOWS.first
    drawn = (1, epoch)
    return MaskedWindows(
        ids, context, first, vocabulary=VOCABULARY, drawn=drawn, all_hidden=all_hidden
    )


def test_what_is_not_to_be_found_stands_as_it_is_and_what_is_belongs_there() -> None:
    rows = list(range(len(WINDOWS.lengths)))
    [read], wanted = (found := masked().collate(rows)).inputs, found.target_output
    text = WINDOWS.collate(rows).target_output
    chosen = wanted != PAD
    assert torch.equal(read[~chosen], text[~chosen])
    assert torch.equal(wanted[chosen], text[chosen])
    assert ((read == PAD) == (text == PAD)).all()  # the last window is shorter


def test_the_shares_are_those_of_bert() -> None:
    rows = list(range(1, len(WINDOWS.lengths) - 1))  # the first and the last are shorter
    [read], wanted = (found := masked().collate(rows)).inputs, found.target_output
    chosen = wanted != PAD
    assert (chosen.sum(dim=1) == round(SHARE * 50)).all()
    number = int(chosen.sum())  # of tokens to be found: 3,200 of them
    hidden, same = (read == MASK)[chosen], (read == wanted)[chosen]
    assert abs(float(hidden.float().mean()) - HIDDEN) < 3 * (HIDDEN * 0.2 / number) ** 0.5
    kept = 1 - HIDDEN - REPLACED + REPLACED / (VOCABULARY - UNK - 1)  # some for themselves
    assert abs(float(same.float().mean()) - kept) < 3 * (kept * 0.9 / number) ** 0.5
    assert read[chosen & (read != MASK)].min() > UNK


def test_all_places_are_drawn_alike() -> None:
    rows = list(range(1, len(WINDOWS.lengths) - 1))  # the first and the last are shorter
    wanted = torch.cat([masked(epoch).collate(rows).target_output for epoch in range(8)])
    counts = (wanted != PAD).sum(dim=0)
    mean = 8 * len(rows) * round(SHARE * 50) / 50
    assert (counts - mean).abs().max() < 5 * mean**0.5


def test_what_is_hidden_depends_on_where_it_stands_and_not_on_the_batch() -> None:
    together = masked().collate([4, 9, 2])
    for place, row in enumerate([4, 9, 2]):
        alone = masked().collate([row])
        assert torch.equal(alone.inputs[0][0], together.inputs[0][place])
    first, second = (masked(epoch).collate([4]).target_output for epoch in range(2))
    assert not torch.equal(first, second)


def test_models_are_judged_on_what_is_hidden_altogether() -> None:
    [read], wanted = (found := masked(all_hidden=True).collate([0, 1])).inputs, found.target_output
    assert ((read == MASK) == (wanted != PAD)).all()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_windows_have_a_token_to_be_found(length: int) -> None:
    windows = MaskedWindows(IDS[: length + 1], context=50, vocabulary=VOCABULARY, drawn=(0,))
    assert int((windows.collate([0]).target_output != PAD).sum()) == 1


def test_plans_are_those_of_the_windows() -> None:
    for mine, theirs in (
        (masked().plan(200, seed=1, epoch=2), WINDOWS.plan(200, seed=1, epoch=2)),
        (masked().in_order(200), WINDOWS.in_order(200)),
    ):
        assert all(map(np.array_equal, mine, theirs))
    assert np.array_equal(masked().lengths, WINDOWS.lengths)
