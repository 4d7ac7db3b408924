import re
from pathlib import Path

import pandas
import pytest

import crosshead
from crosshead.errors import UserError
from crosshead.text.parallel.pairs import Origin
from tests.addons.checks.made_up import pairs

SOURCE, TARGET = pairs(40)
SOURCE, TARGET = [*SOURCE, SOURCE[3]], [*TARGET, TARGET[3]]


def write(folder: Path) -> tuple[str, str]:
    for name, lines in (("en", SOURCE), ("de", TARGET)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return str(folder / "en"), str(folder / "de")


def test_data_in_memory_is_checked_like_files(tmp_path: Path) -> None:
    source, target = write(tmp_path)
    of_files = crosshead.check_data(source=source, target=target)
    assert of_files.origin(40) == Origin(source, 41)
    assert [each.reason for each in of_files.suspects] == [f"repeats {source}:4"]
    table = pandas.DataFrame({"en": SOURCE, "de": TARGET})
    for found in (
        crosshead.check_data(source=SOURCE, target=TARGET),
        crosshead.check_data(pairs=zip(SOURCE, TARGET, strict=True)),
        crosshead.check_data(pairs=table, fields=["en", "de"]),
    ):
        assert found.counts() == of_files.counts() == {"duplicate": 1}
        assert found.cleaned() == of_files.cleaned() == (SOURCE[:40], TARGET[:40])
        assert found.origin(40) == Origin("pairs", 41)
        assert [each.reason for each in found.suspects] == ["repeats pairs:4"]


def test_validation_pairs_in_memory_are_named() -> None:
    found = crosshead.check_data(
        pairs=list(zip(SOURCE[:3], TARGET[:3], strict=True)),
        valid_source=SOURCE[2:9],
        valid_target=TARGET[2:9],
    )
    assert [(each.row, each.kind, each.reason) for each in found.suspects] == [
        (2, "overlap", "repeats valid_pairs:1")
    ]


def test_the_verdict_on_data_in_memory_names_the_argument() -> None:
    source, target = pairs(600)
    found = crosshead.check_data(source=source[:-1], target=target[:300] + target[301:])
    assert re.search(r"at pairs:\d+ the target translates", found.verdict)


def test_messages_name_arguments(tmp_path: Path) -> None:
    source, _ = write(tmp_path)
    with pytest.raises(UserError, match="unknown kind of pairs 'typo'"):
        crosshead.check_data(pairs=[("a", "b")], skip=["typo"])
    with pytest.raises(UserError, match="no training data: give two line-aligned files"):
        crosshead.check_data()
    with pytest.raises(UserError, match="give both sides in one form"):
        crosshead.check_data(source=SOURCE, target=source)
