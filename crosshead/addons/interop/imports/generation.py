"""The search settings of Hugging Face: `generation_config.json`, or those in `config.json`.

A setting that changes the output and that crosshead does not have is named in a note.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.addons.interop.imports.values import checked, number, shown, truth, whole_number
from crosshead.decoding.beam import Stop
from crosshead.decoding.search import MOST_EXTRA, DecodeConfig

GENERATION = "generation_config.json"
"""The file of search settings. If it is missing, transformers takes them from `config.json`."""

_STOPS: dict[object, Stop] = {False: "last", "never": "exact"}
"""The rule that ends the search, by `early_stopping`."""

_SAMPLED = ("temperature", "top_k", "top_p")
"""The settings of sampling that come along."""

_LOST: dict[str, int] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("guidance_scale", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), 0),
    **dict.fromkeys(("min_length", "min_new_tokens", "max_length", "max_new_tokens"), 0),
    **dict.fromkeys(("diversity_penalty", "exponential_decay_length_penalty"), 0),
    **dict.fromkeys(("constraints", "force_words_ids", "forced_bos_token_id", "stop_strings"), 0),
    **dict.fromkeys(("sequence_bias", "renormalize_logits", "watermarking_config"), 0),
}
"""Settings that change the output and do not come along, with the value that turns each off; 0
stands for everything that is false."""

_LOST_SAMPLING = {"typical_p": 1, "min_p": 0, "epsilon_cutoff": 0, "eta_cutoff": 0, "top_h": 0}
"""Settings that change samples only and do not come along, with the value that turns each off."""

_FORBIDDING = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")
"""Settings that exclude tokens."""

_TOKENS = ("decoder_start_token_id", "eos_token_id")
"""The tokens that begin and end an output."""

_LENGTHS = ("max_length", "max_new_tokens")
"""The limits of an output. crosshead has a limit of the tokens beyond the source instead."""


def stored_search(
    directory: ForeignDirectory, settings: Mapping[str, Any], where: Path
) -> tuple[dict[str, Any], Path]:
    """Return the search settings that transformers takes, and their file."""
    if directory.has(GENERATION):
        return directory.json(GENERATION), directory.path / GENERATION
    return dict(settings), where


def search_settings(
    stored: Mapping[str, Any],
    settings: Mapping[str, Any],
    forbidden: Collection[int | None],
    where: Path,
    *,
    may_sample: bool = False,
    longest_source: int | None = None,
) -> tuple[DecodeConfig, list[str]]:
    """Return the search settings, and notes about the settings that do not come along."""
    _check_tokens(stored, settings, where)
    samples = may_sample and truth(stored, "do_sample", where)
    extra = None if longest_source is None else _extra(stored, longest_source)
    notes = [
        f"the search setting {key} = {shown(value)} does not come along"
        for key, value in _left_out(stored, settings, forbidden, samples=samples)
        if extra is None or key not in _LENGTHS
    ]
    values: dict[str, Any]
    if samples:
        values = {
            "beam": 1,
            "sample": True,
            "temperature": number(stored, "temperature", where, 1.0),
            "top_k": _whole(stored, "top_k", where, 50),
            "top_p": number(stored, "top_p", where, 1.0),
        }
    else:
        values = {
            "beam": _whole(stored, "num_beams", where, 1),
            "length_penalty": number(stored, "length_penalty", where, 1.0),
            "stop": _stop(stored) or "full",
            **({} if extra is None else {"max_extra": extra}),
        }
    return checked(DecodeConfig, {**values, "length_offset": 0.0}, where), notes


def _check_tokens(stored: Mapping[str, Any], settings: Mapping[str, Any], where: Path) -> None:
    """Raise `ForeignModelError` if outputs begin or end with other tokens than in `config.json`."""
    ids = {"eos_token_id": settings.get("bos_token_id")}  # that of a GPT-2 without an end token
    for key in _TOKENS:
        value = stored.get(key)
        known = ids.get(key) if settings.get(key) is None else settings[key]
        if value is not None and value not in (known, [known]):
            raise ForeignModelError(
                f"{where}: {key} is {shown(value)}, but the model has {shown(known)}"
            )


def _extra(stored: Mapping[str, Any], longest_source: int) -> int | None:
    """Return how many tokens an output may have beyond its source, or None if that is negative.

    Then the longest source has the largest output that transformers has for every source.
    """
    lengths = {key: stored[key] for key in _LENGTHS if stored.get(key) is not None}
    if len(lengths) != 1:
        return None
    [(key, most)] = lengths.items()
    if type(most) is not int:
        return None
    extra = most - (key == "max_length") - (longest_source + 1)  # the first counts the start token
    return extra if 0 <= extra <= MOST_EXTRA else None


def _left_out(
    stored: Mapping[str, Any],
    settings: Mapping[str, Any],
    forbidden: Collection[int | None],
    *,
    samples: bool,
) -> Iterator[tuple[str, Any]]:
    """Yield the settings that crosshead does not have."""
    neutral = {**_LOST, **(_LOST_SAMPLING if samples else {"do_sample": 0})}
    for key, value in stored.items():
        if value is None:
            continue
        if key in neutral:
            is_lost = value != neutral[key] if neutral[key] else bool(value)
        elif key in _FORBIDDING:
            is_lost = not _are_forbidden(value, forbidden)
        elif key == "early_stopping":
            is_lost = not samples and _stop(stored) is None
        elif key == "num_beams":
            is_lost = samples and value != 1
        else:  # the end at the largest length
            is_lost = key == "forced_eos_token_id" and value != settings.get("eos_token_id")
        if is_lost:
            yield key, value


def _whole(stored: Mapping[str, Any], key: str, where: Path, usual: int) -> int:
    return usual if stored.get(key) is None else whole_number(stored, key, where)


def _stop(stored: Mapping[str, Any]) -> Stop | None:
    """Return the rule that ends the search; None for one that crosshead does not have."""
    early = stored.get("early_stopping") or False
    return _STOPS.get(early) if isinstance(early, bool | str) else None


def _are_forbidden(value: Any, forbidden: Collection[int | None]) -> bool:
    """Return whether all tokens of a setting are tokens that search never produces."""
    ids = value or []
    if not isinstance(ids, list):
        return False
    return all((each[0] if isinstance(each, list) and len(each) == 1 else each) in forbidden
               for each in ids)  # fmt: skip
