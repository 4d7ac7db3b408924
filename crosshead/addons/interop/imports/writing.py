"""Imports: recognise a model of another toolkit, read it, and write its bundle."""

import platform
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from crosshead.addons.interop.base import Imported, words
from crosshead.addons.interop.formats import FORMATS
from crosshead.addons.interop.imports import huggingface
from crosshead.addons.interop.imports.reading import (
    ForeignDirectory,
    ForeignModelError,
    unpacked,
)
from crosshead.addons.interop.imports.stated import check_languages, with_stated_facts
from crosshead.bundle.card import ORIGINAL_CARD, command_shown, fenced, front_matter, use
from crosshead.bundle.foreign import content_of, foreign_models, is_bundle
from crosshead.bundle.hub import download_files
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import CARD, hub_name, hub_place
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import nearest
from crosshead.errors import ConfigError, printable
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


def foreign_files(names: Sequence[str]) -> list[str]:
    """Return the files of a repository that an import may read, among all its files.

    A pickled file of weights is among them only if there is no other file of weights. Files in
    folders are not.
    """
    weights = [each for form in FORMATS.values() for each in form.weights]
    patterns = [*weights, *(each for form in FORMATS.values() for each in form.files)]
    found = [name for name in names if any(fnmatchcase(name, each) for each in patterns)]
    found = [name for name in found if "/" not in name]
    has_weights = any(fnmatchcase(name, each) for name in found for each in weights)
    if huggingface.PICKLED in names and not has_weights:
        found.append(huggingface.PICKLED)
    return [*found, CARD] if found and CARD in names else found


def import_model(
    path: Path,
    kind: str | None = None,
    name: str | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> Imported:
    """Return a model of another toolkit as a bundle."""
    readers = {each.name: each.read for each in FORMATS.values() if each.read}
    if kind is not None and kind not in readers:
        raise ConfigError(f"there is no kind of model {kind!r}; {nearest(kind, list(readers))}")
    check_languages(languages)
    name = printable(name or path.resolve().name)
    with tempfile.TemporaryDirectory() as scratch, unpacked(path, Path(scratch)) as directory:
        try:
            found = readers[kind or recognised(directory, path)](directory, name)
            return with_stated_facts(found, directory, name, languages)
        except ForeignModelError as error:  # names the archive, not the place of its content
            raise ForeignModelError(str(error).replace(str(directory), str(path))) from None


def recognised(directory: Path, path: Path) -> str:
    """Return the kind of model in a directory."""
    files = ForeignDirectory(directory)
    config = files.json(huggingface.CONFIG) if files.has(huggingface.CONFIG) else {}
    names, _ = content_of(directory)
    models = foreign_models(names, config)
    kinds = [each.kind for each in models if each.kind]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise ForeignModelError(
            f"{path}: could be a model of {' or '.join(kinds)}; name the kind with --kind"
        )
    if is_bundle(config):
        raise ForeignModelError(f"{path}: is a bundle of crosshead: use it without an import")
    if models:
        raise ForeignModelError(
            f"{path}: {models[0].words}, which cannot be imported; import the model that it was "
            "made from"
        )
    raise ForeignModelError(
        f"{path}: no model of a known kind: expected config.json of Hugging Face, decoder.yml of "
        "Marian or model.bin of CTranslate2; name the directory of these files"
    )
