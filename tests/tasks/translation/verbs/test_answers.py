import dataclasses

import pytest

from crosshead.cli import terminal
from crosshead.tasks.loading import load
from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.verbs.answers import OddLines, scored
from tests.cli.test_terminal import Recorded, display  # noqa: F401
from tests.cli.tools import BUNDLE


def test_score_shows_how_many_pairs_are_scored(
    display: Recorded,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a group of pairs too, which may take a minute."""
    monkeypatch.setattr(terminal, "_QUIET", 0.0)
    translator = load(BUNDLE, "cpu")
    monkeypatch.setattr(
        "crosshead.tasks.translation.log_probs.SCORED_LOGITS",
        20 * translator.bundle.config.target_vocabulary,
    )
    assert len(list(scored(translator, ["One."] * 9, ["Eins."] * 9, False))) == 1
    shares = [fraction for fraction, _ in display.shown]
    assert len(shares) > 3 and shares[0] == 0 and shares[-1] == 1 and shares == sorted(shares)


def test_odd_lines_give_one_warning_of_a_kind() -> None:
    plain = Translation("x", 0.0, 0.0, [], [])
    split = dataclasses.replace(plain, was_split=True)
    kept = dataclasses.replace(plain, was_passed_through=True)
    odd = OddLines()
    odd.add(["a", "b"], [[plain], [split]], 1)
    assert odd.warnings() == [
        "warning: too long for the model, and translated in parts: 1 of 2 lines (the first is "
        "line 2)"
    ]
    cut = dataclasses.replace(split, sentence_was_cut=True)
    odd.add(["c", "d"], [[cut], [kept]], 3)
    assert odd.warnings()[1:] == [
        "warning: too long for the model, and translated in parts: 2 of 4 lines (the first is "
        "line 2); 1 split inside a sentence"
    ]
    assert odd.warnings()[0].startswith("warning: kept unchanged, not translated: 1 of 4 ")
    assert OddLines().warnings() == []
