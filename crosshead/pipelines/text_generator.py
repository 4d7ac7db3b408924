"""A bundle of a model of text by itself as a function: it goes on with text, and scores it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.data.text.streams import RunningText, Stream, encode_text
from crosshead.data.text.tokenizers import Tokenizer
from crosshead.decoding.search import DecodeConfig, search, stream
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind, RememberingModel, SequenceModel, decodable
from crosshead.pipelines.base import LONGEST_SCORED, AttentionInputs, TextPipeline
from crosshead.vocabulary import EOS, UNK

_STRETCHES = 1_000_003
"""More than a text has stretches."""

LENGTH = 500
"""Tokens that are written where nobody says how many."""


@dataclass(frozen=True)
class ScoredText:
    """Log-likelihoods of a text under a model, window by window."""

    windows: list[tuple[float, int, int]]
    """For each window: its negative log-likelihood in nats, its tokens and its characters. The
    characters are those of the original text, also where a token stands for an unknown
    character."""
    unknown: int
    """Tokens in them that stand for what the tokenizer does not know."""
    how: str
    """A phrase of the signature that names the context of each token."""
    tokenizer: Tokenizer


class TextGenerator(TextPipeline):
    """Goes on with a text.

    A call takes a prompt and returns it with what the model writes behind it, as the bundle says:
    drawn from the model's distribution as a rule. A token is drawn from what the seed, the number
    of the sample and its place say, so that the same call writes the same.
    """

    does, verb = "goes on with text", "generate"
    usage = "Write with: {command} {bundle} --prompt TEXT"

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    def __call__(self, prompt: str = "", length: int = LENGTH) -> str:
        """The prompt and `length` tokens that follow it."""
        return prompt + "".join(self.write(prompt, length=length))

    def write(
        self,
        prompt: str = "",
        *,
        length: int = LENGTH,
        decode: DecodeConfig | None = None,
        stop: str = "",
        number: int = 0,
    ) -> Iterator[str]:
        """Yield the continuation of the prompt, piece by piece, with at most `length` tokens.

        Without a prompt the model starts a new line. After as many tokens as in training, the model
        continues from the last half of them, unless it has a memory.

        Args:
            prompt: Text to continue.
            length: Largest number of tokens to write.
            decode: Search settings, by default the bundle's. With a beam, the text comes in one
                piece.
            stop: Text before which the continuation ends, if it is not empty.
            number: Number of the sample; samples of one seed differ by it.
        """
        decode = decode or self.bundle.config.decode
        if length < 1:
            raise ConfigError(f"expected a number of tokens to write of 1 or more, found {length}")
        prompted = [EOS, *encode_text(self.tokenizer, prompt).tolist()]
        shown = _Shown(self.tokenizer, stop, after=prompted[1:])
        for token in self._tokens(prompted, length, decode, number):
            yield shown.add(token)
            if shown.ended:
                return
        yield shown.rest()

    def score(
        self,
        text: str,
        stride: int | None = None,
        memory: int | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> ScoredText:
        """Score every token of a text but the first, given the tokens before it.

        Windows of as many tokens as in training move by `stride`. Each token is scored once and
        sees at least `context - stride` tokens before it, if there are as many. A model with a
        memory reads the text in one pass instead, unless a stride is given.

        A character that several tokens spell counts at its first token. A token for an unknown
        character costs only the prediction of that token.

        Args:
            text: Text to score.
            stride: Tokens between windows, by default the window's length.
            memory: Positions that a model with a memory remembers, by default as in training.
            progress: Callback that receives the share that is done, from 0 to 1.

        Raises:
            ConfigError: If the stride is impossible, or the model has no memory but one is given.
        """
        return self.score_ids(Stream.of(self.tokenizer, text), stride, memory, progress)

    def score_ids(
        self,
        text: Stream,
        stride: int | None = None,
        memory: int | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> ScoredText:
        """`score` of a text that is tokenized."""
        if memory is not None and not isinstance(self.model, RememberingModel):
            raise ConfigError("this model has no memory; give a stride")
        if memory is not None and stride is not None:
            raise ConfigError("a text is read with a memory or with a stride: give one of them")
        if memory is not None and memory < 0:
            raise ConfigError(f"expected a memory of 0 or more, found {memory}")
        if isinstance(self.model, RememberingModel) and stride is None:
            return self._read(self.model, text, memory, progress)
        stride = self.context if stride is None else stride
        if not 1 <= stride <= self.context:
            raise ConfigError(f"expected a stride from 1 to {self.context}, found {stride}")
        count = max(0, len(text) - 1)
        # Every token but the first is predicted: by the window that ends with its stretch.
        ends = [min(count, begin + stride) for begin in range(0, count, stride)]
        losses: list[float] = []
        rows = max(1, self.bundle.config.decode.batch_tokens // self.context)
        for first in range(0, len(ends), rows):
            progress(first / len(ends))
            losses += self._window_losses(text.ids, ends[first : first + rows], stride)
        how = f"context:{self.context}|stride:{stride}"
        return self._scored(text, losses, [0, *ends], how)

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return a text behind the end of a line, as it is generated."""
        ids = [EOS, *encode_text(self.tokenizer, text).tolist()]
        most = LONGEST_SCORED if isinstance(self.model, RememberingModel) else self.context
        if len(ids) > most:
            raise DataError(
                f"the text has {len(ids):,} tokens, and the model reads {most:,}; shorten it"
            )
        return self._read_alone(ids, target)

    @classmethod
    def words(cls, config: TextBundleConfig) -> Words:
        """Return the words of a model card."""
        return Words(
            does="writes text",
            hub_task="text-generation",
            command="crosshead generate DIR --prompt 'Once upon a time'",
            variable="write",
            call='write("Once upon a time")',
            languages=[config.source_language, config.target_language],
        )

    def facts(self) -> list[list[str]]:
        """Return the tokenizer, the language and the context."""
        return [*super().facts(), ["context", f"{self.context:,} tokens"]]

    @torch.inference_mode()
    def _read(
        self,
        model: RememberingModel,
        text: Stream,
        memory: int | None,
        progress: Callable[[float], None],
    ) -> ScoredText:
        """The score of a text that is read from its beginning to its end, a context at a time."""
        ids = torch.from_numpy(text.ids.astype(np.int64)).to(self.device)[None]
        state = model.start(ids[:, :0], memory)
        losses, ends = [], [0]
        for begin in range(0, len(text) - 1, self.context):
            progress(begin / len(text))
            end = min(begin + self.context, len(text) - 1)
            features, state = model.read(state, ids[:, begin:end])
            logits, following = model.logits(features[0]).float(), ids[0, begin + 1 : end + 1]
            losses.append(float(F.cross_entropy(logits, following, reduction="sum")))
            ends.append(end)
        return self._scored(text, losses, ends, f"memory:{state.memory}")

    def _scored(
        self, text: Stream, losses: Sequence[float], ends: Sequence[int], how: str
    ) -> ScoredText:
        """The losses of what stands between each two of `ends`, with its tokens and characters."""
        tokens = np.diff(ends).tolist()
        characters = np.diff(text.character_counts(self.tokenizer, ends)).tolist()
        windows = list(zip(losses, tokens, characters, strict=True))
        return ScoredText(windows, int((text.ids[1:] == UNK).sum()), how, self.tokenizer)

    @torch.inference_mode()
    def _window_losses(self, ids: np.ndarray, ends: Sequence[int], stride: int) -> list[float]:
        """The losses of the last tokens of windows, each of which ends where they do."""
        losses = []
        # The first windows, and the last, may be shorter than the others.
        begins = [max(0, -(-end // stride) * stride - self.context) for end in ends]
        lengths = [end - begin for begin, end in zip(begins, ends, strict=True)]
        inputs = np.zeros((2, len(ends), max(lengths)), dtype=np.int64)
        for row, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            inputs[0, row, : end - begin] = ids[begin:end]
            inputs[1, row, : end - begin] = ids[begin + 1 : end + 1]
        tokens, following = (torch.from_numpy(each).to(self.device) for each in inputs)
        logits = self.model(tokens).float()
        found: Tensor = F.cross_entropy(logits.flatten(0, 1), following.flatten(), reduction="none")
        rows = found.view(following.shape).double().cpu()
        for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
            new = end - (end - 1) // stride * stride
            losses.append(float(rows[row, length - new : length].sum()))
        return losses

    def _tokens(
        self, prompted: list[int], length: int, decode: DecodeConfig, number: int
    ) -> Iterator[int]:
        """The tokens that follow, at most `length`, in stretches that the model can see at once."""
        seen, turn = prompted, 0
        while length > 0:
            room = length
            if not isinstance(self.model, RememberingModel):
                seen = seen[-max(1, self.context // 2) :] if len(seen) >= self.context else seen
                room = min(length, self.context - len(seen) + 1)
            written = []
            # A stretch of its own has random numbers of its own.
            for token in self._stretch(seen, room, decode, number * _STRETCHES + turn):
                yield token
                written.append(token)
            seen, turn, length = seen + written, turn + 1, length - room

    def _stretch(
        self, seen: list[int], room: int, decode: DecodeConfig, number: int
    ) -> Iterator[int]:
        """The `room` tokens that follow what is seen."""
        prefix = torch.tensor([seen], device=self.device)
        if decode.beam == 1:
            yield from stream(self.model, prefix, room, self.bundle.specials, decode, number)
            return
        lengths = torch.tensor([room])
        with torch.inference_mode():
            found = search(
                self.model, prefix[:, :0], lengths, self.bundle.specials, decode, prefix=prefix
            )
        yield from found[0][0].tokens


class _Shown:
    """Text as it can be shown while it is written: whole characters, and nothing of a `stop`."""

    def __init__(self, tokenizer: Tokenizer, stop: str, after: Sequence[int]) -> None:
        self._stop = stop
        self._running = RunningText(tokenizer)
        self._running.add(after)
        self._prompted = len(self._running.rest())  # of the prompt, still to be settled
        self._held = ""
        self.ended = False

    def add(self, token: int) -> str:
        """Add a token, and return the text that can be shown now."""
        settled = self._running.add([token])
        if settled:
            self._held += settled[self._prompted :]
            self._prompted = 0
        if self._stop and self._stop in self._held:
            self.ended = True
            return self._held.partition(self._stop)[0]
        # The last characters may be the first of a stop.
        end = max(0, len(self._held) - max(0, len(self._stop) - 1))
        shown, self._held = self._held[:end], self._held[end:]
        return shown

    def rest(self) -> str:
        """Return the text that was held back."""
        text = self._held + self._running.rest()[self._prompted :]
        return text.partition(self._stop)[0] if self._stop else text
