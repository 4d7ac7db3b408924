"""The model card: a bundle's README.md, in the format of model hubs."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crosshead.bundle.config import BundleScore

_METRIC_TYPES = {"chrF2": "chrf"}
"""Names of metrics on model hubs that differ from sacreBLEU's name in lower case."""

ORIGINAL_CARD = (
    "The card of the original model says what it was trained on, and under which licence it may be "
    "used."
)
"""The sentence about an imported model on its card and on the cards of its fine-tuned models."""


@dataclass(frozen=True)
class Words:
    """The words about a task on a model card."""

    does: str
    """A clause, such as `translates from ... to ...`."""
    hub_task: str
    """The name of the task on model hubs."""
    command: str
    """An example command, in which `DIR` stands for the bundle."""
    variable: str
    """The variable of the loaded model in the Python example."""
    call: str
    """The call in the Python example."""
    scored: str = "Scored in"
    """The words before the search, or the context, behind the scores."""
    languages: Sequence[str | None] = ()
    """Language codes; None for an unknown one."""


@dataclass(frozen=True)
class CardFile:
    """A training file. `lines` is its number of lines or sentence pairs."""

    path: str
    lines: int
    sha256: str


@dataclass(frozen=True)
class CardFacts:
    """All facts on a model card."""

    name: str
    commands: list[str]  # the commands that began and resumed the run
    recipe: str  # the resolved recipe as TOML
    files: list[CardFile]
    words: Words
    architecture: str
    unit: str  # the noun for what `size` counts: "pair", "token"
    unit_name: str  # its plural: "sentence pairs", "tokens"
    size: int  # of the training data, after filtering and without the held-out set
    left_out: dict[str, int]  # pairs by reason
    validation: str  # a clause: "500 pairs held out of the training files", "valid.en and valid.de"
    weights: str  # a clause: "the best of 12 checkpoints by validation loss, at update 3000"
    parameters: int
    updates: int
    epochs: float  # including the share of the current epoch
    seconds: float
    device: str  # "cpu", "NVIDIA H200"
    threads: int
    cores: int
    precision: str
    seed: int
    versions: dict[str, str]  # "crosshead", "torch", "python", ... to version
    scores: list[BundleScore] = field(default_factory=list)
    search: str = ""  # the search behind the scored translations: "greedy", "beam 4"
    licence: str | None = None
    origin: str = ""  # a clause about the imported model that training started from
    skipped: int = 0  # number of updates skipped because their gradients were not finite


def model_card(facts: CardFacts) -> str:
    """Return the card as Markdown with YAML front matter."""
    sections = [
        front_matter(facts.name, facts.words, facts.scores, licence=facts.licence),
        f"# {facts.name}\n\n{_summary(facts)}",
        use(facts.words),
        f"## Data\n\n{_data(facts)}",
        f"## Scores\n\n{_scores(facts)}",
        f"## Training\n\n{_training(facts)}",
        f"## Settings\n\n{fenced('toml', facts.recipe)}",
    ]
    return "\n\n".join(sections) + "\n"


def without_place(name: str) -> str:
    """Return the displayed name of a file: as it was typed, but without an absolute path.

    A card is made to be shared, and must not show the folders of a machine.
    """
    return os.path.basename(os.path.normpath(name)) if os.path.isabs(name) else name


def command_shown(command: str) -> str:
    """Return a command with every absolute path reduced to its last name."""
    try:
        words = shlex.split(command)
    except ValueError:  # not a valid command line
        return command
    return shlex.join(_ABSOLUTE.sub(lambda found: without_place(found[0]), word) for word in words)


_ABSOLUTE = re.compile(r"""(?:(?<=^)|(?<=[=,\["']))/[^,"'\]]*[^,"'\]/]/*(?=$|[,"'\]])""")
"""An absolute path: a whole word, or a value inside a word (`--out=/tmp/x`,
`data.source=["/tmp/x"]`)."""


def front_matter(
    name: str,
    words: Words,
    scores: Sequence[BundleScore] = (),
    *,
    licence: str | None = None,
    library: str = "crosshead",
) -> str:
    """Return the YAML front matter of a card.

    It contains languages, licence, task and scores under the keys that model hubs index
    (`language`, `license`, `library_name`, `pipeline_tag`, `tags`, `model-index`). Unknown values
    are left out.
    """
    hub, results = words.hub_task, list[Any]()
    for test_set in dict.fromkeys(score.test_set for score in scores):
        metrics = [
            {
                "type": _METRIC_TYPES.get(score.metric, score.metric.lower()),
                "name": score.metric,
                "value": float(score.shown),
            }
            for score in scores
            if score.test_set == test_set
        ]
        dataset = {"name": test_set, "type": test_set}
        results.append({"task": {"type": hub}, "dataset": dataset, "metrics": metrics})
    fields: dict[str, Any] = {
        "language": [code for code in words.languages if code],
        "license": licence,
        "library_name": library,
        "pipeline_tag": hub,
        "tags": [hub, "crosshead"],
        "model-index": results and [{"name": name, "results": results}],
    }
    # JSON is YAML, in which the language `no` stays a language.
    lines = [
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items() if value
    ]
    return "\n".join(["---", *lines, "---"])


def _summary(facts: CardFacts) -> str:
    tuned = f", fine-tuned from {facts.origin}. {ORIGINAL_CARD}" if facts.origin else "."
    return (
        f"A model ({facts.architecture}) that {facts.words.does}: {facts.parameters:,} parameters, "
        f"trained with crosshead on {facts.size:,} {facts.unit_name}{tuned}"
    )


def fenced(language: str, text: str) -> str:
    """Return a code block whose fence is longer than any run of back-ticks in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def use(words: Words) -> str:
    """Return the section of the card on how to use the bundle."""
    python = f'import crosshead\n\n{words.variable} = crosshead.load("DIR")\n{words.call}'
    return (
        f"## Use\n\n{fenced('sh', words.command)}\n\n{fenced('python', python)}\n\n`DIR` is the "
        "directory of this card."
    )


def _data(facts: CardFacts) -> str:
    rows = [
        [inline_code(file.path), f"{file.lines:,}", inline_code(file.sha256)]
        for file in facts.files
    ]
    left_out = [[reason, f"{count:,}"] for reason, count in facts.left_out.items()]
    parts = [
        _table(["file", "pairs" if facts.unit == "pair" else "lines", "SHA-256"], rows),
        f"Trained on {facts.size:,} {facts.unit}s. Validation: {facts.validation}.",
    ]
    if left_out:
        parts.append(_table(["left out of training", f"{facts.unit}s"], left_out))
    return "\n\n".join(parts)


def _scores(facts: CardFacts) -> str:
    if not facts.scores:
        return "No score was measured."
    head = ["metric", "score", "95 % interval", "set", "signature"]
    rows = [
        [
            each.metric,
            each.shown,
            each.interval,
            inline_code(each.test_set),
            inline_code(each.signature),
        ]
        for each in facts.scores
    ]
    if not any(each.interval for each in facts.scores):
        head, *rows = [[*row[:2], *row[3:]] for row in [head, *rows]]
    table = _table(head, rows)
    return f"{table}\n\n{facts.words.scored}: {facts.search}." if facts.search else table


def _training(facts: CardFacts) -> str:
    updates = f"{facts.updates:,}"
    if facts.skipped:
        updates += f", {facts.skipped:,} of them skipped (gradients were not finite)"
    rows = [
        ["weights", facts.weights],
        ["parameters", f"{facts.parameters:,}"],
        ["updates", updates],
        ["epochs", f"{facts.epochs:.1f}"],
        ["time", f"{facts.seconds / 60:.1f} minutes"],
        ["device", f"{facts.device}, {facts.threads} threads of {facts.cores} cores"],
        ["precision", facts.precision],
        ["seed", str(facts.seed)],
        ["versions", ", ".join(f"{name} {version}" for name, version in facts.versions.items())],
    ]
    commands = "\n".join(map(command_shown, facts.commands))
    return f"{fenced('sh', commands)}\n\n{_table(['', ''], rows)}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def inline_code(text: str) -> str:
    """Return a text as inline code."""
    return f"`{' '.join(text.replace('`', chr(39)).splitlines())}`"
