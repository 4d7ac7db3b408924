"""The registry of studies."""

import math
from collections.abc import Sequence

from crosshead.addons.studies.bottleneck import BOTTLENECK
from crosshead.addons.studies.extrapolation import EXTRAPOLATION
from crosshead.addons.studies.feedforward import FEEDFORWARD
from crosshead.addons.studies.forecasting import LINEAR, PATCHES
from crosshead.addons.studies.gradients import GRADIENTS, MASKS
from crosshead.addons.studies.heads import HEADCOST, HEADS
from crosshead.addons.studies.long import LONG
from crosshead.addons.studies.parallelism import PARALLELISM
from crosshead.addons.studies.positions import SETS, SINUSOIDS
from crosshead.addons.studies.regularisation import REGULARISATION
from crosshead.addons.studies.scaling import SCALING
from crosshead.addons.studies.scenes import GROUNDING, MULTIMODAL
from crosshead.addons.studies.stability import STABILITY
from crosshead.addons.studies.study import FULL, QUICK, Effort, Study, effort_within
from crosshead.addons.studies.table1 import TABLE1
from crosshead.addons.studies.vision import VISION
from crosshead.config import nearest
from crosshead.errors import ConfigError

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        BOTTLENECK, SCALING, SETS, SINUSOIDS, EXTRAPOLATION, MASKS, FEEDFORWARD, GRADIENTS,
        PARALLELISM, STABILITY, HEADS, HEADCOST, TABLE1, LONG, LINEAR,
        PATCHES, GROUNDING, VISION, MULTIMODAL, REGULARISATION,
    )
}  # fmt: skip
"""In the order in which they are run and listed."""


def chosen(name: str) -> list[Study]:
    """Return the study of this name, or all studies for `all`."""
    if name == "all":
        return list(STUDIES.values())
    if name not in STUDIES:
        raise ConfigError(f"unknown study {name!r}; {nearest(name, [*STUDIES, 'all', 'list'])}")
    return [STUDIES[name]]


def effort_of(studies: Sequence[Study], *, quick: bool, minutes: float | None) -> Effort:
    """Return the effort that a command asks for: full, quick, or within minutes for all studies."""
    if minutes is None:
        return QUICK if quick else FULL
    if quick:
        raise ConfigError("--quick and --minutes exclude each other; give one of them")
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes {minutes:g}: expected a number above 0, such as 10")
    return effort_within(minutes, [study.seconds for study in studies])
