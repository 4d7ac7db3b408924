"""Test sets of translations: the files that the verbs which score translations are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crosshead.caller import split_names
from crosshead.cli.arguments import check_direction, check_reference
from crosshead.cli.terminal import note
from crosshead.config import validate
from crosshead.tasks.translation.translator import Translator
from crosshead.text.parallel.corpora import read_aligned, read_valid_pairs
from crosshead.text.parallel.section import DataConfig


@dataclass(frozen=True)
class TranslationSet:
    """A test set of translations: two aligned files, or files with both sides."""

    source: Path | None
    """The file of source sentences, or None."""
    reference: Path | None
    """The file of reference translations, or None."""
    pairs: Sequence[str] | None
    """Files of sources and references in place of `source` and `reference`, or None."""
    fields: str | None
    """The two fields of `pairs`, with a comma between them, or None."""

    @property
    def files(self) -> list[str]:
        """The names of all files."""
        return [str(file) for file in (self.source, self.reference, *(self.pairs or [])) if file]

    @property
    def reference_files(self) -> str:
        """The names of the files that hold the references."""
        return ", ".join(self.pairs or [str(self.reference)])

    def check(self, translator: Translator, model: str = "this model") -> None:
        """Check that neither side is named as text in a language that does not fit a model."""
        if self.source is not None and self.reference is not None:
            check_direction(translator, self.source, model=model)
            check_reference(translator, self.reference, model=model)
        elif fields := self._config.fields:
            files = ", ".join(self.files)
            check_direction(translator, files, fields[0], model=model)
            check_reference(translator, files, fields[1], model=model)

    def read(self) -> tuple[list[str], list[str]]:
        """Return the sources and the references.

        Warnings tell of lines that are read in an unexpected way, and of two sides that are equal.
        """
        if self.source is not None and self.reference is not None:
            sources, references = read_aligned(self.source, self.reference)
        else:
            text = read_valid_pairs(self._config, note)
            assert text is not None
            sources, references = text.source, text.target
        if sources == references:
            options = "--fields" if self.pairs else "--source and --reference"
            note(
                f"warning: {' and '.join(self.files)}: the sources and the references are the same "
                f"text, so the scores only say how much the model copies; check {options}"
            )
        return sources, references

    @cached_property
    def _config(self) -> DataConfig:
        """The files of pairs as a section of a recipe."""
        typed = {"fields": "--fields", "data.fields": "--fields", "data.valid_pairs": "--pairs"}
        names = split_names(self.fields) if self.fields else []
        return validate(
            DataConfig, {"valid_pairs": list(self.pairs or []), "fields": names}, typed=typed
        )
