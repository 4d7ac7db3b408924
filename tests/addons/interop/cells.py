"""One cell of the table of options and formats: exported and compared, or refused."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from crosshead.addons.interop.base import Export, Foreign
from crosshead.addons.interop.formats import check_expressible
from crosshead.addons.interop.verify import Comparison, compare_export
from crosshead.bundle.text_bundle import TextBundle
from crosshead.errors import ConfigError
from crosshead.models.attention_kinds import POSITIONS, SCORES
from tests.addons.interop.small_bundles import TEXT, small_bundle
from tests.parameters import mostly_slow


class Example(NamedTuple):
    """Settings of a small model and of its tokenizer."""

    model: Mapping[str, Any] = {}
    tokenizer: Mapping[str, Any] = {}


def _valued(key: str, *values: object, **others: object) -> dict[str, Example]:
    return {
        f"model.{key} = {str(value).lower()}": Example({key: value, **others}) for value in values
    }


def _tokenizers(*kinds: str) -> dict[str, Example]:
    return {f"tokenizer.kind = {kind}": Example({}, {"kind": kind}) for kind in kinds}


_STACK = {
    **_valued("norm", "post", "pre"),
    "model.norm_eps other than 1e-5": Example({"norm_eps": 1e-3}),
    **_valued("activation", "relu", "gelu", "gelu-tanh", "swish"),
    **_valued("score", *SCORES),
    **_valued("positions", *POSITIONS),
    **_valued("pattern", "window", radius=2),
    **_valued("pattern", "dilated", radius=2, dilation=2),
    **_valued("pattern", "strided", stride=3),
    **_valued("pattern", "fixed", stride=3, columns=1),
    "model.kv_heads below model.heads": Example({"kv_heads": 2}),
    "model.d_key or model.d_value other than d_model / heads": Example({"d_key": 6, "d_value": 6}),
    "model.d_key other than model.d_value": Example({"d_key": 6, "d_value": 4}),
    "an odd model.d_model": Example({"d_model": 15, "heads": 3}),
}

EXAMPLES = {
    **_STACK,
    **_valued("tie", "three-way", "two-way", "none"),
    "model.norm = pre with model.tie other than three-way": Example(
        {"norm": "pre", "tie": "two-way"}
    ),
    **_valued("output_bias", True),
    **_valued("start", "bos", "pad"),
    **_tokenizers("bpe", "unigram", "words", "characters", "bytes", "sentencepiece"),
    "an imported vocabulary without padding or start": Example(
        {"start": "pad"}, {"kind": "sentencepiece", "padding": False}
    ),
    "tokenizer.joint = false": Example({"tie": "none"}, {"joint": False}),
    "several target languages": Example({}, {"special": ["<2de>", "<2fr>"]}),
    "unknown languages": Example(),
}
"""Small translation models by the name of an option that they have."""

LANGUAGE_EXAMPLES = {
    **_STACK,
    **_valued("tie", False, True),
    **_valued("scale_embeddings", True, False),
    **_valued("output_bias", True),
    "model.absent": Example({"absent": [1]}),
    **_tokenizers("bpe", "unigram", "words", "characters", "bytes", "tokenizer-json"),
    "tokenizer.special": Example({}, {"special": ["<2de>", "<|x|>"]}),
}
"""Small language models likewise."""

FORMATS = ("ctranslate2", "huggingface", "onnx", "argos")
"""The formats that each try all options in the slow tests; a default run has a quarter each."""

EXACT = 1e-5
"""The largest difference of a log-probability in an exact export of a small model."""


def examples_of(form: Export) -> dict[str, Example]:
    return LANGUAGE_EXAMPLES if form.architecture == "language" else EXAMPLES


def cells_of(form: Export) -> list[Any]:
    """All options as parameters of a test: by default an option is tried in one format."""
    names = list(examples_of(form))
    return mostly_slow(names, names[FORMATS.index(form.name) :: len(FORMATS)])


@cache
def bundle_with(name: str, architecture: str) -> TextBundle:
    """The small bundle of an option."""
    is_language = architecture == "language"
    model, tokenizer = (LANGUAGE_EXAMPLES if is_language else EXAMPLES)[name]
    return small_bundle(
        {
            "architecture": architecture,
            **({"positions": "learned"} if is_language else {}),
            **model,
        },
        tokenizer,
        languages=name == "several target languages",
        codes=name != "unknown languages",
        ends=False,
    )


def without_weights(architecture: str, configs: Mapping[str, Any]) -> Any:
    """A bundle of a model that may read no text."""
    return SimpleNamespace(config=SimpleNamespace(model=configs[architecture]()))


def check_cell(
    form: Export,
    name: str,
    directory: Path,
    load: Callable[[TextBundle, Path], Foreign] | None = None,
) -> Comparison | None:
    """Check that a small model with an option is refused by name, or computes the same.

    Args:
        form: The export.
        name: The option.
        directory: An empty directory.
        load: Loads the export, instead of the library of the format.
    """
    lines = TEXT["source"][:3] if form.architecture == "language" else None
    bundle = bundle_with(name, form.architecture)
    if refused := form.refusals(bundle):
        said = {"model.norm_eps other than 1e-5": "model.norm_eps = 0.001"}
        widths = "model.d_key or model.d_value other than d_model / heads"
        said["model.d_key other than model.d_value"] = widths
        if form.name == "onnx":
            kind = "tokenizer.kind = sentencepiece"
            said["an imported vocabulary without padding or start"] = kind
        assert len(refused) == 1 and refused[0].startswith(f"{said.get(name, name)} (")
        with pytest.raises(ConfigError, match=f"^{form.name} cannot express ") as refusal:
            check_expressible(bundle, form)
        assert refused[0] in str(refusal.value)
        return None
    form.write(check_expressible(bundle, form), "float32", directory)
    found = compare_export(bundle, (load or form.load)(bundle, directory), lines, every_piece=True)
    assert found.largest_difference < EXACT and not found.misread
    return found
