"""Names that are language codes, and names that are not."""

import pytest

from crosshead.text.parallel.languages import (
    column_language,
    language_code,
    languages_in_names,
    suffix_language,
    tag_of,
    tagged_languages,
    with_tag,
    without_tags,
)


@pytest.mark.parametrize("name", ["en", "deu", "pt-BR", "zh-Hans", "haw", "es-419"])
def test_codes(name: str) -> None:
    assert language_code(name) == name
    assert language_code(name.replace("-", "_")) == name


@pytest.mark.parametrize(
    "name", ["txt", "tsv", "src", "tgt", "xx", "EN", "english", "new", "", "e"]
)
def test_other_names(name: str) -> None:
    assert language_code(name) is None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("data/train.en", "en"),
        ("train.de.gz", "de"),
        ("train.tok.pt_BR", "pt-BR"),
        ("train.en.txt", "en"),
        ("train.txt", None),
        ("data.en/train", None),
        ("en", None),
        ("x.en.old", None),
    ],
)
def test_suffixes(name: str, code: str | None) -> None:
    assert suffix_language(name) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("en", "en"),
        ("translation.de", "de"),
        ("English", "en"),
        ("DEUTSCH", "de"),
        ("German sentence", "de"),
        ("texts.Français", "fr"),
        ("source_english", "en"),
        ("Yoruba", "yo"),
        ("Kiswahili text", "sw"),
        ("label", None),
        ("German (approx.)", "de"),
        ("row_id", None),
        ("Franc\u0327ais", "fr"),
        ("हिन्दी", "hi"),
        ("English (UK)", "en"),
        ("Portuguese (BR)", "pt"),
        ("Chinese (TW)", "zh"),
        ("German (AT)", "de"),
        ("German (de)", "de"),
        ("de (German)", "de"),
        ("German_de", "de"),
        ("English*", "en"),
        ("‘English’", "en"),
        ("row (id)", None),
        ("Translation from English", None),
        ("translated_from_english", None),
        ("Übersetzung aus Englisch", None),
        ("Traduction du français", None),
        ("Traducción del inglés", None),
        ("Tradução de português", None),
        ("English or German", None),
        ("Translation", None),
        ("2", None),
    ],
)
def test_columns(name: str, code: str | None) -> None:
    assert column_language(name) == code


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
