"""Test sets of translations in files, and the scores of models on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from crosshead.caller import split_names
from crosshead.cli.arguments import check_direction, into, search_settings
from crosshead.cli.evaluation import SCORES_FOLLOW, say_if_seen, say_if_tokenised
from crosshead.cli.terminal import answering, note
from crosshead.config import validate
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.engine import EngineSearch
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.tasks.translation.scores import evaluate
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
        """Check that the sources are not named as text in the language that a model writes."""
        if self.source is not None:
            check_direction(translator, self.source, model=model)
        elif fields := self._config.fields:
            files = ", ".join(self.files)
            check_direction(translator, files, fields[0], model=model)

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


def translation_evaluation(
    bundles: Sequence[Path],
    test: TranslationSet,
    to: str | None,
    metrics: Sequence[str],
    tokenize: str | None,
    flags: Mapping[str, Any],
    engine: str,
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a translation model on a test set."""
    translator = into(load_as(Translator, bundles, device, threads), to)
    test.check(translator)
    sources, references = test.read()
    say_if_seen(bundles, test.files)
    say_if_tokenised(references, test.reference_files, metrics, tokenize)
    return evaluate(
        translator, sources, references, metrics, tokenize,
        translate=lambda lines: translated(translator, lines, flags, engine),
        score=partial(scored_pairs, translator),
    )  # fmt: skip


def scored_pairs(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> list[ScoredTranslation]:
    """Return the log-probabilities of references as translations of their sources."""
    with answering(len(sources), "pairs") as advance:
        progress = partial(advance, 0, len(sources))
        return translator.score(sources, references, progress=progress)


def translated(
    translator: Translator, sources: Sequence[str], flags: Mapping[str, Any], engine: str
) -> list[str]:
    """Return the best translation of each line; flags override the bundle's search settings."""
    decode = search_settings(translator.bundle.config.decode, False, flags, None)
    translator.engine = EngineSearch(engine, torch.get_num_threads())
    with answering(len(sources), "lines", SCORES_FOLLOW) as advance:
        progress = partial(advance, 0, len(sources))
        found = translator.translate(sources, decode=decode, scored=False, progress=progress)
        progress(1.0)
    return [best[0].text for best in found]
