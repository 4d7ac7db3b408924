"""Reports of the command line as text: facts of bundles and summaries of runs."""

import shlex
import textwrap
from pathlib import Path

from crosshead.bundle.base import Bundle
from crosshead.bundle.config import BundleScore
from crosshead.bundle.files import bundle_files, verify_bundle
from crosshead.bundle.places import CHECKPOINTS, RECIPE, hub_place, is_run
from crosshead.bundle.weights import build_without_memory
from crosshead.caller import CommandLine
from crosshead.cli.terminal import program, put, shortened, table
from crosshead.config import validate
from crosshead.errors import BundleError
from crosshead.models.registry import CONFIGS
from crosshead.recipe.presets import PRESETS
from crosshead.system.progress import counted
from crosshead.system.stored import stored_size
from crosshead.tasks.registry import TASKS, run_files
from crosshead.tasks.usability import Findings
from crosshead.text.parallel.filters import LEFT_OUT
from crosshead.training.directory import PICTURE, is_locked
from crosshead.training.log import LOG, read_log
from crosshead.training.result import Summary


def run_under_way(directory: Path) -> str:
    """Return a clause about the run that is writing in a directory now, or an empty string."""
    if not directory.is_dir() or not is_locked(directory):
        return ""
    log = directory / LOG
    rows = read_log(log) if log.exists() else []
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
        *([["downloaded as", str(place)]] if (place := hub_place(directory)) else []),
        ["size", f"{size / 1e6:.1f} MB: {', '.join(names)}"],
        ["model", f"{model.architecture}, {model.shape()}"],
        ["parameters", f"{parameters:,}"],
        *TASKS[config.task].pipeline(bundle).facts(),
    ]
    rows += [
        [each.metric, f"{_with_interval(each)} on {each.test_set} ({each.signature})"]
        for each in config.scores
    ]
    return [*rows, *_run_facts(directory)]


def verify(bundle: Path) -> None:
    """Compare each file of a bundle with its checksum, and print a line for each file."""
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


def end_of_run(summary: Summary, *flags: str) -> str:
    """Return the message about a run that has ended or was stopped."""
    if summary.bundle_kept:  # nothing is new
        return table([["bundle", f"{summary.out}"], ["ended", summary.reason]])
    if summary.interrupted:
        return summary.left_behind(CommandLine(program()).resume(summary.out, *flags))
    return run_report(summary)


def how_to_continue(out: Path, *flags: str) -> str:
    """Return a line that says how to continue after runs on subsets were stopped."""
    command = CommandLine(program()).resume(out, *flags)
    return f"stopped; finished runs are kept; continue with: {command}"


def run_report(summary: Summary) -> str:
    """Return the report of a finished run, and the commands to use its bundle."""
    progress = summary.progress
    skipped = f" ({progress.skipped:,} skipped: gradients not finite)" if progress.skipped else ""
    rows = [
        ["bundle", f"{summary.out}"],
        ["ended", summary.reason],
        ["weights", summary.weights],
        *_score_rows(summary),
        *map(list, summary.domains),
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
        if summary.findings.remarks:
            lines = (textwrap.fill(each, 100) for each in summary.findings.remarks)
            parts.append("".join(f"{each}\n" for each in lines))
    if summary.verdict:
        parts.append(f"warning: {summary.verdict}\n")
    if summary.task:
        pipeline = summary.task.pipeline
        parts.append(
            summary.usage.format(command=f"{program()} {pipeline.verb}", bundle=out) + "\n"
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
        [f"{each.metric} ({summary.search})", f"{_with_interval(each)} ({each.test_set})"]
        for each in summary.scores
    ]


def _with_interval(score: BundleScore) -> str:
    """Return a score, with its interval if there is one."""
    return f"{score.shown} [{score.interval}]" if score.interval else score.shown


def _samples(findings: Findings) -> list[str]:
    """Return the model's output for some of the validation set, each part on its own line."""
    return [
        f"{each.title}\n" * bool(each.title)
        + table(
            [
                [name, shortened(part)]
                for name, part in zip(
                    findings.labels, (each.input, each.output, each.expected), strict=True
                )
            ]
        )
        for each in findings.samples
    ]


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
        "\nauto, the default for pairs: a transformer that suits the data, budget and machine"
        "\nstudent: for the pairs of `crosshead distill`; it trains with the settings of auto"
        "\nto N: at most N; the size of the vocabulary, and so of the model, depends on the text\n"
        "forecasters: with the default context and horizon, for one column\n"
    )


def _parts(text: str, width: int) -> list[str]:
    """Split a comma-separated list into lines of at most `width`, which end after a comma."""
    tied = text.replace(" ", "\xa0").replace(",\xa0", ", ")
    return [line.replace("\xa0", " ") for line in textwrap.wrap(tied, width)]


_SHAPE_WIDTH = 37
"""Width of the shape column; the other columns and the gaps take 63."""
