import random
import re

import numpy as np
import pytest

from crosshead.addons.checks import glance as module
from crosshead.addons.checks.glance import glance
from crosshead.caller import PYTHON, calling_from
from crosshead.text.parallel.pairs import Origin, ParallelText
from crosshead.text.parallel.section import DataConfig
from tests.addons.checks.made_up import pairs

FILES = DataConfig(
    source="my train.en", target="train.de", valid_source="v.en", valid_target="v.de"
)


def text(source: list[str], target: list[str]) -> ParallelText:
    return ParallelText(source, target, [Origin("f", n + 1) for n in range(len(source))])


def shifted(count: int, moved: int) -> ParallelText:
    """A text whose last targets have moved up by a row."""
    source, target = pairs(count)
    first = count - moved
    return text(source, target[:first] + target[first + 1 :] + target[first : first + 1])


SHIFTED = shifted(1000, 150)


def test_a_warning_has_counts_and_the_command() -> None:
    (line,) = glance(SHIFTED, FILES, None).warnings
    assert line.startswith("warning: suspect pairs in 1,000 pairs: ")
    assert " misaligned; to see them: crosshead data check --source 'my train.en'" in line
    assert line.endswith("--target train.de --valid-source v.en --valid-target v.de")
    with calling_from(PYTHON):
        assert (
            "crosshead.check_data(source='my train.en', "
            in glance(SHIFTED, FILES, None).warnings[0]
        )


def test_the_command_has_the_fields_of_the_tables() -> None:
    table = {"pairs": ["new.csv"], "fields": ["c", "d"]}
    (line,) = glance(SHIFTED, FILES.model_copy(update=table), None).warnings
    assert " --pairs new.csv --fields c,d --valid-source v.en " in line


def test_validation_files_that_do_not_fit_the_training_pairs_are_named() -> None:
    trained = text(*pairs(520))
    source, target = pairs(240, seed=2)

    def said(source: list[str], target: list[str]) -> list[str]:
        return glance(trained, FILES, text(source, target)).warnings

    good = glance(trained, FILES, text(source, target))
    assert good.warnings == [] and good.data_fault == ""
    bad = glance(trained, FILES, text(target, source))
    assert bad.data_fault.startswith("240 of 240 validation pairs are suspect, most often exchange")
    assert bad.warnings == [
        "warning: 240 of 240 validation pairs are suspect, most often exchanged (each side is in "
        "the language of the opposite side), so scores may mislead; check v.en, v.de"
    ]
    (line,) = said(source[1:], target[:-1])
    assert re.match(r"warning: 23\d of 239 validation pairs are suspect, most often misal", line)
    assert "(the target translates the source 1 line above)" in line
    (line,) = said(source[:120] + target[120:], target[:120] + source[120:])
    assert line.startswith("warning: 120 of 240 validation pairs are suspect, most often exch")
    assert said(source[:-20] + target[-20:], target[:-20] + source[-20:]) == []  # they are few
    assert said(source, source[:40] + target[40:]) == []  # identical pairs may be names
    (line,) = said(source, source[:200] + target[200:])
    assert line.startswith("warning: 200 of 240 validation pairs are suspect, most often identic")


def test_validation_files_change_nothing_that_training_pairs_are_told() -> None:
    trained = SHIFTED
    source, target = pairs(400, seed=2)
    *same, last = glance(trained, FILES, text(target, source))[0]
    assert same == glance(trained, FILES, None).warnings
    assert last.startswith("warning: 300 of a sample of 300 validation pairs are suspect, most ")
    few = glance(text(*pairs(3)), FILES, text(target, source))
    assert few.warnings == [] and few.data_fault == ""
    same_sides = text(pairs(900)[0], pairs(900)[0])
    found = glance(same_sides, FILES, text(target, source))
    assert found == glance(same_sides, FILES, None)


def test_a_shifted_and_a_shuffled_text_bring_a_verdict() -> None:
    source, target = pairs(600)
    first, second = glance(text(source, target[1:] + target[:1]), FILES, None).warnings
    assert first.startswith("warning: an estimated ") and " 1 line below; repair the" in first
    assert second.startswith("warning: suspect pairs in 600 pairs: ")
    random.Random(1).shuffle(target)
    assert "do not belong together" in glance(text(source, target), FILES, None).warnings[0]


@pytest.mark.parametrize(("spoilt", "is_cause"), [(400, True), (200, False)])
def test_the_data_is_a_likely_cause_if_half_of_the_pairs_have_one_fault(
    spoilt: int, is_cause: bool
) -> None:
    source, target = pairs(600)
    shuffled = random.Random(1).sample(target[:spoilt], spoilt)
    found = glance(text(source, shuffled + target[spoilt:]), FILES, None)
    verdict = found.warnings[0].removeprefix("warning: ")
    assert "do not belong together" in verdict
    assert found.data_fault == (verdict if is_cause else "")


def test_a_text_that_is_the_same_on_both_sides_is_a_likely_cause() -> None:
    source, target = pairs(600)
    found = glance(text(source, source), FILES, None)
    assert found.warnings == [f"warning: {found.data_fault}"]
    assert found.data_fault.startswith("both sides hold the same text in 100% of the pairs; ")
    most = glance(text(source, source[:450] + target[450:]), FILES, None)
    assert most.data_fault.startswith("both sides hold the same text in 75% of the pairs; ")
    assert glance(text(source, source[:30] + target[30:]), FILES, None).data_fault == ""


def test_a_few_exchanged_pairs_are_no_likely_cause() -> None:
    source, target = pairs(600)
    found = glance(text(target[:50] + source[50:], source[:50] + target[50:]), FILES, None)
    assert "8% of the pairs have exchanged sides" in found.warnings[0] and not found.data_fault


def test_a_clean_text_and_a_few_suspects_bring_no_warning() -> None:
    source, target = pairs(600)
    source[1], target[5], target[7] = "", "", source[7]
    target[9], target[10] = target[10], target[9]
    assert glance(text(source, target), FILES, None).warnings == []


def test_many_repeats_bring_a_warning_unless_they_are_dropped() -> None:
    source, target = pairs(600)
    few = text([*source, *source[:50]], [*target, *target[:50]])
    assert glance(few, FILES, None).warnings == []
    many = text([*source, *source], [*target, *target])
    (line,) = glance(many, FILES, None).warnings
    assert line == (
        "warning: 600 of 1,200 pairs repeat an earlier one; to use each once: "
        "--set data.drop_duplicates=true"
    )
    with calling_from(PYTHON):
        assert glance(many, FILES, None).warnings[0].endswith("data={'drop_duplicates': True}")
    assert glance(many, FILES.model_copy(update={"drop_duplicates": True}), None).warnings == []


def test_pairs_of_the_validation_set_bring_a_warning() -> None:
    source, target = pairs(600)
    (line,) = glance(text(source, target), FILES, text(source[:50], target[:50])).warnings
    assert "50 overlap" in line


def test_a_large_text_is_sampled_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 900)
    verdict, line = glance(shifted(20_000, 300), FILES, None).warnings
    assert verdict.startswith("warning: an estimated 3") and "at f:19" in verdict
    assert line.startswith("warning: suspect pairs in a sample of 900 pairs: ")
    rows = module._sample(20_000, 900)
    assert len(rows) == 900 and rows[0] == 0 and rows[-1] == 19_999
    assert np.flatnonzero(np.diff(rows) > 1).tolist() == [299, 599]
