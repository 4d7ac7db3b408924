import subprocess
import sys
from pathlib import Path

import pytest

from crosshead.errors import UserError
from crosshead.training.directory_lock import Displaced, locked_directory


def test_a_directory_is_held_by_one_run_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked_directory(out):
        with pytest.raises(UserError, match="another run is writing there"), locked_directory(out):
            pass
        (out / "recipe.toml").touch()
    with locked_directory(out):
        assert (out / "recipe.toml").exists()


def test_a_process_that_dies_lets_go(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; "
        "from crosshead.training.directory_lock import locked_directory; "
        "locked_directory(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "out"], check=False)
    assert done.returncode == -9
    with locked_directory(tmp_path / "out"):
        pass


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(UserError, match="is a file"), locked_directory(tmp_path / "out"):
        pass


def test_a_directory_is_known_again_where_it_was_renamed_to(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with locked_directory(out) as lock:
        lock.check()
        out.rename(tmp_path / "moved")
        out.mkdir()  # another directory in its place is not the same
        with pytest.raises(Displaced, match="renamed or removed"):
            lock.check()
        assert lock.found() == tmp_path / "moved"
        (tmp_path / "moved").rmdir()
        assert lock.found() is None
