from pathlib import Path

from crosshead.studies import sources
from crosshead.studies.sources import digest


def test_any_change_of_a_source_is_another_digest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    found = set()
    for name, text in (
        ("a.py", "x = 2\n"), ("b.py", ""), ("inner/b.py", ""), ("notes.txt", "x"),
        ("a.py", "x = 1\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        found.add(digest.__wrapped__(tmp_path))
    assert len(found) == 4  # notes are no source


def test_it_is_of_this_package_by_default() -> None:
    assert (sources.PACKAGE / "studies" / "sources.py").samefile(sources.__file__)
    assert digest() == digest.__wrapped__(sources.PACKAGE) and len(digest()) == 8
