from pathlib import Path

import pytest

from crosshead.text.parallel.corpora import read_pairs
from tests.text.written import config, refusal, write


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("x.tsv", "a\tb\nc\n", [], "x.tsv:2: expected at least 2 columns between tabs, found 1 ("),
        ("x.tsv", "a\tb\tc\n", [], "x.tsv:1: expected 2 columns between tabs, found 3 ("),
        ("x.tsv", "\na\tb\tc\n", [], "x.tsv:2: expected 2 columns between tabs, found 3 ("),
        ("x.tsv", "a\tb\nc\n", ["1", "2"], "x.tsv:2: expected at least 2 columns"),
        ("x.tsv", "\na\nb\n", [], "x.tsv:2: expected at least 2 columns between tabs, found 1 ("),
        (
            "x.tsv",
            "7\ta\tb\tyes\n8\tc\td\tno\n",
            ["2", "9"],
            "x.tsv:1: expected at least 9 columns between tabs, found 4 (['7', 'a', 'b', 'yes'])",
        ),
        (
            "x.csv",
            "\n7,a,b\n8,c,d\n",
            ["1", "4"],
            "x.csv:2: expected at least 4 columns between commas, found 3 (",
        ),
        ("x.tsv", "en\tfr\nc\td\n", ["en", "de"], "x.tsv:1: no column 'de'"),
        ("x.tsv", "en\tfr\nc\td\n", ["1", "9" * 5000], "x.tsv:1: no column '1'"),
        ("x.tsv", "en\tde\na\tb\nc\n", ["en", "de"], "x.tsv:3: expected at least 2 columns"),
        ("x.tsv", "en\tde\n", ["en", "de"], "x.tsv: empty"),
        (
            "x.csv",
            "en,de,en\na,b,c\n",
            ["en", "de"],
            "x.csv:1: two columns are called 'en'; rename one of them",
        ),
        ("x.tsv", "", [], "x.tsv: empty"),
        ("x.tsv.gz", "", ["en", "de"], "x.tsv.gz:1: no column 'en'"),
        ("x.jsonl", "", ["en", "de"], "x.jsonl: empty"),
        (
            "x.jsonl",
            '{"en": "a", "de": "b"}\n{"en"',
            ["en", "de"],
            "x.jsonl:2: expected a JSON object",
        ),
        ("x.jsonl", '["a", "b"]', ["en", "de"], "x.jsonl:1: expected a JSON object with en, de"),
        ("x.jsonl", '{"en": "a"}', ["en", "de"], "x.jsonl:1: no field 'de'; "),
        ("x.jsonl", '{"en": "a", "de": 3}', ["en", "de"], "x.jsonl:1: field 'de' is no text"),
        (
            "x.jsonl",
            '{"translation": {"en": "a", "de": "b"}, "id": 1}',
            ["en", "de"],
            "x.jsonl:1: no field 'en'; known: id, translation.de, translation.en",
        ),
        ("x.jsonl", '{"a": {"en": "a"}}', ["a.en", "a.de"], "x.jsonl:1: no field 'a.de'"),
        ("x.jsonl", '{"a": "b", "c": "d"}', ["a.en", "c"], "x.jsonl:1: no field 'a.en'"),
        (
            "x.jsonl",
            '{"en": "\\ud800", "de": ""}',
            ["en", "de"],
            "x.jsonl:1: field 'en' is no text",
        ),
        ("x.jsonl", "[" * 100_000, ["en", "de"], "x.jsonl:1: expected a JSON object"),
    ],
)
def test_damaged_pairs_are_named(
    tmp_path: Path, name: str, content: str, fields: list[str], message: str
) -> None:
    path = write(tmp_path / name, content)
    refused = refusal(read_pairs, config(pairs=str(path), fields=fields))
    assert refused.startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize("fields", [[], ["1", "2"], ["en", "de"]])
@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("x.json", '[{"en": "a", "de": "b"}]\n', "this is a JSON file; a table is TSV, CSV named"),
        ("x.json", '{"en": "a"}\n', "this is a JSON file"),
        ("x.tmx", '<?xml version="1.0"?>\n<tmx>\n', "this is an XML file"),
        ("x.tsv", "a;b\n", "--fields chooses columns"),
    ],
)
def test_a_file_of_another_format_is_recognised(
    name: str, content: str, kind: str, fields: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    said = refusal(read_pairs, config(pairs=str(path), fields=fields))
    assert said.startswith(f"{path}:1: ")
    assert kind in said or (fields == ["en", "de"] and name == "x.tsv")


@pytest.mark.parametrize("content", ['[{"en": "a"}]\n', '[\n {\n  "en": "a"\n'])
def test_an_array_is_no_json_lines(content: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", content)
    said = refusal(read_pairs, config(pairs=str(path), fields=["en", "de"]))
    assert said.startswith(f"{path}:1: ") and "one object on every line" in said


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("x.tsv", "a\tb\n\nc\td\n\n", []),
        ("x.tsv", "a\tb\n\nc\td\n\n", ["1", "2"]),
        ("x.csv", "a;b\n\nc;d\n\n", []),
        ("x.csv", '"a",b\n\nc,d\n\n', ["1", "2"]),
        ("x.jsonl", '{"1": "a", "2": "b"}\n\n{"1": "c", "2": "d"}\n\n', ["1", "2"]),
    ],
)
def test_an_empty_line_is_an_empty_pair(
    name: str, content: str, fields: list[str], tmp_path: Path
) -> None:
    """It is left out of training and counted, as other empty pairs are."""
    write(tmp_path / name, content)
    text = read_pairs(config(pairs=str(tmp_path / name), fields=fields))
    assert list(zip(text.source, text.target, strict=True)) == [
        ("a", "b"), ("", ""), ("c", "d"), ("", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "fields", "fault"),
    [
        ("x.csv", "en,de\nno,nein\nyes, yes,ja\n", ["en", "de"], "3: expected 2 columns"),
        ("x.csv", "id,en,de\n1,Yes, I do,Ja\n", ["en", "de"], "2: expected 3 columns"),
        ("x.csv", "no,nein\nyes, yes,ja\n", [], "2: expected 2 columns"),
        ("x.csv", "no,nein\nyes, yes,ja\n", ["1", "2"], "2: expected 2 columns"),
        ("x.csv", "en;de\nno;nein\nyes; yes;ja\n", ["en", "de"], "3: expected 2 columns"),
        ("x.tsv", "en\tde\nno\tnein\na\tb\tc\n", ["en", "de"], "3: expected 2 columns"),
        ("x.tsv", "no\tnein\na\tb\tc\n", [], "2: expected 2 columns"),
    ],
)  # fmt: skip
def test_a_row_with_more_cells_than_the_first_is_refused(
    name: str, content: str, fields: list[str], fault: str, tmp_path: Path
) -> None:
    """Its text was cut at a delimiter, so its pair would be wrong."""
    path = write(tmp_path / name, content)
    said = refusal(read_pairs, config(pairs=str(path), fields=fields))
    assert said.startswith(f"{path}:{fault}")
    if name == "x.csv":
        between = "semicolons" if ";" in content else "commas"
        assert f"; quote cells that contain {between}" in said
    else:
        assert "; complete the line, or remove tabs" in said


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("x.csv", "en,de\na,b,,\nc,d, \n", ["en", "de"]),
        ("x.csv", "a,b\nc,d,\n", []),
        ("x.csv", "a,b,\nc,d,a note\n", ["1", "2"]),
        ("x.csv", 'en,de,notes\na,b\nc,d,"one, two"\n', ["en", "de"]),
        ("x.tsv", "a\tb\nc\td\ta note\n", ["1", "2"]),
    ],
)
def test_further_cells_are_ignored_where_they_are_empty_or_expected(
    name: str, content: str, fields: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    text = read_pairs(config(pairs=str(path), fields=fields))
    assert (text.source, text.target) == (["a", "c"], ["b", "d"])


def test_columns_are_named_where_there_are_too_many(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", "ID,English,Deutsch\n1,One two,Eins zwei\n")
    said = refusal(read_pairs, config(pairs=str(tmp_path / "x.csv")))
    assert "found 3 (['ID', 'English', 'Deutsch'])" in said
    assert said.endswith("; --fields chooses columns by number, or by name in the first line")


@pytest.mark.parametrize("fields", [["English", "German"], ["English ", " German"]])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "{0} ; {1};\n one ; eins ;\n"),
        ("x.tsv", " {0}\t{1} \t\n one \t eins \t\n"),
    ],
)
def test_white_space_around_a_name_does_not_count(
    name: str, content: str, fields: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / name, content.format(*map(str.strip, fields)))
    text = read_pairs(config(pairs=str(path), fields=fields))
    assert (text.source, text.target) == ([" one "], [" eins "])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", " English ;Français;ID\none;un;7\n"),
        ("x.tsv", "English\tFrançais\none\tun\n"),
        ("x.jsonl", '{"English": "one", "Français": "un"}\n'),
    ],
)
def test_a_name_with_other_capitals_or_accents_is_offered(
    name: str, content: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    for field, wanted in (("english", "English"), ("Francais", "Français")):
        said = refusal(read_pairs, config(pairs=str(path), fields=[field, "ID"]))
        assert said.startswith(f"{path}:1: no ")
        assert f" {field!r}" in said and said.endswith(f"; did you mean {wanted!r}?")


@pytest.mark.parametrize("content", ["1\tone\n2\teins\n", "1\t2\n1\t3\n", "12\t2\na\tb\n"])
def test_digits_are_numbers_of_columns(content: str, tmp_path: Path) -> None:
    data = config(pairs=str(write(tmp_path / "x.tsv", content)), fields=["1", "2"])
    rows = [line.split("\t") for line in content.splitlines()]
    text = read_pairs(data)
    assert (text.source, text.target) == ([row[0] for row in rows], [row[1] for row in rows])


def test_fields_inside_a_field_are_named_with_a_dot(tmp_path: Path) -> None:
    rows = (
        '{"translation": {"en": "a", "de": "b"}}\n{"translation.en": "c", "translation.de": "d"}\n'
    )
    path = write(tmp_path / "x.jsonl", rows)
    fields = ["translation.en", "translation.de"]
    text = read_pairs(config(pairs=str(path), fields=fields))
    assert (text.source, text.target) == (["a", "c"], ["b", "d"])


def test_a_field_beside_the_pair_may_hold_a_number_of_any_length(tmp_path: Path) -> None:
    line = '{"en": "a", "de": "b", "id": ' + "9" * 10_000 + "}"
    path = write(tmp_path / "x.jsonl", line)
    found = read_pairs(config(pairs=str(path), fields=["en", "de"]))
    assert (list(found.source), list(found.target)) == (["a"], ["b"])
