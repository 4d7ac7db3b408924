import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.data.stream import (
    Stream,
    Windows,
    decode_text,
    encode_text,
    epoch_windows,
    pieces_of,
)
from crosshead.data.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS, PAD

BYTES = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
IDS = np.arange(10, 33, dtype=np.int32)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_every_text_comes_back(text: str) -> None:
    assert decode_text(BYTES, encode_text(BYTES, text).tolist()) == text


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_lines_keep_their_white_space_whatever_the_tokenizer(kind: str) -> None:
    text = "  deep\n\nfirst line \nand a last"
    config = TokenizerConfig(kind=kind, vocab_size=300)
    tokenizer = train_tokenizer(config, text.split("\n"))
    assert decode_text(tokenizer, encode_text(tokenizer, text).tolist()) == text


def test_the_end_of_a_line_is_eos_and_only_between_lines() -> None:
    ids = encode_text(BYTES, "a\n\nb")
    assert ids.tolist() == [*BYTES.encode("a"), EOS, EOS, *BYTES.encode("b")]
    assert encode_text(BYTES, "a\n").tolist() == [*BYTES.encode("a"), EOS]
    assert pieces_of(BYTES, ids.tolist()) == ["a", "\n", "\n", "b"]


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("context", [1, 5, 22, 40])
def test_windows_predict_every_id_once(first: int, context: int) -> None:
    windows = Windows(IDS, context, first)
    seen: dict[int, int] = {}
    for rows in windows.plan(3 * context, seed=1, epoch=0):
        batch = windows.collate(rows.tolist())
        [tokens] = batch.inputs
        both = torch.stack([tokens, batch.target_output]).flatten(1).T
        for before, after in both.tolist():
            assert (before == PAD) == (after == PAD)
            if after != PAD:
                assert after == before + 1  # what follows in the text
                seen[after] = seen.get(after, 0) + 1
    assert seen == {int(index): 1 for index in IDS[first + 1 :]}


def test_a_batch_holds_as_many_windows_as_the_budget() -> None:
    plan = Windows(IDS, 5).plan(10, seed=1, epoch=0)
    assert [len(rows) for rows in plan] == [2, 2, 1]
    assert [len(rows) for rows in Windows(IDS, 5).plan(3, seed=1, epoch=0)] == [1] * 5


def test_epochs_are_in_another_order_from_another_beginning_and_can_be_repeated() -> None:
    stream = Stream(np.arange(1000, dtype=np.int32), 1000)
    firsts = [epoch_windows(stream, 50, 1, epoch).first for epoch in range(20)]
    assert len(set(firsts)) > 5 and all(0 <= first < 50 for first in firsts)
    assert firsts == [epoch_windows(stream, 50, 1, epoch).first for epoch in range(20)]
    assert firsts != [epoch_windows(stream, 50, 2, epoch).first for epoch in range(20)]
    orders = [np.concatenate(Windows(IDS, 2).plan(4, 1, epoch)).tolist() for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == list(range(11))


def test_a_text_shorter_than_a_window_is_one_window_in_every_epoch() -> None:
    stream = Stream(np.array([7, 8], dtype=np.int32), 2)
    for epoch in range(10):
        windows = epoch_windows(stream, 64, 1, epoch)
        assert windows.lengths.tolist() == [[1]]
        assert windows.collate([0]).inputs[0].tolist() == [[7]]


def test_in_order_is_the_order_of_the_text() -> None:
    assert np.concatenate(Windows(IDS, 5).in_order(10)).tolist() == [0, 1, 2, 3, 4]


def test_the_checksum_is_of_the_ids_whatever_their_type() -> None:
    narrow, wide = Stream(IDS, 9), Stream(IDS.astype(np.int64), 9)
    assert narrow.sha256() == wide.sha256() != Stream(IDS[::-1].copy(), 9).sha256()
