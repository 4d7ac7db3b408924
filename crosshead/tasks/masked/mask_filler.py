"""Prediction of masked tokens with a masked language model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind
from crosshead.tasks.pipeline import AttentionInputs, TextPipeline
from crosshead.text.streams import SHARE, MaskedWindows, Stream, check_text, fill_line, pieces_of
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS, MASK, PAD, UNK

MARK = "[MASK]"
"""The mark for a masked token in a text."""


@dataclass(frozen=True)
class Candidate:
    """A token for a mark, with its probability."""

    piece: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with all its marks filled."""

    text: str
    candidates: list[list[Candidate]]
    """The most probable tokens of each mark, in the order of the text, at the time it was
    filled."""


@dataclass(frozen=True)
class ScoredMasks:
    """Scores of predicted masked tokens, window by window."""

    windows: list[tuple[float, int, int]]
    """For each window: the negative log-likelihood of the masked tokens in nats, their number, and
    the number of them that the model ranked first."""
    how: str
    """The part of the signature with the context and the masked share."""
    tokenizer: Tokenizer


class MaskFiller(TextPipeline):
    """Predicts the tokens that `[MASK]` marks in a text.

    A call takes a text and returns it filled. `fill` also returns the candidates of each mark.
    """

    does, verb = "predicts masked tokens of a text", "fill"
    usage = "Fill with: {command} {bundle} TEXT"

    def __call__(self, text: str) -> str:
        """Return the text with every `[MASK]` replaced by the most probable token.

        Args:
            text: The text, with at least one mark.
        """
        return self.fill(text).text

    @torch.inference_mode()
    def fill(self, text: str, top: int = 1) -> Filled:
        """Fill every `[MASK]` with a token, and return the `top` candidates of each mark.

        The mark with the most certain prediction is filled first. The other marks are then
        predicted again. The text may have several lines. Around the marks it stays unchanged, even
        if the tokenizer does not know it. With a subword tokenizer, a space before a mark belongs
        to the token that fills it.

        Args:
            text: The text, with at least one mark.
            top: The number of candidates per mark.

        Returns:
            The filled text, and the candidates of each mark in the order of the text.

        Raises:
            TypeError: If `text` is not a string.
            ConfigError: If the text has no mark, or `top` is below 1.
            DataError: If the text is longer than the model's context.
        """
        if top < 1:
            raise ConfigError(f"top: expected 1 or more, found {top}")
        ids = self.encoded(text)
        lines = [line.split(MARK) for line in text.split("\n")]
        marks: list[int] = np.flatnonzero(ids == MASK).tolist()
        if not marks:
            raise ConfigError(
                f"this text has no {MARK}; put one in the place of each token to predict"
            )
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
        """Score the predictions of 15 % of the tokens, in separate windows as in training.

        Every call masks the same tokens.

        Args:
            text: The text to score.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The scores of the predicted tokens.
        """
        return self.score_ids(Stream.of(self.tokenizer, text), progress)

    @torch.inference_mode()
    def score_ids(
        self, text: Stream, progress: Callable[[float], None] = lambda share: None
    ) -> ScoredMasks:
        """Score a tokenized text, as `score` does.

        Args:
            text: The tokenized text.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The scores of the predicted tokens.
        """
        windows = masked_windows(text, self.context, self.tokenizer.vocab_size)
        found: list[tuple[float, int, int]] = []
        for rows in windows.in_order(self.bundle.config.decode.batch_tokens):
            progress(len(found) / len(windows.lengths))
            batch = windows.collate(rows.tolist()).to(self.device)
            logits = self.model(*batch.inputs).float()
            found += _window_scores(logits, batch.target_output)
        return ScoredMasks(found, f"context:{self.context}|hidden:{SHARE:g}", self.tokenizer)

    def encoded(self, text: str) -> np.ndarray:
        """Return the ids of a text as the model reads it, with an end of line at both ends.

        Args:
            text: A text, with or without `[MASK]`.

        Returns:
            The ids, with `MASK` for each mark.

        Raises:
            TypeError: If `text` is not a string.
            DataError: If the text is longer than the model's context.
        """
        check_text(text)
        ids = [EOS]
        for line in text.split("\n"):
            ids += [*self.tokenizer.encode_gaps(line.split(MARK), MASK), EOS]
        if len(ids) > self.context:
            raise DataError(
                f"the text has {len(ids)} tokens, but the model reads at most {self.context} at "
                "once (data.context); shorten it"
            )
        return np.array(ids, dtype=np.int64)

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return the inputs for a text, with an end of line at both ends."""
        ids = self.encoded(text).tolist()
        inputs, pieces, *_ = self._read_alone(ids, target)
        read = [MARK if index == MASK else piece for index, piece in zip(ids, pieces, strict=True)]
        return AttentionInputs(inputs, read, read)

    @classmethod
    def words(cls, config: TextBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="predicts masked tokens of a text",
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
        """Return the probabilities `N C` and the ids `N C` of the best allowed tokens.

        `C` is `top`, or the number of allowed tokens if that is smaller.
        """
        logits = self.model(torch.from_numpy(ids).to(self.device)[None])[0, places].float().cpu()
        barred = sorted({PAD, MASK, UNK, *self.tokenizer.line_breaks})
        logits[:, barred] = -torch.inf
        best = logits.topk(min(top, logits.shape[1] - len(barred)))
        return F.softmax(logits, dim=-1).gather(1, best.indices), best.indices


def masked_windows(text: Stream, context: int, vocabulary: int) -> MaskedWindows:
    """Return the validation windows with their masked tokens, which never change."""
    return MaskedWindows(text.ids, context, vocabulary=vocabulary, drawn=(0,), all_hidden=True)


def _window_scores(logits: Tensor, wanted: Tensor) -> Sequence[tuple[float, int, int]]:
    """Return loss, number of tokens and number of hits of each window.

    `logits` are "B T V", `wanted` the masked tokens, "B T", and padding elsewhere.
    """
    losses = F.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="none"
    ).view(wanted.shape)
    hits = (logits.argmax(dim=-1) == wanted) & (wanted != PAD)
    columns = losses.double().sum(dim=1), (wanted != PAD).sum(dim=1), hits.sum(dim=1)
    return list(zip(*(column.tolist() for column in columns), strict=True))
