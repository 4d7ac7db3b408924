"""Imports: from a model of another toolkit to a bundle on disk."""

import platform
from dataclasses import replace
from pathlib import Path

import torch

from crosshead.addons.interop.base import words
from crosshead.addons.interop.imports.building import Imported
from crosshead.addons.interop.imports.kinds import foreign_files, import_model
from crosshead.bundle.card import ORIGINAL_CARD, command_shown, fenced, front_matter, use
from crosshead.bundle.hub import download_files
from crosshead.bundle.hub_names import hub_name, hub_place
from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.system.files import StrPath, output_directory, real_path
from crosshead.version import __version__


def import_to(
    path: StrPath,
    out: StrPath,
    kind: str | None = None,
    command: str = "",
    *,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Imported:
    """Import a model of another toolkit, and write its bundle."""
    out = Path(out)
    with output_directory(out) as hidden:
        name = hub_name(path)
        place = Path(path) if name is None else download_files(name, foreign_files)
        found = import_model(
            place,
            kind,
            None if name is None else name.repository,
            (source_language, target_language),
        )
        imported = _with_place(found, place)
        said = card(real_path(out).name, imported.bundle, command)
        save_bundle(hidden, imported.bundle, said, new=True)
    return imported


def _with_place(imported: Imported, directory: Path) -> Imported:
    """Name the model's place on a hub in its origin, if it was downloaded from one."""
    place, config = hub_place(directory), imported.bundle.config
    if place is None or config.origin is None:
        return imported
    origin = config.origin.model_copy(update={"name": place.name, "hub": place})
    changed = config.model_copy(update={"origin": origin})
    return replace(imported, bundle=replace(imported.bundle, config=changed))


def card(name: str, bundle: TextBundle, command: str) -> str:
    """Return the model card of an imported model."""
    config, origin = bundle.config, bundle.config.origin
    assert origin is not None
    said = words(config)
    sections = [
        front_matter(name, said, licence=config.license),
        f"# {name}\n\nA model ({config.model.architecture}) that {said.does}. It was imported, "
        f"not trained, with crosshead. {ORIGINAL_CARD}",
        use(said),
        "## Scores\n\nNo scores were measured. `crosshead evaluate` measures them.",
        f"## Origin\n\n{origin}.",
        *([fenced("sh", command_shown(command))] if command else []),
        f"crosshead {__version__}, torch {torch.__version__}, python {platform.python_version()}.",
    ]
    return "\n\n".join(sections) + "\n"
