"""The search settings that travel with an export.

CTranslate2 and Hugging Face divide a log-probability by length^p. crosshead divides by
((k + length) / (k + 1))^alpha, by default with k = 5 (Wu et al. 2016, section 7, Eq. 14). Both
forms favour longer outputs, but no p equals an alpha then. So the nearest p is chosen on validation
data. With k = 0, as imported models have it, both forms are one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from crosshead.bundle.text_bundle import TextBundle
from crosshead.evaluation.translations import corpus_scores
from crosshead.interop.base import Foreign, ForeignSearch
from crosshead.interop.verify import longest_output
from crosshead.pipelines.translator import Translator

PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The exponents that are tried on validation data."""

USUAL_LENGTH = 20
"""The number of tokens at which both forms of the penalty grow alike, without validation data."""

MOST_PAIRS = 200
"""The largest number of validation pairs that are translated with each exponent."""


@dataclass(frozen=True)
class ChosenSearch:
    """The search settings of an export, and what they change.

    Attributes:
        search: The settings.
        pairs: The number of validation pairs of the choice; 0 without validation data.
        own_bleu: BLEU of crosshead with the bundle's search; None without validation data.
        foreign_bleu: BLEU of the export with these settings; None without validation data.
    """

    search: ForeignSearch
    pairs: int = 0
    own_bleu: float | None = None
    foreign_bleu: float | None = None

    def __str__(self) -> str:
        """Return the settings as a clause."""
        if self.search.sample:
            return (
                f"samples, temperature {self.search.temperature:g}, top-k {self.search.top_k}, "
                f"top-p {self.search.top_p:g}"
            )
        settings = f"beam {self.search.beam}, length penalty {self.search.length_penalty:g}"
        if self.own_bleu is None or self.foreign_bleu is None:
            return f"{settings} (length^p; no validation translations to choose p on)"
        return (
            f"{settings} (length^p); BLEU on {self.pairs} validation lines "
            f"{self.foreign_bleu:.2f}, crosshead {self.own_bleu:.2f} "
            f"({self.foreign_bleu - self.own_bleu:+.2f})"
        )


def usual_search(bundle: TextBundle) -> ForeignSearch:
    """Return the settings nearest to a bundle's, without validation data.

    The exponent p gives length^p the relative growth of ((k + length) / (k + 1))^alpha at
    `USUAL_LENGTH`. For k = 0, as imported models have it, p is alpha.

    Args:
        bundle: The bundle.
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
    )


def choose_search(
    bundle: TextBundle,
    foreign: Foreign,
    sources: Sequence[str],
    references: Sequence[str],
    fixed: ForeignSearch | None = None,
) -> ChosenSearch:
    """Return the settings whose translations score nearest to crosshead's on validation data.

    Args:
        bundle: The bundle.
        foreign: The export.
        sources: Validation lines. The first `MOST_PAIRS` are translated.
        references: Their translations.
        fixed: The settings if there is no choice; their BLEU is measured.
    """
    sources, references = sources[:MOST_PAIRS], references[:MOST_PAIRS]
    usual = fixed or usual_search(bundle)

    def bleu(translations: list[str]) -> float:
        [score] = corpus_scores(translations, references, ["bleu"])
        return score.value

    translator = Translator(bundle)
    languages = bundle.config.target_languages
    own = bleu((translator.into(languages[0]) if languages else translator)(sources))
    # A single hypothesis has nothing to be compared with: the penalty changes nothing. With k = 0,
    # both libraries have the same penalty.
    is_exact = bundle.config.decode.length_offset == 0
    choice = fixed is None and usual.beam > 1 and not is_exact
    penalties = PENALTIES if choice else (usual.length_penalty,)
    found = []
    for penalty in penalties:
        search = ForeignSearch(usual.beam, penalty, usual.max_length)
        score = bleu(foreign.translate(sources, search))
        found.append((abs(score - own), abs(penalty - usual.length_penalty), score, search))
    _, _, score, search = min(found, key=lambda each: each[:2])
    return ChosenSearch(search, len(sources), own, score)
