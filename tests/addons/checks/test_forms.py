"""Pairs that are suspect by the form of one side or of both."""

import random
import unicodedata

import numpy as np
import pytest
from ftfy import fix_encoding
from ftfy.badness import is_bad

from crosshead.addons.checks import forms
from crosshead.addons.checks.forms import (
    TAG,
    URL,
    changed_numbers,
    damaged,
    decomposed,
    empty_or_identical,
    mark_up,
    odd_lengths,
    without_words,
)
from crosshead.text.parallel.pairs import composed
from tests.addons.checks.made_up import pairs

USUAL = ["Für Öl müssen wir größere Fässer kaufen.", "„Das“ – so heißt es."]


@pytest.mark.parametrize("character", ["\u200b", "\u00ad", "\u2060", "\ufeff"])
def test_invisible_characters_are_damage(character: str) -> None:
    (found,) = damaged([*USUAL, f"Häu{character}ser"], "target")
    reason = f"the target has the invisible character U+{ord(character):04X}"
    assert (found.row, found.score, found.reason) == (2, 1.0, reason)


@pytest.mark.parametrize("character", ["\u200b", "\u2060"])
@pytest.mark.parametrize(
    "words", ["ខ្ញុំ ស៊ី បាយ", "ฉัน กิน ข้าว", "ຂ້ອຍ ກິນ ເຂົ້າ", "ငါ ထမင်း စား", "彼は 走る"]
)
def test_scripts_without_spaces_may_mark_where_words_end(character: str, words: str) -> None:
    assert damaged([*USUAL, words.replace(" ", character)], "target") == []
    (found,) = damaged([*USUAL, words.replace(" ", character) + "\ufeff"], "target")
    assert found.reason == "the target has the invisible character U+FEFF"


@pytest.mark.parametrize("marks", ["\u202e{}\u202c", "\u202a{}", "\u2067{}\u2069"])
def test_marks_of_direction_are_damage_except_in_right_to_left_text(marks: str) -> None:
    lines = [*USUAL, marks.format("Häuser"), marks.format("שלום Häuser"), marks.format("بيت")]
    (found,) = damaged(lines, "target")
    assert found.row == 2 and found.reason.startswith("the target has the invisible character U+2")


@pytest.mark.parametrize("line", ["a\x00b", "a\u2028b", "caf\ufffd", "\x93so\x94"])
def test_characters_that_are_no_text_are_damage(line: str) -> None:
    assert [(each.row, each.score) for each in damaged([*USUAL, line], "target")] == [(2, 1.0)]


@pytest.mark.parametrize(
    "line",
    ["«CAFÉ» et «À»", "Wirklich? Ja!", "http://x.de/a?b=c", "a\tb", "Ärger, Ãos", "…", "¿Qué?"],
)
def test_usual_characters_are_no_damage(line: str) -> None:
    assert damaged([*USUAL, line], "target") == []


REAL = """\
Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.
Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.
Ein kleines Mädchen klettert in ein Spielhaus aus Holz.
Zwei Männer stehen am Herd und bereiten Essen zu.
Ein Mann lächelt einen ausgestopften Löwen an.
Eine Frau mit einer großen Geldbörse geht an einem Tor vorbei.
Eine Ballettklasse mit fünf Mädchen, die nacheinander springen.
Ein schwarzer Hund und ein gefleckter Hund kämpfen.
Ein kleines Mädchen sitzt vor einem großen gemalten Regenbogen.
Fünf Personen sitzen mit Instrumenten im Kreis.
Ein großes Bauwerk ist kaputt gegangen und liegt auf einer Fahrbahn.
Ein Mann, der ein Tattoo auf seinem Rücken erhält.
Ein Mann in grünen Hosen läuft die Straße entlang.
Du weißt, dass ich aussehe wie Justin Bieber.
Fünf gehende Personen mit einem mehrfarbigen Himmel im Hintergrund.
Eine Person fährt auf einer verschneiten Straße Fahrrad.
Eine schöne Braut geht auf einem Gehweg mit ihrem neuen Ehemann.
Männer, die eine Straße mit Kindern entlang laufen.
Ein schwarzer Hund springt über einen Baumstamm.
Eine Menschenmenge steht und wartet, bis die Ampel grün wird.
""".splitlines()
"""Lines of Multi30k."""

LEGITIMATE = r"""
a²+b²=c² und 10‰ von √2, 2√π, √Ω
Греческое Wort Привет, дом und Ωmega
Das Wort ελλάδα heißt Griechenland, дома auch
O2 ½ Liter, H₂O, CO₂
x=12, y=A1, n=C3, id=F0, A1=C3=A4, color=FFAA00
http://x.de/a%20b/K%C3%B6ln?x=M%C3%A4nner und www.x.de/M%E4nner
de.wikipedia.org/wiki/K%C3%B6ln
C:\xampp\htdocs C:\users\u00e4nder D:\xe4nder\xe4 \\server\xe4\u00e4b
5 μm und 5 µm, Ωmega, α-helix, β-Carotin, αβγ
«CAFÉ» et «À», PRÈS DE LA MÈRE, dès l’été
≈£5, ≈¥7 und ±½, ≈±5
Was??Nein! Wirklich?? Ja. Wer?!
不確定按鈕是作什麼的?很簡單 本当ですか?はい ไหม?ครับ
├── src
└── tests ─┬┐ ╔═╗ █▓▒░ ████░░░░
sinαcosβ xⁿyᵐ a√b A∩B a±b
50%AB 100%C3 10%DE Rabatt
IT-компания USBшный
reﬂect ﬂy oﬃce
„Ärger“, ‚Ärger‘ –Öl —Öl …tes
in URLs steht %C3%A4 für ä, \u00e4 steht in Java, [\u4e00-\u9fff]
mère España Müller São João Ångström Øresund Škoda Łódź
étudiant·e·s col·lecció Tír na nÓg hÉireann
\xi \alpha \upsilon \undefined \u \x
È vero. Ève, Êtres, Ère
f(x)=E4n, Preis=12€, =Ö=, ¬p, ¬π
¿Qué? ¡Olé! 20 °C 5º ª ñandú
iPhone™ ®️ ©2020 §5 ¶ †1900 ‡ foot
Größe 5ƒ ƒ£ eʋe ƒé
""".splitlines()


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
@pytest.mark.parametrize("line", [*REAL, "für alle", "Öl über Öl", "größer"])
def test_utf8_read_in_another_encoding_is_damage(line: str, encoding: str) -> None:
    found = damaged([*USUAL, line.encode().decode(encoding)], "target")
    assert [(each.row, each.score) for each in found] == [(2, 1.0)]


@pytest.mark.parametrize(
    ("line", "wrong", "right"),
    [
        ("Arsenal 1 â€“ 1 Stoke", "'â€“ 1 Stoke'", "'– 1 Stoke'"),
        ("what was ‚Äòmedia", "'‚Äòmedia'", "'‘media'"),
        ("behind a fa√ßade that", "'√ßade that'", "'çade that'"),
        ("not be naÃ¯ve", "'Ã¯ve'", "'ïve'"),
    ],
)
def test_the_reason_shows_where_the_damage_begins(line: str, wrong: str, right: str) -> None:
    (found,) = damaged([line], "target")
    assert found.reason == f"the target has {wrong}, probably {right} in a wrong encoding"


def test_damage_is_that_of_whole_lines() -> None:
    """Lines that are mostly ASCII are searched in parts."""
    rng = random.Random(1)
    pieces = ["a", "B", " ", ",", "Ã", "Â", "â", "€", "™", "ГўВЂВ", "ØÙ", "œ", "é", "ß", "ï", "«"]
    bad = 0
    for _ in range(3000):
        odd = "".join(rng.choices(pieces, k=5))
        line = "plain " * rng.randrange(5) + odd + " words" * rng.randrange(5)
        whole = bool(is_bad(line)) and fix_encoding(line) != line
        assert bool(damaged([line], "source")) == whole
        bad += whole
    assert bad > 100


def test_legitimate_symbols_and_mixed_words_are_no_damage() -> None:
    other = ["déjà où il était", "něco příště", "perché è"]
    assert damaged([*USUAL, *REAL, *other * 9, *LEGITIMATE], "target") == []


def test_a_long_line_without_breaks_is_searched_in_one_pass() -> None:
    """With a pass for each of its characters, this would take minutes."""
    assert URL.findall("a1b2" * 100_000) == []
    assert URL.findall("see https://a.b/c or www.d.e") == ["https://a.b/c", "www.d.e"]


def test_empty_and_identical_sides() -> None:
    found = empty_or_identical(["a", " ", "b", "x y ", "1984"], ["", "c", "\t", "x y", "1984"])
    assert [(each.row, each.kind, each.reason) for each in found] == [
        (0, "empty", "the target is empty"),
        (1, "empty", "the source is empty"),
        (2, "empty", "the target is empty"),
        (3, "identical", "both sides are the same"),
    ]


def test_decomposed_characters_are_found_and_composed() -> None:
    apart = unicodedata.normalize("NFD", USUAL[0])
    found = decomposed([USUAL[0], apart, "ascii"], "source")
    assert [(each.row, each.kind) for each in found] == [(1, "unicode")]
    assert composed(apart) == USUAL[0]


def test_mark_up_is_suspect_on_one_side() -> None:
    pairs = [
        ("Click <b>here</b> to see the list", "Klicken Sie <b>hier</b>, um die Liste zu sehen"),
        ("<br>a", "b"),
        ("a < b and c > d", "a < b und c > d"),
        ("<td><tr>x</tr></td>", "<td><tr>y</tr></td>"),
        ("Tom & Ann", "Tom &amp; Ann"),
    ]
    found = mark_up([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    assert [each.row for each in found] == [1, 4]
    assert found[0].reason == "only the source has '<br>'"
    [beside_nothing] = mark_up(["<b>Hello</b>"], [""])
    assert beside_nothing.reason == "only the source has '<b>'"


@pytest.mark.parametrize(
    "line",
    [
        "if a<b and b>c",
        "Type <Enter> or <Strg>",
        "<name@example.com> wrote",
        "1 <x + y> 2",
        "<https://x.de/a>",
        "much on R&D; the others do not",
    ],
)
def test_text_in_angle_brackets_is_no_mark_up(line: str) -> None:
    assert mark_up([line], ["x"]) == []


@pytest.mark.parametrize(
    "tag",
    [
        "<strong>",
        "</p>",
        "<br />",
        "<a href='x' title=\"y z\">",
        "<v:shape id=5/>",
        "&nbsp;",
        "&frac12;",
        "&#XE4;",
    ],
)
def test_tags_on_one_side_are_mark_up(tag: str) -> None:
    assert len(mark_up([f"text {tag} here"], ["x"])) == 1


def test_a_long_line_of_open_tags_is_searched_in_one_pass() -> None:
    """With a pass for each of its tags, this would take minutes."""
    assert TAG.findall("<a b=c d " * 50_000 + "<a" + " " * 100_000) == []


@pytest.mark.parametrize(
    "text", ["50394", "-", "... ?", "3,5 %", "http://x.de/abc", "(www.x.de) 5"]
)
def test_a_single_line_without_words_opposite_a_sentence_is_found(text: str) -> None:
    source, target = pairs(300)
    target[7] = text
    (found,) = without_words(target, source, "target")
    words = len(source[7].split())
    assert (found.row, found.kind, found.score) == (7, "placeholder", 1 - 1 / words)
    assert found.reason == f"the target has no words, but the opposite side has {words}"


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("5.12.", "am fünften Dezember 2026"),
        ("http://x.de/abc", "see http://x.de/a-b-c-d-e for more"),
        ("", "eine leere Zeile steht hier"),
        (",", "अंतर्राष्ट्रीयता"),
        ("x = 5", "hier ist x gleich fünf"),
    ],
)
def test_numbers_and_urls_may_stand_opposite_a_few_words(text: str, other: str) -> None:
    source, target = pairs(300)
    assert without_words([*target, text], [*source, other], "target") == []


def test_a_text_about_numbers_has_lines_without_words() -> None:
    source, _ = pairs(300)
    assert without_words([str(row) for row in range(300)], source, "target") == []


def text(count: int, spread: float) -> tuple[list[str], list[str]]:
    """Lines of 20 to 80 characters, and lines about 1.2 times as long."""
    rng = random.Random(1)
    lengths = [rng.randint(20, 80) for _ in range(count)]
    ratio = [1.2 * 2.718 ** rng.gauss(0, spread) for _ in range(count)]
    return (
        ["x" * each for each in lengths],
        ["y" * max(1, round(each * r)) for each, r in zip(lengths, ratio, strict=True)],
    )


def test_a_cut_side_is_found() -> None:
    source, target = text(1000, 0.1)
    target[3], source[500] = target[3][:5], source[500][:5]
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [3, 500]
    usual = round(1.2 * len(source[3]))
    assert found[0].reason.startswith(f"{len(source[3])} and 5 characters, usual are ")
    assert abs(int(found[0].reason.split()[-1]) - usual) <= 2


@pytest.mark.parametrize("every", [100, 50, 20, 10, 5])
@pytest.mark.parametrize("factor", [1 / 3, 1 / 6, 3])
def test_many_damaged_sides_are_found(every: int, factor: float) -> None:
    source, target = text(2000, 0.15)
    damaged = set(range(7, 2000, every))
    for row in damaged:
        target[row] = "y" * round(factor * len(target[row]))
    found = {each.row for each in odd_lengths(source, target, np.arange(2000))}
    assert len(found & damaged) >= 0.9 * len(damaged)
    assert len(found - damaged) <= 2


@pytest.mark.parametrize("every", [20, 10, 5, 4])
def test_many_texts_of_one_length_are_found_on_either_side(every: int) -> None:
    sides = text(2000, 0.15)
    damaged = set(range(7, 2000, every))
    for number, row in enumerate(sorted(damaged)):
        sides[number % 2][row] = f"img_{number:04}.jpg"
    found = {each.row for each in odd_lengths(*sides, np.arange(2000))}
    # Some of the whole lines are of about the length of these texts.
    unlike = {row for row in damaged if abs(len(sides[0][row]) - len(sides[1][row])) > 25}
    assert unlike and len(found & unlike) >= 0.95 * len(unlike)
    assert found <= damaged


def test_single_words_decide_about_the_ratio_of_short_lines() -> None:
    source, target = text(1000, 0.1)
    source[3], target[3] = "x" * 6, "y" * 18
    source[500], target[500] = "x" * 6, "y" * 30
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [500]
    # The side with more characters counts, whichever it is.
    found = odd_lengths(target, source, np.arange(1000))
    assert [each.row for each in found] == [500]


def test_lengths_are_fitted_to_pairs_drawn_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text may hold two kinds of pairs in turns."""
    source, target = text(2000, 0.15)
    target[::2] = [line * 2 for line in target[::2]]
    monkeypatch.setattr(forms, "_MOST_FITTED", 1000)
    assert len(odd_lengths(source, target, np.arange(2000))) < 20


def test_freer_translations_need_larger_distances() -> None:
    source, target = text(1000, 0.6)
    target[3] = "y" * (len(source[3]) // 2)
    assert all(each.row != 3 for each in odd_lengths(source, target, np.arange(1000)))


def test_small_differences_are_usual_even_in_a_very_regular_text() -> None:
    source, target = text(1000, 0.01)
    for row, factor in ((3, 1.4), (500, 1.7)):
        target[row] = "y" * round(1.2 * factor * len(source[row]))
    found = odd_lengths(source, target, np.arange(1000))
    assert [each.row for each in found] == [500]


def test_sides_of_one_ratio_have_no_suspects() -> None:
    source, _ = text(1000, 0.0)
    assert odd_lengths(source, source, np.arange(1000)) == []
    assert odd_lengths([], [], np.arange(0)) == []


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
