"""The parallel text of a run: read, split, tokenized and filtered."""

import hashlib
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from crosshead.bundle.card import CardFile
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.evaluation.sacrebleu_metrics import tokenised_warning
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.lines import file_sha256
from crosshead.system.processor import available_cores
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.token_task import TokenCorpus
from crosshead.text.batching import Pairs, example_lengths
from crosshead.text.learning import learn_tokenizers
from crosshead.text.markers import MARKERS, TERM_MARKERS, ids_of
from crosshead.text.parallel.corpora import Corpora, Part, read_valid_pairs, survey, training_parts
from crosshead.text.parallel.examples import (
    Chosen,
    Example,
    Examples,
    Measured,
    Sampled,
    measure_growth,
    mixture,
    sampled_segmentation,
)
from crosshead.text.parallel.filters import (
    HELD_OUT,
    LEFT_OUT,
    Glance,
    Kept,
    keep_pairs,
    quick_check,
    write_held_out,
    write_left_out,
)
from crosshead.text.parallel.held_out import (
    NOTHING,
    HeldOut,
    Remaining,
    hold_out,
    in_both_directions,
    without_old_valid,
    without_unused,
)
from crosshead.text.parallel.languages import tag_of, tagged_languages
from crosshead.text.parallel.noise import Noise, Noised
from crosshead.text.parallel.pairs import ParallelText
from crosshead.text.parallel.section import DataConfig
from crosshead.text.parallel.shards import cache_directory, cache_key, open_shards, store
from crosshead.text.parallel.tagged import Forms, Tagged, Tagging, word_forms
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.profile import TextProfile
from crosshead.text.subwords import BpeTokenizer
from crosshead.text.tokenizers import Tokenizer, TokenizerConfig, load_tokenizers, token_ids

LARGEST_IN_MEMORY = 500_000
"""The largest number of pairs that is tokenized in memory. More are tokenized into files
(`crosshead.text.parallel.shards`)."""


TAGGED = 0.1
"""The share of pairs with marks, unless the recipe states one."""


FEW_PAIRS = 100
"""The number of pairs below which a run begins with a warning."""


MANY_REPEATED = 0.02
"""The share of validation pairs that are also training pairs from which a warning says so."""


@dataclass
class _Learned:
    """Parts that are learned from the pairs of a corpus when they are needed first."""

    aligner: WordAligner | None = None
    forms: Forms | None = None
    noise: Noise | None = None


@dataclass(frozen=True)
class ParallelCorpus(TokenCorpus):
    """Tokenized pairs of texts."""

    kept: Kept
    starts: Sequence[int]
    """The row of the text at which each corpus begins, and the number of all rows."""
    valid: ParallelText
    valid_examples: list[Example]
    held_out: bool
    """True if the validation pairs were held out of the training data."""
    old_valid: ParallelText | None = None
    """The validation pairs of an old domain, in fine-tuning."""
    old_examples: Sequence[Example] = ()
    few: str = field(default="", kw_only=True)
    """Clauses about training pairs that are too few to learn from, or ""."""
    suspects: Collection[int] = field(default=(), kw_only=True)
    """The rows of the text that the quick check has found suspect (`Glance.suspects`)."""
    stop_if_asked: Callable[[], None] = field(default=lambda: None, kw_only=True, compare=False)
    """A function that raises `Stopped` if the run should stop."""
    learned: _Learned = field(default_factory=_Learned, kw_only=True, compare=False)
    """The aligner and the like, once they are learned. Copies of the corpus share them."""

    unit, unit_name = "pair", "sentence pairs"

    @property
    def size(self) -> int:
        """The number of training pairs."""
        return len(self.kept.examples)

    @cached_property
    def valid_in_training(self) -> int:
        """The number of pairs of the validation files that are also training pairs."""
        if self.held_out:  # pairs that repeat a held-out pair are left out
            return 0
        return Examples.of(self.valid_examples).count_in(self.kept.examples)

    @property
    def counts(self) -> list[int]:
        """The number of training pairs of each corpus."""
        found: list[int] = np.diff(self.kept.encoded.rows.searchsorted(self.starts)).tolist()
        return found

    @property
    def longest_input(self) -> int:
        """The number of tokens of the longest source in training."""
        return int(self.kept.examples.source.lengths.max())

    def bundle_config(self, recipe: TextRecipe, longest_input: int) -> TextBundleConfig:
        """Return the configuration of the run's bundle, with the languages of its tags."""
        config = super().bundle_config(recipe, longest_input)
        if recipe.data.directions == "one":
            return config
        targets = tagged_languages(self.source_tokenizer.special)
        changes: dict[str, Any] = {"target_languages": targets}
        if recipe.data.directions == "both":
            changes |= {"source_language": None, "target_language": None}
        return config.model_copy(update=changes)

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of all pairs in their usual segmentation."""
        return example_lengths(self.kept.examples)

    @cached_property
    def profile(self) -> TextProfile | None:
        """Statistics of the training pairs that are not suspect, or None if there are too few."""
        source = self.source_tokenizer
        tags = [source.encode(tag_of(each)) for each in tagged_languages(source.special)]
        sound = np.flatnonzero(~np.isin(self.kept.encoded.rows, list(self.suspects)))
        examples = Chosen(self.kept.examples, sound)
        return TextProfile.of(examples, source, self.target_tokenizer, tags)

    def epochs(self, recipe: TextRecipe) -> Callable[[int], Pairs]:
        """Return a function that gives the pairs of an epoch.

        These are all pairs, a mixture of corpora, or sampled segmentations, with marks in a share
        of them. If the recipe guides attention, they have the aligner; learning it takes seconds at
        the first call.
        """
        chosen, start = epoch_examples(recipe, self), recipe.model.start_token
        tag, guided = self._tagger(recipe, chosen), recipe.train.guided_alignment
        aligner = self._aligner(chosen(0)) if guided else None
        noise = self._noise(recipe, chosen)
        return lambda epoch: Pairs(tag(noise(chosen(epoch), epoch), epoch), start, aligner)

    def _noise(
        self, recipe: TextRecipe, chosen: Callable[[int], Measured]
    ) -> Callable[[Measured, int], Measured]:
        """Return a function that puts noise into a share of the examples of an epoch."""
        share, tokenizers = recipe.data.noise, (self.source_tokenizer, self.target_tokenizer)
        if not share:
            return lambda examples, epoch: examples
        if (noise := self.learned.noise) is None:
            seed, longest = recipe.train.seed, recipe.data.max_length
            noise = Noise.of(chosen(0), tokenizers, share, seed, longest, self._tags)
            self.learned.noise = noise
        return lambda examples, epoch: Noised(examples, noise, epoch)

    def _tagger(
        self, recipe: TextRecipe, chosen: Callable[[int], Measured]
    ) -> Callable[[Measured, int], Measured]:
        """Return a function that puts marks into a share of the examples of an epoch."""
        tokenizers = self.source_tokenizer, self.target_tokenizer
        markers, other = (ids_of(MARKERS, tokenizer) for tokenizer in tokenizers)
        share = recipe.data.tagged
        if share and (not markers or markers != other):
            raise ConfigError(
                "the tokenizer has no pieces of marks: leave it out, or train a new model",
                key="data.tagged",
            )
        share = TAGGED if share is None and markers == other else share
        if not (share and markers):
            return lambda examples, epoch: examples
        tagging = Tagging(
            tokenizers, self._aligner(chosen(0)), markers,
            ids_of(TERM_MARKERS, self.source_tokenizer), share, recipe.train.seed,
            recipe.data.max_length, self._tags,
            self._forms(chosen(0)),
        )  # fmt: skip
        return lambda examples, epoch: Tagged(examples, tagging, epoch)

    @property
    def _tags(self) -> frozenset[int]:
        """The tags of target languages in the source vocabulary."""
        tokenizer = self.source_tokenizer
        return frozenset(
            tokenizer.encode(tag_of(each))[-1] for each in tagged_languages(tokenizer.special)
        )

    def _forms(self, examples: Measured) -> Forms:
        """Return other forms of words; the first call looks for them in the given pairs."""
        if self.learned.forms is None:
            self.learned.forms = word_forms(examples, self.target_tokenizer, self._tags)
        return self.learned.forms

    def _aligner(self, examples: Measured) -> WordAligner:
        """Return the aligner; the first call learns it from the given pairs."""
        if self.learned.aligner is None:
            sizes = self.source_tokenizer.vocab_size, self.target_tokenizer.vocab_size
            self.learned.aligner = WordAligner(examples, max(sizes), self.stop_if_asked)
        return self.learned.aligner

    def sha256(self) -> str:
        """Return the checksum of all training and validation ids, in this order."""
        both = self.kept.sha256 + Examples.of([*self.valid_examples, *self.old_examples]).sha256()
        return hashlib.sha256(both.encode()).hexdigest()

    def origin(self, row: int) -> str:
        """Return the file and the line of a pair."""
        origin = self.kept.text.origin(int(self.kept.encoded.rows[row]))
        return f"{origin.file}:{origin.line}"

    def opening(self, data: DataConfig) -> list[str]:
        """Return a line with the numbers of training and validation pairs, and warnings."""
        left_out = {reason: count for reason, count in self.left_out().items() if count}
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items())
        found = counted(self.size, "pair")
        lines = [
            f"{found} to train on"
            + (f" (left out: {dropped}; see {LEFT_OUT})" if dropped else "")
            + f"; validation: {self.validation(data)}"
        ]
        if self.old_valid is not None:
            counts = self.counts
            old = sum(counts[part] for part in data.old_parts(len(counts)))
            lines.append(
                f"old domain: {old:,} of these pairs (data.old_ratio = {data.old_ratio:g}); "
                f"validation with {counted(len(self.old_valid), 'pair')} of "
                f"{', '.join(data.old_valid_files)}"
            )
        targets = ", ".join([*data.valid_target, *data.valid_pairs])
        lines += tokenised_warning(self.valid.target, targets or "the held-out references")
        if repeats := self.repeated_validation():
            lines.append(f"warning: {repeats}")
        if self.few:
            lines.append(f"warning: {self.few}")
        return lines

    def validation(self, data: DataConfig) -> str:
        """Return a clause about the validation set. `data` is the section with its files."""
        found = counted(len(self.valid), "pair")
        if self.held_out:
            return f"{found} held out of the training files ({HELD_OUT})"
        names = [*data.valid_source, *data.valid_target, *data.valid_pairs]
        return f"{found} of {', '.join(names)}"

    def repeated_validation(self) -> str:
        """Return a clause if many validation pairs are also training pairs, or ""."""
        if self.valid_in_training < max(1, MANY_REPEATED * len(self.valid)):
            return ""
        return (
            f"{self.valid_in_training:,} of {counted(len(self.valid), 'validation pair')} are also "
            "training pairs, so scores are too high for new text; validate on other pairs"
        )

    def left_out(self) -> dict[str, int]:
        """Return the number of pairs left out of training, by reason."""
        return self.kept.counts()

    def write_files(self, out: Path, names: Mapping[str, str]) -> None:
        """Write the tokenizers, the list of pairs left out, and the list of held-out pairs."""
        super().write_files(out, names)
        left_out = [row._replace(file=names[row.file]) for row in self.kept.left_out]
        write_left_out(out / LEFT_OUT, left_out)
        if self.held_out:
            rows = [row._replace(file=names[row.file]) for row in self.valid.origins]
            write_held_out(out / HELD_OUT, rows)


@dataclass(frozen=True)
class _Reading:
    """The training text and its held-out set, each read at first use."""

    data: DataConfig
    parts: Sequence[Part]
    seed: int
    """The seed that draws the held-out set, and the pairs of `data.share`."""
    has_valid: bool
    """True if there are validation files, so that nothing is held out."""
    old_valid: ParallelText | None
    """The validation pairs of an old domain, which are not trained on."""

    @cached_property
    def text(self) -> Corpora:
        return survey(self.parts)

    @cached_property
    def held(self) -> HeldOut:
        choose = in_both_directions if self.data.directions == "both" else hold_out
        held = NOTHING if self.has_valid else choose(self.text, self.data, self.seed)
        old = self.data.old_parts(len(self.parts))
        if old and self.old_valid is not None:
            sides = self.old_valid.source, self.old_valid.target
            held = without_old_valid(self.text, held, old, sides)
        if self.data.share == 1:
            return held
        return without_unused(self.text, held, self.data.share, self.seed)


def read_parallel(
    recipe: TextRecipe,
    base: TextBundle | None,
    resumed: Path | None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> ParallelCorpus:
    """Read, split, tokenize and filter the text of a recipe.

    The tokenizers come from `resumed`, or from `base` with the recipe's `sampling`, or are learned
    from the training text. A text of more than `LARGEST_IN_MEMORY` pairs is tokenized into a cache,
    or found there.
    """

    def stop_if_asked() -> None:
        if should_stop():
            raise Stopped

    data, valid = recipe.data, read_valid_pairs(recipe.data, say)
    parts = [replace(part, stop_if_asked=stop_if_asked) for part in training_parts(data)]
    for part in parts:
        for note in () if part.exchanged else part.notes():
            say(note)
    checksums = {name: file_sha256(Path(name)) for part in parts for name in part.files}
    old_valid = read_valid_pairs(data, say, old=True)
    reading = _Reading(
        data, parts, recipe.train.seed, has_valid=valid is not None, old_valid=old_valid
    )
    config, source, target = _tokenizers(recipe.tokenizer, base, resumed, reading, stop_if_asked)
    _check_tags(parts, source)
    text, kept, held = _tokenized(reading, (source, target), checksums, say, stop_if_asked)
    starts = text.starts.tolist()
    # The check expects one language on each side.
    found = quick_check(text, data, valid) if data.directions == "one" else Glance([], "")
    # A resumed run only needs the suspect pairs, for its profile: its progress holds the fault.
    data_fault = few = ""
    if resumed is None:
        for line in found.warnings:
            say(line)
        few = _too_few(len(kept.examples)) if base is None else ""
        data_fault = found.data_fault or few
    held_out = valid is None
    valid = held.valid if valid is None else valid
    files = _card_files(text, checksums)
    return ParallelCorpus(
        files, config, source, target, kept, starts, valid, _examples(valid, source, target),
        held_out, old_valid, _examples(old_valid, source, target) if old_valid else (),
        stop_if_asked=stop_if_asked, data_fault=data_fault, few=few, suspects=found.suspects,
    )  # fmt: skip


def _too_few(pairs: int) -> str:
    """Return clauses about a number of training pairs from which nothing can be learned, or ""."""
    if pairs >= FEW_PAIRS:
        return ""
    return (
        f"from {counted(pairs, 'pair')} a model only learns to repeat them; to translate new "
        "sentences it needs thousands of pairs"
    )


def _examples(text: ParallelText, source: Tokenizer, target: Tokenizer) -> list[Example]:
    """Return the token ids of pairs."""
    return list(zip(token_ids(source, text.source), token_ids(target, text.target), strict=True))


def epoch_examples(recipe: TextRecipe, corpus: ParallelCorpus) -> Callable[[int], Measured]:
    """Return a function from the number of an epoch to its training examples.

    The examples depend only on the corpus, the recipe and this number.
    """
    examples, seed = corpus.kept.examples, recipe.train.seed
    counts = corpus.counts
    weights = recipe.data.passes(counts)

    def chosen(epoch: int) -> Measured:
        return Chosen(examples, mixture(counts, weights, seed, epoch)) if weights else examples

    if not recipe.tokenizer.sampling:
        return chosen
    tokenizers = corpus.source_tokenizer, corpus.target_tokenizer
    growth = measure_growth(examples, sampled_segmentation(tokenizers), seed)

    def sampled(epoch: int) -> Measured:
        usual = chosen(epoch)
        return Sampled(
            usual, tokenizers, seed, epoch, growth.room(usual.lengths, recipe.data.max_length)
        )

    return sampled


def _check_tags(parts: Sequence[Part], source: Tokenizer) -> None:
    """Raise `ConfigError` if a tag is not one piece of the source tokenizer."""
    missing = sorted({part.tag for part in parts} - {"", *source.special})
    if missing:
        known = " and ".join(tagged_languages(source.special)) or "none"
        raise ConfigError(
            f"the tokenizer has no piece {' and '.join(missing)}: its model was not trained for "
            f"this target language (tags: {known}); train a new model, or choose another bundle"
        )


def _tokenizers(
    config: TokenizerConfig,
    base: TextBundle | None,
    resumed: Path | None,
    reading: _Reading,
    stop_if_asked: Callable[[], None],
) -> tuple[TokenizerConfig, Tokenizer, Tokenizer]:
    """Load the tokenizers of an earlier run or bundle, or learn them from the training text."""
    if resumed is not None:
        return config, *load_tokenizers(resumed, joint=config.joint)
    if base is not None:
        source = _with_sampling(base.source_tokenizer, config.sampling)
        target = _with_sampling(base.target_tokenizer, config.sampling)
        return config, source, target
    try:
        return learn_tokenizers(config, Remaining(reading.text, reading.held))
    except DataError:
        # SentencePiece turns a `Stopped` that its text raises into its own error.
        stop_if_asked()
        raise


def _tokenized(
    reading: _Reading,
    tokenizers: tuple[Tokenizer, Tokenizer],
    checksums: Mapping[str, str],
    say: Callable[[str], None],
    stop_if_asked: Callable[[], None],
) -> tuple[Corpora, Kept, HeldOut]:
    """Return the text, its kept pairs and its held-out pairs, in memory or in the cache."""
    data, parts = reading.data, reading.parts
    files = [[*(checksums[name] for name in part.files), *part.direction] for part in parts]
    old_valid = [
        file_sha256(Path(name))
        for name in (data.old_valid_files if data.old_parts(len(parts)) else ())
    ]
    with tempfile.TemporaryDirectory() as scratch:
        held_out_seed = None if reading.has_valid else reading.seed
        key = cache_key(
            files, data, tokenizers, held_out_seed, Path(scratch), reading.seed, old_valid
        )
    place = cache_directory() / key
    stored = open_shards(place, parts, say)
    if stored is not None:
        return stored.text, stored.kept, stored.held
    text, held = reading.text, reading.held
    if len(text) <= LARGEST_IN_MEMORY:
        return text, keep_pairs(text, data, *tokenizers, held), held
    try:
        stored = store(place, text, held, data, tokenizers, available_cores(), say, stop_if_asked)
    except UserError as error:
        if not str(error).startswith(str(place.parent)):
            raise
        raise UserError(
            f"{error}; or set CROSSHEAD_CACHE to another place for tokenized corpora"
        ) from None
    return stored.text, stored.kept, stored.held


def _with_sampling(tokenizer: Tokenizer, sampling: float) -> Tokenizer:
    """Return the tokenizer with another strength of sampling. Only BPE tokenizers change."""
    return tokenizer.with_sampling(sampling) if isinstance(tokenizer, BpeTokenizer) else tokenizer


def _card_files(text: Corpora, checksums: Mapping[str, str]) -> list[CardFile]:
    """Return each training file with its number of pairs and checksum, in recipe order."""
    counts = {part.files: count for part, count in zip(text.parts, text.counts, strict=True)}
    parts = [part for part in text.parts if not part.exchanged]  # the same files again
    aligned = [part for part in parts if len(part.files) == 2]
    names = [(part.files[side], part) for side in (0, 1) for part in aligned]
    names += [(part.files[0], part) for part in parts if len(part.files) == 1]
    return [CardFile(name, counts[part.files], checksums[name]) for name, part in names]
