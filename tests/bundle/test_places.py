import os
import pickle
from pathlib import Path

import pytest

from crosshead.bundle.places import check_place, is_run
from crosshead.errors import BundleError
from crosshead.tasks.registry import load_bundle


def test_a_run_without_a_bundle_is_named_with_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "my run"
    (run / "checkpoints").mkdir(parents=True)
    (run / "recipe.toml").touch()
    with pytest.raises(BundleError, match="no bundle yet") as caught:
        load_bundle(run)
    assert str(caught.value).endswith(f"crosshead train --resume --out '{run}'")


def test_a_file_is_not_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(pickle.dumps([1]))
    with pytest.raises(BundleError, match=r"model\.pt: a file; expected the directory"):
        load_bundle(tmp_path / "model.pt")


def test_what_is_neither_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(BundleError, match=rf"{name}: a pipe or a device, expected the direc"):
            check_place(tmp_path / name)


def test_a_directory_without_checkpoints_is_no_run(tmp_path: Path) -> None:
    assert not is_run(tmp_path)
