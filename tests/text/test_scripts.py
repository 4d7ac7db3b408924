import pytest

from crosshead.text.scripts import foreign_scripts, letters_by_script, script


@pytest.mark.parametrize(
    ("character", "name"),
    [("a", "LATIN"), ("é", "LATIN"), ("ж", "CYRILLIC"), ("λ", "GREEK"), ("犬", "CJK"),
     ("い", "HIRAGANA"), ("ي", "ARABIC"), ("7", ""), (" ", ""), ("!", ""), ("🙂", "")],
)  # fmt: skip
def test_a_letter_has_a_script_and_other_characters_have_none(character: str, name: str) -> None:
    assert script(character) == name


def test_the_letters_of_all_texts_are_counted_once() -> None:
    assert letters_by_script(["ab λ 12", "c!"]) == {"LATIN": 3, "GREEK": 1}
    assert not letters_by_script(["12 !", ""])


def test_only_unknown_scripts_are_foreign() -> None:
    known = {"LATIN": 0.9, "GREEK": 0.1}
    assert foreign_scripts("abc λ 12", known) == ([], 0.0)
    assert foreign_scripts("abc де", known) == (["CYRILLIC"], 0.4)
    assert foreign_scripts("12 !", known) == ([], 0.0)
