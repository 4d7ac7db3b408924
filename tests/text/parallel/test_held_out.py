from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.text.parallel.corpora import survey, training_parts
from crosshead.text.parallel.held_out import (
    HeldOut,
    Remaining,
    hold_out,
    in_both_directions,
    likeness,
    without_unused,
)
from crosshead.text.parallel.pairs import Origin, ParallelText
from crosshead.text.parallel.section import DataConfig
from tests.text.written import config


def corpus(pairs: list[tuple[str, str]]) -> ParallelText:
    sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return ParallelText(sources, targets, [Origin("file", n + 1) for n in range(len(pairs))])


def train_of(text: ParallelText, held: HeldOut) -> tuple[list[str], list[str]]:
    """What remains, as sources and targets."""
    found: tuple[list[str], list[str]] = [], []
    for source, target in Remaining(text, held).chunks():
        found[0].extend(source)
        found[1].extend(target)
    assert len(Remaining(text, held)) == len(found[0])
    return found


def refusal(text: ParallelText) -> str:
    with pytest.raises(DataError) as caught:
        hold_out(text, DataConfig(), 1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


PAIRS = st.lists(st.tuples(st.sampled_from("abcdef "), st.sampled_from("uvwxyz")), max_size=80)


@given(pairs=PAIRS, size=st.integers(1, 9), seed=st.integers(0, 3))
def test_held_out_pairs_are_not_trained_on(
    pairs: list[tuple[str, str]], size: int, seed: int
) -> None:
    text = corpus(pairs)
    try:
        held = hold_out(text, DataConfig(valid_size=size), seed)
    except DataError:
        reject()  # too few, or too much alike
    kept = list(zip(*train_of(text, held), strict=True))
    train = set(kept)
    valid = list(zip(held.valid.source, held.valid.target, strict=True))
    assert not train & set(valid)
    different = {(source.strip(), target.strip()) for source, target in pairs}
    assert len(set(valid)) == len(valid) <= min(size, max(1, len(different) // 10))
    assert len(kept) + len(held.valid) + len(held.repeats) == len(text)
    assert train | set(valid) == set(pairs)
    for row, pair in zip(held.rows, valid, strict=True):
        assert pairs[row] == pair
    assert [origin.line for origin in held.valid.origins] == [row + 1 for row in held.rows]


def test_the_held_out_slice_is_spread_and_drawn_by_the_seed() -> None:
    text = corpus([(f"s{n}", f"t{n}") for n in range(1000)])
    drawn = [hold_out(text, DataConfig(valid_size=50), seed).valid for seed in (1, 1, 2)]
    assert drawn[0].source == drawn[1].source != drawn[2].source
    assert [(origin.line - 1) // 20 for origin in drawn[0].origins] == list(range(50))
    assert len(hold_out(text, DataConfig(), 1).valid) == 100


def test_where_repetitions_of_held_out_pairs_stood_is_known() -> None:
    pairs = [(f"s{number % 20}", f"t{number % 20}") for number in range(60)]
    held = hold_out(corpus(pairs), DataConfig(valid_size=4), 1)
    drawn = set(held.valid.source)
    kept = {held.valid.origin(row).line for row in range(len(held.valid))}
    expected = [
        number for number, (source, _) in enumerate(pairs, 1)
        if source in drawn and number not in kept
    ]  # fmt: skip
    assert [row + 1 for row in held.repeats] == expected
    assert len(expected) == 2 * len(drawn)


def test_a_repetitive_text_keeps_nine_tenths_of_its_different_pairs() -> None:
    pairs = [(f"s{number % 40}", f"t{number % 40}") for number in range(4000)]
    held = hold_out(corpus(pairs), DataConfig(), 1)
    assert len(held.valid) == 4 and len(held.repeats) == 4 * 99
    assert len(set(train_of(corpus(pairs), held)[0])) == 36


def test_frequent_pairs_among_many_single_ones_stay_in_training() -> None:
    frequent = [(f"often {number % 40}", "oft") for number in range(4000)]
    pairs = [*frequent, *((f"s{number}", f"t{number}") for number in range(6000))]
    held = hold_out(corpus(pairs), DataConfig(valid_size=604), 1)
    assert len(held.valid) == 604
    left = {source for source in train_of(corpus(pairs), held)[0] if source.startswith("often")}
    assert 30 <= len(left) < 40


def test_a_frequent_pair_is_drawn_as_rarely_as_others() -> None:
    pairs = [("ok", "gut")] * 2700 + [(f"s{n}", f"t{n}") for n in range(299)]
    text = corpus(pairs)
    found = [hold_out(text, DataConfig(valid_size=15), seed).valid.source for seed in range(20)]
    assert all(len(source) == 15 for source in found)
    assert sum("ok" in source for source in found) <= 5


def test_other_translations_of_a_held_out_source_are_not_trained_on() -> None:
    """Such pairs are in the data of distillation beside human translations."""
    pairs = [(f"a long source {n}", f"t{copy} {n}") for copy in range(3) for n in range(100)]
    pairs += [("Yes.", f"ja {n}") for n in range(50)]
    text = corpus(pairs)
    held = hold_out(text, DataConfig(valid_size=20), 1)
    sources = {source for source in held.valid.source if source != "Yes."}
    assert len(held.valid) == 15 and len(sources) >= 8  # a tenth of 100 sources and 50 short pairs
    trained = set(train_of(text, held)[0])
    assert not trained & sources and "Yes." in trained
    assert len(held.repeats) == 2 * len(sources)
    folds = [hold_out(text, DataConfig(fold=[n, 3]), 1) for n in (1, 2, 3)]
    assert sum(len(each.valid) for each in folds) == 150
    assert all(
        not set(each.valid.source) & set(train_of(text, each)[0]) - {"Yes."} for each in folds
    )


def test_letters_of_a_script_without_spaces_are_words() -> None:
    pairs = [(f"这是第{n}个人的房子", f"t{copy} {n}") for copy in range(3) for n in range(100)]
    text = corpus([*pairs, *[("是", f"yes {n}") for n in range(50)]])
    held = hold_out(text, DataConfig(valid_size=20), 1)
    assert not set(train_of(text, held)[0]) & set(held.valid.source) - {"是"}
    assert len(held.repeats) == 2 * len(set(held.valid.source) - {"是"}) > 0


def test_each_different_pair_is_in_one_fold() -> None:
    pairs = [(f"s{number % 16}", f"t{number % 16}") for number in range(1600)]
    found = [hold_out(corpus(pairs), DataConfig(fold=[n, 4]), 1).valid.source for n in (1, 2, 3, 4)]
    assert [len(source) for source in found] == [4] * 4
    assert len({line for source in found for line in source}) == 16


def test_what_cannot_be_learned_from_is_not_held_out() -> None:
    long, short = "x" * 2000, [(f"s{n}", "t") for n in range(1, 20, 2)]
    pairs = [pair for kept in short for pair in ((long, "t"), kept)]
    held = hold_out(corpus(pairs * 5), DataConfig(valid_size=100), 1)
    assert set(held.valid.source) <= {kept[0] for kept in short}
    assert "give validation files" in refusal(corpus([(" ", "t")] * 50))
    assert "give validation files" in refusal(corpus([("s", "t")] * 50))
    assert "give validation files" in refusal(corpus([]))
    assert "too long (data.max_length)" in refusal(corpus([(long, long)] * 50))


def test_a_held_out_pair_is_not_trained_on_with_more_white_space_around_it() -> None:
    pairs = [(f"s{n}", f"t{n}") for n in range(10)]
    spaced = [(f"  {source}\t", f"{target} ") for source, target in pairs]
    text = corpus(pairs + spaced)
    held = hold_out(text, DataConfig(valid_size=2), 1)
    drawn = {source.strip() for source in held.valid.source}
    assert drawn and not drawn & {source.strip() for source in train_of(text, held)[0]}
    assert len(held.repeats) == len(drawn)


def test_a_pair_is_held_out_in_both_directions_or_in_none(tmp_path: Path) -> None:
    for side in ("en", "de", "fr"):
        lines = [f"{side} {n % 45}" for n in range(60)]  # 15 pairs occur twice
        (tmp_path / f"a.{side}").write_text("".join(f"{line}\n" for line in lines))
    data = config(
        source=[tmp_path / "a.en"] * 2, target=[tmp_path / "a.de", tmp_path / "a.fr"],
        directions="both", valid_size=7,
    )  # fmt: skip
    text = survey(training_parts(data))
    held = in_both_directions(text, data, 1)
    assert len(text) == 240 and len(held.valid) == 14

    def bare(sources: list[str], targets: list[str]) -> set[frozenset[str]]:
        """The pairs without tags and directions."""
        return {
            frozenset((source.partition("> ")[2], target))
            for source, target in zip(sources, targets, strict=True)
        }

    train = bare(*train_of(text, held))
    valid = bare(held.valid.source, held.valid.target)
    assert len(valid) == 7 and not train & valid
    assert len(train | valid) == 90
    tags = [source.partition(" ")[0] for source in held.valid.source]
    assert set(tags[:7]) <= {"<2de>", "<2fr>"} and tags[7:] == ["<2en>"] * 7
    for source, target, origin in zip(
        held.valid.source, held.valid.target, held.valid.origins, strict=True
    ):
        line = Path(origin.file).read_text().split("\n")[origin.line - 1]
        assert line == source.partition("> ")[2] != target


def test_too_similar_pairs_are_refused_in_both_directions(tmp_path: Path) -> None:
    """Without the check, the run would find no text to learn a tokenizer from."""
    (tmp_path / "a.en").write_text("".join(f"a long line {n}\n" for n in range(300)))
    (tmp_path / "a.de").write_text("one line for all\n" * 300)
    data = config(source=[tmp_path / "a.en"], target=[tmp_path / "a.de"], directions="both")
    with pytest.raises(DataError, match=r"pairs \(300\) are too few, too similar or too"):
        in_both_directions(survey(training_parts(data)), data, 1)


def test_a_tag_is_no_word_of_a_short_source() -> None:
    assert likeness(("<2de> Good morning", "Guten Morgen"))[1] == "Guten Morgen"
    assert likeness(("<2de> A good morning", "Ein guter Morgen"))[1] == ""


def test_a_smaller_share_is_part_of_a_larger_one_and_has_the_same_validation_set() -> None:
    text = corpus([(f"s{n}", f"t{n}") for n in range(400)])
    held = hold_out(text, DataConfig(), 1)
    whole = set(train_of(text, held)[0])
    before = whole
    for share in (1.0, 0.5, 0.25, 0.125):
        found = without_unused(text, held, share, 1)
        assert found.valid is held.valid and not set(found.valid.source) & before
        kept = set(train_of(text, found)[0])
        assert kept <= before and len(kept) == round(share * len(whole))
        before = kept
    again, other = (without_unused(text, held, 0.125, seed) for seed in (1, 2))
    assert set(train_of(text, again)[0]) == before != set(train_of(text, other)[0])


def test_unused_pairs_that_repeat_a_held_out_pair_are_left_out_once() -> None:
    text = corpus([(f"s{n % 40}", f"t{n % 40}") for n in range(80)])
    held = hold_out(text, DataConfig(valid_size=8), 1)
    assert len(held.repeats)
    train_of(text, without_unused(text, held, 0.3, 1))


def test_a_share_without_any_pair_is_refused() -> None:
    text = corpus([(f"s{n}", f"t{n}") for n in range(20)])
    with pytest.raises(DataError, match=r"data\.share 0\.001 of 18 pairs is no pair; raise it"):
        without_unused(text, hold_out(text, DataConfig(), 1), 0.001, 1)


def test_more_folds_than_different_pairs_are_refused_by_every_fold() -> None:
    text = corpus([(f"a source of {n % 3} words", "Ziel") for n in range(20)])
    for number in range(1, 6):
        with pytest.raises(DataError, match="5 folds need as many different pairs, found 3; use"):
            hold_out(text, DataConfig(fold=[number, 5]), 1)
    assert len(hold_out(text, DataConfig(fold=[3, 3]), 1).valid) == 1


@pytest.mark.parametrize("folds", [2, 3, 7])
def test_each_pair_is_in_one_fold(folds: int) -> None:
    text = corpus([(f"s{n}", f"t{n}") for n in range(50)])
    found = [hold_out(text, DataConfig(fold=[n + 1, folds]), 1) for n in range(folds)]
    rows = [row for held in found for row in held.rows.tolist()]
    assert sorted(rows) == list(range(50))
    assert max(len(held.rows) for held in found) - min(len(held.rows) for held in found) <= 1
    for held in found:
        assert not set(held.valid.source) & set(train_of(text, held)[0])
    other = hold_out(text, DataConfig(fold=[1, folds]), 2)
    assert other.rows.tolist() != found[0].rows.tolist()
