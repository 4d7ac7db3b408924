"""By which code something was measured: what other code has measured is not found again."""

import hashlib
from pathlib import Path


def digest(package: Path) -> str:
    """Eight digits of all sources of a package: any change is another."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        found.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return found.hexdigest()[:8]


THIS_CODE = digest(Path(__file__).parent.parent)
"""The digest of this package, taken when it was loaded; later changes of the files do not count."""
