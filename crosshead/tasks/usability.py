"""Signs that a model is not usable yet, and samples of its output."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from crosshead.bundle.config import BundleScore
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.sacrebleu_metrics import sentence_chrf
from crosshead.system.progress import counted
from crosshead.text.profile import is_copy, loses_number, repeats_itself
from crosshead.text.scripts import split_words

LOW_BLEU = 5.0
"""Translations below this BLEU have hardly anything in common with the references."""

LOW_EXACT = 5.0
"""If this percentage of short translations equal their reference, a low BLEU is no fault. BLEU is 0
if no translation has four tokens, however good they are."""

_SHORT = 4
"""Translations of fewer words than this have no BLEU of their own."""

_SHARE = 0.1
"""A model is not usable if at least this share of its translations is empty, repeats itself or
copies its source, unlike their references."""

_LENGTH_RATIO = 2.0
"""A model is not usable if its translations together are this many times longer or shorter than the
references."""

FEW = 100
"""A validation set of fewer sentences tells little."""

_DIFFERENT = 10
"""The number of different sources from which equal translations show that a model ignores them."""

_USABLE, _GIST, _UNUSABLE = (
    "Usable for text like the validation set",
    "Usable only for the gist of text like the validation set",
    "Hardly usable yet",
)
_USES = (
    (40.0, _USABLE, "a good draft, to be read once by a person"),
    (30.0, _USABLE, "mostly understandable, with errors in details"),
    (20.0, _GIST, "the topic is clear, but many sentences have serious errors"),
    (10.0, _UNUSABLE, "a rough idea of the topic; most sentences have serious errors"),
    (0.0, _UNUSABLE, "most sentences are wrong"),
)
"""The use of translations, by the least BLEU. The bands are those of Google's documentation of
AutoML Translation (https://cloud.google.com/translate/docs/advanced/automl-evaluate). They are a
rule of thumb, because BLEU depends on the languages and the text."""

_USABLE_EXACT = 50.0
"""The least percentage of short translations that are right, if they are usable."""


class Sample(NamedTuple):
    """An example from the validation set: input, output of the model, and expected output."""

    input: str
    output: str
    expected: str
    title: str = ""
    """The place of the sample among all, such as `worst of 1,014`, or an empty string."""


class Nouns(NamedTuple):
    """The nouns for input and output of a model in messages."""

    input: str = "sentence"
    output: str = "translation"


TRANSLATIONS = Nouns()
"""The nouns of translation."""


@dataclass(frozen=True)
class Findings:
    """Findings about the model at the end of a run."""

    scores: list[BundleScore]
    """The scores on the validation set that the bundle records."""
    faults: list[str] = field(default_factory=list)
    """Clauses that say why the model is not usable yet, if it is not."""
    labels: tuple[str, str, str] = ("input", "output", "expected")
    """The names of the parts of a sample."""
    samples: list[Sample] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Sentences for people: what the model is good for, its signs, and what would make a better
    one."""
    is_usable: bool = True
    """False if a translation or captioning model has faults, or if translations give the gist at
    most. True for all models of other tasks, which have only `faults`."""


_PLACES = {"lower quartile": 0.25, "upper quartile": 0.75, "median": 0.5, "best": 1.0, "worst": 0.0}
"""The samples of a validation set, by their place among all translations from the worst to the
best. In a small set, several places are one translation, which has the last name."""


def translation_samples(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> list[Sample]:
    """Return the worst, the median and the best translation, and those between them, by chrF2."""
    scores = sentence_chrf(outputs, references)
    order = np.argsort(scores, kind="stable")
    named = {round(share * (len(order) - 1)): name for name, share in _PLACES.items()}
    return [
        Sample(
            sources[row], outputs[row], references[row],
            f"{name} of {len(order):,} by chrF2 ({scores[row]:.1f})",
        )
        for name, row in ((named[place], int(order[place])) for place in sorted(named))
    ]  # fmt: skip


def translation_faults(
    bleu: float,
    sources: Sequence[str],
    outputs: Sequence[str],
    references: Sequence[str],
    nouns: Nouns = TRANSLATIONS,
) -> list[str]:
    """Return clauses that say why translations are unusable, or an empty list."""
    faults = []
    if round(bleu, 1) < LOW_BLEU and _exact(sources, outputs, references) < LOW_EXACT:
        faults.append(f"BLEU {bleu:.1f} is below {LOW_BLEU:g}")
    signs, count = _Signs.of(sources, outputs, references), len(outputs)
    least = max(1.0, _SHARE * count)
    if (wrong := sum(map(_is_bad, sources, outputs, references))) >= least:
        faults.append(f"{wrong:,} of {count:,} {nouns.output}s are bad ({signs.bad})")
    if signs.empty < least and not 1 / _LENGTH_RATIO <= signs.length <= _LENGTH_RATIO:
        faults.append(f"{nouns.output}s have {signs.length:.2f} times the length of the references")
    rows = zip(sources, outputs, references, strict=True)
    full = [(source, output.strip(), wanted) for source, output, wanted in rows if output.strip()]
    given, made, expected = (len({row[part] for row in full}) for part in range(3))
    # One output for all inputs is no translation, even if the references are all the same.
    usual = expected if made > 1 else given
    if min(given, usual) >= _DIFFERENT and made < min(given, usual) / 2:
        alike = counted(made, f"different {nouns.output}")
        faults.append(f"{given:,} different {nouns.input}s have only {alike}")
    return faults


class Remarks(NamedTuple):
    """Remarks on translations without faults."""

    sentences: list[str]
    """They say what the translations are good for, and count their signs."""
    is_usable: bool
    """True if the translations are good for more than their gist."""


def translation_remarks(
    bleu: CorpusScore, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> Remarks:
    """Return remarks on what translations without faults are good for, and on their signs."""
    signs, count = _Signs.of(sources, outputs, references), len(outputs)
    shown = round(bleu.value, 1)  # the limits are those of the figure that people see
    usable, use = next(each[1:] for each in _USES if shown >= each[0])
    exact = _exact(sources, outputs, references)
    if shown < LOW_BLEU and exact >= LOW_EXACT:
        use = f"{exact:.0f} % of translations equal their reference; they are too short for BLEU"
        usable = _USABLE if exact >= _USABLE_EXACT else _UNUSABLE
    sentences = [
        f"{usable}: {use} (BLEU {shown:.1f}).",
        f"Translations have {signs.length:.2f} times the length of the references.",
        f"Of {counted(count, 'translation')}: {signs.bad}, without a number of the source "
        f"{signs.lost:,} (references {signs.lost_in_references:,}).",
    ]
    return Remarks(sentences, usable == _USABLE)


def translation_findings(
    scores: Sequence[CorpusScore],
    sources: Sequence[str],
    outputs: Sequence[str],
    references: Sequence[str],
    labels: tuple[str, str, str] = ("source", "output", "reference"),
    nouns: Nouns = TRANSLATIONS,
) -> Findings:
    """Return the findings about translations of a validation set."""
    bleu, texts = scores[0], (sources, outputs, references)
    faults = translation_faults(bleu.value, *texts, nouns)
    remarks = Remarks([], False) if faults else translation_remarks(bleu, *texts)
    return Findings(
        [BundleScore.of(score, "validation") for score in scores],
        faults,
        labels,
        translation_samples(*texts),
        remarks.sentences,
        is_usable=remarks.is_usable,
    )


def _is_bad(source: str, output: str, reference: str) -> bool:
    """Return whether an output is empty, or loops or copies its source unlike its reference."""
    return (
        not output.strip()
        or (repeats_itself(output) and not repeats_itself(reference))
        or (is_copy(source, output) and not is_copy(source, reference))
    )


class _Signs(NamedTuple):
    """Counts over a validation set, of translations and of references."""

    empty: int

    length: float
    """The characters of the translations, divided by those of the references."""
    looping: int
    looping_references: int
    copies: int
    copied_references: int
    lost: int
    """The number of translations that lack a number of their source."""
    lost_in_references: int

    @classmethod
    def of(
        cls, sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
    ) -> "_Signs":
        return cls(
            sum(not output.strip() for output in outputs),
            sum(map(len, outputs)) / max(1, sum(map(len, references))),
            sum(map(repeats_itself, outputs)),
            sum(map(repeats_itself, references)),
            sum(map(is_copy, sources, outputs)),
            sum(map(is_copy, sources, references)),
            sum(map(loses_number, sources, outputs)),
            sum(map(loses_number, sources, references)),
        )

    @property
    def bad(self) -> str:
        """The counts of bad translations in words."""
        return (
            f"with repetition {self.looping:,} (references {self.looping_references:,}), copied "
            f"from the source {self.copies:,} (references {self.copied_references:,}), empty "
            f"{self.empty:,}"
        )


def _exact(sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return the percentage of outputs that equal their reference, if most references are short.

    References that are their source do not count: any copy would equal them.
    """
    short = sum(len(split_words(wanted)) < _SHORT for wanted in references)
    if 2 * short <= len(references):
        return 0.0
    hits = sum(
        text == wanted != source
        for source, text, wanted in zip(sources, outputs, references, strict=True)
        if text
    )
    return 100 * hits / len(outputs)


def frequency_faults(nll: float, training: np.ndarray, valid: np.ndarray, size: int) -> list[str]:
    """Return a clause if a model predicts text hardly better than token frequencies do."""
    counts = np.bincount(training, minlength=size) + 1.0
    guess = float(-np.log(counts[valid[1:]] / counts.sum()).mean())
    if nll < 0.95 * guess:
        return []
    return [
        f"its loss of {nll:.2f} nats per token is not clearly below {guess:.2f}, the loss of "
        "predicting by token frequencies"
    ]
