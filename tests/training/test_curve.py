import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

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


def test_a_curve_that_fails_as_it_is_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(figure: Figure) -> None:
        raise MemoryError

    monkeypatch.setattr(Figure, "subplots", failing)
    with pytest.raises(UserError, match=r"^no picture: matplotlib fails"):
        plot_curve(write_log(tmp_path / "log.jsonl", 1), tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()
