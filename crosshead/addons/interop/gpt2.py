"""Exports of language models to Hugging Face: a directory that `GPT2LMHeadModel` loads.

GPT-2 is pre-norm and has a table of positions (Radford et al. 2019, section 2.3). Its embeddings
are not scaled, so the factor sqrt(d_model) is multiplied into the exported ones.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.bart import activation_name
from crosshead.addons.interop.base import (
    PATTERNS,
    SINUSOIDS,
    Cell,
    ForeignSearch,
    Format,
    Tolerance,
    cells,
    json_bytes,
    valued,
)
from crosshead.addons.interop.ctranslate2 import TABLE
from crosshead.addons.interop.ctranslate2_layers import position_table, positions_written
from crosshead.addons.interop.generation import (
    GENERATION,
    beam_arguments,
    forbidden_ids,
    own_to_foreign,
    scored,
    write_generation,
)
from crosshead.addons.interop.gpt2_weights import is_tied, to_gpt2
from crosshead.addons.interop.huggingface import quiet_loading
from crosshead.addons.interop.language_tokenizer import tokenizer_files
from crosshead.addons.interop.options import LANGUAGE_OPTIONS
from crosshead.addons.interop.rows import foreign_ids
from crosshead.addons.interop.verify import INVALID, in_equal_lengths
from crosshead.addons.interop.weights import with_repeated_heads
from crosshead.bundle.text_bundle import TextBundle
from crosshead.bundle.weights import serialized
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.system.files import atomic_write
from crosshead.text.batching import Batch, Example
from crosshead.text.streams import decode_text
from crosshead.vocabulary import EOS, PAD


def write(bundle: TextBundle, kind: str, directory: Path) -> None:
    """Write a bundle's model and its tokenizer."""
    files = {
        "config.json": json_bytes(_settings(bundle)),
        GENERATION: json_bytes(_generation(bundle)),
        "model.safetensors": serialized(_weights(bundle)),
        **tokenizer_files(bundle.target_tokenizer, most_positions(bundle)),
    }
    for name, data in files.items():
        atomic_write(directory / name, data)


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


def _parts(bundle: TextBundle) -> tuple[LanguageConfig, TransformerLanguageModel]:
    model = bundle.model
    assert isinstance(model, TransformerLanguageModel)
    assert isinstance(model.config, LanguageConfig)
    return model.config, model


def _settings(bundle: TextBundle) -> dict[str, Any]:
    """Return the content of `config.json`."""
    config, _ = _parts(bundle)
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
    config, model = _parts(bundle)
    most = most_positions(bundle)
    table = position_table(model.embeddings, most)
    positions = torch.zeros(most, config.d_model) if table is None else torch.from_numpy(table)
    weights = with_repeated_heads(model)
    return to_gpt2(config, weights, positions, foreign_ids(bundle.target_tokenizer))


class LoadedGPT2:
    """An export that transformers has loaded."""

    computes = ""

    def __init__(self, bundle: TextBundle, directory: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._bundle = bundle
        with quiet_loading():
            self._tokenizer: Any = AutoTokenizer.from_pretrained(str(directory))
            loaded: Any = AutoModelForCausalLM.from_pretrained(str(directory))
        self._model = loaded.eval()
        self._rows = foreign_ids(bundle.target_tokenizer)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of prompts, as `Foreign` says, by the export's tokenizer."""
        own = {row: index for index, row in enumerate(self._rows) if row is not None}
        return [[own[row] for row in prompt] for prompt in self._prompts(lines)]

    def decode(self, outputs: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of outputs, as `Foreign` says, by the export's tokenizer."""
        return [self._text([self._rows[index] for index in each]) for each in outputs]

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
            return [self._shown(output) for output in outputs[:, batch.shape[1] :].tolist()]

        return in_equal_lengths(self._prompts(lines), continued)

    def _prompts(self, lines: Sequence[str]) -> list[list[int]]:
        start = self._rows[EOS]
        assert start is not None
        return [self._tokenizer(line)["input_ids"] or [start] for line in lines]

    def _shown(self, output: Sequence[int]) -> str:
        """Return the text of exported ids; crosshead's if bytes in it are no text.

        `tokenizers` shows no byte of such a part, whatever the ids are.
        """
        text = self._text(output)
        if INVALID not in text:
            return text
        own = {row: index for index, row in enumerate(self._rows) if row is not None}
        return decode_text(self._bundle.target_tokenizer, [own[row] for row in output])

    def _text(self, output: Sequence[int | None]) -> str:
        """Return the text of exported ids. An end token of another toolkit ends a line, too."""
        text: str = self._tokenizer.decode(output)
        end = self._tokenizer.eos_token
        return text.replace(end, "\n") if end else text

    def log_probs(self, examples: Sequence[Example]) -> list[list[float]]:
        """Return the log-probability of each target token, as `Foreign` says."""
        target = own_to_foreign(self._bundle.target_tokenizer)

        def logits(batch: Batch) -> Tensor:
            mask = torch.ones_like(batch.target_input)  # nothing attends to padding at the end
            found: Tensor = self._model(target[batch.target_input], attention_mask=mask).logits
            return found

        return scored(self._bundle, examples, logits)


def usage(bundle: TextBundle, path: str) -> str:
    """Return the program that loads an export and continues a text with it."""
    return f"""from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{path}")
model = AutoModelForCausalLM.from_pretrained("{path}")
batch = tokenizer("Once upon a time", return_tensors="pt", return_token_type_ids=False)
print(tokenizer.decode(model.generate(**batch)[0]))
"""


_REGISTERED = "(registered by a program)"

_CELLS = {
    "model.norm = post": Cell("refused", "GPT-2 is pre-norm: train with norm = pre"),
    **valued(
        "model.score",
        ("additive", "concat", "general", "cosine", _REGISTERED),
        Cell("refused", "train with score = scaled-dot or dot"),
    ),
    **valued("model.positions", (*SINUSOIDS, "none"), Cell("rewritten", TABLE)),
    **valued(
        "model.positions",
        ("rotary", "shaw", "t5", "alibi", _REGISTERED),
        Cell("refused", "train with positions = learned"),
    ),
    **valued("model.pattern", PATTERNS, Cell("refused", "train with pattern = full")),
    "model.kv_heads below model.heads": Cell("rewritten", "keys and values are repeated"),
    "model.d_key other than d_model / heads": Cell("refused", "leave d_key and d_value out"),
    "model.d_key other than model.d_value": Cell("refused", "leave d_key and d_value out"),
    "model.scale_embeddings = true": Cell(
        "rewritten", "the factor is multiplied in; with tie = true the matrix is stored twice"
    ),
    "model.output_bias = true": Cell(
        "refused", "GPT-2's projection has no bias: train with output_bias = false"
    ),
    "a line feed in the vocabulary": Cell("refused", "export to ctranslate2"),
    "tokenizer.kind = words": Cell(
        "refused", "train with tokenizer.kind = bpe, unigram, characters or bytes"
    ),
}

GPT2 = Format(
    name="huggingface",
    options=LANGUAGE_OPTIONS,
    extra="export",
    modules=("transformers",),
    cells=cells(LANGUAGE_OPTIONS, _CELLS),
    types={"float32": Tolerance(1e-3, 1e-4, 1)},
    write=write,
    write_search=write_search,
    load=LoadedGPT2,
    usage=usage,
    writes_with=("tokenizers",),
    library="transformers",
)
"""The format `huggingface` of language models."""
