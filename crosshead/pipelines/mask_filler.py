"""A bundle of a masked language model as a function: it finds what is hidden in a text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.data.text.masking import SHARE, MaskedWindows
from crosshead.data.text.streams import Stream, Windows, check_text, fill_line, pieces_of
from crosshead.data.text.symbols import GapError
from crosshead.data.text.tokenizers import Tokenizer
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind
from crosshead.pipelines.base import AttentionInputs, TextPipeline
from crosshead.vocabulary import EOS, MASK, PAD, UNK

MARK = "[MASK]"
"""The mark in a text for a hidden token."""


@dataclass(frozen=True)
class Candidate:
    """A token that may stand where one is hidden."""

    piece: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text in which everything hidden was found."""

    text: str
    candidates: list[list[Candidate]]
    """For each mark, in the order of the text, the most probable tokens when it was filled."""


@dataclass(frozen=True)
class ScoredMasks:
    """Scores of a model's predictions of hidden tokens, window by window."""

    windows: list[tuple[float, int, int]]
    """For each window: the negative log-likelihood of the hidden tokens in nats, their number, and
    how many of them the model found most probable."""
    how: str
    """A phrase of the signature that names the hidden share."""
    tokenizer: Tokenizer


class MaskFiller(TextPipeline):
    """Finds the tokens that are hidden in a text, each behind a `[MASK]`.

    A call takes a text and returns it filled; `fill` says more about each mark.
    """

    does, verb = "finds what is hidden in a text", "fill"
    usage = "Fill with: {command} {bundle} TEXT"

    def __call__(self, text: str) -> str:
        """The text with the most probable token in the place of each `[MASK]`."""
        return self.fill(text).text

    @torch.inference_mode()
    def fill(self, text: str, top: int = 1) -> Filled:
        """Put a token in the place of each `[MASK]`, and say which `top` ones might stand there.

        The surest comes first, and the others are judged again with it in its place. The text is a
        line, or several, and stays as it is around the marks, also where the tokenizer does not
        know it. In a text of subwords, a token brings the space before it along: a space before a
        mark is the token's.

        Raises `TypeError` for what is no text, `ConfigError` for a text without a mark or `top`
        below 1, `DataError` for a text that is longer than the model has seen.
        """
        if top < 1:
            raise ConfigError(f"expected a number of candidates of 1 or more, found {top}")
        ids = self.encoded(text)
        lines = [line.split(MARK) for line in text.split("\n")]
        marks: list[int] = np.flatnonzero(ids == MASK).tolist()
        if not marks:
            raise ConfigError(f"nothing is hidden in this text: put {MARK} where a token is to be")
        found: dict[int, list[Candidate]] = {}
        while len(found) < len(marks):
            left = [mark for mark in marks if mark not in found]
            best, tokens = self._candidates(ids, left, top)
            surest = int(best[:, 0].argmax())
            pieces = pieces_of(self.tokenizer, tokens[surest].tolist())
            found[left[surest]] = [
                Candidate(piece, chance)
                for piece, chance in zip(pieces, best[surest].tolist(), strict=True)
            ]
            ids[left[surest]] = int(tokens[surest, 0])
        tokens_found = iter(ids[marks].tolist())
        filled = [
            fill_line(self.tokenizer, parts, list(islice(tokens_found, len(parts) - 1)))
            for parts in lines
        ]
        return Filled("\n".join(filled), [found[mark] for mark in marks])

    def score(
        self, text: str, progress: Callable[[float], None] = lambda share: None
    ) -> ScoredMasks:
        """Score the model's predictions of 15 % of the tokens, each window alone as in training.

        Every call hides the same tokens.

        Args:
            text: Text to score.
            progress: Callback that receives the share that is done, from 0 to 1.
        """
        return self.score_ids(Stream.of(self.tokenizer, text), progress)

    @torch.inference_mode()
    def score_ids(
        self, text: Stream, progress: Callable[[float], None] = lambda share: None
    ) -> ScoredMasks:
        """`score` of a text that is tokenized."""
        windows = hidden_windows(text, self.context, self.tokenizer.vocab_size)
        found: list[tuple[float, int, int]] = []
        for rows in windows.in_order(self.bundle.config.decode.batch_tokens):
            progress(len(found) / len(windows.lengths))
            batch = windows.collate(rows.tolist()).to(self.device)
            logits = self.model(*batch.inputs).float()
            found += _window_scores(logits, batch.target_output)
        return ScoredMasks(found, f"context:{self.context}|hidden:{SHARE:g}", self.tokenizer)

    def encoded(self, text: str) -> np.ndarray:
        """Return the ids of a text as the model reads it: between two ends of lines.

        Args:
            text: A text, with `[MASK]` for each hidden token or without any.

        Returns:
            The ids; `MASK` stands for a mark.

        Raises:
            TypeError: If `text` is no string.
            DataError: If the text is longer than the model has seen, or a mark is part of a word.
        """
        check_text(text)
        marks = 0
        ids = [EOS]
        for line in text.split("\n"):
            parts = line.split(MARK)
            try:
                ids += [*self.tokenizer.encode_gaps(parts, MASK), EOS]
            except GapError as error:
                raise DataError(f"{MARK} {marks + error.number} {error.why}") from None
            marks += len(parts) - 1
        if len(ids) > self.context:
            raise DataError(
                f"the text has {len(ids)} tokens, and the model has seen {self.context} at once "
                "(data.context); shorten it"
            )
        return np.array(ids, dtype=np.int64)

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return a text between two ends of lines, with or without marks."""
        ids = self.encoded(text).tolist()
        inputs, pieces, _ = self._read_alone(ids, target)
        read = [MARK if index == MASK else piece for index, piece in zip(ids, pieces, strict=True)]
        return AttentionInputs(inputs, read, read)

    @classmethod
    def words(cls, config: TextBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="finds what is hidden in a text",
            hub_task="fill-mask",
            command="crosshead fill DIR 'Once [MASK] a time'",
            variable="fill",
            call='fill("Once [MASK] a time")',
            languages=[config.source_language, config.target_language],
        )

    def facts(self) -> list[list[str]]:
        """Return the tokenizer, the language and the context."""
        return [*super().facts(), ["context", f"{self.context:,} tokens"]]

    def _candidates(
        self, ids: np.ndarray, places: Sequence[int], top: int
    ) -> tuple[Tensor, Tensor]:
        """The probabilities `N C` and the tokens `N C` of the best, of those that a text may have.

        They are as many as `top`, or all that there are.
        """
        logits = self.model(torch.from_numpy(ids).to(self.device)[None])[0, places].float().cpu()
        barred = sorted({PAD, MASK, UNK, *self.tokenizer.line_breaks})
        logits[:, barred] = -torch.inf
        best = logits.topk(min(top, logits.shape[1] - len(barred)))
        return F.softmax(logits, dim=-1).gather(1, best.indices), best.indices


def hidden_windows(text: Stream, context: int, vocabulary: int) -> MaskedWindows:
    """The windows that a model is judged on, with what is hidden in them."""
    return MaskedWindows(Windows(text.ids, context), vocabulary, (0,), all_hidden=True)


def _window_scores(logits: Tensor, wanted: Tensor) -> Sequence[tuple[float, int, int]]:
    """The losses, tokens and hits of windows, from logits `B T V` and tokens `B T`."""
    losses = F.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="none"
    ).view(wanted.shape)
    hits = (logits.argmax(dim=-1) == wanted) & (wanted != PAD)
    columns = losses.double().sum(dim=1), (wanted != PAD).sum(dim=1), hits.sum(dim=1)
    return list(zip(*(column.tolist() for column in columns), strict=True))
