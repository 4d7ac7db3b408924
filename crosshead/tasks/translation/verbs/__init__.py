"""The verbs of translation: `translate`, `evaluate`, `compare` and `score`."""

from crosshead.tasks.translation.verbs import scoring, translate  # noqa: F401
