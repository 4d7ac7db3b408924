"""The kinds of models that can be imported, their recognition, and the bundle of one."""

import tempfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from crosshead.addons.interop.ctranslate2 import SEARCH
from crosshead.addons.interop.imports import argos, ctranslate2, gpt2, huggingface, marian
from crosshead.addons.interop.imports.building import Imported
from crosshead.addons.interop.imports.reading import (
    ForeignDirectory,
    ForeignModelError,
    unpacked,
)
from crosshead.addons.interop.imports.settings import one_of
from crosshead.addons.interop.imports.stated import check_languages, with_stated_facts
from crosshead.bundle.foreign import content_of, foreign_models, is_bundle
from crosshead.bundle.places import CARD
from crosshead.config import nearest
from crosshead.errors import ConfigError, printable


def _read_huggingface(path: Path, name: str) -> Imported:
    readers = {
        huggingface.MARIAN: huggingface.read,
        huggingface.PEGASUS: huggingface.read,
        gpt2.MODEL_TYPE: gpt2.read,
    }
    model_type = ForeignDirectory(path).json(huggingface.CONFIG).get("model_type")
    return one_of(model_type, "model_type", readers, path / huggingface.CONFIG)(path, name)


KINDS: dict[str, Callable[[Path, str], Imported]] = {
    huggingface.KIND: _read_huggingface,
    marian.KIND: marian.read,
    ctranslate2.KIND: ctranslate2.read,
    argos.KIND: argos.read,
}
"""The reader of each kind by its name. It gets the directory and the name of the model."""


_WEIGHTS = (huggingface.SAFE, "*.npz", ctranslate2.MODEL)
"""The files of weights that are no pickles."""

_PATTERNS = (
    *_WEIGHTS,
    *("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json"),
    *("tokenizer.json", "merges.txt", SEARCH),
    *("target_vocab.json", "*vocabulary.json", "*.spm", "*.model", "*.yml", "*.yaml"),
)


def foreign_files(names: Sequence[str]) -> list[str]:
    """Return the files of a repository that an import may read, among all its files.

    A pickled file of weights is among them only if there is no other file of weights. Files in
    folders are not.
    """
    found = [name for name in names if any(fnmatchcase(name, each) for each in _PATTERNS)]
    found = [name for name in found if "/" not in name]
    has_weights = any(fnmatchcase(name, each) for name in found for each in _WEIGHTS)
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
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"there is no kind of model {kind!r}; {nearest(kind, list(KINDS))}")
    check_languages(languages)
    name = printable(name or path.resolve().name)
    with tempfile.TemporaryDirectory() as scratch, unpacked(path, Path(scratch)) as directory:
        try:
            found = KINDS[kind or recognised(directory, path)](directory, name)
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
