"""Marian's Transformer as its C++ code computes it, written down in NumPy, and random models of it.

Read from `src/models/transformer.h`, `src/models/decoder.h`, `src/layers/generic.h` and
`src/tensors/cpu` of marian-nmt: parameter names, the order of operations ("dan": dropout, add,
norm), sinusoids, and the zero vector that stands for the beginning of a target.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.addons.interop.sentencepieces import marian_vocabulary

Arrays = dict[str, np.ndarray[Any, Any]]

NORM_EPS = 1e-6
"""The epsilon of the norms of a Transformer: `layerNorm` of `src/layers/generic.h` passes it on."""


def settings(**changes: object) -> dict[str, object]:
    """The settings of a small model, under Marian's names, as Marian 1.12 stores them."""
    return {
        "type": "transformer", "dim-emb": 16, "enc-depth": 2, "dec-depth": 2,
        "transformer-heads": 4, "transformer-dim-ffn": 24, "transformer-ffn-depth": 2,
        "transformer-ffn-activation": "swish", "transformer-decoder-autoreg": "self-attention",
        "transformer-preprocess": "", "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d", "transformer-postprocess-top": "",
        "transformer-tied-layers": [], "transformer-no-projection": False,
        "transformer-train-position-embeddings": False, "transformer-depth-scaling": False,
        "tied-embeddings-all": True, "tied-embeddings": False, "tied-embeddings-src": False,
        "input-types": [], "ulr": False, "right-left": False, "output-omit-bias": False,
        "lemma-dim-emb": 0, "lemma-dependency": "", "factors-combine": "sum", "factors-dim-emb": 0,
        "transformer-alibi-shift": False, "transformer-alibi-trainable": False,
        "transformer-disable-position-embeddings": False,
        **changes,
    }  # fmt: skip


def random_arrays(options: dict[str, object], vocabulary: int, seed: int = 0) -> Arrays:
    """All parameters of a model, random, under Marian's names and with Marian's shapes."""
    rng = np.random.default_rng(seed)
    width, inner = int(str(options["dim-emb"])), int(str(options["transformer-dim-ffn"]))
    pre = "_pre" if options["transformer-preprocess"] == "n" else ""
    found: Arrays = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        found[name] = rng.normal(size=(rows, columns)) * rows**-0.5

    def norm(name: str, suffix: str) -> None:
        found[f"{name}_ln_scale{suffix}"] = 1 + 0.1 * rng.normal(size=(1, width))
        found[f"{name}_ln_bias{suffix}"] = 0.1 * rng.normal(size=(1, width))

    shared = options["tied-embeddings-all"] or options["tied-embeddings-src"]
    for name in ["Wemb"] if shared else ["encoder_Wemb", "decoder_Wemb"]:
        found[name] = rng.normal(size=(vocabulary, width)) * width**-0.5
    for side, depth in (("encoder", options["enc-depth"]), ("decoder", options["dec-depth"])):
        for layer in range(1, int(str(depth)) + 1):
            for kind in ("self",) if side == "encoder" else ("self", "context"):
                prefix = f"{side}_l{layer}_{kind}"
                for letter in "qkvo":
                    matrix(f"{prefix}_W{letter}", width, width)
                    found[f"{prefix}_b{letter}"] = 0.1 * rng.normal(size=(1, width))
                norm(f"{prefix}_Wo", pre)
            prefix = f"{side}_l{layer}_ffn"
            matrix(f"{prefix}_W1", width, inner)
            matrix(f"{prefix}_W2", inner, width)
            found[f"{prefix}_b1"] = 0.1 * rng.normal(size=(1, inner))
            found[f"{prefix}_b2"] = 0.1 * rng.normal(size=(1, width))
            norm(f"{prefix}_ffn", pre)
        if options["transformer-postprocess-top"] == "n":
            norm(f"{side}_top", "")
    if not (options["tied-embeddings-all"] or options["tied-embeddings"]):
        matrix("decoder_ff_logit_out_W", width, vocabulary)
    found["decoder_ff_logit_out_b"] = 0.3 * rng.normal(size=(1, vocabulary))
    return {name: each.astype(np.float32) for name, each in found.items()}


def with_a_small_norm(arrays: Arrays) -> Arrays:
    """The same post-norm model, but one norm sees a variance of about 1e-6, and its epsilon counts.

    The norm after the first self-attention of the encoder has a scale of 1e-3, and so has the
    feed-forward network between it and the next norm.
    """
    small = ("self_Wo_ln_scale", "self_Wo_ln_bias", "ffn_W2", "ffn_b2")
    return {
        name: each * np.float32(1e-3) if name in {f"encoder_l1_{end}" for end in small} else each
        for name, each in arrays.items()
    }


def write_model(
    directory: Path, options: dict[str, object], arrays: Arrays, spms: Sequence[bytes]
) -> dict[str, int]:
    """Write the files of an OPUS-MT model, and return its vocabulary."""
    directory.mkdir(parents=True, exist_ok=True)
    ids = marian_vocabulary(*spms, more=["no", "1e3"])
    del ids["<pad>"]
    write_arrays(directory, options, arrays)
    lines = [f"{json.dumps(piece)}: {index}" for piece, index in ids.items()]
    (directory / "opus.vocab.yml").write_text("\n".join(lines), encoding="utf-8")
    for name, spm in zip(("source.spm", "target.spm"), spms, strict=True):
        (directory / name).write_bytes(spm)
    (directory / "decoder.yml").write_text(
        "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n  - opus.vocab.yml\n"
        "  - opus.vocab.yml\nbeam-size: 6\nnormalize: 1\nword-penalty: 0\n"
    )
    return ids


def write_arrays(directory: Path, options: dict[str, object], arrays: Arrays) -> None:
    """Write the parameters and the settings of a model."""
    text = json.dumps(options).encode() + b"\0"  # JSON is YAML
    special = {"special:model.yml": np.frombuffer(text, dtype=np.int8)}
    np.savez(directory / "model.npz", **arrays, **special)


class Equations:
    """Marian's computation of one sentence in float64.

    Args:
        options: The settings.
        arrays: The parameters.
    """

    def __init__(self, options: dict[str, object], arrays: Arrays) -> None:
        self.options = options
        self.p = {name: each.astype(np.float64) for name, each in arrays.items()}
        self.heads = int(str(options["transformer-heads"]))

    def log_probs(self, source: Sequence[int], target: Sequence[int]) -> np.ndarray[Any, Any]:
        """The log-probabilities of the next token after each prefix of a target."""
        memory = self._embed(self.p[self._name("encoder")][list(source)])
        for layer in range(1, int(str(self.options["enc-depth"])) + 1):
            memory = self._attend(memory, None, f"encoder_l{layer}_self")
            memory = self._feedforward(memory, f"encoder_l{layer}_ffn")
        memory = self._operate(memory, "", "encoder_top", "transformer-postprocess-top")
        table = self.p[self._name("decoder")]
        shifted = np.vstack([np.zeros((1, table.shape[1])), table[list(target)]])
        x = self._embed(shifted)
        for layer in range(1, int(str(self.options["dec-depth"])) + 1):
            x = self._attend(x, None, f"decoder_l{layer}_self", causal=True)
            x = self._attend(x, memory, f"decoder_l{layer}_context")
            x = self._feedforward(x, f"decoder_l{layer}_ffn")
        x = self._operate(x, "", "decoder_top", "transformer-postprocess-top")
        output = self.p.get("decoder_ff_logit_out_W")
        logits = x @ (table.T if output is None else output) + self.p["decoder_ff_logit_out_b"]
        shifted_logits = logits - logits.max(-1, keepdims=True)
        found: np.ndarray[Any, Any] = shifted_logits - np.log(
            np.exp(shifted_logits).sum(-1, keepdims=True)
        )
        return found

    def greedy(self, source: Sequence[int], most: int) -> list[int]:
        """The most probable tokens, up to the end or a number of tokens; `<unk>` is left out."""
        found: list[int] = []
        while len(found) < most:
            last = self.log_probs(source, found)[-1]
            last[1] = -np.inf
            token = int(last.argmax())
            if token == 0:
                break
            found.append(token)
        return found

    def _name(self, side: str) -> str:
        return "Wemb" if "Wemb" in self.p else f"{side}_Wemb"

    def _embed(self, vectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        length, width = vectors.shape
        half = width // 2
        positions = np.empty((length, width))
        for position in range(length):
            for n in range(half):
                angle = position * np.exp(n * -np.log(10000.0) / (half - 1))
                positions[position, n] = np.sin(angle)
                positions[position, half + n] = np.cos(angle)
        found: np.ndarray[Any, Any] = np.sqrt(width) * vectors + positions
        return found

    def _operate(
        self,
        x: np.ndarray[Any, Any],
        previous: Any,
        name: str,
        key: str,
        suffix: str = "",
    ) -> np.ndarray[Any, Any]:
        for operation in str(self.options[key]):
            if operation == "a":
                x = x + previous
            elif operation == "n":
                centred = x - x.mean(-1, keepdims=True)
                deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + NORM_EPS)
                scale, bias = (self.p[f"{name}_ln_{each}{suffix}"] for each in ("scale", "bias"))
                x = centred / deviation * scale + bias
        return x

    def _attend(
        self, x: np.ndarray[Any, Any], memory: Any, prefix: str, *, causal: bool = False
    ) -> np.ndarray[Any, Any]:
        y = self._operate(x, None, f"{prefix}_Wo", "transformer-preprocess", "_pre")
        keys = y if memory is None else memory
        q, k, v = (
            self._split(each @ self.p[f"{prefix}_W{n}"] + self.p[f"{prefix}_b{n}"])
            for each, n in ((y, "q"), (keys, "k"), (keys, "v"))
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        if causal:
            scores = scores + np.triu(np.full(scores.shape[1:], -1e8), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        joined = (weights @ v).transpose(1, 0, 2).reshape(len(x), -1)
        y = joined @ self.p[f"{prefix}_Wo"] + self.p[f"{prefix}_bo"]
        return self._operate(y, x, f"{prefix}_Wo", "transformer-postprocess")

    def _split(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return x.reshape(len(x), self.heads, -1).transpose(1, 0, 2)

    def _feedforward(self, x: np.ndarray[Any, Any], prefix: str) -> np.ndarray[Any, Any]:
        y = self._operate(x, None, f"{prefix}_ffn", "transformer-preprocess", "_pre")
        y = y @ self.p[f"{prefix}_W1"] + self.p[f"{prefix}_b1"]
        if self.options["transformer-ffn-activation"] == "swish":
            y = y / (1 + np.exp(-y))
        else:
            y = np.maximum(y, 0)
        y = y @ self.p[f"{prefix}_W2"] + self.p[f"{prefix}_b2"]
        return self._operate(y, x, f"{prefix}_ffn", "transformer-postprocess")
