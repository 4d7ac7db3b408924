"""Averaging of the weights of several bundles (Vaswani et al. 2017, section 6.1)."""

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

from crosshead.bundle.base import Bundle, BundleConfig
from crosshead.bundle.card import (
    command_shown,
    fenced,
    front_matter,
    use,
    without_place,
)
from crosshead.bundle.io import save_bundle
from crosshead.bundle.places import bundle_shown
from crosshead.bundle.weights import set_weights, weights_of
from crosshead.errors import BundleError, UserError
from crosshead.system.files import StrPath, output_directory, real_path
from crosshead.tasks.loading import local_bundle
from crosshead.tasks.registry import TASKS, load_bundle
from crosshead.training.checkpoint import average_weights
from crosshead.training.directory import check_utf8
from crosshead.version import __version__


def average_bundles(bundles: Sequence[StrPath], out: StrPath, command: str = "") -> Bundle:
    """Average the weights of several bundles, and write the new bundle to `out`.

    Reference:
        Vaswani et al. 2017, section 6.1.
    """
    directories, out = [local_bundle(bundle) for bundle in bundles], Path(out)
    if len(directories) < 2:
        raise UserError(f"expected two bundles or more to average, found {len(directories)}")
    for place in (out, *directories):
        check_utf8("the bundle", str(place))
    with output_directory(out) as hidden:
        first, *others = [load_bundle(directory) for directory in directories]
        for directory, other in zip(directories[1:], others, strict=True):
            _check_alike(directories[0], first, directory, other)
        weights = [weights_of(bundle.model) for bundle in (first, *others)]
        set_weights(first.model, average_weights(weights))
        # The old scores belong to other weights.
        changed = {"crosshead": __version__, "scores": []}
        merged = first.merged(others).model_copy(update=changed)
        averaged = dataclasses.replace(first, config=merged)
        card = _card(real_path(out).name, averaged.config, directories, command)
        save_bundle(hidden, averaged, card, new=True)
    return averaged


def _check_alike(first: Path, expected: Bundle, directory: Path, found: Bundle) -> None:
    if type(found) is not type(expected):
        raise BundleError(f"{directory}: is for another task than {first}")
    for key in type(expected.config.model).model_fields:
        left, right = getattr(expected.config.model, key), getattr(found.config.model, key)
        # Dropout acts in training only.
        if left != right and not key.endswith("dropout"):
            raise BundleError(
                f"{directory}: model.{key} is {right!r}, but {first} has {left!r}; only bundles of "
                "one shape can be averaged"
            )
    why = expected.why_not_averaged(found)
    if why:
        raise BundleError(f"{directory}: {why.format(first=first)}")


def _card(name: str, config: BundleConfig, directories: Sequence[Path], command: str) -> str:
    words = TASKS[config.task].pipeline.words(config)
    sources = "\n".join(
        f"- `{without_place(bundle_shown(directory))}`" for directory in directories
    )
    sections = [
        front_matter(name, words, licence=getattr(config, "license", None)),
        f"# {name}\n\nA model ({config.model.architecture}) that {words.does}. Its weights are the "
        f"mean of the weights of {len(directories)} bundles; their cards name the training data:",
        sources,
        use(words),
        "## Scores\n\nNone was measured: `crosshead evaluate` does.",
        "## Origin",
        *([fenced("sh", command_shown(command))] if command else []),
        f"crosshead {__version__}, torch {torch.__version__}, python {platform.python_version()}.",
    ]
    return "\n\n".join(sections) + "\n"
