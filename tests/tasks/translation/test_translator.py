import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import crosshead
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import BundleError
from crosshead.models.registry import build_model
from crosshead.tasks.translation.translator import Translator
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import token_ids
from tests.tasks.translation.translators import STORED

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = {
    "one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf",
    "six": "sechs", "seven": "sieben", "eight": "acht", "nine": "neun", "ten": "zehn",
}  # fmt: skip


def english(words: list[str]) -> str:
    return " ".join(words).capitalize() + "."


def german(words: list[str]) -> str:
    return english([GERMAN[word] for word in words])


def test_it_is_shown_in_one_short_line(random_translator: Translator) -> None:
    assert repr(random_translator) == (
        "<Translator: transformer, 1+1 layers, d_model 8, d_ff 8, 2 heads, post-norm, on cpu>"
    )


def test_a_line_gives_a_line_and_a_list_a_list() -> None:
    translate = crosshead.load(STORED)
    assert translate("One two three.") == "Eins zwei drei."
    assert translate(["One."]) == ["Eins."]
    assert translate(("One.", "Two.")) == ["Eins.", "Zwei."]
    assert translate([]) == []


def test_the_model_is_a_plain_module(translator: Translator) -> None:
    assert isinstance(translator.model, torch.nn.Module)
    assert not translator.model.training
    logits = translator.model(torch.tensor([[7, 2]]), torch.tensor([[1]]))
    assert logits.shape == (1, 1, 330)


@pytest.fixture(scope="module")
def answers(translator: Translator) -> dict[str, str]:
    """Lines of many lengths with the translation that each has by itself."""
    words = [ENGLISH[(3 * start + step) % 10] for start in range(10) for step in range(5)]
    lines = ["", " ", *(english(words[n : n + 1 + n % 6]) for n in range(20)), "One two. " * 6]
    return {line: translator(line) for line in lines}


@settings(max_examples=6)
@given(st.data(), st.sampled_from([1, 40, 4096]))
def test_every_line_is_answered_in_its_place(
    translator: Translator, answers: dict[str, str], data: st.DataObject, batch_tokens: int
) -> None:
    lines = data.draw(st.lists(st.sampled_from(sorted(answers)), max_size=8))
    decode = translator.bundle.config.decode.model_copy(update={"batch_tokens": batch_tokens})
    found = translator.translate(lines, decode=decode)
    assert [each[0].text for each in found] == [answers[line] for line in lines]


def test_a_translation_does_not_depend_on_its_companions(random_translator: Translator) -> None:
    lines = ["abc", "a line of its own", "", "x", "öäü 漢字", "abc"]
    together = random_translator.translate(lines)
    assert together[0] == together[5]
    for line, [found] in zip(lines, together, strict=True):
        [[alone]] = random_translator.translate([line])
        assert alone.text == found.text
        assert alone.pieces == found.pieces
        assert alone.log_prob == pytest.approx(found.log_prob, abs=1e-4)


def test_a_blank_line_has_one_empty_translation(translator: Translator) -> None:
    for line in ("", "  ", "\u3000\t"):
        [[only]] = translator.translate([line], n_best=3)
        assert (only.text, only.log_prob, only.pieces, only.was_split) == ("", 0, [], False)


def test_log_probabilities_belong_to_pieces(translator: Translator) -> None:
    [[found]] = translator.translate(["Seven eight."])
    assert found.pieces[-1] == "</s>"
    assert len(found.pieces) == len(found.piece_log_probs)
    assert found.log_prob == pytest.approx(math.fsum(found.piece_log_probs))
    penalty = ((5 + len(found.pieces)) / 6) ** 0.6
    assert found.score == pytest.approx(found.log_prob / penalty)


def test_n_best_are_different_and_in_order(translator: Translator) -> None:
    [found] = translator.translate(["Seven eight."], n_best=4)
    assert len({tuple(each.pieces) for each in found}) == 4
    assert found[0].text == "Sieben acht."
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)


def test_white_space_around_a_line_stays_as_it_is(translator: Translator) -> None:
    assert translator(["  One.\t", "One.\r\n", "\nOne.\nTwo."]) == [
        "  Eins.\t", "Eins.", *translator(["One.\nTwo."]),
    ]  # fmt: skip


def test_a_text_is_translated_line_by_line(translator: Translator) -> None:
    lines = ["One two.", "", "Three.\r"]
    assert translator("\n".join(lines)) == "\n".join(translator(lines)) == "Eins zwei.\n\nDrei."
    assert translator("One.\n") == "Eins.\n"


def test_a_stretch_that_is_not_too_long_is_translated(translator: Translator) -> None:
    lines = ["x" * 2000 + " " + "y" * 2000, "One."]
    found = translator.translate(lines, decode=DecodeConfig(beam=1, max_extra=0))
    assert not any(best[0].was_passed_through for best in found)


def test_progress_is_told_part_by_part(translator: Translator) -> None:
    shares: list[float] = []
    decode = translator.bundle.config.decode.model_copy(update={"batch_tokens": 40})
    lines = ["One two three. " * 20, "", "One."]
    translator.translate(lines, decode=decode, progress=shares.append)
    assert shares[0] == 0 and shares[-1] == 1
    assert shares == sorted(shares) and len(shares) > 5
    shares.clear()
    translator.translate([""], progress=shares.append)
    assert shares == [0]


def test_nothing_of_a_very_long_line_is_dropped(translator: Translator) -> None:
    decode = DecodeConfig(beam=1, max_extra=10)
    [[found]] = translator.translate([" ".join([english(["one", "two"])] * 500)], decode=decode)
    assert found.text == " ".join(["Eins zwei."] * 500)
    [[unbroken]] = translator.translate(["x" * 2000], decode=decode)
    assert unbroken.was_split
    assert (found.sentence_was_cut, unbroken.sentence_was_cut) == (False, True)


def test_learned_positions_are_never_run_past(random_translator: Translator) -> None:
    assert random_translator.max_source_length == 23
    lines = ["a" * 22, "a" * 23, "a" * 24, "word " * 30, "é" * 50]
    found = random_translator.translate(lines)
    assert [each[0].was_split for each in found] == [False, False, True, True, True]


@settings(max_examples=15)
@given(st.lists(st.text(alphabet="ab\n\r。. é", max_size=40), max_size=4))
def test_no_translation_has_a_line_break(random_translator: Translator, lines: list[str]) -> None:
    decode = DecodeConfig(beam=1, sample=True, max_extra=5, temperature=3.0)
    found = random_translator.translate(lines, decode=decode)
    assert len(found) == len(lines)
    assert not any("\n" in each[0].text or "\r" in each[0].text for each in found)


def test_samples_depend_on_the_number_of_the_line_and_nothing_else(
    random_translator: Translator,
) -> None:
    decode = DecodeConfig(beam=1, sample=True)
    lines = ["abc", "abc", "defg", "h " * 30]
    together = random_translator.translate(lines, decode=decode)
    apart = [
        random_translator.translate([line], decode=decode, first=number)[0]
        for number, line in enumerate(lines)
    ]
    assert [each[0].pieces for each in together] == [each[0].pieces for each in apart]
    assert together[0][0].pieces != together[1][0].pieces


def test_what_is_no_text_is_refused_where_it_is_given(translator: Translator) -> None:
    for wrong, found in ((5, "int"), (None, "NoneType"), (b"One.", "bytes")):
        with pytest.raises(TypeError, match=f"expected a list of lines of text, found {found}"):
            translator(wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="found int at index 1"):
        translator(["One.", 1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a list of lines of text, found str"):
        translator.translate("One.")
    with pytest.raises(TypeError, match="a list of lines of text, found str"):
        translator.score("One.", "Eins.")
    assert translator(line for line in ["One."]) == ["Eins."]  # type: ignore[call-overload]


def test_a_model_that_diverged_is_named(translator: Translator) -> None:
    bundle = translator.bundle
    broken = build_model(bundle.config.model, 330, 330).eval()
    with torch.no_grad():
        broken.projection.weight.fill_(torch.nan)
    with pytest.raises(BundleError, match="not finite"):
        Translator(replace(bundle, model=broken))("One.")


def profiled() -> Translator:
    """Return the stored translator, whose bundle knows the numbers in English words."""
    stored = crosshead.load(STORED)
    assert isinstance(stored, Translator)
    tokenizer, rows = stored.bundle.source_tokenizer, [[n, n // 10, n % 10] for n in range(100)]
    texts = [[ENGLISH[each % 10] for each in row] for row in rows]
    sides = ([make(words) for words in texts] for make in (english, german))
    ids = (token_ids(tokenizer, side) for side in sides)
    profile = TextProfile.of(list(zip(*ids, strict=True)), tokenizer, tokenizer)
    bundle = stored.bundle
    config = bundle.config.model_copy(update={"profile": profile})
    return Translator(replace(bundle, config=config))


def test_translations_of_odd_lines_are_flagged() -> None:
    translator = profiled()
    lines = ["One two three.", "", "один два три четыре", "x9 #q% zzz kjw"]
    found = translator.translate(lines, n_best=2)
    assert [best[0].flags for best in found[:2]] == [(), ()]
    assert all("script" in each.flags and "pieces" in each.flags for each in found[2])
    assert "pieces" in found[3][0].flags and "script" not in found[3][0].flags
    [alone] = translator.translate(lines[2:3])
    assert alone[0].flags == found[2][0].flags


def test_a_line_in_parts_is_flagged_as_a_whole() -> None:
    translator = profiled()
    [[usual]] = translator.translate(["One two three. " * 8])
    assert usual.was_split and usual.flags == ()
    [[odd]] = translator.translate(["x9 #q% zzz. " * 8])
    assert odd.was_split and "pieces" in odd.flags


def test_an_old_bundle_knows_no_odd_lines() -> None:
    translator = crosshead.load(STORED)
    [[found]] = translator.translate(["один два три"])
    assert not {"script", "pieces", "length", "copy"} & set(found.flags)


def test_a_tag_does_not_make_a_line_odd(several: Translator) -> None:
    tokenizer, lines = several.bundle.source_tokenizer, [f"abc {n} def {n}" for n in range(100)]
    plain = [(tokenizer.encode(line), tokenizer.encode(line[::-1])) for line in lines]
    tag = tokenizer.encode("<2de>")
    tagged = [(tag + source, target) for source, target in plain]
    profile = TextProfile.of(tagged, tokenizer, tokenizer, [tokenizer.encode("<2fr>"), tag])
    assert profile == TextProfile.of(plain, tokenizer, tokenizer) is not None
    config = several.bundle.config.model_copy(update={"profile": profile})
    german = Translator(replace(several.bundle, config=config)).into("de")
    [[short]], [[parts]] = german.translate(["ab"]), german.translate(["abc def. " * 8])
    assert parts.was_split and not {"script", "pieces"} & {*short.flags, *parts.flags}
