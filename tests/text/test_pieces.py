import json
from pathlib import Path

import pytest

from crosshead.errors import ConfigError, DataError
from crosshead.text.pieces import (
    check_special,
    fill,
    special_splitter,
    string_list,
    to_utf8,
    write_metadata,
)


def test_the_longest_special_piece_is_split_off_first() -> None:
    splitter = special_splitter(["<a>", "<a><b>", "."])
    assert splitter.split("x<a><b>y.<a>") == ["x", "<a><b>", "y", ".", "", "<a>", ""]
    assert special_splitter([]).split("x<a>") == ["x<a>"]


def test_a_lone_surrogate_is_named_with_its_place() -> None:
    assert to_utf8("aé") == b"a\xc3\xa9"
    with pytest.raises(DataError, match=r"character 2 of .* is U\+D800, a lone surrogate"):
        to_utf8("a\ud800")


def test_adjacent_gaps_are_decoded_together() -> None:
    def decode(ids: object) -> str:
        return f"<{ids}>" if ids else ""

    assert fill(["a", "", "b", "c"], [1, 2, 3], decode) == "a<[1, 2]>b<[3]>c"
    assert fill(["a"], [], decode) == "a"


def test_lists_of_pieces_are_checked() -> None:
    assert string_list({"pieces": ["a", "b"]}, "pieces") == ["a", "b"]
    for found in ({}, {"pieces": "ab"}, {"pieces": ["a", 1]}):
        with pytest.raises(ValueError, match="'pieces' is not a list of strings"):
            string_list(found, "pieces")
    with pytest.raises(ValueError, match=r"10,001 special pieces of 10,001 characters"):
        string_list({"special": ["a"] * 10_001}, "special")
    with pytest.raises(ValueError, match=r"1 special pieces of 200,001 characters"):
        check_special(["a" * 200_001])


def test_a_vocabulary_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_metadata(tmp_path, "words", {"pieces": ["é"]})
    assert json.loads((tmp_path / "words.json").read_bytes()) == {"pieces": ["é"]}
    monkeypatch.setattr("crosshead.text.pieces.LARGEST_METADATA", 20)
    with pytest.raises(ConfigError, match=r"the vocabulary in more\.json has .* at most 20;"):
        write_metadata(tmp_path, "more", {"pieces": ["a", "b", "c"]})
    assert not (tmp_path / "more.json").exists()
