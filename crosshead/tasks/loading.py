"""Load a bundle, local or from a hub, as the pipeline of its task: `crosshead.load`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from crosshead.bundle.base import Bundle
from crosshead.bundle.places import CARD, CONFIG, WEIGHTS, bundle_shown, hub_name
from crosshead.bundle.text_bundle import TextBundle
from crosshead.config import nearest
from crosshead.errors import BundleError, ConfigError
from crosshead.system.devices import choose_device, choose_threads, hold_kernels
from crosshead.system.files import StrPath, real_path
from crosshead.tasks.pipeline import Pipeline
from crosshead.tasks.registry import TASKS, kinds, load_bundle
from crosshead.tasks.translation.ensemble import EnsembleTranslator
from crosshead.tasks.translation.translator import Translator

T = TypeVar("T", bound=Pipeline)

PRECISIONS = ["float32", "bfloat16"]
"""Number formats of the computation and the weights. Sums and statistics are in float32 in both."""


def load(
    path: StrPath | Sequence[StrPath],
    device: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
) -> Any:
    """Load the bundle at `path` as the pipeline of its task, such as a `Translator`.

    Args:
        path: The directory of a bundle, a packed bundle, or a model on a hub,
            `hf://ORG/NAME@revision`. A list of several bundles that translate is an ensemble: see
            `EnsembleTranslator`.
        device: The device, as `choose_device` takes it.
        threads: The number of CPU threads, as `choose_threads` takes it; None keeps PyTorch's.
        precision: One of `PRECISIONS`. On a processor with hardware support, `bfloat16` is about
            one and a half times as fast. It sometimes finds another translation.

    Returns:
        The pipeline.

    Raises:
        BundleError: If there is no valid bundle at `path`, or several bundles are no ensemble.
        ConfigError: If the device, the number of threads or the precision is not available.
    """
    places = _places(path)
    chosen = choose_device(device)
    if precision not in PRECISIONS:
        raise ConfigError(f"unknown precision {precision!r}; {nearest(precision, PRECISIONS)}")
    if threads is not None:
        choose_threads(threads)
    hold_kernels()
    bundles = {}
    for name, place in places.items():
        bundle = load_bundle(place, chosen)
        bundle.model.to(getattr(torch, precision))
        bundles[name] = bundle
    if len(bundles) > 1:
        return _ensemble(bundles)
    return TASKS[bundle.config.task].pipeline(bundle)


def _places(path: StrPath | Sequence[StrPath]) -> dict[str, Path]:
    """Return the local paths of one or several bundles, by their names."""
    names = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not names:
        raise BundleError("expected a bundle, or several bundles of an ensemble, found none")
    local = [local_bundle(name) for name in names]
    real = [real_path(place) for place in local]
    for name, found in zip(names, real, strict=True):
        if real.count(found) > 1:
            raise BundleError(f"{name} is given twice; name each bundle of an ensemble once")
    return {bundle_shown(name): place for name, place in zip(names, local, strict=True)}


def _ensemble(bundles: Mapping[str, Bundle]) -> EnsembleTranslator:
    """Return the translator of several bundles."""
    translating: dict[str, TextBundle] = {}
    for name, bundle in bundles.items():
        pipeline = TASKS[bundle.config.task].pipeline
        if not issubclass(pipeline, Translator) or not isinstance(bundle, TextBundle):
            raise BundleError(
                f"{name} is a model that {pipeline.does}; only models that translate text form an "
                "ensemble: give this bundle alone"
            )
        translating[name] = bundle
    return EnsembleTranslator(translating)


def load_as(
    kind: type[T],
    path: StrPath | Sequence[StrPath],
    device: str = "auto",
    threads: int | None = None,
    precision: str = "float32",
) -> T:
    """Load a bundle as a pipeline of the class `kind`."""
    found = load(path, device, threads, precision)
    if not isinstance(found, kind):
        named = [path] if isinstance(path, str | os.PathLike) else path
        places = [*map(bundle_shown, named)]
        usage = found.usage_of(found.bundle.config)
        usage = usage.format(command=f"crosshead {found.verb}", bundle=" ".join(places))
        what = f"{' and '.join(places)} is a model that {found.does}"
        raise BundleError(f"{what}; {usage[0].lower()}{usage[1:]}")
    return found


def local_bundle(path: StrPath) -> Path:
    """Return the local path of a bundle, after downloading it if it is named on a hub."""
    name = hub_name(path)
    if name is None:
        return Path(path)
    from crosshead.bundle.hub import download_bundle

    own = {file for kind in kinds().values() for file in kind.own_files}
    return download_bundle(name, {CONFIG, WEIGHTS, CARD, *own})
