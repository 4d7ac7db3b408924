"""Search settings of the command line: those of the bundle, overridden by flags."""

from collections.abc import Mapping
from typing import Any

from crosshead.config import validate
from crosshead.decoding.minimum_risk import MinimumRisk
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError


def search_settings(
    bundle_says: DecodeConfig, sample: bool, flags: Mapping[str, Any], n_best: int | None
) -> DecodeConfig:
    """Return the bundle's search settings, overridden by the given (not None) flags.

    `sample` without a beam sets the beam to 1, because sampling keeps no beam.
    """
    values = bundle_says.model_dump()
    if sample:
        values |= {"sample": True, "beam": 1}
    for key in ("temperature", "top_k", "top_p", "seed"):
        if flags.get(key) is not None and not values["sample"]:
            raise ConfigError(f"{_flag(key)} applies to sampling only: add --sample")
    values |= {key: value for key, value in flags.items() if value is not None}
    typed = {key: _flag(key) for key, value in flags.items() if value is not None}
    decode = validate(DecodeConfig, values, typed=typed)
    if n_best is not None and n_best > decode.beam and not decode.sample:
        raise ConfigError(
            f"--n-best {n_best} needs a beam of at least {n_best}; the beam is {decode.beam}: give "
            f"--beam {n_best}"
        )
    return decode


def minimum_risk(
    samples: int | None, beam: int | None, length_penalty: float | None, n_best: int | None
) -> MinimumRisk | None:
    """Return the settings of minimum Bayes risk with chrF, or None without `--mbr`."""
    if samples is None:
        return None
    for flag, value in (("--beam", beam), ("--length-penalty", length_penalty)):
        if value is not None:
            raise ConfigError(
                f"{flag} {value:g} is for beam search, and --mbr {samples} draws samples: leave "
                "out one of them"
            )
    if n_best is not None and n_best > samples:
        raise ConfigError(
            f"--n-best {n_best} needs at least {n_best} samples, found --mbr {samples}: give "
            f"--mbr {n_best}"
        )
    from crosshead.evaluation.sacrebleu_metrics import chrf_utility

    return MinimumRisk(samples, chrf_utility)


def writing_settings(
    bundle_says: DecodeConfig, greedy: bool, beam: int | None, flags: Mapping[str, Any]
) -> DecodeConfig:
    """Return the bundle's settings for writing text, overridden by the given (not None) options.

    `flags` are the options of sampling: any of them turns sampling on. `greedy` and `beam` turn it
    off.
    """
    given = [_flag(key) for key, value in flags.items() if value is not None]
    searched = "--greedy" if greedy else "--beam" if beam is not None else None
    if greedy and beam is not None:
        raise ConfigError(f"--beam {beam} and --greedy exclude each other; leave out one of them")
    if searched and given:
        raise ConfigError(f"{given[0]} applies to sampling only; leave out it or {searched}")
    if searched:
        drawn = {"sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
        bundle_says = bundle_says.model_copy(update=drawn)
        flags = {"beam": 1 if greedy else beam}
    return search_settings(bundle_says, bool(given), flags, None)


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"
