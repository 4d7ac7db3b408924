"""Results of training runs, stored by their settings and by the code that computed them."""

import hashlib
import json
from collections.abc import Callable
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


def _text(run: Any, **more: Any) -> str:
    """Return a run's fields, the version and the code as JSON; configurations become objects."""
    settings = {**run._asdict(), "crosshead": __version__, "code": THIS_CODE, **more}
    return json.dumps(settings, indent=1, default=lambda config: config.model_dump())


def stored_at(run: Any, folder: Path) -> Path:
    """Return the file for the result of a run, a NamedTuple of all its settings, by this code."""
    return folder / f"{hashlib.sha256(_text(run).encode()).hexdigest()[:16]}.json"


def stored(run: Any, folder: Path, compute: Callable[[], Any]) -> Any:
    """Return the stored result of a run; compute and store it first if there is none."""
    place = stored_at(run, folder)
    if not place.is_file():
        found = compute()
        make_directory(folder)
        atomic_write(place, _text(run, found=found).encode())
    return json.loads(place.read_text())["found"]
