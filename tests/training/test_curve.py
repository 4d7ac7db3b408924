import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from crosshead.errors import UserError
from crosshead.training.curve import plot_curve


def write_log(path: Path, validations: int) -> Path:
    rows: list[dict[str, Any]] = [
        {"kind": "train", "update": n, "nll": 5 / n} for n in range(1, 41)
    ]
    rows += [
        {"kind": "valid", "update": 10 * n, "nll": 1 / n, "bleu": 9.0 * n}
        for n in range(1, validations + 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("validations", [0, 4])
def test_a_curve_is_drawn(validations: int, tmp_path: Path) -> None:
    picture = tmp_path / "curve.png"
    plot_curve(write_log(tmp_path / "log.jsonl", validations), picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_curve_has_a_gap_where_no_update_was_finite(tmp_path: Path) -> None:
    log, picture = write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png"
    with log.open("a") as file:
        for update, nll in ((41, None), (42, 0.1)):
            file.write(json.dumps({"kind": "train", "update": update, "nll": nll}) + "\n")
    plot_curve(log, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_matplotlib_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'crosshead\[plot\]'"):
        plot_curve(write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("x.so: failed to map\nsegment"), r"loaded \(x\.so: failed to map segment\)$"),
        (
            ModuleNotFoundError("No module named 'PIL'", name="PIL"),
            r"loaded \(No module named 'PIL'",
        ),
        (MemoryError(), r"loaded \(MemoryError\)$"),
    ],
)
def test_a_matplotlib_that_cannot_be_loaded_is_not_called_missing(
    error: Exception, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def failing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise error
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", failing)
    with pytest.raises(UserError, match=rf"matplotlib cannot be {words}") as caught:
        plot_curve(write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png")
    assert "pip install" not in str(caught.value)
