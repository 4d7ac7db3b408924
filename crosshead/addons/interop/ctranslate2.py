"""Exports to CTranslate2: `model.bin` with its vocabularies, and the tokenizer's files.

The scores, positions and heads of a model become the parts of CTranslate2's attention that compute
the same. Tokens that search never produces get a bias of `NEVER` in the output projection.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import (
    EXAMPLE,
    OTHER_WIDTHS,
    OWN_POSITIONS,
    Export,
    ForeignSearch,
    Limit,
    Tolerance,
)
from crosshead.addons.interop.ctranslate2_layers import filled_spec
from crosshead.addons.interop.ctranslate2_model import BATCHES, library, pieces_of, scored_batch
from crosshead.addons.interop.plain_tokenizer import PlainTokenizer, plain_tokenizers, program
from crosshead.addons.interop.verify import in_equal_lengths, tagged_sources
from crosshead.bundle.text_bundle import TextBundle
from crosshead.system.files import atomic_write
from crosshead.text.batching import Example
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import BOS, EOS, PAD, UNK

logger = logging.getLogger(__name__)

NEVER = -1e4
"""The bias of tokens that search never produces. Float16 holds this number, too."""

SEARCH = "search.json"
"""The file of the search settings, which CTranslate2 itself does not store."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model, its vocabularies and its tokenizers."""
    write_model(bundle, kind, directory)
    for name, data in bundle.files().items():
        atomic_write(directory / name, data)


def write_model(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its vocabularies."""
    model: Any = bundle.model
    spec = filled_spec(bundle, output_bias(model.projection.bias, bundle))
    target = _vocabulary(bundle.target_tokenizer)
    if _translates(bundle):
        spec.register_source_vocabulary(_vocabulary(bundle.source_tokenizer))
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[bundle.specials.start]
        spec.config.add_source_eos = True
    else:
        spec.register_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (
        target[index] for index in (UNK, BOS, EOS)
    )
    spec.config.layer_norm_epsilon = model.config.norm_eps
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(directory))


def _translates(bundle: TextBundle) -> bool:
    return bundle.config.model.vocabularies == 2


def output_bias(bias: Tensor | None, bundle: TextBundle) -> Tensor:
    """Return the bias of the output projection, with `NEVER` at tokens that are never produced."""
    size = bundle.config.target_vocabulary
    found = torch.zeros(size) if bias is None else bias.detach().float().clone()
    found[list(bundle.forbidden)] = NEVER
    return found


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a tokenizer, which CTranslate2 tells apart by their names."""
    return tokenizer.pieces(range(tokenizer.vocab_size))


def _has_same_names(bundle: TextBundle) -> bool:
    """Return whether two pieces of a vocabulary have the same name."""
    pieces = map(_vocabulary, {bundle.source_tokenizer, bundle.target_tokenizer})
    return any(len(set(each)) < len(each) for each in pieces)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as arguments of `translate_batch` or of `generate_batch`."""
    text = json.dumps(arguments(bundle, search), indent=1) + "\n"
    atomic_write(directory / SEARCH, text.encode())


def arguments(bundle: TextBundle, search: ForeignSearch) -> dict[str, Any]:
    """Return search settings as arguments of CTranslate2.

    The length of a continuation counts the prompt without its first token.
    """
    found: dict[str, Any] = {"beam_size": search.beam, "length_penalty": search.length_penalty}
    if _translates(bundle):
        return {
            **found,
            "max_decoding_length": search.max_length,
            "min_decoding_length": search.min_length,
            # No limit: by default, the tokens after the first 1,024 are lost.
            "max_input_length": 0,
        }
    if search.sample:
        found = {
            "sampling_temperature": search.temperature,
            "sampling_topk": search.top_k,
            "sampling_topp": search.top_p,
        }
    if not bundle.target_tokenizer.spans_lines:
        found["end_token"] = _no_end(bundle)
    return {"max_length": search.max_length, **found}


def _no_end(bundle: TextBundle) -> list[str]:
    """Return padding as the end token: it is never produced, and the end of a line ends no text."""
    return bundle.target_tokenizer.pieces([PAD])


class _Loaded:
    """An export that CTranslate2 has loaded."""

    def __init__(
        self,
        bundle: TextBundle,
        directory: Path,
        tokenizers: tuple[PlainTokenizer, PlainTokenizer] | None = None,
    ) -> None:
        self._bundle = bundle
        self._source, self._target = bundle.source_tokenizer, bundle.target_tokenizer
        self._read, self._show = tokenizers or plain_tokenizers(bundle, directory)
        engine = library().Translator if _translates(bundle) else library().Generator
        self._engine: Any = engine(
            str(directory), device="cpu", intra_threads=torch.get_num_threads()
        )
        self.computes: str = self._engine.compute_type
        logger.info("CTranslate2 computes in %s on this machine", self.computes)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by the files beside the model."""
        known = self._source.pieces(range(self._source.vocab_size))
        ids = {piece: index for index, piece in enumerate(known)}
        return [[ids.get(piece, UNK) for piece in each] for each in self._pieces(lines)]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the files beside the model."""
        return [self._text(pieces_of(self._target, each)) for each in outputs]

    def _pieces(self, lines: Sequence[str]) -> list[list[str]]:
        return [self._read.encode(line) for line in tagged_sources(self._bundle, lines)]

    def _text(self, pieces: Sequence[str]) -> str:
        return self._show.decode(pieces)


class Loaded(_Loaded):
    """A translation model that CTranslate2 has loaded."""

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says."""
        found = self._engine.translate_batch(
            self._pieces(lines), **BATCHES, **arguments(self._bundle, search)
        )
        return [self._text(each.hypotheses[0]) for each in found]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        sources = [pieces_of(self._source, source) for source, _ in examples]
        targets = [pieces_of(self._target, target) for _, target in examples]
        return scored_batch(self._engine, sources, targets)


class LoadedGenerator(_Loaded):
    """A language model that CTranslate2 has loaded."""

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the continuation of each line, as `Foreign` says."""

        def continued(some: list[list[int]]) -> list[str]:
            length = len(some[0])
            settings = {
                **arguments(self._bundle, search),
                "max_length": length - 1 + search.max_length,
                "end_token": _no_end(self._bundle),
            }
            prompts = [pieces_of(self._target, prompt) for prompt in some]
            found = self._engine.generate_batch(prompts, **BATCHES, **settings)
            return [self._text(each.sequences[0][length:]) for each in found]

        return in_equal_lengths(self.encode(lines), continued)

    def _pieces(self, lines: Sequence[str]) -> list[list[str]]:
        end, found = pieces_of(self._target, [EOS]), map(self._read.encode, lines)
        if self._target.spans_lines:
            return [pieces or end for pieces in found]
        return [[*end, *pieces] for pieces in found]

    def _text(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces, which the end token splits into lines."""
        [end], lines = pieces_of(self._target, [EOS]), [list[str]()]
        for piece in pieces:
            if piece == end:
                lines.append([])
            else:
                lines[-1].append(piece)
        return "\n".join(map(self._show.decode, lines))

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        texts = [pieces_of(self._target, [EOS, *target, EOS]) for _, target in examples]
        return scored_batch(self._engine, texts)


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and uses it."""
    if _translates(bundle):
        model, call, found = "Translator", "translate_batch", "hypotheses"
        functions, setup, given = program(bundle, EXAMPLE)
    else:
        model, call, found = "Generator", "generate_batch", "sequences"
        functions, setup, given = program(bundle, "Once upon a time")
        if not bundle.target_tokenizer.spans_lines:
            [end] = bundle.target_tokenizer.pieces([EOS])
            given = f'["{end}"] + {given}'
    return f"""import json
from pathlib import Path
from typing import Any

import ctranslate2


{functions}

directory = Path("{path}")
model = ctranslate2.{model}(str(directory))
{setup}
search = json.loads((directory / "search.json").read_text())
[found] = model.{call}([{given}], **search)
print(decode(found.{found}[0]))
"""


_STACK = {
    "model.score": ("scaled-dot", "dot"),
    "model.pattern": ("full",),
    "model.positions": OWN_POSITIONS,
}
"""Accepted settings of attention layers. Positions without weights become a table of 1,024
positions, or of all that the model reads at once. ALiBi is exact as far."""

CTRANSLATE2 = Export(
    name="ctranslate2",
    modules=("ctranslate2",),
    writes_with=("ctranslate2",),
    accepts={**_STACK, "decode.sample": (False,)},
    refuses=(
        OTHER_WIDTHS,
        Limit(
            "two pieces of a vocabulary with the same name, such as <unk>",
            _has_same_names,
            "train on texts without it, or with tokenizer.kind = bpe or unigram",
        ),
    ),
    types={
        "float32": Tolerance(1e-3, 1e-4, 1),
        "int8": Tolerance(0.5, 0.03, 20),
        "int8_float32": Tolerance(0.5, 0.03, 20),
        "int16": Tolerance(0.05, 0.005, 5),  # where the processor has 16-bit products
        "float16": Tolerance(0.05, 0.005, 5),
        "bfloat16": Tolerance(0.2, 0.03, 20),
    },
    write=write,
    write_search=write_search,
    load=Loaded,
    usage=usage,
    library="ctranslate2",
    notes="On an AMD processor without VNNI instructions, set `CT2_USE_MKL=1` in the environment: "
    "without it, products in int8 overflow.",
)
"""The export of translation models."""

_DIFFERENT = {"float32": 1, "float16": 30, "int16": 30}
"""The largest share of continuations that differ in percent, by number format; 90 in the others.

If each token stays the same with probability 0.9, about 12 % of continuations of 20 tokens do
(0.9^20)."""

CTRANSLATE2_LANGUAGE = replace(
    CTRANSLATE2,
    architecture="language",
    accepts=_STACK,
    types={
        kind: replace(tolerance, different=_DIFFERENT.get(kind, 90))
        for kind, tolerance in CTRANSLATE2.types.items()
    },
    load=LoadedGenerator,
)
"""The export of language models."""
