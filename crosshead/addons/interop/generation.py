"""What exports share that transformers reads: the search settings, and the loaded model."""

import contextlib
import importlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import ForeignSearch, json_bytes
from crosshead.addons.interop.verify import scored
from crosshead.addons.interop.vocabularies import foreign_ids
from crosshead.bundle.text_bundle import TextBundle
from crosshead.system.files import atomic_write
from crosshead.text.batching import Batch, Example
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, PAD

GENERATION = "generation_config.json"
"""The file of the search settings."""


def search_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return search settings as arguments of `generate` for an encoder-decoder."""
    # The start token counts.
    return {"max_length": search.max_length + 1, **beam_arguments(search)}


def beam_arguments(search: ForeignSearch) -> dict[str, Any]:
    """Return the settings of beam search as arguments of `generate`.

    Greedy search has no others: transformers warns of settings that it does not use.
    """
    if search.beam == 1:
        return {"num_beams": 1}
    return {
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

    def __init__(self, bundle: TextBundle, directory: Path, auto: str) -> None:
        library: Any = importlib.import_module("transformers")
        self._bundle = bundle
        self._rows = foreign_ids(bundle.target_tokenizer)
        with _quiet_loading():
            self._tokenizer: Any = library.AutoTokenizer.from_pretrained(str(directory))
            self._model: Any = getattr(library, auto).from_pretrained(str(directory)).eval()

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
