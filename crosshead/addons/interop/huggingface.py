"""Exports to Hugging Face: a directory that transformers loads, with its tokenizer.

Post-norm models become `MarianMTModel`, pre-norm ones `PegasusForConditionalGeneration`. Both
compute sinusoids in halves, so the axes of a model with interleaved sinusoids are reordered.
"""

import contextlib
import importlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.bart import TABLES, activation_name, to_family
from crosshead.addons.interop.base import (
    OTHER_ARCHITECTURES,
    OTHER_KINDS,
    PATTERNS,
    SUBWORDS,
    Cell,
    ForeignSearch,
    Format,
    Tolerance,
    cells,
    json_bytes,
    tagged_example,
    valued,
)
from crosshead.addons.interop.generation import (
    GENERATION,
    control,
    forbidden_ids,
    own_to_foreign,
    scored,
    search_arguments,
    write_generation,
)
from crosshead.addons.interop.options import OPTIONS
from crosshead.addons.interop.rows import foreign_ids, vocabulary
from crosshead.addons.interop.verify import (
    longest_output,
    tagged_sources,
)
from crosshead.addons.interop.weights import with_repeated_heads
from crosshead.attention.positions import sinusoidal
from crosshead.bundle.text_bundle import TextBundle
from crosshead.bundle.weights import serialized
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.system.files import atomic_write
from crosshead.text.batching import Batch, Example
from crosshead.text.imported import ImportedTokenizer
from crosshead.text.subwords import SubwordTokenizer
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import PAD

FEWEST_POSITIONS = 512
"""The fewest positions of an export. Marian computes them, Pegasus stores them."""

_BATCH = 32
"""The number of lines that transformers translates at once."""


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model, its vocabularies and its SentencePiece models."""
    model = bundle.model
    assert isinstance(model, Transformer)
    values, rows = settings(bundle), [foreign_ids(each) for each in _sides(bundle)]
    weights = _weights(model, rows, values["max_position_embeddings"])
    files = {
        "config.json": json_bytes(values),
        GENERATION: json_bytes(_generation(bundle)),
        "model.safetensors": serialized(weights),
        **_tokenizer_files(bundle),
    }
    for name, data in files.items():
        atomic_write(directory / name, data)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`."""
    write_generation({**_generation(bundle), **search_arguments(search)}, directory)


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
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


class LoadedMarian:
    """An export that transformers has loaded."""

    computes = ""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self._bundle = bundle
        with quiet_loading():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(directory))
            self._model: Any = AutoModelForSeq2SeqLM.from_pretrained(str(directory)).eval()

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines, as `Foreign` says, by `MarianTokenizer`."""
        ids = foreign_ids(self._bundle.source_tokenizer)
        own = {row: n for n, row in enumerate(ids) if row is not None}
        found = self._tokenizer(tagged_sources(self._bundle, lines))["input_ids"]
        return [[own[token] for token in row[:-1]] for row in found]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by `MarianTokenizer`."""
        rows = foreign_ids(self._bundle.target_tokenizer)
        return self._texts([[rows[token] for token in each] for each in outputs])

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says."""
        tagged = tagged_sources(self._bundle, lines)
        found: list[str] = []
        for first in range(0, len(tagged), _BATCH):
            some = tagged[first : first + _BATCH]
            batch = self._tokenizer(some, return_tensors="pt", padding=True)
            found += self._texts(self._model.generate(**batch, **search_arguments(search)).tolist())
        return found

    def _texts(self, rows: Sequence[Sequence[int | None]]) -> list[str]:
        found: list[str] = self._tokenizer.batch_decode(rows, skip_special_tokens=True)
        return found

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        source, target = map(own_to_foreign, _sides(self._bundle))

        def logits(batch: Batch) -> Tensor:
            found: Tensor = self._model(
                input_ids=source[batch.source],
                attention_mask=batch.source != PAD,
                decoder_input_ids=target[batch.target_input],
            ).logits
            return found

        return scored(self._bundle, examples, logits)


def _sides(bundle: TextBundle) -> tuple[Tokenizer, Tokenizer]:
    return bundle.source_tokenizer, bundle.target_tokenizer


def _generation(bundle: TextBundle) -> dict[str, Any]:
    ids = foreign_ids(bundle.target_tokenizer)
    return {
        **control(ids, bundle.specials.start),
        "forced_eos_token_id": None,
        "bad_words_ids": forbidden_ids(bundle),
    }


def settings(bundle: TextBundle) -> dict[str, Any]:
    """Return the content of `config.json`."""
    config = bundle.config.model
    assert isinstance(config, TransformerConfig)
    sizes = [sum(row is not None for row in foreign_ids(each)) for each in _sides(bundle)]
    is_marian = config.norm == "post"
    marian = {
        "decoder_vocab_size": sizes[1],
        "share_encoder_decoder_embeddings": config.tie == "three-way",
    }
    return {
        "architectures": ["MarianMTModel" if is_marian else "PegasusForConditionalGeneration"],
        "model_type": "marian" if is_marian else "pegasus",
        "vocab_size": sizes[0],
        **(marian if is_marian else {}),
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": activation_name(config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "max_position_embeddings": max(FEWEST_POSITIONS, longest_output(bundle) + 1),
        "scale_embedding": True,
        "tie_word_embeddings": config.tie != "none",
        "is_encoder_decoder": True,
        "torch_dtype": "float32",
        **control(foreign_ids(bundle.target_tokenizer), bundle.specials.start),
        "forced_eos_token_id": None,
    }


def _tokenizer_files(bundle: TextBundle) -> dict[str, bytes]:
    """Return the files of `MarianTokenizer`, by name."""
    config, (source, target) = bundle.config, _sides(bundle)
    vocabularies = [vocabulary(each) for each in (source, target)]
    separate = vocabularies[0] != vocabularies[1]
    values = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "separate_vocabs": separate,
        "model_max_length": config.longest_source + 1,
        "clean_up_tokenization_spaces": False,
    }
    files = {"vocab.json": json_bytes(vocabularies[0]), "tokenizer_config.json": json_bytes(values)}
    if separate:
        files["target_vocab.json"] = json_bytes(vocabularies[1])
    for name, tokenizer in (("source.spm", source), ("target.spm", target)):
        assert isinstance(tokenizer, ImportedTokenizer | SubwordTokenizer)
        files[name] = tokenizer.model
    return files


def _weights(
    model: Transformer, rows: Sequence[Sequence[int | None]], length: int
) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names, for a number of positions."""
    config = model.config
    found = to_family(config, dict(rewritten(model)), rows)
    if config.positions == "sinusoidal":
        width = torch.arange(config.d_model)
        halves = torch.cat([width[0::2], width[1::2]])
        found = {name: _reordered(name, each, halves) for name, each in found.items()}
    if config.norm == "pre":  # `save_pretrained` stores the positions of Pegasus, not of Marian
        table = sinusoidal(length, config.d_model, pairing="halves")
        found |= {name: table.clone() for name in TABLES}
    return found


def rewritten(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters with as many keys as queries, for products scaled by 1/sqrt(d_key)."""
    config = model.config
    for name, each in with_repeated_heads(model).items():
        if ".query." in name and config.score == "dot":
            yield name, each * config.key_width**0.5
        else:
            yield name, each


def _reordered(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Return a weight whose axes of width d_model are in another order."""
    if any(part in name for part in ("layer_norm.", ".out_proj.", ".fc2.")):
        return weight[order].contiguous()
    if name.endswith("bias"):
        return weight
    return weight[:, order].contiguous()


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and translates with it."""
    return f"""from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{path}")
model = AutoModelForSeq2SeqLM.from_pretrained("{path}")
batch = tokenizer(["{tagged_example(bundle)}"], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)[0])
"""


_SCORES = ("additive", "concat", "cosine", "general", "(registered by a program)")
_POSITIONS = (
    "sinusoidal-marian", "learned", "rotary", "shaw", "t5", "alibi", "none",
    "(registered by a program)",
)  # fmt: skip

_CELLS = {
    **valued(
        "model.architecture", OTHER_ARCHITECTURES, Cell("refused", "train with --model transformer")
    ),
    **valued("model.score", _SCORES, Cell("refused", "train with score = scaled-dot or dot")),
    **valued(
        "model.positions",
        _POSITIONS,
        Cell("refused", "train with positions = sinusoidal or sinusoidal-halves"),
    ),
    **valued("model.pattern", PATTERNS, Cell("refused", "train with pattern = full")),
    **valued("tokenizer.kind", OTHER_KINDS, Cell("refused", SUBWORDS)),
    "model.norm = pre": Cell("rewritten", "written as a Pegasus"),
    "model.norm = pre with model.tie other than three-way": Cell(
        "refused", "Pegasus shares one matrix: train with tie = three-way"
    ),
    "an imported vocabulary without padding or start": Cell(
        "refused", "transformers pads with a piece and begins with one"
    ),
    "model.norm_eps other than 1e-5": Cell("refused", "train with norm_eps = 1e-5"),
    "model.score = dot": Cell("rewritten", "queries are multiplied by sqrt(d_key)"),
    "model.positions = sinusoidal": Cell("rewritten", "the axes of width d_model are reordered"),
    "model.kv_heads below model.heads": Cell("rewritten", "keys and values are repeated"),
    "model.d_key other than d_model / heads": Cell("refused", "leave d_key and d_value out"),
    "model.d_key other than model.d_value": Cell("refused", "leave d_key and d_value out"),
    "decode.sample = true": Cell(
        "refused", "export a bundle whose [decode] searches; a sampled search cannot be compared"
    ),
}

HUGGINGFACE = Format(
    name="huggingface",
    options=OPTIONS,
    extra="export",
    modules=("transformers",),
    cells=cells(OPTIONS, _CELLS),
    types={"float32": Tolerance(1e-3, 1e-4, 1)},
    write=write,
    write_search=write_search,
    load=LoadedMarian,
    usage=usage,
    library="transformers",
)
"""The format `huggingface`."""
