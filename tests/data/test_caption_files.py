"""Files of captions: JSON Lines, and lines as Flickr writes them."""

from pathlib import Path

import pytest

from crosshead.data.caption_files import read_captions
from crosshead.errors import DataError
from tests.data.written import write, write_captions


def test_json_lines_and_lines_of_flickr_are_the_same_captions(tmp_path: Path) -> None:
    write_captions(tmp_path, 12, each=2)
    found = list(read_captions(tmp_path / "captions.jsonl"))
    table = "".join(f"{name}#{line % 2}\t{text}\n" for line, name, text, _ in found)
    write(tmp_path / "captions.token", table)
    assert list(read_captions(tmp_path / "captions.token")) == found and len(found) == 24
    write(tmp_path / "a.token", "a#b.png\t  two\t words \n\n")
    assert list(read_captions(tmp_path / "a.token")) == [(1, "a#b.png", "two words", "")]


def test_csv_begins_with_the_names_of_its_columns(tmp_path: Path) -> None:
    text = 'image,caption\n1.jpg,a dog\n\n1.jpg,"a dog, a cat ""and"" a man"\n'
    found = list(read_captions(write(tmp_path / "captions.txt", text)))
    assert found == [(2, "1.jpg", "a dog", ""), (4, "1.jpg", 'a dog, a cat "and" a man', "")]
    broken = write(tmp_path / "b.csv", "image,caption\n1.jpg,a dog, a cat\n")
    with pytest.raises(DataError, match=r"b\.csv:2: expected an image, a comma and a caption"):
        list(read_captions(broken))
