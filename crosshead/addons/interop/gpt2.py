"""Exports of language models to Hugging Face: a directory that `GPT2LMHeadModel` loads.

GPT-2 is pre-norm and has a table of positions (Radford et al. 2019, section 2.3). Its embeddings
are not scaled, so the factor sqrt(d_model) is multiplied into the exported ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.base import (
    OTHER_WIDTHS,
    Export,
    ForeignSearch,
    Tolerance,
    json_bytes,
)
from crosshead.addons.interop.ctranslate2_layers import position_table, positions_written
from crosshead.addons.interop.generation import (
    GENERATION,
    LoadedTransformers,
    beam_arguments,
    forbidden_ids,
    write_files,
    write_generation,
)
from crosshead.addons.interop.tokenizer_json import foreign_ids, tokenizer_files
from crosshead.addons.interop.verify import in_equal_lengths
from crosshead.addons.interop.weights import activation_name, is_tied, to_gpt2, with_repeated_heads
from crosshead.bundle.text_bundle import TextBundle
from crosshead.bundle.weights import serialized
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.text.batching import Batch
from crosshead.vocabulary import EOS, PAD


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its tokenizer."""
    files = {
        "config.json": json_bytes(_settings(bundle)),
        GENERATION: json_bytes(_generation(bundle)),
        "model.safetensors": serialized(_weights(bundle)),
        **tokenizer_files(bundle.target_tokenizer, most_positions(bundle)),
    }
    write_files(directory, files)


def write_search(bundle: TextBundle, search: ForeignSearch, directory: Path) -> None:
    """Write the search settings as the defaults of `generate`."""
    values: dict[str, Any] = {"max_length": search.max_length}
    if search.sample:
        values |= {"do_sample": True, "temperature": search.temperature, "top_p": search.top_p}
        values["top_k"] = search.top_k  # 0 turns off the limit of 50 that transformers has
    else:
        values |= beam_arguments(search)
    write_generation({**_generation(bundle), **values}, directory)


def most_positions(bundle: TextBundle) -> int:
    """Return the number of positions of an export."""
    return bundle.config.model.most_positions or positions_written(bundle)


def _settings(bundle: TextBundle) -> dict[str, Any]:
    """Return the content of `config.json`."""
    config = bundle.config.model
    assert isinstance(config, LanguageConfig)
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": sum(row is not None for row in foreign_ids(bundle.target_tokenizer)),
        "n_positions": most_positions(bundle),
        "n_embd": config.d_model,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.d_ff,
        "activation_function": activation_name(config.activation),
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "layer_norm_epsilon": config.norm_eps,
        "scale_attn_weights": config.score == "scaled-dot",
        "tie_word_embeddings": is_tied(config),
        "torch_dtype": "float32",
        **_control(bundle),
    }


def _control(bundle: TextBundle) -> dict[str, int | None]:
    """Return the exported ids of padding, begin and end, by their keys in `config.json`.

    In crosshead's own tokenizers the end token is the end of a line, which ends no text.
    """
    ids = foreign_ids(bundle.target_tokenizer)
    end = ids[EOS]
    return {
        "bos_token_id": end,
        "eos_token_id": end if bundle.target_tokenizer.spans_lines else None,
        "pad_token_id": end if ids[PAD] is None else ids[PAD],
    }


def _generation(bundle: TextBundle) -> dict[str, Any]:
    bad = forbidden_ids(bundle)
    return {**_control(bundle), **({"bad_words_ids": bad} if bad else {})}


def _weights(bundle: TextBundle) -> dict[str, Tensor]:
    """Return the weights by GPT-2's names."""
    model, most = bundle.model, most_positions(bundle)
    assert isinstance(model, TransformerLanguageModel)
    config = model.config
    assert isinstance(config, LanguageConfig)
    table = position_table(model.embeddings, most)
    positions = torch.zeros(most, config.d_model) if table is None else torch.from_numpy(table)
    weights = with_repeated_heads(model)
    return to_gpt2(config, weights, positions, foreign_ids(bundle.target_tokenizer))


class LoadedGPT2(LoadedTransformers):
    """A language model that transformers has loaded."""

    auto = "AutoModelForCausalLM"

    def translate(self, lines: Sequence[str], search: ForeignSearch) -> list[str]:
        """Return the continuation of each line, as `Foreign` says, by the export's tokenizer."""

        def continued(some: list[list[int]]) -> list[str]:
            batch = torch.tensor(some)
            outputs = self._model.generate(
                batch,
                attention_mask=torch.ones_like(batch),
                max_new_tokens=search.max_length,
                max_length=None,
                num_beams=search.beam,
                do_sample=False,
                eos_token_id=None,
            )
            return [self._text(output) for output in outputs[:, batch.shape[1] :].tolist()]

        return in_equal_lengths(self._read(lines), continued)

    def _read(self, lines: Sequence[str]) -> list[list[int]]:
        start = self._rows[EOS]
        assert start is not None
        return [self._tokenizer(line)["input_ids"] or [start] for line in lines]

    def _text(self, output: Sequence[int | None]) -> str:
        """Return the text of exported ids. An end token of another toolkit ends a line, too."""
        text: str = self._tokenizer.decode(output)
        end = self._tokenizer.eos_token
        return text.replace(end, "\n") if end else text

    def _logits(self, batch: Batch, target: Tensor) -> Tensor:
        mask = torch.ones_like(target)  # nothing attends to padding at the end
        found: Tensor = self._model(target, attention_mask=mask).logits
        return found


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and continues a text with it."""
    return f"""from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{path}")
model = AutoModelForCausalLM.from_pretrained("{path}")
batch = tokenizer("Once upon a time", return_tensors="pt", return_token_type_ids=False)
print(tokenizer.decode(model.generate(**batch)[0]))
"""


GPT2 = Export(
    name="huggingface",
    architecture="language",
    modules=("transformers",),
    accepts={
        "model.norm": ("pre",),
        "model.score": ("scaled-dot", "dot"),
        "model.positions": (
            *("learned", "sinusoidal", "sinusoidal-halves", "sinusoidal-marian", "none"),
        ),
        "model.pattern": ("full",),
        "model.output_bias": (False,),
        "tokenizer.kind": ("bpe", "unigram", "tokenizer-json"),
    },
    refuses=(OTHER_WIDTHS,),
    types={"float32": Tolerance(1e-3, 1e-4, 1)},
    write=write,
    write_search=write_search,
    load=LoadedGPT2,
    usage=usage,
    writes_with=("tokenizers",),
    library="transformers",
)
"""The export of language models."""
