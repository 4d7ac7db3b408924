"""Tokenizers of imported models: pieces of SentencePiece under the ids of another vocabulary."""

import json
from pathlib import Path

import pytest

from crosshead.errors import ConfigError, DamagedBundle, DataError
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer
from crosshead.text.tokenizers import TokenizerConfig, load_tokenizer, train_tokenizer
from crosshead.vocabulary import EOS, PAD, UNK
from tests.addons.interop.imports.marian_directories import learned, marian_vocabulary

LINES = ["a dog runs in the park", "two dogs sit on a bench", "the park has a green bench"] * 20


@pytest.fixture(scope="module")
def tokenizer() -> ImportedTokenizer:
    model = learned(LINES, 60)
    ids = marian_vocabulary(model, more=[">>deu<<"])
    pieces = tuple(piece for piece in ids if "w" not in piece)  # `two` has an unknown piece
    return ImportedTokenizer(model, ForeignVocabulary(pieces, (len(pieces) - 1, None, 0, 1)))


def test_the_control_tokens_come_first_and_the_others_keep_their_order() -> None:
    vocabulary = ForeignVocabulary(("</s>", "<unk>", "a", "b", "<pad>"), (4, None, 0, 1))
    assert vocabulary.rows == [4, None, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pieces", "control"),
    [(("a", "b", "a"), (0, None, 1, 2)), (("a", "b"), (0, None, 1, 2)), (("a",), (0, 0, 0, 0))],
)
def test_a_vocabulary_that_does_not_fit_is_refused(
    pieces: tuple[str, ...], control: tuple[int | None, ...]
) -> None:
    with pytest.raises(ValueError, match=r"occurs 2 times|are not ids"):
        ForeignVocabulary(pieces, control)  # type: ignore[arg-type]


def test_text_comes_back_normalised(tokenizer: ImportedTokenizer) -> None:
    ids = tokenizer.encode("  a dog   sits on a bench ")
    assert tokenizer.decode([PAD, *ids, EOS]) == "a dog sits on a bench"
    assert min(ids) > UNK and tokenizer.encode_lines(["a dog"]) == [tokenizer.encode("a dog")]


def test_a_piece_outside_the_vocabulary_is_unknown(tokenizer: ImportedTokenizer) -> None:
    assert tokenizer.encode("two dogs").count(UNK) == 1
    [unknown] = tokenizer.unknown("two dogs")
    assert "w" in unknown and tokenizer.unknown("the dogs") == []
    assert "<unk>" in tokenizer.decode(tokenizer.encode("two dogs"))


def test_missing_pieces_are_those_of_the_model(tokenizer: ImportedTokenizer) -> None:
    missing = tokenizer.missing_pieces()
    assert missing and all("w" in piece for piece in missing)  # the fixture left them out
    model = learned(LINES, 60)
    pieces = tuple(marian_vocabulary(model))
    vocabulary = ForeignVocabulary(pieces, (len(pieces) - 1, None, 0, 1))
    assert not ImportedTokenizer(model, vocabulary).missing_pieces()


def test_a_lone_surrogate_is_no_text(tokenizer: ImportedTokenizer) -> None:
    with pytest.raises(DataError, match="lone surrogate"):
        tokenizer.encode("a \ud800")


def test_line_breaks_are_found() -> None:
    model = learned(LINES, 60)
    pieces = ("</s>", "<unk>", "a\nb", "<0x0A>", "c")
    assert ImportedTokenizer(model, ForeignVocabulary(pieces, (None, None, 0, 1))).line_breaks == {
        4,
        5,
    }


def test_it_is_loaded_as_it_was_saved(tokenizer: ImportedTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, "source")
    again = load_tokenizer(tmp_path, "source")
    line = ">>deu<< the dog, and ½"
    assert again.encode(line) == tokenizer.encode(line)
    assert (again.kind, again.special, again.vocab_size) == (
        "sentencepiece", [">>deu<<"], tokenizer.vocab_size,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"), [("control", [0]), ("control", "x"), ("pieces", [1]), ("pieces", ["a", "a"])]
)
def test_damaged_metadata_are_refused(
    tokenizer: ImportedTokenizer, tmp_path: Path, key: str, value: object
) -> None:
    tokenizer.save(tmp_path, "source")
    path = tmp_path / "source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(DamagedBundle):
        load_tokenizer(tmp_path, "source")


def test_it_cannot_be_learned() -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.kind is 'sentencepiece'"):
        train_tokenizer(TokenizerConfig(kind="sentencepiece"), LINES)


def test_it_fills_no_gaps(tokenizer: ImportedTokenizer) -> None:
    with pytest.raises(DataError, match="does not fill gaps"):
        tokenizer.encode_gaps(["a", "b"], 1)
    with pytest.raises(DataError, match="does not fill gaps"):
        tokenizer.fill_gaps(["a", "b"], [5])
