import sys
from pathlib import Path

import numpy as np
import pytest

from crosshead.addons.series.tables import table_lines
from crosshead.errors import DataError
from tests.text.written import read, read_series, refusal, write, write_series


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("date,load\n2024-01-01,1\n2024-01-02,2", ["lod"], "no column 'lod'; did you mean 'load'?"),
        ("date,load\n2024-01-01,1\n2024-01-02,2", ["LOAD"], "'LOAD'; did you mean 'load'?"),
        ("date,a\n2024-01-01,1\n2024-01-02,two", [], ":3: column 'a': expected a number such as"),
        ("date,a\n2024-01-01,1\n2024-01-02,inf", [], ":3: column 'a': expected a number"),
        ("date,a\n2024-01-01,1\n2024-01-02,1e300", [], "(at most 1e100), found '1e300'"),
        ("date,a\n2024-01-01,1\n2024-01-02,1_000", [], "such as 1234.5 (at most 1e100), found"),
        (
            "date,a\n2024-01-01,1\n2024-13-01,2",
            [],
            ":3: column 'date': expected an unambiguous time such",
        ),
        ("date,a\n2024-01-01,1\n01/02/2024,2", [], ":3: column 'date': expected an unambiguous"),
        ("date,a\n13/02/2024,1\n02/13/2024,2", [], ":2: column 'date': expected an unambiguous"),
        ("date,a\n13/02/2024,1\n14/13/2024,2", [], ":2: column 'date': expected an unambiguous"),
        ("2024-01-01,1\n2024-01-02,2", [], "the first line has values ('2024-01-01, 1'), and no"),
        ("1/31/2024,1\n2/1/2024,2", [], "the first line has values"),
        ('date,a\n2024-01-01,1\n2024-01-02,"2\n', [], ":3: a quote is misplaced or not closed"),
        ("date,a\r2024-01-01,1\r2024-01-02,2", [], "a carriage return stands outside quotes"),
        ("date;a\n2024-01-01;1.000,5\n2024-01-02;2.5", [], ":2: column 'a': expected a number"),
        ('date,a\n2024-01-01,"1,000"\n2024-01-02,"1,500"', [], "write numbers as 1234.5"),
        ("date;a\n2024-01-01;1.5\n2024-01-02;2,5", [], ":3: column 'a': expected a number"),
        (
            "date,a\n2024-01-01,1\nyesterday,2",
            [],
            ":3: column 'date': expected an unambiguous time such",
        ),
        ("date,a\n2024-01-02,1\n2024-01-01,2", [], ":3: the time 2024-01-01 stands below a later"),
        ("date,a\n2024-01-01,1\n2024-01-02,1,2", [], ":3: expected 2 cells as in the first line"),
        (
            "sales\n\ndate,a\n2024-01-01,1",
            [],
            ":3: expected 1 cell as in the first line, found 2",
        ),
        ("date,a\n1/31/2024,1\n2/1/2024 9:00 XM,2", [], "found '2/1/2024 9:00 XM'"),
        ("date,a,a\n2024-01-01,1,2", [], "two columns are called 'a'"),
        ("", [], "is empty; expected a line of column names"),
        ("\n\n", [], "is empty"),
        ("date,a\n", [], "is empty"),
        ("a,b\n1,2\n3,4", [], "there is no time column among a, b; name it with data.time"),
        ("date,a\n2024-01-01,1", [], "expected at least two rows with different times"),
        ("date,a\n2024-01-01,1\n2024-01-02,2", ["date"], ":2: column 'date': expected a number"),
        ("date,a\n2024-01-01,x\n2024-01-02,y", [], "there is no column of numbers beside 'date'"),
        ("date,a,b\n2024-01-01,1,\n2024-01-02,2,", ["b"], "column 'b' has no value at all"),
    ],
)
def test_bad_files_are_refused_in_one_line(
    text: str, target: list[str], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "s.csv", text)
    said = refusal(read_series, [str(path)], target)
    assert said.startswith(str(path)) and words in said


def test_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(read_series, [str(tmp_path / "no.csv")])
    path = write(tmp_path / "s.csv", b"date,a\n2024-01-01,\xff")
    assert "not UTF-8" in refusal(read_series, [str(path)])


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refusal(read_series, [str(write(tmp_path / "s.parquet", b"PAR1"))])
    assert "pip install 'crosshead[parquet]'" in said


def test_columns_of_text_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    text = "when,a,city\n2024-01-01,1,Rome\n2024-01-02,2,Rome"
    found = read(tmp_path, text)
    assert found.names == ("a",)
    assert found.notes == ("columns without numbers or without a name are left out: 'city'",)
    with pytest.raises(DataError, match=r":2: column 'city': expected a number .*, found 'Rome'"):
        read(tmp_path, text, "city")


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is missing")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = write_series(tmp_path / "s.csv", rows=50)
    expected = read_series([str(path)])
    columns = {name: expected.values[:, place] for place, name in enumerate(expected.names)}
    table = pyarrow.table({"date": expected.times, **columns})
    parquet.write_table(table, tmp_path / "s.parquet")
    found = read_series([str(tmp_path / "s.parquet")])
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.times, expected.times) and found.names == expected.names


GERMAN = """Datum;"Last, kW";Preis;Zahl
31.01.2024 23:00;1,5;-0,25;7
01.02.2024 00:00;;,5;8
01.02.2024 01:00;3e2;1,5E-2;9"""


def test_an_export_with_semicolons_decimal_commas_and_days_first_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GERMAN, "Last, kW", "Preis")
    assert [str(time)[:16] for time in found.times] == [
        "2024-01-31T23:00", "2024-02-01T00:00", "2024-02-01T01:00",
    ]  # fmt: skip
    assert found.values.tolist() == [[1.5, -0.25], [1.5, 0.5], [300, 0.015]]
    assert found.notes == (
        "numbers such as 1,234.5 or 1,5 are read as 1234.5 or 1.5: Last, kW, Preis",
        "1 missing value filled with the value before",
    )
    assert read(tmp_path, GERMAN).names == ("Last, kW", "Preis", "Zahl")
    assert read(tmp_path, "sep=;\n" + GERMAN.replace("\n", "\r\n")).notes == found.notes


def test_words_of_spreadsheets_are_missing_values(tmp_path: Path) -> None:
    cells = ["1,5", "#N/A", "N/A", ".", "-", "null", "2,5"]
    rows = [f"{day:02}.01.24;{cell}" for day, cell in enumerate(cells, 1)]
    found = read(tmp_path, "\n".join(["Datum;a", *rows]))
    assert found.observed[:, 0].tolist() == [True, *[False] * 5, True]
    assert found.values[-1, 0] == 2.5 and "2024-01-07" in str(found.times[-1])


def test_a_comma_between_cells_is_no_decimal_comma(tmp_path: Path) -> None:
    found = read(tmp_path, 'date,a,b\n2024-01-01,"1,5",1\n2024-01-02,"2,5",2')
    assert found.names == ("b",) and found.notes == (
        "columns without numbers or without a name are left out: 'a'",
    )


def test_a_line_is_named_after_cells_with_line_breaks(tmp_path: Path) -> None:
    text = 'date,a,note\n2024-01-01,1,"two\nlines"\n2024-01-02,x,""'
    assert ":4: column 'a': expected a number" in refusal(read, tmp_path, text)


def test_a_column_without_a_name_is_no_series_but_may_hold_the_times(tmp_path: Path) -> None:
    """A data frame writes such a column for its index."""
    found = read(tmp_path, ",date,a\n0,2024-01-01,1\n1,2024-01-02,2")
    assert found.names == ("a",) and found.notes == (
        "columns without numbers or without a name are left out: ''",
    )
    found = read(tmp_path, ",a\n2024-01-01,1\n2024-01-02,2")
    assert found.names == ("a",) and not found.notes


def test_a_table_in_memory_is_read_as_its_lines(tmp_path: Path) -> None:
    table = {"date": ["2024-01-01", "2024-01-02", "2024-01-03"], "a,b": [1.5, None, float("nan")]}
    lines = list(table_lines(table))
    assert lines == ['date,"a,b"', "2024-01-01,1.5", "2024-01-02,", "2024-01-03,"]
    assert read(tmp_path, "\n".join(lines)).observed[:, 0].tolist() == [True, False, False]
    for given in (3, {"date": [1], "a": []}):
        assert "expected files, or a table of columns of one length" in refusal(table_lines, given)


@pytest.mark.parametrize("text", [
    'date,a\n2024-01-01,"1,234.50"\n2024-01-02,"12,345,678.25"\n2024-01-03,2.5',
    "date;a\n2024-01-01;1.234,50\n2024-01-02;12.345.678,25\n2024-01-03;2,5",
])  # fmt: skip
def test_separators_of_thousands_are_read_beside_a_decimal_mark(text: str, tmp_path: Path) -> None:
    found = read(tmp_path, text)
    assert found.values[:, 0].tolist() == [1234.5, 12345678.25, 2.5]
    assert found.notes == ("numbers such as 1,234.5 or 1,5 are read as 1234.5 or 1.5: a",)


def test_lines_of_comments_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, "# of a, b\n# mine\ndate,a,b\n2024-01-01,1,2\n2024-01-02,2,3")
    assert found.names == ("a", "b") and len(found) == 2
    assert found.notes == ("comments above the columns are left out: '# of a, b # mine'",)
    said = refusal(read, tmp_path, "# mine\ndate,a\n2024-01-01,1\n2024-01-02,x", "a")
    assert ":4: column 'a': expected a number" in said


def test_a_missing_pandas_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "s.csv", "date,a\n2024-01-01,1\n2024-01-02,2")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "pip install 'crosshead[series]'" in refusal(read_series, [str(path)])
