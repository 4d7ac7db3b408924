from crosshead.addons.checks.check import DataReport
from crosshead.addons.checks.suspects import REPAIRED, Suspect
from crosshead.text.parallel.pairs import Origin


def test_pairs_of_repaired_kinds_stay_in_the_cleaned_text() -> None:
    suspects = [Suspect(0, REPAIRED[0], 1.0, "it"), Suspect(1, "encoding", 1.0, "it")]
    suspects += [Suspect(2, REPAIRED[0], 1.0, "it"), Suspect(2, "length", 1.0, "it")]
    text = ["a", "b", "c"]
    report = DataReport((text, text), suspects, lambda row: Origin("f", row + 1))
    assert report.cleaned() == (["a"], ["a"]) and report.dropped() == [1, 2]
