"""Translation of raw text with a bundle."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

from crosshead.bundle.card import Words
from crosshead.bundle.text_bundle import TextBundleConfig
from crosshead.data.batching import Example, collate
from crosshead.data.text.profile import flags_of
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
from crosshead.pipelines.base import AttentionInputs, TextPipeline
from crosshead.pipelines.batched_search import TokenInputs, search_all
from crosshead.pipelines.scoring import (
    ScoredTranslation,
    checked_lines,
    encode_pairs,
    score_examples,
    why_too_long,
)
from crosshead.vocabulary import EOS

MARGIN = 1.2
"""A single sentence is translated whole up to this many times the longest source of training."""

LONGEST_STRETCH = 10_000
"""The largest number of characters without a space or the end of a clause that is translated. A
longer stretch (an image in base64, for example) is not text and would take minutes. Its line is
passed through unchanged."""


@dataclass(frozen=True)
class Translation:
    """One translation of a line.

    Attributes:
        text: The translation.
        log_prob: The sum of `piece_log_probs`.
        score: `log_prob` divided by the length penalty. Hypotheses are ranked by it.
        pieces: The tokens that the model produced, including the end of the sentence if it was
            produced (once for each part of a split line).
        piece_log_probs: The natural log-probabilities of the pieces.
        was_split: True if the line was too long for the model and was translated in parts.
        sentence_was_cut: True if even a single sentence was too long and was cut.
        was_passed_through: True if the line was not translated because it has more than
            `LONGEST_STRETCH` characters without a space. `text` is then the line itself.
        flags: Signs that the line is unlike the training data, or that the translation is bad:
            names from `crosshead.data.text.profile.FLAGS`.
    """

    text: str
    log_prob: float
    score: float
    pieces: list[str]
    piece_log_probs: list[float]
    was_split: bool = False
    sentence_was_cut: bool = False
    was_passed_through: bool = False
    flags: tuple[str, ...] = ()


class PlannedLines(NamedTuple):
    """The parts in which lines are searched."""

    parts: list[list[str]]
    """The parts of each line."""
    rows: list[int]
    """The row of the line of each part."""
    ids: list[list[int]]
    """The token ids of each part."""
    numbers: list[int]
    """The number of each part, for samples."""


class LineTranslator(TextPipeline):
    """The base of pipelines that translate lines, and split the lines that are too long."""

    @property
    def model(self) -> SequenceModel:
        """The bundle's model."""
        return decodable(self.bundle.model)

    @property
    def max_source_length(self) -> int:
        """The largest number of source tokens, without the end, that is translated in one piece."""
        longest = int(MARGIN * self.bundle.config.longest_source)
        positions = self.bundle.config.model.most_source
        return longest if positions is None else min(longest, positions - 1)

    def planned(self, lines: Sequence[str], first: int) -> PlannedLines:
        """Return the parts in which lines are searched.

        Args:
            lines: The lines.
            first: The number of the first line, for samples.
        """
        parts = [self._parts(line) for line in lines]
        texts = [part for line_parts in parts for part in line_parts]
        return PlannedLines(
            parts,
            [row for row, line_parts in enumerate(parts) for _ in line_parts],
            token_ids(self.bundle.source_tokenizer, texts),
            # Samples are drawn by number: the line's, and the number of the part in the line.
            [
                (line << 20) + index
                for line, line_parts in enumerate(parts, first)
                for index in range(len(line_parts))
            ],
        )

    def joined(
        self,
        lines: Sequence[str],
        planned: PlannedLines,
        hypotheses: Sequence[list[Hypothesis]],
        decode: DecodeConfig,
        n_best: int,
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first, from those of its parts.

        Args:
            lines: The lines.
            planned: The parts of the lines.
            hypotheses: The hypotheses of each part.
            decode: The settings of the search.
            n_best: The number of translations per line.
        """
        found, ids = iter(hypotheses), iter(planned.ids)
        translations = []
        for line, parts in zip(lines, planned.parts, strict=True):
            if not parts and line.strip():
                passed = Translation(one_line(line), 0.0, 0.0, [], [], was_passed_through=True)
                translations.append([passed])
                continue
            best = self._joined(parts, [next(found) for _ in parts], decode, n_best)
            line_ids = [each for _ in parts for each in next(ids)]
            translations.append([self._flagged(each, line, line_ids) for each in best])
        return translations

    def facts(self) -> list[list[str]]:
        """Return tokenizers, languages, the longest source and the search settings."""
        longest = self.bundle.config.longest_source
        return [
            *super().facts(),
            [
                "longest source",
                f"{longest} tokens; a longer line is split at the ends of its sentences, and a "
                f"sentence of more than {self.max_source_length} tokens is cut into parts",
            ],
            ["search", search_name(self.bundle.config.decode)],
        ]

    def _flagged(self, translation: Translation, line: str, ids: list[int]) -> Translation:
        flags = flags_of(self.bundle.config.profile, line, ids, translation.text)
        return replace(translation, flags=flags) if flags else translation

    def _parts(self, line: str) -> list[str]:
        """Return the parts in which a line is translated: the line, or its sentences.

        A blank line and a line that is passed through have no parts.
        """
        if not line.strip():
            return []
        length = self._source_length
        # A very long line is checked before tokenizing it, which needs more memory.
        if len(line) > LONGEST_STRETCH and longest_stretch(line) > LONGEST_STRETCH:
            return []
        if length(line.strip()) <= min(self.bundle.config.longest_source, self.max_source_length):
            return [line]
        return split_long(line, length, self.max_source_length)

    def _source_length(self, text: str) -> int:
        return len(self.bundle.source_tokenizer.encode(text))

    def _joined(
        self,
        parts: list[str],
        found: list[list[Hypothesis]],
        decode: DecodeConfig,
        n_best: int,
    ) -> list[Translation]:
        """Return the translations of a line: its n-th joins the n-th of each part."""
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


class Translator(LineTranslator):
    """Translates lines of raw text with a bundle's model.

    A call translates a text or a list of lines with the bundle's search settings. `translate` takes
    other settings and returns more about each line. The model (`translator.model`, a plain
    `torch.nn.Module`) may be moved to another device.
    """

    does, verb = "translates", "translate"
    usage = "Translate with: {command} {bundle} FILE"

    @overload
    def __call__(self, text: str) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Sequence[str]) -> list[str]: ...

    def __call__(self, text: str | Sequence[str]) -> str | list[str]:
        """Return the best translation of a text, line by line, or of each line in a list.

        The translation of a text has as many lines as the text. In a list, each item is one line
        with one line of translation, and a line break inside it is white space.

        Args:
            text: A text, or a list of lines.

        Raises:
            TypeError: If `text` is neither.
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
        """Translate lines.

        A blank line has one empty translation. A line longer than the longest training source is
        split at sentence ends, translated in parts and joined again. The model does not see white
        space around lines and parts. This white space is put around the translations, except for
        line breaks. A line with more than `LONGEST_STRETCH` characters without a space or the end
        of a clause is passed through: its only translation is the line itself. The translation of a
        line does not depend on other lines. Samples depend on the line's number.

        Args:
            lines: The lines.
            decode: The settings of the search, by default the bundle's.
            n_best: The number of translations per line.
            first: The number of the first line, for samples.
            progress: A callback that gets the finished share, from 0 to 1.

        Returns:
            The translations of each line, best first, for all lines in order. A list is shorter
            than `n_best` if the vocabulary offers no more.

        Raises:
            TypeError: If `lines` is not a list of texts, for example a single text.
        """
        decode = decode or self.bundle.config.decode
        lines = checked_lines(lines)
        planned = self.planned(lines, first)
        hypotheses = search_all(
            self.model,
            TokenInputs(planned.ids),
            self.bundle.specials,
            decode,
            n_best,
            numbers=planned.numbers,
            most=self.bundle.config.model.most_positions,
            progress=progress,
        )
        return self.joined(lines, planned, hypotheses, decode, n_best)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> list[ScoredTranslation]:
        """Return the log-probability of each target as a translation of its source, in order.

        As in translation, the model does not see white space around lines. Nothing is split, left
        out or smoothed.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length, or a side of a pair is too long.
        """
        examples = self.examples(sources, targets, first=first)
        return score_examples(self.model, self.bundle, examples)

    def examples(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> list[Example]:
        """Return the token ids of sources and targets.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length, or a side has more than `LONGEST_SCORED`
                tokens or more than the model has positions.
        """
        examples = encode_pairs(self.bundle, sources, targets)
        for why in why_too_long(self.bundle.config, examples, first).values():
            raise DataError(f"{why}; split both sides of the pair into sentences")
        return examples

    def refusals(
        self, sources: Sequence[str], targets: Sequence[str], *, first: int = 0
    ) -> dict[int, str]:
        """Return why `score` would refuse pairs, by their rows from 0.

        Args:
            sources: The source lines.
            targets: The target lines.
            first: The number of pairs before these, for messages.

        Raises:
            TypeError: If a side is not a list of texts.
            DataError: If the lists differ in length.
        """
        examples = encode_pairs(self.bundle, sources, targets)
        return why_too_long(self.bundle.config, examples, first)

    def attention_inputs(
        self, text: str, target: str | None, kind: AttentionKind
    ) -> AttentionInputs:
        """Return a source and its target for teacher forcing.

        The target is by default the model's translation.
        """
        if kind == "encoder":
            if target is not None:
                raise ConfigError("the encoder does not see the target; leave the target out")
            target = ""
        elif target is None:
            [best] = self.translate([text])[0]
            if best.was_split:
                raise DataError(
                    "the text is longer than the model translates in one piece; give a single "
                    "sentence"
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
