"""Shared parts of all models of transformers: search settings, out and in, and the loaded export.

An import names each setting in a note that changes the output and that crosshead does not have.
"""

import contextlib
import importlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import ForeignSearch, json_bytes
from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.addons.interop.imports.values import ForeignSettings, checked, lost
from crosshead.addons.interop.tokenizer_json import foreign_ids
from crosshead.addons.interop.verify import scored
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import shown
from crosshead.decoding.settings import MOST_EXTRA, DecodeConfig, Stop
from crosshead.system.files import atomic_write
from crosshead.text.batching import Batch, Example
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, PAD

GENERATION = "generation_config.json"
"""The file of search settings. If it is missing, transformers takes them from `config.json`."""


def search_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return search settings as arguments of `generate` for an encoder-decoder."""
    # The start token counts.
    return {"max_length": search.max_length + 1, **beam_arguments(search)}


def beam_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return the settings of greedy or beam search as arguments of `generate`.

    Greedy search has no others: transformers warns of settings that it does not use.
    """
    shortest = {"min_new_tokens": search.min_length} if search.min_length else {}
    if search.beam == 1:
        return {"num_beams": 1, **shortest}
    return {
        **shortest,
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": "never" if search.exact else False,
    }


def control(ids: Sequence[int | None], start: int) -> dict[str, int | None]:
    """Return the exported ids of padding, end and start, by their keys in `config.json`."""
    return {
        "pad_token_id": ids[PAD],
        "eos_token_id": ids[EOS],
        "decoder_start_token_id": ids[start],
    }


def forbidden_ids(bundle: TextBundle) -> list[list[int]]:
    """Return the exported ids that search never produces, each as a list, as `generate` has it."""
    ids = foreign_ids(bundle.target_tokenizer)
    return [[row] for index in bundle.forbidden if (row := ids[index]) is not None]


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their names."""
    for name, data in files.items():
        atomic_write(directory / name, data)


def write_generation(values: Mapping[str, Any], directory: Path) -> None:
    """Write the defaults of `generate`."""
    write_files(directory, {GENERATION: json_bytes(values)})


@contextlib.contextmanager
def _quiet_loading() -> Iterator[None]:
    """Let transformers load an export in the block without progress bars.

    Its advice to install sacremoses, which splits texts of other models into words, is left out.
    """
    logging: Any = importlib.import_module("transformers.utils.logging")
    shows = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses", UserWarning)
            yield
    finally:
        if shows:
            logging.enable_progress_bar()


class LoadedTransformers:
    """An export that transformers has loaded: see `Foreign`."""

    computes = ""
    auto: str
    """The class of transformers that loads the model."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        library: Any = importlib.import_module("transformers")
        self._bundle = bundle
        self._rows = foreign_ids(bundle.target_tokenizer)
        with _quiet_loading():
            self._tokenizer: Any = library.AutoTokenizer.from_pretrained(str(directory))
            self._model: Any = getattr(library, self.auto).from_pretrained(str(directory)).eval()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by the export's tokenizer."""
        rows = foreign_ids(self._bundle.source_tokenizer)
        own = {row: index for index, row in enumerate(rows) if row is not None}
        return [[own[row] for row in each] for each in self._read(lines)]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the export's tokenizer."""
        return [self._text([self._rows[index] for index in each]) for each in outputs]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        target = own_to_foreign(self._bundle.target_tokenizer)
        never = [row[0] for row in forbidden_ids(self._bundle)]

        def logits(batch: Batch) -> Tensor:
            return self._logits(batch, target[batch.target_input])

        return scored(self._bundle, examples, logits, never, target)

    def _read(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the exported ids of lines, without the end."""
        raise NotImplementedError

    def _text(self, output: Sequence[int | None]) -> str:
        """Return the text of exported ids."""
        raise NotImplementedError

    def _logits(self, batch: Batch, target: Tensor) -> Tensor:
        """Return the logits after exported target tokens."""
        raise NotImplementedError


def own_to_foreign(tokenizer: Tokenizer) -> Tensor:
    """Return the exported id of each id; 0 for one that is not exported."""
    return torch.tensor([row or 0 for row in foreign_ids(tokenizer)])


class _Search(ForeignSettings):
    """The search settings that come along, with the defaults of transformers."""

    num_beams: int = 1
    length_penalty: float = 1.0
    min_new_tokens: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0


_STOPS: dict[object, Stop] = {False: "last", "never": "exact"}
"""The rule that ends the search, by `early_stopping`."""

_LOST: dict[str, int] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), 1),
    **dict.fromkeys(("guidance_scale", "num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), 0),
    **dict.fromkeys(("min_length", "max_length", "max_new_tokens"), 0),
    **dict.fromkeys(("diversity_penalty", "exponential_decay_length_penalty"), 0),
    **dict.fromkeys(("constraints", "force_words_ids", "forced_bos_token_id", "stop_strings"), 0),
    **dict.fromkeys(("sequence_bias", "renormalize_logits", "watermarking_config"), 0),
}
"""Settings that change the output and do not come along, with the value that turns each off; 0
stands for everything that is false."""

_LOST_SAMPLING = {
    **dict.fromkeys(("typical_p", "num_beams"), 1),
    **dict.fromkeys(("min_p", "epsilon_cutoff", "eta_cutoff", "top_h"), 0),
}
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
    given = {key: value for key, value in stored.items() if value is not None}
    search = checked(_Search, given, where)
    samples = may_sample and search.do_sample
    extra = None if longest_source is None else _extra(stored, longest_source)
    notes = lost(
        (key, value)
        for key, value in _left_out(given, settings, forbidden, samples=samples)
        if extra is None or key not in _LENGTHS
    )
    values: dict[str, Any]
    if samples:
        values = {
            "beam": 1,
            "sample": True,
            "temperature": search.temperature,
            "top_k": search.top_k,
            "top_p": search.top_p,
        }
    else:
        values = {
            "beam": search.num_beams,
            "length_penalty": search.length_penalty,
            "stop": _stop(stored) or "full",
            **({} if extra is None else {"max_extra": extra}),
        }
    values |= {"length_offset": 0.0, "min_length": search.min_new_tokens}
    return checked(DecodeConfig, values, where), notes


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
        if key in neutral:
            is_lost = value != neutral[key] if neutral[key] else bool(value)
        elif key in _FORBIDDING:
            is_lost = not _are_forbidden(value, forbidden)
        elif key == "early_stopping":
            is_lost = not samples and _stop(stored) is None
        else:  # the end at the largest length
            is_lost = key == "forced_eos_token_id" and value != settings.get("eos_token_id")
        if is_lost:
            yield key, value


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
