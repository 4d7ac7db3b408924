"""Shared parts of importers: the checks of foreign values, and the last step to a bundle."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ConfigDict
from torch import Tensor

from crosshead.addons.interop.imports.reading import AGAIN, MIXED, ForeignModelError, explained
from crosshead.addons.interop.weights import (
    Place,
    Rows,
    all_parameters,
    from_foreign,
    to_foreign,
)
from crosshead.attention.positions import Pairing, Rate, sinusoidal
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.config import Config, shown, validate
from crosshead.errors import ConfigError
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer, JsonTokenizer

C = TypeVar("C", bound=Config)


def lost(settings: Iterable[tuple[str, Any]]) -> list[str]:
    """Return a note about each search setting that crosshead does not have."""
    return [
        f"the search setting {key} = {shown(value)} does not come along" for key, value in settings
    ]


class ForeignSettings(Config):
    """Settings of another toolkit, by its names: a table of those that the output depends on.

    Each has the values that crosshead can express, and the default of the toolkit.
    """

    model_config = ConfigDict(extra="ignore")


_SINUSOIDS: dict[str, tuple[Pairing, Rate]] = {
    "sinusoidal-halves": ("halves", "paper"),
    "sinusoidal-marian": ("halves", "tensor2tensor"),
    "sinusoidal": ("interleaved", "paper"),
}


def sinusoids(tables: Sequence[Tensor], width: int, tolerance: float = 1e-3) -> str | None:
    """Return the kind of positions whose sinusoids all tables hold, or None if it is another."""

    def holds(table: Tensor, pairing: Pairing, rate: Rate) -> bool:
        if table.dim() != 2 or table.shape[1] != width:
            return False
        own = sinusoidal(len(table), width, pairing=pairing, rate=rate)
        return torch.allclose(table.float(), own.float(), atol=tolerance)

    kinds = _SINUSOIDS.items()
    return next((name for name, kind in kinds if all(holds(each, *kind) for each in tables)), None)


def checked(config_class: type[C], values: Mapping[str, Any], where: Path | str) -> C:
    """Return a configuration of plain values."""
    try:
        return validate(config_class, dict(values), str(where))
    except ConfigError as error:
        raise ForeignModelError(f"{error}; this model cannot be imported") from None


def ordered(ids: Mapping[str, Any], where: Path) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids, which have no gaps."""
    by_text = {str(n): n for n in range(len(ids))}  # YAML has numbers as texts
    found = {
        by_text.get(index, -1) if isinstance(index, str) else index: piece
        for piece, index in ids.items()
        if type(index) in (int, str)
    }
    if not ids or found.keys() != set(by_text.values()):
        raise ForeignModelError(
            f"{where}: the ids of the {len(ids):,} pieces are not 0 to {len(ids) - 1:,}; {AGAIN}"
        )
    return [found[n] for n in range(len(ids))]


Control = tuple[int | None, int | None, int | None, int | None]
"""The ids of padding, begin, end and unknown in a foreign vocabulary; None for one it lacks."""


def vocabulary(pieces: list[str], control: Control, where: Path) -> ForeignVocabulary:
    """Return the vocabulary of a foreign model."""
    _, _, end, unknown = control
    if end is None or unknown is None:
        missing = "end token" if end is None else "piece <unk>"
        raise ForeignModelError(f"{where}: has no {missing}; this model cannot be imported")
    try:
        return ForeignVocabulary(tuple(pieces), control)
    except ValueError as error:
        raise ForeignModelError(f"{where}: {error}; {AGAIN}") from None


def zero_start(control: Control, vectors: Tensor, where: Path) -> str:
    """Return the token that a target begins with if its first vector is zero: "pad" or "bos".

    A token that the vocabulary lacks gets a zero vector.
    """
    for name, row in (("pad", control[0]), ("bos", control[1])):
        if row is None or not vectors[row : row + 1].any():
            return name
    raise ForeignModelError(
        f"{where}: targets begin with a zero vector, but those of padding and begin are not zero"
    )


@explained()
def translation_bundle(
    config: TransformerConfig,
    models: Sequence[bytes],
    vocabularies: Sequence[ForeignVocabulary],
    places: Callable[[list[Rows]], list[Place]],
    weights: Mapping[str, Tensor],
    where: Path,
    languages: tuple[str | None, str | None],
    **settings: Any,
) -> TextBundle:
    """Return the bundle of a foreign translation model: see `text_bundle`.

    `models` are the serialised SentencePiece models of source and target.
    """
    settings |= dict(zip(("source_language", "target_language"), languages, strict=True))
    source, target = (
        ImportedTokenizer(model, vocabulary, where.parent)
        for model, vocabulary in zip(models, vocabularies, strict=True)
    )
    is_joint = models[0] == models[1] and vocabularies[0] == vocabularies[1]
    tokenizers = (source, source if is_joint else target)
    return text_bundle(config, tokenizers, places, weights, where, **settings)


def text_bundle(
    config: TransformerConfig | LanguageConfig,
    tokenizers: tuple[ImportedTokenizer | JsonTokenizer, ImportedTokenizer | JsonTokenizer],
    places: Callable[[list[Rows]], list[Place]],
    weights: Mapping[str, Tensor],
    where: Path,
    **settings: Any,
) -> TextBundle:
    """Return the bundle of a foreign model, whose weights have the places of a toolkit.

    `places` receives the foreign ids of the tokens of both sides. `settings` are those of the
    bundle: its origin, its search and its longest source, which has no end token.
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
