"""Scores of a translation model on a test set."""

from collections.abc import Callable, Sequence

from crosshead.errors import ConfigError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.sacrebleu_metrics import check_lists, corpus_scores
from crosshead.tasks.likelihood import perplexity
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.tasks.translation.translator import Translator


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    metrics: Sequence[str] = ("bleu", "chrf"),
    tokenize: str | None = None,
    *,
    translate: Callable[[Sequence[str]], list[str]] | None = None,
    score: Callable[[Sequence[str], Sequence[str]], list[ScoredTranslation]] | None = None,
) -> list[CorpusScore]:
    """Translate a test set and score the translations.

    Args:
        translator: The model.
        sources: Source sentences.
        references: Their translations, one each.
        metrics: Names out of `METRICS`, and `perplexity`.
        tokenize: The tokenisation of BLEU, as for `corpus_scores`.
        translate: Function from sources to translations; by default the translator itself, with
            the search settings of its bundle.
        score: Function that scores pairs for perplexity; by default `translator.score`.

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
    check_lists({"sources": sources, "references": references})
    texts = [name for name in metrics if name != "perplexity"]
    found: dict[str, CorpusScore] = {}
    if "perplexity" in metrics:  # first, because it refuses long pairs before the long work
        scored = (score or translator.score)(sources, references)
        found["perplexity"] = perplexity(scored, translator.bundle.target_tokenizer)
    if texts:
        translations = (translate or translator)(sources)
        found |= zip(texts, corpus_scores(translations, references, texts, tokenize), strict=True)
    return [found[name] for name in metrics]
