import pytest

from crosshead.text.parallel.directions import (
    languages_in_names,
    tag_of,
    tagged_languages,
    with_tag,
    without_tags,
)


def test_tags_are_found_among_special_pieces() -> None:
    languages = ["de", "pt-BR", "zho"]
    pieces = ["@@URL@@", *map(tag_of, languages), "<2>", "<BT>", "<2 x>", "x<2fr>"]
    assert tagged_languages(pieces) == languages
    assert tagged_languages(reversed(pieces)) == languages
    assert tagged_languages([]) == []


def test_a_tag_stands_before_every_line_with_text() -> None:
    lines = ["A dog.", "  spaced \t", "", "  "]
    assert with_tag("<2de>", lines) == ["<2de> A dog.", "<2de> spaced", "", "  "]
    assert with_tag("", lines) == lines


@pytest.mark.parametrize(
    ("files", "fields", "languages"),
    [
        (("a/train.en.gz", "train.de.txt"), (), ("en", "de")),
        (("train.src", "train.de"), (), (None, "de")),
        (("x.jsonl",), ("translation.en", "de"), ("en", "de")),
        (("x.tsv",), ("1", "2"), (None, None)),
        (("x.en",), (), (None, None)),
    ],
)
def test_names_of_files_and_fields_name_languages(
    files: tuple[str, ...], fields: tuple[str, ...], languages: tuple[str | None, str | None]
) -> None:
    assert languages_in_names(files, fields) == languages


def test_only_the_tags_before_a_source_are_removed() -> None:
    assert without_tags("<BT> <2de> Press <b> now </b> .") == "Press <b> now </b> ."
