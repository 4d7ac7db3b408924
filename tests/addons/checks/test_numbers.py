from crosshead.addons.checks.numbers import changed_numbers
from tests.addons.checks.made_up import pairs


def numbered(count: int) -> tuple[list[str], list[str]]:
    source, target = pairs(count)
    return (
        [f"{line} {row + 10}" for row, line in enumerate(source)],
        [f"{row + 10} {line}" for row, line in enumerate(target)],
    )


def test_changed_numbers_are_found() -> None:
    source, target = numbered(50)
    target[3] = target[3].replace("13", "31")
    source[9] = source[9].replace("19", "190")
    target[20] = target[20].replace("30", "3000")
    found = changed_numbers(source, target)
    assert [(each.row, each.score) for each in found] == [(3, 0.94), (9, 0.94), (20, 0.94)]
    assert {each.reason for each in found} == {"a number differs between the sides"}


def test_a_number_without_its_thousands_is_changed() -> None:
    source, target = numbered(50)
    source[3], target[3] = "20,000 dogs", "20 Hunde"
    assert [each.row for each in changed_numbers(source, target)] == [3]


def test_other_ways_to_write_numbers_are_no_fault() -> None:
    source, target = numbered(50)
    source[3:8] = ["7 dogs", "1,000 dogs", "20 May 1939", "12 cats", "10:30"]
    target[3:8] = ["9 Hunde", "1.000 Hunde", "1939-05-20", "zwölf Katzen", "10.30"]
    assert changed_numbers(source, target) == []


def test_languages_that_write_numbers_differently_have_no_suspects() -> None:
    source, target = numbered(50)
    for row in range(10):
        target[row] = f"99 {target[row][3:]}"
    assert len(changed_numbers(source, target)) == 10
    target[10] = f"99 {target[10][3:]}"
    assert changed_numbers(source, target) == []


def test_a_text_without_numbers_has_no_suspects() -> None:
    assert changed_numbers(*pairs(50)) == []
