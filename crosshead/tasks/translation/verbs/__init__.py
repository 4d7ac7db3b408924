"""The verbs of translation: `translate`, `evaluate`, `compare`, `score` and `align`."""

from crosshead.tasks.translation.verbs import aligning, scoring, translate  # noqa: F401
