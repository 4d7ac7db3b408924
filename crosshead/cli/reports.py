"""Reports of the command line as text: scores, facts and summaries."""

import dataclasses
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crosshead.bundle.io import Bundle, bundle_files, card_was_changed, verify_bundle
from crosshead.bundle.places import CARD, CHECKPOINTS, RECIPE, how_to_resume, is_run
from crosshead.bundle.weights import build_without_memory
from crosshead.cli.answers import answering, search_settings
from crosshead.cli.terminal import at_terminal, json_line, note, program, put, table
from crosshead.config import nearest, validate
from crosshead.data.captions import NOT_DESCRIBED, read_caption_set
from crosshead.data.parallel.filters import LEFT_OUT
from crosshead.errors import BundleError, ConfigError, DataError, UserError
from crosshead.evaluation import (
    METRICS,
    ComparedScore,
    CorpusScore,
    ForecastScore,
    caption_scores,
    corpus_scores,
    forecast_scores,
    masked_scores,
    text_scores,
)
from crosshead.models.registry import CONFIGS
from crosshead.pipelines.captioner import ImageCaptioner
from crosshead.pipelines.forecaster import SeriesForecaster
from crosshead.pipelines.mask_filler import MaskFiller
from crosshead.pipelines.translator import LONGEST_STRETCH, Translator
from crosshead.recipe.presets import PRESETS
from crosshead.system.lines import LONGEST_TEXT, read_lines
from crosshead.system.progress import counted
from crosshead.system.stored import stored_size
from crosshead.tasks.loading import load, load_as
from crosshead.tasks.registry import TASKS, run_files
from crosshead.tasks.usability import Findings
from crosshead.training.directory import PICTURE
from crosshead.training.directory_lock import is_locked
from crosshead.training.log import LOG, read_log
from crosshead.training.run import Summary


def metric_names(text: str, tokenize: str | None, others: Sequence[str] = ()) -> list[str]:
    """Return the metrics in a comma-separated list.

    The check comes before the translation, so that a wrong name costs no time.

    Args:
        text: The list, such as `bleu,chrf`.
        tokenize: The tokenization for BLEU, or None for sacreBLEU's default.
        others: Metrics that are allowed besides sacreBLEU's.

    Raises:
        ConfigError: If a metric or the tokenization is unknown.
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


def text_evaluation(
    bundle: Path,
    text: Path,
    stride: int | None,
    memory: int | None,
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a model of monolingual text on a text.

    Args:
        bundle: The bundle of the model.
        text: The text file.
        stride: The step of the windows, or None for the default.
        memory: Number of positions that a model with a memory remembers, or None for the default.
        device: The device to compute on.
        threads: Number of threads, or None for PyTorch's choice.

    Raises:
        ConfigError: If `stride` or `memory` is given for a masked language model.
        DataError: If the text is empty.
        BundleError: If the model is of another kind.
    """
    lines = read_lines(text, LONGEST_TEXT)
    if not any(lines):
        raise DataError(f"{text}: empty; expected text")
    model = load(bundle, device, threads)
    joined = "".join(f"{line}\n" for line in lines)
    for kind, options in (
        (Translator, "--source and --reference"),
        (SeriesForecaster, "--series"),
        (ImageCaptioner, "--captions and --images"),
    ):
        if isinstance(model, kind):
            raise BundleError(f"{bundle} is a model that {model.does}; give {options}")
    if isinstance(model, MaskFiller) and (stride is not None or memory is not None):
        raise ConfigError(
            "--stride and --memory need a language model; this is a masked language model, which "
            "reads windows of its training length: leave them out"
        )
    with answering(len(joined) if at_terminal() else None, "characters") as advance:
        progress = partial(advance, 0, len(joined))
        if isinstance(model, MaskFiller):
            scores = masked_scores(model.score(joined, progress))
        else:
            scores = text_scores(model.score(joined, stride, memory, progress))
        progress(1.0)
    return scores


def series_evaluation(
    bundle: Path,
    series: Path,
    start: str | None,
    original: bool,
    device: str,
    threads: int | None,
) -> list[ForecastScore]:
    """Return the scores of a forecaster on a series.

    Args:
        bundle: The bundle of the model.
        series: The file of the series.
        start: The time of the first value to score, or None for the first after a context.
        original: True for errors in the units of the columns.
        device: The device to compute on.
        threads: Number of threads, or None for PyTorch's choice.

    Raises:
        BundleError: If the model is no forecaster.
        DataError: If the series cannot be used.
    """
    forecaster = load_as(SeriesForecaster, bundle, device, threads)
    whole = forecaster.checked(series)
    for line in whole.notes:
        note(f"{series}: {line}")
    first = 0 if start is None else whole.row(start)
    return forecast_scores(forecaster, forecaster.windows(whole, first), original=original)


def caption_evaluation(
    bundle: Path,
    images: Sequence[str],
    captions: Sequence[str],
    metrics: Sequence[str],
    tokenize: str | None,
    flags: Mapping[str, Any],
    device: str,
    threads: int | None,
) -> list[CorpusScore]:
    """Return the scores of a captioner on images with captions.

    Args:
        bundle: The bundle of the model.
        images: Folders or zip archives.
        captions: Files of captions.
        metrics: The names of metrics.
        tokenize: The tokenisation of BLEU, or None for sacreBLEU's.
        flags: Settings of the search that override the bundle's.
        device: The device to compute on.
        threads: Number of threads, or None for PyTorch's choice.

    Raises:
        BundleError: If the model is no captioner.
        DataError: If the images or the captions cannot be used.
    """
    captioner = load_as(ImageCaptioner, bundle, device, threads)
    decode = search_settings(captioner.bundle.config.decode, False, flags, None)
    found = read_caption_set(images, captions, captioner.bundle.config.image_size)
    for line in found.left_out.lines():
        if NOT_DESCRIBED not in line:
            note(line)
    with answering(len(found.names) if at_terminal() else None, "images") as advance:
        best = captioner.search(
            found.pixels, decode, progress=partial(advance, 0, len(found.names))
        )
    texts = [each[0].text for each in best]
    return caption_scores(texts, found.references(), metrics, tokenize)


def forecast_table(scores: Sequence[ForecastScore]) -> str:
    """Return a table of the scores of forecasts, with their signature below."""
    metrics = list(dict.fromkeys(each.metric for each in scores))
    found = {(each.method, each.metric): f"{each.value:.4g}" for each in scores}
    rows = [["forecast", *metrics]] + [
        [method, *(found.get((method, metric), "") for metric in metrics)]
        for method in dict.fromkeys(each.method for each in scores)
    ]
    return table(rows, numbers=len(metrics)) + f"\n{scores[0].signature}\n"


def translated(
    translator: Translator, sources: Sequence[str], flags: Mapping[str, Any]
) -> list[str]:
    """Return the best translation of each line; flags override the bundle's search settings.

    A warning counts the lines that were passed through untranslated.
    """
    decode = search_settings(translator.bundle.config.decode, False, flags, None)
    found = translator.translate(sources, decode=decode)
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
    scores: Sequence[CorpusScore] | Sequence[ComparedScore] | Sequence[ForecastScore],
) -> str:
    """Return scores as JSON Lines; the baseline of a comparison has no `p_value`."""
    rows = [dataclasses.asdict(each) for each in scores]
    return "".join(
        json_line({key: value for key, value in row.items() if value is not None}) for row in rows
    )


def run_under_way(directory: Path) -> str:
    """Return a clause about the run that is writing in a directory now, or an empty string."""
    if not directory.is_dir() or not is_locked(directory):
        return ""
    log = directory / LOG
    rows = read_log(log)[0] if log.exists() else []
    update = f"at update {rows[-1]['update']:,} or later" if rows else "before its first log entry"
    return f"under way, {update}"


def bundle_facts(directory: Path, bundle: Bundle) -> list[list[str]]:
    """Return the facts of a bundle, in rows of a name and a value."""
    config, model = bundle.config, bundle.config.model
    parameters = sum(parameter.numel() for parameter in bundle.model.parameters())
    names = bundle_files(directory)
    size = sum(stored_size(directory / name) for name in names)
    rows = [
        ["bundle", f"{directory}, format {config.format}, written by crosshead {config.crosshead}"],
        ["size", f"{size / 1e6:.1f} MB: {', '.join(names)}"],
        ["model", f"{model.architecture}, {model.shape()}"],
        ["parameters", f"{parameters:,}"],
        *TASKS[config.task].pipeline(bundle).facts(),
    ]
    rows += [
        [each.metric, f"{each.shown} on {each.test_set} ({each.signature})"]
        for each in config.scores
    ]
    if card_was_changed(directory):
        rows.append(["card", f"{CARD} was changed or removed since the bundle was written"])
    return [*rows, *_run_facts(directory)]


def verify(bundle: Path) -> None:
    """Compare each file of a bundle with its checksum, and print a line for each file.

    Raises:
        BundleError: If a file differs, or the bundle holds no checksums.
    """
    found = verify_bundle(bundle)
    if not found:
        raise BundleError(
            f"{bundle} holds no checksums, because an older crosshead wrote it; every command that "
            "writes a bundle adds them, such as `crosshead train --resume` and `crosshead average`"
        )
    put(table([[name, differs or "unchanged"] for name, differs in found]))
    wrong = [name for name, differs in found if differs]
    if wrong:
        raise BundleError(
            f"{bundle}: these files changed since the bundle was written: {', '.join(wrong)}; take "
            "a fresh copy, unless you changed them yourself"
        )


def _run_facts(directory: Path) -> list[list[str]]:
    """Return which files of a run may be shared or deleted, or that the run is under way.

    There are no rows for a bundle outside a run.
    """
    if under_way := run_under_way(directory):
        return [["run", under_way]]
    if not is_run(directory):
        return []
    others = {
        "only for --resume": [RECIPE, CHECKPOINTS],
        "may be deleted": [LOG, PICTURE, "tensorboard", *sorted(run_files())],
    }
    found = {
        what: ", ".join(name for name in names if (directory / name).exists())
        for what, names in others.items()
    }
    command = f"{program()} pack {shlex.quote(str(directory))}"
    rows = [
        ["to share", f"the files listed under size; to pack them into one file: {command}"],
        ["only for --resume", found["only for --resume"]],
    ]
    if found["may be deleted"]:
        rows.append(["may be deleted", found["may be deleted"]])
    return rows


def end_of_run(summary: Summary) -> str:
    """Return the message about a run that has ended or was stopped."""
    if summary.bundle_kept:  # nothing is new
        return table([["bundle", f"{summary.out}"], ["ended", summary.reason]])
    return interruption_report(summary) if summary.interrupted else run_report(summary)


def run_report(summary: Summary) -> str:
    """Return the report of a finished run, and the commands to use its bundle."""
    progress = summary.progress
    skipped = f" ({progress.skipped:,} skipped: gradients not finite)" if progress.skipped else ""
    rows = [
        ["bundle", f"{summary.out}"],
        ["ended", summary.reason],
        ["weights", summary.weights],
        *_score_rows(summary),
        [
            "training",
            f"{counted(progress.update, 'update')}{skipped}, {progress.epochs:.1f} epochs, "
            f"{progress.seconds / 60:.1f} minutes",
        ],
        ["parameters", f"{summary.parameters:,}"],
    ]
    parts = [table(rows)]
    counts = [[reason, f"{count:,}"] for reason, count in summary.left_out.items() if count]
    if counts:
        parts.append(table([["left out of training", f"{summary.unit}s"], *counts], numbers=1))
        if (summary.out / LEFT_OUT).is_file():
            parts.append(f"The lines are in {summary.out / LEFT_OUT}\n")
    out = shlex.quote(str(summary.out))
    if summary.findings:
        parts += _samples(summary.findings)
    if summary.verdict:
        parts.append(f"warning: {summary.verdict}\n")
    if summary.task:
        pipeline = summary.task.pipeline
        parts.append(
            pipeline.usage.format(command=f"{program()} {pipeline.verb}", bundle=out) + "\n"
        )
    return "\n".join(parts)


def _score_rows(summary: Summary) -> list[list[str]]:
    """Return the scores of a run, by the quick search of training and by the bundle's search."""
    metrics = summary.task.metrics if summary.task else ()
    rows = [
        [
            f"{each.label} ({each.search}, as in training)",
            f"{summary.validated[each.name]:.{each.digits}f} (validation)",
        ]
        for each in metrics
        if each.search and each.search != summary.search and each.name in summary.validated
    ]
    return rows + [
        [f"{each.metric} ({summary.search})", f"{each.shown} ({each.test_set})"]
        for each in summary.scores
    ]


def _samples(findings: Findings) -> list[str]:
    """Return the model's output for some of the validation set, each part on its own line."""
    return [
        table([[name, _shortened(part)] for name, part in zip(findings.labels, each, strict=True)])
        for each in findings.samples
    ]


def _shortened(text: str, most: int = 80) -> str:
    """Return a text on one line of at most `most` characters."""
    line = " ".join(text.split())
    if not line:
        return "(nothing)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


def interruption_report(summary: Summary) -> str:
    """Return a line that says how to continue an interrupted run, or that nothing is left."""
    if summary.progress.update == 0:
        holds_one = summary.out.exists() and any(summary.out.iterdir())
        left = "the earlier run is restored" if holds_one else "nothing is left"
        return f"stopped before the first update: {left} in {summary.out}"
    command = how_to_resume(summary.out, program())
    return f"stopped at update {summary.progress.update}; resume with: {command}"


def preset_table() -> str:
    """Return a table of all presets; it fits 100 columns.

    The columns of the sizes are empty if a model does not depend on a vocabulary: its data may
    decide its size.
    """
    rows = [["model", "preset", "shape", "vocabulary", "parameters", "MB"]]
    for architecture, presets in PRESETS.items():
        for name, sections in presets.items():
            settings = {"architecture": architecture, **sections["model"]}
            model = validate(CONFIGS[architecture], settings)
            example = TASKS[model.task].example(model, sections)
            vocabulary, parameters, megabytes = "", "", ""
            if example is not None:
                vocabulary, build = example
                most = "to " if vocabulary.startswith("to ") else ""
                size = sum(each.numel() for each in build_without_memory(build).parameters())
                parameters, megabytes = (
                    f"{most}{size:,}",
                    f"{most}{4 * size / 1e6:.{0 if size > 1e6 else 1}f}",
                )
            first, *rest = _parts(model.shape(), _SHAPE_WIDTH)
            rows.append([architecture, name, first, vocabulary, parameters, megabytes])
            rows += [["", "", line, "", "", ""] for line in rest]
    return table(rows, numbers=3) + (
        "\nto N: at most N; the size of the vocabulary, and so of the model, depends on the text\n"
        "forecasters: with the default context and horizon, for one column\n"
    )


def _parts(text: str, width: int) -> list[str]:
    """Split a comma-separated list into lines of at most `width`, which end after a comma."""
    tied = text.replace(" ", "\xa0").replace(",\xa0", ", ")
    return [line.replace("\xa0", " ") for line in textwrap.wrap(tied, width)]


_SHAPE_WIDTH = 38
"""Width of the shape column; the other columns and the gaps take 62."""
