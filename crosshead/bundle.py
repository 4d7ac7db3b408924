"""The bundle: a trained model as one directory, the only form in which a model stands on disk.

    config.json         what the model is, and how it is searched by default
    model.safetensors   its weights, in float32; a matrix that is used twice is stored once
    tokenizer.*         the joint tokenizer, or source.* and target.*
    README.md           the model card

Nothing in it can run code when it is loaded: no pickle is read or written.
"""

import json
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import safetensors.torch
import torch
from pydantic import Field
from safetensors import SafetensorError
from torch import Tensor
from torch.overrides import TorchFunctionMode

from crosshead import __version__
from crosshead.config import Config, validate
from crosshead.data.tokenizers import Tokenizer, load_tokenizers, save_tokenizers
from crosshead.decoding.candidates import NOTHING
from crosshead.decoding.search import DecodeConfig, Specials
from crosshead.errors import BundleError, ConfigError, DamagedBundle
from crosshead.files import (
    LARGEST_HEADER,
    StrPath,
    atomic_write_all,
    make_directory,
    open_stored,
    read_metadata,
)
from crosshead.models.base import Model, Task
from crosshead.models.registry import MODELS, AnyConfig
from crosshead.vocabulary import BOS, EOS, PAD, UNK

FORMAT = 1
"""The version of the bundle's layout that this crosshead writes, and the newest that it reads."""

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

RECIPE, CHECKPOINTS = "recipe.toml", "checkpoints"
"""What stands in the directory of a run before there is a bundle in it."""


class Measured(Protocol):
    """A value by a metric, and what it takes to compare it."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def value(self) -> float:
        """The score."""
        ...

    @property
    def signature(self) -> str:
        """How it was measured."""
        ...


class BundleScore(Config):
    """A score with what it takes to compare it; the model card lists the same."""

    # The metric's name as sacreBLEU writes it: `BLEU`, `chrF2`, `TER`.
    metric: str
    value: float
    # sacreBLEU's signature.
    signature: str
    # What was translated: a test set's name, or `validation`.
    test_set: str

    @classmethod
    def of(cls, score: Measured, test_set: str) -> Self:
        """A score that was measured on a test set."""
        return cls(
            metric=score.metric, value=score.value, signature=score.signature, test_set=test_set
        )


class BundleConfig(Config):
    """What `config.json` says."""

    format: int = Field(default=FORMAT, ge=1)
    # The version of crosshead that wrote the bundle.
    crosshead: str = __version__
    task: Task = "translation"
    model: AnyConfig
    # One tokenizer for both sides (files `tokenizer.*`), or `source.*` and `target.*`.
    joint_tokenizer: bool
    # The number of pieces of each side, which is the number of rows of its embedding.
    source_vocabulary: int = Field(ge=1)
    target_vocabulary: int = Field(ge=1)
    # Tokens of the longest source in training, without the end token: translation splits beyond it.
    # Of a model of text by itself, those of a window.
    longest_source: int = Field(ge=1)
    # How the model is searched when nothing else is asked for.
    decode: DecodeConfig = Field(default_factory=DecodeConfig)
    # Language codes such as `en`, where they are known.
    source_language: str | None = None
    target_language: str | None = None
    # What its translations scored when it was trained.
    scores: list[BundleScore] = Field(default_factory=list)


@dataclass(frozen=True)
class Bundle:
    """A trained model and what it takes to use it on text."""

    config: BundleConfig
    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def specials(self) -> Specials:
        """What search knows of the target's tokens: those that are never produced among them.

        The end token ends a translation; in text by itself it ends a line, and so begins one.
        """
        forbidden = {PAD, BOS, UNK, *self.target_tokenizer.line_breaks}
        if self.config.task != "translation":
            return Specials(EOS, NOTHING, tuple(sorted(forbidden)))
        return Specials(self.config.model.start_token, EOS, tuple(sorted(forbidden)))


class Pipeline:
    """A bundle as a function on text: what all of them are."""

    does: ClassVar[str]
    """What one does, in a clause."""
    verb: ClassVar[str]
    """The command that does it."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.tokenizer = bundle.target_tokenizer

    @property
    def model(self) -> Model:
        """The bundle's model, a plain `torch.nn.Module`."""
        return self.bundle.model

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def context(self) -> int:
        """The tokens that the model saw at once in training: of sources, or of text by itself."""
        return self.bundle.config.longest_source


def build_model(config: AnyConfig, source_vocabulary: int, target_vocabulary: int) -> Model:
    """A freshly initialised model of this shape, in training mode.

    A model of text by itself has one vocabulary, that of the target.
    """
    both = config.task == "translation"
    sizes = (source_vocabulary, target_vocabulary) if both else (target_vocabulary,)
    return MODELS[config.architecture](config, *sizes)


class _Undrawn(TorchFunctionMode):
    """Leaves normally distributed numbers undrawn.

    Tensors without memory have none, but PyTorch imports its compiler to draw them: a second. (It
    does so to compute with them, too, as normalised weights do.)
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Give a tensor back that was to be drawn; anything else is done."""
        kwargs = kwargs or {}
        if func in (Tensor.normal_, torch.nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def build_without_memory(
    config: AnyConfig, source_vocabulary: int, target_vocabulary: int
) -> Model:
    """A model of this shape on the meta device: its shapes alone, however large it is."""
    with torch.device("meta"), _Undrawn():
        return build_model(config, source_vocabulary, target_vocabulary)


def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """The model's parameters by name, in float32 on the CPU; a tied parameter comes once."""
    return {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in model.named_parameters()
    }


def check_weights(model: torch.nn.Module, weights: dict[str, Tensor], where: Path | str) -> None:
    """Raise `DamagedBundle` unless `weights` are the model's parameters, in name, shape and type.

    `where` they came from begins the message.
    """
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() | weights.keys()):
        if name not in weights:
            raise DamagedBundle(where, f"tensor {name!r} is missing")
        if name not in parameters:
            raise DamagedBundle(where, f"unexpected tensor {name!r}")
        found, expected = weights[name], parameters[name]
        if found.shape != expected.shape:
            shapes = f"{list(found.shape)}, expected {list(expected.shape)}"
            raise DamagedBundle(where, f"tensor {name!r} has shape {shapes}")
        if found.dtype != torch.float32:
            dtype = str(found.dtype).removeprefix("torch.")
            raise DamagedBundle(where, f"tensor {name!r} is {dtype}, expected float32")


def set_weights(
    model: torch.nn.Module, weights: dict[str, Tensor], where: Path | str = "weights"
) -> None:
    """Copy named weights into the model's parameters; raises what `check_weights` raises."""
    check_weights(model, weights, where)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def save_bundle(directory: Path, bundle: Bundle, card: str) -> None:
    """Write the bundle, and `card` as its README.md, into `directory` (made if need be).

    All files are complete before the first takes its place, so that an error leaves an earlier
    bundle as it was; `config.json` comes last, and a directory without one is not a bundle. Raises
    `UserError` where a file cannot be written.
    """
    make_directory(directory)
    contents = _tokenizer_files(bundle)
    contents[WEIGHTS] = safetensors.torch.save(weights_of(bundle.model), metadata={"format": "pt"})
    contents[CARD] = card.encode()
    settings = bundle.config.model_dump(mode="json")
    contents[CONFIG] = (json.dumps(settings, indent=2) + "\n").encode()
    atomic_write_all(directory, contents)


def load_bundle(path: StrPath, device: torch.device | str = "cpu") -> Bundle:
    """Read a bundle; its model is in evaluation mode on `device`.

    Raises `BundleError` where `path` is not a bundle, or one that is damaged, incomplete or of a
    newer format.
    """
    directory = Path(path)
    config = load_config(directory)
    source_tokenizer, target_tokenizer = _load_tokenizers(directory, config)
    model = _model_without_memory(directory, config)
    _fill(model, _read_weights(directory / WEIGHTS), directory / WEIGHTS)
    return Bundle(config, model.to(device).eval(), source_tokenizer, target_tokenizer)


def load_config(directory: Path) -> BundleConfig:
    """The `config.json` of a bundle: quick, no weights are read. Raises `BundleError`."""
    path = directory / CONFIG
    values = _read_config(directory)
    newest = values.get("format")
    if type(newest) is not int or newest < 1:
        raise DamagedBundle(path, f"format: expected a number from 1 to {FORMAT}, found {newest!r}")
    if newest > FORMAT:
        raise BundleError(
            f"{path}: format {newest} is newer than this crosshead reads ({FORMAT}): "
            "upgrade crosshead"
        )
    try:
        return validate(BundleConfig, values)
    except ConfigError as error:
        raise DamagedBundle(path, str(error)) from None


def kept_beside(out: Path) -> Path:
    """Where the run that stood in `out` is kept until the one that replaces it has a bundle."""
    real = out.resolve()
    return real.with_name(f".{real.name}.replaced")


def where_bundle_is_kept(out: Path) -> str:
    """A clause for who finds nothing in `out`: where an earlier bundle is kept, if one is."""
    kept = kept_beside(out)
    if not (kept / CONFIG).is_file():
        return ""
    return f"; an earlier run, with its bundle, is kept in {kept}"


def _read_config(directory: Path) -> dict[str, Any]:
    if not directory.exists():
        raise BundleError(f"{directory}: no such directory; expected a bundle")
    if not directory.is_dir():
        raise BundleError(f"{directory}: a file; expected the directory of a bundle")
    if not (directory / CONFIG).exists():
        raise BundleError(f"{directory}: {_what_else(directory)}")
    return read_metadata(directory / CONFIG)


def _what_else(directory: Path) -> str:
    """What a directory without a configuration is."""
    if all((directory / name).exists() for name in (RECIPE, CHECKPOINTS)):
        return (
            "a training run that has no bundle yet: it is going on or was interrupted; to go on "
            f"with it: crosshead train --resume --out {shlex.quote(str(directory))}"
            f"{where_bundle_is_kept(directory)}"
        )
    return (
        f"not a bundle: it holds no {CONFIG} (a bundle holds {CONFIG}, {WEIGHTS}, its tokenizer "
        f"and {CARD}; `crosshead train --out` writes one){where_bundle_is_kept(directory)}"
    )


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        with open_stored(path) as file:
            if int.from_bytes(file.read(8), "little") > LARGEST_HEADER:
                raise DamagedBundle(path, "truncated or damaged: its header is too long")
            return safetensors.torch.load_file(path)
    except SafetensorError:
        raise DamagedBundle(path, "truncated or damaged: no whole safetensors file") from None


def _model_without_memory(directory: Path, config: BundleConfig) -> Model:
    """The model of a configuration without weights. Raises `DamagedBundle` where none can be."""
    try:
        return build_without_memory(
            config.model, config.source_vocabulary, config.target_vocabulary
        )
    except (ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise DamagedBundle(directory / CONFIG, f"no such model can be: {reason}") from None


def _fill(model: Model, weights: dict[str, Tensor], path: Path) -> None:
    """Give a model without memory its weights; raises what `check_weights` raises."""
    check_weights(model, weights, path)
    # One that is used twice stays one; copied, it does not change with the file, which is mapped
    # into memory. They are set, not swapped: PyTorch's recurrent layers keep references to theirs.
    filled = {
        id(parameter): torch.nn.Parameter(weights[name].clone())
        for name, parameter in model.named_parameters()
    }
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, filled[id(parameter)])


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
