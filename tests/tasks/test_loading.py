from pathlib import Path

import pytest
import torch

from crosshead.errors import BundleError, ConfigError
from crosshead.tasks.loading import load

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"


def test_the_precision_is_that_asked_for() -> None:
    narrow = load(STORED, "cpu", precision="bfloat16")
    assert {parameter.dtype for parameter in narrow.model.parameters()} == {torch.bfloat16}
    lines = ["One two three.", "Ten nine."]
    assert narrow(lines) == load(STORED, "cpu")(lines)
    assert narrow.score(["One."], ["Eins."])[0].log_prob == pytest.approx(
        load(STORED, "cpu").score(["One."], ["Eins."])[0].log_prob, abs=0.1
    )
    with pytest.raises(ConfigError, match="no precision 'float16'; did you mean 'bfloat16'"):
        load(STORED, "cpu", precision="float16")


def test_a_bundle_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such directory"):
        load(tmp_path / "nothing")
