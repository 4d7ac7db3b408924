import json
import os
from pathlib import Path

import numpy as np
import pytest

from crosshead.errors import ConfigError, DataError
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.text_corpus import TextCorpus, read_text
from crosshead.text.streams import decode_text
from crosshead.vocabulary import EOS

LINES = [f"line {number} of the text" for number in range(50)]
TEXT = "".join(f"{line}\n" for line in LINES)


def recipe(*files: Path, **data: object) -> Recipe:
    found = {"text": [str(file) for file in files], "context": 16, **data}
    return compose(flags={"data": found}, assignments=["tokenizer.kind=characters"])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "book.txt").write_text(TEXT)
    return tmp_path / "book.txt"


def text_of(corpus: TextCorpus, ids: np.ndarray) -> str:
    return decode_text(corpus.target_tokenizer, ids.tolist())


def test_the_end_of_the_text_is_held_out_by_characters(book: Path) -> None:
    corpus = read_text(recipe(book), None, None)
    cut = len(TEXT) - round(0.1 * len(TEXT))
    assert text_of(corpus, corpus.stream.ids) == TEXT[:cut]
    assert corpus.held_out
    # A character that the training text lacks would be unknown: here there is none.
    assert text_of(corpus, corpus.valid.ids) == TEXT[cut:]
    assert corpus.valid.characters == len(TEXT) - cut - 1  # the first is not predicted
    assert corpus.validation(recipe(book).data).startswith("the last ")


def test_validation_files_leave_the_text_whole(book: Path, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the text\nof\n")
    settings = recipe(book, valid_text=[str(tmp_path / "valid.txt")])
    corpus = read_text(settings, None, None)
    assert text_of(corpus, corpus.stream.ids) == TEXT
    assert text_of(corpus, corpus.valid.ids) == "the text\nof\n"
    assert not corpus.held_out
    assert str(tmp_path / "valid.txt") in corpus.validation(settings.data)


@pytest.mark.parametrize("key", ["text", "valid_text"])
def test_text_that_cannot_be_read_twice_is_refused_unopened(
    key: str, book: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")  # that nobody writes to: opening it would wait
    for place in (tmp_path / "fifo", Path("/dev/zero")):
        settings = recipe(book, **{key: [str(place)]})
        with pytest.raises(DataError, match=f"^{place}: a pipe or a device, but text"):
            read_text(settings, None, None)


def test_files_follow_each_other_as_one_text(book: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("text")  # without an end of its last line
    corpus = read_text(recipe(book, tmp_path / "more.txt", valid_share=0.01), None, None)
    whole = np.concatenate([corpus.stream.ids, corpus.valid.ids])
    assert text_of(corpus, whole) == TEXT + "text\n"
    assert [file.lines for file in corpus.files] == [50, 1]


def test_epochs_are_windows_of_the_training_text_alone(book: Path) -> None:
    settings = recipe(book)
    corpus = read_text(settings, None, None)
    epoch = corpus.epochs(settings)(0)
    rows = np.concatenate(epoch.plan(64, 1, 0))
    batch = epoch.collate(rows.tolist())
    assert int((batch.target_output != 0).sum()) == len(corpus.stream) - 1
    assert corpus.longest_input == 16 == int(corpus.lengths.max())


def test_the_checksum_knows_both_texts(book: Path, tmp_path: Path) -> None:
    first = read_text(recipe(book), None, None).sha256()
    assert read_text(recipe(book), None, None).sha256() == first
    assert read_text(recipe(book, valid_share=0.2), None, None).sha256() != first
    book.write_text(TEXT.replace("line 3", "line 4"))
    assert read_text(recipe(book), None, None).sha256() != first


def test_rows_are_written_down_as_text(book: Path) -> None:
    settings = recipe(book)
    corpus = read_text(settings, None, None)
    epoch = corpus.epochs(settings)(0)
    written, how = corpus.records(epoch, [0, 1])
    first = text_of(corpus, corpus.stream.ids[1 : epoch.first + 1])
    assert written.startswith(first + "\n") and how == "--text"


def test_what_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab")
    with pytest.raises(DataError, match=r"^\S*/a\.txt: 0 characters are too few to validate on"):
        read_text(recipe(tmp_path / "a.txt"), None, None)


def test_a_validation_text_that_is_too_short_is_refused_by_its_own_name(
    book: Path, tmp_path: Path
) -> None:
    (tmp_path / "valid.txt").write_text("")
    settings = recipe(book, valid_text=[str(tmp_path / "valid.txt")])
    with pytest.raises(
        DataError, match=r"^\S*/valid\.txt: \d characters are too few to validate on"
    ):
        read_text(settings, None, None)


def test_an_empty_file_is_named(book: Path, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(DataError, match=r"none\.txt: empty"):
        read_text(recipe(book, tmp_path / "none.txt"), None, None)


def test_few_tokens_are_warned_of(book: Path) -> None:
    settings = recipe(book)
    [_, warning] = read_text(settings, None, None).opening(settings.data)
    assert warning.startswith("warning: from 891 tokens")
    book.write_text(2 * TEXT)
    assert len(read_text(settings, None, None).opening(settings.data)) == 1


def test_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="no text to train on; give --text"):
        read_text(compose(recipe={"model": "language"}), None, None)


def test_a_request_to_stop_is_heard(book: Path) -> None:
    with pytest.raises(Stopped):
        read_text(recipe(book), None, None, should_stop=lambda: True)


def test_the_end_of_a_line_is_a_token_of_its_own(book: Path) -> None:
    corpus = read_text(recipe(book), None, None)
    assert int((corpus.stream.ids == EOS).sum()) == TEXT[
        : len(TEXT) - round(0.1 * len(TEXT))
    ].count("\n")
    pieces = json.dumps(
        corpus.target_tokenizer.pieces(list(range(corpus.target_tokenizer.vocab_size)))
    )
    assert "\\n" not in pieces
