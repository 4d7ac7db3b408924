"""The base of tasks on monolingual text, and the text of a run: read, split and tokenized."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ValidationInfo, model_validator

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import CardFile
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.config import called
from crosshead.errors import ConfigError, DataError
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.lines import LONGEST_TEXT, check_regular, file_sha256, read_lines
from crosshead.system.progress import counted
from crosshead.tasks.base import Say
from crosshead.tasks.corpus import Epoch, Stopped
from crosshead.tasks.token_task import TokenCorpus, TokenTask
from crosshead.tasks.usability import frequency_faults
from crosshead.tasks.validation import Validator
from crosshead.text.learning import learn_tokenizer
from crosshead.text.parallel.section import PAIRED, DataConfig
from crosshead.text.streams import MaskedWindows, Stream, Windows, epoch_windows
from crosshead.text.tokenizers import Tokenizer, load_tokenizer


@dataclass(frozen=True)
class TextCorpus(TokenCorpus):
    """A training text and a validation text, each a stream of ids."""

    stream: Stream
    valid: Stream
    context: int
    held_out: bool
    """True if the validation text is the end of the given training text."""

    unit, unit_name = "token", "tokens"

    @property
    def size(self) -> int:
        """The number of training ids."""
        return len(self.stream)

    @property
    def longest_input(self) -> int:
        """The number of ids in a window."""
        return self.context

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the windows, counted from the beginning of the text."""
        return Windows(self.stream.ids, self.context).lengths

    def epochs(self, recipe: TextRecipe) -> Callable[[int], Epoch]:
        """Return a function that gives the windows of an epoch. They begin elsewhere in each."""
        seed = recipe.train.seed
        return lambda epoch: epoch_windows(self.stream, self.context, seed, epoch)

    def sha256(self) -> str:
        """Return the checksum of all training and validation ids, in this order."""
        both = self.stream.sha256() + self.valid.sha256()
        return hashlib.sha256(both.encode()).hexdigest()

    def origin(self, row: int) -> str:
        """Return the name of the first file, for all windows."""
        return self.files[0].path

    def opening(self, data: DataConfig) -> list[str]:
        """Return a line with the numbers of training and validation tokens."""
        found = counted(self.size, "token")
        return [
            f"{found} to train on, in windows of {self.context:,}; "
            f"validation: {self.validation(data)}"
        ]

    def validation(self, data: DataConfig) -> str:
        """Return a clause about the validation set. `data` is the section with its files."""
        found = f"{counted(len(self.valid), 'token')}, {self.valid.characters:,} characters,"
        if self.held_out:
            return f"the last {found} of the text"
        return f"{found} of {', '.join(data.valid_text)}"


class MaskedCorpus(TextCorpus):
    """Monolingual text for a model that predicts masked tokens."""

    def epochs(self, recipe: TextRecipe) -> Callable[[int], Epoch]:
        """Return a function that gives the windows of an epoch, with masked tokens.

        The windows and the masked tokens differ in each epoch.
        """
        seed, vocabulary = recipe.train.seed, self.target_tokenizer.vocab_size

        def windows(epoch: int) -> MaskedWindows:
            text = epoch_windows(self.stream, self.context, seed, epoch)
            return MaskedWindows(
                text.ids, text.context, text.first, vocabulary=vocabulary, drawn=(seed, epoch)
            )

        return windows


def read_text(
    recipe: TextRecipe,
    base: TextBundle | None,
    resumed: Path | None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
    kind: type[TextCorpus] = TextCorpus,
) -> TextCorpus:
    """Read, split and tokenize the text of a recipe, all of it in memory.

    All files together are one text. Without validation files the last characters of the text, a
    share `data.valid_share`, are held out. The tokenizer comes from `resumed` or from `base`, or is
    learned from the training text.
    """
    data = recipe.data
    if not data.text:
        raise ConfigError(f"no text to train on; give {option('text')} FILE, or text in [data]")
    for name in (*data.text, *data.valid_text):
        check_regular(Path(name))
    lines = [read_lines(Path(name), LONGEST_TEXT) for name in data.text]
    for name, each in zip(data.text, lines, strict=True):
        if not any(each):
            raise DataError(f"{name}: empty; expected text")
    text = "".join(_joined(lines))
    if data.valid_text:
        held = [read_lines(Path(name), LONGEST_TEXT) for name in data.valid_text]
        training, valid = text, "".join(_joined(held))
    else:
        cut = len(text) - round(data.valid_share * len(text))
        training, valid = text[:cut], text[cut:]
    if should_stop():
        raise Stopped
    config, tokenizer = recipe.tokenizer, _kept_tokenizer(base, resumed)
    if tokenizer is None:
        config, tokenizer = learn_tokenizer(config, training.split("\n"))
    files = [
        CardFile(name, len(each), file_sha256(Path(name)))
        for name, each in zip(data.text, lines, strict=True)
    ]
    stream, validation = (_stream(tokenizer, each, should_stop) for each in (training, valid))
    for purpose, found, names in (
        ("train", stream, data.text),
        ("validate", validation, data.valid_text or data.text),
    ):
        if len(found) < 2:
            raise DataError(
                f"{', '.join(names)}: {found.characters:,} characters are too few to {purpose} on; "
                "a language model needs at least two tokens"
            )
    return kind(
        files, config, tokenizer, tokenizer, stream, validation, data.context, not data.valid_text
    )


def _joined(files: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield all lines, each with its line feed."""
    for lines in files:
        for line in lines:
            yield line + "\n"


def _kept_tokenizer(base: TextBundle | None, resumed: Path | None) -> Tokenizer | None:
    if resumed is not None:
        return load_tokenizer(resumed, "tokenizer")
    return None if base is None else base.target_tokenizer


def _stream(tokenizer: Tokenizer, text: str, should_stop: Callable[[], bool]) -> Stream:
    stream = Stream.of(tokenizer, text)
    if should_stop():
        raise Stopped
    return stream


SAMPLE_TOKENS = 40
"""The number of tokens in a sample continuation, and in the text before it."""


class MonolingualRecipe(TextRecipe):
    """A run on monolingual text."""

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        for key in PAIRED:
            if getattr(self.data, key):
                raise ValueError(
                    f"{called(f'data.{key}', info)} is for translation; a model of monolingual "
                    f"text ({self.model.architecture}) is trained on {called('data.text', info)}"
                )
        if self.data.directions != "one":
            raise ValueError("data.directions is for translation; leave it out")
        for key, usual in (("share", 1.0), ("fold", []), ("tagged", None), ("noise", 0.0)):
            if getattr(self.data, key) != usual:
                raise ValueError(f"data.{key} is for pairs of texts; leave it out")
        if self.data.context > self.train.batch_tokens:
            raise ValueError(
                f"data.context {self.data.context} does not fit into train.batch_tokens "
                f"{self.train.batch_tokens}; lower the first or raise the second"
            )
        self.model.check_context(self.data.context)
        if not self.tokenizer.joint:
            raise ValueError("monolingual text has one side: set tokenizer.joint = true")
        if self.tokenizer.sampling:
            raise ValueError("tokenizer.sampling is for translation; leave it out")
        return self


class MonolingualTask(TokenTask):
    """A task on monolingual text."""

    corpus: ClassVar[type[TextCorpus]] = TextCorpus
    """The class of its corpora."""

    def read(
        self,
        recipe: TextRecipe,
        base: Bundle | None,
        resumed: Path | None,
        say: Say = lambda line: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> TextCorpus:
        """Read, split and tokenize text: see `read_text`."""
        assert base is None or isinstance(base, TextBundle)
        return read_text(recipe, base, resumed, say, should_stop, self.corpus)

    def sections(self, bundle: Bundle) -> dict[str, dict[str, Any]]:
        """Return the settings of a bundle, including the length of its windows."""
        assert isinstance(bundle, TextBundle)
        found = super().sections(bundle)
        found["data"]["context"] = bundle.config.longest_source
        return found


class TextValidator(Validator[TextRecipe, TextCorpus, TextBundle]):
    """The base of validation on monolingual text."""

    def frequency_faults(self, windows: Sequence[tuple[float, int, int]]) -> list[str]:
        """Return a clause if a model is hardly better than token frequencies."""
        corpus = self.corpus
        nll = sum(nats for nats, _, _ in windows) / sum(tokens for _, tokens, _ in windows)
        size = corpus.target_tokenizer.vocab_size
        return frequency_faults(nll, corpus.stream.ids, corpus.valid.ids, size)
