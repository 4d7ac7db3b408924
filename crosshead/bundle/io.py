"""Save and load a bundle: a trained model as one directory.

    config.json         what the model is, how it is searched by default, and the checksums of
                        all files
    model.safetensors   its weights, in float32; a matrix that is used twice is stored once
    tokenizer.*         the joint tokenizer, or source.* and target.*
    README.md           the model card

Nothing in it can run code when it is loaded: no pickle is read or written.
"""

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from crosshead.bundle.checksums import Seal, file_sum, sealed, unsealed
from crosshead.bundle.config import FORMAT, BundleConfig
from crosshead.bundle.places import (
    CARD,
    CONFIG,
    WEIGHTS,
    check_place,
    how_to_resume,
    is_run,
)
from crosshead.bundle.unfinished import BestSoFar, best_so_far
from crosshead.bundle.weights import (
    Described,
    TensorFile,
    build_without_memory,
    check_described,
    described,
    fill,
    serialized,
    weights_of,
)
from crosshead.config import validate
from crosshead.data.text.tokenizers import (
    TOKENIZER_FILES,
    Tokenizer,
    load_tokenizers,
    save_tokenizers,
)
from crosshead.decoding.candidates import NOTHING
from crosshead.decoding.search import Specials
from crosshead.errors import BundleError, ConfigError, DamagedBundle
from crosshead.models.base import Model
from crosshead.system.files import StrPath, atomic_write_all, make_directory
from crosshead.system.stored import (
    LARGEST_CONFIG,
    open_stored,
    packed_names,
    parse_metadata,
    read_stored,
)
from crosshead.vocabulary import BOS, EOS, PAD, UNK

_LAYERS = "encoder_layers", "decoder_layers", "layers"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bundle:
    """A trained model and what it takes to use it on text."""

    config: BundleConfig
    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def specials(self) -> Specials:
        """Return the special tokens for search, with the target tokens that are never produced.

        The end token ends a translation. In monolingual text it ends a line, and so begins the next
        one.
        """
        forbidden = {PAD, BOS, UNK, *self.target_tokenizer.line_breaks}
        if self.config.task != "translation":
            return Specials(EOS, NOTHING, tuple(sorted(forbidden)))
        return Specials(self.config.model.start_token, EOS, tuple(sorted(forbidden)))


def save_bundle(directory: Path, bundle: Bundle, card: str) -> None:
    """Write the bundle, and `card` as its README.md, into `directory` (made if need be).

    All files are complete before the first takes its place, so that an error leaves an earlier
    bundle as it was. `config.json`, which holds the checksums of the others, comes last: whoever
    finds some of the new files beside those of an earlier bundle refuses them.

    Raises:
        UserError: If a file cannot be written.
    """
    make_directory(directory)
    contents = _tokenizer_files(bundle)
    contents[WEIGHTS] = serialized(weights_of(bundle.model))
    contents[CARD] = card.encode()
    sums = {name: file_sum(data) for name, data in contents.items()}
    contents[CONFIG] = sealed(bundle.config.model_dump(mode="json"), sums)
    atomic_write_all(directory, contents)


def load_bundle(path: StrPath, device: torch.device | str = "cpu") -> Bundle:
    """Read a bundle.

    Args:
        path: Its directory, or the file that `crosshead pack` made of it. Of a run that has no
            bundle yet the best weights so far are read, and a note is logged.
        device: Where its model is to be.

    Returns:
        The bundle, its model in evaluation mode.

    Raises:
        BundleError: If `path` is not a bundle, or one that is damaged, incomplete or of a newer
            format. The checksums of all files but the card are compared with those in
            `config.json`.
    """
    directory = Path(path)
    best = best_so_far(directory)
    if best is not None:
        return _unfinished_bundle(directory, best, device)
    config, seal, tokenizers = _opened(directory)
    path = directory / WEIGHTS
    with open_stored(path) as (stored, size):
        file = TensorFile(stored, size, path)
        model = _matched(config, file.tensors, path, directory / CONFIG)
        weights, sha256 = file.read()
    seal.compare(WEIGHTS, sha256)
    fill(model, weights)
    _say_if_unchecked(seal)
    return Bundle(config, model.to(device).eval(), *tokenizers)


def outline_bundle(path: Path | str) -> Bundle:
    """Read a bundle but for the numbers of its model, whose parameters have no memory.

    All files but the card are compared with their checksums: the weights are read once for that,
    in pieces. Raises what `load_bundle` raises.
    """
    directory = Path(path)
    config, seal, tokenizers = _opened(directory)
    weights = directory / WEIGHTS
    seal.check(WEIGHTS)
    with open_stored(weights) as (stored, size):
        tensors = TensorFile(stored, size, weights).tensors
    model = _matched(config, tensors, weights, directory / CONFIG)
    _say_if_unchecked(seal)
    return Bundle(config, model.eval(), *tokenizers)


def verify_bundle(path: Path) -> list[tuple[str, str | None]]:
    """Compare all files of a bundle with the checksums in its `config.json`, the card included.

    Returns:
        The name of each file, and what is wrong with it, or None; nothing of an older bundle, which
        holds no checksums.

    Raises:
        BundleError: If `config.json` is not that of a bundle.
    """
    _, seal = _configured(path)
    if not seal.files:
        return []
    found: list[tuple[str, str | None]] = [
        (CONFIG, None if seal.of_config else "holds no checksum of itself")
    ]
    return found + [(name, _difference(seal, name)) for name in seal.files]


def card_was_changed(path: Path) -> bool:
    """Return whether the model card is another than the bundle was written with.

    Loading does not ask: a card is prose that its owner may edit.

    Raises:
        BundleError: If `config.json` is not that of a bundle.
    """
    _, seal = _configured(path)
    return CARD in seal.files and _difference(seal, CARD) is not None


def _difference(seal: Seal, name: str) -> str | None:
    """Return what is wrong with a file, or None."""
    try:
        seal.check_sizes([name])
        seal.check(name)
    except DamagedBundle as error:
        return error.found
    return None


def bundle_files(path: Path) -> list[str]:
    """The names of the files of a bundle, `config.json` last."""
    _, seal = _configured(path)
    if path.is_file():
        return packed_names(path)
    names = [each for each in (*TOKENIZER_FILES, WEIGHTS, CARD) if (path / each).is_file()]
    return [*(seal.files or names), CONFIG]


def load_config(directory: Path) -> BundleConfig:
    """The `config.json` of a bundle: quick, no weights are read. Raises `BundleError`."""
    return _configured(directory)[0]


def _configured(directory: Path) -> tuple[BundleConfig, Seal]:
    """The configuration of a bundle and the checksums of its files; raises `BundleError`."""
    for name in check_place(directory):
        if name not in {CONFIG, WEIGHTS, CARD, *TOKENIZER_FILES}:
            raise BundleError(
                f"{directory}: a file; expected the directory of a bundle, or a file that "
                f"`crosshead pack` wrote ({name[:60]!a} in it is no file of a bundle); if it is an "
                "archive, unpack it and give the directory"
            )
    mend = None
    if is_run(directory):
        mend = f"to write the bundle of this run again: {how_to_resume(directory)}"
    path = directory / CONFIG
    data = read_stored(path, LARGEST_CONFIG)
    values = parse_metadata(data, path)
    newest = values.get("format")
    if type(newest) is not int or newest < 1:
        shown = repr(newest)[:60]
        raise DamagedBundle(path, f"format: expected a number from 1 to {FORMAT}, found {shown}")
    if newest > FORMAT:
        raise BundleError(
            f"{path}: format {newest} is newer than this crosshead reads ({FORMAT}): "
            "upgrade crosshead"
        )
    values, seal = unsealed(directory, values, data, mend)
    for name in seal.files:
        if name not in {WEIGHTS, CARD, *TOKENIZER_FILES}:
            raise DamagedBundle(path, f"files: {name[:60]!a} is no file of a bundle")
    if seal.files and WEIGHTS not in seal.files:
        raise DamagedBundle(path, f"files: {WEIGHTS} is missing")
    try:
        return validate(BundleConfig, values), seal
    except ConfigError as error:
        raise DamagedBundle(path, str(error)) from None


def _opened(directory: Path) -> tuple[BundleConfig, Seal, tuple[Tokenizer, Tokenizer]]:
    """All of a bundle but its model; the files that are there have the sizes that they should."""
    config, seal = _configured(directory)
    seal.check_sizes(name for name in seal.files if name != CARD)
    for name in seal.files:
        if name in TOKENIZER_FILES:
            seal.check(name)
    return config, seal, _load_tokenizers(directory, config)


def _say_if_unchecked(seal: Seal) -> None:
    """Log that a bundle cannot be checked; the command line shows such notes."""
    if not seal.files:
        logger.info("%s: an older bundle, without checksums; damage goes unnoticed", seal.directory)
    elif not seal.of_config:
        logger.info("%s: has no checksum of its own; changes go unnoticed", seal.directory / CONFIG)


def _unfinished_bundle(directory: Path, best: BestSoFar, device: torch.device | str) -> Bundle:
    """The bundle of the best weights so far of a run."""
    try:
        config = validate(BundleConfig, best.settings)
    except ConfigError as error:
        raise DamagedBundle(best.path, str(error)) from None
    model = _matched(config, described(best.weights.items()), best.path, best.path)
    fill(model, best.weights)
    logger.info(
        "%s: the run is not finished; these are its best weights so far, those of update %s",
        directory, best.update,
    )  # fmt: skip
    tokenizers = _load_tokenizers(directory, config)
    return Bundle(config, model.to(device).eval(), *tokenizers)


def _matched(config: BundleConfig, tensors: Mapping[str, Described], path: Path, of: Path) -> Model:
    """Build the model of a configuration, without memory, where a file holds its weights.

    `path` is that of the file, `of` that of the configuration. Raises `DamagedBundle` where there
    is no such model, or the weights are of another.
    """
    shape = config.model, config.source_vocabulary, config.target_vocabulary
    layers = sum(getattr(config.model, key) for key in _LAYERS if hasattr(config.model, key))
    if layers > len(tensors):  # to build them would take long
        raise DamagedBundle(
            path, f"holds {len(tensors)} tensors, too few for the {layers} layers of {of.name}"
        )
    try:
        model = build_without_memory(*shape)
    except (ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise DamagedBundle(of, f"no such model can be: {reason}") from None
    check_described(described(model.named_parameters()), tensors, path)
    return model


def _tokenizer_files(bundle: Bundle) -> dict[str, bytes]:
    """The contents of the tokenizers' files by name."""
    with tempfile.TemporaryDirectory() as scratch:
        tokenizers = bundle.source_tokenizer, bundle.target_tokenizer
        save_tokenizers(Path(scratch), *tokenizers, joint=bundle.config.joint_tokenizer)
        return {file.name: file.read_bytes() for file in sorted(Path(scratch).iterdir())}


def _load_tokenizers(directory: Path, config: BundleConfig) -> tuple[Tokenizer, Tokenizer]:
    source, target = load_tokenizers(directory, joint=config.joint_tokenizer)
    sides = (
        ("source", source.vocab_size, config.source_vocabulary),
        ("target", target.vocab_size, config.target_vocabulary),
    )
    for side, found, expected in sides:
        if found != expected:
            raise DamagedBundle(
                directory, f"the {side} tokenizer has {found} pieces, {CONFIG} says {expected}"
            )
    return source, target
