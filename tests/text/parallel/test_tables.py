from pathlib import Path

import pytest

from crosshead.text.parallel.corpora import read_pairs, read_valid_pairs, training_parts
from tests.text.written import config, refusal, write


@pytest.mark.parametrize(
    ("name", "content", "fields", "message"),
    [
        ("x.tsv", "a\tb\nc\n", [], "x.tsv:2: expected at least 2 columns between tabs, found 1; "),
        ("x.tsv", "a\tb\tc\n", [], "x.tsv:1: expected 2 columns between tabs, found 3 ("),
        ("x.tsv", "\na\tb\tc\n", [], "x.tsv:2: expected 2 columns between tabs, found 3 ("),
        ("x.tsv", "a\tb\nc\n", ["1", "2"], "x.tsv:2: expected at least 2 columns"),
        ("x.tsv", "\na\nb\n", [], "x.tsv:2: expected at least 2 columns between tabs, found 1; "),
        (
            "x.tsv",
            "7\ta\tb\tyes\n8\tc\td\tno\n",
            ["2", "9"],
            "x.tsv:1: no column 9 in the first row, which has 4 columns (1: '7', 2: 'a', 3: 'b', "
            "4: 'yes'); choose two of these with --fields",
        ),
        (
            "x.csv",
            "\n7,a,b\n8,c,d\n",
            ["1", "4"],
            "x.csv:2: no column 4 in the first row, which has 3 columns (",
        ),
        ("x.tsv", "en\tfr\nc\td\n", ["en", "de"], "x.tsv:1: no column 'de'"),
        ("x.tsv", "en\tfr\nc\td\n", ["1", "9" * 5000], "x.tsv:1: no column '1'"),
        ("x.tsv", "en\tde\na\tb\nc\n", ["en", "de"], "x.tsv:3: expected at least 2 columns"),
        ("x.tsv", "en\tde\n", ["en", "de"], "x.tsv: empty"),
        (
            "x.csv",
            "en,de,en\na,b,c\n",
            ["en", "de"],
            "x.csv:1: the first line names column 'en' 2 times",
        ),
        ("x.tsv", "", [], "x.tsv: empty"),
        ("x.tsv.gz", "", ["en", "de"], "x.tsv.gz:1: no column 'en'"),
        ("x.jsonl", "", ["en", "de"], "x.jsonl: empty"),
        ("x.jsonl", '{"en": "a", "de": "b"}\n{"en"', ["en", "de"], "x.jsonl:2: not JSON"),
        ("x.jsonl", "\n", ["en", "de"], "x.jsonl:1: not JSON"),
        ("x.jsonl", '["a", "b"]', ["en", "de"], "x.jsonl:1: expected an object with 'en', 'de'"),
        ("x.jsonl", '{"en": "a"}', ["en", "de"], "x.jsonl:1: no field 'de'; the fields are 'en'"),
        ("x.jsonl", '{"en": "a", "de": 3}', ["en", "de"], "x.jsonl:1: field 'de' is not a string"),
        (
            "x.jsonl",
            '{"translation": {"en": "a", "de": "b"}, "id": 1}',
            ["en", "de"],
            "x.jsonl:1: no field 'en'; the fields are 'translation.en', 'translation.de', 'id'",
        ),
        ("x.jsonl", '{"a": {"en": "a"}}', ["a.en", "a.de"], "x.jsonl:1: no field 'a.de'"),
        ("x.jsonl", '{"a": "b", "c": "d"}', ["a.en", "c"], "x.jsonl:1: no field 'a.en'"),
        (
            "x.jsonl",
            '{"en": "\\ud800", "de": ""}',
            ["en", "de"],
            "x.jsonl:1: field 'en' contains a",
        ),
        ("x.jsonl", "[" * 100_000, ["en", "de"], "x.jsonl:1: not JSON"),
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
    ("name", "content", "advice"),
    [
        ("x.json", '[{"en": "a", "de": "b"}]\n', "looks like a JSON array: write one object on"),
        ("x.json", '[\n {\n  "en": "a"\n', "looks like a JSON array"),
        ("x.jsonl", '[{"en": "a", "de": "b"}]\n', "looks like a JSON array"),
        ("x.jsonl", '[\n {\n  "en": "a"\n', "looks like a JSON array"),
        ("x.json", '{"en": "a"}\n', "looks like JSON: if there is one object on every line, let"),
        ("x.tmx", '<?xml version="1.0"?>\n<tmx>\n', "looks like an XML file: copy its sentences"),
        ("x.txt", "a ||| b\nc ||| d\n", "looks like source ||| target: replace each ||| by a tab"),
        (
            "x.tsv",
            "a;b\n",
            "files for --pairs are TSV, CSV (names that end in .csv) and JSON Lines",
        ),
    ],
)
def test_a_file_of_another_format_is_recognised(
    name: str, content: str, advice: str, fields: list[str], tmp_path: Path
) -> None:
    fields = fields or (["en", "de"] if name.endswith(".jsonl") else [])
    path = write(tmp_path / name, content)
    said = refusal(read_pairs, config(pairs=str(path), fields=fields))
    assert said.startswith(f"{path}:1: ") and advice in said


@pytest.mark.parametrize(
    ("name", "content", "fields"),
    [
        ("x.tsv", "a\tb\n\nc\td\n\n", []),
        ("x.tsv", "a\tb\n\nc\td\n\n", ["1", "2"]),
        ("x.csv", "a;b\n\nc;d\n\n", []),
        ("x.csv", '"a",b\n\nc,d\n\n', ["1", "2"]),
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
        ("x.csv", "en,de\nno,nein\nyes, yes,ja\n", ["en", "de"], "3: 3 cells where the header"),
        ("x.csv", "id,en,de\n1,Yes, I do,Ja\n", ["en", "de"], "2: 4 cells where the header has 3"),
        ("x.csv", "no,nein\nyes, yes,ja\n", [], "2: 3 cells where the first row has 2"),
        ("x.csv", "no,nein\nyes, yes,ja\n", ["1", "2"], "2: 3 cells where the first row has 2"),
        ("x.csv", "en;de\nno;nein\nyes; yes;ja\n", ["en", "de"], "3: 3 cells where the header"),
        ("x.tsv", "en\tde\nno\tnein\na\tb\tc\n", ["en", "de"], "3: 3 cells where the header"),
        ("x.tsv", "no\tnein\na\tb\tc\n", [], "2: 3 cells where the first row has 2"),
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
        assert said.endswith(f"; put quotation marks around cells that contain {between}")
    else:
        assert "; replace the tabs inside cells by spaces" in said
        assert said.endswith(" or read two of the columns with --fields 1,2") == (not fields)


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
    assert "found 3 (1: 'ID', 2: 'English', 3: 'Deutsch')" in said
    assert "choose source and target with --fields: by number, or by name if" in said
    assert said.endswith("; or put quotation marks around cells that contain commas")


@pytest.mark.parametrize(
    ("name", "content", "fields", "expected"),
    [
        ("x.tsv", "1\t2\none\teins\n", ["1", "2"], ("one", "eins")),
        ("x.tsv", "2\t1\none\teins\n", ["1", "2"], ("eins", "one")),
        ("x.csv", "id,1,2\n7,one,eins\n", ["1", "2"], ("one", "eins")),
        ("x.jsonl", '{"1": "one", "2": "eins"}\n', ["1", "2"], ("one", "eins")),
    ],
)
def test_digits_are_names_where_the_first_line_has_them(
    name: str, content: str, fields: list[str], expected: tuple[str, str], tmp_path: Path
) -> None:
    data = config(pairs=str(write(tmp_path / name, content)), fields=fields)
    text = read_pairs(data)
    assert list(zip(text.source, text.target, strict=True)) == [expected]
    if name.endswith(".jsonl"):
        return
    assert text.origin(0).line == 2
    [note] = [each for each in training_parts(data)[0].notes() if "column names" in each]
    assert note.startswith(f"{tmp_path / name}:1: '1' and '2' are read as column names, not as")


@pytest.mark.parametrize("fields", [["English", "German"], ["English ", " German"], ["1", "2"]])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "{0} ; {1};\n one ; eins ;\n"),
        ("x.tsv", " {0}\t{1} \t\n one \t eins \t\n"),
        ("x.jsonl", '{{"{0} ": " one ", " {1}": " eins "}}\n'),
    ],
)
def test_white_space_around_a_name_does_not_count(
    name: str, content: str, fields: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / name, content.format(*map(str.strip, fields)))
    text = read_pairs(config(pairs=str(path), fields=fields))
    assert (text.source, text.target) == ([" one "], [" eins "])


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("valid.csv", "Deutsch;Englisch\neins;one\n", "column"),
        ("valid.jsonl", '{"Deutsch": "eins", "Englisch": "one"}\n', "field"),
    ],
)
def test_a_table_with_other_names_than_the_others_is_to_be_renamed(
    name: str, content: str, kind: str, tmp_path: Path
) -> None:
    train = write(tmp_path / "train.tsv", "English\tGerman\none\teins\n")
    valid = write(tmp_path / name, content)
    data = config(pairs=str(train), valid_pairs=str(valid), fields=["English", "German"])
    said = refusal(read_valid_pairs, data)
    assert said.startswith(f"{valid}:1: no {kind} 'English'") and "name two of these" in said
    assert said.endswith(
        f"; if another file has a {kind} 'English', rename the {kind}s of this file, because all "
        "files of pairs are read by the same names"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", " English ;Français;ID\none;un;7\n"),
        ("x.tsv", "English\tFranc\u0327ais\none\tun\n"),
        ("x.jsonl", '{"English ": "one", "Français": "un"}\n'),
    ],
)
def test_a_name_with_other_capitals_or_accents_is_offered(
    name: str, content: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    said = refusal(read_pairs, config(pairs=str(path), fields=["english", "Français"]))
    assert said.endswith("; did you mean 'English'?")
    french = "Franc\u0327ais" if name == "x.tsv" else "Français"
    for field in ("français", "Francais", "FRANÇAIS"):
        said = refusal(read_pairs, config(pairs=str(path), fields=["English", field]))
        assert said.startswith(f"{path}:1: no ") and f" {field!r}" in said
        assert said.endswith(f"; did you mean {french!r}?")
        assert "if another file" not in said


def test_a_name_inside_a_field_is_offered_with_its_dot(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{"translation": {"en": "one", "de": "eins"}}\n')
    said = refusal(read_pairs, config(pairs=str(path), fields=["translation.EN", "translation.de"]))
    assert said.endswith("; name two of these; did you mean 'translation.en'?")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", "English,ENGLISH,de\none,two,eins\n"),
        ("x.jsonl", '{"English": "one", "ENGLISH": "two", "de": "eins"}\n'),
        ("x.csv", "Englisch,de\none,eins\n"),
    ],
)
def test_no_name_is_offered_where_several_are_alike_or_none_is(
    name: str, content: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    said = refusal(read_pairs, config(pairs=str(path), fields=["english", "de"]))
    assert "did you mean" not in said
    assert said.endswith("because all files of pairs are read by the same names")


def test_names_that_differ_in_white_space_alone_are_refused_in_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "en,de,en \na,b,c\n")
    said = refusal(read_pairs, config(pairs=str(path), fields=["en", "de"]))
    assert "x.csv:1: the first line names column 'en' 2 times" in said


@pytest.mark.parametrize("content", ["1\tone\n2\teins\n", "1\t1\t2\n1\t1\t3\n", "12\t2\na\tb\n"])
def test_digits_are_numbers_of_columns_elsewhere(content: str, tmp_path: Path) -> None:
    data = config(pairs=str(write(tmp_path / "x.tsv", content)), fields=["1", "2"])
    rows = [line.split("\t") for line in content.splitlines()]
    text = read_pairs(data)
    assert (text.source, text.target) == ([row[0] for row in rows], [row[1] for row in rows])


def test_fields_inside_a_field_are_named_with_a_dot(tmp_path: Path) -> None:
    rows = (
        '{"translation": {"en": "a", "de": "b"}}\n{"translation.en": "c", "translation.de": "d"}\n'
        '{"translation ": {"en": "e", "de": "f"}}\n'
    )
    path = write(tmp_path / "x.jsonl", rows)
    fields = ["translation.en", "translation.de"]
    text = read_pairs(config(pairs=str(path), fields=fields))
    assert (text.source, text.target) == (["a", "c", "e"], ["b", "d", "f"])


def test_keys_that_differ_in_white_space_alone_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{" en": "a", "en ": "b", "de": "c"}\n')
    said = refusal(read_pairs, config(pairs=str(path), fields=["en", "de"]))
    assert "x.jsonl:1: the fields ' en', 'en ' differ in white space alone; rename all but" in said
    inside = write(tmp_path / "y.jsonl", '{"t": {" en": "a", "de ": "c"}}\n')
    text = read_pairs(config(pairs=str(inside), fields=["t.en", "t.de"]))
    assert (text.source, text.target) == (["a"], ["c"])
    beside = write(tmp_path / "z.jsonl", '{"t": {"en": "a", "de": "c"}, "t ": "note"}\n')
    text = read_pairs(config(pairs=str(beside), fields=["t.en", "t.de"]))
    assert (text.source, text.target) == (["a"], ["c"])


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{"en": "a", "en": "b", "de": "c"}\n')
    said = refusal(read_pairs, config(pairs=str(path), fields=["en", "de"]))
    assert "x.jsonl:1: the key 'en' stands twice in one object; rename one of them" in said


def test_a_field_beside_the_pair_may_hold_a_number_of_any_length(tmp_path: Path) -> None:
    line = '{"en": "a", "de": "b", "id": ' + "9" * 10_000 + "}"
    path = write(tmp_path / "x.jsonl", line)
    found = read_pairs(config(pairs=str(path), fields=["en", "de"]))
    assert (list(found.source), list(found.target)) == (["a"], ["b"])
