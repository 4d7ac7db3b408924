"""The last step of every import: names and settings to a bundle."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crosshead.addons.interop.imports.reading import MIXED, ForeignModelError, explained
from crosshead.addons.interop.weights import (
    POSITIONS,
    Place,
    Rows,
    all_parameters,
    from_foreign,
    gpt2_places,
    to_foreign,
)
from crosshead.bundle.base import ImportOrigin
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.decoding.search import DecodeConfig
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer, JsonTokenizer


@dataclass(frozen=True)
class ForeignText:
    """The text side of a foreign translation model.

    Attributes:
        models: The serialised SentencePiece models of source and target.
        vocabularies: The vocabularies of source and target.
        languages: The language codes of source and target; None for an unknown one.
        longest_source: The largest number of source tokens, without the end token.
        decode: The search settings.
    """

    models: tuple[bytes, bytes]
    vocabularies: tuple[ForeignVocabulary, ForeignVocabulary]
    languages: tuple[str | None, str | None]
    longest_source: int
    decode: DecodeConfig


@explained()
def translation_bundle(
    config: TransformerConfig,
    text: ForeignText,
    places: Callable[[list[Rows]], list[Place]],
    weights: Mapping[str, Tensor],
    origin: ImportOrigin,
    where: Path,
) -> TextBundle:
    """Return the bundle of a foreign translation model: see `_bundle`."""
    source, target = (
        ImportedTokenizer(model, vocabulary, where.parent)
        for model, vocabulary in zip(text.models, text.vocabularies, strict=True)
    )
    if text.models[0] == text.models[1] and text.vocabularies[0] == text.vocabularies[1]:
        target = source
    settings = {
        "longest_source": text.longest_source,
        "decode": text.decode,
        "source_language": text.languages[0],
        "target_language": text.languages[1],
        "origin": origin,
    }
    return _bundle(config, (source, target), places, weights, settings, where)


def language_bundle(
    config: LanguageConfig,
    tokenizer: JsonTokenizer,
    weights: Mapping[str, Tensor],
    decode: DecodeConfig,
    origin: ImportOrigin,
    where: Path,
) -> TextBundle:
    """Return the bundle of a foreign language model, from weights by GPT-2's names."""
    longest = len(weights[POSITIONS]) if POSITIONS in weights else 0
    settings = {"longest_source": longest, "decode": decode, "origin": origin}

    def places(rows: list[Rows]) -> list[Place]:
        return gpt2_places(config, rows[0])

    return _bundle(config, (tokenizer, tokenizer), places, weights, settings, where)


def _bundle(
    config: TransformerConfig | LanguageConfig,
    tokenizers: tuple[ImportedTokenizer | JsonTokenizer, ImportedTokenizer | JsonTokenizer],
    places: Callable[[list[Rows]], list[Place]],
    weights: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    where: Path,
) -> TextBundle:
    """Return the bundle of a foreign model, whose weights have the places of a toolkit.

    `places` receives the foreign ids of the tokens of both sides.
    """
    sizes = [each.vocab_size for each in tokenizers]
    model = build_without_memory(partial(build_model, config, *sizes))
    parameters = all_parameters(model)
    known = places([each.vocabulary.rows for each in tokenizers])
    check_tensors(to_foreign(known, parameters), weights, where)
    theirs = {name: _float32(each) for name, each in weights.items()}
    found = from_foreign(known, theirs, parameters)
    assign_weights(model, {name: found[name] for name, _ in model.named_parameters()})
    bundle_config = TextBundleConfig(
        task=config.task,
        model=config,
        joint_tokenizer=tokenizers[0] is tokenizers[1],
        source_vocabulary=sizes[0],
        target_vocabulary=sizes[1],
        **settings,
    )
    return TextBundle(bundle_config, model.eval(), *tokenizers)


def check_tensors(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: Path) -> None:
    """Check that tensors have the expected names and shapes, and are finite numbers in float32."""
    for name in sorted(expected.keys() | found.keys()):
        if fault := _fault(expected.get(name), found.get(name)):
            raise ForeignModelError(f"{where}: tensor {name[:100]!a} {fault}")


def _fault(expected: Tensor | None, found: Tensor | None) -> str | None:
    if found is None:
        return f"is missing, but the configuration describes it: {MIXED}"
    if expected is None:
        return f"is no part of the model that its configuration describes: {MIXED}"
    if expected.shape != found.shape:
        shapes = f"{list(found.shape)}, expected {list(expected.shape)}"
        return f"has shape {shapes} as the configuration says: {MIXED}"
    if not found.is_floating_point():
        dtype = str(found.dtype).removeprefix("torch.")
        return f"is {dtype}, expected floating-point: import the model before quantization"
    if not torch.isfinite(_float32(found)).all():
        return "holds numbers that are not finite in float32; the model is damaged"
    return None


def _float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32)
