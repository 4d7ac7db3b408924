import sys
from pathlib import Path

import numpy as np
import pytest

from crosshead.data.series.reading import read_series
from crosshead.errors import DataError
from tests.data.written import read, refusal, write, write_series


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        ("date,load\n2024-01-01,1\n2024-01-02,2", ["lod"], "no column 'lod'; did you mean 'load'?"),
        ("date,a\n2024-01-01,1\n2024-01-02,two", [], ":3: column 'a': expected a number, found 't"),
        ("date,a\n2024-01-01,1\n2024-01-02,inf", [], ":3: column 'a': expected a number"),
        ("date,a\n2024-01-01,1\nyesterday,2", [], ":3: column 'date': expected a time such as"),
        ("date,a\n2024-01-02,1\n2024-01-01,2", [], ":3: the time 2024-01-01 comes after"),
        ("date,a\n2024-01-01,1\n2024-01-02,1,2", [], ":3: expected 2 cells as in the first line"),
        ("date,a,a\n2024-01-01,1,2", [], "two columns are called 'a'"),
        ("", [], "is empty; expected a line of column names"),
        ("\n\n", [], "is empty"),
        ("date,a\n", [], "is empty"),
        ("a,b\n1,2\n3,4", [], "there is no time column among a, b; name it with data.time"),
        ("date,a\n2024-01-01,1", [], "expected at least two rows with different times"),
        ("date,a\n2024-01-01,1\n2024-01-02,2", ["date"], "'date' is the time column"),
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
    assert "pip install pyarrow" in said


def test_columns_of_text_are_left_out_unless_they_are_named(tmp_path: Path) -> None:
    text = "when,a,city\n2024-01-01,1,Rome\n2024-01-02,2,Rome"
    found = read(tmp_path, text)
    assert found.names == ("a",)
    assert found.notes == ("columns without numbers are left out: city",)
    with pytest.raises(DataError, match=r":2: column 'city': expected a number, found 'Rome'"):
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
