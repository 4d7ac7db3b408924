"""Text by itself as what a run is trained on: read, split, tokenized."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from crosshead.bundle.card import CardFile
from crosshead.bundle.text_bundle import TextBundle
from crosshead.data.batching import Epoch
from crosshead.data.parallel.corpora import DataConfig
from crosshead.data.text.learning import learn_tokenizer
from crosshead.data.text.masking import MaskedWindows
from crosshead.data.text.streams import Stream, Windows, decode_text, epoch_windows
from crosshead.data.text.tokenizers import Tokenizer, load_tokenizer
from crosshead.errors import ConfigError, DataError
from crosshead.recipe.text_recipe import TextRecipe
from crosshead.system.lines import LONGEST_TEXT, check_regular, file_sha256, read_lines
from crosshead.system.progress import counted
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.token_corpus import TokenCorpus

FEW = 1000
"""A run on fewer tokens begins with a warning."""


@dataclass(frozen=True)
class TextCorpus(TokenCorpus):
    """One text to train on and one to validate on, each a stream of ids."""

    stream: Stream
    valid: Stream
    context: int
    held_out: bool
    """True if the validation text is the end of the given training text."""

    unit, unit_name, bound = "token", "tokens", "data.context"

    @property
    def size(self) -> int:
        """The number of ids to train on."""
        return len(self.stream)

    @property
    def reach(self) -> int:
        """The ids of a window."""
        return self.context

    @property
    def lengths(self) -> np.ndarray:
        """The lengths of the windows, from the beginning on."""
        return Windows(self.stream.ids, self.context).lengths

    def epochs(self, recipe: TextRecipe) -> Callable[[int], Epoch]:
        """The windows of an epoch, which begin elsewhere in each."""
        seed = recipe.train.seed
        return lambda epoch: epoch_windows(self.stream, self.context, seed, epoch)

    def sha256(self) -> str:
        """The checksum of all that is trained and validated on, as ids and in this order."""
        both = self.stream.sha256() + self.valid.sha256()
        return hashlib.sha256(both.encode()).hexdigest()

    def origin(self, row: int) -> str:
        """The name of the text: all windows are alike."""
        return self.files[0].path

    def extent(self, row: int) -> str:
        """Return the number of tokens of a window."""
        return f"{self.lengths[row, 0]:,} tokens"

    def opening(self, data: DataConfig) -> list[str]:
        """The tokens to train on, and those to validate with."""
        found = counted(self.size, "token")
        lines = [
            f"{found} to train on, in windows of {self.context:,}; "
            f"validation: {self.validation(data)}"
        ]
        if self.size < FEW:
            lines.append(
                f"warning: of {found} a model learns no more than to repeat them; to write "
                "anything else takes many thousands"
            )
        return lines

    def validation(self, data: DataConfig) -> str:
        """Return a clause on the origin of the validation set; `data` names its files."""
        found = f"{counted(len(self.valid), 'token')}, {self.valid.characters:,} characters,"
        if self.held_out:
            return f"the last {found} of the text"
        return f"{found} of {', '.join(data.valid_text)}"

    def records(self, epoch: Epoch, rows: Sequence[int]) -> tuple[str, str]:
        """Return some windows as text, one below the other."""
        batch = epoch.collate(rows)
        lengths = epoch.lengths[rows, 0].tolist()
        texts = [
            decode_text(self.target_tokenizer, ids[:length])
            for ids, length in zip(batch.target_output.tolist(), lengths, strict=True)
        ]
        return "\n".join(texts) + "\n", "--text"


class MaskedCorpus(TextCorpus):
    """The same, for a model that is to find what is hidden in it."""

    def epochs(self, recipe: TextRecipe) -> Callable[[int], Epoch]:
        """The windows of an epoch; which begin elsewhere, and hide other tokens, in each."""
        seed, vocabulary = recipe.train.seed, self.target_tokenizer.vocab_size

        def windows(epoch: int) -> MaskedWindows:
            text = epoch_windows(self.stream, self.context, seed, epoch)
            return MaskedWindows(text, vocabulary, (seed, epoch))

        return windows

    def records(self, epoch: Epoch, rows: Sequence[int]) -> tuple[str, str]:
        """Some windows as text, with nothing hidden."""
        return super().records(cast(MaskedWindows, epoch).windows, rows)


def read_text(
    recipe: TextRecipe,
    base: TextBundle | None,
    resumed: Path | None,
    say: Callable[[str], None] = lambda line: None,
    should_stop: Callable[[], bool] = lambda: False,
    kind: type[TextCorpus] = TextCorpus,
) -> TextCorpus:
    """Read, split and tokenize the text of a recipe, all of it in memory, as a corpus of `kind`.

    The files follow each other as one text. Without validation files its last characters, a share
    `data.valid_share`, are held out. The tokenizer is that of the bundle `base` or of the run
    directory `resumed` where training goes on from one, and learned from the training text
    otherwise. Raises `Stopped` soon after `should_stop` says so, `DataError` for text that cannot
    be read or is too short, and `ConfigError` for a size of vocabulary that does not fit it.
    """
    data = recipe.data
    if not data.text:
        raise ConfigError("no text to train on; give --text FILE, or text in [data]")
    for name in (*data.text, *data.valid_text):
        check_regular(Path(name))
    lines = [read_lines(Path(name), LONGEST_TEXT) for name in data.text]
    for name, each in zip(data.text, lines, strict=True):
        if not any(each):
            raise DataError(f"{name}: is empty")
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
    stream, judged = (_stream(tokenizer, each, should_stop) for each in (training, valid))
    for what, found, names in (
        ("train", stream, data.text),
        ("validate", judged, data.valid_text or data.text),
    ):
        if len(found) < 2:
            raise DataError(
                f"{', '.join(names)}: {found.characters:,} characters to {what} on; a model of "
                "text needs two tokens at least"
            )
    return kind(
        files, config, tokenizer, tokenizer, stream, judged, data.context, not data.valid_text
    )


def _joined(files: Sequence[Sequence[str]]) -> Iterator[str]:
    """The text of all lines, each with its line feed."""
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
