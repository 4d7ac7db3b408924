"""Generation and scoring of text with a language model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.decoding.search import search, stream
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind, RememberingModel, SequenceModel, decodable
from crosshead.tasks.pipeline import LONGEST_SCORED, AttentionInputs, TextPipeline
from crosshead.text.streams import RunningText, Stream, encode_text, with_prompt_start
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import UNK

_STRETCHES = 1_000_003
"""A number larger than the number of stretches of any text."""

LENGTH = 500
"""The default number of generated tokens."""


@dataclass(frozen=True)
class ScoredText:
    """Log-likelihoods of a text under a model, window by window."""

    windows: list[tuple[float, int, int]]
    """For each window: its negative log-likelihood in nats, and its numbers of tokens and
    characters. The characters are counted in the original text, also for unknown characters."""
    unknown: int
    """The number of tokens that stand for unknown characters."""
    how: str
    """The part of the signature with the context of each token."""
    tokenizer: Tokenizer


class TextGenerator(TextPipeline):
    """Generates text with a language model.

    A call takes a prompt and returns it with a continuation, by default sampled as the bundle's
    settings say. Each token is drawn with a random number that depends only on the seed, the number
    of the sample and the position. Equal calls therefore give equal texts.
    """

    does, verb = "continues text", "generate"
    usage = "Generate with: {command} {bundle} --prompt TEXT"

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    def __call__(self, prompt: str = "", length: int = LENGTH) -> str:
        """Return a prompt followed by its continuation.

        Args:
            prompt: The text to continue.
            length: The largest number of tokens to generate.
        """
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
        """Yield the continuation of a prompt, piece by piece.

        Without a prompt the model starts a new line. When the text reaches the length of training
        windows, the model continues from the last half of them, unless it has a memory.

        Args:
            prompt: The text to continue.
            length: The largest number of tokens to generate.
            decode: The settings of the search, by default the bundle's. With a beam, the text comes
                in one piece.
            stop: A text that ends the continuation and is not part of it; "" for none.
            number: The number of the sample. Samples with the same seed differ by it.

        Raises:
            ConfigError: If `length` is below 1.
        """
        decode = decode or self.bundle.config.decode
        if length < 1:
            raise ConfigError(f"length: expected 1 or more, found {length}")
        given = encode_text(self.tokenizer, prompt).tolist()
        prompted = with_prompt_start(self.tokenizer, given)
        shown = _Shown(self.tokenizer, stop, after=given)
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
        """Score every token of a text except the first, given the tokens before it.

        Windows of the training length move by `stride`. Each token is scored once and sees at least
        `context - stride` tokens before it, if there are as many. A model with a memory reads the
        text in one pass instead, unless a stride is given.

        A character that several tokens spell counts at its first token. A token for an unknown
        character costs only the prediction of that token.

        Args:
            text: The text to score.
            stride: The number of tokens between windows, by default the window's length.
            memory: The positions that a model with a memory remembers, by default as in training.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The scores of the tokens.

        Raises:
            ConfigError: If the stride is invalid, or a memory is given to a model without one.
        """
        return self.score_ids(Stream.of(self.tokenizer, text), stride, memory, progress)

    def score_ids(
        self,
        text: Stream,
        stride: int | None = None,
        memory: int | None = None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> ScoredText:
        """Score a tokenized text, as `score` does.

        Args:
            text: The tokenized text.
            stride: The number of tokens between windows, by default the window's length.
            memory: The positions that a model with a memory remembers, by default as in training.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The scores of the tokens.

        Raises:
            ConfigError: If the stride or the memory is invalid, both are given, or a memory is
                given to a model without one.
        """
        if memory is not None and not isinstance(self.model, RememberingModel):
            raise ConfigError("this model has no memory; give a stride")
        if memory is not None and stride is not None:
            raise ConfigError("memory and stride exclude each other; give one of them")
        if memory is not None and memory < 0:
            raise ConfigError(f"expected a memory of 0 or more, found {memory}")
        if isinstance(self.model, RememberingModel) and stride is None:
            return self._read(self.model, text, memory, progress)
        stride = self.context if stride is None else stride
        if not 1 <= stride <= self.context:
            raise ConfigError(f"expected a stride from 1 to {self.context}, found {stride}")
        count = max(0, len(text) - 1)
        # Every token except the first is predicted by the window that ends with its stretch.
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
        """Return the inputs for a text after an end of line, as in generation."""
        given = encode_text(self.tokenizer, text).tolist()
        ids = with_prompt_start(self.tokenizer, given)
        most = LONGEST_SCORED if isinstance(self.model, RememberingModel) else self.context
        if len(ids) > most:
            raise DataError(
                f"the text has {len(ids):,} tokens, but the model reads only {most:,}; shorten it"
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
        """Score a text in one pass with the model's memory, one context at a time."""
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
        """Return the score of a text from the losses of its windows.

        `ends` are the places where the windows end, with 0 before the first.
        """
        tokens = np.diff(ends).tolist()
        characters = np.diff(text.character_counts(self.tokenizer, ends)).tolist()
        windows = list(zip(losses, tokens, characters, strict=True))
        return ScoredText(windows, int((text.ids[1:] == UNK).sum()), how, self.tokenizer)

    @torch.inference_mode()
    def _window_losses(self, ids: np.ndarray, ends: Sequence[int], stride: int) -> list[float]:
        """Return the losses of the last tokens of windows with the given ends."""
        losses = []
        # The first windows and the last window may be shorter.
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
        """Yield at most `length` tokens, in stretches that fit the model's context."""
        seen, turn = prompted, 0
        while length > 0:
            room = length
            if not isinstance(self.model, RememberingModel):
                seen = seen[-max(1, self.context // 2) :] if len(seen) >= self.context else seen
                room = min(length, self.context - len(seen) + 1)
            written = []
            # Each stretch has its own random numbers.
            for token in self._stretch(seen, room, decode, number * _STRETCHES + turn):
                yield token
                written.append(token)
            seen, turn, length = seen + written, turn + 1, length - room

    def _stretch(
        self, seen: list[int], room: int, decode: DecodeConfig, number: int
    ) -> Iterator[int]:
        """Yield the next `room` tokens."""
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
    """Text that can be shown during generation: whole characters, and no part of a `stop`."""

    def __init__(self, tokenizer: Tokenizer, stop: str, after: Sequence[int]) -> None:
        self._stop = stop
        self._running = RunningText(tokenizer)
        self._running.add(after)
        self._prompted = len(self._running.rest())  # characters of the prompt not yet settled
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
        """Return the text that was held back, at the end."""
        text = self._held + self._running.rest()[self._prompted :]
        return text.partition(self._stop)[0] if self._stop else text
