"""Exports to ONNX: the layout that ONNX Runtime, optimum and transformers.js load.

The graphs are written node by node with `onnx.helper` (`crosshead.interop.onnx_graph`), not traced
by `torch.onnx.export`. Tracing needs a further library and about half a minute for each graph, and
it fixes sizes silently, such as that of the batch. A written graph has about 300 lines, names every
weight as Hugging Face does, and takes options that `MarianMTModel` lacks, such as another epsilon
in layer norms or learned positions. The weights are those of the export to Hugging Face.

`config.json` says `marian` for every model, because optimum and transformers.js read only sizes and
names of inputs from it. The graphs hold the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.bundle.places import CARD
from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import Example, collate
from crosshead.data.parallel.directions import tag_of, with_tag
from crosshead.data.text.imported import ImportedTokenizer
from crosshead.data.text.subwords import SubwordTokenizer
from crosshead.decoding.search import DecodeConfig
from crosshead.decoding.search import search as search_batch
from crosshead.errors import ConfigError
from crosshead.interop.bart import to_family
from crosshead.interop.base import EXACT, Cell, ForeignSearch, Format, Tolerance
from crosshead.interop.ctranslate2 import output_bias
from crosshead.interop.ctranslate2_layers import position_table
from crosshead.interop.huggingface import (
    GENERATION,
    HUGGINGFACE,
    card,
    control,
    foreign_ids,
    json_bytes,
    rewritten,
    search_arguments,
    settings,
)
from crosshead.interop.onnx_graph import Weights, decoder_graph, encoder_graph
from crosshead.interop.options import OPTIONS
from crosshead.interop.tokenizer_json import tokenizer_json
from crosshead.interop.verify import in_batches
from crosshead.models.transformer import Transformer
from crosshead.system.files import atomic_write
from crosshead.vocabulary import BOS, EOS, PAD, UNK

FOLDER = "onnx"
"""The folder of the graphs."""

ENCODER, DECODER = "encoder_model.onnx", "decoder_model_merged.onnx"
"""The graphs. The decoder is merged: it takes a past of any length, none included."""

TOKENIZER = "tokenizer.json"
"""The file of the tokenizer."""

_LARGEST = 2**31 - 1
"""The most bytes of one graph: the limit of the format that ONNX files have."""

_BATCH = 32
"""The number of lines that are translated at once."""

_INVALID = "\ufffd"
"""The character for bytes that are no text, of which `tokenizers` shows another number."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its tokenizer.

    Args:
        bundle: The bundle, with one tokenizer for both sides.
        kind: The number format of the weights.
        directory: An empty directory.

    Raises:
        ConfigError: If the model is too large for the format, or the tokenizer does not fit it.
    """
    tokenizer = bundle.source_tokenizer
    assert isinstance(tokenizer, ImportedTokenizer | SubwordTokenizer)
    weights = _weights(bundle)
    files = {
        "config.json": json_bytes(_settings(bundle)),
        GENERATION: json_bytes(_generation(bundle)),
        TOKENIZER: json_bytes(tokenizer_json(tokenizer)),
        "tokenizer_config.json": json_bytes(_tokenizer_settings(bundle)),
        CARD: card(bundle, "transformers.js").encode(),
        f"{FOLDER}/{ENCODER}": encoder_graph(weights),
        f"{FOLDER}/{DECODER}": decoder_graph(weights),
    }
    (directory / FOLDER).mkdir()
    for name, data in files.items():
        atomic_write(directory / name, data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`.

    Args:
        bundle: The bundle.
        search: The settings.
        directory: The directory of the export.
    """
    values = {**_generation(bundle), **search_arguments(search)}
    atomic_write(directory / GENERATION, json_bytes(values))


def _weights(bundle: TextBundle) -> Weights:
    """Return the weights of a bundle's model in the form of the graphs."""
    model = bundle.model
    assert isinstance(model, Transformer)
    values = dict(rewritten(model))
    # No library needs to know the tokens that search never produces: the graph excludes them.
    values["projection.bias"] = torch.from_numpy(output_bias(model.projection.bias, bundle))
    size = sum(each.nbytes for each in values.values())
    if size > _LARGEST:
        raise ConfigError(
            f"onnx cannot express a model of {size:,} bytes, expected at most {_LARGEST:,}; "
            "export to ctranslate2"
        )
    rows = [foreign_ids(each) for each in (bundle.source_tokenizer, bundle.target_tokenizer)]
    most = settings(bundle)["max_position_embeddings"]
    source, target = (
        position_table(each, most) for each in (model.source_embeddings, model.target_embeddings)
    )
    return Weights(model.config, to_family(model.config, values, rows), (source, target))


def _settings(bundle: TextBundle) -> dict[str, Any]:
    """Return the content of `config.json`."""
    return {
        **settings(bundle),
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        # Without it, transformers.js looks for graphs with weights in eight bits.
        "transformers.js_config": {"dtype": "fp32"},
    }


def _generation(bundle: TextBundle) -> dict[str, Any]:
    return {**control(bundle), "forced_eos_token_id": None}


def _tokenizer_settings(bundle: TextBundle) -> dict[str, Any]:
    """Return the content of `tokenizer_config.json`.

    The class is a general one: those of Marian look for SentencePiece's own files.
    """
    config, tokenizer = bundle.config, bundle.source_tokenizer
    rows = foreign_ids(tokenizer)
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNK}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.longest_source + 1,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        **{
            name: tokenizer.pieces([index])[0]
            for name, index in names.items()
            if rows[index] is not None
        },
    }


Arrays = Mapping[str, np.ndarray]
"""Arrays by the names of a graph's inputs or outputs."""


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

    Hidden states are logits already. All token ids are the bundle's.

    Args:
        bundle: The bundle, for its vocabularies and its shape.
        directory: The export.
    """

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(
                directory / FOLDER / name, options, providers=["CPUExecutionProvider"]
            )
            for name in (ENCODER, DECODER)
        )
        self._source, target = (
            np.array([row or 0 for row in foreign_ids(each)])
            for each in (bundle.source_tokenizer, bundle.target_tokenizer)
        )
        self._target = target
        rows = foreign_ids(bundle.target_tokenizer)
        self._absent = [index for index, row in enumerate(rows) if row is None]
        self._outputs = [each.name for each in self._decoder.get_outputs()]
        self._empty = {
            each.name: (each.shape[1], 0, each.shape[3])
            for each in self._decoder.get_inputs()
            if each.name.startswith("past_key_values.")
        }

    def start(self, source: Tensor) -> OnnxState:
        """Return the state before the first token, one row per source of padded ids, "B S"."""
        mask = (source != PAD).numpy().astype(np.int64)
        ids = self._source[source.numpy()]
        [hidden] = self._encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        past = {
            name: np.zeros((len(ids), *shape), np.float32) for name, shape in self._empty.items()
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
        """Feed each row its next tokens and return the logits after each, "N T V".

        Args:
            state: The state so far.
            tokens: Token ids, "N T".
        """
        feeds = {
            **state.arrays,
            "input_ids": self._target[tokens.numpy()],
            "use_cache_branch": np.array([not state.is_new]),
        }
        found = dict(zip(self._outputs, self._decoder.run(None, feeds), strict=True))
        past = {name: found[name.replace("past_key_values", "present")] for name in self._empty}
        logits = torch.from_numpy(found["logits"][..., self._target])
        logits[..., self._absent] = float("-inf")
        return logits, OnnxState({**state.arrays, **past}, is_new=False)


class LoadedGraphs:
    """An export that ONNX Runtime and `tokenizers` have loaded.

    Args:
        bundle: The bundle.
        directory: The export.
    """

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        from tokenizers import Tokenizer

        self._bundle = bundle
        self._model = OnnxModel(bundle, directory)
        self._tokenizer: Any = Tokenizer.from_file(str(directory / TOKENIZER))
        rows = foreign_ids(bundle.target_tokenizer)
        self._foreign = rows
        self._own = {row: index for index, row in enumerate(rows) if row is not None}

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says.

        `tokenizer.json` encodes and decodes, and crosshead's search steps the graphs, with the
        length penalty of Hugging Face.
        """
        languages = self._bundle.config.target_languages
        tagged = with_tag(tag_of(languages[0]), lines) if languages else list(lines)
        ids = [[self._own[each] for each in row] for row in self.encode(tagged)]
        decode = DecodeConfig(
            beam=search.beam,
            length_penalty=search.length_penalty,
            length_offset=0.0,
            max_extra=1000,
        )
        found: list[str] = []
        for first in range(0, len(ids), _BATCH):
            some = [(row, ()) for row in ids[first : first + _BATCH]]
            source = collate(some, range(len(some))).source
            limits = torch.full((len(some),), search.max_length)
            best = search_batch(self._model, source, limits, self._bundle.specials, decode)
            found += [self.decode(hypotheses[0].tokens) for hypotheses in best]
        return found

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        return in_batches(examples, lambda rows: self._of_batch(examples, rows))

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the exported ids of lines, without the end."""
        found = self._tokenizer.encode_batch(list(lines))
        return [each.ids[:-1] for each in found]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens of the bundle; bytes that are no text as crosshead has them."""
        text: str = self._tokenizer.decode([self._foreign[each] for each in tokens])
        return self._bundle.target_tokenizer.decode(tokens) if _INVALID in text else text

    def _of_batch(self, examples: Sequence[Example], rows: list[int]) -> list[list[float]]:
        batch = collate(examples, rows, self._bundle.specials.start)
        logits, _ = self._model.run(self._model.start(batch.source), batch.target_input)
        expected = batch.target_output[..., None]
        values: list[list[float]] = logits.log_softmax(-1).gather(-1, expected)[..., 0].tolist()
        return values


USAGE = """// JavaScript, in Node or in a browser
import {{ env, pipeline }} from "@huggingface/transformers";

env.allowLocalModels = true;
env.allowRemoteModels = false;
env.localModelPath = "./"; // the folder, or the address, that holds the export
const translate = await pipeline("translation", "{path}");
const [found] = await translate("A dog runs.");
console.log(found.translation_text);
"""
"""The program that loads an export and translates with it."""

_TABLE = Cell("rewritten", "written as a table of positions")
_NO_POSITIONS = Cell("refused", "train with positions = sinusoidal, learned or none")

_CELLS = {
    **HUGGINGFACE.cells,
    "model.norm = pre": EXACT,
    "model.norm = pre with model.tie other than three-way": EXACT,
    "model.norm_eps other than 1e-5": EXACT,
    **{
        f"model.positions = {each}": _TABLE
        for each in ("sinusoidal", "sinusoidal-halves", "sinusoidal-marian")
    },
    "model.positions = learned": EXACT,
    "model.positions = none": EXACT,
    **{
        f"model.positions = {each}": _NO_POSITIONS
        for each in ("rotary", "shaw", "t5", "alibi", "(registered by a program)")
    },
    "tokenizer.kind = unigram": Cell(
        "exact", "transformers.js reads a character without a piece as unknown"
    ),
    "tokenizer.kind = sentencepiece": Cell(
        "exact", "a tag such as >>deu<< is a piece of its own anywhere in a line"
    ),
    "tokenizer.joint = false": Cell(
        "refused", "tokenizer.json holds one tokenizer: train with tokenizer.joint = true"
    ),
}

ONNX = Format(
    name="onnx",
    options=OPTIONS,
    extra="export",
    modules=("onnxruntime", "tokenizers"),
    cells={name: _CELLS[name] for name in OPTIONS},
    types={"float32": Tolerance(1e-3, 0.99)},
    write=write,
    write_search=write_search,
    load=LoadedGraphs,
    usage=USAGE,
    writes_alone=True,
    writes_with=("onnx",),
    language="js",
)
"""The format `onnx`."""
