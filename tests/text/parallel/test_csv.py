"""Files of cells as spreadsheets write them."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.system.lines import iter_lines
from crosshead.text.parallel.corpora import Part, read_pairs, survey, training_parts
from crosshead.text.parallel.section import DataConfig
from crosshead.text.parallel.tables import csv_form
from tests.text.written import config, refusal, write


def pairs_of(data: DataConfig) -> list[tuple[str, str]]:
    text = read_pairs(data)
    return list(zip(text.source, text.target, strict=True))


def notes_of(data: DataConfig) -> list[str]:
    return [note for part in training_parts(data) for note in part.notes()]


@pytest.mark.parametrize(
    "content",
    [
        '"Go!" he said.\t"Geh!", sagte er.\nYes\tJa\n',  # begins with a quote of its own
        'Go\tGeh\n"Go!"\t"Geh!"\nHe said "No".\tEr sagte "Nein".\n',  # and some in the middle
        '"Go!\tGeh!\nNo."\tNein.\n',  # never closed before a tab
        'He is 6\'2" tall\tEr ist groß\n""\tleer\n',
        '"Yes"\t"Ja"\nno, never\tnein, nie\n',
        'Yes, yes\t"Ja"\n',
    ],
)
def test_quotes_in_a_tsv_are_text(content: str, tmp_path: Path) -> None:
    data = config(pairs=str(write(tmp_path / "x.tsv", content)))
    expected = [tuple(line.split("\t")) for line in content.splitlines()]
    assert pairs_of(data) == expected
    assert notes_of(data) == []


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_a_header_and_every_delimiter(delimiter: str, tmp_path: Path) -> None:
    written = io.StringIO()
    rows = [
        ["id", "de", "en"],
        ["1", "Hallo, Welt; ja\tdoch", "Hello, world; yes\tsure"],
        ["2", 'Er sagte: "Zwei"', 'He said: "Two"'],
    ]
    csv.writer(written, delimiter=delimiter).writerows(rows)
    path = write(tmp_path / "x.csv.gz", "\ufeff" + written.getvalue())
    data = config(pairs=str(path), fields=["en", "de"])
    assert pairs_of(data) == [(row[2], row[1]) for row in rows[1:]]
    word = {",": "commas", ";": "semicolons", "\t": "tabs"}[delimiter]
    assert notes_of(data) == [f"{path}: read as CSV with {word} between the cells"]
    numbered = config(pairs=str(path), fields=["3", "2"])
    assert len(pairs_of(numbered)) == 3


def test_a_line_break_in_a_cell_is_a_space_and_lines_are_counted_on(tmp_path: Path) -> None:
    content = 'en,de\r\n"one\r\n1","eins\n1"\r\ntwo,zwei\r\n"three\n\n3",drei\r\nfour,vier\r\n'
    path = write(tmp_path / "x.csv", content)
    data = config(pairs=str(path), fields=["en", "de"])
    text = read_pairs(data)
    assert text.source == ["one 1", "two", "three  3", "four"]
    assert text.target == ["eins 1", "zwei", "drei", "vier"]
    assert [text.origin(row).line for row in range(4)] == [2, 5, 6, 9]
    [_, note] = notes_of(data)
    assert note.startswith(f"{path}:2: ") and "space" in note and "2)" in note
    short = write(tmp_path / "y.csv", content + "five\n")
    message = refusal(read_pairs, config(pairs=str(short), fields=["en", "de"]))
    assert message.startswith(f"{short}:10: expected at least 2 columns between commas, found 1")
    torn = write(tmp_path / "z.csv", content + '"five" 5,fünf\n')
    message = refusal(read_pairs, config(pairs=str(torn), fields=["en", "de"]))
    assert message.startswith(f"{torn}:10: a quote is misplaced or not closed")


@pytest.mark.parametrize("quote", ["", '"'])
def test_excels_first_line_names_the_delimiter(quote: str, tmp_path: Path) -> None:
    rows = [f"{n},5 and {n};{quote}{n},7 und {n}{quote}\r\n" for n in range(3)]
    path = write(tmp_path / "x.csv", "".join(["sep=;\r\n", "en;de\r\n", *rows]))
    text = read_pairs(config(pairs=str(path), fields=["en", "de"]))
    assert text.source == [f"{n},5 and {n}" for n in range(3)]
    assert text.target == [f"{n},7 und {n}" for n in range(3)]
    assert [text.origin(row).line for row in range(3)] == [3, 4, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('a,b\n"x" y,z\n', "x.csv:2: a quote is misplaced or not closed"),
        ('a,b\n"x,y\nz,w\n', "x.csv:2: a quote is misplaced or not closed"),
        (
            'a,b\nx,"' + ("y" * 4095 + "\n") * 5000,
            "x.csv:2: a quote is misplaced or not closed",
        ),
        ('a,b\n"x",y\rz\n', "x.csv:2: a quote is misplaced or not closed"),
        ('sep=;\n"a";b\nc\n', "x.csv:3: expected at least 2 columns"),
        ("a,b,c\n", "x.csv:1: expected 2 columns between commas, found 3 ("),
        ("", "x.csv: empty"),
    ],
)
def test_damaged_csv_is_named(content: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", content)
    assert refusal(read_pairs, config(pairs=str(path))).startswith(f"{tmp_path}/{message}")


def test_carriage_returns_as_the_ends_of_lines_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "en;de\rHi, you;Hallo\rBye;Tschüss\r")
    assert "x.csv:1: a quote is misplaced" in refusal(read_pairs, config(pairs=str(path)))
    path = write(tmp_path / "x.tsv.gz", "a\tb\rc\td\r")
    assert "x.tsv.gz:1: expected 2 columns" in refusal(read_pairs, config(pairs=str(path)))


def test_a_carriage_return_inside_a_line_stays(tmp_path: Path) -> None:
    for name, content in {"x.tsv": "a\rb\tc\n", "x.csv": '"a\rb","c,\rd"\n'}.items():
        text = read_pairs(config(pairs=str(write(tmp_path / name, content))))
        assert (text.source, text.target[0][0]) == (["a\rb"], "c")


@given(
    rows=st.lists(
        st.tuples(*[st.text("ab \",;\t\n'", max_size=6)] * 2).filter(lambda row: any(row)),
        min_size=1,
        max_size=6,
    ),
    delimiter=st.sampled_from([",", ";", "\t"]),
    everything=st.booleans(),
)
def test_what_python_writes_is_read_back(
    rows: list[tuple[str, str]],
    delimiter: str,
    everything: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    with path.open("w", newline="") as file:
        quoting = csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\n")
        # Two rows that say which delimiter it is, for it is guessed.
        writer.writerows([("id", "text")] * 20)
        writer.writerows(rows)
    assert csv_form(lambda: iter_lines(path)).delimiter == delimiter
    text = survey([Part((str(path),), ())]).read()
    found = list(zip(text.source, text.target, strict=True))[20:]
    assert found == [tuple(cell.replace("\n", " ") for cell in row) for row in rows]
