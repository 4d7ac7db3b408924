"""Exports of language models to CTranslate2, whose `Generator` loads them."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from crosshead.addons.interop.base import Cell, ForeignSearch, Format, cells
from crosshead.addons.interop.ctranslate2 import (
    CTRANSLATE2,
    SEARCH,
    STACK_CELLS,
    configure,
    distinct_vocabulary,
    ids_of,
    output_bias,
    pieces_of,
    save_spec,
)
from crosshead.addons.interop.ctranslate2_layers import fill, language_places, language_spec
from crosshead.addons.interop.ctranslate2_library import library
from crosshead.addons.interop.options import LANGUAGE_OPTIONS
from crosshead.addons.interop.plain_tokenizer import PlainTokenizer, program
from crosshead.addons.interop.verify import in_equal_lengths
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.system.files import atomic_write
from crosshead.text.batching import Example
from crosshead.text.tokenizers import JOINT
from crosshead.vocabulary import EOS, PAD

logger = logging.getLogger(__name__)


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model, its vocabulary and its tokenizer."""
    save_spec(_spec(bundle), kind, directory)
    for name, data in bundle.files().items():
        atomic_write(directory / name, data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as arguments of `generate_batch`."""
    text = json.dumps(_arguments(bundle, search), indent=1) + "\n"
    atomic_write(directory / SEARCH, text.encode())


class LoadedGenerator:
    """An export that CTranslate2 has loaded."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        self._bundle, self._tokenizer = bundle, bundle.target_tokenizer
        self._plain = PlainTokenizer(directory, JOINT)
        self._generator: Any = library().Generator(
            str(directory), device="cpu", intra_threads=torch.get_num_threads()
        )
        self.computes: str = self._generator.compute_type
        self._end = pieces_of(self._tokenizer, [EOS])
        logger.info("CTranslate2 computes in %s on this machine", self.computes)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of prompts, as `Foreign` says, by the files beside the model."""
        return [ids_of(self._tokenizer, self._prompt(line)) for line in lines]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the files beside the model."""
        return [self._text(pieces_of(self._tokenizer, each)) for each in outputs]

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the continuation of each line, as `Foreign` says."""

        def continued(some: list[list[int]]) -> list[str]:
            length = len(some[0])
            arguments = {
                **_arguments(self._bundle, search),
                "max_length": length - 1 + search.max_length,
                "end_token": _padding(self._bundle),
            }
            found = self._generator.generate_batch(
                [pieces_of(self._tokenizer, prompt) for prompt in some],
                max_batch_size=1024,
                batch_type="tokens",
                **arguments,
            )
            return [self._text(each.sequences[0][length:]) for each in found]

        return in_equal_lengths(self.encode(lines), continued)

    def _prompt(self, line: str) -> list[str]:
        pieces = self._plain.encode(line)
        if self._tokenizer.spans_lines:
            return pieces or self._end
        return [*self._end, *pieces]

    def _text(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces, which the end token splits into lines."""
        lines: list[list[str]] = [[]]
        for piece in pieces:
            if piece == self._end[0]:
                lines.append([])
            else:
                lines[-1].append(piece)
        return "\n".join(map(self._plain.decode, lines))

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
    spec = library().specs.transformer_spec.TransformerDecoderModelSpec(decoder)
    bias = output_bias(model.projection.bias, bundle)
    fill(spec, bundle, language_places(config), {"decoder": model.embeddings}, bias)
    pieces = distinct_vocabulary(bundle.target_tokenizer)
    spec.register_vocabulary(pieces)
    configure(spec.config, pieces, bundle)
    return spec


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and continues a text with it."""
    parts, tokenizer = program(bundle, "Once upon a time"), bundle.target_tokenizer
    prompt, [end] = parts.encode, tokenizer.pieces([EOS])
    if not tokenizer.spans_lines:
        prompt = f'["{end}", *{prompt}]'
    return f"""import json
from pathlib import Path

import ctranslate2
{parts.imports}
directory = Path("{path}")
generator = ctranslate2.Generator(str(directory))
{parts.setup}search = json.loads((directory / "search.json").read_text())
prompt = {prompt}
[found] = generator.generate_batch([prompt], **search)
print({parts.decode.format(pieces="found.sequences[0]")})
"""


_T5 = Cell(
    "exact",
    "if the prompt is in the result, which is the default: with `include_prompt_in_result=False`, "
    "CTranslate2 continues prompts with other biases",
)

_DIFFERENT = {"float32": 1, "float16": 30, "int16": 30}
"""The largest share of continuations that differ in percent, by number format; 90 in the others.

If each token stays the same with probability 0.9, about 12 % of continuations of 20 tokens do
(0.9^20)."""

_TYPES = {
    kind: replace(tolerance, different=_DIFFERENT.get(kind, 90))
    for kind, tolerance in CTRANSLATE2.types.items()
}

CTRANSLATE2_LANGUAGE = Format(
    name="ctranslate2",
    options=LANGUAGE_OPTIONS,
    extra="export",
    modules=("ctranslate2",),
    writes_with=("ctranslate2",),
    cells=cells(LANGUAGE_OPTIONS, {**STACK_CELLS, "model.positions = t5": _T5}),
    types=_TYPES,
    write=write,
    write_search=write_search,
    load=LoadedGenerator,
    usage=usage,
    library="ctranslate2",
)
"""The format `ctranslate2` of language models."""
