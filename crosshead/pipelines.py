"""From a bundle to something that works on raw text: `load(path)` gives a `Translator`."""

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from crosshead.bundle import Bundle, load_bundle
from crosshead.decoding.candidates import length_penalty
from crosshead.decoding.search import DecodeConfig, Hypothesis, Specials, search
from crosshead.errors import ConfigError, DataError
from crosshead.models.transformer import Transformer
from crosshead.sentences import join_parts, split_long
from crosshead.vocabulary import BOS, EOS, PAD, UNK

MARGIN = 1.2
"""How far beyond the longest source of training a single sentence is still translated in one."""

SCORED_LOGITS = 2**25
"""Logits that scoring holds at once: 128 MiB of float32."""


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    `pieces` are the tokens as the model produced them, with the end of the sentence where it came
    (once for each part of a line that was split), and `piece_log_probs` their natural
    log-probabilities, whose sum is `log_prob`. `score`, by which hypotheses are ranked, is
    `log_prob` over the length penalty. `was_split` says that the line was longer than the model's
    reach and was translated in parts.
    """

    text: str
    log_prob: float
    score: float
    pieces: list[str]
    piece_log_probs: list[float]
    was_split: bool = False


@dataclass(frozen=True)
class ScoredTranslation:
    """What the model thinks of a given translation: natural log-probabilities.

    The last of the pieces is the end of the sentence; `log_prob` is the sum of `piece_log_probs`.
    """

    log_prob: float
    pieces: list[str]
    piece_log_probs: list[float]


def load(path: str | Path, device: str = "auto", threads: int | None = None) -> "Translator":
    """The translator in the bundle at `path`.

    `device` is `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ...; `threads`, where
    given, sets PyTorch's number of CPU threads, which is one for the whole process. Raises
    `BundleError` for what is not a sound bundle and `ConfigError` for a device that is not there.
    """
    place = choose_device(device)
    if threads is not None:
        if threads < 1:
            raise ConfigError(f"expected a number of threads of 1 or more, found {threads}")
        torch.set_num_threads(threads)
    return Translator(load_bundle(path, place))


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` is the first GPU, or else the CPU.

    Raises `ConfigError` where there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(f"no device {name!r} here; use auto, cpu or cuda") from None
    return device


class Translator:
    """Translates lines of raw text with a bundle's model.

    A call takes a line or a list of lines and returns the like; `translate` says more about each.
    The model (`translator.model`, a plain `torch.nn.Module`) may be moved to another device.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        forbidden = {PAD, BOS, UNK, *bundle.target_tokenizer.line_breaks}
        start = bundle.config.model.start_token
        self._specials = Specials(start, EOS, tuple(sorted(forbidden)))

    @property
    def model(self) -> Transformer:
        """The bundle's model."""
        return self.bundle.model

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def reach(self) -> int:
        """Source tokens, without the end of the sentence, that are translated in one piece."""
        reach = int(MARGIN * self.bundle.config.longest_source)
        positions = self._positions()
        return reach if positions is None else min(reach, positions - 1)

    @overload
    def __call__(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Sequence[str]) -> list[str]: ...

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """The best translation of a line, or of each of several."""
        if isinstance(text, str):
            return self.translate([text])[0][0].text
        return [translations[0].text for translations in self.translate(text)]

    def translate(
        self,
        lines: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        first: int = 0,
    ) -> list[list[Translation]]:
        """The translations of each line, best first: one list a line, in order, none left out.

        `decode` is how to search, by default as the bundle says. A line of nothing but white space
        has one translation, the empty one; the others have `n_best`, or fewer where the vocabulary
        has no more to offer. A line longer than training ever saw is split at the ends of
        sentences, translated in parts and joined again. White space around lines and parts stays as
        it is, but no translation contains a line break. None depends on the other lines; samples
        depend on the line's number, the first of which is `first`.
        """
        decode = decode or self.bundle.config.decode
        parts = [self._parts(line) for line in lines]
        texts = [part.strip() for line_parts in parts for part in line_parts]
        # Samples are drawn by number: a line's own, and which of its parts it is.
        numbers = [
            (line << 20) + index
            for line, line_parts in enumerate(parts, first)
            for index in range(len(line_parts))
        ]
        found = iter(self._search(texts, numbers, decode, n_best))
        return [
            self._joined(line_parts, [next(found) for _ in line_parts], decode, n_best)
            for line_parts in parts
        ]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[ScoredTranslation]:
        """The log-probability of each target as the translation of its source, in order.

        Nothing is split or left out, and nothing is smoothed. Raises `DataError` where the lists
        differ in length, or where a pair is longer than a model with learned positions reaches.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"expected a target for each source, found {len(sources)} sources and "
                f"{len(targets)} targets"
            )
        source_ids = self.bundle.source_tokenizer.encode_lines(sources)
        target_ids = self.bundle.target_tokenizer.encode_lines(targets)
        lengths = [max(map(len, pair)) + 1 for pair in zip(source_ids, target_ids, strict=True)]
        positions = self._positions()
        if positions is not None and max(lengths, default=0) > positions:
            number = next(n for n, length in enumerate(lengths, 1) if length > positions)
            raise DataError(
                f"pair {number} has {lengths[number - 1]} tokens, and the model has {positions} "
                "positions (model.max_length); shorten or split it"
            )
        budget = max(SCORED_LOGITS // self.bundle.config.target_vocabulary, 1)
        scored: dict[int, ScoredTranslation] = {}
        with torch.inference_mode():
            for rows in _batches(lengths, budget):
                batch = [target_ids[row] for row in rows]
                log_probs = self._log_probs([source_ids[row] for row in rows], batch)
                for row, ids, values in zip(rows, batch, log_probs, strict=True):
                    pieces = self.bundle.target_tokenizer.pieces([*ids, EOS])
                    scored[row] = ScoredTranslation(math.fsum(values), pieces, values)
        return [scored[row] for row in range(len(lengths))]

    def _positions(self) -> int | None:
        """The number of positions that the model has learned; sinusoids have no end."""
        config = self.bundle.config.model
        return config.max_length if config.positions == "learned" else None

    def _parts(self, line: str) -> list[str]:
        """What a line is translated in: itself, or its sentences; nothing where it is blank."""
        if not line.strip():
            return []
        length = self._source_length
        if length(line.strip()) <= min(self.bundle.config.longest_source, self.reach):
            return [line]
        return split_long(line, length, self.reach)

    def _source_length(self, text: str) -> int:
        return len(self.bundle.source_tokenizer.encode(text))

    def _search(
        self, texts: list[str], numbers: list[int], decode: DecodeConfig, n_best: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each text, in the order of the texts."""
        ids = self.bundle.source_tokenizer.encode_lines(texts)
        positions = self._positions() or sys.maxsize
        found: dict[int, list[Hypothesis]] = {}
        with torch.inference_mode():
            for rows in _batches([len(row) + 1 for row in ids], decode.batch_tokens):
                source = self._padded([[*ids[row], EOS] for row in rows])
                longest = [len(ids[row]) + 1 + decode.max_extra for row in rows]
                hypotheses = search(
                    self.model,
                    source,
                    torch.tensor([min(length, positions) for length in longest]),
                    self._specials,
                    decode,
                    n_best,
                    [numbers[row] for row in rows],
                )
                found.update(zip(rows, hypotheses, strict=True))
        return [found[row] for row in range(len(texts))]

    def _joined(
        self,
        parts: list[str],
        found: list[list[Hypothesis]],
        decode: DecodeConfig,
        n_best: int,
    ) -> list[Translation]:
        """The translations of a line: the n-th of each part together are its n-th."""
        if not parts:
            return [Translation("", 0.0, 0.0, [], [])]
        count = min(n_best, max(len(hypotheses) for hypotheses in found))
        translations = [
            self._translation(
                parts, [each[min(rank, len(each) - 1)] for each in found], decode.length_penalty
            )
            for rank in range(count)
        ]
        if len(parts) > 1:
            translations.sort(key=lambda translation: translation.score, reverse=True)
        return translations

    def _translation(
        self, parts: list[str], hypotheses: list[Hypothesis], alpha: float
    ) -> Translation:
        tokenizer = self.bundle.target_tokenizer
        texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in hypotheses]
        ids = [[*h.tokens, EOS] if h.finished else h.tokens for h in hypotheses]
        pieces = [piece for part in ids for piece in tokenizer.pieces(part)]
        log_probs = [value for h in hypotheses for value in h.token_log_probs]
        text = join_parts(parts, texts)
        if len(parts) == 1:
            [only] = hypotheses
            return Translation(text, only.log_prob, only.score, pieces, log_probs)
        log_prob = math.fsum(log_probs)
        score = log_prob / length_penalty(len(log_probs), alpha)
        return Translation(text, log_prob, score, pieces, log_probs, was_split=True)

    def _log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each target token, and of the end, given those before it."""
        source = self._padded([[*ids, EOS] for ids in sources])
        shifted = self._padded([[self._specials.start, *ids] for ids in targets])
        expected = self._padded([[*ids, EOS] for ids in targets])
        logits = self.model(source, shifted).float()
        losses = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), reduction="none")
        rows = losses.neg().view(expected.shape).tolist()
        return [row[: len(ids) + 1] for row, ids in zip(rows, targets, strict=True)]

    def _padded(self, rows: list[list[int]]) -> Int[Tensor, "B T"]:
        width = max(map(len, rows))
        padded = [row + [PAD] * (width - len(row)) for row in rows]
        return torch.tensor(padded, device=self.device)


def _batches(lengths: list[int], max_tokens: int) -> Iterator[list[int]]:
    """The rows of each batch, longest first: neighbours in length, within a budget of tokens.

    Padding counts. A row that is over the budget by itself is a batch by itself.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        size = max(max_tokens // lengths[order[start]], 1)
        yield order[start : start + size]
        start += size
