"""The last step of every import: names and settings to a bundle."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from crosshead.addons.interop.bart import all_parameters, from_family, to_family
from crosshead.addons.interop.gpt2_weights import TABLE, from_gpt2, to_gpt2
from crosshead.addons.interop.imports.reading import MIXED, ForeignModelError, explained
from crosshead.bundle.origin import ImportOrigin
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.decoding.search import DecodeConfig
from crosshead.models.language import LanguageConfig, TransformerLanguageModel
from crosshead.models.registry import build_model
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer
from crosshead.text.json_tokenizer import JsonTokenizer


@dataclass(frozen=True)
class Imported:
    """A model of another toolkit as a bundle.

    Attributes:
        bundle: The bundle.
        notes: Sentences about settings that do not come along.
    """

    bundle: TextBundle
    notes: list[str] = field(default_factory=list)


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
    weights: Mapping[str, Tensor],
    origin: ImportOrigin,
    where: Path,
) -> TextBundle:
    """Return the bundle of a foreign translation model."""
    tokenizers = [
        ImportedTokenizer(model, vocabulary, where.parent)
        for model, vocabulary in zip(text.models, text.vocabularies, strict=True)
    ]
    sizes = [each.vocab_size for each in tokenizers]
    rows = [each.rows for each in text.vocabularies]
    build = partial(build_model, config, *sizes)
    model = build_without_memory(build)
    assert isinstance(model, Transformer)
    check_tensors(to_family(config, all_parameters(model), rows), weights, where)
    found = from_family(config, {name: _float32(each) for name, each in weights.items()}, rows)
    assign_weights(model, {name: found[name] for name, _ in model.named_parameters()})
    joint = text.models[0] == text.models[1] and text.vocabularies[0] == text.vocabularies[1]
    settings = TextBundleConfig(
        model=config,
        joint_tokenizer=joint,
        source_vocabulary=sizes[0],
        target_vocabulary=sizes[1],
        longest_source=text.longest_source,
        decode=text.decode,
        source_language=text.languages[0],
        target_language=text.languages[1],
        origin=origin,
    )
    if joint:
        tokenizers = [tokenizers[0]] * 2
    return TextBundle(settings, model.eval(), *tokenizers)


def language_bundle(
    config: LanguageConfig,
    tokenizer: JsonTokenizer,
    weights: Mapping[str, Tensor],
    decode: DecodeConfig,
    origin: ImportOrigin,
    where: Path,
) -> TextBundle:
    """Return the bundle of a foreign language model."""
    size, rows = tokenizer.vocab_size, tokenizer.vocabulary.rows
    model = build_without_memory(partial(build_model, config, size, size))
    assert isinstance(model, TransformerLanguageModel)
    parameters = all_parameters(model)
    check_tensors(to_gpt2(config, parameters, parameters[TABLE], rows), weights, where)
    found = from_gpt2(config, {name: _float32(each) for name, each in weights.items()}, rows)
    assign_weights(model, {name: found[name] for name, _ in model.named_parameters()})
    settings = TextBundleConfig(
        task=config.task,
        model=config,
        joint_tokenizer=True,
        source_vocabulary=size,
        target_vocabulary=size,
        longest_source=len(found[TABLE]),
        decode=decode,
        origin=origin,
    )
    return TextBundle(settings, model.eval(), tokenizer, tokenizer)


def check_tensors(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], where: Path) -> None:
    """Check that tensors have the expected names and shapes, and are finite numbers in float32."""
    for name in sorted(expected.keys() | found.keys()):
        shown = f"{where}: tensor {name[:100]!a}"
        if name not in found:
            raise ForeignModelError(
                f"{shown} is missing, but the configuration describes it: {MIXED}"
            )
        if name not in expected:
            raise ForeignModelError(
                f"{shown} is no part of the model that its configuration describes: {MIXED}"
            )
        left, right = list(expected[name].shape), list(found[name].shape)
        if left != right:
            raise ForeignModelError(
                f"{shown} has shape {right}, expected {left} as the configuration says: {MIXED}"
            )
        if not found[name].is_floating_point():
            dtype = str(found[name].dtype).removeprefix("torch.")
            raise ForeignModelError(
                f"{shown} is {dtype}, expected floating-point numbers: quantized weights cannot be "
                "imported; import the model before quantization"
            )
        if not torch.isfinite(_float32(found[name])).all():
            raise ForeignModelError(
                f"{shown} holds numbers that are not finite in float32; the model is damaged, and "
                "cannot be imported"
            )


def _float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32)
