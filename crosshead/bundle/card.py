"""The model card: a bundle's README.md, in the form that model hubs read."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from crosshead.bundle.config import BundleScore

_METRIC_TYPES = {"chrF2": "chrf"}
"""Model hubs' names of metrics, where they differ from sacreBLEU's name in lower case."""


@dataclass(frozen=True)
class Words:
    """The words of a task on a model card."""

    does: str
    """A clause: `translates from ... to ...`."""
    hub_task: str
    """Model hubs' name of the task."""
    command: str
    """An example of the command line; `DIR` stands for the bundle."""
    variable: str
    """The name of the loaded model in an example in Python."""
    call: str
    """The call in that example."""
    scored: str = "Scored in"
    """What precedes the search, or the context, behind the scores."""
    languages: Sequence[str | None] = ()
    """Language codes; None for an unknown one."""


@dataclass(frozen=True)
class CardFile:
    """A file that went into training; `lines` is how many lines, or sentence pairs, it holds."""

    path: str
    lines: int
    sha256: str


@dataclass(frozen=True)
class CardFacts:
    """All that a model card says."""

    name: str
    commands: list[str]  # what was typed to begin the run, and to resume it
    recipe: str  # the resolved recipe as TOML
    files: list[CardFile]
    words: Words
    architecture: str
    unit: str  # what `size` counts: "pair", "token"
    unit_name: str  # its plural: "sentence pairs", "tokens"
    size: int  # that training read, after filtering and without what was held out
    left_out: dict[str, int]  # pairs by reason
    validation: str  # a clause: "500 pairs held out of the training files", "valid.en and valid.de"
    weights: str  # a clause: "the best of 12 checkpoints by validation loss, at update 3000"
    parameters: int
    updates: int
    epochs: float  # with the share of the epoch under way
    seconds: float
    device: str  # "cpu", "NVIDIA H200"
    threads: int
    cores: int
    precision: str
    seed: int
    versions: dict[str, str]  # "crosshead", "torch", "python", ... to version
    scores: list[BundleScore] = field(default_factory=list)
    search: str = ""  # how the translations that were scored came about: "greedy", "beam 4"
    skipped: int = 0  # updates left out because their gradients were not finite


def model_card(facts: CardFacts) -> str:
    """The card as Markdown with YAML front matter."""
    sections = [
        front_matter(facts.name, facts.words, facts.scores),
        f"# {facts.name}\n\n{_summary(facts)}",
        use(facts.words),
        f"## Data\n\n{_data(facts)}",
        f"## Scores\n\n{_scores(facts)}",
        f"## Training\n\n{_training(facts)}",
        f"## Settings\n\n{fenced('toml', facts.recipe)}",
    ]
    return "\n\n".join(sections) + "\n"


def without_place(name: str) -> str:
    """The name of a file as a card shows it: as it was typed, but without an absolute path.

    A card is made to be shared, and where files stand on a machine is nobody else's business.
    """
    return os.path.basename(os.path.normpath(name)) if os.path.isabs(name) else name


def command_shown(command: str) -> str:
    """A command line as a card shows it: absolute paths in it are cut to their last name."""
    try:
        words = shlex.split(command)
    except ValueError:  # no command line
        return command
    return shlex.join(_ABSOLUTE.sub(lambda found: without_place(found[0]), word) for word in words)


_ABSOLUTE = re.compile(r"""(?:(?<=^)|(?<=[=,\["']))/[^,"'\]]*[^,"'\]/]/*(?=$|[,"'\]])""")
"""An absolute path: a whole word, or a value in one (`--out=/tmp/x`, `data.source=["/tmp/x"]`)."""


def front_matter(name: str, words: Words, scores: Sequence[BundleScore] = ()) -> str:
    """The head of a card, in YAML.

    It names languages, task and scores by the keys that model hubs index (`language`,
    `library_name`, `pipeline_tag`, `tags`, `model-index`); what is unknown is left out.
    """
    lines = []
    known = [code for code in words.languages if code]
    if known:
        lines += ["language:", *(f"- {_yaml(code)}" for code in known)]
    hub = words.hub_task
    lines += [
        "library_name: crosshead",
        f"pipeline_tag: {hub}",
        "tags:",
        f"- {hub}",
        "- crosshead",
    ]
    if scores:
        lines += ["model-index:", f"- name: {_yaml(name)}", "  results:"]
    for test_set in dict.fromkeys(score.test_set for score in scores):
        lines += ["  - task:", f"      type: {hub}", "    dataset:"]
        lines += [
            f"      name: {_yaml(test_set)}",
            f"      type: {_yaml(test_set)}",
            "    metrics:",
        ]
        for score in scores:
            if score.test_set == test_set:
                metric_type = _METRIC_TYPES.get(score.metric, score.metric.lower())
                lines.append(f"    - type: {_yaml(metric_type)}")
                lines.append(f"      name: {_yaml(score.metric)}")
                lines.append(f"      value: {score.value:.2f}")
    return "\n".join(["---", *lines, "---"])


def _yaml(text: str) -> str:
    """A YAML scalar: a JSON string is one, whatever it contains (and `no` stays a language)."""
    return json.dumps(text, ensure_ascii=False)


def _summary(facts: CardFacts) -> str:
    return (
        f"A model ({facts.architecture}) that {facts.words.does}: {facts.parameters:,} parameters, "
        f"trained with crosshead on {facts.size:,} {facts.unit_name}."
    )


def fenced(language: str, text: str) -> str:
    """A code block whose fence is longer than any run of back-ticks in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def use(words: Words) -> str:
    """The section that says how the bundle beside the card is used."""
    python = f'import crosshead\n\n{words.variable} = crosshead.load("DIR")\n{words.call}'
    return (
        f"## Use\n\n{fenced('sh', words.command)}\n\n{fenced('python', python)}\n\n`DIR` is the "
        "directory of this card."
    )


def _data(facts: CardFacts) -> str:
    rows = [[_code(file.path), f"{file.lines:,}", _code(file.sha256)] for file in facts.files]
    left_out = [[reason, f"{count:,}"] for reason, count in facts.left_out.items()]
    parts = [
        _table(["file", "pairs" if facts.unit == "pair" else "lines", "SHA-256"], rows),
        f"Trained on {facts.size:,} {facts.unit}s. Validation: {facts.validation}.",
    ]
    if left_out:
        parts.append(_table(["left out of training", "pairs"], left_out))
    return "\n\n".join(parts)


def _scores(facts: CardFacts) -> str:
    if not facts.scores:
        return "None was measured."
    rows = [
        [score.metric, f"{score.value:.2f}", _code(score.test_set), _code(score.signature)]
        for score in facts.scores
    ]
    table = _table(["metric", "score", "set", "signature"], rows)
    return f"{table}\n\n{facts.words.scored}: {facts.search}." if facts.search else table


def _training(facts: CardFacts) -> str:
    updates = f"{facts.updates:,}"
    if facts.skipped:
        updates += f", {facts.skipped:,} of them left out (gradients that were not finite)"
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


def _code(text: str) -> str:
    """Inline code; a back-tick in the text would end it."""
    return f"`{text.replace('`', chr(39))}`"
