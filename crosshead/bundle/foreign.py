"""Models of other toolkits, recognised by their files: for imports, and for messages."""

import json
import shlex
import zipfile
from collections.abc import Collection, Mapping
from fnmatch import filter as matching
from pathlib import Path
from typing import Any, NamedTuple

from crosshead.bundle.places import CONFIG, WEIGHTS
from crosshead.errors import BundleError
from crosshead.system.stored import LARGEST_CONFIG, UNREADABLE, content_names, read_stored

IMPORTED_TYPES = ("marian", "pegasus", "gpt2")
"""The values of `model_type` in a `config.json` of Hugging Face that `crosshead import` reads."""


class ForeignModel(NamedTuple):
    """A model of another toolkit, as its files show it."""

    kind: str
    """The kind that `crosshead import --kind` takes; empty if there is none."""
    words: str
    """A noun for messages, such as `a CTranslate2 model`."""
    is_imported: bool = True
    """True if `crosshead import` reads such models."""


def foreign_models(names: Collection[str], config: Mapping[str, Any]) -> list[ForeignModel]:
    """Return the foreign models that files may belong to: more than one if they are ambiguous."""
    if is_bundle(config):
        return []
    if "metadata.json" in names and "model/model.bin" in names:
        return [ForeignModel("argos", "a package of Argos Translate")]
    has_weights = WEIGHTS in names or "pytorch_model.bin" in names
    if matching(names, "onnx/*.onnx") and not has_weights:
        return [ForeignModel("", "an ONNX export", is_imported=False)]
    found = []
    model_type = config.get("model_type")
    if isinstance(model_type, str):
        words = f"a Hugging Face model ({model_type[:40]})"
        found.append(ForeignModel("huggingface", words, model_type in IMPORTED_TYPES))
    beside = [each for each in matching(names, "*.decoder.yml") if "/" not in each]
    if "decoder.yml" in names or beside:
        found.append(ForeignModel("marian", "a Marian model"))
    if "model.bin" in names:
        found.append(ForeignModel("ctranslate2", "a CTranslate2 model"))
    return found


def is_bundle(config: Mapping[str, Any]) -> bool:
    """Return whether a `config.json` is that of a bundle."""
    return "format" in config and "model" in config


def content_of(path: Path) -> tuple[set[str], dict[str, Any]]:
    """Return the names of the files at a path, and the content of its `config.json`.

    What cannot be read is left out.
    """
    names, data = set[str](), b""
    try:
        if path.is_dir():
            found = [each for pattern in ("*", "*/*") for each in path.glob(pattern)]
            names = {each.relative_to(path).as_posix() for each in found}
            data = read_stored(path / CONFIG, LARGEST_CONFIG)
        elif path.is_file():
            with zipfile.ZipFile(path) as archive:
                stored = content_names(archive)
                names = {*stored}
                if CONFIG in stored:
                    with archive.open(stored[CONFIG]) as file:
                        data = file.read(LARGEST_CONFIG)
    except (OSError, BundleError, *UNREADABLE):
        pass
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        config = None
    return names, config if isinstance(config, dict) else {}


def why_not_a_bundle(place: str, models: Collection[ForeignModel]) -> str | None:
    """Return the message about a foreign model in the place of a bundle, or None without one."""
    if not models:
        return None
    what = f"{place}: {' or '.join(each.words for each in models)}, not a bundle of crosshead"
    if any(each.is_imported for each in models):
        return f"{what}; import it first: crosshead import {shlex.quote(place)} --out DIR"
    return f"{what}, and crosshead cannot import it; use the model in its own library"
