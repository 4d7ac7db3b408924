"""Times of the studies, for `study list` and `--minutes`: seconds on two cores of an AMD EPYC.

The full times come from the recorded runs (`seconds` in each NAME.json). Where a study has changed
since, its time is in proportion to the recorded one, or estimated from the size of its
computations; the comment says which. The quick times were taken with one thread beside other work.
"""

from crosshead.studies.effort import Times

TIMES: dict[str, Times] = {
    "bottleneck": Times(quick=26, full=5100),
    "scaling": Times(quick=7, full=185),
    "sets": Times(quick=6, full=135),  # recorded with one seed: 67
    "sinusoids": Times(quick=1, full=6),
    "extrapolation": Times(quick=2, full=890),  # recorded with one seed: 446
    "masks": Times(quick=1, full=1),
    "feedforward": Times(quick=7, full=463),
    "gradients": Times(quick=3, full=96),  # recorded with one seed: 48
    "parallelism": Times(quick=4, full=574),
    "heads": Times(quick=8, full=1980),  # recorded with one seed's heads removed: 1,920
    "headcost": Times(quick=1, full=125),
    "table1": Times(quick=2, full=70),
    "long": Times(quick=16, full=500),  # recorded with one seed: 305
    "stability": Times(quick=2, full=1500),  # estimated
}
"""By the name of the study."""
