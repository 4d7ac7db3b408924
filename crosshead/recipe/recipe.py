"""The recipe: a whole run as one frozen value, and how it comes together.

Sections `[data] [tokenizer] [model] [train] [decode]`, each the configuration that stands beside
what it configures. Precedence: preset < recipe file < named flags < `--set`. A recipe that cannot
be run is refused here, before any data is read.
"""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from crosshead.config import LARGEST, MOST, Config, called, nearest, validate
from crosshead.data.parallel.corpora import PAIRED, DataConfig
from crosshead.data.text.tokenizers import TokenizerConfig
from crosshead.decoding.search import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.models.registry import CONFIGS, AnyConfig
from crosshead.recipe.presets import PRESETS, Sections


class TrainConfig(Config):
    """Settings of training: the section `[train]` of a recipe."""

    batch_tokens: int = Field(4096, ge=1, le=MOST)
    """The budget of a batch: sentences times the longer of source and target, padding counted."""

    accumulate: int = Field(1, ge=1, le=100_000)
    """The parts that a batch is computed in, one after the other, to take less memory; the update
    is that of the whole batch."""

    recompute: bool = False
    """Keep of each layer its inputs only, and compute the rest again for the gradients: less
    memory, and about a third more time."""

    sharded: bool = False
    """Each of several processes holds its share of weights, gradients and moments: less memory,
    and half as much again to send. One process holds them all in any case."""

    max_updates: int | None = Field(None, ge=1, le=MOST)
    max_epochs: int | None = Field(None, ge=1, le=MOST)
    max_minutes: float | None = Field(None, gt=0, le=1e8)
    """Budgets: training ends with the first that is reached."""

    schedule: Literal["paper", "inverse-sqrt", "cosine"] = "inverse-sqrt"
    """`paper` is Eq. 3 of Vaswani et al. 2017; `inverse-sqrt` has a stated peak, and so has
    `cosine`, which falls to a tenth of it by `max_updates` (Loshchilov and Hutter 2017), whatever
    other budget ends the run earlier: it ends at a higher rate then."""

    learning_rate: float | None = Field(None, gt=0, le=1e30)
    """The peak of the schedule, reached after the warm-up; Eq. 3 has its own."""

    warmup: int | None = Field(None, ge=1, le=MOST)
    """Updates in which the learning rate grows. Unset, the run chooses: ten epochs of them, from
    200 to 4,000 and at most a tenth of what `max_updates` and `max_epochs` allow."""

    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.98, ge=0, lt=1)
    adam_eps: float = Field(1e-9, ge=1e-30, le=1)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    clip_norm: float = Field(1.0, ge=0, le=1e9)
    """Gradients longer than this are shortened to it; 0 leaves them alone."""

    seed: int = Field(1, ge=0, le=LARGEST)
    """Random seed of the run."""

    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """`bfloat16` computes with 16-bit weights beside float32 masters; `auto` takes it where this
    machine multiplies matrices faster with it. `float16`, for GPUs without bfloat16, scales the
    loss besides."""

    device: str = "auto"
    threads: int = Field(0, ge=0, le=1024)
    """Threads of the CPU, at most one a core; 0 takes all cores."""

    valid_every: int = Field(0, ge=0, le=MOST)
    """Updates between validations; with 0 the run chooses: an epoch of them, from 200 to 2,000. The
    end of a run is validated in any case."""

    checkpoint_every: int = Field(0, ge=0, le=MOST)
    """Updates between checkpoints; 0 writes one at every validation."""

    keep_last: int = Field(5, ge=1, le=MOST)
    """Number of checkpoints that are kept: the newest ones. The best one is kept besides."""

    average: int = Field(5, ge=0, le=MOST)
    """The weights of so many last checkpoints are averaged at the end (section 6.1); the average is
    taken where it validates better than the best single one. 0 or 1 averages nothing."""

    patience: int = Field(10, ge=0, le=MOST)
    """Training stops after so many validations without a better one, counted from the end of the
    warm-up; 0 never stops early."""

    metric: Literal["bleu", "loss"] = "bleu"
    """Score that validation compares: BLEU of greedy translations, or the loss."""

    log_every: int = Field(100, ge=1, le=MOST)
    """Updates between lines of the log."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            raise ValueError("give max_updates, max_epochs or max_minutes: one budget at least")
        if self.schedule != "paper" and self.learning_rate is None:
            raise ValueError(f"the schedule {self.schedule} needs learning_rate, its peak")
        if self.schedule == "cosine" and self.max_updates is None:
            raise ValueError("the schedule cosine needs max_updates, where it ends")
        if self.schedule == "paper" and self.learning_rate is not None:
            raise ValueError(
                "the schedule paper (Eq. 3) has no learning_rate; remove it, or set "
                "schedule = 'inverse-sqrt'"
            )
        if self.average > self.keep_last:
            raise ValueError(
                f"average {self.average} is more than the {self.keep_last} checkpoints that "
                "keep_last keeps"
            )
        return self


class Recipe(Config):
    """A whole run."""

    data: DataConfig
    tokenizer: TokenizerConfig
    model: AnyConfig
    train: TrainConfig
    decode: DecodeConfig

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        if self.model.task == "translation":
            self._check_pairs(info)
        else:
            self._check_text(info)
        return self

    def _check_text(self, info: ValidationInfo) -> None:
        """Check the settings for training on monolingual text."""
        for key in PAIRED:
            if getattr(self.data, key):
                raise ValueError(
                    f"{called(f'data.{key}', info)} is for translation; a model of text by itself "
                    f"({self.model.architecture}) is trained on {called('data.text', info)}"
                )
        if self.data.context > self.train.batch_tokens:
            raise ValueError(
                f"data.context {self.data.context} does not fit into train.batch_tokens "
                f"{self.train.batch_tokens}; lower the first or raise the second"
            )
        most = self.model.most_positions
        if most is not None and self.data.context > most:
            raise ValueError(
                f"data.context {self.data.context} is more than the {most} learned positions of "
                "model.max_length"
            )
        segment, memory = (getattr(self.model, key, 0) for key in ("segment", "memory"))
        if memory and self.data.context <= segment:
            raise ValueError(
                f"data.context {self.data.context} is no more than one model.segment of {segment}, "
                "so that training would never use model.memory; raise data.context above "
                "model.segment, lower model.segment, or set model.memory = 0"
            )
        if self.train.metric != "loss":
            raise ValueError(
                f"train.metric {self.train.metric!r} is for translation; set train.metric = 'loss'"
            )
        if not self.tokenizer.joint:
            raise ValueError("text by itself has one side: set tokenizer.joint = true")
        if self.tokenizer.sampling:
            raise ValueError("tokenizer.sampling is for translation; leave it out")

    def _check_pairs(self, info: ValidationInfo) -> None:
        """Check the settings for training on pairs."""
        for key in ("text", "valid_text"):
            if getattr(self.data, key):
                raise ValueError(
                    f"{called(f'data.{key}', info)} is for models of text by itself; "
                    f"{self.model.architecture} is trained on pairs: give --source and --target, "
                    "or --pairs"
                )
        if self.data.max_length + 1 > self.train.batch_tokens:
            raise ValueError(
                f"data.max_length {self.data.max_length} (and the end token) does not fit into "
                f"train.batch_tokens {self.train.batch_tokens}; lower the first or raise the second"
            )
        for most in (self.model.most_source, self.model.most_positions):
            if most is not None and self.data.max_length + 1 > most:
                raise ValueError(
                    f"data.max_length {self.data.max_length} (and the end token) is more than the "
                    f"{most} {self.model.bound}; lower the first or raise the second"
                )
        if getattr(self.model, "tie", "none") == "three-way" and not self.tokenizer.joint:
            raise ValueError(
                "model.tie three-way needs one vocabulary for both sides: set tokenizer.joint = "
                "true, or model.tie = 'two-way'"
            )


_BUDGETS = ("max_updates", "max_epochs", "max_minutes")


def compose(
    preset: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
    below: Sections | None = None,
    typed: Mapping[str, str] | None = None,
) -> Recipe:
    """Put a recipe together: preset < `recipe` (the tables of a file) < `flags` < `assignments`.

    `assignments` are `section.key=value`, or `key=value` where one section has that key; a value is
    TOML, or else text. Without a preset `tiny` is completed. The sections `below` stand in the
    place of the preset's. A budget that is stated replaces the budgets of the preset, but for the
    `max_updates` where its `cosine` ends. `where` (the recipe's file) begins the messages about it.
    `typed` has the flags that were typed, by key (`--seed` for `train.seed`): messages about other
    mistakes than the file's name them so. Raises `ConfigError` for whatever cannot be.
    """
    sections = stated(recipe, flags, assignments, where=where)
    try:
        completed = _completed(preset or "tiny", below or {}, sections, typed)
        return validate(Recipe, completed, typed=typed)
    except ConfigError:
        # Says which file, where the mistake is in it.
        file_alone = stated(recipe, where=where)
        validate(Recipe, _completed(preset or "tiny", below or {}, file_alone), where)
        raise


def stated(
    recipe: Mapping[str, Any] | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Sequence[str] = (),
    *,
    where: str = "",
) -> Sections:
    """Return the stated settings: `recipe`, then `flags`, then `assignments`; later ones win.

    The arguments are those of `compose`, which adds the defaults.
    """
    sections: Sections = {name: {} for name in Recipe.model_fields}
    _overlay(sections, recipe or {}, where)
    _overlay(sections, flags or {}, "")
    for assignment in assignments:
        section, key, value = _assignment(assignment)
        sections[section][key] = value
    return sections


def _completed(
    preset: str, below: Sections, sections: Sections, typed: Mapping[str, str] | None = None
) -> Sections:
    """Return the stated settings, completed by `below` and the preset of the architecture."""
    train = sections["train"]
    default = "language" if sections["data"].get("text") else "transformer"
    beneath = below.get("model", {}).get("architecture", default)
    architecture = sections["model"].get("architecture", beneath)
    lowest = {**_preset(architecture, preset, typed or {}), **below}
    lowest = {name: dict(table) for name, table in lowest.items()}
    beginning = lowest["train"].get("schedule")
    schedule = train.get("schedule", beginning)
    if any(key in train for key in _BUDGETS):
        # Budgets that are stated replace those of the preset. Where its cosine ends is more than a
        # budget: that stays.
        ends = {"max_updates"} if schedule == beginning == "cosine" else set()
        replaced = set(_BUDGETS) - ends
        lowest["train"] = {k: v for k, v in lowest["train"].items() if k not in replaced}
    if schedule == "paper":
        # The preset's peak belongs to the other schedule.
        lowest["train"].pop("learning_rate", None)
    return {name: {**lowest.get(name, {}), **table} for name, table in sections.items()}


def _preset(architecture: Any, name: str, typed: Mapping[str, str]) -> Sections:
    """The sections of a preset for an architecture."""
    if not isinstance(architecture, str) or architecture not in PRESETS:
        known = nearest(str(architecture), list(PRESETS))
        key = typed.get("model.architecture", "model.architecture")
        raise ConfigError(f"{key}: there is no {architecture!r}; {known}")
    presets = PRESETS[architecture]
    if name not in presets:
        every = {each for sizes in PRESETS.values() for each in sizes}
        of = f" of {architecture}" if name in every else ""
        raise ConfigError(f"there is no preset {name!r}{of}; {nearest(name, list(presets))}")
    sections = presets[name]
    return {**sections, "model": {"architecture": architecture, **sections["model"]}}


def to_toml(recipe: Recipe) -> str:
    """The recipe as TOML that `compose` reads back to an equal one; what is unset is left out."""
    lines = []
    for section, values in recipe.model_dump().items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        lines.append("")
    return "\n".join(lines)


def _overlay(sections: dict[str, Any], above: Mapping[str, Any], where: str) -> None:
    """Let the tables of `above` replace single keys of `sections`, in place."""
    prefix = f"{where}: " if where else ""
    for name, table in above.items():
        if name == "model" and isinstance(table, str):
            table = {"architecture": table}
        if name not in sections:
            raise ConfigError(f"{prefix}unknown section {name!r}; {nearest(name, list(sections))}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{prefix}{name} is a section: write [{name}] and its keys below it")
        sections[name].update(table)


def _assignment(text: str) -> tuple[str, str, Any]:
    """`section.key=value` or `key=value` as section, key and value."""
    name, equals, raw = text.partition("=")
    if not text.isprintable():
        text = repr(text)  # a message is one line
    if not equals:
        raise ConfigError(f"--set {text}: expected section.key=value")
    keys = {
        section: list(field.annotation.model_fields)  # type: ignore[union-attr]
        for section, field in Recipe.model_fields.items()
        if section != "model"
    }
    keys["model"] = list(dict.fromkeys(key for each in CONFIGS for key in each.model_fields))
    # No architecture has some of them: the model says why.
    refused = {key for each in CONFIGS for key in each.cannot}
    section, dot, key = name.strip().partition(".")
    if not dot:
        key = section
        having = [section for section, known in keys.items() if key in known]
        if not having and key in refused:
            having = ["model"]
        if len(having) > 1:
            full = " or ".join(f"{section}.{key}" for section in having)
            raise ConfigError(f"--set {text}: {key!r} is ambiguous; write {full}")
        if not having:
            everything = list(dict.fromkeys(key for known in keys.values() for key in known))
            raise ConfigError(f"--set {text}: unknown key {key!r}; {nearest(key, everything)}")
        section = having[0]
    if section not in keys:
        raise ConfigError(
            f"--set {text}: unknown section {section!r}; {nearest(section, list(keys))}"
        )
    return section, key, _value(raw.strip())


def _value(raw: str) -> Any:
    """A TOML value, or the text itself where it is none."""
    try:
        table = tomllib.loads(f"value = {raw}")
    except ValueError:  # also for a number of thousands of digits
        return raw
    return table["value"] if len(table) == 1 else raw


def _toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c
            for c in value.replace("\\", "\\\\").replace('"', '\\"')
        )
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)


def search_name(decode: DecodeConfig) -> str:
    """Return a few words on the search for translations."""
    if decode.sample:
        return "sampled"
    if decode.beam == 1:
        return "greedy"
    stop = "" if decode.stop == "full" else f", {decode.stop} stop"
    return f"beam {decode.beam}, length penalty {decode.length_penalty:g}{stop}"
