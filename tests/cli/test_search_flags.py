"""Search settings: the bundle's, overridden by flags."""

import pytest

from crosshead.cli.search_flags import search_settings, writing_settings
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError


def test_the_search_is_the_bundles_but_for_what_is_given() -> None:
    says = DecodeConfig(beam=3, length_penalty=0.2)
    found = search_settings(says, False, {"beam": None, "length_penalty": 1.0}, None)
    assert found == DecodeConfig(beam=3, length_penalty=1.0)
    assert search_settings(says, False, {}, 3) == says
    with pytest.raises(ConfigError, match="give --beam 4"):
        search_settings(says, False, {}, 4)
    for flag in ("temperature", "top_k", "top_p", "seed"):
        with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')} applies to sampling"):
            search_settings(says, False, {flag: 1}, None)
    bundled = search_settings(DecodeConfig(beam=1, sample=True), False, {"seed": 7}, None)
    assert bundled.seed == 7
    sampled = search_settings(says, True, {"top_k": 5}, 4)
    assert (sampled.sample, sampled.beam, sampled.top_k) == (True, 1, 5)


SAMPLES = {"temperature": None, "top_k": None, "top_p": None, "seed": None}


@pytest.mark.parametrize(
    "says",
    [
        DecodeConfig(beam=1, sample=True, temperature=0.7, top_k=9),
        DecodeConfig(beam=4),
        DecodeConfig(beam=1),
    ],
)
def test_text_is_written_as_the_bundle_says_but_for_what_is_given(says: DecodeConfig) -> None:
    assert writing_settings(says, False, None, SAMPLES) == says
    for flag, value in (("temperature", 0.5), ("top_k", 3), ("top_p", 0.9), ("seed", 7)):
        drawn = {"beam": 1, "sample": True, flag: value}
        expected = says.model_copy(update=drawn)
        assert writing_settings(says, False, None, {**SAMPLES, flag: value}) == expected
        for greedy, beam, other in ((True, None, "--greedy"), (False, 4, "--beam")):
            name = f"--{flag.replace('_', '-')}"
            with pytest.raises(ConfigError, match=f"{name} applies to .* leave out it or {other}$"):
                writing_settings(says, greedy, beam, {**SAMPLES, flag: value})
    for size in (1, 5):
        assert writing_settings(says, False, size, SAMPLES) == DecodeConfig(beam=size)
    assert writing_settings(says, True, None, SAMPLES) == DecodeConfig(beam=1)
    with pytest.raises(ConfigError, match="--beam 5 and --greedy"):
        writing_settings(says, True, 5, SAMPLES)
