"""Verbs of several kinds: the options choose the kind, and those of others are refused."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from crosshead.cli import kinds
from crosshead.cli.kinds import KindsVerb
from crosshead.errors import UserError


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None)
    app.command("other")(lambda: None)
    monkeypatch.setattr(kinds, "app", app)
    verb = KindsVerb("weigh", "text", "Weigh things.")

    @verb.kind(examples=("weigh a --many 3",))
    def text(
        name: Annotated[str, typer.Argument()],
        many: Annotated[int | None, typer.Option()] = None,
        loud: Annotated[bool, typer.Option("--loud")] = False,
    ) -> None:
        """Weigh text."""
        print("text", name, many, loud)

    @verb.kind("stones")
    def stones(
        name: Annotated[str, typer.Argument()],
        stones: Annotated[str | None, typer.Option()] = None,
    ) -> None:
        """Give --stones for stones."""
        print("stones", name, stones)

    @verb.kind("stones", "feathers", without=("loud",))
    def both(
        feathers: Annotated[str | None, typer.Option()] = None,
        stones: Annotated[str | None, typer.Option()] = None,
        **options: object,
    ) -> None:
        """Give both."""
        print("both", stones, feathers, options)

    verb.register()
    return app


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("weigh a", "text a None False\n"),
        ("weigh a --many 3 --loud", "text a 3 True\n"),
        ("weigh a --stones x", "stones a x\n"),
        ("weigh a --stones x --feathers y --many 2", "both x y {'name': 'a', 'many': 2}\n"),
    ],
)
def test_the_options_choose_the_kind(program: typer.Typer, typed: str, said: str) -> None:
    assert CliRunner().invoke(program, typed.split()).stdout == said


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("weigh a --stones x --many 3", "--many is not for --stones"),
        ("weigh a --stones x --feathers y --loud", "--loud is not for --stones with --feathers"),
        ("weigh a --feathers y", "--feathers is not for text"),
    ],
)
def test_an_option_of_another_kind_is_refused(program: typer.Typer, typed: str, said: str) -> None:
    with pytest.raises(UserError, match=f"^{said}$"):
        CliRunner().invoke(program, typed.split(), catch_exceptions=False)


def test_the_help_has_all_kinds(program: typer.Typer) -> None:
    said = CliRunner().invoke(program, ["weigh", "--help"]).stdout
    assert all(each in said for each in ("Weigh things.", "Give both.", "--stones", "--loud"))
    assert "weigh a --many 3" in said
