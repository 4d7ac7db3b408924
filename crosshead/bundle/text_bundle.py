"""Bundles of text models: their tokenizers and their search settings."""

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.origin import ImportOrigin
from crosshead.bundle.texts import TextParts, TextSettings, read_tokenizers
from crosshead.decoding.hypotheses import NOTHING, Specials
from crosshead.decoding.utf8 import HIGH
from crosshead.models.base import Model, TokenModel
from crosshead.models.registry import AnyTokenConfig, build_model
from crosshead.text.tokenizers import (
    TOKENIZER_FILES,
    Tokenizer,
    save_tokenizers,
)
from crosshead.vocabulary import EOS, UNK


class TextBundleConfig(TextSettings, BundleConfig):
    """The settings in the `config.json` of a text bundle."""

    model: AnyTokenConfig


@dataclass(frozen=True)
class TextBundle(TextParts, Bundle):
    """A trained model of tokens, with the tokenizer of each side."""

    config: TextBundleConfig
    model: TokenModel

    config_type: ClassVar[type[BundleConfig]] = TextBundleConfig
    own_files: ClassVar[tuple[str, ...]] = tuple(TOKENIZER_FILES)

    @property
    def origin(self) -> ImportOrigin | None:
        """The origin of the model if it was imported or tuned from an imported one, or None."""
        return self.config.origin

    @property
    def longest_input(self) -> int:
        """The tokens of the longest source in training, or of a window of text."""
        return self.config.longest_source

    @cached_property
    def specials(self) -> Specials:
        """The special tokens for search, with the target tokens that are never produced.

        The end token ends a translation. In monolingual text it ends a line and begins the next
        one.
        """
        if self.config.model.vocabularies == 1:
            return Specials(EOS, NOTHING, self.forbidden, (), self._high_bytes)
        start = self.config.model.start_token
        return Specials(start, EOS, self.forbidden, self.marks, self._high_bytes)

    @property
    def _high_bytes(self) -> tuple[int, ...]:
        """The target tokens of the bytes 0x80 to 0xFF, or none if a byte has no token."""
        tokenizer = self.target_tokenizer
        ids = {piece: id for id, piece in enumerate(tokenizer.pieces(range(tokenizer.vocab_size)))}
        found = [ids.get(f"<0x{value:02X}>", UNK) for value in range(HIGH, 256)]
        return () if UNK in found else tuple(found)

    @classmethod
    def build(cls, config: BundleConfig) -> Model:
        """Build a model for the vocabulary sizes in `config`."""
        assert isinstance(config, TextBundleConfig)
        return build_model(config.model, config.source_vocabulary, config.target_vocabulary)

    @classmethod
    def read(cls, directory: Path, config: BundleConfig) -> dict[str, Any]:
        """Read the tokenizers."""
        assert isinstance(config, TextBundleConfig)
        source, target = read_tokenizers(directory, config)
        return {"source_tokenizer": source, "target_tokenizer": target}

    def files(self) -> dict[str, bytes]:
        """Return the contents of the tokenizers' files by name."""
        with tempfile.TemporaryDirectory() as scratch:
            tokenizers = self.source_tokenizer, self.target_tokenizer
            save_tokenizers(Path(scratch), *tokenizers, joint=self.config.joint_tokenizer)
            return {file.name: file.read_bytes() for file in sorted(Path(scratch).iterdir())}

    def merged(self, others: list[Self]) -> TextBundleConfig:
        """Return the configuration of the average of this bundle and others."""
        longest = max(bundle.config.longest_source for bundle in (self, *others))
        return self.config.model_copy(update={"longest_source": longest})

    def why_not_averaged(self, other: Bundle) -> str:
        """Return why another bundle of the same model cannot be averaged with this one, or ""."""
        assert isinstance(other, TextBundle)
        same = self.config.joint_tokenizer == other.config.joint_tokenizer
        if same and not self.tokenizer_differences(other):
            return ""
        return (
            "its tokenizer differs from the tokenizer of {first}; only bundles with the same "
            "tokenizer can be averaged (train the second with --from the first, or resume one run)"
        )

    def tokenizer_differences(self, other: Self) -> dict[str, str]:
        """Return how the tokenizers of another bundle differ, by side: "source" and "target".

        Args:
            other: The other bundle.

        Returns:
            A clause for each side that differs; an empty dictionary if both sides are the same.
        """
        pairs = {
            "source": (self.source_tokenizer, other.source_tokenizer),
            "target": (self.target_tokenizer, other.target_tokenizer),
        }
        found = {side: _difference(*pair) for side, pair in pairs.items()}
        return {side: clause for side, clause in found.items() if clause}


def _difference(own: Tokenizer, other: Tokenizer) -> str:
    """Return how a tokenizer differs from another one, as a clause, or an empty text."""
    if (own.kind, own.vocab_size) != (other.kind, other.vocab_size):
        kinds = [f"{each.kind} with {each.vocab_size:,} pieces" for each in (other, own)]
        return f"{kinds[0]} instead of {kinds[1]}"
    ids = list(range(own.vocab_size))
    pairs = zip(other.pieces(ids), own.pieces(ids), strict=True)
    for index, (theirs, ours) in enumerate(pairs):
        if theirs != ours:
            return f"piece {index:,} is {theirs!r} instead of {ours!r}"
    return ""
