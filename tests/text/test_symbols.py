from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.symbols import ByteTokenizer, CharacterTokenizer, WordTokenizer
from crosshead.vocabulary import UNK


@given(text=st.text())
def test_bytes_are_utf8_four_up(text: str) -> None:
    ids = ByteTokenizer().encode(text)
    assert bytes(index - 4 for index in ids) == text.encode()


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode([0xC3 + 4, ord("a") + 4]) == "\ufffda"
    assert tokenizer.pieces([ord("a") + 4, ord(" ") + 4, 0xC3 + 4]) == ["a", "<0x20>", "<0xC3>"]


@given(text=st.text("ab \t"))
def test_characters_stand_one_for_one(text: str) -> None:
    tokenizer = CharacterTokenizer.train(["ab \t"], 10, [])
    assert tokenizer.pieces(tokenizer.encode(text)) == list(text)


def test_the_longest_special_piece_wins() -> None:
    special = ["<a>", "<a><b>"]
    for tokenizer in (ByteTokenizer(special), CharacterTokenizer.train(["x"], 10, special)):
        pieces = tokenizer.pieces(tokenizer.encode("<a><b><a>x"))
        assert pieces == ["<a><b>", "<a>", "x"]


def test_every_space_between_words_is_kept() -> None:
    tokenizer = WordTokenizer.train(["a b"], 10, [])
    assert tokenizer.pieces(tokenizer.encode(" a  b ")) == ["", "a", "", "b", ""]
    assert tokenizer.decode(tokenizer.encode(" a  b ")) == " a  b "
    assert tokenizer.encode("") == []
    assert tokenizer.encode("c") == [UNK]
