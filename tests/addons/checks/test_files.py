import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.addons.checks.files import SUSPECTS, check_files, write_files
from crosshead.errors import DataError
from crosshead.text.parallel.corpora import UnequalLinesError, read_pairs
from crosshead.text.parallel.section import DataConfig
from tests.addons.checks.made_up import pairs

SOURCE, TARGET = pairs(30)
TEXTS = list(zip([*SOURCE, SOURCE[4], "a"], [*TARGET, TARGET[4], ""], strict=True))
CLEAN = TEXTS[:30]


def check(config: DataConfig, out: Path) -> list[Path]:
    report, text = check_files(config, [], lambda line: None)
    return write_files(report, text, out, apply=True)


def write_aligned(folder: Path) -> DataConfig:
    for side, name in enumerate(("x.en", "x.de.gz")):
        data = "".join(f"{pair[side]}\r\n" for pair in TEXTS).encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return DataConfig(source=[str(folder / "x.en")], target=[str(folder / "x.de.gz")])


def write_tsv(folder: Path) -> DataConfig:
    (folder / "x.tsv").write_text("".join("\t".join(pair) + "\n" for pair in TEXTS))
    return DataConfig(pairs=[str(folder / "x.tsv")])


def write_csv(folder: Path) -> DataConfig:
    with (folder / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("n", "de", "en"), *((1, b, a) for a, b in TEXTS)])
    return DataConfig(pairs=[str(folder / "x.csv")], fields=["en", "de"])


def write_jsonl(folder: Path) -> DataConfig:
    lines = [json.dumps({"t": {"en": a, "de": b}}) + "\n" for a, b in TEXTS]
    (folder / "x.jsonl").write_text("".join(lines))
    return DataConfig(pairs=[str(folder / "x.jsonl")], fields=["t.en", "t.de"])


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (write_aligned, ["x.en", "x.de.gz"]),
        (write_tsv, ["x.tsv"]),
        (write_csv, ["x.tsv"]),
        (write_jsonl, ["x.tsv"]),
    ],
)
def test_cleaned_files_hold_the_other_pairs_in_order(
    write: Callable[[Path], DataConfig], names: list[str], tmp_path: Path
) -> None:
    config, out = write(tmp_path), tmp_path / "out"
    assert check(config, out) == [out / name for name in names]
    paths = [str(out / name) for name in names]
    cleaned = (
        DataConfig(source=paths[:1], target=paths[1:])
        if len(paths) == 2
        else DataConfig(pairs=paths, fields=config.fields)
    )
    read = read_pairs(cleaned)
    assert list(zip(read.source, read.target, strict=True)) == CLEAN


def test_every_suspect_is_a_line_with_its_place(tmp_path: Path) -> None:
    config = write_csv(tmp_path)
    report, text = check_files(config, [], lambda line: None)
    assert write_files(report, text, tmp_path / "out", apply=False) == []
    with (tmp_path / "out" / SUSPECTS).open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    name = str(tmp_path / "x.csv")
    assert [(row["file"], row["line"], row["kind"], row["reason"]) for row in rows] == [
        (name, "32", "duplicate", f"repeats {name}:6"),
        (name, "33", "empty", "the target is empty"),
    ]  # fmt: skip
    assert rows[0]["source"] == SOURCE[4] and rows[1]["target"] == ""


def test_suspect_texts_with_quotes_are_read_by_csv_readers(tmp_path: Path) -> None:
    texts = [('"Yes', ""), ('say "no" ', ""), ("tab\there", ""), ('"a"\nb', "")]
    lines = [json.dumps({"a": a, "b": b}) + "\n" for a, b in [*CLEAN, *texts]]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    config = DataConfig(pairs=[str(tmp_path / "x.jsonl")], fields=["a", "b"])
    write_files(*check_files(config, [], lambda line: None), tmp_path / "out", apply=False)
    with (tmp_path / "out" / SUSPECTS).open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [row["source"] for row in rows] == ['"Yes', 'say "no" ', "tab here", '"a" b']
    assert {row["kind"] for row in rows} == {"empty"}


@pytest.mark.parametrize("text", ['"{}"', '"{}" and "more"', '{} "', '""{}""'])
def test_quotes_of_the_text_stay(text: str, tmp_path: Path) -> None:
    quoted = [(text.format(a), text.format(b)) for a, b in CLEAN]
    lines = [json.dumps({"a": a, "b": b}) + "\n" for a, b in quoted]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    fields = ["a", "b"]
    check(DataConfig(pairs=[str(tmp_path / "x.jsonl")], fields=fields), tmp_path / "out")
    read = read_pairs(DataConfig(pairs=[str(tmp_path / "out" / "x.tsv")], fields=fields))
    assert list(zip(read.source, read.target, strict=True)) == quoted


def test_numbered_fields_become_columns_without_names(tmp_path: Path) -> None:
    lines = [json.dumps({"1": a, "2": b}) + "\n" for a, b in CLEAN]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    fields = ["2", "1"]
    check(DataConfig(pairs=[str(tmp_path / "x.jsonl")], fields=fields), tmp_path / "out")
    read = read_pairs(DataConfig(pairs=[str(tmp_path / "out" / "x.tsv")]))
    assert list(zip(read.target, read.source, strict=True)) == CLEAN


def test_several_files_are_cleaned_one_by_one(tmp_path: Path) -> None:
    first, second = write_aligned(tmp_path), write_tsv(tmp_path)
    both = first.model_copy(update={"pairs": second.pairs})
    with pytest.raises(DataError, match=r"x\.tsv: all pairs are suspect, .*; check without"):
        check(both, tmp_path / "out")  # all repeat the aligned files
    assert not (tmp_path / "out").exists()
    with (tmp_path / "x.tsv").open("a") as file:
        file.write("A new house\tEin neues Haus\n")
    check(both, tmp_path / "out")
    assert len((tmp_path / "out" / "x.en").read_text().splitlines()) == 30
    assert (tmp_path / "out" / "x.tsv").read_text() == "A new house\tEin neues Haus\n"


def test_inputs_are_never_replaced(tmp_path: Path) -> None:
    config = write_tsv(tmp_path)
    before = (tmp_path / "x.tsv").read_bytes()
    with pytest.raises(DataError, match=r"x\.tsv: a file that is read; name another directory"):
        check(config, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tsv"]
    assert (tmp_path / "x.tsv").read_bytes() == before


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_tsv(tmp_path / folder)
    names = [str(tmp_path / folder / "x.tsv") for folder in ("a", "b")]
    with pytest.raises(DataError, match="two of the written files would get this name"):
        check(DataConfig(pairs=names), tmp_path / "out")
    for name in names:
        Path(name).write_text("one\ntwo\n")
    with pytest.raises(DataError, match="two of the written files"):
        check(DataConfig(source=names[:1], target=names[1:]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pairs_of_validation_files_are_found(tmp_path: Path) -> None:
    config = write_tsv(tmp_path)
    (tmp_path / "valid.tsv").write_text("\t".join(TEXTS[7]) + "\n")
    valid = config.model_copy(update={"valid_pairs": [str(tmp_path / "valid.tsv")]})
    report, _ = check_files(valid, [], lambda line: None)
    found = [each for each in report.suspects if each.kind == "overlap"]
    assert [(each.row, each.reason) for each in found] == [(7, f"repeats {tmp_path}/valid.tsv:1")]


@pytest.mark.parametrize(
    ("kept", "target", "end"),
    [
        (900, [*range(400), *range(401, 900)], "; from about line 401 on the target translates the "
         "source 1 line below"),
        (900, [*range(400), *range(403, 900)], "; from about line 401 on the target translates the "
         "source 3 lines below"),
        (900, list(range(890)), "; no shift was found, so the surplus is probably at the end"),
        (90, list(range(89)), "; no pairs of the kind misaligned were looked for: it needs at "
         "least 500 pairs that are not suspect otherwise, found 89 of 89"),
    ],
)  # fmt: skip
def test_the_place_of_a_missing_line_is_named(
    kept: int, target: list[int], end: str, tmp_path: Path
) -> None:
    sides = pairs(900)
    for name, lines in (("a", sides[0][:kept]), ("b", [sides[1][row] for row in target])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = [str(tmp_path / name) for name in "ab"]
    fault = (
        f"{files[0]} has {kept} lines but {files[1]} has {len(target)}; line n of one must be the "
        "translation of line n of the other"
    )
    with pytest.raises(DataError) as error:
        check_files(DataConfig(source=files[:1], target=files[1:]), [], lambda line: None)
    assert str(error.value) == fault + end
    with pytest.raises(UnequalLinesError) as unequal:
        read_pairs(DataConfig(source=files[:1], target=files[1:]))
    command = f"crosshead data check --source {files[0]} --target {files[1]}"
    assert str(unequal.value) == f"{fault}; to find the place: {command}"
