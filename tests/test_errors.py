from pathlib import Path

import pytest

from crosshead.errors import BundleError, DamagedBundle, UserError, why_unreadable


def reason(path: Path) -> str:
    with pytest.raises(OSError, match=path.name) as caught:
        path.read_bytes()
    return why_unreadable(caught.value)


def test_a_file_that_cannot_be_read_is_told_by_what_is_wrong_with_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert reason(tmp_path / "none") == "no such file; check its name"
    assert reason(tmp_path) == "is a directory; expected a file"
    assert reason(tmp_path / "file" / "below").startswith("cannot be read (Not a directory); ")


def test_a_damaged_bundle_is_a_users_error_that_says_where_and_what_to_do() -> None:
    error = DamagedBundle(Path("model/config.json"), "not valid JSON")
    assert isinstance(error, BundleError) and isinstance(error, UserError)
    where, found, advice = str(error).replace("; ", ": ", 1).split(": ", 2)
    assert (where, found) == ("model/config.json", "not valid JSON")
    assert "copy" in advice and "\n" not in str(error)
