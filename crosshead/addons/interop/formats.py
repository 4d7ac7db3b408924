"""The foreign formats by name, and the refusal of what a format cannot express.

A package outside the repository adds a `Format` by an entry point in `crosshead.formats`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from crosshead.addons.interop.argos import ARGOS, read_package
from crosshead.addons.interop.base import Export, Format, Imported
from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, CTRANSLATE2_LANGUAGE
from crosshead.addons.interop.gpt2 import GPT2
from crosshead.addons.interop.huggingface import HUGGINGFACE
from crosshead.addons.interop.imports import ctranslate2, gpt2, huggingface, marian
from crosshead.addons.interop.imports.reading import ForeignDirectory
from crosshead.addons.interop.imports.values import ForeignSettings, checked
from crosshead.addons.interop.onnx import ONNX
from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import OneOf
from crosshead.errors import ConfigError
from crosshead.extensions import added

_READERS = {
    huggingface.MARIAN: huggingface.read,
    huggingface.PEGASUS: huggingface.read,
    gpt2.MODEL_TYPE: gpt2.read,
}


class _HuggingFace(ForeignSettings):
    """The setting that tells the models of Hugging Face apart."""

    model_type: Annotated[str, OneOf(_READERS)]


def _read_huggingface(path: Path, name: str) -> Imported:
    config = ForeignDirectory(path).json(huggingface.CONFIG)
    model_type = checked(_HuggingFace, config, path / huggingface.CONFIG).model_type
    return _READERS[model_type](path, name)


_BUILTIN = (
    Format(
        "ctranslate2",
        (CTRANSLATE2, CTRANSLATE2_LANGUAGE),
        ctranslate2.read,
        weights=(ctranslate2.MODEL,),
        files=("config.json", "*vocabulary.json", "*.spm", "*.model"),
    ),
    Format("argos", (ARGOS,), read_package),
    Format(
        "huggingface",
        (HUGGINGFACE, GPT2),
        _read_huggingface,
        weights=(huggingface.SAFE,),
        files=(
            *("config.json", "generation_config.json", "tokenizer_config.json", "*.spm"),
            *("vocab.json", "target_vocab.json", "tokenizer.json"),
        ),
    ),
    Format("onnx", (ONNX,)),
    Format(
        "marian",
        read=marian.read,
        weights=("*.npz",),
        files=("*.yml", "*.yaml", "*vocab.json", "*.spm"),
    ),
)

FORMATS: dict[str, Format] = {each.name: each for each in _BUILTIN} | added("formats")
"""The formats by name: those of this package, and those that other packages add."""


def exports() -> Mapping[str, Format]:
    """Return the formats that models can be exported to, by name."""
    return {name: each for name, each in FORMATS.items() if each.exports}


def export_of(bundle: Bundle, name: str) -> Export:
    """Return the export to a format for the models of a bundle's architecture."""
    if name not in (known := exports()):
        raise ConfigError(f"unknown format {name!r}; known: {', '.join(known)}")
    found = known[name].exports
    architecture = bundle.config.model.architecture
    return next((each for each in found if each.architecture == architecture), found[0])


def check_expressible(bundle: Bundle, export: Export) -> TextBundle:
    """Return the bundle if a format can express it."""
    if not (whys := export.refusals(bundle)):
        assert isinstance(bundle, TextBundle)  # by `refusals`
        return bundle
    others = " or ".join(formats_for(bundle))
    to_do = f"export to {others}" if others else "train with other settings"
    raise ConfigError(f"{export.name} cannot express {'; '.join(whys)}: {to_do}")


def formats_for(bundle: Bundle) -> list[str]:
    """Return the names of the formats that can express a bundle."""
    return [name for name in exports() if not export_of(bundle, name).refusals(bundle)]
