import math
from typing import Literal, Self

import pytest
from pydantic import Field, ValidationError, model_validator

from crosshead.config import Config, nearest, validate
from crosshead.errors import ConfigError


class Small(Config):
    heads: int = Field(8, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.heads == 13:
            raise ValueError("13 heads bring bad luck; take 12")
        return self


class Kinds(Config):
    count: int = Field(1, gt=0, le=9)
    share: float = Field(0.5, lt=1)
    on: bool = False
    word: str = Field("a", pattern="^[a-z]+$")
    words: list[str] = []
    kind: Literal["one", "two"] = "one"
    small: Small = Small()


class Whole(Config):
    model: Small = Small()
    name: str


def test_values_become_a_configuration() -> None:
    whole = validate(Whole, {"name": "x", "model": {"heads": 4}})
    assert whole == Whole(name="x", model=Small(heads=4, dropout=0.1))


def test_whole_numbers_do_where_fractions_are_expected() -> None:
    assert validate(Small, {"dropout": 0}).dropout == 0.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "x", "model": {"head": 4}}, r"unknown key 'model\.head'; did you mean 'heads'\?"),
        ({"name": "x", "modle": {}}, r"unknown key 'modle'; did you mean 'model'\?"),
        ({"name": "x", "zzz": 1}, r"unknown key 'zzz'; known: model, name"),
        (
            {"name": "x", "model": {"heads": "4"}},
            r"model\.heads: expected a whole number, found '4'",
        ),
        (
            {"name": "x", "model": {"heads": 4.0}},
            r"model\.heads: expected a whole number, found 4\.0",
        ),
        (
            {"name": "x", "model": {"heads": True}},
            r"model\.heads: expected a whole number, found True",
        ),
        ({"name": "x", "model": {"heads": -1}}, r"model\.heads: expected 1 or more, found -1"),
        ({"name": "x", "model": {"heads": 13}}, r"model: 13 heads bring bad luck; take 12"),
        (
            {"name": "x", "model": {"dropout": math.nan}},
            r"model\.dropout: expected a finite number, found nan",
        ),
        ({"name": "x", "model": {"dropout": math.inf}}, r"model\.dropout: .*found inf"),
        ({}, r"name: missing; there is no default, so give a value"),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match="^recipe.toml: " + message) as caught:
        validate(Whole, values, where="recipe.toml")
    assert "\n" not in str(caught.value)


def test_without_a_place_the_message_stands_alone() -> None:
    with pytest.raises(ConfigError, match=r"^name: missing"):
        validate(Whole, {})


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("count", "x", "a whole number"),
        ("count", 0, "more than 0"),
        ("count", 10, "9 or less"),
        ("share", "x", "a number"),
        ("share", 1.0, "less than 1"),
        ("on", "x", "true or false"),
        ("word", 1, "text"),
        ("word", "A", "text that matches ^[a-z]+$"),
        ("words", "x", "a list"),
        ("kind", "x", "'one' or 'two'"),
        ("small", "x", "a section"),
    ],
)
def test_what_is_expected_is_said_in_our_words(key: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(Kinds, {key: value})
    assert str(caught.value) == f"{key}: expected {expected}, found {value!r}"


def test_a_key_is_named_as_it_was_typed() -> None:
    typed = {"dropout": "--drop-out", "heads": "--heads"}
    with pytest.raises(ConfigError, match=r"^--heads: expected a whole number, found 'x'$"):
        validate(Small, {"heads": "x"}, typed=typed)
    with pytest.raises(ConfigError, match=r"^model\.heads: expected"):
        validate(Whole, {"name": "x", "model": {"heads": "x"}}, typed=typed)


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Small().heads = 4  # type: ignore[misc]


def test_nearest() -> None:
    assert nearest("dorpout", ["dropout", "heads"]) == "did you mean 'dropout'?"
    assert nearest("LOAD", ["price", "load", "Loads"]) == "did you mean 'load'?"
    assert nearest("load", ["price", "Load"]) == "did you mean 'Load'?"
    assert nearest("qqq", ["heads", "dropout"]) == "known: dropout, heads"


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(
        ConfigError, match=r"heads: expected a whole number, found 'xxx.*"
    ) as caught:
        validate(Small, {"heads": "x" * 100_000})
    assert len(str(caught.value)) < 300 and "(100,002 characters)" in str(caught.value)
    with pytest.raises(ConfigError, match="found a number of 40,000 bits"):
        validate(Kinds, {"count": 2**40_000 - 1})


def test_bounds_are_written_as_people_write_them() -> None:
    class Large(Config):
        count: int = Field(1, le=2**63 - 1)
        share: float = Field(1.0, ge=1.0)

    with pytest.raises(ConfigError, match=r"expected 9,223,372,036,854,775,807 or less"):
        validate(Large, {"count": 2**63})
    with pytest.raises(ConfigError, match=r"expected 1 or more, found 0\.5"):
        validate(Large, {"share": 0.5})


class Texts(Config):
    word: str = ""
    words: list[str] = Field(default_factory=list)
    shares: dict[str, float] = Field(default_factory=dict)


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "a\x9b31m", "\x7f", "\0", "\u202egnp.exe"])
def test_control_characters_are_refused_wherever_a_text_stands(hostile: str) -> None:
    for key, value in {"word": hostile, "words": ["a", hostile], "shares": {hostile: 0.5}}.items():
        with pytest.raises(ConfigError, match=rf"^{key}: .* without control characters") as caught:
            validate(Texts, {key: value})
        assert str(caught.value).isprintable()


def test_line_ends_and_tabs_in_names_of_columns_stay() -> None:
    names = ["Load\n(MW)", "a\tb", "c\r\nd", "مى\u200cخواهم", "a\u00a0b"]
    assert validate(Texts, {"words": names}).words == names
