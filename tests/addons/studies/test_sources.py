from pathlib import Path
from typing import NamedTuple

import crosshead
from crosshead.addons.studies.sources import THIS_CODE, digest, stored, stored_at


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


class Settings(NamedTuple):
    """A run of one setting."""

    rate: float


def test_a_result_is_computed_once_for_its_settings(tmp_path: Path) -> None:
    calls: list[float] = []

    def compute(rate: float) -> dict[str, float]:
        calls.append(rate)
        return {"loss": rate / 2}

    for rate in (0.25, 0.5, 0.25):
        found = stored(Settings(rate), tmp_path / "new", lambda rate=rate: compute(rate))
        assert found == {"loss": rate / 2}
    assert calls == [0.25, 0.5]
    places = {stored_at(Settings(rate), tmp_path / "new") for rate in calls}
    assert places == set((tmp_path / "new").iterdir())
