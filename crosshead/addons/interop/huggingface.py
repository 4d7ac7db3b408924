"""Exports to Hugging Face: a directory that transformers loads, with its tokenizer.

Post-norm models become `MarianMTModel`, pre-norm ones `PegasusForConditionalGeneration`. Both
compute sinusoids in halves, so the axes of a model with interleaved sinusoids are reordered.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import (
    OTHER_WIDTHS,
    WITHOUT_CONTROL,
    Export,
    ForeignSearch,
    Limit,
    Tolerance,
    json_bytes,
    tagged_example,
)
from crosshead.addons.interop.generation import (
    GENERATION,
    LoadedTransformers,
    control,
    forbidden_ids,
    own_to_foreign,
    search_arguments,
    write_files,
    write_generation,
)
from crosshead.addons.interop.tokenizer_json import foreign_ids, vocabulary
from crosshead.addons.interop.verify import longest_output, tagged_sources
from crosshead.addons.interop.weights import TABLES, activation_name, to_bart, with_repeated_heads
from crosshead.attention.positions import sinusoidal
from crosshead.bundle.text_bundle import TextBundle
from crosshead.bundle.weights import serialized
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.text.batching import Batch
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
    write_files(directory, files)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`."""
    write_generation({**_generation(bundle), **search_arguments(search)}, directory)


class LoadedMarian(LoadedTransformers):
    """A translation model that transformers has loaded."""

    auto = "AutoModelForSeq2SeqLM"

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the translation of each line, as `Foreign` says."""
        tagged = tagged_sources(self._bundle, lines)
        found: list[str] = []
        for first in range(0, len(tagged), _BATCH):
            some = tagged[first : first + _BATCH]
            batch = self._tokenizer(some, return_tensors="pt", padding=True)
            rows = self._model.generate(**batch, **search_arguments(search)).tolist()
            found += map(self._text, rows)
        return found

    def _read(self, lines: Sequence[str]) -> list[list[int]]:
        found = self._tokenizer(tagged_sources(self._bundle, lines))["input_ids"]
        return [row[:-1] for row in found]

    def _text(self, output: Sequence[int | None]) -> str:
        text: str = self._tokenizer.decode(output, skip_special_tokens=True)
        return text

    def _logits(self, batch: Batch, target: Tensor) -> Tensor:
        source = own_to_foreign(self._bundle.source_tokenizer)[batch.source]
        mask = batch.source != PAD
        found: Tensor = self._model(
            input_ids=source, attention_mask=mask, decoder_input_ids=target
        ).logits
        return found


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
    found = to_bart(config, with_repeated_heads(model), rows)
    if config.positions == "sinusoidal":
        width = torch.arange(config.d_model)
        halves = torch.cat([width[0::2], width[1::2]])
        found = {name: _reordered(name, each, halves) for name, each in found.items()}
    if config.norm == "pre":  # `save_pretrained` stores the positions of Pegasus, not of Marian
        table = sinusoidal(length, config.d_model, pairing="halves")
        found |= {name: table.clone() for name in TABLES}
    return found


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


def _unequal_matrices(bundle: TextBundle) -> bool:
    model: Any = bundle.config.model
    return bool(model.norm == "pre" and model.tie != "three-way")


ACCEPTS: dict[str, tuple[object, ...]] = {
    "model.score": ("scaled-dot",),
    "model.pattern": ("full",),
    "tokenizer.kind": ("bpe", "unigram", "sentencepiece"),
    "decode.sample": (False,),
}
"""The values of settings that the translation models of transformers and the ONNX graphs have."""

HUGGINGFACE = Export(
    name="huggingface",
    modules=("transformers",),
    accepts={
        **ACCEPTS,
        "model.positions": ("sinusoidal", "sinusoidal-halves"),
        "model.norm_eps": (1e-5,),
    },
    refuses=(
        Limit(
            "model.norm = pre with model.tie other than three-way",
            _unequal_matrices,
            "Pegasus shares one matrix: train with tie = three-way",
        ),
        WITHOUT_CONTROL,
        OTHER_WIDTHS,
    ),
    types={"float32": Tolerance(1e-3, 1e-4, 1)},
    write=write,
    write_search=write_search,
    load=LoadedMarian,
    usage=usage,
    library="transformers",
)
"""The export of translation models."""
