"""Glossaries: which words of a text are terms, and the files that they are read from."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.errors import DataError
from crosshead.text.glossary import Entry, Glossary, Term, has_term

ENTRIES = [
    Entry("coat", "Mantel"),
    Entry("US", "USA"),
    Entry("New York", "New York"),
    Entry("C++", "C++"),
    Entry("run", "laufen", ("ran", "running")),
    Entry("machine translation", "MÜ"),
    Entry("translation", "Übersetzung"),
    Entry("arbeiten", "work"),
    Entry("Straße", "street"),
    Entry("機械翻訳", "MT"),
    Entry("翻訳", "translation"),
    Entry("l'eau", "water"),
    Entry("RTX30901", "card"),
]
GLOSSARY = Glossary(ENTRIES)


def found(text: str, glossary: Glossary = GLOSSARY) -> list[tuple[str, str]]:
    return [(text[begin:end], target) for begin, end, target in glossary.terms(text)]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("A coat, two Coats.", [("coat", "Mantel"), ("Coats", "Mantel")]),
        ("raincoat coast coating", []),
        ("In the US, not us.", [("US", "USA")]),
        ("New  York is new. York, New-York", [("New  York", "New York")]),
        ("C++ or C+ or C", [("C++", "C++")]),
        ("They ran.", [("ran", "laufen")]),
        ("runs", []),
        ("Machine translations", [("Machine translations", "MÜ")]),
        ("a machine, a translation", [("translation", "Übersetzung")]),
        ("Er arbeitet, Arbeiterin", [("arbeitet", "work")]),
        ("STRASSE", [("STRASSE", "street")]),
        ("これは機械翻訳です。翻訳", [("機械翻訳", "MT"), ("翻訳", "translation")]),
        ("De l’eau", [("l’eau", "water")]),
        ("RTX30902, rtx30901", [("rtx30901", "card")]),
        ("Stra\u00dfe", [("Straße", "street")]),
        ("", []),
    ],
)
def test_whole_words_and_their_forms_are_found(text: str, terms: list[tuple[str, str]]) -> None:
    assert found(text) == terms


def test_accents_may_be_written_as_marks() -> None:
    glossary = Glossary([Entry("café", "Kaffeehaus"), Entry("हिन्दी", "Hindi")])
    assert found("A cafe\u0301, हिन्दी", glossary) == [
        ("cafe\u0301", "Kaffeehaus"), ("हिन्दी", "Hindi")
    ]  # fmt: skip


def test_of_terms_that_overlap_the_longest_is_taken_then_the_first() -> None:
    glossary = Glossary([Entry("aa bb", "1"), Entry("bb cccc dd", "2"), Entry("dd ee", "3")])
    assert found("aa bb cccc dd ee", glossary) == [("bb cccc dd", "2")]
    assert found("aa bb ee dd ee", glossary) == [("aa bb", "1"), ("dd ee", "3")]
    same = Glossary([Entry("aa bb", "1"), Entry("bb cc", "2")])
    assert found("aa bb cc", same) == [("aa bb", "1")]


def test_case_counts_where_entries_differ_in_it_alone() -> None:
    both = Glossary([Entry("Polish", "polnisch"), Entry("polish", "polieren")])
    assert [target for _, target in found("polish Polish POLISH", both)] == [
        "polieren", "polnisch", "polnisch"
    ]  # fmt: skip


def test_the_form_of_the_term_itself_goes_before_other_forms() -> None:
    glossary = Glossary([Entry("letter", "Brief"), Entry("letters", "Literatur")])
    assert found("letters letter", glossary) == [("letters", "Literatur"), ("letter", "Brief")]


def test_stem_decides_which_words_are_forms() -> None:
    text = "painter paint painting"
    assert len(found(text, Glossary([Entry("paint", "malen")], stem=0))) == 1
    assert len(found(text, Glossary([Entry("paint", "malen")]))) == 2
    assert found(text, Glossary([Entry("painted", "malt")], stem=7)) == []
    assert found(text, Glossary([Entry("painted", "malt")])) == [
        ("painter", "malt"), ("paint", "malt")
    ]  # fmt: skip


@given(st.text("ab .1機", max_size=30), st.lists(st.text("ab .1機", min_size=1), max_size=5))
def test_without_stems_terms_are_what_a_search_of_words_finds(
    text: str, sources: list[str]
) -> None:
    sources = [each.strip() for each in sources if each.strip()]
    terms = Glossary([Entry(each, "x") for each in sources], stem=0).terms(text)
    assert all(first.end <= second.begin for first, second in pairwise(terms))
    for begin, end, _ in terms:
        assert " ".join(text[begin:end].split()) in [" ".join(each.split()) for each in sources]
    assert bool(terms) == any(Glossary([Entry(each, "x")], stem=0).terms(text) for each in sources)


def read(path: Path, text: str, name: str) -> Glossary:
    (path / name).write_text(text, encoding="utf-8")
    return Glossary.read(path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.tsv", 'run\tlaufen\tran|running\nPC\n\na "b"\tc\n'),
        ("g.tsv", '\ufeffSource\tTarget\tForms\nrun\tlaufen\tran | running\nPC\tPC\t\na "b"\tc\n'),
        ("g.csv", 'run,laufen,ran|running\nPC,PC,\n"a ""b""",c,\n'),
        ("g.csv", 'sep=;\nsource;target\nrun;laufen;ran|running\nPC;PC\n"a ""b""";c\n'),
    ],
)
def test_tables_have_source_target_and_forms(tmp_path: Path, name: str, text: str) -> None:
    glossary = read(tmp_path, text, name)
    assert found('She ran a PC with a "b".', glossary) == [
        ("ran", "laufen"), ("PC", "PC"), ('a "b"', "c")
    ]  # fmt: skip
    assert found("source target forms", glossary) == []


def test_files_of_deepl_have_languages_in_further_columns(tmp_path: Path) -> None:
    glossary = read(tmp_path, "dog,Hund,en,de\ncat,Katze,en,de\n", "g.csv")
    assert found("en dog", glossary) == [("dog", "Hund")]
    (tmp_path / "g.csv").write_text("bench,banc,EN,FR\nbench,Bank,EN,DE\nBank,bench,DE,EN\n")
    languages = {"source_language": "en", "target_language": "de"}
    glossary = Glossary.read(tmp_path / "g.csv", **languages)
    assert found("bench Bank", glossary) == [("bench", "Bank")]
    (tmp_path / "g.csv").write_text("run,laufen,ran,verb\n")
    with pytest.raises(DataError, match="4 columns"):
        Glossary.read(tmp_path / "g.csv", **languages)


def test_a_term_base_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.tbx").write_text(
        "<martif><text><body><termEntry>"
        "<langSet xml:lang='en'><tig><term>run</term></tig><tig><term>ran</term></tig></langSet>"
        "<langSet xml:lang='de'><tig><term>laufen</term></tig></langSet>"
        "</termEntry></body></text></martif>"
    )
    glossary = Glossary.read(tmp_path / "g.tbx", 0, "en")
    assert found("run ran runs", glossary) == [("run", "laufen"), ("ran", "laufen")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.tsv", "a\tb\nc\t\n", "g.tsv:2: the target of 'c' is empty"),
        ("g.tsv", "a\tb\n\tc\n", "g.tsv:2: the source is empty"),
        ("g.tsv", "a\tb\tx||y\n", "g.tsv:1: the source is empty"),
        ("g.tsv", "a\tb\n\nA\td\na\tc\n", "g.tsv:4: 'a' has the target 'c', and 'b' in .*g.tsv:1"),
        ("g.csv", "a,b,c|d\nd,e,f\n", "g.csv:2: 'd' has the target 'e'"),
        ("g.tsv", "a\tb\tc\td\te\n", "g.tsv:1: 5 columns"),
        ("g.csv", 'a,"b\n', "g.csv:1: a quote"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, name)


def test_entries_from_python_are_checked_too() -> None:
    with pytest.raises(DataError, match="entry 2"):
        Glossary([Entry("a", "b"), Entry("a", "c")])
    with pytest.raises(DataError, match="entry 1"):
        Glossary([Entry("a", " ")])
    with pytest.raises(DataError, match="more than 1,000 terms"):
        Glossary([Entry(f"term{'a' * size}", "b") for size in range(1001)])
    assert Glossary([Entry(f"term{number}", "b") for number in range(1001)]).terms("term9")
    with pytest.raises(DataError, match="101 words"):
        Glossary([Entry("a " * 101, "b")])
    assert Glossary([Entry("a", "b"), Entry("a", "b")]).terms("a") == [Term(0, 1, "b")]


@pytest.mark.parametrize("text", ["Ein Hund.", "HUNDE", "zwei Hunden", "der Schäferhund", "Hünde"])
def test_a_text_has_a_term_in_other_forms_and_in_compounds(text: str) -> None:
    assert has_term(text, "Hund")


@pytest.mark.parametrize(
    ("word", "term"),
    [("Kindern", "Kind"), ("Häusern", "Haus"), ("läuft", "laufen"), ("talossa", "talo"),
     ("학교에서", "학교"), ("blauen Mänteln", "blauer Mantel")],
)  # fmt: skip
def test_long_endings_are_forms_in_a_translation(word: str, term: str) -> None:
    assert has_term(f"x {word} y", term)


@pytest.mark.parametrize(
    ("word", "term"),
    [
        ("Modelle", "Modell-X"),
        ("iPhone", "iPhone-X"),
        ("Mantel", "Mann"),
        ("Handtuch", "Hand"),
        ("us", "US"),
        ("A41", "A4"),
        ("學生", "學校"),
    ],
)
def test_other_words_are_no_forms_in_a_translation(word: str, term: str) -> None:
    assert not has_term(f"x {word} y", term)


@pytest.mark.parametrize("text", ["", "Katze", "den KatzenHund"])
def test_a_text_lacks_a_term(text: str) -> None:
    assert not has_term(text, "Hund")
    assert not has_term("Ein Mann sitzt im Bus.", "US")
    assert not has_term("Es ist gerade Mittag.", "Rad")


def test_the_case_of_the_text_chooses_among_forms() -> None:
    glossary = Glossary([Entry("Polish", "polnisch"), Entry("polish", "polieren")])
    assert [each.target for each in glossary.terms("He polishes it.")] == ["polieren"]


def test_a_hyphen_joins_words() -> None:
    glossary = Glossary([Entry("shirt", "Hemd"), Entry("t-shirt", "T-Shirt")])
    assert [each.target for each in glossary.terms("Two t-shirts and a shirt")] == [
        "T-Shirt", "Hemd",
    ]  # fmt: skip


def test_a_target_is_a_term() -> None:
    with pytest.raises(DataError, match="the target has 101 words"):
        Glossary([Entry("a", "b " * 101)])
