"""All studies by name."""

from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.studies.bottleneck import BOTTLENECK
from crosshead.studies.extrapolation import EXTRAPOLATION
from crosshead.studies.feedforward import FEEDFORWARD
from crosshead.studies.gradients import GRADIENTS
from crosshead.studies.heads import HEADS
from crosshead.studies.long import LONG
from crosshead.studies.masks import MASKS
from crosshead.studies.parallelism import PARALLELISM
from crosshead.studies.scaling import SCALING
from crosshead.studies.sets import SETS
from crosshead.studies.sinusoids import SINUSOIDS
from crosshead.studies.study import Study
from crosshead.studies.table1 import TABLE1

STUDIES: dict[str, Study] = {
    "bottleneck": BOTTLENECK,
    "scaling": SCALING,
    "sets": SETS,
    "sinusoids": SINUSOIDS,
    "extrapolation": EXTRAPOLATION,
    "masks": MASKS,
    "feedforward": FEEDFORWARD,
    "gradients": GRADIENTS,
    "parallelism": PARALLELISM,
    "heads": HEADS,
    "table1": TABLE1,
    "long": LONG,
}
"""In the order in which they are run and listed."""


def chosen(name: str) -> list[Study]:
    """The study of that name, or `all`; raises `ConfigError` where there is none."""
    if name == "all":
        return list(STUDIES.values())
    if name not in STUDIES:
        raise ConfigError(f"no study {name!r}; {nearest(name, [*STUDIES, 'all', 'list'])}")
    return [STUDIES[name]]
