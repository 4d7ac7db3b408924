"""Marks in training pairs: for phrases that translate each other, and beside them.

Other pairs have terms: a phrase of the source is followed by its translation (Dinu et al. 2019,
"Training Neural Machine Translation to Apply Terminology Constraints", section 3). In half of them
the translation is a phrase of another pair, on both sides. So a model cannot do without reading it.
In others it is another form of a word, so that a model learns to inflect (after Bergmanis and
Pinnis 2021, "Facilitating Terminology Translation with Target Lemma Annotations", section 3).

A model that has seen them reads the placeholders of a sentence as pieces, and puts them into its
translation (Hanneman and Dinu 2020, "How Should Markup Tags Be Translated?", section 3.2).
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, cast

import numpy as np

from crosshead.text.glossary import STEM, are_forms
from crosshead.text.markers import MOST_MARKS, token_ends
from crosshead.text.parallel.examples import Example, Measured, lead_of
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.placing import WordLinks
from crosshead.text.scripts import is_spaced
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import EOS

_TAGGED = 4
"""The key that separates these random draws from others with the same (seed, epoch)."""

_MORE = (0.5, 0.75, 0.9)
"""The shares of the pairs with marks that have at most one, two and three of them, out of four."""

_LENGTHS = (0.5, 0.8, 0.92)
"""The shares of phrases of at most one, two and three words, out of four."""

_ROLES = {"before": 0.25, "behind": 0.25, "for": 0.5}
"""The shares of marks that stand before a phrase, behind one, or for it."""

_LIKELY = 0.3
"""The least probability of a link between two tokens."""

_TRIES = 3
"""The number of phrases that are tried for each mark."""

_OF_A_TERM = 10
"""The room for a term in tokens: its pieces and its translation."""

_LETTERS = 4
"""The least letters of one word of a term at least, on both sides. Shorter words are often those of
grammar."""

_FOREIGN = 0.5
"""The share of terms whose translation is a phrase of another pair."""

_INFLECTED = 0.5
"""The share of other terms that are told in another form, if the target text has one."""

_PAIRS_READ = 20_000
"""The most pairs in which forms of words are looked for."""

_LETTERS_ONLY = re.compile(r"(?<!\w)[^\W\d_]+(?!\w)")

Role = Literal["before", "behind", "for", "term"]
Forms = Mapping[tuple[int | str, ...], Sequence[str]]
"""Other forms of words of targets. Before a word is the tag of its language, if it has one."""

Range = tuple[int, int]
"""The first unit of a phrase, and the one after it."""


class Units(NamedTuple):
    """The words and signs of one side of a pair."""

    ids: Sequence[int]
    """The tokens of the side."""
    text: str
    ends: list[int]
    """The offset in the text after each token."""
    offsets: np.ndarray
    """The offsets of the units in the text, "U 2"."""

    @property
    def are_words(self) -> np.ndarray:
        """Return whether each unit is a word. Signs are not said to translate anything."""
        return np.array([self.text[first].isalnum() for first in self.offsets[:, 0]], bool)

    def span(self, phrase: Range) -> Range:
        """Return the offsets of a phrase in the text."""
        return int(self.offsets[phrase[0], 0]), int(self.offsets[phrase[1] - 1, 1])

    def tokens(self, phrase: Range) -> Range:
        """Return the first token of a phrase, and the one after it."""
        first, last = self.span(phrase)
        return bisect_right(self.ends, first), bisect_left(self.ends, last) + 1

    def replaced(self, phrase: Range) -> "Replaced":
        """Return a phrase as a translation."""
        begin, end = self.span(phrase)
        return Replaced(self.text[begin:end], self.ids[slice(*self.tokens(phrase))])

    def has_word(self, phrase: Range) -> bool:
        """Return whether a word of a phrase is long enough for a term."""
        offsets = self.offsets[slice(*phrase)][self.are_words[slice(*phrase)]]
        return any(b - a >= _LETTERS or not is_spaced(self.text[a]) for a, b in offsets.tolist())

    def look(self, phrase: Range) -> tuple[str, bool]:
        """Return what stands before a phrase, and whether it begins with a capital."""
        begin, _ = self.span(phrase)
        return self.text[max(0, begin - 1) : begin], self.text[begin].isupper()


class Replaced(NamedTuple):
    """A translation of a term."""

    text: str
    ids: Sequence[int]


class _Phrases(NamedTuple):
    """Two phrases that translate each other, with a mark or with the translation of a term."""

    role: Role
    phrases: tuple[Range, Range]
    """The units of both sides."""
    translation: Replaced | None = None
    """The translation of a term."""

    def touches(self, other: "_Phrases") -> bool:
        """Return whether a phrase of another one overlaps its phrase of this one."""
        pairs = zip(self.phrases, other.phrases, strict=True)
        return any(c < b and a < d for (a, b), (c, d) in pairs)


@dataclass(frozen=True)
class Tagging:
    """The settings of marks and terms in the pairs of a run."""

    tokenizers: tuple[Tokenizer, Tokenizer]
    aligner: WordAligner
    markers: Sequence[int]
    """The ids of `MARKERS`."""
    term_markers: Sequence[int]
    """The ids of `TERM_MARKERS` in the source."""
    share: float
    """The share of pairs with marks, and that with a term."""
    seed: int
    longest: int
    """The largest number of tokens of a side."""
    skipped: frozenset[int] = frozenset()
    """Tokens at the beginning of a source that stay there: tags of languages."""
    forms: Forms = field(default_factory=dict)
    """Other forms of words of targets."""


@dataclass(frozen=True)
class Tagged(Measured):
    """Examples of which a share, drawn from (seed, epoch), has marks, and another share a term.

    `lengths` is the room for all marks of a pair. A pair in which fewer phrases are found has fewer
    marks.
    """

    examples: Measured
    tagging: Tagging
    epoch: int

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of marks and of terms of each pair, "n 2"."""
        share = self.tagging.share
        rng = np.random.default_rng([self.tagging.seed, self.epoch, _TAGGED])
        drawn, others = rng.random((2, len(self)))
        marks = np.where(drawn < share, 1 + np.digitize(drawn / share, _MORE), 0)
        terms = (others < share) & bool(self.tagging.term_markers)
        counts = np.stack([marks, terms], axis=1).astype(np.int32)
        fits = (self.examples.lengths + self._room(counts)).max(axis=1) <= self.tagging.longest
        return np.asarray(counts * fits[:, None])

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of both sides, without begin and end: an `n 2` array of int32."""
        return np.asarray(self.examples.lengths + self._room(self.counts), np.int32)

    @staticmethod
    def _room(counts: np.ndarray) -> np.ndarray:
        marks, terms = counts.T
        return np.stack([marks + _OF_A_TERM * terms] * 2, axis=1)

    def example(self, row: int) -> Example:
        """Return example `row`, counted from 0."""
        example, (marks, terms) = self.examples[row], self.counts[row].tolist()
        if not marks + terms:
            return example
        rng = np.random.default_rng([self.tagging.seed, self.epoch, _TAGGED, row])
        source, target = example
        lead = lead_of(source, self.tagging.skipped)
        sides, weights = self._linked((source[lead:], target))
        chosen: list[_Phrases] = []
        for number in range(marks + terms):
            tries = (_phrases(sides[0], sides[1], weights, rng) for _ in range(_TRIES))
            is_term = number >= marks
            found = next(
                (each for each in tries if each and (not is_term or _are_terms(sides, each))), None
            )
            if found is None:
                continue
            new = _Phrases("term" if is_term else _role(rng), found)
            if is_term:
                translation = self._translation(source[:lead], sides[1], found[1], rng)
                new = new._replace(translation=translation)
            is_known = not is_term or new.translation is not None
            if is_known and not any(map(new.touches, chosen)):
                chosen.append(new)
        chosen.sort(key=lambda each: each.phrases[0])
        order = [each.phrases for each in chosen if each.role != "term"]
        first = [*range(len(order))], sorted(rng.permutation(MOST_MARKS)[: len(order)].tolist())
        numbers = dict(zip(order, first[int(rng.integers(2))], strict=True))
        written = [self._written(chosen, sides[at], numbers, at) for at in (0, 1)]
        return [*source[:lead], *written[0]], written[1]

    def _linked(self, example: Example) -> tuple[list[Units], np.ndarray]:
        """Return both sides in units, and how much each target unit translates each source unit."""
        padded = [np.array([[*ids, EOS]]) for ids in example]
        probable = self.tagging.aligner.align(*padded)[0, :-1, :-1]
        texts = [t.decode(ids) for t, ids in zip(self.tagging.tokenizers, example, strict=True)]
        ends = [
            token_ends(tokenizer, ids, text)
            for tokenizer, ids, text in zip(self.tagging.tokenizers, example, texts, strict=True)
        ]
        likely = np.where(probable >= _LIKELY, probable, 0)
        links = WordLinks.of(texts[0], ends[0], texts[1], ends[1], likely)
        offsets = links.source, links.target
        sides = [Units(*each) for each in zip(example, texts, ends, offsets, strict=True)]
        return sides, links.weights

    def _written(
        self,
        chosen: Sequence[_Phrases],
        side: Units,
        numbers: Mapping[tuple[Range, Range], int],
        at: int,
    ) -> list[int]:
        """Return the ids of a side with marks and terms. `at` is 0 for the source."""
        found, last = list[int](), 0
        for each in sorted(chosen, key=lambda each: each.phrases[at]):
            first, end = side.tokens(each.phrases[at])
            phrase = side.ids[max(first, last) : end]
            found.extend(side.ids[last:first])
            if each.translation is None:
                mark = self.tagging.markers[numbers[each.phrases]]
                found.extend([] if each.role != "behind" else phrase)
                found.append(mark)
                found.extend([] if each.role != "before" else phrase)
            elif at == 0:
                start, middle, close = self.tagging.term_markers
                told = self.tagging.tokenizers[0].encode(each.translation.text)
                found.extend([start, *phrase, middle, *told, close])
            else:
                found.extend(each.translation.ids)
            last = max(last, end)
        return [*found, *side.ids[last:]]

    def _translation(
        self, tag: Sequence[int], target: Units, phrase: Range, rng: np.random.Generator
    ) -> Replaced | None:
        """Return the translation of a term: its own, or a phrase of another pair that looks alike.

        Its own may be told in another form. None is returned if there is no room for it. `tag` is
        that of the target language.
        """
        translation = target.replaced(phrase)
        drawn = rng.random()
        forms = self.tagging.forms.get((*tag, translation.text))
        if forms and drawn > 1 - (1 - _FOREIGN) * _INFLECTED:
            translation = translation._replace(text=forms[int(rng.integers(len(forms)))])
        elif drawn < _FOREIGN:
            for _ in range(_TRIES):
                example = self._drawn(tag, rng)
                sides, weights = self._linked((example[0][len(tag) :], example[1]))
                found = _phrases(sides[0], sides[1], weights, rng)
                if (
                    found
                    and _are_terms(sides, found)
                    and sides[1].look(found[1]) == target.look(phrase)
                ):
                    translation = sides[1].replaced(found[1])
                    break
        ids = self.tagging.tokenizers[0].encode(translation.text)
        fits = max(len(ids) + 3, len(translation.ids)) <= _OF_A_TERM
        return translation if fits else None

    def _drawn(self, tag: Sequence[int], rng: np.random.Generator) -> Example:
        """Return a random pair whose target has the language of a tag."""
        while True:
            example = self.examples[int(rng.integers(len(self)))]
            if list(example[0][: lead_of(example[0], self.tagging.skipped)]) == list(tag):
                return example


def word_forms(examples: Measured, tokenizer: Tokenizer, tags: frozenset[int]) -> Forms:
    """Return the words of targets of which there are other forms, with these forms."""
    rows = np.unique(np.linspace(0, len(examples) - 1, _PAIRS_READ).astype(np.int64))
    alike = dict[tuple[int | str, ...], set[str]]()
    for row in rows.tolist():
        source, target = examples[row]
        tag = source[: lead_of(source, tags)]
        for word in _LETTERS_ONLY.findall(tokenizer.decode(target)):
            alike.setdefault((*tag, word[: STEM - 1]), set()).add(word)
    forms = {
        (*key[:-1], word): sorted(each for each in words if each != word and are_forms(word, each))
        for key, words in alike.items()
        for word in words
    }
    return {word: others for word, others in forms.items() if others}


def _are_terms(sides: Sequence[Units], phrases: tuple[Range, Range]) -> bool:
    return all(side.has_word(phrase) for side, phrase in zip(sides, phrases, strict=True))


def _role(rng: np.random.Generator) -> Role:
    return cast(Role, rng.choice(list(_ROLES), p=list(_ROLES.values())))


def _phrases(
    source: Units, target: Units, weights: np.ndarray, rng: np.random.Generator
) -> tuple[Range, Range] | None:
    """Return a random phrase that begins with a word, and its translation, or None if none fits.

    No word of one translates a word outside of the other (Och and Ney 2004, Eq. 2), and both ends
    of the source phrase have a translation.
    """
    if not weights.size:
        return None
    begin = int(rng.integers(len(source.offsets)))
    end = begin + 1 + int(np.digitize(rng.random(), _LENGTHS))
    if end > len(source.offsets) or not source.text[source.offsets[begin, 0]].isalnum():
        return None
    owners = np.where(weights.any(axis=1) & target.are_words, weights.argmax(axis=1), -1)
    inside = np.flatnonzero((owners >= begin) & (owners < end))
    if not len(inside) or not {begin, end - 1} <= set(owners[inside].tolist()):
        return None
    first, last = int(inside[0]), int(inside[-1]) + 1
    between = owners[first:last]
    if ((between >= 0) & ((between < begin) | (between >= end))).any():
        return None
    return (begin, end), (first, last)
