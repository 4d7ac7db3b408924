"""All studies by name."""

from crosshead.config import nearest
from crosshead.errors import ConfigError
from crosshead.studies.feedforward import FEEDFORWARD
from crosshead.studies.gradients import GRADIENTS
from crosshead.studies.masks import MASKS
from crosshead.studies.scaling import SCALING
from crosshead.studies.sets import SETS
from crosshead.studies.sinusoids import SINUSOIDS
from crosshead.studies.study import Study

STUDIES: dict[str, Study] = {
    "scaling": SCALING,
    "sets": SETS,
    "sinusoids": SINUSOIDS,
    "masks": MASKS,
    "feedforward": FEEDFORWARD,
    "gradients": GRADIENTS,
}
"""In the order in which they are run and listed."""


def chosen(name: str) -> list[Study]:
    """The study of that name, or `all`; raises `ConfigError` where there is none."""
    if name == "all":
        return list(STUDIES.values())
    if name not in STUDIES:
        raise ConfigError(f"no study {name!r}; {nearest(name, [*STUDIES, 'all', 'list'])}")
    return [STUDIES[name]]
