"""What people send to a trained translator: tags, placeholders, terms, odd white space.

The model is that of the quickstart, which takes some minutes.
"""

from pathlib import Path

import pytest

from crosshead.recipe.stored import run_recipe
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.download import DATES, download
from crosshead.text.glossary import Entry, Glossary
from crosshead.training.run import train

pytestmark = pytest.mark.slow

SIDES = {
    "source": "train.en", "target": "train.de", "valid_source": "valid.en",
    "valid_target": "valid.de",
}  # fmt: skip


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("dates")
    download(DATES, folder, str)
    data = {key: [str(folder / name)] for key, name in SIDES.items()}
    train(run_recipe(None, "quickstart", {"data": data}), folder / "model")
    return load_as(Translator, Path(folder / "model"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("March <b>2021</b>", "März <b>2021</b>"),
        ("<b>Friday</b>, March 5, <i>2021</i>", "<b>Freitag</b>, 5. März <i>2021</i>"),
        ("<em><b>Friday</b></em>, March 5, 2021", "<em><b>Freitag</b></em>, 5. März 2021"),
        ("%s March 2021", "%s März 2021"),
        ("Friday, March 5, {year}", "Freitag, 5. März {year}"),
        ("March 2021 ✓", "März 2021 ✓"),
        ("▾ March 5, 2021", "▾ 5. März 2021"),
        ("👨‍👩‍👧‍👦", "👨‍👩‍👧‍👦"),
        ("%(count)s", "%(count)s"),
        ("March 5, 2021 https://example.org/a?b=March", "5. März 2021 https://example.org/a?b=March"),
    ],
)  # fmt: skip
def test_a_line_keeps_what_is_not_its_words(
    translator: Translator, line: str, expected: str
) -> None:
    assert translator(line) == expected


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u2009", "\t"])
def test_any_white_space_is_a_space(translator: Translator, space: str) -> None:
    assert translator(f"Monday,{space}June{space}7,{space}1999") == "Montag, 7. Juni 1999"


@pytest.mark.parametrize("line", ["\ufeffMonday, June 7, 1999", "Mon\u00adday, June 7, 1999"])
def test_what_nobody_sees_changes_nothing(translator: Translator, line: str) -> None:
    assert translator(line) == "Montag, 7. Juni 1999"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("FRIDAY, MARCH 5, 2021", "FREITAG, 5. MÄRZ 2021"),
        ("friday, march 5, 2021", "Freitag, 5. März 2021"),
        ("<b>FRIDAY</b>, MARCH 5, {year}", "<b>FREITAG</b>, 5. MÄRZ {year}"),
    ],
)
def test_the_case_of_a_line_does_not_matter(
    translator: Translator, line: str, expected: str
) -> None:
    assert translator(line) == expected


def test_a_page_is_translated_whole(translator: Translator) -> None:
    page = (
        "<p>Friday, <b>March 5</b>, 2021</p>\n"
        '<img alt="March 5, 2021" title="May 2022"><input placeholder="May 2022">\n'
        "<p>March 5, 2021<br>May 2022</p><pre>March 5, 2021</pre>"
    )
    assert translator.translate_document(page, "html").text == (
        "<p>Freitag, <b>5. März</b> 2021</p>\n"
        '<img alt="5. März 2021" title="Mai 2022"><input placeholder="Mai 2022">\n'
        "<p>5. März 2021<br>Mai 2022</p><pre>March 5, 2021</pre>"
    )


def test_terms_are_used(translator: Translator) -> None:
    glossary = Glossary([Entry("March", "Lenz"), Entry("Friday", "Freytag")])
    [[found]] = translator.translate(["Friday, March 5, 2021"], glossary=glossary)
    assert found.text == "Freytag, 5. Lenz 2021"
    assert all(term.is_used for term in found.terms)
