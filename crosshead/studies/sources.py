"""Results of training runs, stored by their settings and by the code that computed them."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crosshead import __version__
from crosshead.system.files import atomic_write, make_directory


def digest(package: Path) -> str:
    """Return eight digits that change with any source file of a package."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return found.hexdigest()[:8]


THIS_CODE = digest(Path(__file__).parent.parent)
"""The digest of this package, taken when it was loaded; later changes of the files do not count."""


def _all_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "crosshead": __version__, "code": THIS_CODE}


def stored_at(settings: Mapping[str, Any], folder: Path) -> Path:
    """Return the file for the result of a run with these settings, by this code."""
    name = hashlib.sha256(json.dumps(_all_settings(settings)).encode()).hexdigest()[:16]
    return folder / f"{name}.json"


def stored(settings: Mapping[str, Any], folder: Path, compute: Callable[[], Any]) -> Any:
    """Return the stored result of a run; compute and store it first if there is none."""
    place = stored_at(settings, folder)
    if not place.is_file():
        found = json.dumps({**_all_settings(settings), "found": compute()}, indent=1)
        make_directory(folder)
        atomic_write(place, found.encode())
    return json.loads(place.read_text())["found"]
