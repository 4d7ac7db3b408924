"""The profile of training pairs: usual text has no flags, and each oddity has its own."""

import numpy as np
import pytest

from crosshead.text.learning import learn_tokenizers
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.profile import (
    FLAGS,
    LEAST_MEASURED,
    TextProfile,
    Usual,
    flags_of,
    is_copy,
    loses_number,
    repeats_itself,
)
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, token_ids
from crosshead.vocabulary import UNK

WORDS = ["brown", "dogs", "green", "fields", "seven", "children", "yellow", "houses", "river"]
GERMAN = ["braune", "Hunde", "grüne", "Felder", "sieben", "Kinder", "gelbe", "Häuser", "Fluss"]


def pairs(count: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Return sentences of three to twelve words, and their translations."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(WORDS), size=rng.integers(3, 13)) for _ in range(count)]
    sides = ([" ".join(words[index] for index in row) for row in rows] for words in (WORDS, GERMAN))
    return next(sides), next(sides)


def made(
    kind: str, sources: list[str], targets: list[str]
) -> tuple[TextProfile | None, Tokenizer, Tokenizer]:
    config = TokenizerConfig(kind=kind)  # type: ignore[arg-type]
    _, source, target = learn_tokenizers(config, ParallelText(sources, targets, ()))
    examples = list(zip(token_ids(source, sources), token_ids(target, targets), strict=True))
    return TextProfile.of(examples, source, target), source, target


@pytest.fixture(scope="module", params=["bpe", "words", "characters", "bytes"])
def fitted(request: pytest.FixtureRequest) -> tuple[TextProfile, Tokenizer]:
    profile, source, _ = made(request.param, *pairs(400))
    assert profile is not None
    return profile, source


def test_new_sentences_of_the_same_kind_have_no_flags(
    fitted: tuple[TextProfile, Tokenizer],
) -> None:
    profile, tokenizer = fitted
    for source, target in zip(*pairs(300, seed=2), strict=True):
        assert flags_of(profile, source, tokenizer.encode(source), target) == ()


@pytest.mark.parametrize(
    ("source", "flag"),
    [("εννέα σκύλοι στο ποτάμι", "script"), ("nwobr sgod neerg sdleif neves", "pieces"),
     ("seven chiens et brown garçons", "words"), ("sieben braune Hunde", "words"),
     ("<a href='x.html'><b>dogs</b></a>", "pieces")],
)  # fmt: skip
def test_a_source_unlike_the_training_data_is_flagged(
    fitted: tuple[TextProfile, Tokenizer], source: str, flag: str
) -> None:
    profile, tokenizer = fitted
    found = flags_of(profile, source, tokenizer.encode(source), "x" * len(source))
    if flag in ("script", "words") or tokenizer.kind in ("bpe", "words"):
        assert flag in found
    else:  # such tokenizers have no longer pieces that odd words could fall apart into
        assert flag not in found or UNK in tokenizer.encode(source)


SOURCE = "seven brown dogs seven green houses"


@pytest.mark.parametrize(
    ("output", "flags"),
    [("sieben braune Hunde sieben grüne Häuser", ()),
     ("", ("empty", "length")), (" ", ("empty", "length")), ("Hunde", ("length",)),
     ("viele " + " ".join(GERMAN) * 3, ("length",)),
     ("Seven brown dogs, seven green houses.", ("copy",)),
     ("ja ja ja ja ja ja ja ja ja ja ja ja ja ja", ("repetition",))],
)  # fmt: skip
def test_an_odd_translation_is_flagged(
    fitted: tuple[TextProfile, Tokenizer], output: str, flags: tuple[str, ...]
) -> None:
    profile, tokenizer = fitted
    assert flags_of(profile, SOURCE, tokenizer.encode(SOURCE), output) == flags


def test_a_blank_line_and_a_repetitive_source_are_not_flagged(
    fitted: tuple[TextProfile, Tokenizer],
) -> None:
    profile, tokenizer = fitted
    assert flags_of(profile, " ", [], "") == ()
    source, output = "dogs dogs dogs dogs dogs", "Hunde Hunde Hunde Hunde Hunde"
    assert flags_of(profile, source, tokenizer.encode(source), output) == ()


def test_copies_are_usual_where_the_training_pairs_are_copies() -> None:
    sources, _ = pairs(200)
    profile, tokenizer, _ = made("bpe", sources, sources)
    assert profile is not None and profile.copies > 0.9
    assert flags_of(profile, SOURCE, tokenizer.encode(SOURCE), SOURCE) == ()


def test_a_lost_number_is_flagged_unless_training_pairs_lose_numbers() -> None:
    sources, targets = pairs(400)
    words = [("1939 " if row < 40 else "") + text for row, text in enumerate(sources)]
    for lost, flags in ((0, ("number",)), (3, ("number",)), (4, ())):
        written = [("1939 " if lost <= row < 40 else "") + text for row, text in enumerate(targets)]
        profile, tokenizer, _ = made("bpe", words, written)
        assert profile is not None and profile.lost_numbers == lost / 400
        source = "1939 brown dogs green fields"
        assert flags_of(profile, source, tokenizer.encode(source), "1929 braune Hunde") == flags
        assert flags_of(profile, source, tokenizer.encode(source), "1939 braune Hunde") == ()
    older = profile.model_copy(update={"lost_numbers": None})
    assert flags_of(older, source, tokenizer.encode(source), "1929 braune Hunde") == ()


def test_words_that_are_usually_new_are_not_flagged() -> None:
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(800)]
    sources, targets = pairs(400)
    mixed = [f"{text} {names[2 * row]} {names[2 * row + 1]}" for row, text in enumerate(sources)]
    profile, tokenizer, _ = made("bpe", mixed, targets)
    assert profile is not None and profile.words is not None
    assert profile.words.others.rate > 0.1
    assert not profile.words.has_many_unknown(
        "brown dogs zoe yan"
    ) and profile.words.has_many_unknown("zoe yan xim wou vel uri toa sou")
    older = profile.model_copy(update={"words": None})
    odd = "unbekannte Dinge sind hier"
    assert "words" in profile.source_flags(odd, tokenizer.encode(odd))
    assert "words" not in older.source_flags(odd, tokenizer.encode(odd))


def test_numbers_are_no_unknown_words() -> None:
    profile, _, _ = made("bpe", *pairs(400))
    assert profile is not None and profile.words is not None
    assert not profile.words.has_many_unknown("12 345 6789 1b2 seven dogs")


def test_without_a_profile_only_repetition_is_flagged() -> None:
    assert flags_of(None, SOURCE, [], SOURCE) == ()
    assert flags_of(None, SOURCE, [], "ja ja ja ja") == ("repetition",)


def test_few_pairs_have_no_profile() -> None:
    sources, targets = pairs(LEAST_MEASURED)
    assert made("bytes", sources, targets)[0] is not None
    assert made("bytes", sources[1:], targets[1:])[0] is None


def test_a_profile_does_not_change_on_its_way_through_json() -> None:
    profile, _, _ = made("bpe", *pairs(200))
    assert profile is not None
    assert TextProfile.model_validate_json(profile.model_dump_json()) == profile


def test_the_usual_range_holds_all_but_the_ends() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 100, size=20_000)
    amounts = rng.poisson(0.4 * sizes)
    usual = Usual.of(amounts.tolist(), sizes.tolist(), 0.1)
    assert usual.rate == pytest.approx(0.4, rel=0.01)
    rows = list(zip(amounts.tolist(), sizes.tolist(), strict=True))
    for outside in (usual.above, usual.below):
        assert 0.0002 < sum(outside(*row) for row in rows) / len(rows) <= 0.0011


def test_each_flag_has_a_clause() -> None:
    assert list(FLAGS) == [
        "script", "words", "pieces", "empty", "repetition", "length", "copy", "number",
        "term",
    ]  # fmt: skip
    assert all(clause.startswith(("the source", "the translation")) for clause in FLAGS.values())
    assert "more unknown pieces" in FLAGS["pieces"]


@pytest.mark.parametrize(
    "text",
    ["a man in a man in a man in a man in a", "ein ein ein ein", "的的的的的的的",
     "hahahahahahahaha", '"' * 20,
     "the dog, and so the dog, and so the dog, and so the dog, and so"],
)  # fmt: skip
def test_texts_that_repeat_themselves(text: str) -> None:
    assert repeats_itself(text)


PHRASES = [
    "ein Mann in einem Hemd ",
    "Ein Mann, der auf einem Stuhl sitzt, ",
    "ein Mann und eine Frau gehen an einem Haus vorbei ",
]


@pytest.mark.parametrize("phrase", PHRASES)
def test_long_phrases_repeat_from_three_times(phrase: str) -> None:
    assert not repeats_itself(phrase * 2)
    assert repeats_itself(phrase * 3)
    assert repeats_itself(phrase * 10)


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_loop_may_begin_late_and_end_within_its_phrase(phrase: str) -> None:
    loop = "Zwei Hunde spielen im Schnee: " + phrase * 3 + phrase
    for cut in range(1, len(phrase)):
        assert repeats_itself(loop[:-cut])


@pytest.mark.parametrize("size", [9, 13, 30])
def test_long_sequences_without_spaces_repeat_from_four_times(size: int) -> None:
    sequence = "一个穿着蓝色衬衫的男人站在梯子上清洗大楼窗户而旁边有位女士看"[:size]
    assert len(sequence) == size
    assert repeats_itself(sequence * 8)
    assert repeats_itself("两只狗在雪地里玩，" + sequence * 4 + sequence[:-2])
    assert not repeats_itself("两只狗在雪地里玩，" + sequence * 3 + sequence[:-2])


@pytest.mark.parametrize(
    "text",
    ["12 " * 40, "- " * 14, "... " * 20, "1 , " * 12, "10 20 30 40 50 60 " * 9, "12，" * 16,
     "Im Jahr " + "12 " * 12 + "1"],
)  # fmt: skip
def test_numbers_and_punctuation_repeat_too(text: str) -> None:
    assert repeats_itself(text)


@pytest.mark.parametrize(
    "text",
    ["", "very very good", "no, no, no", "Wait......... what?", "1 000 000 000 000 000",
     "----------", "Ein Mann und ein Mann und eine Frau", "very very very", "ha ha ha",
     "A, B, C", "A, B, C, D, E, F, G, H", "1 2 3 4", "1 2 3 4 " * 3, "10 10 10", "0 " * 11,
     "- - -", "* * * * *", "." * 15, ". . . . . . . .", "|---|---|---|---|",
     "01.01.2021 - 01.01.2022", "2021-01-01, 2021-01-01, 2021-01-01", "11.11.2011 11:11:11",
     "+49 30 30 30 30 30", "030 111 111 111", "https://www.example.com/a/a/a?b=b&b=b",
     "hand in hand in hand in hand", "main dans la main dans la rue",
     "Sing a song with me, sing a song with me, and then we all go home.",
     "O day! O day! O day! O hateful day!"],
)  # fmt: skip
def test_texts_that_do_not_repeat_themselves(text: str) -> None:
    assert not repeats_itself(text)


def test_a_long_text_is_looked_at_quickly() -> None:
    assert not repeats_itself(" ".join(f"word{n}" for n in range(20_000)))
    assert not repeats_itself("".join(chr(0x4E00 + n % 5000) for n in range(20_000)))
    assert not repeats_itself("".join(chr(0x4E00 + n % 31) for n in range(50_000)))
    assert not repeats_itself(" ".join(f"{'a b c d e f g ' * 2}{n}" for n in range(1_000)))
    assert repeats_itself("a" * 50_000)
    assert repeats_itself("1" * 50_000)


@pytest.mark.parametrize(
    "output",
    ["A man rides a bike.", "a MAN rides a bike", " A man, rides  a bike! "],
)  # fmt: skip
def test_a_copy_has_the_words_of_its_source(output: str) -> None:
    assert is_copy("A man rides a bike.", output)


@pytest.mark.parametrize(
    ("source", "output"),
    [("A man rides a bike.", "Ein Mann fährt Rad."), ("A man rides a bike.", "A man rides."),
     ("Anna Maria", "Anna Maria"), ("2021 - 2022 (7)", "2021 - 2022 (7)"), ("a b c", "a b c"),
     ("", "")],
)  # fmt: skip
def test_other_texts_and_short_names_are_no_copies(source: str, output: str) -> None:
    assert not is_copy(source, output)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("after 350 minutes", "nach 108 Minuten"), ("May 1939", "Mai"), ("٣٥ دقيقة", "53 minutes"),
        ("10 of 12", "12"),
        ("20 dogs", "2077 Hunde"), ("1990", "19900"), ("12,500-13,500", "12500"),
        ("1,500 men", "1 men"), ("1,250 men", "1.500 Männer"),
        ("20,000 people", "20 Menschen"), ("1,250 cars", "250 Autos"), ("100,000", "100"),
        ("1,500-2,500", "500"), ("in 2020", "1920"), ("2019-20", "2019/2021"), ("10-20", "1920"),
    ],
)  # fmt: skip
def test_a_number_whose_digits_are_missing_is_lost(source: str, output: str) -> None:
    assert loses_number(source, output)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("1000 men", "1.000 Männer"), ("1,000 men", "1000 Männer"), ("11/26/2026", "26. 11. 2026"),
        ("2 dogs", "zwei Hunde"), ("on 05/26", "am 26. 5."),
        ("٣٥ دقيقة", "35 minutes"), ("no number", "42"),
        ("10:30 or 12.50", "12,50 oder 10.30"), ("12,500-13,500 men", "12500 bis 13500 Menschen"),
        ("from 1,500 2,500", "1500 und 2500"), ("10,000 20", "10000, 20"), ("1,500.50", "1500,50"),
        ("1.000.000/2019", "2019: 1000000"), ("12 300-seat", "12 mit 300"),
        ("1500 to 2000 m", "1,500-2,000 m"), ("1000 in 2010", "in 2010 1 000"),
        ("2,77,000-3,10,000", "277000 bis 310000"), ("10,00,000", "1000000"),
    ],
)  # fmt: skip
def test_numbers_may_be_written_otherwise(source: str, output: str) -> None:
    assert not loses_number(source, output)
