"""Exports of language models to CTranslate2, whose `Generator` loads them."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import Example
from crosshead.data.text.streams import decode_text
from crosshead.interop.base import EXACT, Cell, ForeignSearch, Format, prompted
from crosshead.interop.ctranslate2 import (
    CTRANSLATE2,
    SEARCH,
    STACK_CELLS,
    configure,
    output_bias,
    pieces_of,
    save_spec,
    vocabulary,
)
from crosshead.interop.ctranslate2_layers import (
    Shape,
    fill_language_model,
    language_spec,
    numbers,
)
from crosshead.interop.ctranslate2_library import library
from crosshead.interop.options import LANGUAGE_OPTIONS
from crosshead.interop.verify import in_equal_lengths
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.system.files import atomic_write
from crosshead.vocabulary import EOS, PAD

logger = logging.getLogger(__name__)


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model, its vocabulary and its tokenizer.

    Args:
        bundle: The bundle.
        kind: The number format of the weights.
        directory: An empty directory.
    """
    save_spec(_spec(bundle), kind, directory)
    for name, data in bundle.files().items():
        atomic_write(directory / name, data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as arguments of `generate_batch`.

    Args:
        bundle: The bundle.
        search: The settings.
        directory: The directory of the export.
    """
    text = json.dumps(_arguments(bundle, search), indent=1) + "\n"
    atomic_write(directory / SEARCH, text.encode())


class LoadedGenerator:
    """An export that CTranslate2 has loaded.

    Args:
        bundle: The bundle, for its tokenizer.
        directory: The export.
    """

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        self._bundle, self._tokenizer = bundle, bundle.target_tokenizer
        self._generator: Any = library().Generator(
            str(directory), device="cpu", intra_threads=torch.get_num_threads()
        )
        logger.info("CTranslate2 computes in %s on this machine", self._generator.compute_type)

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the continuation of each line, as `Foreign` says."""
        tokenizer, bundle = self._tokenizer, self._bundle
        ids = {piece: index for index, piece in enumerate(vocabulary(tokenizer))}

        def continued(some: list[list[int]]) -> list[str]:
            length = len(some[0])
            arguments = {
                **_arguments(bundle, search),
                "max_length": length - 1 + search.max_length,
                "end_token": _padding(bundle),
            }
            found = self._generator.generate_batch(
                [pieces_of(tokenizer, prompt) for prompt in some],
                max_batch_size=1024,
                batch_type="tokens",
                **arguments,
            )
            tokens = ([ids[piece] for piece in each.sequences[0][length:]] for each in found)
            return [decode_text(tokenizer, each) for each in tokens]

        return in_equal_lengths([prompted(bundle, line) for line in lines], continued)

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        scored = self._generator.score_batch(
            [pieces_of(self._tokenizer, [EOS, *target, EOS]) for _, target in examples],
            max_batch_size=1024,
            batch_type="tokens",
            max_input_length=0,
        )
        return [each.log_probs for each in scored]


def _padding(bundle: TextBundle) -> list[str]:
    """Return the piece of padding, which is never produced, as an end token that ends nothing."""
    return bundle.target_tokenizer.pieces([PAD])


def _arguments(bundle: TextBundle, search: ForeignSearch) -> dict[str, Any]:
    """Return search settings as arguments of `generate_batch`.

    The length counts the prompt without its first token.
    """
    found: dict[str, Any] = {"max_length": search.max_length}
    if not bundle.target_tokenizer.spans_lines:
        found["end_token"] = _padding(bundle)  # the end of a line ends no text
    if search.sample:
        return {
            **found,
            "sampling_temperature": search.temperature,
            "sampling_topk": search.top_k,
            "sampling_topp": search.top_p,
        }
    return {**found, "beam_size": search.beam, "length_penalty": search.length_penalty}


def _spec(bundle: TextBundle) -> Any:
    """Return the specification of a language model, filled with its weights."""
    model = bundle.model
    assert isinstance(model, TransformerLanguageModel)
    config = model.config
    assert isinstance(config, LanguageConfig)
    decoder = language_spec(config, config.layers)
    fill_language_model(decoder, model.stack, model.embeddings, Shape.of(config))
    decoder.projection.weight = numbers(model.projection.weight)
    decoder.projection.bias = output_bias(model.projection.bias, bundle)
    spec = library().specs.transformer_spec.TransformerDecoderModelSpec(decoder)
    pieces = vocabulary(bundle.target_tokenizer)
    spec.register_vocabulary(pieces)
    configure(spec.config, pieces, bundle)
    return spec


USAGE = """import json
from pathlib import Path

import ctranslate2
import sentencepiece

directory = Path("{path}")
generator = ctranslate2.Generator(str(directory))
pieces = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
search = json.loads((directory / "search.json").read_text())
prompt = ["</s>", *pieces.encode("Once upon a time", out_type=str)]
[found] = generator.generate_batch([prompt], **search)
print(pieces.decode(found.sequences[0]))
"""
"""The program that loads an export and continues a text with it."""

_T5 = Cell(
    "exact",
    "if the prompt is in the result, which is the default: with `include_prompt_in_result=False`, "
    "CTranslate2 continues prompts with other biases",
)

_SAME = {"float32": 0.99, "float16": 0.7}
"""The smallest share of identical continuations, by number format; 0.1 in the others.

One other token changes all that follow. If 9 of 10 tokens stay the same, so does one of ten
continuations of 20 tokens."""

_TYPES = {
    kind: replace(tolerance, identical=_SAME.get(kind, 0.1))
    for kind, tolerance in CTRANSLATE2.types.items()
}

CTRANSLATE2_LANGUAGE = Format(
    name="ctranslate2",
    options=LANGUAGE_OPTIONS,
    extra="export",
    modules=("ctranslate2",),
    cells={name: STACK_CELLS.get(name, EXACT) for name in LANGUAGE_OPTIONS}
    | {"model.positions = t5": _T5},
    types=_TYPES,
    write=write,
    write_search=write_search,
    load=LoadedGenerator,
    usage=USAGE,
)
"""The format `ctranslate2` of language models."""
