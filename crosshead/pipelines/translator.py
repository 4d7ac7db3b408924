"""Translation of raw text by a bundle."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch.nn import functional as F

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.data.batching import Batch, Example, collate, example_lengths, plan_in_order
from crosshead.data.text.sentences import (
    join_parts,
    longest_stretch,
    one_line,
    split_long,
    split_sentences,
)
from crosshead.data.text.tokenizers import token_ids
from crosshead.decoding.candidates import length_penalty
from crosshead.decoding.search import DecodeConfig, Hypothesis, search_name
from crosshead.errors import ConfigError, DataError
from crosshead.models.base import AttentionKind, SequenceModel, decodable
from crosshead.pipelines.base import LONGEST_SCORED, AttentionInputs, TextPipeline
from crosshead.pipelines.batched_search import search_all
from crosshead.vocabulary import EOS

MARGIN = 1.2
"""A single sentence is translated whole if it is at most this many times as long as the longest
source of training."""

SCORED_LOGITS = 2**25
"""Logits that scoring holds at once: 128 MiB of float32."""

LONGEST_STRETCH = 10_000
"""Characters without a space or the end of a clause that are translated, piece by piece. A longer
stretch (an image in base64, say) is no text and would take minutes: its line is passed through."""


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    `pieces` are the tokens as the model produced them, with the end of the sentence where it came
    (once for each part of a line that was split), and `piece_log_probs` their natural
    log-probabilities, whose sum is `log_prob`. `score`, by which hypotheses are ranked, is
    `log_prob` over the length penalty. `was_split` says that the line was longer than the model's
    reach and was translated in parts, `sentence_was_cut` that it had a sentence longer than that.
    `was_passed_through` says that the line was not translated: `text` is the line itself, because
    more than `LONGEST_STRETCH` characters follow each other in it without a space.
    """

    text: str
    log_prob: float
    score: float
    pieces: list[str]
    piece_log_probs: list[float]
    was_split: bool = False
    sentence_was_cut: bool = False
    was_passed_through: bool = False


@dataclass(frozen=True)
class ScoredTranslation:
    """Natural log-probabilities of a given translation under the model.

    The last of the pieces is the end of the sentence; `log_prob` is the sum of `piece_log_probs`.
    """

    log_prob: float
    pieces: list[str]
    piece_log_probs: list[float]


class Translator(TextPipeline):
    """Translates lines of raw text with a bundle's model.

    A call takes a text or a list of lines and returns the like, searched as the bundle says;
    `translate` searches as it is told, and says more about each line. The model
    (`translator.model`, a plain `torch.nn.Module`) may be moved to another device.
    """

    does, verb = "translates", "translate"
    usage = "Translate with: {command} {bundle} FILE"

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    @property
    def reach(self) -> int:
        """Source tokens, without the end of the sentence, that are translated in one piece."""
        reach = int(MARGIN * self.bundle.config.longest_source)
        positions = self.bundle.config.model.most_source
        return reach if positions is None else min(reach, positions - 1)

    @overload
    def __call__(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Sequence[str]) -> list[str]: ...

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """The best translation of a text, line by line, or of each line in a list.

        A text has as many lines as its translation, as on the command line. In a list each text is
        one line, with one line of translation: a line break inside it is white space.
        Raises `TypeError` for anything else, and what `translate` raises.
        """
        if isinstance(text, str):
            return "\n".join(self(text.split("\n")))
        return [translations[0].text for translations in self.translate(text)]

    def translate(
        self,
        lines: Sequence[str],
        *,
        decode: DecodeConfig | None = None,
        n_best: int = 1,
        first: int = 0,
        progress: Callable[[float], None] = lambda share: None,
    ) -> list[list[Translation]]:
        """The translations of each line, best first: one list a line, in order, none left out.

        `decode` is how to search, by default as the bundle says. A line of nothing but white space
        has one translation, the empty one; the others have `n_best`, or fewer where the vocabulary
        has no more to offer. A line longer than training ever saw is split at the ends of
        sentences, translated in parts and joined again. The model sees no white space around lines
        and parts: it is put around their translations, but for line breaks, which none contains.
        A line with more than `LONGEST_STRETCH` characters without a space or the end of a clause
        is passed through: its one translation is the line itself.
        None depends on the other lines; samples depend on the line's number, the first of which is
        `first`. `progress` is called with the share that is done, first with 0.

        Raises `TypeError` for what are not lines of text, a single text included.
        """
        decode = decode or self.bundle.config.decode
        lines = _checked_lines(lines)
        parts = [self._parts(line) for line in lines]
        texts = [part for line_parts in parts for part in line_parts]
        # Samples are drawn by number: a line's own, and which of its parts it is.
        numbers = [
            (line << 20) + index
            for line, line_parts in enumerate(parts, first)
            for index in range(len(line_parts))
        ]
        hypotheses = search_all(
            self.model,
            token_ids(self.bundle.source_tokenizer, texts),
            self.bundle.specials,
            decode,
            n_best,
            numbers=numbers,
            most=self.bundle.config.model.most_positions,
            progress=progress,
        )
        found = iter(hypotheses)
        return [
            self._joined(line_parts, [next(found) for _ in line_parts], decode, n_best)
            if line_parts or not line.strip()
            else [Translation(one_line(line), 0.0, 0.0, [], [], was_passed_through=True)]
            for line, line_parts in zip(lines, parts, strict=True)
        ]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> list[ScoredTranslation]:
        """The log-probability of each target as the translation of its source, in order.

        The model sees no white space around lines, as in translation. Nothing is split or left
        out, and nothing is smoothed. Raises what `examples` raises, before anything is scored.
        """
        examples = self.examples(sources, targets, first=first)
        lengths = example_lengths(examples)
        # Not many tokens of a small vocabulary either: features take room as well.
        budget = max(SCORED_LOGITS // self.bundle.config.target_vocabulary, 1)
        budget = min(budget, self.bundle.config.decode.batch_tokens)
        scored: dict[int, ScoredTranslation] = {}
        with torch.inference_mode():
            for rows in plan_in_order(lengths, budget):
                batch = collate(examples, rows.tolist(), self.bundle.specials.start).to(self.device)
                for row, values in zip(rows.tolist(), self._log_probs(batch), strict=True):
                    ids = [*examples[row][1], EOS]
                    piece_log_probs = values[: len(ids)]
                    scored[row] = ScoredTranslation(
                        math.fsum(piece_log_probs),
                        self.bundle.target_tokenizer.pieces(ids),
                        piece_log_probs,
                    )
        return [scored[row] for row in range(len(examples))]

    def examples(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> list[Example]:
        """Return the tokens of sources and their targets.

        Raises `TypeError` for what are not lines of text, `DataError` where the lists differ in
        length, and where a side has more than `LONGEST_SCORED` tokens or than the model has
        positions for; it counts the pairs from 1, after the `first` that went before these.
        """
        examples = self._examples(sources, targets)
        for why in self._too_long(examples, first).values():
            raise DataError(f"{why}; split both sides of the pair into sentences")
        return examples

    def refusals(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> dict[int, str]:
        """Return why `score` refuses pairs, by their rows from 0; `first` pairs went before these.

        Raises:
            TypeError: If a side is not lines of text.
            DataError: If the sides differ in length.
        """
        return self._too_long(self._examples(sources, targets), first)

    def _examples(self, sources: Sequence[str], targets: Sequence[str]) -> list[Example]:
        sources, targets = _checked_lines(sources), _checked_lines(targets)
        if len(sources) != len(targets):
            raise DataError(
                f"expected a target for each source, found {len(sources)} sources and "
                f"{len(targets)} targets"
            )
        return list(
            zip(
                token_ids(self.bundle.source_tokenizer, sources),
                token_ids(self.bundle.target_tokenizer, targets),
                strict=True,
            )
        )

    def _too_long(self, examples: Sequence[Example], first: int) -> dict[int, str]:
        model = self.bundle.config.model
        bounds = [
            min(LONGEST_SCORED, positions or LONGEST_SCORED)
            for positions in (model.most_source, model.most_positions)
        ]
        found = {}
        for row, lengths in enumerate(example_lengths(examples).tolist()):
            for side, length, most in zip(("source", "target"), lengths, bounds, strict=True):
                if length > most and row not in found:
                    found[row] = (
                        f"pair {first + row + 1}: its {side} has {length:,} tokens, and the model "
                        f"takes {most:,} at once"
                    )
        return found

    def _parts(self, line: str) -> list[str]:
        """Return what a line is translated in: itself, or its sentences.

        A blank line has no parts, and neither has one that is passed through.
        """
        if not line.strip():
            return []
        length = self._source_length
        # A line of so many letters is measured before it is tokenized, which takes more memory.
        if len(line) > LONGEST_STRETCH and longest_stretch(line) > LONGEST_STRETCH:
            return []
        if length(line.strip()) <= min(self.bundle.config.longest_source, self.reach):
            return [line]
        return split_long(line, length, self.reach)

    def _source_length(self, text: str) -> int:
        return len(self.bundle.source_tokenizer.encode(text))

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return a source and its target, by default the model's own, for teacher forcing."""
        if kind == "encoder":
            if target is not None:
                raise ConfigError("the encoder does not see the target; leave the target out")
            target = ""
        elif target is None:
            [best] = self.translate([text])[0]
            if best.was_split:
                raise DataError(
                    "the text is longer than the model translates in one piece; give a sentence of "
                    "it"
                )
            target = best.text
        bundle = self.bundle
        examples = self.examples([text], [target])
        [(source_ids, target_ids)] = examples
        batch = collate(examples, [0], bundle.specials.start).to(self.device)
        source = bundle.source_tokenizer.pieces([*source_ids, EOS])
        pieces = bundle.target_tokenizer.pieces
        if kind == "encoder":
            return AttentionInputs(batch.inputs, source, source)
        if kind == "decoder":
            read = pieces([bundle.specials.start, *target_ids])
            return AttentionInputs(batch.inputs, read, read)
        return AttentionInputs(batch.inputs, pieces([*target_ids, EOS]), source)

    @classmethod
    def words(cls, config: TextBundleConfig) -> Words:
        """Return the words of a model card."""
        sides = (("from", config.source_language), ("to", config.target_language))
        known = [f" {word} `{code}`" for word, code in sides if code]
        return Words(
            does="translates" + ("".join(known) or " from one language to another"),
            hub_task="translation",
            command="crosshead translate DIR input.txt",
            variable="translate",
            call='translate(["A first line.", "Another."])',
            scored="Search",
            languages=[config.source_language, config.target_language],
        )

    def facts(self) -> list[list[str]]:
        """Return tokenizers, languages, the longest source and the search settings."""
        longest = self.bundle.config.longest_source
        return [
            *super().facts(),
            [
                "longest source",
                f"{longest} tokens; longer lines are split between sentences, and sentences of "
                f"more than {self.reach} tokens are cut into parts",
            ],
            ["search", search_name(self.bundle.config.decode)],
        ]

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
        cut = len(parts) > len(split_sentences("".join(parts)))
        return Translation(text, log_prob, score, pieces, log_probs, True, cut)

    def _log_probs(self, batch: Batch) -> list[list[float]]:
        """The log-probability of each target token, the end too, given those before it."""
        logits = self.model(batch.source, batch.target_input).float()
        expected = batch.target_output
        losses = F.cross_entropy(logits.flatten(0, 1), expected.flatten(), reduction="none")
        rows: list[list[float]] = losses.neg().view(expected.shape).tolist()
        return rows


def _checked_lines(lines: Iterable[str]) -> list[str]:
    """The lines as a list; raises `TypeError` for what are none, a single text included."""
    if isinstance(lines, str | bytes) or not isinstance(lines, Iterable):
        raise TypeError(f"expected a list of lines of text, found {type(lines).__name__}")
    found = list(lines)
    for index, line in enumerate(found):
        if not isinstance(line, str):
            raise TypeError(f"expected lines of text, found {type(line).__name__} at index {index}")
    return found
