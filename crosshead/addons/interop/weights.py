"""The names of weights in other toolkits: one table a toolkit, for exports and imports alike.

A table says what a toolkit calls the matrices, biases and norms of a layer. Where one side packs
several matrices into one, the row has several names for the other side.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crosshead.layers.restricted import ABSENT
from crosshead.models.base import Model
from crosshead.models.language import LanguageConfig
from crosshead.models.stack import StackConfig
from crosshead.models.transformer import TransformerConfig

Rows = Sequence[int | None]
"""The foreign id of each id of a tokenizer; None if the foreign vocabulary lacks it."""

_ATTENTIONS = {
    "encoder": {"attention": "add_norm_attention"},
    "decoder": {"self_attention": "add_norm_self", "cross_attention": "add_norm_cross"},
    "stack": {"attention": "add_norm_attention"},
}
"""The attentions of a layer of each stack, with the module that holds the norm of each."""


class Place(NamedTuple):
    """Parameters that hold the same numbers here and in another toolkit."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    """Names of parameters. Those of either side are joined along the first axis."""
    transposed: bool = False
    rows: Rows | None = None
    """The order of the rows, if a vocabulary has one row for each token."""
    absent: float = 0.0
    """The number in the rows of tokens that the foreign vocabulary lacks."""


@dataclass(frozen=True)
class Table:
    """The names of weights in a toolkit: templates with `stack`, `layer` from 0, `next` and `end`.

    Attributes:
        layer: The beginning of the names in a layer.
        final: The norm that ends a stack of pre-norm layers.
        attention: The parts of a self-attention.
        cross: The parts of an attention to the encoder.
        feedforward: The parts of a feed-forward network.
        ends: What `end` is in weight and bias of a matrix.
        norm_ends: What `end` is in weight and bias of a norm.
        transposed: True if matrices are transposed.
    """

    layer: str
    final: str
    attention: Mapping[str, str]
    feedforward: Mapping[str, str]
    cross: Mapping[str, str] = field(default_factory=dict)
    ends: tuple[str, str] = ("weight", "bias")
    norm_ends: tuple[str, str] = ("weight", "bias")
    transposed: bool = False

    def places(self, stacks: Mapping[str, int], norm: str) -> Iterator[Place]:
        """Yield the parameters of stacks of layers, given by their numbers of layers."""
        for stack, layers in stacks.items():
            theirs = "decoder" if stack == "stack" else stack
            for layer in range(layers):
                numbers = {"stack": theirs, "layer": layer, "next": layer + 1}
                for part, add_norm, names in self._parts(stack):
                    for ours, others in names.items():
                        modules = [
                            f"{stack}.layers.{layer}.{part}.{each}"
                            if each != "norm"
                            else f"{stack}.layers.{layer}.{add_norm}.norm"
                            for each in ours.split()
                        ]
                        named = [f"{self.layer}{each}" for each in others.split()]
                        yield from self._module(modules, named, numbers)
            if norm == "pre":
                yield from self._module([f"{stack}.norm"], [self.final], {"stack": theirs})

    def _parts(self, stack: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
        tables = (self.attention, self.cross)
        for (part, add_norm), names in zip(_ATTENTIONS[stack].items(), tables, strict=False):
            yield part, add_norm, names
        yield "feedforward", "add_norm_feedforward", self.feedforward

    def _module(
        self, ours: list[str], theirs: list[str], numbers: Mapping[str, object]
    ) -> Iterator[Place]:
        is_norm = ours[0].endswith(".norm")
        ends = self.norm_ends if is_norm else self.ends
        for end, other in zip(("weight", "bias"), ends, strict=True):
            yield Place(
                tuple(f"{each}.{end}" for each in ours),
                tuple(each.format(**numbers, end=other) for each in theirs),
                self.transposed and end == "weight" and not is_norm,
            )


def _unpacked(matrix: str, norm: str, output: str) -> dict[str, str]:
    """Return the names of an attention with a matrix each for queries, keys and values."""
    query, key, value, last = (matrix.format(each) for each in ("q", "k", "v", output))
    return {"query": query, "key_value": f"{key} {value}", "output": last, "norm": norm}


BART = Table(
    layer="model.{stack}.layers.{layer}.",
    final="model.{stack}.layer_norm.{end}",
    attention=_unpacked("self_attn.{}_proj.{{end}}", "self_attn_layer_norm.{end}", "out"),
    cross=_unpacked("encoder_attn.{}_proj.{{end}}", "encoder_attn_layer_norm.{end}", "out"),
    feedforward={"inner": "fc1.{end}", "outer": "fc2.{end}", "norm": "final_layer_norm.{end}"},
)
"""Hugging Face's BART family, to which Marian and Pegasus belong."""

MARIAN = Table(
    layer="{stack}_l{next}_",
    final="{stack}_top_ln_{end}",
    attention=_unpacked("self_{{end}}{}", "self_Wo_ln_{end}", "o"),
    cross=_unpacked("context_{{end}}{}", "context_Wo_ln_{end}", "o"),
    feedforward={"inner": "ffn_{end}1", "outer": "ffn_{end}2", "norm": "ffn_ffn_ln_{end}"},
    ends=("W", "b"),
    norm_ends=("scale", "bias"),
    transposed=True,
)
"""Marian itself. The names of norms before a sublayer end in `_pre` there, which is left out."""

CTRANSLATE2 = Table(
    layer="{stack}/layer_{layer}/",
    final="{stack}/layer_norm/{end}",
    attention={
        "query key_value": "self_attention/linear_0/{end}",
        "output": "self_attention/linear_1/{end}",
        "norm": "self_attention/layer_norm/{end}",
    },
    cross={
        "query": "attention/linear_0/{end}",
        "key_value": "attention/linear_1/{end}",
        "output": "attention/linear_2/{end}",
        "norm": "attention/layer_norm/{end}",
    },
    feedforward={
        "inner": "ffn/linear_0/{end}",
        "outer": "ffn/linear_1/{end}",
        "norm": "ffn/layer_norm/{end}",
    },
    norm_ends=("gamma", "beta"),
)
"""CTranslate2."""

GPT2 = Table(
    layer="transformer.h.{layer}.",
    final="transformer.ln_f.{end}",
    attention={
        "query key_value": "attn.c_attn.{end}",
        "output": "attn.c_proj.{end}",
        "norm": "ln_1.{end}",
    },
    feedforward={"inner": "mlp.c_fc.{end}", "outer": "mlp.c_proj.{end}", "norm": "ln_2.{end}"},
    transposed=True,
)
"""Hugging Face's GPT-2. Its layers are convolutions of width 1, so matrices are transposed.

Reference:
    Radford et al. 2019, section 2.3; `GPT2LMHeadModel` of transformers.
"""


def translation_places(
    table: Table,
    config: TransformerConfig,
    matrices: Sequence[str],
    bias: str,
    rows: Sequence[Rows | None],
) -> list[Place]:
    """Return all parameters of a translation model, with the rows of source and target.

    `matrices` are the names of the matrices of source, target and output, and `bias` is that of the
    output bias.
    """
    sides = (rows[0], rows[1], rows[1])
    ours = ("source_embeddings.weight", "target_embeddings.weight", "projection.weight")
    return [
        *table.places(
            {"encoder": config.encoder_layers, "decoder": config.decoder_layers}, config.norm
        ),
        *(
            Place((mine,), (theirs,), rows=side)
            for mine, theirs, side in zip(ours, matrices, sides, strict=True)
        ),
        Place(("projection.bias",), (bias,), rows=rows[1], absent=ABSENT),
    ]


def to_foreign(places: Iterable[Place], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by a toolkit's names."""
    found: dict[str, Tensor] = {}
    for place in places:
        joined = torch.cat([weights[each] for each in place.ours])
        if place.rows is not None:
            joined = to_rows(joined, place.rows)
        parts = joined.chunk(len(place.theirs))
        found |= {
            name: (part.T if place.transposed else part).contiguous()
            for name, part in zip(place.theirs, parts, strict=True)
        }
    return found


def from_foreign(
    places: Iterable[Place], found: Mapping[str, Tensor], like: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the parameters of a model, whose sizes `like` has, from a toolkit's weights."""
    weights: dict[str, Tensor] = {}
    for place in places:
        parts = [found[each].T if place.transposed else found[each] for each in place.theirs]
        joined = torch.cat(parts)
        if place.rows is not None:
            joined = from_rows(joined, place.rows, place.absent)
        sizes = [len(like[each]) for each in place.ours]
        weights |= {
            name: part.contiguous()
            for name, part in zip(place.ours, joined.split(sizes), strict=True)
        }
    return weights


def to_rows(ours: Tensor, rows: Rows) -> Tensor:
    """Return the rows of a matrix in the order of a foreign vocabulary."""
    known = [(row, index) for index, row in enumerate(rows) if row is not None]
    return ours[torch.tensor([index for _, index in sorted(known)])]


def from_rows(theirs: Tensor, rows: Rows, absent: float) -> Tensor:
    """Return the rows of a foreign matrix in crosshead's order."""
    found = theirs[torch.tensor([row or 0 for row in rows])]
    found[torch.tensor([row is None for row in rows])] = absent
    return found


def all_parameters(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of a model, shared ones under each of their names."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: parameter.detach() for name, parameter in named}


def with_repeated_heads(model: Model) -> dict[str, Tensor]:
    """Return all parameters by name, with as many heads of keys and values as of queries."""
    config, found = model.config, all_parameters(model)
    assert isinstance(config, StackConfig)
    kv_heads = config.kv_heads or config.heads
    for name in [each for each in found if ".key_value." in each]:
        heads = found[name].unflatten(0, (2, kv_heads, config.key_width))
        repeated = heads.repeat_interleave(config.heads // kv_heads, 1)
        found[name] = repeated.flatten(0, 2)
    return found


SHARED, LOGITS_BIAS, OUTPUT = "model.shared.weight", "final_logits_bias", "lm_head.weight"
"""The names of the joint embeddings, of the output bias and of the output projection."""

EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
"""The names of the embeddings of each side."""

TABLES = tuple(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder"))
"""The names of the tables of positions."""


ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
}
"""Activations by Hugging Face's names, of which exports take the first."""


def activation_name(activation: str) -> str:
    """Return Hugging Face's name of an activation."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def bart_matrices(config: TransformerConfig) -> list[str]:
    """Return the names of the matrices of source, target and output; equal names are one matrix."""
    if config.tie == "three-way":
        return [SHARED] * 3
    return [*EMBEDDINGS, EMBEDDINGS[1] if config.tie == "two-way" else OUTPUT]


def bart_places(config: TransformerConfig, rows: Sequence[Rows]) -> list[Place]:
    """Return all parameters of a model of the family."""
    return translation_places(BART, config, bart_matrices(config), LOGITS_BIAS, rows)


def to_bart(
    config: TransformerConfig, weights: Mapping[str, Tensor], rows: Sequence[Rows]
) -> dict[str, Tensor]:
    """Return the weights of a model under the family's names; without an output bias, it is 0."""
    weights = {"projection.bias": torch.zeros(len(rows[1])), **weights}
    found = to_foreign(bart_places(config, rows), weights)
    return {**found, LOGITS_BIAS: found[LOGITS_BIAS][None]}


TOKENS, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"
GPT2_OUTPUT = "lm_head.weight"
"""The names of the matrices of tokens, of positions and of the output projection."""

TABLE = "embeddings.positions.table"
"""The name of the matrix of positions in crosshead."""


def is_tied(config: LanguageConfig) -> bool:
    """Return whether the matrix of tokens is also the output projection in GPT-2.

    Embeddings that crosshead multiplies by sqrt(d_model) are another matrix.
    """
    return config.tie and not config.scale_embeddings


def gpt2_places(config: LanguageConfig, rows: Rows) -> list[Place]:
    """Return all parameters of a model."""
    return [
        *GPT2.places({"stack": config.layers}, "pre"),
        Place(("embeddings.weight",), (TOKENS,), rows=rows),
        Place((TABLE,), (POSITIONS,)),
        Place(("projection.weight",), (TOKENS if is_tied(config) else GPT2_OUTPUT,), rows=rows),
    ]


def to_gpt2(
    config: LanguageConfig, weights: Mapping[str, Tensor], table: Tensor, rows: Rows
) -> dict[str, Tensor]:
    """Return the weights of a model under GPT-2's names, with a table of positions."""
    scale = config.d_model**0.5 if config.scale_embeddings else 1.0
    found = to_foreign(gpt2_places(config, rows), {**weights, TABLE: table})
    return {**found, TOKENS: found[TOKENS] * scale}
