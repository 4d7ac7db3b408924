import pytest
import torch
from torch import Tensor

from crosshead.attention.kv_cache import KeyValues
from crosshead.models.source_memory import SentenceMemory

SENTENCES, LENGTH = 3, 4


def memory() -> SentenceMemory:
    torch.manual_seed(0)
    layers = [
        KeyValues(torch.randn(SENTENCES, 2, LENGTH, 5), torch.randn(SENTENCES, 2, LENGTH, 7))
        for _ in range(2)
    ]
    return SentenceMemory(layers, torch.rand(SENTENCES, 1, 1, LENGTH) < 0.5)


def by_row(seen: SentenceMemory) -> list[Tensor]:
    """What each row sees, nothing shared."""
    tensors = [part for layer in seen.layers for part in layer] + [seen.mask]
    return [part.repeat_interleave(seen.rows_per_sentence, dim=0) for part in tensors]


@pytest.mark.parametrize(
    "moves",
    [
        ([0, 0, 1, 1, 2, 2], [1, 0, 3, 3, 4, 5]),
        ([0, 0, 1, 1, 2, 2], [0, 1, 5], [2, 0]),
        ([2, 0, 1], [0, 0, 1, 1]),
        ([0, 1, 1, 2], [3, 1, 0], [0, 0, 0]),
        ([1, 1, 1], [2], [0, 0]),
        ([0, 1, 0, 1], [2, 3]),
    ],
    ids=str,
)
def test_a_selected_row_sees_what_the_row_it_continues_saw(moves: tuple[list[int], ...]) -> None:
    seen = memory()
    for rows in moves:
        expected = [part[rows] for part in by_row(seen)]
        seen = seen.select(torch.tensor(rows))
        for part, wanted in zip(by_row(seen), expected, strict=True):
            torch.testing.assert_close(part, wanted)


def test_rows_of_a_sentence_share_its_memory() -> None:
    first = memory()
    seen = first
    for rows in ([0, 0, 1, 1, 2, 2], [1, 1, 3, 2, 4, 4]):
        seen = seen.select(torch.tensor(rows))
        assert seen.rows_per_sentence == 2
        assert seen.layers is first.layers and seen.mask is first.mask
    fewer = seen.select(torch.tensor([0, 1, 4, 5]))
    assert fewer.rows_per_sentence == 2 and len(fewer.mask) == 2
    assert all(len(part) == 2 for layer in fewer.layers for part in layer)


def test_at_least_one_row_stays() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        memory().select(torch.empty(0, dtype=torch.long))


@pytest.mark.parametrize("rows", [([0, 1, 2], [0, 0, 2, 2]), ([1, 1, 2, 2], [0, 0]), ([0], [1, 2])])
def test_joined_sentences_see_what_they_saw_without_useless_padding(
    rows: tuple[list[int], list[int]],
) -> None:
    parts = [memory().select(torch.tensor(each)) for each in rows]
    joined = parts[0].join(parts[1])
    longest = max(int(part.mask.any(0).flatten().nonzero().max()) + 1 for part in parts)
    *tensors, mask = by_row(joined)
    assert mask.shape[-1] == longest
    for index, tensor in enumerate(tensors):
        both = torch.cat([by_row(part)[index] for part in parts])[:, :, :longest]
        torch.testing.assert_close(tensor, both, rtol=0, atol=0)
    both = torch.cat([by_row(part)[-1] for part in parts])[..., :longest]
    assert torch.equal(mask, both)
    assert joined.nbytes == sum(part.nbytes for part in (joined.mask, *sum(joined.layers, ())))
