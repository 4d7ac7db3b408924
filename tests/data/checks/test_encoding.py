"""Characters that a wrong encoding has damaged."""

import re
from collections.abc import Callable

import pytest

from crosshead.data.checks.encoding import URL, damaged, without_spaces

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


def test_a_line_that_has_lost_its_spaces_is_damage() -> None:
    lost = "EinManninBlaustehtaufeinerLeiterundputzteinFenster."
    long = "Aufbewahrungsortfiltereditor"
    url = "https://example.org/EinManninBlaustehtaufeinerLeiter"
    thai = "ผู้ชายในเสื้อสีน้ำเงินกำลังยืนอยู่บนบันไดและเช็ดหน้าต่าง"
    lines = [f" {lost} ", lost, lost.replace("M", " M"), long, url, thai, "Ein Mann"]
    others = ["a man in blue", "a man in blue stands", *["a man in blue is standing"] * 5]
    (found,) = without_spaces(lines, others, "target")
    assert (found.row, found.kind, found.score) == (1, "encoding", 1.0)
    assert found.reason == "the target has no spaces, but there are 5 words opposite"


@pytest.mark.parametrize(
    "line",
    [
        "twoyoungmenareoutsidenearmanybushes.",
        "«Deuxjeuneshommessontdehorsprèsdebuissons»!",
        "ZweijungeMännersindimFreieninderNähevonBüschen",
    ],
)
def test_a_sentence_and_capitals_between_small_letters_show_lost_spaces(line: str) -> None:
    (found,) = without_spaces([line], ["two young men are outside"], "target")
    assert found.row == 0


@pytest.mark.parametrize(
    "line",
    [
        "Kraftfahrzeughaftpflichtversicherung",
        "Rechtsschutzversicherungsgesellschaften",
        "ArbeitnehmerInnenschutzverordnung",
        "BAföG-Höchstförderungsdauerverordnung",
        "Kraftfahrzeughandelsgesellschaft-mbH",
        "Schüler/Schülerinnen/Lehrer/Lehrerinnen",
        "Vor-und-Nachmittags-Betreuungseinrichtung",
    ],
)
def test_a_compound_and_a_chain_of_words_need_no_spaces(line: str) -> None:
    assert without_spaces([line], ["a term of at least five words"], "target") == []


@pytest.mark.parametrize("space", ["\u00a0", "\u202f"])
def test_a_no_break_space_inside_a_word_is_damage(space: str) -> None:
    lines = [*USUAL, f"Die neuen{space}Fäs{space}ser sind voll.", f"die neuen{space}"]
    (found,) = damaged(lines, "target")
    assert (found.row, found.kind, found.score) == (2, "encoding", 1.0)
    assert found.reason == "the target has a no-break space inside 'Fässer'"


@pytest.mark.parametrize(
    "line",
    [
        "Pourquoi\u202f? Non\u00a0! Voici\u00a0: «\u00a0Öl\u00a0», 12\u202f000\u00a0Fässer",
        "z.\u00a0B. die Nummer\u00a028, Mädchen\u00a0– und 5\u00a0Meter",
        "v\u00a0domě a k\u00a0lesu",  # Czech
        "Müssen\u00a0wir Fässer\u00a0kaufen?",  # between words
        "so\u00a0heißt", "Fass\u00a0bier",
    ],
)  # fmt: skip
def test_a_no_break_space_elsewhere_is_no_damage(line: str) -> None:
    lines = [*USUAL, "Das Fass steht da, und Bier auch.", "Fassbier vdomě klesu soheißt", line]
    assert damaged(lines, "target") == []


@pytest.mark.parametrize(
    ("line", "score"),
    [("a\x00b", 1.0), ("a\u2028b", 1.0), ("caf\ufffd", 1.0), ("\x93so\x94", 1.0), ("M?nchen", 0.5)],
)
def test_characters_that_are_no_text_are_damage(line: str, score: float) -> None:
    assert [(each.row, each.score) for each in damaged([*USUAL, line], "target")] == [(2, score)]


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


def _read(right: str, wrong: str) -> Callable[[str], str]:
    return lambda line: line.encode(right).decode(wrong)


def _escape(form: str, encoding: str = "latin-1") -> Callable[[str], str]:
    def escaped(letter: re.Match[str]) -> str:
        return "".join(form % byte for byte in letter[0].encode(encoding))

    return lambda line: re.sub(r"[^\x00-\x7f]", escaped, line)


@pytest.mark.parametrize(
    "damage",
    [
        *(_read("utf-8", wrong) for wrong in ("cp437", "cp850", "mac_roman")),
        *(_read("latin-1", wrong) for wrong in ("cp1251", "mac_roman", "cp437", "cp850")),
        *(_escape(form) for form in (r"\x%02x", r"\u%04x", "=%02X", "%%%02X")),
        *(_escape(form, "utf-8") for form in ("=%02X", "%%%02X", r"\x%02x")),
        lambda line: re.sub(r"(?<=\w)[^\x00-\x7f](?=\w)", "??", line),
    ],
)
def test_damaged_lines_of_a_text_are_found(damage: Callable[[str], str]) -> None:
    lines = [REAL[row % len(REAL)] for row in range(1000)]
    rows = set(range(7, 1000, 21))
    text = [damage(line) if row in rows else line for row, line in enumerate(lines)]
    found = {each.row for each in damaged(text, "target")}
    assert len(found & rows) >= 0.9 * len(rows) and found <= rows


def test_lost_letters_are_shown_in_their_word() -> None:
    (found,) = damaged([*USUAL, "Zwei M??nner"], "target")
    assert (found.score, found.reason) == (0.5, "the target has 'M??nner', probably lost letters")


@pytest.mark.parametrize(
    "line",
    [
        "Open index.php?id=3",
        "shop.example.com/list?page=two",
        "/list?page=two",
        "siehe (youtu.be/watch?v=abc).",
        "mailto:a@b.de?subject=hi",
        "Drucken: index.php?print",
        "example.org/list?all",
        "Open search?q=cats now",
        "watch?v=abc",
        "list?a=1&b=2",
    ],
)
def test_queries_of_addresses_are_no_lost_letters(line: str) -> None:
    assert damaged([*USUAL, line], "target") == []


@pytest.mark.parametrize(
    "line",
    [
        "M?nchen.",
        "Frauen/M?nner",
        "M?nner/Frauen",
        "a@b.de M??nner",
        "z.B.M?dchen x=5",
        "M?nner=Frauen",
        "Gr??e=5",
    ],
)
def test_lost_letters_beside_signs_of_addresses_are_found(line: str) -> None:
    assert len(damaged([*USUAL, line], "target")) == 1


def test_legitimate_symbols_and_mixed_words_are_no_damage() -> None:
    other = ["déjà où il était", "něco příště", "perché è"]
    assert damaged([*USUAL, *REAL, *other * 9, *LEGITIMATE], "target") == []


def test_a_long_line_without_breaks_is_searched_in_one_pass() -> None:
    """With a pass for each of its characters, this would take minutes."""
    assert URL.findall("a1b2" * 100_000) == []
    assert URL.findall("see https://a.b/c or www.d.e") == ["https://a.b/c", "www.d.e"]
