from pathlib import Path

import crosshead
from crosshead.studies.sources import THIS_CODE, digest


def test_any_change_of_a_source_is_another_digest(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.py").write_text("x = 1\n")
    found = set()
    for name, text in (
        ("a.py", "x = 2\n"), ("b.py", ""), ("inner/b.py", ""), ("notes.txt", "x"),
        ("a.py", "x = 1\n"),
    ):  # fmt: skip
        (tmp_path / name).write_text(text)
        found.add(digest(tmp_path))
    assert len(found) == 4  # notes are no source


def test_this_code_is_that_of_the_package() -> None:
    assert digest(Path(crosshead.__file__).parent) == THIS_CODE and len(THIS_CODE) == 8
