"""The search settings of Hugging Face: `generation_config.json`, or those in `config.json`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crosshead.decoding.beam import Stop
from crosshead.decoding.search import DecodeConfig
from crosshead.interop.imports.settings import checked, number, shown, whole_number

_STOPS: dict[object, Stop] = {False: "last", "never": "exact"}
"""The rule that ends the search, by `early_stopping`."""

_UNUSUAL_SEARCH = {
    "do_sample": False,
    "forced_bos_token_id": None,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "penalty_alpha": None,
    "repetition_penalty": 1.0,
    "suppress_tokens": None,
}
"""Search settings that crosshead does not have, and the values that turn them off."""


def search_settings(settings: Mapping[str, Any], where: Path) -> tuple[DecodeConfig, list[str]]:
    """Return the search settings, and notes about the settings that do not come along.

    Args:
        settings: The settings of `config.json` and `generation_config.json`.
        where: The file of the first, for messages.

    Raises:
        ForeignModelError: If a value does not fit.
    """
    notes = [
        f"the search setting {key} = {shown(settings[key])} does not come along"
        for key, off in _UNUSUAL_SEARCH.items()
        if settings.get(key, off) not in (off, None)
    ]
    beam = 1
    if settings.get("num_beams") is not None:
        beam = whole_number(settings, "num_beams", where)
    early = settings.get("early_stopping") or False
    stop = _STOPS.get(early) if isinstance(early, bool | str) else None
    if stop is None:
        notes.append(f"the search setting early_stopping = {shown(early)} does not come along")
    values = {
        "beam": beam,
        "length_penalty": number(settings, "length_penalty", where, 1.0),
        "length_offset": 0.0,
        "stop": stop or "full",
    }
    return checked(DecodeConfig, values, where), notes
