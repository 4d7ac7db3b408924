"""The search settings that travel with an export.

CTranslate2 and Hugging Face divide a log-probability by length^p. crosshead divides by
((k + length) / (k + 1))^alpha, by default with k = 5 (Wu et al. 2016, section 7, Eq. 14). Both
forms favour longer outputs, but no p equals an alpha then. So p = 0.8 alpha is written, which is
close at usual lengths, unless validation data show that another p is clearly nearer. With k = 0, as
imported models have it, both forms are one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crosshead.addons.interop.base import Foreign, ForeignSearch
from crosshead.addons.interop.verify import longest_output, shown
from crosshead.bundle.text_bundle import TextBundle
from crosshead.caller import option
from crosshead.errors import ConfigError
from crosshead.evaluation.translations import corpus_scores
from crosshead.tasks.translation.translator import Translator

PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The exponents that are tried on validation data, besides that of `usual_search`."""

FEWEST_LINES, PERCENT = 3, 2
"""Another exponent is taken if it gives crosshead's translation for this many lines more, and for
more than this share of all lines. One or two unusual lines decide nothing then."""

USUAL_LENGTH = 20
"""The number of tokens at which both penalties have the same slope in log length, without
validation data."""


@dataclass(frozen=True)
class ChosenSearch:
    """The search settings of an export, and what they change.

    Attributes:
        search: The settings.
        pairs: The number of validation pairs of the choice; 0 without validation data.
        identical: The number of these pairs with crosshead's translation.
        own_bleu: BLEU of crosshead with the bundle's search; None without validation data.
        foreign_bleu: BLEU of the export with these settings; None without validation data.
    """

    search: ForeignSearch
    pairs: int = 0
    identical: int = 0
    own_bleu: float | None = None
    foreign_bleu: float | None = None

    def __str__(self) -> str:
        """Return the settings as a clause."""
        if self.search.sample:
            return (
                f"samples, temperature {self.search.temperature:g}, top-k {self.search.top_k}, "
                f"top-p {self.search.top_p:g}"
            )
        settings = "greedy search"
        if self.search.beam > 1:
            penalty = self.search.length_penalty
            settings = f"beam {self.search.beam}, length penalty {penalty:g} (length^p)"
        if self.own_bleu is None or self.foreign_bleu is None:
            return settings
        return (
            f"{settings}; {self.identical} of {self.pairs} validation lines as by "
            f"crosshead, BLEU {self.foreign_bleu:.2f}, crosshead {self.own_bleu:.2f} "
            f"({self.foreign_bleu - self.own_bleu:+.2f})"
        )


def usual_search(bundle: TextBundle) -> ForeignSearch:
    """Return the settings nearest to a bundle's, without validation data.

    At `USUAL_LENGTH`, length^p has the slope of ((k + length) / (k + 1))^alpha in log length. For
    k = 0, as imported models have it, p is alpha.
    """
    decode = bundle.config.decode
    exponent = decode.length_penalty
    if decode.length_offset:
        exponent = round(exponent * USUAL_LENGTH / (decode.length_offset + USUAL_LENGTH), 2)
    return ForeignSearch(
        beam=decode.beam,
        length_penalty=exponent,
        max_length=longest_output(bundle),
        sample=decode.sample,
        temperature=decode.temperature,
        top_k=decode.top_k,
        top_p=decode.top_p,
        exact=decode.stop == "exact",
    )


def check_references(bundle: TextBundle, references: Sequence[str] | None) -> None:
    """Check that translations are given for a translation model only."""
    if references is not None and bundle.config.model.vocabularies == 1:
        raise ConfigError(
            f"{option('valid-target')} is for translation models; a language model is compared on "
            f"the lines of {option('valid-source')} alone"
        )


def choose_search(
    bundle: TextBundle,
    foreign: Foreign,
    sources: Sequence[str],
    references: Sequence[str],
    fixed: ForeignSearch | None = None,
) -> ChosenSearch:
    """Return the settings for an export, by the translations that are crosshead's.

    The exponent of `usual_search` stays unless others are clearly better (`FEWEST_LINES`,
    `PERCENT`). Of those, the best is taken, and of equal ones the one nearest to it.
    """
    usual = fixed or usual_search(bundle)

    def bleu(translations: list[str]) -> float:
        [score] = corpus_scores(translations, references, ["bleu"])
        return score.value

    translator = Translator(bundle)
    languages = bundle.config.target_languages
    own = (translator.into(languages[0]) if languages else translator)(sources)
    # A single hypothesis has nothing to be compared with: the penalty changes nothing. With k = 0,
    # both libraries have the same penalty.
    is_exact = bundle.config.decode.length_offset == 0
    choice = fixed is None and usual.beam > 1 and not is_exact
    tried = {}
    for penalty in dict.fromkeys((usual.length_penalty, *(PENALTIES if choice else ()))):
        search = replace(usual, length_penalty=penalty)
        texts = foreign.translate(sources, search)
        same = sum(shown(text) == shown(right) for text, right in zip(texts, own, strict=True))
        tried[penalty] = (same, search, texts)

    def rank(penalty: float) -> tuple[int, float]:
        return tried[penalty][0], -abs(penalty - usual.length_penalty)

    best = max(tried, key=rank)
    gain = tried[best][0] - tried[usual.length_penalty][0]
    is_better = gain >= FEWEST_LINES and 100 * gain > PERCENT * len(sources)
    same, search, texts = tried[best if is_better else usual.length_penalty]
    return ChosenSearch(search, len(sources), same, bleu(own), bleu(texts))
