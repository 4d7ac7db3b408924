import importlib
import pkgutil
import subprocess
import sys

import click
import pytest
import typer

import crosshead
import crosshead.cli
from crosshead.cli.app import app
from tests.cli.tools import BUNDLE, Refused, environment, output_of


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["train", "--help"], ["data", "get", "--help"]],
)
def test_help_imports_nothing_slow(arguments: list[str]) -> None:
    program = (
        "import sys; from crosshead.cli import run; code = run(sys.argv[1:]); "
        "slow = {'torch', 'sentencepiece', 'sacrebleu', 'numpy'} & set(sys.modules); "
        "sys.exit(f'{code} {slow}' if code or slow else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize(
    "verb",
    [
        "train",
        "translate",
        "evaluate",
        "compare",
        "score",
        "info",
        "average",
        "presets",
        "recipe",
        "data get",
        "generate",
        "fill",
        "attention",
        "study",
        "serve",
    ],
)
def test_help_has_an_example(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        f"crosshead {verb}" in output_of([*verb.split(), "--help"], capfd).partition("Example")[2]
    )


def test_every_help_shows_its_defaults_in_one_form() -> None:
    for module in pkgutil.iter_modules(crosshead.cli.__path__):
        importlib.import_module(f"crosshead.cli.{module.name}")
    commands, seen = [typer.main.get_command(app)], 0
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        for parameter in command.params:
            record = parameter.get_help_record(click.Context(command))
            said = record[1] if record else ""
            assert "[default:" not in said
            if parameter.default not in (None, False, "", ()):
                assert f"(default: {parameter.default}" in said, (command.name, parameter.name)
                seen += 1
    assert seen > 10


def test_help_speaks_of_what_a_verb_takes(capfd: pytest.CaptureFixture[str]) -> None:
    assert "perplexity" in output_of(["evaluate", "--help"], capfd)
    assert "perplexity" not in output_of(["compare", "--help"], capfd)
    for verb, usage in (
        ("train", "[RECIPE]"), ("average", "{BUNDLE}..."),
        ("translate", "{BUNDLE} [BUNDLE|FILE]..."),
    ):  # fmt: skip
        first = output_of([verb, "--help"], capfd).splitlines()[0]
        assert first == f"Usage: crosshead {verb} [OPTIONS] {usage}"
    assert "numbers of columns" in " ".join(output_of(["train", "--help"], capfd).split())


def test_the_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of(["--version"], capfd) == f"crosshead {crosshead.__version__}\n"


def test_no_arguments_are_a_call_for_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert output_of([], capfd) == output_of(["--help"], capfd)


def test_exit_codes_are_in_the_help(capfd: pytest.CaptureFixture[str]) -> None:
    text = output_of(["--help"], capfd)
    assert all(code in text for code in ("0 ", "2 ", "129 ", "130 ", "141 ", "143 "))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "No such command 'trian'. Did you mean 'train'? See `crosshead --help`"),
        (["data"], "Missing command"),
        (["train"], "Missing option '--out'"),
        (["translate"], "Missing argument 'BUNDLE'"),
        (["translate", BUNDLE, "--beem", "5"], "No such option"),
        (
            ["translate", BUNDLE, "--beam", "five"],
            "Invalid value for '--beam': expected a whole number;",
        ),
        (
            ["translate", BUNDLE, "--n-best", "0"],
            "Invalid value for '--n-best': expected a number greater than",
        ),
        (["data", "get", "multi30"], "did you mean 'multi30k'"),
    ],
)
def test_wrong_usage(arguments: list[object], words: str, refused: Refused) -> None:
    assert words in refused(*arguments)
