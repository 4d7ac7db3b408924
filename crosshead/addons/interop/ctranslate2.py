"""Exports to CTranslate2: `model.bin` with its vocabularies, and the tokenizer's files.

The scores, positions and heads of a model become the parts of CTranslate2's attention that compute
the same. Tokens that search never produces get a bias of `NEVER` in the output projection.
"""

import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import (
    EXAMPLE,
    OTHER_ARCHITECTURES,
    PATTERNS,
    SINUSOIDS,
    Cell,
    ForeignSearch,
    Format,
    Tolerance,
    cells,
    valued,
)
from crosshead.addons.interop.ctranslate2_layers import BIAS, MATRICES, fill, specs
from crosshead.addons.interop.ctranslate2_library import library
from crosshead.addons.interop.options import OPTIONS
from crosshead.addons.interop.plain_tokenizer import PlainTokenizer, program, stems
from crosshead.addons.interop.verify import ExportError, tagged_sources
from crosshead.addons.interop.weights import CTRANSLATE2 as CTRANSLATE2_NAMES
from crosshead.addons.interop.weights import translation_places
from crosshead.bundle.text_bundle import TextBundle
from crosshead.models.transformer import Transformer
from crosshead.system.files import atomic_write
from crosshead.text.batching import Example
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import BOS, EOS, UNK

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
    save_spec(_translation_spec(bundle), kind, directory)


def save_spec(spec: Any, kind: str, directory: Path) -> None:
    """Write a filled specification as a model of CTranslate2."""
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(directory))


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as arguments of `translate_batch`."""
    text = json.dumps(_arguments(search), indent=1) + "\n"
    atomic_write(directory / SEARCH, text.encode())


class Loaded:
    """An export that CTranslate2 has loaded."""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        self._bundle = bundle
        self._source, self._target = bundle.source_tokenizer, bundle.target_tokenizer
        self._read, self._show = (
            PlainTokenizer(directory, stem) for stem in stems(bundle.config.joint_tokenizer)
        )
        self._translator = translator_of(directory)
        self.computes: str = self._translator.compute_type

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by the files beside the model."""
        return [ids_of(self._source, pieces) for pieces in self._pieces(lines)]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the files beside the model."""
        return [self._show.decode(pieces_of(self._target, each)) for each in outputs]

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says."""
        found = self._translator.translate_batch(
            self._pieces(lines), max_batch_size=1024, batch_type="tokens", **_arguments(search)
        )
        return [self._show.decode(each.hypotheses[0]) for each in found]

    def _pieces(self, lines: Sequence[str]) -> list[list[str]]:
        tagged = tagged_sources(self._bundle, lines)
        return [self._read.encode(line) for line in tagged]

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        return scored(self._translator, self._bundle, examples)


def translator_of(directory: Path) -> Any:
    """Return CTranslate2's translator of a directory, on the threads that PyTorch has."""
    found = library().Translator(
        str(directory), device="cpu", intra_threads=torch.get_num_threads()
    )
    logger.info("CTranslate2 computes in %s on this machine", found.compute_type)
    return found


def scored(translator: Any, bundle: TextBundle, examples: Sequence[Example]) -> list[list[float]]:
    """Return the log-probability of each target token, as `Foreign` says."""
    found = translator.score_batch(
        [pieces_of(bundle.source_tokenizer, source) for source, _ in examples],
        [pieces_of(bundle.target_tokenizer, target) for _, target in examples],
        max_batch_size=1024,
        batch_type="tokens",
        max_input_length=0,
    )
    return [each.log_probs for each in found]


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the pieces of ids, in the spelling of the vocabulary."""
    return tokenizer.pieces([int(index) for index in ids])


def ids_of(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[int]:
    """Return the ids of pieces. A piece that the vocabulary lacks is unknown."""
    ids = {piece: index for index, piece in enumerate(vocabulary(tokenizer))}
    return [ids.get(piece, UNK) for piece in pieces]


def _arguments(search: ForeignSearch) -> dict[str, Any]:
    return {
        "beam_size": search.beam,
        "length_penalty": search.length_penalty,
        "max_decoding_length": search.max_length,
        "min_decoding_length": 0,
        "max_input_length": 0,  # no limit: by default, the tokens after the first 1,024 are lost
    }


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a tokenizer in the order of their ids."""
    return tokenizer.pieces(range(tokenizer.vocab_size))


def distinct_vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces of a tokenizer, which CTranslate2 tells apart by their names."""
    pieces = vocabulary(tokenizer)
    twice = next((name for name, count in Counter(pieces).items() if count > 1), None)
    if twice is not None:
        raise ExportError(
            f"CTranslate2 tells the pieces of a vocabulary apart by their names, and two are "
            f"{twice!r}; train on texts without it, or with tokenizer.kind = bpe or unigram"
        )
    return pieces


def _translation_spec(bundle: TextBundle) -> Any:
    """Return the specification of a translation model, filled with its weights."""
    model = bundle.model
    assert isinstance(model, Transformer)
    config = model.config
    encoder, decoder = specs(config, (config.encoder_layers, config.decoder_layers))
    spec = library().specs.transformer_spec.TransformerSpec(encoder, decoder)
    places = translation_places(CTRANSLATE2_NAMES, config, MATRICES, BIAS, (None, None))
    embeddings = {"encoder": model.source_embeddings, "decoder": model.target_embeddings}
    fill(spec, bundle, places, embeddings, output_bias(model.projection.bias, bundle))
    spec.register_source_vocabulary(distinct_vocabulary(bundle.source_tokenizer))
    target = distinct_vocabulary(bundle.target_tokenizer)
    spec.register_target_vocabulary(target)
    configure(spec.config, target, bundle)
    spec.config.decoder_start_token = target[config.start_token]
    spec.config.add_source_eos = True
    return spec


def configure(config: Any, pieces: Sequence[str], bundle: TextBundle) -> None:
    """Set what the configuration of every kind of CTranslate2 model holds."""
    config.unk_token, config.bos_token, config.eos_token = (pieces[i] for i in (UNK, BOS, EOS))
    config.layer_norm_epsilon = bundle.config.model.norm_eps  # type: ignore[attr-defined]


def output_bias(bias: Tensor | None, bundle: TextBundle) -> Tensor:
    """Return the bias of the output projection, with `NEVER` at tokens that are never produced."""
    size = bundle.config.target_vocabulary
    found = torch.zeros(size) if bias is None else bias.detach().float().clone()
    found[list(bundle.forbidden)] = NEVER
    return found


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and translates with it."""
    parts = program(bundle, EXAMPLE)
    return f"""import json
from pathlib import Path

import ctranslate2
{parts.imports}
directory = Path("{path}")
translator = ctranslate2.Translator(str(directory))
{parts.setup}search = json.loads((directory / "search.json").read_text())
[found] = translator.translate_batch([{parts.encode}], **search)
print({parts.decode.format(pieces="found.hypotheses[0]")})
"""


_NO_MODEL = "CTranslate2 runs Transformers of text only: train with --model transformer"
_NO_SCORE = "train with score = scaled-dot, dot or general"
_REGISTERED = "train with a score and positions of crosshead's own"

_EXACT_UP_TO = "up to 1,024 positions, and all that the model reads at once"
TABLE = "written as a table of 1,024 positions, or of all that the model reads at once"
"""The note on positions without weights."""

STACK_CELLS = {
    **valued("model.score", ("additive", "concat", "cosine"), Cell("refused", _NO_SCORE)),
    "model.score = general": Cell(
        "rewritten", "its matrix is multiplied into the projection of queries"
    ),
    **valued("model.pattern", PATTERNS, Cell("refused", "train with pattern = full")),
    "model.score = (registered by a program)": Cell("refused", _REGISTERED),
    "model.positions = (registered by a program)": Cell("refused", _REGISTERED),
    **valued("model.positions", (*SINUSOIDS, "none"), Cell("rewritten", TABLE)),
    "model.positions = alibi": Cell(
        "rewritten", f"written as a bias for each distance, exact {_EXACT_UP_TO}"
    ),
    "model.d_key other than model.d_value": Cell(
        "rewritten", "the narrower of both is padded with zeros"
    ),
}
"""The cells of attention layers, which translation and language models have."""

_CELLS = {
    **valued("model.architecture", OTHER_ARCHITECTURES, Cell("refused", _NO_MODEL)),
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
    writes_with=("ctranslate2",),
    cells=cells(OPTIONS, _CELLS),
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
)
"""The format `ctranslate2`."""
