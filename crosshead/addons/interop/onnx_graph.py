"""The encoder and the decoder of a Transformer as ONNX graphs.

The weights come under the names of Hugging Face's BART family (`BART` in `weights.py`). There is
one graph for every step of the decoder, without subgraphs: it cuts the past to length zero where
`use_cache_branch` is false, and projects the encoder's output only if no keys of it are given.

Axes: `B` batch, `H` heads, `S` source positions, `T` given target positions, `P` cached target
positions, `D` width, `E` width of a head, `V` vocabulary.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from crosshead.addons.interop.ctranslate2_layers import numbers, position_table
from crosshead.addons.interop.onnx_nodes import Nodes, Positions, Span, positions_of
from crosshead.addons.interop.weights import LOGITS_BIAS, bart_matrices
from crosshead.layers.embeddings import Embeddings
from crosshead.models.transformer import Transformer

OPSET = 20
"""The version of ONNX's operators: the first with GELU."""

_MASKED = 1e9
"""The number that is subtracted from the scores of masked positions."""


@dataclass(frozen=True)
class Weights:
    """The numbers of a model.

    Attributes:
        model: The model, for its shape and its positions.
        family: Its weights by the names of the family.
        length: The number of positions of tables, unless the model has learned another number.
    """

    model: Transformer
    family: Mapping[str, Tensor]
    length: int


def encoder_graph(weights: Weights) -> bytes:
    """Return the encoder: token ids and padding mask to hidden states, "B S D"."""
    graph, model = _Graph(weights), weights.model
    shape = ["batch_size", "encoder_sequence_length"]
    padding = graph.padding_bias("attention_mask")
    span = Span(graph, graph.whole("zero", [0]), graph.size("input_ids", 1))
    name, _, _ = bart_matrices(model.config)
    x = graph.embedded(name, "input_ids", model.source_embeddings, span)
    positions = positions_of(model.encoder.layers[0].attention, graph, span, weights.length)
    for layer in range(model.config.encoder_layers):
        prefix = f"model.encoder.layers.{layer}"
        name = f"{prefix}.self_attn"
        y = graph.before(x, f"{name}_layer_norm")
        query, key, value = (graph.projected(y, name, each) for each in "qkv")
        query, key = positions.rotated(query), positions.rotated(key)
        y = graph.attended(query, key, value, padding, name, positions)
        x = graph.after(x, y, f"{name}_layer_norm")
        x = graph.feedforward(x, prefix)
    x = graph.before(x, "model.encoder.layer_norm")
    graph.add("Identity", [x], "last_hidden_state")
    whole, real = graph.types.INT64, graph.types.FLOAT
    return graph.serialized(
        "encoder",
        {"input_ids": (whole, shape), "attention_mask": (whole, shape)},
        {"last_hidden_state": (real, [*shape, model.config.d_model])},
    )


def decoder_graph(weights: Weights) -> bytes:
    """Return the decoder: given target tokens, encoder output and past to logits, "B T V".

    Its inputs and outputs have the names that optimum and transformers.js give the merged decoder.
    """
    graph, model, config = _Graph(weights), weights.model, weights.model.config
    _, name, output = bart_matrices(config)
    past = _Past(graph)
    length = graph.size("input_ids", 1)
    span = Span(graph, past.length, graph.add("Add", [past.length, length]))
    x = graph.embedded(name, "input_ids", model.target_embeddings, span)
    causal = graph.causal_bias(span)
    padding = graph.padding_bias("encoder_attention_mask")
    positions = positions_of(model.decoder.layers[0].self_attention, graph, span, weights.length)
    for layer in range(config.decoder_layers):
        prefix = f"model.decoder.layers.{layer}"
        name = f"{prefix}.self_attn"
        y = graph.before(x, f"{name}_layer_norm")
        query, key, value = (graph.projected(y, name, each) for each in "qkv")
        keys = past.extended(layer, "decoder", "key", positions.rotated(key))
        values = past.extended(layer, "decoder", "value", value)
        y = graph.attended(positions.rotated(query), keys, values, causal, name, positions)
        x = graph.after(x, y, f"{name}_layer_norm")
        name = f"{prefix}.encoder_attn"
        y = graph.before(x, f"{name}_layer_norm")
        keys, values = (
            past.extended(layer, "encoder", each, graph.projected(past.new_source, name, each[0]))
            for each in ("key", "value")
        )
        query = graph.projected(y, name, "q")
        y = graph.attended(query, keys, values, padding, name, Positions())
        x = graph.after(x, y, f"{name}_layer_norm")
        x = graph.feedforward(x, prefix)
    vocabulary = graph.logits(graph.before(x, "model.decoder.layer_norm"), output, length)
    whole, real = graph.types.INT64, graph.types.FLOAT
    states = ["batch_size", "encoder_sequence_length"]
    tokens = ["batch_size", "decoder_sequence_length"]
    return graph.serialized(
        "decoder",
        {
            "encoder_attention_mask": (whole, states),
            "input_ids": (whole, tokens),
            "encoder_hidden_states": (real, [*states, config.d_model]),
            **past.values("past_key_values", "past_{}_sequence_length"),
            "use_cache_branch": (graph.types.BOOL, [1]),
        },
        {
            "logits": (real, [*tokens, vocabulary]),
            **past.values("present", "present_{}_sequence_length"),
        },
    )


class _Graph(Nodes):
    """A graph with the parts that encoder and decoder share."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(OPSET)
        self.config = weights.model.config
        self._weights, self._family = weights, weights.family

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """Return a weight of the family as a constant."""
        data = numbers(self._family[name])
        return self.tensor(f"{name}.T" if transposed else name, data.T if transposed else data)

    def size(self, x: str, axis: int) -> str:
        """Return the size of an axis, as a tensor of one whole number."""
        return self.add("Shape", [x], start=axis, end=axis + 1)

    def embedded(self, name: str, rows: str, embeddings: Embeddings, span: Span) -> str:
        """Return the vectors of tokens with their added positions, "B T D"."""
        scale = self.number("embedding_scale", math.sqrt(self.config.d_model))
        x = self.add("Mul", [self.add("Gather", [self.weight(name), rows]), scale])
        table = position_table(embeddings, self._weights.length)
        if table is None:
            return x
        return self.add("Add", [x, span.rows(self.tensor("positions", table))])

    def linear(self, x: str, name: str) -> str:
        """Return x W^T + b."""
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", transposed=True)])
        return self.add("Add", [product, self.weight(f"{name}.bias")])

    def norm(self, x: str, name: str) -> str:
        """Return the layer normalisation of x."""
        inputs = [x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.add("LayerNormalization", inputs, axis=-1, epsilon=self.config.norm_eps)

    def before(self, x: str, norm: str) -> str:
        """Return what a sublayer or the output reads: x, or its norm in a pre-norm model."""
        return self.norm(x, norm) if self.config.norm == "pre" else x

    def after(self, x: str, y: str, norm: str) -> str:
        """Return the sum of x and a sublayer's output y, or its norm in a post-norm model."""
        total = self.add("Add", [x, y])
        return total if self.config.norm == "pre" else self.norm(total, norm)

    def feedforward(self, x: str, prefix: str) -> str:
        """Return x after the feed-forward sublayer."""
        norm = f"{prefix}.final_layer_norm"
        inner = self._activated(self.linear(self.before(x, norm), f"{prefix}.fc1"))
        return self.after(x, self.linear(inner, f"{prefix}.fc2"), norm)

    def projected(self, x: str, prefix: str, letter: str) -> str:
        """Return the queries (q), keys (k) or values (v) of "B T D" as "B H T E"."""
        heads = self.config.heads
        shape = self.whole("split", [0, 0, heads, self.config.d_model // heads])
        split = self.add("Reshape", [self.linear(x, f"{prefix}.{letter}_proj"), shape])
        return self.add("Transpose", [split], perm=[0, 2, 1, 3])

    def attended(
        self, query: str, key: str, value: str, bias: str, prefix: str, positions: Positions
    ) -> str:
        """Return the output of an attention, "B T D"."""
        width = self.config.d_model // self.config.heads
        scale = self.number("attention_scale", width**-0.5)
        scaled = self.add("Mul", [query, scale])
        products = self.add("MatMul", [scaled, self.add("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = positions.scored(products)
        weights = self.add("Softmax", [self.add("Add", [scores, bias])], axis=-1)
        sums = self.add("MatMul", [weights, value])
        both = self.add("Transpose", [sums], perm=[0, 2, 1, 3])
        joined = self.add("Reshape", [both, self.whole("join", [0, 0, self.config.d_model])])
        return self.linear(joined, f"{prefix}.out_proj")

    def padding_bias(self, mask: str) -> str:
        """Return the bias of a padding mask, "B 1 1 S", in which 1 means may attend."""
        real = self.add("Cast", [mask], to=self.types.FLOAT)
        axes = self.whole("heads_and_queries", [1, 2])
        return self._bias(self.add("Unsqueeze", [real, axes]))

    def causal_bias(self, span: Span) -> str:
        """Return the bias by which a position sees itself and earlier ones, "T K"."""
        allowed = self.add("GreaterOrEqual", [span.distances, self.whole("zero", [0])])
        return self._bias(self.add("Cast", [allowed], to=self.types.FLOAT))

    def logits(self, x: str, name: str, length: str) -> int:
        """Add the output `logits`, "B T V", and return V."""
        size = len(self._family[name])
        rows = self.add("Reshape", [x, self.whole("rows", [-1, self.config.d_model])])
        bias = self.tensor(LOGITS_BIAS, numbers(self._family[LOGITS_BIAS][0]))
        # The matrix is not transposed on disk, so that it is the target embedding if both are tied.
        flat = self.add("Gemm", [rows, self.weight(name), bias], transB=1)
        parts = [self.whole("all", [-1]), length, self.whole("vocabulary", [size])]
        self.add("Reshape", [flat, self.add("Concat", parts, axis=0)], "logits")
        return size

    def _bias(self, allowed: str) -> str:
        """Return 0 for 1, and a large negative number for 0."""
        missing = self.add("Sub", [allowed, self.number("one", 1.0)])
        return self.add("Mul", [missing, self.number("masked", _MASKED)])

    def _activated(self, x: str) -> str:
        """Return the activation of x."""
        match self.config.activation:
            case "relu":
                return self.add("Relu", [x])
            case "swish":
                return self.add("Mul", [x, self.add("Sigmoid", [x])])
            case kind:
                return self.add("Gelu", [x], approximate="tanh" if kind == "gelu-tanh" else "none")


class _Past:
    """The keys and values of the decoder's earlier calls: inputs, and outputs for the next call."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        use = graph.add("Cast", ["use_cache_branch"], to=graph.types.INT64)
        self._kept = graph.add("Mul", [use, graph.whole("most", [sys.maxsize])])
        self._time = graph.whole("time", [2])
        self._zero = graph.whole("zero", [0])
        self._cut: dict[str, str] = {}
        self.length = graph.size(self._past(0, "decoder", "key"), 2)
        """The number of cached target positions, P."""
        known = graph.size(self._past(0, "encoder", "key"), 2)
        missing = graph.add("Sub", [graph.size("encoder_hidden_states", 1), known])
        self.new_source = graph.add(
            "Slice",
            ["encoder_hidden_states", self._zero, missing, graph.whole("second_axis", [1])],
        )
        """The part of the encoder's output that has no keys yet: all of it, or nothing."""

    def extended(self, layer: int, side: str, name: str, new: str) -> str:
        """Return keys or values of the past with new ones, which are also an output, "B H K E"."""
        earlier = self._past(layer, side, name)
        return self._graph.add("Concat", [earlier, new], f"present.{layer}.{side}.{name}", axis=2)

    def values(self, name: str, length: str) -> dict[str, tuple[int, list[int | str]]]:
        """Return type and shape of all keys and values."""
        config = self._graph.config
        width = config.d_model // config.heads
        return {
            f"{name}.{layer}.{side}.{each}": (
                self._graph.types.FLOAT,
                ["batch_size", config.heads, length.format(side), width],
            )
            for layer in range(config.decoder_layers)
            for side in ("decoder", "encoder")
            for each in ("key", "value")
        }

    def _past(self, layer: int, side: str, name: str) -> str:
        """Return keys or values of earlier calls, without positions if the cache is not used."""
        given = f"past_key_values.{layer}.{side}.{name}"
        if given not in self._cut:
            inputs = [given, self._zero, self._kept, self._time]
            self._cut[given] = self._graph.add("Slice", inputs)
        return self._cut[given]
