"""Imports: recognise a model of another toolkit, read it, and write its bundle.

The user's languages come first, then those in the files of the model, in its README.md (as OPUS-MT
has them), and in its name.
"""

import platform
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from crosshead.addons.interop.base import Imported, named_languages, words
from crosshead.addons.interop.formats import FORMATS
from crosshead.addons.interop.imports import huggingface
from crosshead.addons.interop.imports.reading import (
    ForeignDirectory,
    ForeignModelError,
    unpacked,
)
from crosshead.bundle.card import ORIGINAL_CARD, command_shown, fenced, front_matter, use
from crosshead.bundle.foreign import content_of, foreign_models, is_bundle
from crosshead.bundle.hub import download_files
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import CARD, hub_name, hub_place
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import nearest
from crosshead.errors import ConfigError, printable
from crosshead.system.files import StrPath, output_directory, real_path
from crosshead.text.parallel.languages import language_code
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
    named_languages(*languages)
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


Languages = tuple[str | None, str | None]
"""The language codes of source and target; None for an unknown one."""

_SIDES = ("source", "target")

_OPUS = re.compile(r"opus-mt-(?:tc-[a-z]+-)?([A-Za-z_]+)-([A-Za-z_]+)(?![A-Za-z_])")
_PAIR = re.compile(r"([A-Za-z_]+)-([A-Za-z_]+)(?:\.zip)?")

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(
    r"""^license[ \t]*:[ \t]*(["']?)([A-Za-z0-9][A-Za-z0-9.+-]{0,199})\1"""
    r"[ \t]*(?:#.*)?$(?!\n[ \t])",
    re.MULTILINE,
)
_NOTHING = {"null", "no", "false"}


def with_stated_facts(
    imported: Imported, directory: Path, name: str, languages: Languages
) -> Imported:
    """Return an imported model with its languages and its licence, as far as they are stated."""
    bundle, notes, text = imported.bundle, [*imported.notes], _readme(directory)
    config = bundle.config
    stated = {"source_language": config.source_language, "target_language": config.target_language}
    stated |= named_languages(*languages)
    found = stated["source_language"], stated["target_language"]
    if config.model.vocabularies == 2 and not all(found):
        places = {CARD: readme_languages(text), name: name_languages(name)}
        for place, codes in places.items():
            agrees = all(one in (None, other) for one, other in zip(found, codes, strict=True))
            if all(codes) and agrees and not all(found):
                found = codes
                notes.append(
                    f"the languages are {found[0]} to {found[1]} by {place}; "
                    "--source-language and --target-language state others"
                )
        if not all(found):
            notes.append(
                "the files do not say which languages the model translates, which an export to "
                "Argos Translate needs; state them with --source-language and --target-language"
            )
    changes = {
        **dict(zip(stated, found, strict=True)),
        "license": licence_of(text) or config.license,
    }
    return Imported(replace(bundle, config=config.model_copy(update=changes)), notes)


def _readme(directory: Path) -> str:
    """Return the README.md of a directory, or an empty text."""
    files = ForeignDirectory(directory)
    if not files.has(CARD):
        return ""
    try:
        return files.bytes(CARD).decode(errors="replace")
    except ForeignModelError:  # no regular file, or too large
        return ""


def readme_languages(text: str) -> Languages:
    """Return the languages that the README.md of an OPUS-MT archive names.

    Lines are such as `* source language(s): en`; a side of several languages is unknown.
    """
    found = []
    for side in _SIDES:
        line = re.search(rf"^[*-]?\s*{side}[ _]languages?(?:\(s\))?:(.*)$", text, re.MULTILINE)
        found.append(language_code(line[1].strip()) if line else None)
    return found[0], found[1]


def name_languages(name: str) -> Languages:
    """Return the languages in the name of a model, such as `opus-mt-en-de` or `en-de`.

    Both are None if one of them is no code, as in `opus-mt-en-ROMANCE`.
    """
    last = name.rpartition("/")[2]
    match = _OPUS.search(last) or _PAIR.fullmatch(last)
    codes = [language_code(each) for each in match.groups()] if match else []
    if not all(codes) or len({*codes}) < 2:
        return None, None
    return codes[0], codes[1]


def licence_of(text: str) -> str | None:
    """Return the licence in the front matter of a model card, or None.

    Only a name such as `cc-by-4.0` on the line of the key is one: a wrong licence is worse than
    none.
    """
    front = _FRONT_MATTER.match(text.replace("\r\n", "\n"))
    found = [match[2] for match in _LICENCE.finditer(front[1])] if front else []
    return found[0] if len(found) == 1 and found[0].lower() not in _NOTHING else None
