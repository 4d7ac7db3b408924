"""Translation of lines: long lines are split and joined again, and marks and terms are placed.

Nothing here needs PyTorch.
"""

import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from crosshead.bundle.texts import TextParts
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.decoding.settings import DecodeConfig, length_penalty
from crosshead.errors import ConfigError
from crosshead.text.documents.document import Document
from crosshead.text.glossary import Glossary, Term, has_term
from crosshead.text.letter_case import in_capitals, recased
from crosshead.text.markers import (
    TERM_MARKERS,
    Mark,
    ids_of,
    token_ends,
    with_ids,
    without_marks,
)
from crosshead.text.marks import Marked, bare, names, seen, signs, without_tags
from crosshead.text.parallel.languages import with_tag
from crosshead.text.placing import WordLinks
from crosshead.text.profile import flags_of
from crosshead.text.sentences import (
    join_parts,
    longest_stretch,
    one_line,
    split_long,
    split_sentences,
)
from crosshead.text.tokenizers import token_ids
from crosshead.vocabulary import EOS, UNK

MARGIN = 1.2
"""A single sentence is translated whole up to this many times the longest source of training."""

LONGEST_STRETCH = 10_000
"""The largest number of characters without a space or the end of a clause that is translated. A
longer stretch (an image in base64, for example) is not text and would take minutes. Its line is
passed through unchanged."""


MostPositions = tuple[int | None, int | None]
"""The largest number of positions of a source and of a target; None is no limit."""


class Alignments(Protocol):
    """Alignments of pairs by a model's attention."""

    def of(self, examples: Sequence[tuple[list[int], list[int]]]) -> list[np.ndarray]:
        """Return the weight of each source token for each target token, "T S" for each pair."""
        ...


class UsedTerm(NamedTuple):
    """A term of a glossary in a line.

    Attributes:
        source: The words of the line.
        target: The translation that they must have.
        is_used: True if the translation of the line has it, or a form of it.
    """

    source: str
    target: str
    is_used: bool


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
            `LONGEST_STRETCH` characters without a space or punctuation. `text` is then the line
            itself.
        flags: Signs that the line is unlike the training data, or that the translation is bad:
            names from `crosshead.text.profile.FLAGS`. `unread`: its image could not be read.
        terms: The terms of a glossary that the line has.
        engine: The engine that searched, or nothing if no search was needed.
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
    terms: tuple[UsedTerm, ...] = ()
    engine: str = ""


class PlannedLines(NamedTuple):
    """The parts in which lines are searched."""

    parts: list[list[str]]
    """The parts of each line."""
    marked: list[Marked]
    """The text and the marks of each part."""
    terms: list[list[Term]]
    """The terms of the glossary in the text of each part."""
    rows: list[int]
    """The row of the line of each part that has a text. Others are not searched."""
    ids: list[list[int]]
    """The token ids of each part that has a text, and of its marks if the model reads them."""
    numbers: list[int]
    """The number of each part that has a text, for samples."""


class _Part(NamedTuple):
    """A part of a line with its hypotheses and their texts, marks included."""

    source: str
    marked: Marked
    terms: list[Term]
    hypotheses: list[Hypothesis]
    texts: list[str]


class _Output(NamedTuple):
    """A hypothesis of a part."""

    marked: Marked
    source: list[int]
    tokens: list[int]
    """Its tokens without marks."""
    marks: list[Mark]
    """The marks of its source, or none if it lacks one."""
    text: str
    """Its text without marks."""
    is_whole: bool
    """True if the model has written all marks and terms, so that attention must place none."""


_UNKNOWN = 100
"""The number of tokens that an unknown one counts for, when the case of a word is chosen."""

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""A piece that spells a byte, because no other has the character."""


class LineTranslator(ABC):
    """The base of what translates lines, and splits the lines that are too long."""

    bundle: TextParts

    tag: str | None = ""
    """The tag before each source, such as `<2de>`; None if the target language is not chosen."""

    @property
    def source_language(self) -> str | None:
        """The language that is translated from, if it is known."""
        return self.bundle.config.source_language

    @property
    def max_source_length(self) -> int:
        """The largest number of source tokens, without the end, that is translated in one piece."""
        longest = int(MARGIN * self.bundle.config.longest_source)
        positions = self.most_positions[0]
        return longest if positions is None else min(longest, positions - 1)

    @property
    @abstractmethod
    def most_positions(self) -> MostPositions:
        """The largest number of positions of a source and of a target, or None without a limit."""

    @property
    @abstractmethod
    def alignments(self) -> Alignments:
        """The alignments of the model."""

    def planned(
        self, lines: Sequence[str], first: int, glossary: Glossary | None = None
    ) -> PlannedLines:
        """Return the parts in which lines are searched, with the terms of a glossary."""
        parts = [self._parts(self._seen(line)) for line in lines]
        planned = PlannedLines(parts, [], [], [], [], [])
        searched: list[Marked] = []
        for row, line_parts in enumerate(parts):
            for index, part in enumerate(line_parts):
                marked = self._marked(part)
                terms = glossary.terms(marked.text) if glossary else []
                text = self._in_known_case(marked.text)
                capitals = text != marked.text and in_capitals(marked.text)
                if capitals:
                    terms = [each._replace(target=each.target.upper()) for each in terms]
                marked = self._with_terms(marked, terms, exact=glossary is None or glossary.exact)
                marked = replace(marked, text=text, in_capitals=capitals)
                planned.marked.append(marked)
                planned.terms.append(terms)
                if marked.text.strip():
                    searched.append(marked)
                    planned.rows.append(row)
                    # Samples are drawn by number: the line's, and that of the part in the line.
                    planned.numbers.append(((first + row) << 20) + index)
        texts = self.with_tag([marked.text for marked in searched])
        ids = token_ids(self.bundle.source_tokenizer, texts)
        planned.ids.extend(map(self._with_marks, searched, ids))
        return planned

    def with_tag(self, lines: Sequence[str]) -> list[str]:
        """Return lines with the tag of the target language, if the model has several."""
        if self.tag is None:
            first, *_ = languages = self.bundle.config.target_languages
            raise ConfigError(
                f"this model translates to {' and '.join(languages)}: choose the language with "
                f"--to {first}, or with into({first!r}) in Python"
            )
        return with_tag(self.tag, lines)

    def joined(
        self,
        lines: Sequence[str],
        planned: PlannedLines,
        hypotheses: Sequence[list[Hypothesis]],
        n_best: int,
        decode: DecodeConfig,
        engine: str,
    ) -> list[list[Translation]]:
        """Return the translations of each line, best first, from those that an engine found."""
        found, ids = iter(hypotheses), iter(planned.ids)
        marked, texts = iter(planned.marked), iter(self._texts(planned, hypotheses))
        terms = iter(planned.terms)
        tag_length = self._tag_length
        translations = []
        for line, parts in zip(lines, planned.parts, strict=True):
            read: list[_Part] = []
            line_ids: list[int] = []
            for part in parts:
                marks = next(marked)
                if marks.text.strip():
                    read.append(_Part(part, marks, next(terms), next(found), next(texts)))
                    line_ids += self._without_marks(next(ids)[tag_length:])
                else:
                    read.append(_Part(part, marks, next(terms), [], [part.strip()]))
            searched = engine if any(part.hypotheses for part in read) else ""
            if not searched and line.strip():
                long = len(line) > LONGEST_STRETCH and not parts
                passed = Translation(one_line(line), 0.0, 0.0, [], [], was_passed_through=long)
                translations.append([passed])
                continue
            best = self._joined(read, n_best, decode)
            translations.append([self._flagged(each, read, line_ids, searched) for each in best])
        return translations

    def _with_terms(self, marked: Marked, terms: Sequence[Term], *, exact: bool) -> Marked:
        """Return a part with the terms that stand in its translation, and those that are told.

        A term that stays as it is has no other forms. One with unknown or reserved pieces is not
        told.
        """
        never = {UNK, *self._markers, *self._term_markers}
        told = [
            term
            for term in terms
            if self._term_markers
            and not exact
            and term.target != marked.text[term.begin : term.end]
            and never.isdisjoint(self.bundle.source_tokenizer.encode(term.target))
        ]
        return replace(marked.with_terms([each for each in terms if each not in told]), told=told)

    def _with_marks(self, marked: Marked, ids: list[int]) -> list[int]:
        """Return the ids of a part with the marks and terms that the model reads, if they fit."""
        is_marked = marked.are_read and bool(marked.words)
        if not (is_marked or marked.told):
            return ids
        length = self._tag_length
        ends = self._source_ends(marked, ids[length:])
        inserted = [each for term in marked.told for each in self._told(term, ends)]
        if is_marked:
            inserted += [(at, 0, [self._markers[each]]) for at, each in marked.marks(ends)]
        inserted.sort(key=lambda each: each[:2])
        found = with_ids(ids[length:], [(at, others) for at, _, others in inserted])
        most = self.most_positions[0]
        return ids if most is not None and length + len(found) >= most else [*ids[:length], *found]

    def _told(self, term: Term, ends: Sequence[int]) -> list[tuple[int, int, list[int]]]:
        """Return ids that tell the model the translation of a term.

        Before them are the number of tokens before them, and their order among marks there.
        """
        begin, middle, end = self._term_markers
        target = self.bundle.source_tokenizer.encode(term.target)
        last = min(len(ends), bisect_left(ends, term.end) + 1)
        return [(bisect_right(ends, term.begin), 1, [begin]), (last, -1, [middle, *target, end])]

    def _without_marks(self, ids: Sequence[int]) -> list[int]:
        """Return ids without marks, and without terms and what is said of them."""
        bare, told = list[int](), False
        for each in without_marks(ids, self._markers)[0]:
            if each in self._term_markers:
                told = each == self._term_markers[1]
            elif not told:
                bare.append(each)
        return bare

    def _source_ends(self, marked: Marked, ids: Sequence[int]) -> list[int]:
        """Return the offsets in the text of a part at which its tokens end."""
        text = marked.text.strip()
        lead = len(marked.text) - len(marked.text.lstrip())
        return [end + lead for end in token_ends(self.bundle.source_tokenizer, ids, text)]

    def _texts(
        self, planned: PlannedLines, hypotheses: Sequence[list[Hypothesis]]
    ) -> list[list[str]]:
        """Return the text of each hypothesis of each part, with the marks of the part."""
        marked = [each for each in planned.marked if each.text.strip()]
        outputs = [
            [self._output(part, ids, each.tokens) for each in found]
            for part, ids, found in zip(marked, planned.ids, hypotheses, strict=True)
        ]
        misplaced = [
            (self._without_marks(each.source), each.tokens)
            for found in outputs
            for each in found
            if not each.is_whole
        ]
        weights = iter(self.alignments.of(misplaced) if misplaced else ())
        return [[self._text(each, weights) for each in found] for found in outputs]

    def _output(self, marked: Marked, source: list[int], tokens: list[int]) -> _Output:
        """Return a hypothesis, with the terms that it must still get as marks of its source."""
        bare, marks = without_marks(tokens, self._markers)
        # CTranslate2 may write bytes that are no character.
        text = self.bundle.target_tokenizer.decode(bare).replace("\ufffd", "")
        missing = [each for each in marked.told if not has_term(text, each.target)]
        owed = {each.number for each in without_marks(source, self._markers)[1]}
        if {each.number for each in marks} != owed:
            marks = []
        is_whole = not missing and len(marks) == len(marked.spans)
        return _Output(marked.with_terms(missing), source, bare, marks, text, is_whole)

    def _text(self, output: _Output, weights: Iterator[np.ndarray]) -> str:
        """Return the text of a hypothesis with its marks, which attention places if need be."""
        marked = output.marked
        in_case = str.upper if marked.in_capitals else str
        text = in_case(output.text)
        if not marked.spans and output.is_whole:
            return marked.around(text.strip()) if marked.has_ends else text
        ends = [
            len(in_case(output.text[:end]))
            for end in token_ends(self.bundle.target_tokenizer, output.tokens, output.text)
        ]
        if output.is_whole:
            return marked.written(text, ends, output.marks)
        length = self._tag_length
        source = self._source_ends(marked, self._without_marks(output.source[length:]))
        links = WordLinks.of(marked.text, source, text, ends, next(weights)[:, length:])
        return marked.projected(text, links, ends, output.marks)

    @cached_property
    def _markers(self) -> tuple[int, ...]:
        """The pieces of marks that the model reads and writes, or none."""
        return self.bundle.marks

    @cached_property
    def _term_markers(self) -> tuple[int, ...]:
        """The pieces of terms that the model reads, or none."""
        return ids_of(TERM_MARKERS, self.bundle.source_tokenizer)

    @property
    def _tag_length(self) -> int:
        return len(self.bundle.source_tokenizer.encode(self.tag)) if self.tag else 0

    def _seen(self, line: str) -> str:
        """Return a line without what cannot be seen, which imported tokenizers care for."""
        core = line.strip()
        if not core or self.bundle.source_tokenizer.normalises:
            return line
        return line.replace(core, seen(core, self._unread(core)), 1)

    def _in_known_case(self, text: str) -> str:
        """Return a text with its words in the case that the model can read."""
        return text if self.bundle.source_tokenizer.normalises else recased(text, self._cost)

    def _cost(self, text: str) -> int:
        """Return the number of tokens of a text. An unknown one counts for many."""
        ids = self.bundle.source_tokenizer.encode(text)
        return len(ids) + _UNKNOWN * ids.count(UNK)

    def _marked(self, text: str) -> Marked:
        return Marked.of(text, self._unread(text), are_read=bool(self._markers))

    def _unread(self, text: str) -> set[str]:
        """Return the signs of a text that the model cannot read, and names. They are marks."""
        found = {each for each in signs(text) if not self._reads(each)}
        return found | names(text) if self._markers else found

    def _reads(self, sign: str) -> bool:
        if sign not in self._read_signs:
            tokenizer = self.bundle.source_tokenizer
            ids = tokenizer.encode(sign)
            spelled = any(_BYTE.fullmatch(piece) for piece in tokenizer.pieces(ids))
            self._read_signs[sign] = not spelled and UNK not in ids
        return self._read_signs[sign]

    @cached_property
    def _read_signs(self) -> dict[str, bool]:
        """True for each known sign that the model can read."""
        return {}

    def _flagged(
        self, translation: Translation, parts: Sequence["_Part"], ids: list[int], engine: str
    ) -> Translation:
        source = " ".join(part.marked.text for part in parts)
        text = bare(translation.text, self._unread(translation.text))
        flags = flags_of(self.bundle.config.profile, source, ids, text)
        terms = tuple(
            UsedTerm(
                part.marked.text[term.begin : term.end], term.target,
                has_term(translation.text, term.target),
            )
            for part in parts
            for term in part.terms
        )  # fmt: skip
        if not all(term.is_used for term in terms):
            flags = (*flags, "term")
        return replace(translation, flags=flags, terms=terms, engine=engine)

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
        return split_long(line, length, self.max_source_length, self.source_language)

    def _source_length(self, text: str) -> int:
        [tagged] = self.with_tag([self._in_known_case(bare(text, self._unread(text)))])
        return len(self.bundle.source_tokenizer.encode(tagged))

    def _joined(
        self, parts: Sequence["_Part"], n_best: int, decode: DecodeConfig
    ) -> list[Translation]:
        """Return the translations of a line: its n-th joins the n-th of each part."""
        if not parts:
            return [Translation("", 0.0, 0.0, [], [])]
        count = min(n_best, max(len(part.texts) for part in parts))
        translations = [self._translation(parts, rank, decode) for rank in range(count)]
        if len(parts) > 1:
            translations.sort(key=lambda translation: translation.score, reverse=True)
        return translations

    def _translation(
        self, parts: Sequence["_Part"], rank: int, decode: DecodeConfig
    ) -> Translation:
        tokenizer = self.bundle.target_tokenizer
        hypotheses = [
            part.hypotheses[min(rank, len(part.hypotheses) - 1)]
            for part in parts
            if part.hypotheses
        ]
        texts = [part.texts[min(rank, len(part.texts) - 1)] for part in parts]
        ids = [[*h.tokens, EOS] if h.finished else h.tokens for h in hypotheses]
        pieces = [piece for part in ids for piece in tokenizer.pieces(part)]
        log_probs = [value for h in hypotheses for value in h.token_log_probs]
        sources = [part.source for part in parts]
        text = join_parts(sources, texts)
        if len(parts) == 1:
            [only] = hypotheses
            return Translation(text, only.log_prob, only.score, pieces, log_probs)
        log_prob = math.fsum(log_probs)
        penalty = length_penalty(len(log_probs), decode.length_penalty, decode.length_offset)
        cut = len(parts) > len(split_sentences("".join(sources), self.source_language))
        return Translation(text, log_prob, log_prob / penalty, pieces, log_probs, True, cut)


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text and its translations.

    Attributes:
        source: The sentence.
        translations: Its translations, best first, one or more.
    """

    source: str
    translations: list[Translation]

    @classmethod
    def of(cls, source: str, translations: Sequence[Translation]) -> "TranslatedSentence":
        """Return a sentence of a document without the characters of its tags."""
        found = [replace(each, text=without_tags(each.text)) for each in translations]
        return cls(without_tags(source), found)


@dataclass(frozen=True)
class TranslatedText:
    """A text or document and its translations.

    Attributes:
        texts: The translations of the whole, best first, all different.
        sentences: The sentences that it was split into, in order.
    """

    texts: list[str]
    sentences: list[TranslatedSentence]

    @classmethod
    def of(
        cls, document: Document, found: Sequence[list[Translation]], count: int
    ) -> "TranslatedText":
        """Return a document with the translations of its sentences.

        Args:
            document: The document.
            found: The translations of each sentence, best first.
            count: The largest number of translations of the whole. The n-th joins the n-th of each
                sentence, or its last one.
        """
        wholes = [
            document.with_translations([each[min(rank, len(each) - 1)].text for each in found])
            for rank in range(count)
        ]
        pairs = zip(document.sentences, found, strict=True)
        sentences = [TranslatedSentence.of(source, translations) for source, translations in pairs]
        return cls(list(dict.fromkeys(wholes)), sentences)

    @property
    def text(self) -> str:
        """The best translation of the whole."""
        return self.texts[0]

    @property
    def score(self) -> float:
        """The sum of the scores of the best translations of all sentences."""
        return sum(each.translations[0].score for each in self.sentences)
