import re

import pytest

from crosshead.text.markers import MOST_MARKS
from crosshead.text.marks import (
    Marked,
    character_of,
    names,
    signs,
    split_marked,
    with_markup,
    with_tags_of,
    without_tags,
)


def test_words_that_a_mark_parts_stay_two_words() -> None:
    assert Marked.of("one line<br/>two lines").text == "one line two lines"
    assert Marked.of("H<sub>2</sub>O").text == "H2O"


def test_a_sentence_of_many_marks_is_not_read_with_them() -> None:
    line = "one " + " ".join(f"{{x{n}}} two" for n in range(MOST_MARKS + 1))
    assert not Marked.of(line, are_read=True).are_read
    assert Marked.of("one {x} two", are_read=True).are_read


@pytest.mark.parametrize(
    "text",
    ["3 < 4 and 5 > 2", "100% sure", "a_b and c", "5 $ and 6 $", "e.g. {not closed", "A @ B", "#1"],
)
def test_plain_text_has_no_marks(text: str) -> None:
    assert Marked.of(text, signs(text)) == Marked("", text, "")


@pytest.mark.parametrize(
    "placeholder",
    ["{name}", "%s", "%1$s", "%(count)d", "${x}", "{{ x }}", "<0/>", '<x id="1"/>', "__X__",
     "https://example.org/a_(b)?c=d#e", "a.b+c@example.org", "%{count}", "%.2f", "%@", "%c",
     "%zu", "%-10.3e", "{ name }", "{count, plural, one {# dog} other {# dogs}}", "<!-- a b -->",
     "<%= name %>", "{% if x %}", "HTTPS://Example.com/a", "ftp://example.com/a", "<a title='b>c'>",
     '<a title="b > c" d=e>', "<a it's>"],
)  # fmt: skip
def test_placeholders_are_marks(placeholder: str) -> None:
    marked = Marked.of(f"one {placeholder} two")
    assert marked.text == "one two"
    assert [span.before for span in marked.spans] == [placeholder]


@pytest.mark.parametrize(
    ("line", "marks", "text"),
    [
        ("请访问https://example.com/a获取。", ["https://example.com/a"], "请访问获取。"),
        ("ดูที่https://a.com/xขอบคุณ", ["https://a.com/x"], "ดูที่ขอบคุณ"),
        ("请发邮件到info@example.com谢谢", ["info@example.com"], "请发邮件到谢谢"),
        ("请打开report.pdf和@ann的", ["report.pdf", "@ann"], "请打开和的"),
        ("%s年%d月", ["%d"], "年月"),
        ("你好__NAME__先生", ["__NAME__"], "你好先生"),
        ("%1$s님이 가요", [], "님이 가요"),
        ("한국어https://a.com/b에서", ["https://a.com/b"], "한국어 에서"),
    ],
)
def test_placeholders_stand_between_letters_without_spaces(
    line: str, marks: list[str], text: str
) -> None:
    marked = Marked.of(line, names(line))
    assert [span.before for span in marked.spans] == marks
    assert marked.text == text
    assert marked.before in ("", "%s", "%1$s")


def test_an_address_may_have_letters_of_other_scripts_with_spaces() -> None:
    line = "один https://de.example.org/wiki/Köln-Москва два"
    assert Marked.of(line).text == "один два"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("A man.<br><br>Two dogs", "A man. Two dogs"),
        ("<p>A man</p><p>A woman</p>", "A man A woman"),
        ("<b>un</b><i>seen</i>", "unseen"),
        ("v1.{x}2", "v1.2"),
    ],
)
def test_tags_between_texts_part_words(line: str, text: str) -> None:
    assert Marked.of(line).text == text


def test_a_placeholder_before_a_colon_is_a_label() -> None:
    assert Marked.of("{date}: one two", are_read=True).before == "{date}: "
    assert Marked.of("{date} one two", are_read=True).before == ""
    assert Marked.of("{n}-year-old dog", are_read=True).before == ""


def test_what_stands_behind_a_text_is_apart_from_its_last_word() -> None:
    assert Marked.of("Is it you?__X__").around("Bist du es") == "Bist du es __X__"
    assert Marked.of("Is it you?__X__").around("Bist du es?") == "Bist du es?__X__"


def test_tags_that_are_placed_anew_double_no_placeholder() -> None:
    tag = character_of("lone", 0)
    assert with_tags_of(f"one {{x}} {tag} two", "eins {x} zwei") == f"eins {{x}} {tag} zwei"


@pytest.mark.parametrize("sign", ["😆", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "✓", "▾", "1️⃣", "❤️"])
def test_an_emoji_is_one_sign(sign: str) -> None:
    assert signs(f"a {sign} b 1 # é") == {sign}
    assert Marked.of(f"one {sign} two", {sign}).text == "one two"


@pytest.mark.parametrize("name", ["@ann_b", "#Überall", "report-2021.pdf", "bild.JPG".lower()])
def test_names_are_marks_of_a_model_that_reads_marks(name: str) -> None:
    line = f"one {name}, two"
    assert names(line) == {name}
    assert Marked.of(line, names(line), are_read=True).text == "one, two"
    assert Marked.of(line).text == line


@pytest.mark.parametrize("text", ["a@b.org", "no. 1 # 2", "end.The", "page.html5x", "x#y", "@ 5"])
def test_other_words_are_no_names(text: str) -> None:
    assert names(text) == set()


def test_tags_between_sentences_go_with_their_sentence() -> None:
    start, end, line = (character_of(kind, 0) for kind in ("open", "close", "lone"))
    text = f"{start}One. Two.{end} {line}Three."

    def split(plain: str) -> list[str]:
        return re.findall(r"\w+\. ?", plain)

    assert split_marked(text, split) == [f"{start}One. ", f"Two.{end} ", f"{line}Three."]
    assert without_tags(text) == "One. Two. Three."
    assert with_markup(text, {start: "<b>", end: "</b>", line: "<br>"}) == (
        "<b>One. Two.</b> <br>Three."
    )


def test_a_long_line_is_read_in_linear_time() -> None:
    patterns = [
        "a",
        "{",
        "%0",
        "__a",
        "<a ",
        "http://",
        "$a",
        "a@",
        "✓\u200d",
        "-",
        "a-",
        "./",
        "@ab {x} ",
    ]
    for pattern in patterns:
        line = pattern * (200_000 // len(pattern))
        Marked.of(line, signs(line) | names(line))


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("see https://a.b/{id} now", ["https://a.b/{id}"]),
        ("a %dx%d image", ["%d", "%d"]),
        ("a <00:03.500>word", ["<00:03.500>"]),
        ("50%% of #{x} and @{y}", ["%%", "#{x}", "@{y}"]),
    ],
)
def test_a_mark_is_whole(line: str, marks: list[str]) -> None:
    found = [span.before for span in Marked.of(f"one {line} two", are_read=True).spans]
    assert found == marks


@pytest.mark.parametrize("name", ["@anna-lena", "@max.b", "C:\\Users\\a.txt", "v1.2.pdf"])
def test_a_name_is_whole(name: str) -> None:
    assert names(f"See {name}.") == {name}


def test_a_placeholder_in_a_pair_is_a_word() -> None:
    assert Marked.of("Click <b>{name}</b> now", are_read=True).are_read
    assert not Marked.of("Click <b>here</b> now", are_read=True).are_read
