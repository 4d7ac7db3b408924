"""The section `[data]` of a recipe for text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from crosshead.caller import option
from crosshead.config import MOST, called
from crosshead.data import DataSection, Names
from crosshead.system.progress import counted
from crosshead.text.parallel.languages import looks_like_code
from crosshead.text.parallel.tables import is_jsonl

_Weight = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
TRAIN = ("source", "target", "pairs")
"""The keys that name files of training pairs."""
VALID = ("valid_source", "valid_target", "valid_pairs")
"""The keys that name files of validation pairs."""
_OLD = ("old_source", "old_target", "old_pairs")
_OLD_VALID = ("old_valid_source", "old_valid_target", "old_valid_pairs")
PAIRED = (*TRAIN, *VALID, *_OLD, *_OLD_VALID)
"""The keys that name files of pairs."""


class DataConfig(DataSection):
    """Files of text, and filters of the training pairs: the section `[data]` of a recipe."""

    file_keys: ClassVar[tuple[str, ...]] = (*PAIRED, "text", "valid_text")

    source: Names = Field(default_factory=list)
    """Files of source sentences, one per line. A single name needs no brackets."""

    target: Names = Field(default_factory=list)
    """Files of the translations, one for each file of `source`, aligned line by line."""

    pairs: Names = Field(default_factory=list)
    """Files with both sides: JSON Lines if the name ends in `.jsonl`, CSV if it ends in `.csv`, and
    otherwise TSV. Quotes around cells, as spreadsheets write them, are removed."""

    fields: Names = Field(default_factory=list)
    """The source field and the target field of `pairs`: names (in TSV and CSV, names in the first
    line; in JSON Lines, `translation.en` is `en` inside `translation`) or, in TSV and CSV, column
    numbers from 1. A file of two columns needs none."""

    valid_source: Names = Field(default_factory=list)
    """Files of source sentences for validation, in the form of `source`."""

    valid_target: Names = Field(default_factory=list)
    """Files of translations for validation, in the form of `target`."""

    valid_pairs: Names = Field(default_factory=list)
    """Files of pairs for validation, in the form of `pairs`."""

    text: Names = Field(default_factory=list)
    """Files of monolingual text, for language models. All files together are one text."""

    valid_text: Names = Field(default_factory=list)
    """Files of monolingual text for validation, in the form of `text`."""

    valid_share: float = Field(default=0.1, gt=0, lt=1)
    """The share of the text, at its end, that is held out of training if `valid_text` is not
    set."""

    context: int = Field(default=256, gt=0, le=2**24)
    """The number of tokens in a window of text: what a language model sees at once in training."""

    valid_size: int = Field(default=500, gt=0, le=MOST)
    """The number of pairs that are held out of training if there are no validation files; at most a
    tenth of the different pairs. Pairs with the source of a held-out pair are left out of training;
    if it has one or two words, only those with the same target."""

    max_length: int = Field(default=256, gt=0, le=2**24)
    """A pair with more tokens than this on either side is left out of training."""

    max_ratio: float = Field(default=9.0, ge=1, le=1e6)
    """A pair is left out of training when its longer side has more than `max_ratio` times the
    tokens of its shorter side, plus 5 tokens."""

    drop_duplicates: bool = False
    """True leaves out pairs of training that repeat an earlier pair, ignoring surrounding white
    space and the Unicode form."""

    tagged: float | None = Field(default=None, ge=0, le=1)
    """The share of the training pairs, drawn anew in each epoch, in which marks stand beside or for
    phrases that translate each other, so that the model learns to keep placeholders. In as many
    pairs a term is followed by its translation, so that it learns to use glossaries. Unset:
    0.1 with the preset `auto` and for a tokenizer that has pieces of marks, otherwise 0."""

    noise: float = Field(default=0.0, ge=0, le=1)
    """The share of the training pairs, drawn anew in each epoch, without a mark at
    the end, or with a typing error, so that the model reads what people type. The preset `auto`
    sets 0.1."""

    weights: list[_Weight] = Field(default_factory=list)
    """The number of passes through each corpus in an epoch (each file of `source`, then each of
    `pairs`): 2 uses each pair twice, 0.5 half of the pairs, drawn anew in each epoch. An empty
    list means one pass through each."""

    old_source: Names = Field(default_factory=list)
    """Files of source sentences of an old domain, mixed in so that fine-tuning forgets less."""

    old_target: Names = Field(default_factory=list)
    """Files of the translations, one for each file of `old_source`."""

    old_pairs: Names = Field(default_factory=list)
    """Files of pairs of the old domain, in the form of `pairs`."""

    old_fields: Names = Field(default_factory=list)
    """Source and target field of `old_pairs` and `old_valid_pairs`, in the form of `fields`. An
    empty list means those of `fields`."""

    old_ratio: float = Field(default=1.0, gt=0, le=1000, allow_inf_nan=False)
    """The number of old pairs for each new pair in an epoch."""

    old_valid_source: Names = Field(default_factory=list)
    """Files of source sentences of the old domain for validation. Both domains are then reported.
    The new domain chooses the checkpoints."""

    old_valid_target: Names = Field(default_factory=list)
    """Files of translations of the old domain for validation."""

    old_valid_pairs: Names = Field(default_factory=list)
    """Files of pairs of the old domain for validation, in the form of `pairs`."""

    directions: Literal["one", "tagged", "both"] = "one"
    """The directions of a model of pairs. "one": from `source` to `target`. "tagged": each corpus
    has its own languages, and a tag of the target language, such as `<2de>`, stands before each
    source. "both": the same, and each corpus is also used with its sides exchanged. The languages
    come from `source_language` and `target_language`, or from the names of files or `fields`
    (Johnson 2017)."""

    share: float = Field(default=1.0, gt=0, le=1)
    """The share of the training pairs that is used. The seed draws them, and a smaller share is
    part of a larger one. The validation set is the same for each share. `crosshead train --curve`
    sets it."""

    fold: list[int] = Field(default_factory=list)
    """The number of a fold and of all folds, such as `[2, 5]`: the second of five equal parts,
    which the seed draws, is held out for validation. `crosshead train --folds` sets it."""

    source_language: str | None = None
    """The language code of the sources, such as `en`, for the bundle and its card. Unset: the
    language in the file suffixes or in the names of `fields`, if both sides have one."""

    target_language: str | None = None
    """The language code of the targets, as for `source_language`."""

    license: str | None = Field(default=None, min_length=1, max_length=200)
    """The licence of the model, such as `cc-by-4.0`, for the bundle and its card. Unset: the card
    names none, or in fine-tuning the licence of the bundle."""

    @field_validator("fields", "old_fields")
    @classmethod
    def _without_white_space(cls, names: list[str]) -> list[str]:
        return [name.strip() for name in names]

    @field_validator("source_language", "target_language")
    @classmethod
    def _is_code(cls, code: str | None) -> str | None:
        if code is not None and not looks_like_code(code):
            raise ValueError(f"expected a language code such as en or pt-BR, found {code!r}")
        return code

    @model_validator(mode="after")
    def _sides_match(self, info: ValidationInfo) -> Self:
        for prefix in ("", "valid_", "old_", "old_valid_"):
            keys = [f"{prefix}source", f"{prefix}target"]
            keys.sort(key=lambda key: -len(getattr(self, key)))
            more, less = (len(getattr(self, key)) for key in keys)
            if more != less:
                names = [called(f"data.{key}", info) for key in keys]
                if names[0].startswith("-"):  # a flag for the side that is missing
                    names[1] = f"--{keys[1].replace('_', '-')}"
                raise ValueError(
                    f"{names[0]} names {counted(more, 'file')} but {names[1]} {less:,}; give each "
                    "source file the file of its translations"
                )
        for key in ("fields", "old_fields"):
            fields = getattr(self, key)
            if fields and (len(fields) != 2 or fields[0] == fields[1]):
                name = called(f"data.{key}", info)
                raise ValueError(f"{name} needs two fields, source and target; found {fields}")
        for key in ("pairs", "valid_pairs", "old_pairs", "old_valid_pairs"):
            fields = self.fields_of_old if key.startswith("old") else self.fields
            for name in getattr(self, key) if not fields else ():
                if is_jsonl(Path(name)):
                    raise ValueError(
                        f"{called(f'data.{key}', info)}: {name} is JSON Lines; name the fields of "
                        f"source and target with {option('fields')}, such as en,de or "
                        "translation.en,translation.de"
                    )
        return self

    @model_validator(mode="after")
    def _corpora_match(self) -> Self:
        valid = self.valid_source or self.valid_pairs
        if (self.old_source or self.old_pairs) and not (valid and self.has_old_validation):
            raise ValueError(
                "mixing in an old domain needs validation files of both domains: give "
                f"{option('valid-source')} or {option('valid-pairs')}, and data.old_valid_source "
                "or data.old_valid_pairs"
            )
        corpora = len(self.source) + len(self.pairs)
        if self.weights and len(self.weights) != corpora:
            raise ValueError(
                f"data.weights has {len(self.weights)} numbers for {corpora} corpora; give one "
                "for each source file, then one for each file of pairs"
            )
        if not self.fold:
            return self
        if len(self.fold) != 2 or not 1 <= self.fold[0] <= self.fold[1] or self.fold[1] < 2:
            raise ValueError(
                f"data.fold: expected the number of a fold and of all folds, such as [2, 5], found "
                f"{self.fold}"
            )
        if valid:
            raise ValueError(
                "data.fold holds out its own validation set; leave out the fold, or the validation "
                "files"
            )
        return self

    @property
    def fields_of_old(self) -> list[str]:
        """The fields of the files of pairs of the old domain."""
        return self.old_fields or self.fields

    @property
    def has_old_validation(self) -> bool:
        """True if there are validation files of an old domain."""
        return bool(self.old_valid_source or self.old_valid_pairs)

    @property
    def old_valid_files(self) -> list[str]:
        """The validation files of the old domain."""
        return [*self.old_valid_source, *self.old_valid_target, *self.old_valid_pairs]

    def passes(self, counts: Sequence[int]) -> list[float]:
        """Return the passes through each corpus in an epoch, or no numbers for one through each."""
        new, old = self._corpora
        if old == new and not self.weights:
            return []
        weights = list(self.weights or [1.0] * new)
        pairs = sum(weight * count for weight, count in zip(weights, counts, strict=False))
        mixed = self.old_ratio * pairs / max(sum(counts[new:old]), 1)
        return (weights + [mixed] * (old - new)) * (len(counts) // old)

    def old_parts(self, count: int) -> list[int]:
        """Return the numbers of the corpora of the old domain."""
        new, old = self._corpora
        return [number for number in range(count) if number % old >= new]

    @property
    def _corpora(self) -> tuple[int, int]:
        """The number of corpora in one direction without those of the old domain, and of all."""
        new = len(self.source) + len(self.pairs)
        return new, new + len(self.old_source) + len(self.old_pairs)
