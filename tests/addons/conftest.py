"""Fixtures of the core that add-ons share."""

from tests.bundle.conftest import sealed, stored  # noqa: F401
from tests.cli.conftest import corpus, refused  # noqa: F401
from tests.tasks.translation.conftest import engine_name, engines, translator  # noqa: F401
from tests.training.conftest import finished, given, text  # noqa: F401
