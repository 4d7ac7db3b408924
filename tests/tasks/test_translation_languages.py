"""The languages of a run, by the names of its files and columns."""

import pytest

from crosshead.errors import ConfigError
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.recipes import compose
from crosshead.tasks.translation import with_languages


def found(data: dict[str, object], *assignments: str) -> tuple[tuple[str | None, str | None], int]:
    """The languages of a recipe of these data, and how many lines say so."""
    recipe: Recipe = compose(flags={"data": data}, assignments=assignments)
    filled, lines = with_languages(recipe)
    return (filled.data.source_language, filled.data.target_language), len(lines)


@pytest.mark.parametrize(
    ("data", "languages"),
    [
        ({"source": "a/train.en", "target": "a/train.de.gz"}, ("en", "de")),
        ({"source": ["a.en", "b.en"], "target": ["a.haw", "b.haw"]}, ("en", "haw")),
        ({"source": ["a.en", "b.txt"], "target": ["a.de", "b.txt"]}, ("en", "de")),
        ({"pairs": "x.csv", "fields": ["en", "pt_BR"]}, ("en", "pt-BR")),
        ({"pairs": "x.jsonl", "fields": ["de", "cs"]}, ("de", "cs")),
        ({"pairs": "x.jsonl", "fields": ["translation.de", "translation.cs"]}, ("de", "cs")),
        ({"source": "a.en", "target": "a.de", "pairs": "x.tsv"}, ("en", "de")),
        ({"source": "a.txt", "target": "b.txt"}, (None, None)),
        ({"source": "a.src", "target": "b.tgt"}, (None, None)),
        ({"source": "a.en", "target": "b.out"}, (None, None)),
        ({"source": "src.en", "target": "tgt.en"}, (None, None)),
        ({"source": ["a.en", "b.fr"], "target": ["a.de", "b.de"]}, (None, None)),
        (
            {"source": "a.en", "target": "a.de", "pairs": "x.tsv", "fields": ["fr", "de"]},
            (None,) * 2,
        ),
        ({"pairs": "x.tsv", "fields": ["1", "2"]}, (None, None)),
        ({"pairs": "x.tsv"}, (None, None)),
        ({"text": "book.en"}, (None, None)),
    ],
)
def test_names_tell_languages(
    data: dict[str, object], languages: tuple[str | None, str | None]
) -> None:
    assert found(data) == (languages, int(languages[0] is not None))


def test_what_is_stated_stays() -> None:
    data = {"source": "a.en", "target": "a.de"}
    both = found(data, "source_language=fr", "target_language=cs")
    assert both == (("fr", "cs"), 0)
    assert found(data, "source_language=fr") == (("fr", "de"), 1)


@pytest.mark.parametrize("code", ["english", "e", "", "en de", "de_", "EN"])
def test_what_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(ConfigError, match=r"source_language: expected a language code"):
        compose(flags={"data": {"source": "a", "target": "b", "source_language": code}})


def test_a_line_says_which_language_was_given() -> None:
    data = {"source": "a.txt", "target": "a.de", "source_language": "nhn"}
    _, (line,) = with_languages(compose(flags={"data": data}))
    assert "nhn (as given) to de," in line


def test_the_fields_of_both_sides_differ() -> None:
    with pytest.raises(ConfigError, match="'de' twice"):
        compose(flags={"data": {"pairs": "a.csv", "fields": ["de", "de"]}})
