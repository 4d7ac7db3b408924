"""Files of captions: JSON Lines, and lines as Flickr writes them."""

from pathlib import Path

from crosshead.addons.vision.data.caption_files import read_captions
from tests.text.written import refusal, write, write_captions


def test_json_lines_and_lines_of_flickr_are_the_same_captions(tmp_path: Path) -> None:
    write_captions(tmp_path, 12, each=2)
    found = list(read_captions(tmp_path / "captions.jsonl"))
    table = "".join(f"{name}#{line % 2}\t{text}\n" for line, name, text, _ in found)
    write(tmp_path / "captions.token", table)
    assert list(read_captions(tmp_path / "captions.token")) == found and len(found) == 24
    write(tmp_path / "a.token", "a#b.png\t  two  words \n\n")
    assert list(read_captions(tmp_path / "a.token")) == [(1, "a#b.png", "two words", "")]


def test_csv_begins_with_the_names_of_its_columns(tmp_path: Path) -> None:
    text = 'image,caption\n1.jpg,a dog\n\n1.jpg,"a dog, a cat ""and"" a man"\n'
    found = list(read_captions(write(tmp_path / "captions.txt", text)))
    assert found == [(2, "1.jpg", "a dog", ""), (4, "1.jpg", 'a dog, a cat "and" a man', "")]
    broken = write(tmp_path / "b.csv", "image,caption\n1.jpg,a dog, a cat\n")
    assert "b.csv:2: expected 2 columns between commas, found 3" in refused(broken)


def test_semicolons_are_read_like_commas(tmp_path: Path) -> None:
    text = 'image;"caption"\n1.jpg;a dog, a cat\n1.jpg;"a dog; a cat"\n'
    found = [(row.line, row.text) for row in read_captions(write(tmp_path / "a.csv", text))]
    assert found == [(2, "a dog, a cat"), (3, "a dog; a cat")]
    broken = write(tmp_path / "b.csv", "image;caption\n1.jpg,a dog\n")
    assert "b.csv:2: expected at least 2 columns between semicolons" in refused(broken)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.csv", "number,caption,image\n0,a dog,1.jpg\n")
    assert list(read_captions(rows)) == [(2, "1.jpg", "a dog", "")]
    found = refused(write(tmp_path / "results.csv", "image_name,comment\n1.jpg,a dog\n"))
    assert "results.csv:1: no column 'image' in the first line; did you mean 'image_name'?" in found


def test_a_third_cell_is_refused(tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", "1.jpg#0\ta dog\n1.jpg\ta dog\tein Hund\n")
    found = refused(pairs)
    assert "pairs.tsv:2: expected 2 columns between tabs, found 3" in found
    assert found.endswith("; the columns are image, caption")


def test_an_array_of_json_is_refused_with_advice(tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.json"):
        for text in ('[{"image": "1.jpg", "caption": "a dog"}]', '[\n  {\n    "image": "1.jpg"'):
            found = refused(write(tmp_path / name, text))
            assert f"{name}:1: expected" in found and "JSON Lines" in found
    rows = write(tmp_path / "b.jsonl", '{"image": "1.jpg", "caption": ["a dog"]}\n')
    found = refused(rows)
    assert "b.jsonl:1: field 'caption' is no text" in found


def refused(path: Path) -> str:
    """The line with which a file of captions is refused."""
    return refusal(lambda: list(read_captions(path)))
