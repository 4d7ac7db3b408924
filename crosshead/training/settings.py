"""The recipe of a run, new, resumed or fine-tuned, and what may not change in the last two."""

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crosshead.bundle import RECIPE, BundleConfig, load_config
from crosshead.config import nearest, read_toml
from crosshead.data.tokenizers import Tokenizer, load_tokenizers
from crosshead.errors import ConfigError, UserError
from crosshead.training.directory import nothing_to_resume
from crosshead.training.presets import Sections
from crosshead.training.recipe import Recipe, compose, stated

CHANGEABLE = {
    "train": {
        "max_updates", "max_epochs", "max_minutes", "patience", "log_every", "keep_last", "average",
        "device", "threads", "sharded", "accumulate", "recompute", "learning_rate",
    },
    "data": {
        "source", "target", "pairs", "valid_source", "valid_target", "valid_pairs",
        "text", "valid_text",
        "source_language", "target_language",
    },
}  # fmt: skip
"""What may be other than it was when a run is resumed, beside all of `[decode]`: of the files of
the text their names, not their number. What is in them is checked when they are read."""

OPEN: Sections = {
    "tokenizer": {"vocab_size": None},
    "train": {"warmup": None, "valid_every": 0, "precision": "auto"},
}
"""How a recipe leaves to the run what the run then chooses for good."""

OF_TRAINING = {"dropout", "attention_dropout", "activation_dropout", "sampling"}
"""What `[model]` and `[tokenizer]` say that a bundle is not bound to."""

BEGIN_ANOTHER = "resume it with that, or begin another with a new --out"


def without_unset(flags: Mapping[str, Mapping[str, Any]]) -> Sections:
    """The sections with the values that were given, without those that are None."""
    return {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in flags.items()
    }


def new_recipe(
    preset: str | None,
    recipe: str | None,
    flags: Sections,
    assignments: Sequence[str],
    start: Path | None = None,
) -> Recipe:
    """The recipe of a new run; `recipe` is a TOML file or a name.

    The model and the tokenizer of the bundle `start`, which is to be fine-tuned, stand in the place
    of the preset's, and so does the context that it read text in. Raises `ConfigError`, and
    `BundleError` where `start` is no bundle.
    """
    if start is None:
        return _composed(preset, recipe, flags, assignments)
    config = load_config(start)
    source, _ = load_tokenizers(start, joint=config.joint_tokenizer)
    below = sections_of(config, source)
    _check_architecture(
        below, recipe, flags, assignments, f"that of the bundle {start}",
        "fine-tuning keeps the model: leave the architecture out (--model), or train a new model "
        "without --from",
    )  # fmt: skip
    return _composed(preset, recipe, flags, assignments, below)


def resumed_recipe(
    out: Path, recipe: str | None, flags: Sections, assignments: Sequence[str]
) -> Recipe:
    """The recipe that the run in `out` began with, below what is given now.

    Whether that may change is for `check_resumed` to say. Raises `UserError` where there is no run,
    and `ConfigError`.
    """
    below = stored_recipe(out).model_dump()
    whose = f"but the run in {out} began with"
    _check_architecture(below, recipe, flags, assignments, whose, BEGIN_ANOTHER)
    return _composed(None, recipe, flags, assignments, below)


def stored_recipe(out: Path) -> Recipe:
    """The recipe of the run in `out`; raises `UserError` where there is none."""
    path = out / RECIPE
    if not path.is_file():
        raise UserError(nothing_to_resume(out))
    return compose(recipe=read_toml(path), where=str(path))


def check_resumed(began: Recipe, now: Recipe, out: Path) -> Recipe:
    """`now`, with what the run in `out` has chosen where it leaves the choice open.

    Raises `ConfigError` for what differs from the recipe it `began` with and may not.
    """
    for section, keys in OPEN.items():
        before, after = getattr(began, section), getattr(now, section)
        chosen = {key: getattr(before, key) for key in keys if getattr(after, key) == keys[key]}
        now = now.model_copy(update={section: after.model_copy(update=chosen)})
    for section in ("data", "tokenizer", "model", "train"):
        before, after = getattr(began, section), getattr(now, section)
        for key in type(after).model_fields:
            left, right = getattr(before, key), getattr(after, key)
            may_change = key in CHANGEABLE.get(section, ()) and _as_many(left, right)
            if left != right and not may_change:
                raise ConfigError(
                    f"{section}.{key} is {right!r}, but the run in {out} began with {left!r}; "
                    f"{BEGIN_ANOTHER}"
                )
    return now


def _as_many(left: Any, right: Any) -> bool:
    """Whether two values are lists of one length, or none."""
    return not isinstance(left, list) or len(left) == len(right)


def sections_of(config: BundleConfig, tokenizer: Tokenizer) -> Sections:
    """What a recipe would say of a bundle: its model, its (source) tokenizer, its languages.

    Of a model of text by itself also how much of it was read at once.
    """
    context = {} if config.model.task == "translation" else {"context": config.longest_source}
    return {
        "data": {
            **context,
            "source_language": config.source_language,
            "target_language": config.target_language,
        },
        "tokenizer": {
            "kind": tokenizer.kind,
            "vocab_size": tokenizer.vocab_size,
            "joint": config.joint_tokenizer,
            "special": tokenizer.special,
            "sampling": tokenizer.sampling,
        },
        "model": config.model.model_dump(),
    }


def check_fine_tuned(bundle: Sections, recipe: Recipe, start: Path) -> None:
    """Raise `ConfigError` where the recipe is of another model or tokenizer than the bundle's.

    `bundle` is what `sections_of` says of the one in `start`.
    """
    for section in ("tokenizer", "model"):
        for key, value in bundle[section].items():
            found = getattr(getattr(recipe, section), key)
            if found != value and key not in OF_TRAINING:
                raise ConfigError(
                    f"{section}.{key} is {found!r}, that of the bundle {start} {value!r}; "
                    f"fine-tuning keeps model and tokenizer: leave {section}.{key} out"
                )


def _composed(
    preset: str | None,
    recipe: str | None,
    flags: Sections,
    assignments: Sequence[str],
    below: Sections | None = None,
) -> Recipe:
    tables = None if recipe is None else read_recipe(recipe)
    return compose(preset, tables, flags, assignments, where=recipe or "", below=below)


def _check_architecture(
    below: Sections,
    recipe: str | None,
    flags: Sections,
    assignments: Sequence[str],
    whose: str,
    advice: str,
) -> None:
    """Raise `ConfigError` where another architecture is stated than that of the model `below`.

    What is said of that model fits no other: each of its keys would be found at fault.
    """
    tables = None if recipe is None else read_recipe(recipe)
    model = stated(tables, flags, assignments, where=recipe or "")["model"]
    kept = below["model"]["architecture"]
    found = model.get("architecture", kept)
    if found != kept:
        raise ConfigError(f"model.architecture is {found!r}, {whose} {kept!r}; {advice}")


def read_recipe(name: str) -> dict[str, Any]:
    """The tables of a recipe: of the TOML file, or of the shipped recipe, of that name."""
    if name.endswith(".toml"):
        return read_toml(Path(name))
    shipped = importlib.resources.files("crosshead") / "recipes"
    names = sorted(
        entry.name.removesuffix(".toml")
        for entry in (shipped.iterdir() if shipped.is_dir() else ())
        if entry.name.endswith(".toml")
    )
    if name not in names:
        advice = nearest(name, names) if names else "give the path of a .toml file"
        raise ConfigError(f"there is no recipe {name!r}; {advice}")
    with importlib.resources.as_file(shipped / f"{name}.toml") as path:
        return read_toml(path)
