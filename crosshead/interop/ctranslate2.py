"""Exports to CTranslate2: `model.bin` with its vocabularies, and the tokenizer's files.

The scores, positions and heads of a model become the parts of CTranslate2's attention that compute
the same. Tokens that search never produces get a bias of `NEVER` in the output projection.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import Example
from crosshead.data.text.tokenizers import Tokenizer
from crosshead.interop.base import EXACT, Cell, ForeignSearch, Format, Tolerance
from crosshead.interop.ctranslate2_layers import Shape, fill_decoder, fill_encoder, numbers, specs
from crosshead.interop.ctranslate2_library import library
from crosshead.interop.options import OPTIONS
from crosshead.interop.verify import source_ids
from crosshead.models.transformer import Transformer
from crosshead.system.files import atomic_write
from crosshead.vocabulary import BOS, EOS, UNK

logger = logging.getLogger(__name__)

NEVER = -1e4
"""The bias of tokens that search never produces. Float16 holds this number, too."""

SEARCH = "search.json"
"""The file of the search settings, which CTranslate2 itself does not store."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model, its vocabularies and its tokenizers.

    Args:
        bundle: The bundle.
        kind: The number format of the weights.
        directory: An empty directory.
    """
    write_model(bundle, kind, directory)
    for name, data in bundle.files().items():
        atomic_write(directory / name, data)


def write_model(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its vocabularies.

    Args:
        bundle: The bundle.
        kind: The number format of the weights.
        directory: The directory.
    """
    save_spec(_translation_spec(bundle), kind, directory)


def save_spec(spec: Any, kind: str, directory: Path) -> None:
    """Write a filled specification as a model of CTranslate2.

    Args:
        spec: The specification.
        kind: The number format of the weights.
        directory: The directory.
    """
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(directory))


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as arguments of `translate_batch`.

    Args:
        bundle: The bundle.
        search: The settings.
        directory: The directory of the export.
    """
    text = json.dumps(_arguments(search), indent=1) + "\n"
    atomic_write(directory / SEARCH, text.encode())


class Loaded:
    """An export that CTranslate2 has loaded.

    Args:
        bundle: The bundle, for its tokenizers.
        directory: The export.
    """

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        self._bundle = bundle
        self._source, self._target = bundle.source_tokenizer, bundle.target_tokenizer
        self._translator: Any = library().Translator(
            str(directory), device="cpu", intra_threads=torch.get_num_threads()
        )
        logger.info("CTranslate2 computes in %s on this machine", self._translator.compute_type)

    def translate(self, lines: Sequence[str], search: ForeignSearch, least: int = 0) -> list[str]:
        """Return the translation of each line, as `Foreign` says.

        Args:
            lines: The lines.
            search: The settings of the search.
            least: The smallest number of tokens of an output.
        """
        sources = [pieces_of(self._source, ids) for ids in source_ids(self._bundle, lines)]
        found = self._translator.translate_batch(
            sources,
            max_batch_size=1024,
            batch_type="tokens",
            **{**_arguments(search), "min_decoding_length": least},
        )
        ids = {piece: index for index, piece in enumerate(vocabulary(self._target))}
        return [self._target.decode([ids[piece] for piece in each.hypotheses[0]]) for each in found]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        scored = self._translator.score_batch(
            [pieces_of(self._source, source) for source, _ in examples],
            [pieces_of(self._target, target) for _, target in examples],
            max_batch_size=1024,
            batch_type="tokens",
            max_input_length=0,
        )
        return [each.log_probs for each in scored]


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the pieces of ids, in the spelling of the vocabulary.

    Args:
        tokenizer: The tokenizer.
        ids: The ids.
    """
    return tokenizer.pieces([int(index) for index in ids])


def _arguments(search: ForeignSearch) -> dict[str, Any]:
    return {
        "beam_size": search.beam,
        "length_penalty": search.length_penalty,
        "max_decoding_length": search.max_length,
        "min_decoding_length": 0,
    }


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a tokenizer in the order of their ids.

    Args:
        tokenizer: The tokenizer.
    """
    return tokenizer.pieces(range(tokenizer.vocab_size))


def _translation_spec(bundle: TextBundle) -> Any:
    """Return the specification of a translation model, filled with its weights."""
    model = bundle.model
    assert isinstance(model, Transformer)
    config = model.config
    encoder, decoder = specs(config, (config.encoder_layers, config.decoder_layers))
    shape = Shape.of(config)
    fill_encoder(encoder, model.encoder, model.source_embeddings, shape)
    fill_decoder(decoder, model.decoder, model.target_embeddings, shape)
    decoder.projection.weight = numbers(model.projection.weight)
    decoder.projection.bias = output_bias(model.projection.bias, bundle)
    spec = library().specs.transformer_spec.TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(vocabulary(bundle.source_tokenizer))
    target = vocabulary(bundle.target_tokenizer)
    spec.register_target_vocabulary(target)
    configure(spec.config, target, bundle)
    spec.config.decoder_start_token = target[config.start_token]
    spec.config.add_source_eos = True
    return spec


def configure(config: Any, pieces: Sequence[str], bundle: TextBundle) -> None:
    """Set what the configuration of every kind of CTranslate2 model holds.

    Args:
        config: The configuration.
        pieces: The pieces of the target vocabulary.
        bundle: The bundle.
    """
    config.unk_token, config.bos_token, config.eos_token = (pieces[i] for i in (UNK, BOS, EOS))
    config.layer_norm_epsilon = bundle.config.model.norm_eps  # type: ignore[attr-defined]


def output_bias(bias: Tensor | None, bundle: TextBundle) -> np.ndarray:
    """Return the bias of the output projection, with `NEVER` at tokens that are never produced.

    Args:
        bias: The model's own bias, "V", or None.
        bundle: The bundle.

    Returns:
        The bias, "V".
    """
    size = bundle.config.target_vocabulary
    found = np.zeros(size, np.float32) if bias is None else numbers(bias)
    found[list(bundle.forbidden)] = NEVER
    return found


USAGE = """import json
from pathlib import Path

import ctranslate2
import sentencepiece

directory = Path("{path}")
translator = ctranslate2.Translator(str(directory))
pieces = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
search = json.loads((directory / "search.json").read_text())
[found] = translator.translate_batch([pieces.encode("A dog runs.", out_type=str)], **search)
print(pieces.decode(found.hypotheses[0]))
"""
"""The program that loads an export and translates with it."""

_NO_MODEL = "CTranslate2 runs Transformers of text only: train with --model transformer"
_NO_SCORE = "train with score = scaled-dot, dot or general"
_NO_PATTERN = "train with pattern = full"
_REGISTERED = "train with a score and positions of crosshead's own"

STACK_CELLS = {
    **{
        f"model.score = {each}": Cell("refused", _NO_SCORE)
        for each in ("additive", "concat", "cosine")
    },
    "model.score = general": Cell(
        "rewritten", "its matrix is multiplied into the projection of queries"
    ),
    **{
        f"model.pattern = {each}": Cell("refused", _NO_PATTERN)
        for each in ("window", "dilated", "strided", "fixed")
    },
    "model.score = (registered by a program)": Cell("refused", _REGISTERED),
    "model.positions = (registered by a program)": Cell("refused", _REGISTERED),
    **{
        f"model.positions = {each}": Cell("rewritten", "written as a table of 1,024 positions")
        for each in ("sinusoidal", "sinusoidal-halves", "sinusoidal-marian", "none")
    },
    "model.positions = alibi": Cell(
        "rewritten", "written as a bias for each distance, exact up to 1,024 positions"
    ),
    "model.d_key other than model.d_value": Cell(
        "rewritten", "the narrower of both is padded with zeros"
    ),
}
"""The cells of attention layers, which translation and language models have."""

_CELLS = {
    **{
        name: Cell("refused", _NO_MODEL)
        for name in OPTIONS
        if name.startswith("model.architecture") and not name.endswith("= transformer")
    },
    **STACK_CELLS,
    "tokenizer.kind = sentencepiece": Cell(
        "exact", "a tag such as >>deu<< at the beginning of a line is a piece of its own"
    ),
    "decode.sample = true": Cell(
        "refused", "export a bundle whose [decode] searches; a sampled search cannot be compared"
    ),
}

CTRANSLATE2 = Format(
    name="ctranslate2",
    options=OPTIONS,
    extra="export",
    modules=("ctranslate2",),
    cells={name: _CELLS.get(name, EXACT) for name in OPTIONS},
    types={
        "float32": Tolerance(1e-3, 0.99),
        "int8": Tolerance(0.5, 0.8),
        "int8_float32": Tolerance(0.5, 0.8),
        "int16": Tolerance(0.5, 0.8),  # many processors compute with it in int8
        "float16": Tolerance(0.05, 0.95),
        "bfloat16": Tolerance(0.2, 0.8),
    },
    write=write,
    write_search=write_search,
    load=Loaded,
    usage=USAGE,
)
"""The format `ctranslate2`."""
