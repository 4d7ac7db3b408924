import dataclasses

from crosshead.tasks.translation.line_translator import Translation
from crosshead.tasks.translation.verbs.odd_lines import OddLines


def test_odd_lines_give_one_warning_of_a_kind() -> None:
    plain = Translation("x", 0.0, 0.0, [], [])
    split = dataclasses.replace(plain, was_split=True)
    kept = dataclasses.replace(plain, was_passed_through=True)
    odd = OddLines()
    odd.add(["a", "b"], [[plain], [split]], 1)
    assert odd.warnings() == [
        "warning: line 2 is too long for the model, and was translated in parts, split between "
        "sentences"
    ]
    cut = dataclasses.replace(split, sentence_was_cut=True)
    odd.add(["c", "d"], [[cut], [kept]], 3)
    assert odd.warnings()[1:] == [
        "warning: 2 of 4 lines (the first is line 2) are too long for the model, and were "
        "translated in parts; 1 of them were split inside a sentence"
    ]
    assert odd.warnings()[0].startswith("warning: line 4 was kept unchanged, not translated: ")
    assert OddLines().warnings() == []
