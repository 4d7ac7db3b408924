"""The search settings of Hugging Face: `generation_config.json`, or those in `config.json`.

A setting that crosshead does not have is named in a note, unless its value turns it off or it
changes no output.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.addons.interop.imports.settings import checked, number, shown, truth, whole_number
from crosshead.decoding.beam import Stop
from crosshead.decoding.search import MOST_EXTRA, DecodeConfig

GENERATION = "generation_config.json"
"""The file of search settings. If it is missing, transformers takes them from `config.json`."""

_STOPS: dict[object, Stop] = {False: "last", "never": "exact"}
"""The rule that ends the search, by `early_stopping`."""

_SAMPLED = ("temperature", "top_k", "top_p")
"""The settings of sampling that come along."""

_READ = {"early_stopping", "length_penalty", "num_beams"}

_OF_SAMPLES = {*_SAMPLED, "epsilon_cutoff", "eta_cutoff", "min_p", "top_h", "typical_p"}
"""Settings that change no output of a search."""

_HARMLESS = {
    *("_commit_hash", "_from_model_config", "_original_object_hash", "transformers_version"),
    *("bos_token_id", "trust_remote_code"),
    *("cache_config", "cache_implementation", "max_cache_len", "prefill_chunk_size", "use_cache"),
    *("compile_config", "continuous_batching_config", "disable_compile", "low_memory"),
    *("output_attentions", "output_hidden_states", "output_logits", "output_scores"),
    "return_dict_in_generate",
    *("assistant_confidence_threshold", "assistant_early_exit", "assistant_lookbehind"),
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "target_lookbehind"),
}
"""Settings that change no output: names, speed, what is returned beside the output, and settings of
a second model that proposes tokens."""

_NEUTRAL = {
    "encoder_repetition_penalty": 1,
    "guidance_scale": 1,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "repetition_penalty": 1,
    "typical_p": 1,
}
"""The values that turn settings off. Other settings are off if they are 0, false or empty. Null
turns every setting off."""

_OTHERS = {
    *("assistant_ensemble_weight", "bad_words_ids", "begin_suppress_tokens", "constraints"),
    *("decoder_start_token_id", "diversity_penalty", "do_sample", "dola_layers", "eos_token_id"),
    *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "force_words_ids"),
    *("forced_bos_token_id", "forced_eos_token_id", "max_length", "max_matching_ngram_size"),
    *("max_new_tokens", "max_time", "min_length", "min_new_tokens", "no_repeat_ngram_size"),
    *("pad_token_id", "penalty_alpha", "prompt_lookup_num_tokens", "remove_invalid_values"),
    *("renormalize_logits", "sequence_bias", "speculation_type", "stop_strings"),
    *("suppress_tokens", "token_healing", "use_mtp", "watermarking_config"),
}
"""The other search settings that `config.json` may hold."""


_LENGTHS = ("max_length", "max_new_tokens")
"""The limits of an output. crosshead has a limit of the tokens beyond the source instead."""

_OF_TRANSLATIONS = ": an output has at most decode.max_extra tokens more than its source"
_OF_CONTINUATIONS = ": `crosshead generate --length` limits a continuation"
"""The ends of notes on these limits: they name the limit that crosshead has."""


def stored_search(
    directory: ForeignDirectory, settings: Mapping[str, Any], where: Path
) -> tuple[dict[str, Any], Path]:
    """Return the search settings that transformers takes, and their file."""
    if directory.has(GENERATION):
        return directory.json(GENERATION), directory.path / GENERATION
    known = _READ | _OF_SAMPLES | _HARMLESS | _NEUTRAL.keys() | _OTHERS
    found = {key: value for key, value in settings.items() if key in known}
    return found, where


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
    instead = _OF_CONTINUATIONS if longest_source is None else _OF_TRANSLATIONS
    notes = [
        f"the search setting {key} = {shown(value)} does not come along"
        + (instead if key in _LENGTHS else "")
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
    for key in ("decoder_start_token_id", "eos_token_id"):
        value = stored.get(key)
        known = ids.get(key) if settings.get(key) is None else settings[key]
        if value is not None and value not in (known, [known]):
            raise ForeignModelError(
                f"{where}: {key} is {shown(value)}, but the model has {shown(known)}; crosshead "
                "has one such token, so this model cannot be imported"
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
    for key, value in stored.items():
        if key in _HARMLESS or key in (_SAMPLED if samples else _OF_SAMPLES):
            continue
        if key == "early_stopping":
            is_lost = not samples and _stop(stored) is None
        elif key == "num_beams":
            is_lost = samples and value not in (None, 1)
        elif key == "length_penalty" or (key == "do_sample" and samples):
            is_lost = False
        elif key in ("decoder_start_token_id", "eos_token_id"):
            is_lost = False  # by `_check_tokens`
        elif key == "pad_token_id":
            is_lost = value is not None and value != settings.get(key)
        elif key == "forced_eos_token_id":  # the end at the largest length
            is_lost = value is not None and value != settings.get("eos_token_id")
        elif key in ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens"):
            is_lost = not _are_forbidden(value, forbidden)
        else:
            is_lost = value is not None and not _is_off(key, value)
        if is_lost:
            yield key, value


def _whole(stored: Mapping[str, Any], key: str, where: Path, usual: int) -> int:
    return usual if stored.get(key) is None else whole_number(stored, key, where)


def _is_off(key: str, value: Any) -> bool:
    return bool(value == _NEUTRAL[key]) if key in _NEUTRAL else not value


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
