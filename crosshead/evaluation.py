"""Evaluation: BLEU, chrF and TER as sacreBLEU computes them, and perplexity."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from crosshead import __version__
from crosshead.config import nearest
from crosshead.data.text.tokenizers import Tokenizer
from crosshead.errors import ConfigError, DataError
from crosshead.pipelines.mask_filler import ScoredMasks
from crosshead.pipelines.text_generator import ScoredText
from crosshead.pipelines.translator import ScoredTranslation, Translator

METRICS = ("bleu", "chrf", "ter")
"""The metrics that compare translations with a reference (Post 2018 says why through sacreBLEU)."""

RESAMPLES, SEED = 1000, 12345
"""Number of bootstrap resamples, and their seed, which is sacreBLEU's own. The signature holds
both."""


@dataclass(frozen=True)
class CorpusScore:
    """A score over a test set, with its bootstrap interval of 95 % and its signature.

    The signature is sacreBLEU's, or for perplexity one of our own in the same form.
    """

    metric: str
    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class ComparedScore:
    """One system's score among several.

    `p_value` is how likely a difference to the baseline at least this large is by chance alone;
    the baseline, the first system, has none.
    """

    system: str
    metric: str
    value: float
    low: float
    high: float
    p_value: float | None
    signature: str


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[CorpusScore]:
    """Score translations against one reference each, by each of `metrics` (of `METRICS`).

    `tokenize` is sacreBLEU's tokenisation for BLEU (13a unless said otherwise; `none` for text that
    is tokenised already, `zh`, `ja-mecab`, ...). Raises `ConfigError` for an unknown metric or
    tokenisation, and `DataError` for sets that are empty or differ in length.
    """
    _check_sizes({"hypotheses": hypotheses}, references)
    scores = []
    for name in metrics:
        metric = _metric(name, tokenize)
        result = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=RESAMPLES)
        low, high = result._mean - result._ci, result._mean + result._ci
        scores.append(
            CorpusScore(result.name, result.score, low, high, str(metric.get_signature()))
        )
    return scores


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
    *,
    translate: Callable[[Sequence[str]], list[str]] | None = None,
) -> list[CorpusScore]:
    """Translate a test set and score the translations.

    Args:
        translator: The model.
        sources: Source sentences.
        references: Their translations, one each.
        metrics: Names out of `METRICS`, and `perplexity`.
        tokenize: sacreBLEU's tokenisation for BLEU; by default 13a.
        translate: Function from sources to translations; by default the translator itself, with
            the search settings of its bundle.

    Returns:
        A score for each metric, in order.

    Raises:
        ConfigError: If a metric or the tokenisation is unknown.
        DataError: If the sets are empty or differ in length, or if a pair is too long for
            perplexity.
    """
    texts = [name for name in metrics if name != "perplexity"]
    found: dict[str, CorpusScore] = {}
    if "perplexity" in metrics:  # first, because it refuses long pairs before the long work
        scored = translator.score(sources, references)
        found["perplexity"] = perplexity(scored, translator.bundle.target_tokenizer)
    if texts:
        translations = (translate or translator)(sources)
        found |= zip(texts, corpus_scores(translations, references, texts, tokenize), strict=True)
    return [found[name] for name in metrics]


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU alone (13a, no interval): quick enough to look at many times on the way."""
    return float(BLEU().corpus_score(list(hypotheses), [list(references)]).score)


def compare(
    systems: dict[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[ComparedScore]:
    """Compare the translations of several systems by paired bootstrap (Koehn 2004).

    The first system is the baseline. The scores come metric by metric, in the order of the systems.
    Raises `ConfigError` for fewer than two systems, and what `corpus_scores` raises.
    """
    if len(systems) < 2:
        raise ConfigError(f"expected two systems or more to compare, found {len(systems)}")
    _check_sizes(systems, references)
    test: Any = PairedTest(
        [(name, list(hypotheses)) for name, hypotheses in systems.items()],
        {name: _metric(name, tokenize) for name in metrics},
        references=[list(references)],
        test_type="bs",
        n_samples=RESAMPLES,
    )
    signatures, columns = test()
    return [
        ComparedScore(
            system=system,
            metric=metric,
            value=result.score,
            low=result.mean - result.ci,
            high=result.mean + result.ci,
            p_value=_p_value(result, columns[metric][0]),
            signature=str(signatures[metric]),
        )
        for metric in signatures
        for system, result in zip(systems, columns[metric], strict=True)
    ]


def perplexity(scored: Sequence[ScoredTranslation], tokenizer: Tokenizer) -> CorpusScore:
    """The exponential of the mean negative log-probability of a piece, ends of sentences too.

    Comparable between models with the same target `tokenizer` only, which the signature describes.
    The interval is that of the bootstrap over sentences. Raises `DataError` for no translation.
    """
    if not scored:
        raise DataError("no translation to take the perplexity of: the test set is empty")
    losses = np.array([-each.log_prob for each in scored])
    pieces = np.array([len(each.piece_log_probs) for each in scored])
    rng = np.random.default_rng(SEED)
    resamples = (rng.integers(len(scored), size=len(scored)) for _ in range(RESAMPLES))
    means = [losses[rows].sum() / pieces[rows].sum() for rows in resamples]
    low, high = np.percentile(means, [2.5, 97.5])
    signature = (
        f"nrefs:1|bs:{RESAMPLES}|seed:{SEED}|per:piece|eos:yes|tok:{tokenizer.kind}|"
        f"vocab:{tokenizer.vocab_size}|version:crosshead-{__version__}"
    )
    value = math.fsum(losses) / int(pieces.sum())
    return CorpusScore("perplexity", _exp(value), _exp(low), _exp(high), signature)


def text_scores(text: ScoredText) -> list[CorpusScore]:
    """Perplexity of a token, and bits per character, of a text.

    The intervals are those of the bootstrap over the windows that it was scored in. Perplexity can
    be compared between models of one tokenizer; bits per character between tokenizers as well, but
    only where nothing is unknown, as the signature says: what a tokenizer does not know costs no
    more than to say so, a word of twenty characters as little as one. Raises `DataError` where
    nothing was scored.
    """
    if not text.windows:
        raise DataError("no text to score: a token at the least has to follow another")
    signature = _signature(f"{text.how}|unknown:{text.unknown}", text.tokenizer)
    return [
        _window_score("perplexity", text.windows, _perplexity, f"per:token|{signature}"),
        _window_score("bits per character", text.windows, _bits, f"per:character|{signature}"),
    ]


def bits_per_character(nats: float, characters: int) -> float:
    """The rate of a text of so many characters, from its negative log-likelihood in nats."""
    return nats / math.log(2) / max(1, characters)


def masked_scores(text: ScoredMasks) -> list[CorpusScore]:
    """Perplexity of a hidden token, and the share of them that were found, in per cent.

    The intervals are those of the bootstrap over windows. Neither can be compared with that of a
    model of what follows. Raises `DataError` where nothing was scored.
    """
    if not text.windows:
        raise DataError("no text to score: it needs two tokens at least")
    signature = f"per:hidden token|{_signature(text.how, text.tokenizer)}"
    return [
        _window_score("masked perplexity", text.windows, _perplexity, signature),
        _window_score("masked accuracy, %", text.windows, _accuracy, signature),
    ]


def _window_score(
    metric: str,
    windows: Sequence[tuple[float, int, int]],
    value: Callable[[Any, Any, Any], float],
    signature: str,
) -> CorpusScore:
    """The value of all windows, from the sums of their columns, with its interval."""
    columns = [np.array(column) for column in zip(*windows, strict=True)]
    rng = np.random.default_rng(SEED)
    resamples = (rng.integers(len(windows), size=len(windows)) for _ in range(RESAMPLES))
    drawn = [value(*(column[rows].sum() for column in columns)) for rows in resamples]
    low, high = map(float, np.percentile(drawn, [2.5, 97.5]))
    whole = value(math.fsum(columns[0]), *(column.sum() for column in columns[1:]))
    return CorpusScore(metric, float(whole), low, high, signature)


def _perplexity(nats: float, tokens: int, _: int) -> float:
    return _exp(nats / tokens)


def _bits(nats: float, _: int, characters: int) -> float:
    return bits_per_character(nats, characters)


def _accuracy(_: float, tokens: int, hits: int) -> float:
    return 100 * hits / tokens


def _signature(how: str, tokenizer: Tokenizer) -> str:
    return (
        f"bs:{RESAMPLES}|seed:{SEED}|{how}|tok:{tokenizer.kind}|vocab:{tokenizer.vocab_size}|"
        f"version:crosshead-{__version__}"
    )


def _exp(value: float) -> float:
    """The exponential, which is infinite where a float cannot hold it."""
    return math.exp(value) if value < 700 else math.inf


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share, from 0 to 1, of translations that are their reference, character by character."""
    _check_sizes({"hypotheses": hypotheses}, references)
    hits = sum(found == wanted for found, wanted in zip(hypotheses, references, strict=True))
    return hits / len(references)


def _p_value(result: Any, baseline: Any) -> float | None:
    """The test counts differences strictly larger than the one found, which for none is wrong."""
    if result is not baseline and result.score == baseline.score:
        return 1.0
    p_value: float | None = result.p_value
    return p_value


class _Floats:
    """Makes every score of a metric a plain float, as BLEU's are.

    Those of chrF and TER are NumPy's unless nothing matches, or there is nothing to match, and
    sacreBLEU's bootstrap cannot add the two kinds up.
    """

    def _compute_score_from_stats(self, stats: list[Any]) -> Any:
        result = super()._compute_score_from_stats(stats)  # type: ignore[misc]
        result.score = float(result.score)
        return result


class _Chrf(_Floats, CHRF): ...


class _Ter(_Floats, TER): ...


def _metric(name: str, tokenize: str | None) -> Any:
    if name == "chrf":
        return _Chrf()
    if name == "ter":
        return _Ter()
    if name != "bleu":
        raise ConfigError(f"unknown metric {name!r}; {nearest(name, list(METRICS))}")
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        known = list(BLEU.TOKENIZERS)
        raise ConfigError(f"unknown tokenisation {tokenize!r}; {nearest(tokenize, known)}")
    try:
        return BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError, OSError) as error:
        # Some of sacreBLEU's tokenisations need another package, or a download.
        reason = " ".join(str(error).split())
        raise ConfigError(f"tokenisation {tokenize!r} cannot be used here: {reason}") from None


def _check_sizes(systems: dict[str, Sequence[str]], references: Sequence[str]) -> None:
    if not references:
        raise DataError("no references: the test set is empty")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise DataError(
                f"expected a reference for each translation, found {len(hypotheses)} translations "
                f"({name}) and {len(references)} references"
            )
