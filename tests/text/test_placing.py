import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosshead.text.glossary import Term
from crosshead.text.markers import MARKERS, Mark
from crosshead.text.marks import Marked, signs
from crosshead.text.placing import WordLinks

WORD = re.compile(r"\w+|[^\w\s]")


def links(source: str, target: str, pairs: dict[str, str]) -> WordLinks:
    """WordLinks of words, by a dictionary from words of the translation to words of the text."""
    sides = [[match.span() for match in WORD.finditer(text)] for text in (source, target)]
    weights = np.zeros((len(sides[1]), len(sides[0])))
    for row, (begin, end) in enumerate(sides[1]):
        for column, (first, last) in enumerate(sides[0]):
            wanted = pairs.get(target[begin:end], target[begin:end])
            weights[row, column] = float(wanted == source[first:last])
    return WordLinks(*(np.array(side, int).reshape(-1, 2) for side in sides), weights)


DATES = {"Freitag": "Friday", "März": "March"}


@pytest.mark.parametrize(
    ("line", "translation", "expected"),
    [
        ("March <b>2021</b>", "März 2021", "März <b>2021</b>"),
        (
            "Friday, <a>March 5</a>, 2021", "Freitag, 5. März 2021",
            "Freitag, <a>5. März</a> 2021",
        ),
        ("<b>Friday</b>, <i>March 5</i>", "Freitag, 5. März", "<b>Freitag</b>, <i>5. März</i>"),
        ("<b>March <i>5</i></b>, 2021", "5. März 2021", "<b><i>5</i>. März</b> 2021"),
        ("%s March 2021", "März 2021", "%s März 2021"),
        ("{date}: March 2021", "März 2021", "{date}: März 2021"),
        ("Friday {at} March", "Freitag März", "Freitag {at} März"),
        ("Friday{at} March", "Freitag März", "Freitag{at} März"),
        ("March ✓", "März", "März ✓"),
        ("March <br/> 2021", "März 2021", "März <br/> 2021"),
        ("March<br/>2021", "März 2021", "März<br/>2021"),
        ("March {a}{b} 2021", "März 2021", "März {a}{b} 2021"),
        ("March {a}, {b} 2021", "März 2021", "{a} März {b} 2021"),
        ("March {x}. 2021", "2021 März", "{x} 2021 März"),
        ("“{x}” March", "März 2021", "März {x} 2021"),
        ("({x}) 2021 March", "März 2021", "März {x} 2021"),
        ("<b>March 2021", "März 2021", "<b>März 2021"),
        ("<b><i>March 2021</i></b>", "März 2021", "<b><i>März 2021</i></b>"),
        ("March {x}.", "März.", "März {x}."),
        ('March <x id="22"></x> 2021', "März 2021", 'März <x id="22"></x> 2021'),
        ("<b>March</b> 2021", "2021 März", "2021 <b>März</b>"),
    ],
)  # fmt: skip
def test_marks_stand_where_their_words_stand(line: str, translation: str, expected: str) -> None:
    marked = Marked.of(line, signs(line))
    assert marked.projected(translation, links(marked.text, translation, DATES)) == expected


def written(line: str, words: str) -> str:
    """A line whose model has written these words, and marks such as `0 /0` among them."""
    marked = Marked.of(line, signs(line), are_read=True)
    marks, ends, text = [], [], ""
    for token in re.findall(r"<.*?>|\s*\w+\.?|,", words):
        if token in MARKERS:
            marks.append(Mark(len(ends), MARKERS.index(token)))
        else:
            text = (text + token).lstrip()
            ends.append(len(text))
    return marked.written(text, ends, marks)


@pytest.mark.parametrize(
    ("line", "words", "expected"),
    [
        ("%s March 2021", "März <0/> 2021", "März %s 2021"),
        ("%s, March 2021", "<0/>, März 2021", "%s, März 2021"),
        ("in {place} on {date}", "am <1/> in <0/>", "am {date} in {place}"),
        ("one {a}{b} two", "eins <0/> <1/> zwei", "eins {a}{b} zwei"),
        ("one <b>{a}</b> two", "eins <0/> zwei", "eins <b>{a}</b> zwei"),
    ],
)
def test_marks_stand_where_the_model_has_written_them(line: str, words: str, expected: str) -> None:
    assert written(line, words) == expected


@pytest.mark.parametrize(
    "line",
    [
        "one <b>two <i>three</i></b> {x} four", "{x} one <br/> two {y}", "one <b>two</b>{x}.",
        "one<br/>two {x}px <b>a</b>{y}", "one{x}{y}two", "one <b>{x} two</b> <i>three {y}</i> four",
    ],
)  # fmt: skip
def test_a_copy_has_the_marks_in_their_places(line: str) -> None:
    marked = Marked.of(line, are_read=True)
    lead, text = len(marked.text) - len(marked.text.lstrip()), marked.text.strip()
    ends = [match.end() for match in re.finditer(r"\s*(\w+|\S)", text)]
    marks = marked.marks([lead + end for end in ends])
    links = WordLinks.in_order(marked.text, text)
    assert marked.projected(text, links, ends, marks) == line


@pytest.mark.parametrize("translation", ["", " ", "\f"])
def test_an_empty_translation_has_all_marks(translation: str) -> None:
    marked = Marked.of("one <b>two <i>three</i></b> {x} four")
    ends = list(range(1, len(translation) + 1))
    attention = np.ones((len(ends), 1))
    found = marked.projected(
        translation,
        WordLinks.of(marked.text, [len(marked.text)], translation, ends, attention),
    )
    assert re.findall(r"<.*?>|\{x\}", found) == ["<b>", "<i>", "</i>", "</b>", "{x}"]


MARKS = ["<b>", "</b>", "<i>", "</i>", "{x}", "%s", "<br/>", "https://example.org/a?b=c"]


@given(
    st.lists(st.sampled_from([*MARKS, "one", "two", "three"]), max_size=12),
    st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=8),
)
def test_no_mark_is_lost_or_added(words: list[str], translated: list[str]) -> None:
    line, translation = " ".join(words), " ".join(translated)
    marked = Marked.of(line)
    if not marked.text:
        assert marked.before + marked.after == line
        return
    found = marked.projected(translation, links(marked.text, translation, {}))
    pattern = re.compile("|".join(map(re.escape, MARKS)))
    assert sorted(pattern.findall(found)) == sorted(pattern.findall(line))
    assert pattern.sub("", found).split() == translation.split()


@given(
    st.recursive(
        st.sampled_from(["one ", "two ", "three "]),
        lambda inner: st.lists(inner, min_size=1, max_size=4).map(
            lambda parts: "<b>" + "".join(parts).strip() + "</b> "
        ),
        max_leaves=8,
    ),
    st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=1, max_size=8),
)
def test_pairs_stay_nested(line: str, translated: list[str]) -> None:
    translation = " ".join(translated)
    marked = Marked.of(line)
    found = marked.projected(translation, links(marked.text, translation, {}))
    depth = 0
    for tag in re.findall("</?b>", found):
        depth += -1 if tag[1] == "/" else 1
        assert depth >= 0
    assert depth == 0


def test_a_mark_between_letters_without_spaces_has_spaces_in_other_scripts() -> None:
    marked = Marked.of("你好{name}朋友")
    assert marked.text == "你好朋友"
    text = "Hello my friend"
    found = marked.projected(text, WordLinks.in_order(marked.text, text))
    assert " {name} " in found
    copied = marked.projected(marked.text, WordLinks.in_order(marked.text, marked.text))
    assert copied == "你好{name}朋友"


@pytest.mark.parametrize(
    ("line", "translation", "terms", "expected"),
    [
        ("March 2021.", "2021.", {"March": "Lenz"}, "Lenz 2021."),
        ("March Friday", "März Freitag", {"March": "Lenz", "Friday": "Freytag"}, "Lenz Freytag"),
        ("march 2021", "März 2021", {"march": "lenz"}, "Lenz 2021"),
        ("npm 2021", "März 2021", {"npm": "npm"}, "npm 2021"),
        ("March 2021", "März 2021", {"March": "iLenz"}, "iLenz 2021"),
        ("red {x} March 2021", "roter März 2021", {"red March": "Lenz"}, "Lenz {x} 2021"),
    ],
)
def test_terms_stand_apart(
    line: str, translation: str, terms: dict[str, str], expected: str
) -> None:
    marked = Marked.of(line)
    found = [
        Term(marked.text.index(source), marked.text.index(source) + len(source), target)
        for source, target in terms.items()
        if source in marked.text
    ]
    words = links(marked.text, translation, DATES | {"März": "march"} if "march" in line else DATES)
    assert marked.with_terms(found).projected(translation, words) == expected


def test_a_term_in_deep_pairs_is_found() -> None:
    marked = Marked.of("<b>one " * 90 + "two" + "</b>" * 90)
    at = marked.text.index("two")
    found = marked.with_terms([Term(at, at + 3, "zwei")])
    copied = found.projected(marked.text, WordLinks.in_order(marked.text, marked.text))
    assert copied.count("<b>") == copied.count("</b>") == 90
