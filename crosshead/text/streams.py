"""Monolingual text as one stream of ids, and the windows of it that a model is trained on.

EOS separates the lines of a text, because every tokenizer has this token and no encoded line
contains a line break. Only a line feed ends a line. The tokenizer of an imported model may span
lines (`Tokenizer.spans_lines`): then line feeds are in its ids, and EOS separates documents.

Masked windows are those of Devlin et al. 2019 (BERT), section 3.1, task 1: 15 % of the tokens of a
window are to be predicted. Of these, 80 % are replaced by the mask, 10 % by a random token, and
10 % stay unchanged, so that a model also learns to represent tokens that are visible.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch

from crosshead.text.batching import Batch, Plan
from crosshead.text.pieces import CONTROL
from crosshead.text.subwords import ESCAPE, SPACE
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, MASK, PAD, UNK

_LINES = 10_000
"""The number of lines that are tokenized at a time."""

_UNFINISHED = ("\ufffd", ESCAPE)
"""Endings of a decoded text whose last character may still depend on the ids that follow."""


def check_text(text: object) -> None:
    """Raise `TypeError` if `text` is not a string, for example a list of lines."""
    if not isinstance(text, str):
        raise TypeError(f"expected a text as one string, found {type(text).__name__}")


def encode_text(tokenizer: Tokenizer, text: str) -> np.ndarray:
    """Return the ids of a text: the ids of its lines, with EOS between lines.

    A tokenizer that spans lines encodes the text as a whole.
    """
    check_text(text)
    if tokenizer.spans_lines:
        return np.array(tokenizer.encode(text), dtype=np.int32)
    lines = text.split("\n")
    parts: list[np.ndarray] = []
    for first in range(0, len(lines), _LINES):
        some = tokenizer.encode_lines(lines[first : first + _LINES])
        parts += [np.array([*ids, EOS], dtype=np.int32) for ids in some]
    parts[-1] = parts[-1][:-1]
    return np.concatenate(parts)


def with_prompt_start(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Return the ids that a model continues from: those of a prompt, and what stands before it.

    An empty prompt follows the end token in any case.
    """
    return [*tokenizer.prompt_start, *ids] or [EOS]


def decode_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text whose ids `encode_text` returned."""
    return "\n".join(tokenizer.decode(line) for line in _split(ids))


def fill_line(tokenizer: Tokenizer, parts: Sequence[str], found: Sequence[int]) -> str:
    """Fill the gaps of a line with ids, as `Tokenizer.fill_gaps` does. An EOS starts a new line."""
    lines, first = [], 0
    for place in [*(place for place, index in enumerate(found) if index == EOS), len(found)]:
        lines.append(tokenizer.fill_gaps(parts[first : place + 1], found[first:place]))
        first = place + 1
    return "\n".join(lines)


def pieces_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    r"""Return a readable piece for each id. The end of a line is `\n` and a space is U+2581."""

    def piece(index: int) -> str:
        if index == EOS:
            return "\n"
        return SPACE if tokenizer.decode([index]) == " " else tokenizer.pieces([index])[0]

    return [piece(index) for index in ids]


def _split(ids: Sequence[int]) -> Iterator[list[int]]:
    line: list[int] = []
    for index in ids:
        if index == EOS:
            yield line
            line = []
        else:
            line.append(index)
    yield line


class RunningText:
    """The text of ids that arrive one at a time, in time proportional to their number.

    Together the parts are the result of `decode_text` for all ids. Text that ends with a whole
    character is settled and not decoded again. Later ids are decoded behind the last settled id,
    because that id decides whether a space stands between the two. No space stands at the beginning
    of a line.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # of this line: the last settled id, and those after it
        self._settled = 0  # number of settled characters in the text of these ids

    def add(self, ids: Sequence[int]) -> str:
        """Add ids, and return the text that no later id can change."""
        *lines, last = _split(ids)
        found = []
        for line in lines:
            self._ids += line
            found.append(self.rest() + "\n")
            self._ids, self._settled = [], 0
        self._ids += last
        text = self.rest()
        if last and last[-1] >= UNK and not text.endswith(_UNFINISHED):
            found.append(text)
            self._ids = last[-1:]
            self._settled = len(self._tokenizer.decode(self._ids))
        return "".join(found)

    def rest(self) -> str:
        """Return the text after the settled part, decoded from the ids so far."""
        return self._tokenizer.decode(self._ids)[self._settled :]


@dataclass(frozen=True)
class Stream:
    """The ids of a text in one array."""

    ids: np.ndarray
    characters: int
    """Number of characters after the first id. Line feeds count, and unknown text counts at its
    original length."""
    unknown: Sequence[int] = ()
    """For each `UNK`, the number of characters of the text that it stands for."""

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(cls, tokenizer: Tokenizer, text: str) -> "Stream":
        """Return the stream of a text."""
        ids, unknown = encode_text(tokenizer, text), []
        if (ids == UNK).any():
            unknown = [len(each) for line in text.split("\n") for each in tokenizer.unknown(line)]
        [first] = cls(ids, 0, unknown).character_counts(tokenizer, [0])
        return cls(ids, len(text) - first, unknown)

    def character_counts(self, tokenizer: Tokenizer, places: Sequence[int]) -> list[int]:
        """Return the number of characters up to and including each of some ids.

        A character that several ids spell counts with the first of them.
        """
        running, unknown = RunningText(tokenizer), iter(self.unknown)
        counts, count, begin = [], 0, 0
        for place in places:
            ids = self.ids[begin : place + 1].tolist()
            count += len(running.add(ids))
            count += sum(next(unknown) - len(CONTROL[UNK]) for _ in range(ids.count(UNK)))
            counts.append(count + len(running.rest()))
            begin = place + 1
        return counts

    def sha256(self) -> str:
        """Return the checksum of the ids, which does not depend on their integer type."""
        return hashlib.sha256(self.ids.astype("<i8").tobytes()).hexdigest()


@dataclass(frozen=True)
class Windows:
    """An epoch of text: windows of `context` ids, each of which predicts its next id.

    The windows follow each other without overlap, so that every id but the first of the text is
    predicted once. If `first` is not 0, the first window has `first` ids, fewer than `context`. The
    last window may be shorter too.
    """

    ids: np.ndarray
    context: int
    first: int = 0
    row, bound = "window", "data.context"

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids that each window predicts: an `n 1` array."""
        count = -(-(len(self.ids) - 1 + self._short) // self.context)
        begins, ends = self._bounds(np.arange(count))
        lengths: np.ndarray = (ends - begins).reshape(-1, 1)
        return lengths

    def plan(self, max_tokens: int, seed: int, epoch: int) -> Plan:
        """Return the windows in an order drawn from (seed, epoch), in batches that fit the budget.

        Shorter windows are treated like all others.
        """
        order = np.random.default_rng([seed, epoch]).permutation(len(self.lengths))
        return self._cut(order, max_tokens)

    def in_order(self, max_tokens: int) -> Plan:
        """Return all windows in the order of the text."""
        return self._cut(np.arange(len(self.lengths)), max_tokens)

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return some windows and, at each position, the next id. Shorter windows are padded."""
        begins, ends = self._bounds(
            np.array(rows)
        )  # only of these rows: an epoch may have millions
        inputs = np.full((2, len(rows), int((ends - begins).max())), PAD, dtype=np.int64)
        for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            for offset in (0, 1):
                inputs[offset, number, : end - begin] = self.ids[begin + offset : end + offset]
        tokens, following = torch.from_numpy(inputs)
        return Batch((tokens,), following)

    def extent(self, row: int) -> str:
        """Return the number of tokens that a window predicts."""
        begin, end = self._bounds(np.array(row))
        return f"{int(end - begin):,} tokens"

    @property
    def _short(self) -> int:
        """The number of ids that the first window lacks."""
        return self.context - self.first if self.first else 0

    def _bounds(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the first id of some windows, and of the id after their last."""
        begins = rows * self.context - self._short
        return np.maximum(begins, 0), np.minimum(begins + self.context, len(self.ids) - 1)

    def _cut(self, order: np.ndarray, max_tokens: int) -> Plan:
        rows = max(1, max_tokens // self.context)
        return [order[first : first + rows] for first in range(0, len(order), rows)]


def epoch_windows(stream: Stream, context: int, seed: int, epoch: int) -> Windows:
    """Return the windows of an epoch. The first window's length is drawn from (seed, epoch).

    A text that fits into one window gives one window.
    """
    first = int(np.random.default_rng([seed, epoch, context]).integers(context))
    return Windows(stream.ids, context, first if len(stream) - 1 > context else 0)


SHARE = 0.15
"""The share of tokens to predict; each window has at least one."""

HIDDEN, REPLACED = 0.8, 0.1
"""Shares of the tokens to predict: the mask hides `HIDDEN` of them, and a random ordinary token,
possibly the same one, replaces `REPLACED` of them."""


@dataclass(frozen=True)
class MaskedWindows(Windows):
    """An epoch of windows with masked tokens, which are drawn anew in each epoch.

    The masked tokens are a function of `drawn` and the row, so that a resumed run masks the same
    tokens. If `all_hidden`, all tokens to predict are replaced by the mask. Models are validated in
    this way.
    """

    _: KW_ONLY
    vocabulary: int
    drawn: tuple[int, ...]
    all_hidden: bool = False

    def collate(self, rows: Sequence[int]) -> Batch:
        """Return some windows with masked tokens.

        The target output holds the original token at the positions to predict, and padding
        elsewhere.
        """
        tokens = super().collate(rows).target_output.numpy()
        lengths = (tokens != PAD).sum(axis=1).tolist()
        wanted = np.full_like(tokens, PAD)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            rng = np.random.default_rng([*self.drawn, row])
            chosen = rng.permutation(length)[: max(1, round(SHARE * length))]
            wanted[place, chosen] = tokens[place, chosen]
            random_tokens = rng.integers(UNK + 1, self.vocabulary, len(chosen))
            fate = rng.random(len(chosen))
            hidden = (fate < HIDDEN) | self.all_hidden
            replaced = ~hidden & (fate < HIDDEN + REPLACED)
            tokens[place, chosen[hidden]] = MASK
            tokens[place, chosen[replaced]] = random_tokens[replaced]
        return Batch((torch.from_numpy(tokens),), torch.from_numpy(wanted))
