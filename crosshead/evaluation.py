"""Evaluation: BLEU, chrF and TER as sacreBLEU computes them, perplexity, errors, accuracy."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from crosshead import __version__
from crosshead.config import nearest, shown
from crosshead.data.labelled_images import LabelledImages
from crosshead.data.series import SeriesWindows
from crosshead.data.text.tokenizers import Tokenizer
from crosshead.errors import ConfigError, DataError
from crosshead.pipelines.forecaster import SeriesForecaster
from crosshead.pipelines.image_classifier import ImageClassifier
from crosshead.pipelines.mask_filler import ScoredMasks
from crosshead.pipelines.text_generator import ScoredText
from crosshead.pipelines.translator import ScoredTranslation, Translator

METRICS = ("bleu", "chrf", "ter")
"""The metrics that compare translations with a reference, computed by sacreBLEU (Post 2018)."""

RESAMPLES, SEED = 1000, 12345
"""The number of bootstrap resamples, and their seed, which is sacreBLEU's default. The signature
contains both."""


@dataclass(frozen=True)
class CorpusScore:
    """A score over a test set, with its 95 % bootstrap interval and its signature.

    The signature of translation metrics is sacreBLEU's. Other metrics have a signature of the same
    form.
    """

    metric: str
    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class ComparedScore:
    """The score of one of several systems.

    `p_value` is the probability of a difference to the baseline at least this large by chance. The
    baseline, which is the first system, has None.
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
    """Score translations against one reference each.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU in sacreBLEU, by default 13a; `none` for tokenised text,
            `zh`, `ja-mecab`, ...

    Returns:
        The scores, in the order of `metrics`.

    Raises:
        ConfigError: If a metric or the tokenisation is unknown.
        DataError: If the sets are empty or differ in length.
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
        ConfigError: If a metric or the tokenisation is unknown, or `translator` is no Translator.
        DataError: If the sets are no lists, are empty or differ in length, or if a pair is too long
            for perplexity.
    """
    if not isinstance(translator, Translator):
        raise ConfigError(
            "translator: expected a Translator, which crosshead.load returns, found "
            f"{type(translator).__name__}"
        )
    _check_lists({"sources": sources, "references": references})
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
    """Return BLEU with tokenisation 13a and without an interval, which is fast.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
    """
    return float(BLEU().corpus_score(list(hypotheses), [list(references)]).score)


def compare(
    systems: dict[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
) -> list[ComparedScore]:
    """Compare the translations of several systems by paired bootstrap.

    Args:
        systems: The translations of each system by its name. The first system is the baseline.
        references: The reference of each translation.
        metrics: Names from `METRICS`.
        tokenize: The tokenisation of BLEU, as for `corpus_scores`.

    Returns:
        The scores, metric by metric, in the order of the systems.

    Raises:
        ConfigError: If there are fewer than two systems, or a metric or the tokenisation is
            unknown.
        DataError: If the sets are empty or differ in length.

    Reference:
        Koehn 2004.
    """
    if len(systems) < 2:
        raise ConfigError(f"expected at least two systems to compare, found {len(systems)}")
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
    """Return the perplexity of translations: exp of the mean negative log-probability of a piece.

    Ends of sentences are counted. Perplexities are comparable only between models with the same
    target tokenizer, which the signature describes. The interval is a bootstrap over sentences.

    Args:
        scored: The scored translations.
        tokenizer: The target tokenizer.

    Raises:
        DataError: If there is no translation.
    """
    if not scored:
        raise DataError("there is no translation to score: the test set is empty")
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
    """Return the perplexity of a token, and the bits per character, of a text.

    The intervals are bootstraps over the scored windows. Perplexity is comparable between models
    with the same tokenizer. Bits per character are also comparable between tokenizers, but only if
    no token is unknown, which the signature shows: an unknown word costs only the prediction of the
    token for unknown words, however long the word is.

    Raises:
        DataError: If nothing was scored.
    """
    if not text.windows:
        raise DataError("there is no text to score: it needs at least two tokens")
    signature = _signature(f"{text.how}|unknown:{text.unknown}", text.tokenizer)
    return [
        _window_score("perplexity", text.windows, _perplexity, f"per:token|{signature}"),
        _window_score("bits per character", text.windows, _bits, f"per:character|{signature}"),
    ]


def bits_per_character(nats: float, characters: int) -> float:
    """Return the bits per character of a text.

    Args:
        nats: The negative log-likelihood of the text, in nats.
        characters: The number of its characters.
    """
    return nats / math.log(2) / max(1, characters)


def masked_scores(text: ScoredMasks) -> list[CorpusScore]:
    """Return the perplexity of a masked token, and the accuracy of their prediction in per cent.

    The intervals are bootstraps over windows. Neither score is comparable with a score of an
    autoregressive model.

    Raises:
        DataError: If nothing was scored.
    """
    if not text.windows:
        raise DataError("there is no text to score: it needs at least two tokens")
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
    """Return a score with its interval, computed from sums over windows."""
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
    """Return the exponential, or infinity if it does not fit a float."""
    return math.exp(value) if value < 700 else math.inf


@dataclass(frozen=True)
class ForecastScore:
    """An error of forecasts, or the coverage of their interval."""

    method: str
    """The model, or an untrained baseline."""
    metric: str
    value: float
    signature: str


def forecast_scores(
    forecaster: SeriesForecaster,
    test: SeriesWindows,
    *,
    original: bool = False,
    check: Callable[[], None] = lambda: None,
) -> list[ForecastScore]:
    """Score the forecasts of all windows, beside those of two untrained baselines.

    The baselines repeat the last value, or the last season (seasonal naive). Each method has the
    mean squared error (MSE), the mean absolute error (MAE), and the MAE divided by that of the
    seasonal naive forecast, one season ahead, in the training period, averaged over columns (MASE).
    A model with quantiles also has its pinball loss and the
    coverage of its widest symmetric interval. Values that were missing are not scored.

    Args:
        forecaster: The model.
        test: The windows.
        original: True for errors in the units of the columns. By default values are divided by
            their deviations in the training period.
        check: Called before each batch.

    Returns:
        The scores of the model, then of the baselines, then of the quantiles.

    Raises:
        DataError: If there is no window.

    Reference:
        Hyndman and Koehler 2006, Eq. 4 (MASE).
    """
    if not len(test.starts):
        raise DataError("there is no window to score: the series is too short")
    config, quantiles = forecaster.bundle.config, np.array(forecaster.quantiles)
    season = min(config.season, config.context)
    methods = {"model": _Errors(), "last value": _Errors()}
    seasonal = f"seasonal naive ({season})"
    if 1 < season == config.season:
        methods[seasonal] = _Errors()
    pinball, inside, low = _Errors(), _Errors(), forecaster.interval
    unit = np.array(config.deviations) if original else np.ones(len(config.target))
    for batch, found in forecaster.predictions(test, check):
        context, target = (
            each.numpy().astype(np.float64) for each in (batch.context, batch.target)
        )
        counted = batch.observed.numpy()
        made = {"model": found[..., forecaster.median], "last value": context[:, -1:]}
        if seasonal in methods:
            repeated = np.arange(test.horizon) % season - season
            made[seasonal] = context[:, repeated]
        for name, values in made.items():
            methods[name].add((values - target) * unit, counted)
        if len(quantiles):
            error = (target[..., None] - found) * unit[:, None]
            loss = np.maximum(quantiles * error, (quantiles - 1) * error).mean(axis=-1)
            pinball.add(loss, counted)
        if low is not None:
            within = (found[..., low] <= target) & (target <= found[..., -1 - low])
            inside.add(within.astype(np.float64), counted)
    signature = (
        f"windows:{len(test.starts)}|steps:{test.horizon}|columns:{len(unit)}|"
        f"units:{'original' if original else 'deviations'}|version:crosshead-{__version__}"
    )
    naive = np.array(config.naive_errors) * unit
    scores = [
        ForecastScore(name, metric, value, signature)
        for name, errors in methods.items()
        for metric, value in errors.scores(naive).items()
    ]
    if len(quantiles):
        scores.append(ForecastScore("model", "pinball loss", pinball.mean(), signature))
    if low is not None:
        share = round(100 * (quantiles[-1 - low] - quantiles[low]))
        name = f"coverage of the {share} % interval, %"
        scores.append(ForecastScore("model", name, 100 * inside.mean(), signature))
    return scores


class _Errors:
    """Sums of errors by column."""

    def __init__(self) -> None:
        self.squared: Any = 0.0
        self.absolute: Any = 0.0
        self.count: Any = 0

    def add(self, errors: np.ndarray, counted: np.ndarray) -> None:
        """Add errors, "B T C", where they count."""
        errors = np.where(counted, errors, 0.0)
        self.squared = self.squared + (errors**2).sum(axis=(0, 1))
        self.absolute = self.absolute + abs(errors).sum(axis=(0, 1))
        self.count = self.count + counted.sum(axis=(0, 1))

    def mean(self) -> float:
        """Return the mean absolute error of all values."""
        return float(self.absolute.sum() / self.count.sum())

    def scores(self, naive: np.ndarray) -> dict[str, float]:
        """Return the errors; `naive` is the seasonal naive error of each column in training."""
        scored = (self.count > 0) & (naive > 0)
        found = {"MSE": float(self.squared.sum() / self.count.sum()), "MAE": self.mean()}
        if scored.any():
            by_column = self.absolute[scored] / self.count[scored]
            found["MASE"] = float((by_column / naive[scored]).mean())
        return found


@dataclass(frozen=True)
class ClassScores:
    """The scores of a classifier, and its confusions."""

    scores: list[CorpusScore]
    """The accuracy in per cent, and with more than five classes the accuracy of the best five."""
    classes: list[str]
    counts: np.ndarray
    """The number of images of each class (rows) by predicted class (columns), "K K"."""

    def confused(self) -> list[tuple[str, str, int]]:
        """Return class, wrong prediction and number of images, the most frequent first."""
        wrong = self.counts * (1 - np.eye(len(self.classes), dtype=np.int64))
        order = np.argsort(-wrong, axis=None, kind="stable")[: np.count_nonzero(wrong)]
        pairs = (divmod(int(place), len(self.classes)) for place in order)
        return [(self.classes[a], self.classes[b], int(wrong[a, b])) for a, b in pairs]


def classification_scores(
    classifier: ImageClassifier,
    images: LabelledImages,
    split: str,
    *,
    check: Callable[[], None] = lambda: None,
) -> ClassScores:
    """Score the predictions of a classifier. The intervals are Wilson's, with 95 %.

    Args:
        classifier: The model.
        images: The images, with classes of the model.
        split: The name of the images, for the signature.
        check: Called before each batch.

    Returns:
        The accuracy, and the numbers of images by class and prediction.

    Raises:
        DataError: If there are no images.
    """
    if not len(images):
        raise DataError("there are no images to score")
    found = np.stack(list(classifier.probabilities(images.pixels, check)))
    kinds = len(classifier.classes)
    counts = np.zeros((kinds, kinds), np.int64)
    np.add.at(counts, (images.labels, found.argmax(axis=1)), 1)
    best = np.argsort(-found, axis=1, kind="stable")[:, :5] == images.labels[:, None]
    size = images.pixels.shape[1]
    signature = (
        f"images:{len(images)}|split:{split}|classes:{kinds}|pixels:{size}|interval:wilson|"
        f"version:crosshead-{__version__}"
    )
    hits = {"accuracy, %": int(best[:, 0].sum())}
    if kinds > 5:
        hits["top-5 accuracy, %"] = int(best.sum())
    scores = [
        CorpusScore(name, 100 * number / len(images), *_wilson(number, len(images)), signature)
        for name, number in hits.items()
    ]
    return ClassScores(scores, classifier.classes, counts)


def _wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share in per cent (Wilson 1927)."""
    z, share = 1.959964, hits / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2) / (1 + z * z / total)
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return the share, from 0 to 1, of translations that equal their reference exactly.

    Args:
        hypotheses: The translations.
        references: The reference of each translation.
    """
    _check_sizes({"hypotheses": hypotheses}, references)
    hits = sum(found == wanted for found, wanted in zip(hypotheses, references, strict=True))
    return hits / len(references)


def _p_value(result: Any, baseline: Any) -> float | None:
    """Return the p-value of a comparison, which is 1 for equal scores.

    sacreBLEU counts only differences strictly larger than the observed one, which is wrong for a
    difference of zero.
    """
    if result is not baseline and result.score == baseline.score:
        return 1.0
    p_value: float | None = result.p_value
    return p_value


class _Floats:
    """A metric whose scores are always plain floats, as BLEU's are.

    Scores of chrF and TER are NumPy numbers unless nothing matches or there is nothing to match.
    sacreBLEU's bootstrap cannot add both types.
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
        # Some tokenisations of sacreBLEU need another package or a download.
        reason = " ".join(str(error).split())
        raise ConfigError(f"tokenisation {tokenize!r} cannot be used here: {reason}") from None


def _check_lists(given: dict[str, Any]) -> None:
    """Raise `DataError` for a text, which is a sequence of characters, or the name of a file."""
    for name, texts in given.items():
        if isinstance(texts, str | os.PathLike):
            raise DataError(
                f"{name}: expected a list of sentences, found {shown(texts)}; read the lines of a "
                "file into a list first"
            )


def _check_sizes(systems: dict[str, Sequence[str]], references: Sequence[str]) -> None:
    _check_lists({**systems, "references": references})
    if not references:
        raise DataError("no references: the test set is empty")
    for name, hypotheses in systems.items():
        if len(hypotheses) != len(references):
            raise DataError(
                f"expected a reference for each translation, found {len(hypotheses)} translations "
                f"({name}) and {len(references)} references"
            )
