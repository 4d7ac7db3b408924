"""Imports of packages of Argos Translate: a CTranslate2 model, its tokenizer and its languages.

A package is a zip archive with one folder. Its splitter of sentences does not come along, because
crosshead has its own.
"""

from dataclasses import replace
from pathlib import Path

from crosshead.addons.interop.argos import SEARCH
from crosshead.addons.interop.base import Imported
from crosshead.addons.interop.imports import ctranslate2
from crosshead.addons.interop.imports.reading import ForeignDirectory, ForeignModelError
from crosshead.text.parallel.languages import looks_like_code

KIND = "argos"
"""The kind of these models."""

METADATA, PIECES, FOLDER = "metadata.json", "sentencepiece.model", "model"


def read(path: Path, name: str) -> Imported:
    """Return the model of a package as a bundle."""
    directory = ForeignDirectory(path)
    metadata = directory.json(METADATA)
    if not directory.has(PIECES):
        raise ForeignModelError(
            f"{path}: has no {PIECES}; only packages with SentencePiece can be imported"
        )
    source, target = (
        code if isinstance(code := metadata.get(key), str) and looks_like_code(code) else None
        for key in ("from_code", "to_code")
    )
    pieces = directory.bytes(PIECES)
    found = ctranslate2.read_model(
        ForeignDirectory(path / FOLDER),
        name,
        KIND,
        models=(pieces, pieces),
        languages=(source, target),
        search=SEARCH,
    )
    licence = metadata.get("license")
    if isinstance(licence, str) and licence.isprintable():
        config = found.bundle.config.model_copy(update={"license": licence})
        found = Imported(replace(found.bundle, config=config), found.notes)
    bundle, notes = found.bundle, [*found.notes]
    if not bundle.config.joint_tokenizer:
        notes.append(
            "the package has no tokenizer of the target: `score` and fine-tuning split targets as "
            "sources are split, so import the model that the package was made from for these"
        )
    return Imported(bundle, notes)
