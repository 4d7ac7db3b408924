"""What importers share: the checks of foreign values, and the last step to a bundle."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from crosshead.addons.interop.imports.reading import AGAIN, MIXED, ForeignModelError, explained
from crosshead.addons.interop.weights import (
    POSITIONS,
    Place,
    Rows,
    all_parameters,
    from_foreign,
    gpt2_places,
    to_foreign,
)
from crosshead.attention.positions import Pairing, Rate, sinusoidal
from crosshead.bundle.base import ImportOrigin
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.bundle.weights import assign_weights, build_without_memory
from crosshead.config import Config, validate
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.text.imported import ForeignVocabulary, ImportedTokenizer, JsonTokenizer

C = TypeVar("C", bound=Config)
V = TypeVar("V")


def shown(value: object) -> str:
    """Return a value for a message: short, and of lists in lists only their number of values."""
    if isinstance(value, dict):
        return f"a mapping of {len(value)} values"
    if isinstance(value, list) and (
        len(value) > 4 or any(isinstance(each, list | dict) for each in value)
    ):
        return f"a list of {len(value)} values"
    return f"{value!r:.60}"


def lost(settings: Iterable[tuple[str, Any]]) -> list[str]:
    """Return a note about each search setting that crosshead does not have."""
    return [
        f"the search setting {key} = {shown(value)} does not come along" for key, value in settings
    ]


def whole_number(values: Mapping[str, Any], key: str, where: Path | str) -> int:
    """Return a whole number of a foreign configuration."""
    found = values.get(key)
    if isinstance(found, str) and found.lstrip("-").isdecimal() and len(found) < 20:
        return int(found)
    if type(found) is not int:
        raise ForeignModelError(f"{where}: {key}: expected a whole number, found {shown(found)}")
    return found


def number(values: Mapping[str, Any], key: str, where: Path | str, usual: float) -> float:
    """Return a number of a foreign configuration."""
    found = usual if values.get(key) is None else values[key]
    if type(found) not in (int, float) or not abs(found) < 1e30:
        raise ForeignModelError(f"{where}: {key}: expected a number, found {shown(found)}")
    return float(found)


def truth(values: Mapping[str, Any], key: str, where: Path | str, usual: bool = False) -> bool:
    """Return a truth value of a foreign configuration; null is False, as in Python."""
    found = values.get(key, usual)
    if found is not None and type(found) is not bool:
        raise ForeignModelError(f"{where}: {key}: expected true or false, found {shown(found)}")
    return bool(found)


def check_values(
    values: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]], where: Path | str
) -> None:
    """Check that settings have accepted values, of which the first stands for a missing one."""
    for key, known in accepted.items():
        found = values.get(key, known[0])
        if found not in known:
            raise ForeignModelError(
                f"{where}: {key} is {shown(found)}, expected {' or '.join(map(repr, known))}; this "
                "model cannot be imported"
            )


def one_of(found: object, key: str, known: Mapping[Any, V], where: Path | str) -> V:
    """Return what a value of a foreign configuration stands for."""
    if isinstance(found, list | dict) or found not in known:
        raise ForeignModelError(
            f"{where}: {key} is {shown(found)}, expected {', '.join(map(repr, known))}; this model "
            "cannot be imported"
        )
    return known[found]


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


def token_id(values: Mapping[str, Any], key: str, where: Path | str) -> int | None:
    """Return the id of a token in a foreign configuration, or None if it has none."""
    return None if values.get(key) is None else whole_number(values, key, where)


def checked(config_class: type[C], values: dict[str, Any], where: Path) -> C:
    """Return a configuration of plain values."""
    try:
        return validate(config_class, values, str(where))
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
