"""The command line: its verbs, their flags and their help. What they do is done elsewhere.

Whatever is slow to import (PyTorch above all) is imported inside the verb that needs it, so that
`crosshead --help` answers at once.
"""

from crosshead.cli import training, translation, text, inspection, studies, others  # noqa: F401, I001 - in this order
from crosshead.cli.app import app, main, run

__all__ = ["app", "main", "run"]
