"""Translation: models of parallel text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ValidationInfo, model_validator
from torch import Tensor

from crosshead.bundle.base import Bundle
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option, setting
from crosshead.config import called
from crosshead.decoding.settings import DecodeConfig, search_name
from crosshead.evaluation.sacrebleu_metrics import bleu, corpus_scores
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.presets import DEFAULT
from crosshead.recipe.recipe import Recipe
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.progress import counted
from crosshead.tasks import automatic
from crosshead.tasks.base import Speed
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.token_task import TokenTask
from crosshead.tasks.translation.parallel_corpus import ParallelCorpus, read_parallel
from crosshead.tasks.translation.translator import Translator
from crosshead.tasks.usability import FEW, LOW_BLEU, Findings, translation_findings
from crosshead.tasks.validation import LOSS, OLD, Metric, Validation, Validator
from crosshead.text.batching import Example, collate, example_lengths, plan_in_order
from crosshead.text.imported import ImportedTokenizer, JsonTokenizer
from crosshead.text.markers import MARKERS, TERM_MARKERS
from crosshead.text.parallel.corpora import named_languages, training_parts
from crosshead.text.parallel.filters import HELD_OUT, LEFT_OUT
from crosshead.text.parallel.pairs import ParallelText

_ROOM = 5
"""Validation cuts translations that are this many tokens longer than the references allow."""

BLEU = Metric("bleu", "BLEU", higher_is_better=True, search="greedy", chance=LOW_BLEU)


class TranslationRecipe(TextRecipe):
    """A run on pairs of texts."""

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        for key in ("text", "valid_text"):
            if getattr(self.data, key):
                raise ValueError(
                    f"{called(f'data.{key}', info)} is for models of monolingual text; "
                    f"{self.model.architecture} is trained on pairs: give "
                    f"{option('source')} and {option('target')}, or {option('pairs')}"
                )
        if self.data.max_length + 1 > self.train.batch_tokens:
            raise ValueError(
                f"data.max_length {self.data.max_length} (and the end token) does not fit into "
                f"train.batch_tokens {self.train.batch_tokens}; lower the first or raise the second"
            )
        for most in (self.model.most_source, self.model.most_positions):
            if most is not None and self.data.max_length + 1 > most:
                raise ValueError(
                    f"data.max_length {self.data.max_length} (and the end token) is more than the "
                    f"{most} {self.model.bound}; lower the first or raise the second"
                )
        shares = self.tokenizer.joint or self.tokenizer.kind == ImportedTokenizer.kind
        if self.model.shares_vocabulary and not shares:
            raise ValueError(
                "model.tie three-way needs one vocabulary for both sides: set tokenizer.joint = "
                "true, or model.tie = 'two-way'"
            )
        return self


class TranslationValidator(Validator[TextRecipe, ParallelCorpus, TextBundle]):
    """Validates by the loss of the references and the BLEU of greedy translations."""

    def search_description(self) -> str:
        """Return a short description of the search for translations."""
        return search_name(self.recipe.decode)

    def validate(self, weights: dict[str, Tensor]) -> Validation:
        """Return the loss of the references, and the BLEU of greedy translations.

        The values of an old domain have names that begin with `OLD`.
        """
        self.bundle_of(weights)
        values = self._measured(self.corpus.valid, self.corpus.valid_examples)
        if self.corpus.old_valid is not None:
            old = self._measured(self.corpus.old_valid, self.corpus.old_examples)
            values |= {f"{OLD}{name}": value for name, value in old.items()}
        return Validation(values)

    def _measured(self, text: ParallelText, examples: Sequence[Example]) -> dict[str, float]:
        """Return the loss of some references, and the BLEU of greedy translations."""
        lengths = example_lengths(examples)
        most = min(self.recipe.train.batch_tokens, self.recipe.decode.batch_tokens)
        start = self.bundle.model.config.start_token
        means = self.means(
            collate(examples, rows.tolist(), start)
            for rows in plan_in_order(lengths, max(most, int(lengths.max())))
        )
        # A model that has learned little repeats itself up to the longest output. No reference is
        # longer than this one, so the rest would only take time.
        extra = max(0, int((lengths[:, 1] - lengths[:, 0]).max())) + _ROOM
        extra = min(extra, self.recipe.decode.max_extra)
        greedy = DecodeConfig(beam=1, max_extra=extra)
        return {**means, "bleu": bleu(self._translate(text.source, greedy), text.target)}

    def findings(self, weights: dict[str, Tensor]) -> Findings:
        """Return BLEU and chrF on the validation set by the search of the recipe, and samples."""
        self.bundle_of(weights)
        valid = self.corpus.valid
        translations = self._translate(valid.source, self.recipe.decode)
        found = corpus_scores(translations, valid.target)
        findings = translation_findings(found, valid.source, translations, valid.target)
        if len(valid.source) < FEW:
            pairs = counted(len(valid.source), "pair")
            findings.remarks.append(f"A validation set of {pairs} tells little.")
        if repeats := self.corpus.repeated_validation():
            if 2 * self.corpus.valid_in_training >= len(valid.source):
                findings.remarks.clear()  # the scores say nothing about new text
            findings.remarks.insert(0, f"{repeats}.")
        return findings

    @property
    def validations_to_score(self) -> float:
        """The estimated duration of the end of the run, in validations.

        A beam of n hypotheses takes up to n times as long as the greedy search of a validation.
        """
        return float(self.recipe.decode.beam)

    def _translate(self, sources: Sequence[str], decode: DecodeConfig) -> list[str]:
        translator = Translator(self.bundle).of_tagged_lines()
        found = translator.translate(
            sources, decode=decode, progress=lambda share: self.stop_if_asked()
        )
        return [best[0].text for best in found]


class TranslationTask(TokenTask):
    """Translation of text."""

    name: ClassVar[str] = "translation"
    recipe: ClassVar[type[Recipe]] = TranslationRecipe
    pipeline: ClassVar[type[Pipeline]] = Translator
    validator: ClassVar[type[Validator[Any, Any, Any]]] = TranslationValidator
    metrics: ClassVar[tuple[Metric, ...]] = (LOSS, BLEU)
    chooses: ClassVar[str] = "bleu"
    architecture: ClassVar[str] = "transformer"
    check_data: ClassVar[str] = "check that each line of the target translates the source line"
    validation_bound: ClassVar[str] = "decode.batch_tokens"
    run_files: ClassVar[tuple[str, ...]] = (LEFT_OUT, HELD_OUT)

    def prepare(self, recipe: TextRecipe) -> tuple[TextRecipe, list[str]]:
        """Fill in the languages that the file names contain, and the tags of directions."""
        fill = with_tags if recipe.data.directions != "one" else with_languages
        return fill(with_markers(recipe))

    def settle(
        self, recipe: TextRecipe, corpus: ParallelCorpus, speed: Speed
    ) -> tuple[TextRecipe, list[str]]:
        """Return the recipe with settings that fit the data and the budget: see `automatic`.

        Recipes of other architectures than the Transformer stay, and a message says so.
        """
        if not isinstance(recipe.model, TransformerConfig):
            return recipe, [
                f"auto: settings are chosen only for the architecture transformer; "
                f"{recipe.model.architecture} has those of the preset {DEFAULT}"
            ]
        return automatic.settle(recipe, corpus, speed)

    def read(
        self,
        recipe: TextRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Callable[[str], None] = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> ParallelCorpus:
        """Read, split, tokenize and filter pairs: see `read_parallel`."""
        assert base is None or isinstance(base, TextBundle)
        return read_parallel(recipe, base, resumed, say, should_stop)


def with_markers(recipe: TextRecipe) -> TextRecipe:
    """Give the tokenizer the pieces of marks and terms, if training will use them."""
    is_wanted = recipe.data.tagged or (recipe.data.tagged is None and "data.tagged" in recipe.open)
    if not is_wanted or recipe.tokenizer.kind in (ImportedTokenizer.kind, JsonTokenizer.kind):
        return recipe
    pieces = list(dict.fromkeys([*recipe.tokenizer.special, *MARKERS, *TERM_MARKERS]))
    filled = recipe.tokenizer.model_copy(update={"special": pieces})
    return recipe.model_copy(update={"tokenizer": filled})


def with_tags(recipe: TextRecipe) -> tuple[TextRecipe, list[str]]:
    """Add the tags of all directions to the pieces that the tokenizer never splits."""
    parts = training_parts(recipe.data)
    missing = sorted({part.tag for part in parts} - set(recipe.tokenizer.special))
    pieces = [*recipe.tokenizer.special, *missing]
    filled = recipe.tokenizer.model_copy(update={"special": pieces})
    shown = [f"{part.tag} {' '.join(part.files[::-1] if part.exchanged else part.files)}"
             for part in parts]  # fmt: skip
    return recipe.model_copy(update={"tokenizer": filled}), [f"directions: {', '.join(shown)}"]


def with_languages(recipe: TextRecipe) -> tuple[TextRecipe, list[str]]:
    """Fill in languages that a recipe does not state, if names give both (`named_languages`).

    Stated languages stay. Nothing is filled in if the names give only one side, or the same
    language for both.
    """
    data = recipe.data
    source, target = named_languages(data)
    source, target = data.source_language or source, data.target_language or target
    is_stated = data.source_language and data.target_language
    if is_stated or source is None or target is None or source == target:
        return recipe, []
    filled = data.model_copy(update={"source_language": source, "target_language": target})
    flags = " and ".join(
        setting(f"data.{side}_language", has_flag=True) for side in ("source", "target")
    )
    line = f"languages: {source} to {target}, from the names of files or fields (change: {flags})"
    return recipe.model_copy(update={"data": filled}), [line]
