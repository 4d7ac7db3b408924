"""Scores of the command line: measured on files, and shown as tables or JSON Lines."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.cli.answers import answering
from crosshead.cli.arguments import into
from crosshead.cli.search_flags import search_settings
from crosshead.cli.seen_data import say_if_seen
from crosshead.cli.terminal import json_line, note, table
from crosshead.tasks.translation.test_sets import TranslationSet
from crosshead.config import nearest
from crosshead.errors import BundleError, ConfigError, DataError, UserError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.evaluation.comparison import ComparedScore
from crosshead.tasks.likelihood import masked_scores, text_scores
from crosshead.evaluation.sacrebleu_metrics import METRICS
from crosshead.evaluation.tokenised import tokenised_warning
from crosshead.evaluation.translations import corpus_scores, evaluate
from crosshead.tasks.translation.line_translator import LONGEST_STRETCH
from crosshead.tasks.masked.mask_filler import MaskFiller
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.tasks.language.text_generator import TextGenerator
from crosshead.tasks.translation.translator import Translator
from crosshead.system.lines import LONGEST_TEXT, read_lines
from crosshead.system.progress import counted
from crosshead.tasks.loading import load, load_as

SCORES_FOLLOW = "; the scores follow"
"""The end of the line of progress when all is translated or read, because metrics take time too."""


def metric_names(text: str, tokenize: str | None, others: Sequence[str] = ()) -> list[str]:
    """Return the metrics in a comma-separated list.

    The check comes before the translation, so that a wrong name costs no time.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in METRICS and name not in others:
            known = [*METRICS, *others]
            raise ConfigError(f"--metrics: unknown metric {name!r}; {nearest(name, known)}")
    corpus_scores(["a"], ["a"], ["bleu"], tokenize)
    return names


def check_distinct(bundles: Sequence[Path]) -> None:
    """Raise `UserError` if a bundle is given twice."""
    for bundle in bundles:
        if bundles.count(bundle) > 1:
            raise UserError(f"{bundle} is given twice; name each bundle once")


def say_if_tokenised(
    references: Iterable[str], where: str, metrics: Sequence[str], tokenize: str | None
) -> None:
    """Print a warning if BLEU would be measured on tokenised references."""
    if "bleu" in metrics and tokenize != "none":
        for line in tokenised_warning(references, where):
            note(line)


def translation_evaluation(
    bundles: Sequence[Path],
    test: TranslationSet,
    to: str | None,
    metrics: Sequence[str],
    tokenize: str | None,
    flags: Mapping[str, Any],
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a translation model on a test set."""
    instead = "give --text, not --source and --reference"
    translator = into(load_as(Translator, bundles, device, threads, instead=instead), to)
    test.check(translator)
    sources, references = test.read()
    say_if_seen(bundles, test.files)
    say_if_tokenised(references, test.reference_files, metrics, tokenize)
    return evaluate(
        translator, sources, references, metrics, tokenize,
        translate=lambda lines: translated(translator, lines, flags),
        score=partial(scored_pairs, translator),
    )  # fmt: skip


def text_evaluation(
    bundle: Path,
    text: Path,
    stride: int | None,
    memory: int | None,
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a model of monolingual text on a text."""
    lines = read_lines(text, LONGEST_TEXT)
    if not any(lines):
        raise DataError(f"{text}: empty; expected text")
    model = load(bundle, device, threads)
    joined = "".join(f"{line}\n" for line in lines)
    if not isinstance(model, MaskFiller | TextGenerator):
        raise BundleError(f"{bundle} is a model that {model.does}; --text is for models of text")
    if isinstance(model, MaskFiller) and (stride is not None or memory is not None):
        raise ConfigError(
            "--stride and --memory need a language model; this is a masked language model, which "
            "reads windows of its training length: leave them out"
        )
    with answering(len(joined), "characters", SCORES_FOLLOW) as advance:
        progress = partial(advance, 0, len(joined))
        if isinstance(model, MaskFiller):
            scores = masked_scores(model.score(joined, progress))
        else:
            scores = text_scores(model.score(joined, stride, memory, progress))
        progress(1.0)
    return scores


def scored_pairs(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> list[ScoredTranslation]:
    """Return the log-probabilities of references as translations of their sources."""
    with answering(len(sources), "pairs") as advance:
        progress = partial(advance, 0, len(sources))
        return translator.score(sources, references, progress=progress)


def translated(
    translator: Translator, sources: Sequence[str], flags: Mapping[str, Any]
) -> list[str]:
    """Return the best translation of each line; flags override the bundle's search settings.

    A warning counts the lines that were passed through untranslated.
    """
    decode = search_settings(translator.bundle.config.decode, False, flags, None)
    with answering(len(sources), "lines", SCORES_FOLLOW) as advance:
        progress = partial(advance, 0, len(sources))
        found = translator.translate(sources, decode=decode, progress=progress)
        progress(1.0)
    passed = [number for number, best in enumerate(found, 1) if best[0].was_passed_through]
    if passed:
        note(
            f"warning: {counted(len(passed), 'line')} kept unchanged, not translated: more than "
            f"{LONGEST_STRETCH:,} characters without a space or punctuation (first: line "
            f"{passed[0]:,})"
        )
    return [best[0].text for best in found]


def scores_table(scores: Sequence[CorpusScore]) -> str:
    """Return a table of scores."""
    rows = [["metric", "score", "95 % interval", "signature"]]
    for each in scores:
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, f"{each.value:.2f}", interval, each.signature])
    return table(rows)


def comparison_table(scores: Sequence[ComparedScore]) -> str:
    """Return a table of compared scores, with the signatures below."""
    rows = [["metric", "system", "score", "95 % interval", "p"]]
    for each in scores:
        p_value = "" if each.p_value is None else f"{each.p_value:.4f}"
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append([each.metric, each.system, f"{each.value:.2f}", interval, p_value])
    signatures = {each.metric: each.signature for each in scores}
    lines = [f"{metric}: {signature}\n" for metric, signature in signatures.items()]
    return table(rows) + "\n" + "".join(lines)


def scores_jsonl(
    scores: Sequence[Any],
) -> str:
    """Return scores as JSON Lines; the baseline of a comparison has no `p_value`."""
    rows = [dataclasses.asdict(each) for each in scores]
    return "".join(
        json_line({key: value for key, value in row.items() if value is not None}) for row in rows
    )
