import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crosshead.text.streams import (
    HIDDEN,
    REPLACED,
    SHARE,
    MaskedWindows,
    RunningText,
    Stream,
    Windows,
    decode_text,
    encode_text,
    epoch_windows,
    fill_line,
    pieces_of,
)
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, train_tokenizer
from crosshead.vocabulary import EOS, MASK, PAD, UNK

BYTES = train_tokenizer(TokenizerConfig(kind="bytes"), ["a"])
IDS = np.arange(10, 33, dtype=np.int32)
SEEN = ["to be or not", "the snow \u2603 is", "white  as snow", "\x1a"]
ODD = st.text(st.sampled_from(" \n\x1a\ufffd\u2581012abe\u00e9\u2603\U0001f4a1"), max_size=40)


@pytest.fixture(scope="module", params=["bpe", "unigram", "words", "characters", "bytes"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    size = {"bpe": 290, "unigram": 280}.get(request.param)
    config = TokenizerConfig(kind=request.param, vocab_size=size, special=["<x>", "\u00e9e"])
    return train_tokenizer(config, SEEN)


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_every_text_comes_back(text: str) -> None:
    assert decode_text(BYTES, encode_text(BYTES, text).tolist()) == text


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_lines_keep_their_white_space_whatever_the_tokenizer(kind: str) -> None:
    text = "  deep\n\nfirst line \nand a last"
    config = TokenizerConfig(kind=kind, vocab_size=300)
    tokenizer = train_tokenizer(config, text.split("\n"))
    assert decode_text(tokenizer, encode_text(tokenizer, text).tolist()) == text


@settings(max_examples=60)
@given(st.data())
def test_text_as_it_comes_is_what_it_is_as_a_whole(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    """Also of ids that no text has: beginnings of characters, and bytes that are no beginning."""
    written = data.draw(ODD | st.sampled_from(["\n".join(SEEN), "<x> be<x>\n<x>"]))
    drawn = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30)
    ids = data.draw(st.just(encode_text(tokenizer, written).tolist()) | drawn)
    running, found, begin = RunningText(tokenizer), "", 0
    while begin < len(ids):
        end = begin + data.draw(st.integers(1, 3))
        found += running.add(ids[begin:end])
        begin = end
        whole = decode_text(tokenizer, ids[:begin])
        assert found + running.rest() == whole
        assert decode_text(tokenizer, ids).startswith(found)  # nothing that was settled changes


def test_what_is_settled_is_not_decoded_again(tokenizer: Tokenizer) -> None:
    """Of a line as long as a book as of any other."""
    decoded: list[int] = []

    class Counting:
        def decode(self, ids: list[int]) -> str:
            decoded.append(len(ids))
            return tokenizer.decode(ids)

    ids = tokenizer.encode("to be or \u2603 not " * 100)
    running = RunningText(Counting())  # type: ignore[arg-type]
    text = "".join([*(running.add([index]) for index in ids), running.rest()])
    assert text == tokenizer.decode(ids)
    assert max(decoded) <= 4 and sum(decoded) <= 6 * len(ids)


@settings(max_examples=60)
@given(text=ODD, places=st.lists(st.integers(0, 50)))
def test_characters_are_counted_as_the_text_has_them(
    tokenizer: Tokenizer, text: str, places: list[int]
) -> None:
    """Up to any place they are those of the ids so far, but that the unknown counts as it is."""
    stream = Stream.of(tokenizer, text)
    ids = stream.ids.tolist()
    unknown = [each for line in text.split("\n") for each in tokenizer.unknown(line)]
    assert len(unknown) == ids.count(UNK)
    places = sorted({min(place, len(ids) - 1) for place in places} - {-1})
    plain = []
    for place in places:
        so_far = ids[: place + 1]
        gone = len("".join(unknown[: so_far.count(UNK)])) - len("<unk>") * so_far.count(UNK)
        plain.append(len(decode_text(tokenizer, so_far)) + gone)
    assert stream.character_counts(tokenizer, places) == plain
    if ids:
        first, last = stream.character_counts(tokenizer, [0, len(ids) - 1])
        assert last == len(text)
        assert stream.characters == len(text) - first


@pytest.mark.parametrize(("kind", "first"), [("words", 5), ("characters", 1)])
def test_an_unknown_beginning_is_as_long_as_it_stands(kind: str, first: int) -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind), SEEN)
    stream = Stream.of(tokenizer, "qqqqq be\nqq")
    assert stream.ids[0] == UNK
    assert list(stream.unknown) == ([5, 2] if kind == "words" else [1] * 7)
    assert stream.characters == 11 - first


def test_the_end_of_a_line_is_eos_and_only_between_lines() -> None:
    ids = encode_text(BYTES, "a\n\nb")
    assert ids.tolist() == [*BYTES.encode("a"), EOS, EOS, *BYTES.encode("b")]
    assert encode_text(BYTES, "a\n").tolist() == [*BYTES.encode("a"), EOS]
    assert pieces_of(BYTES, ids.tolist()) == ["a", "\n", "\n", "b"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_a_space_can_be_read_among_pieces(kind: str) -> None:
    size = {"bpe": 290, "unigram": 275}.get(kind)
    tokenizer = train_tokenizer(TokenizerConfig(kind=kind, vocab_size=size), SEEN)
    pieces = pieces_of(tokenizer, tokenizer.encode("white  as"))
    assert not any(" " in piece for piece in pieces)
    if kind == "words":
        assert pieces == ["white", "", "as"]
    else:
        assert "".join(pieces).removeprefix("\u2581") == "white\u2581\u2581as"


def test_an_end_of_line_in_a_gap_begins_a_line(tokenizer: Tokenizer) -> None:
    """What stands around it stays."""
    [index] = tokenizer.encode("be")[:1]
    assert fill_line(tokenizer, ["a ", " b"], [EOS]) == "a \n b"
    assert fill_line(tokenizer, ["", " ", ""], [EOS, EOS]) == "\n \n"
    first = tokenizer.decode([index])
    assert fill_line(tokenizer, ["", "", " b"], [EOS, index]) == f"\n{first} b"


@pytest.mark.parametrize(
    ("context", "first"), [(1, 0), (5, 0), (5, 3), (22, 0), (22, 3), (22, 21), (40, 0), (40, 3)]
)
def test_windows_predict_every_id_once(first: int, context: int) -> None:
    windows = Windows(IDS, context, first)
    assert windows.lengths.max() <= context and windows.lengths.min() > 0
    assert windows.lengths[0] == (first or min(context, len(IDS) - 1))
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
    assert seen == {int(index): 1 for index in IDS[1:]}


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


@pytest.mark.parametrize("length", [2, 40, 65])
def test_a_text_no_longer_than_a_window_is_one_window_in_every_epoch(length: int) -> None:
    stream = Stream(np.arange(7, 7 + length, dtype=np.int32), length)
    for epoch in range(10):
        windows = epoch_windows(stream, 64, 1, epoch)
        assert windows.lengths.tolist() == [[length - 1]]
        assert windows.collate([0]).inputs[0].tolist() == [list(range(7, 6 + length))]


@pytest.mark.parametrize("length", [66, 100, 200])
def test_of_a_text_little_longer_than_a_window_all_is_learned_in_every_epoch(length: int) -> None:
    stream = Stream(np.arange(length, dtype=np.int32), length)
    lengths = [epoch_windows(stream, 64, 1, epoch).lengths for epoch in range(10)]
    assert {int(each.sum()) for each in lengths} == {length - 1}


def test_in_order_is_the_order_of_the_text() -> None:
    assert np.concatenate(Windows(IDS, 5).in_order(10)).tolist() == [0, 1, 2, 3, 4]


def test_the_checksum_is_of_the_ids_whatever_their_type() -> None:
    narrow, wide = Stream(IDS, 9), Stream(IDS.astype(np.int64), 9)
    assert narrow.sha256() == wide.sha256() != Stream(IDS[::-1].copy(), 9).sha256()


VOCABULARY = 40
LONG_IDS = np.random.default_rng(0).integers(UNK + 1, VOCABULARY, 20_011).astype(np.int32)
WINDOWS = Windows(LONG_IDS, context=50, first=3)


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
    windows = MaskedWindows(LONG_IDS[: length + 1], context=50, vocabulary=VOCABULARY, drawn=(0,))
    assert int((windows.collate([0]).target_output != PAD).sum()) == 1


def test_plans_are_those_of_the_windows() -> None:
    for mine, theirs in (
        (masked().plan(200, seed=1, epoch=2), WINDOWS.plan(200, seed=1, epoch=2)),
        (masked().in_order(200), WINDOWS.in_order(200)),
    ):
        assert all(map(np.array_equal, mine, theirs))
    assert np.array_equal(masked().lengths, WINDOWS.lengths)
