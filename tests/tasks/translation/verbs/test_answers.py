import pytest

from crosshead.cli import terminal
from crosshead.tasks.loading import load
from crosshead.tasks.translation.verbs.answers import scored
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
