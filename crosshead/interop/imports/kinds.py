"""The kinds of models that can be imported, their recognition, and the bundle of one."""

import tempfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.interop.imports import ctranslate2, gpt2, huggingface, marian
from crosshead.interop.imports.building import Imported
from crosshead.interop.imports.reading import ForeignDirectory, ForeignModelError, unpacked


class ForeignKind(NamedTuple):
    """A kind of model that can be imported."""

    recognises: Callable[[ForeignDirectory], bool]
    """Returns whether a directory looks like this kind."""
    read: Callable[[Path, str], Imported]
    """Reads a directory; the second argument is the name of the model."""
    files: str
    """The files that such a directory has, for messages."""


def _is_of_huggingface(directory: ForeignDirectory) -> bool:
    return huggingface.recognises(directory) or gpt2.recognises(directory)


def _read_huggingface(path: Path, name: str) -> Imported:
    is_gpt2 = gpt2.recognises(ForeignDirectory(path))
    return gpt2.read(path, name) if is_gpt2 else huggingface.read(path, name)


KINDS: dict[str, ForeignKind] = {
    huggingface.KIND: ForeignKind(
        _is_of_huggingface,
        _read_huggingface,
        "config.json, the weights, and source.spm, target.spm and vocab.json for Marian, or "
        "tokenizer.json for GPT-2",
    ),
    marian.KIND: ForeignKind(
        marian.recognises,
        marian.read,
        "decoder.yml, the .npz weights, the vocabularies, source.spm and target.spm",
    ),
    ctranslate2.KIND: ForeignKind(
        ctranslate2.recognises,
        ctranslate2.read,
        "model.bin, config.json, the vocabularies, source.spm and target.spm",
    ),
}
"""The kinds by name."""


_WEIGHTS = (huggingface.SAFE, "*.npz", ctranslate2.MODEL)
"""The files of weights that are no pickles."""

_PATTERNS = (
    *_WEIGHTS,
    *("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json"),
    *("tokenizer.json", "merges.txt"),
    *("target_vocab.json", "*vocabulary.json", "*.spm", "*.model", "*.yml", "*.yaml"),
)


def foreign_files(names: Sequence[str]) -> list[str]:
    """Return the files of a repository that an import may read, among all its files.

    A pickled file of weights is among them only if there is no other file of weights. Files in
    folders are not.

    Args:
        names: The names of all files of the repository.
    """
    found = [name for name in names if any(fnmatchcase(name, each) for each in _PATTERNS)]
    found = [name for name in found if "/" not in name]
    has_weights = any(fnmatchcase(name, each) for name in found for each in _WEIGHTS)
    if huggingface.PICKLED in names and not has_weights:
        found.append(huggingface.PICKLED)
    return found


def import_model(path: Path, kind: str | None = None) -> Imported:
    """Return a model of another toolkit as a bundle.

    Args:
        path: The directory of the model, or a zip archive of it.
        kind: The kind of model; by default it is recognised by its files.

    Returns:
        The bundle, whose origin names the kind.

    Raises:
        ConfigError: If there is no such kind.
        ForeignModelError: If the model is not recognised, damaged, or cannot be expressed.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"there is no kind of model {kind!r}; {nearest(kind, list(KINDS))}")
    name = path.resolve().name
    with tempfile.TemporaryDirectory() as scratch, unpacked(path, Path(scratch)) as directory:
        return KINDS[kind or recognised(directory, path)].read(directory, name)


def recognised(directory: Path, path: Path) -> str:
    """Return the kind of model in a directory.

    Args:
        directory: The directory.
        path: Its place as the user named it, for messages.

    Raises:
        ForeignModelError: If it looks like none or several kinds.
    """
    found = [name for name, kind in KINDS.items() if kind.recognises(ForeignDirectory(directory))]
    if len(found) == 1:
        return found[0]
    if found:
        raise ForeignModelError(
            f"{path}: could be a model of {' or '.join(found)}; name the kind with --kind"
        )
    known = "; ".join(f"{name}: {kind.files}" for name, kind in KINDS.items())
    raise ForeignModelError(
        f"{path}: no model of a known kind; expected a directory with these files ({known})"
    )
