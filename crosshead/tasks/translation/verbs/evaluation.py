"""Scores of translation models on the files of the command line."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.cli.arguments import into, search_settings
from crosshead.cli.evaluation import SCORES_FOLLOW, say_if_seen, say_if_tokenised
from crosshead.cli.terminal import answering, note
from crosshead.errors import UserError
from crosshead.evaluation.bootstrap import CorpusScore
from crosshead.system.progress import counted
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.line_translator import LONGEST_STRETCH
from crosshead.tasks.translation.log_probs import ScoredTranslation
from crosshead.tasks.translation.scores import evaluate
from crosshead.tasks.translation.translator import Translator
from crosshead.tasks.translation.verbs.test_sets import TranslationSet


def check_distinct(bundles: Sequence[Path]) -> None:
    """Raise `UserError` if a bundle is given twice."""
    for bundle in bundles:
        if bundles.count(bundle) > 1:
            raise UserError(f"{bundle} is given twice; name each bundle once")


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
