"""Places of bundles: directories, packed bundles, and names of models on a hub."""

from pathlib import Path

from crosshead.bundle.places import CARD, CONFIG, WEIGHTS, hub_name
from crosshead.system.files import StrPath
from crosshead.tasks.registry import kinds


def local_bundle(path: StrPath) -> Path:
    """Return the local path of a bundle, after downloading it if it is named on a hub."""
    name = hub_name(path)
    if name is None:
        return Path(path)
    from crosshead.bundle.hub import download_bundle

    own = {file for kind in kinds().values() for file in kind.own_files}
    return download_bundle(name, {CONFIG, WEIGHTS, CARD, *own})
