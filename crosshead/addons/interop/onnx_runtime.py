"""An export to ONNX as ONNX Runtime loads it: its files, its graphs and its search.

Crosshead's own search steps the graphs, so an export can be compared with its model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.addons.interop.base import ForeignSearch
from crosshead.addons.interop.verify import free_specials, scored, tagged_sources
from crosshead.bundle.text_bundle import TextBundle
from crosshead.decoding.search import search as search_batch
from crosshead.text.batching import Batch, Example, collate
from crosshead.vocabulary import PAD

FOLDER = "onnx"
"""The folder of the graphs."""

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
"""The files of the settings and of the tokenizer."""

_BATCH = 32
"""The number of lines that are translated at once."""

JS_CONFIG = "transformers.js_config"
"""The key of `config.json` that transformers.js reads its own settings from."""


DTYPES = {"float32": "fp32", "int8": "q8"}
"""The values of `dtype` of transformers.js by those of `--type`."""

ENCODER, DECODER = "encoder_model", "decoder_model_merged"
"""The beginnings of the names of the graphs' files. The decoder is merged: it takes a past of any
length, none included."""


@dataclass(frozen=True)
class OnnxState:
    """The state of decoding: encoded sources, and the keys and values so far, by input name."""

    arrays: dict[str, np.ndarray]
    """Arrays whose first axis is the rows."""

    is_new: bool
    """True before the first token."""

    def select(self, rows: Tensor) -> "OnnxState":
        """Return a state whose row i continues row `rows[i]`: see `DecodingState`."""
        chosen = {name: each[rows.numpy()] for name, each in self.arrays.items()}
        return OnnxState(chosen, self.is_new)


class OnnxModel:
    """The graphs of an export in ONNX Runtime, as a model that crosshead's search can decode.

    Hidden states are logits already.
    """

    def __init__(self, directory: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(
                next((directory / FOLDER).glob(f"{name}*.onnx")),
                options,
                providers=["CPUExecutionProvider"],
            )
            for name in (ENCODER, DECODER)
        )
        self._outputs = [each.name for each in self._decoder.get_outputs()]
        self._empty = {
            each.name: (each.shape[1], 0, each.shape[3])
            for each in self._decoder.get_inputs()
            if each.name.startswith("past_key_values.")
        }

    def start(self, source: Tensor) -> OnnxState:
        """Return the state before the first token, one row per source of padded ids, "B S"."""
        mask = (source != PAD).numpy().astype(np.int64)
        [hidden] = self._encoder.run(None, {"input_ids": source.numpy(), "attention_mask": mask})
        past = {
            name: np.zeros((len(mask), *shape), np.float32) for name, shape in self._empty.items()
        }
        memory = {"encoder_attention_mask": mask, "encoder_hidden_states": hidden}
        return OnnxState({**memory, **past}, is_new=True)

    def step(self, state: OnnxState, tokens: Tensor) -> tuple[Tensor, OnnxState]:
        """Feed each row its next tokens and return the logits after the last one, "N V"."""
        logits, after = self.run(state, tokens)
        return logits[:, -1], after

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits, "N V"."""
        return hidden

    def run(self, state: OnnxState, tokens: Tensor) -> tuple[Tensor, OnnxState]:
        """Feed each row its next tokens and return the logits after each, "N T V"."""
        feeds = {
            **state.arrays,
            "input_ids": tokens.numpy(),
            "use_cache_branch": np.array([not state.is_new]),
        }
        found = dict(zip(self._outputs, self._decoder.run(None, feeds), strict=True))
        past = {name: found[name.replace("past_key_values", "present")] for name in self._empty}
        return torch.from_numpy(found["logits"]), OnnxState({**state.arrays, **past}, is_new=False)


class LoadedGraphs:
    """An export that ONNX Runtime and `tokenizers` have loaded."""

    computes = ""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        from tokenizers import Tokenizer

        self._bundle = bundle
        self._model = OnnxModel(directory)
        self._tokenizer: Any = Tokenizer.from_file(str(directory / TOKENIZER))

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says.

        `tokenizer.json` encodes and decodes, and crosshead's search steps the graphs, with the
        length penalty of Hugging Face.
        """
        ids = self.encode(lines)
        decode = search.decode(stop="exact" if search.exact else "last")  # as Hugging Face does
        found: list[str] = []
        for first in range(0, len(ids), _BATCH):
            some = [(row, ()) for row in ids[first : first + _BATCH]]
            source = collate(some, range(len(some))).source
            limits = torch.full((len(some),), search.max_length)
            best = search_batch(self._model, source, limits, free_specials(self._bundle), decode)
            found += self.decode([hypotheses[0].tokens for hypotheses in best])
        return found

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""

        def logits(batch: Batch) -> Tensor:
            return self._model.run(self._model.start(batch.source), batch.target_input)[0]

        return scored(self._bundle, examples, logits)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by `tokenizer.json`."""
        found = self._tokenizer.encode_batch(tagged_sources(self._bundle, lines))
        return [each.ids[:-1] for each in found]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by `tokenizer.json`."""
        return [self._tokenizer.decode(each) for each in outputs]
