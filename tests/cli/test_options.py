"""Options that several verbs share mean the same and read the same in each of them."""

import re
from typing import Any, get_args

import pytest

from crosshead.cli import options
from tests.cli.tools import output_of

SHARED = {
    "BUNDLE": ("BundleArgument", "translate align generate fill attention info"),
    "{BUNDLE}": ("BundlesArgument", "evaluate score"),
    "--source": ("SourceOption", "evaluate compare score align"),
    "--reference": ("ReferenceOption", "evaluate compare"),
    "--pairs": ("PairsOption", "evaluate compare"),
    "--metrics": ("MetricsOption", "compare"),
    "--tokenize": ("TokenizeOption", "evaluate compare"),
    "--beam": ("BeamOption", "translate evaluate compare generate"),
    "--length-penalty": ("PenaltyOption", "translate evaluate compare"),
    "--temperature": ("TemperatureOption", "translate generate backtranslate"),
    "--top-k": ("TopKOption", "translate generate backtranslate"),
    "--top-p": ("TopPOption", "translate generate backtranslate"),
    "--seed": ("SeedOption", "translate generate backtranslate"),
    "--to": ("ToOption", "translate evaluate compare score align distill backtranslate attention"),
    "--engine": ("EngineOption", "translate serve"),
    "--device": ("DeviceOption", "translate evaluate compare score align generate fill attention"),
    "--threads": ("ThreadsOption", "translate evaluate compare score align generate fill study"),
    "--precision": ("PrecisionOption", "translate generate fill"),
    "--jsonl": ("JsonlOption", "translate evaluate compare fill"),
}


def the_help_of(name: str) -> str:
    [declared] = get_args(getattr(options, name))[1:]
    return " ".join(declared.help.replace("`", "").split())


@pytest.mark.parametrize("shown", SHARED)
def test_a_shared_option_is_shown_with_its_help_in_every_verb(
    shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    name, verbs = SHARED[shown]
    pattern = rf"{re.escape(shown)}(?!\w)"
    for verb in verbs.split():
        text = " ".join(output_of([verb, "--help"], capfd).replace("`", "").split())
        assert re.search(pattern, text) and the_help_of(name) in text, verb


def test_every_option_is_described_in_a_sentence_and_shared() -> None:
    declared: dict[str, Any] = {
        name: value
        for name, value in vars(options).items()
        if name.endswith(("Option", "Argument"))
    }
    assert declared.keys() == {name for name, _ in SHARED.values()}
    for name in declared:
        assert the_help_of(name)[0].isupper() and the_help_of(name).endswith(".")
