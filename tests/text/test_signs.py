"""Signs of a bad translation: each is seen, and good translations have none."""

import pytest

from crosshead.text.signs import is_copy, loses_number, repeats_itself


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
