from crosshead.addons.checks.scripts import wrong_script

LATIN = ["Ein Satz mit Wörtern."] * 40


def test_a_line_in_another_script_is_found() -> None:
    found = wrong_script([*LATIN, "Это по-русски", "Mr. Иванов sagt das Wort"], "target")
    assert [(each.row, each.reason) for each in found] == [(40, "the target has Cyrillic letters")]
    assert found[0].score == 1.0


def test_a_side_may_have_several_scripts() -> None:
    japanese = ["カタカナと漢字です"] * 30
    assert wrong_script([*japanese, "漢字漢字漢字", "ひらがな"], "target") == []


def test_numbers_and_punctuation_have_no_script() -> None:
    assert wrong_script([*LATIN, "1984", "→ ✓ …", "", "αβ"], "target") == []
