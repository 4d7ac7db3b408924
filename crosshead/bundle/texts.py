"""The parts of a text bundle that need no PyTorch: its settings and its tokenizers."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import Field

from crosshead.bundle.config_file import read_settings
from crosshead.bundle.origin import ImportOrigin
from crosshead.bundle.places import CARD, CONFIG
from crosshead.config import MOST_TOKENS, MOST_VOCABULARY, Config, validate
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import DamagedBundle
from crosshead.text.markers import MARKERS, TERM_MARKERS, ids_of
from crosshead.text.pieces import CONTROL
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import TOKENIZER_FILES, Tokenizer, load_tokenizers
from crosshead.vocabulary import BOS, PAD, UNK


class TextSettings(Config):
    """The settings in the `config.json` of a text bundle, without those of its model."""

    # One tokenizer for both sides (files `tokenizer.*`), or `source.*` and `target.*`.
    joint_tokenizer: bool
    # The number of pieces of each side, and of rows of its embedding.
    source_vocabulary: int = Field(ge=len(CONTROL), le=MOST_VOCABULARY)
    target_vocabulary: int = Field(ge=len(CONTROL), le=MOST_VOCABULARY)
    # Tokens of the longest source in training, without the end token; translation splits longer
    # lines. For a model of monolingual text, tokens of a window.
    longest_source: int = Field(ge=1, le=MOST_TOKENS)
    # The default search settings.
    decode: DecodeConfig = Field(default_factory=DecodeConfig)
    # Language codes such as `en`, if they are known.
    source_language: str | None = None
    target_language: str | None = None
    # The licence of the model, if it is known.
    license: str | None = None
    # The languages of a model of several directions: the tag of one stands before each source.
    target_languages: list[str] = Field(default_factory=list)
    # Statistics of the training pairs, to flag odd sources and translations. Older bundles and
    # models of monolingual text have none.
    profile: TextProfile | None = None
    # True if a head of the model has learned word alignments (`guided_attention`).
    guided: bool = False
    # The origin of an imported model, or of the one that training started from. Other bundles have
    # none.
    origin: ImportOrigin | None = None


@dataclass(frozen=True)
class TextParts:
    """The settings of a text bundle, and the tokenizer of each side.

    A model of monolingual text has the same tokenizer for both sides.
    """

    config: TextSettings
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def marks(self) -> tuple[int, ...]:
        """The ids of the pieces of marks, which both tokenizers have, or none."""
        source, target = (
            ids_of(MARKERS, each) for each in (self.source_tokenizer, self.target_tokenizer)
        )
        return source if source == target else ()

    @property
    def forbidden(self) -> tuple[int, ...]:
        """The target tokens that search never produces."""
        tokenizer = self.target_tokenizer
        never = {PAD, BOS, UNK, *ids_of(TERM_MARKERS, tokenizer)}
        return tuple(sorted(never | tokenizer.line_breaks))


class BundleState(NamedTuple):
    """The folder of a bundle, and its state."""

    path: Path
    sha256: str
    """The SHA-256 of `config.json`, which holds the checksums of the other files."""

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Return the state of a bundle at a path, or None if there is no folder of one."""
        try:
            return cls(path, hashlib.sha256((path / CONFIG).read_bytes()).hexdigest())
        except OSError:
            return None

    @property
    def is_current(self) -> bool:
        """True if the bundle is still the same."""
        return self.of(self.path) == self


def read_tokenizers(directory: Path, config: TextSettings) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers of a bundle."""
    source, target = load_tokenizers(directory, joint=config.joint_tokenizer)
    for side, found, expected in (
        ("source", source.vocab_size, config.source_vocabulary),
        ("target", target.vocab_size, config.target_vocabulary),
    ):
        if found != expected:
            raise DamagedBundle(
                directory,
                f"the {side} tokenizer has {found} pieces, but {CONFIG} says {expected}",
            )
    return source, target


def read_parts(directory: Path) -> TextParts | None:
    """Read the parts of a bundle that translates text, after checking its files.

    None is returned for other bundles, and for old ones without checksums.
    """
    values, manifest = read_settings(directory)
    if values.get("task", "translation") != "translation" or not manifest.of_config:
        return None
    manifest.check_sizes(name for name in manifest.files if name != CARD)
    for name in TOKENIZER_FILES:
        if name in manifest.files:
            manifest.check(name)
    own = {key: value for key, value in values.items() if key in TextSettings.model_fields}
    settings = validate(TextSettings, own)
    return TextParts(settings, *read_tokenizers(directory, settings))
