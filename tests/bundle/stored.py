"""The stored bundles of format 1, and damage to copies of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

STORED = Path(__file__).parent.parent / "fixtures" / "bundle-format-1"
# What `save_bundle(SEALED, load_bundle(STORED), (STORED / "README.md").read_text())` writes.
SEALED = STORED.with_name("bundle-format-1-sealed")


def settings(**changes: Any) -> Callable[[Path], None]:
    """A damage: other values in config.json."""

    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change
