"""Notes about test data that the training of a model has used."""

from collections.abc import Sequence
from pathlib import Path

from crosshead.bundle.places import CARD
from crosshead.cli.terminal import note
from crosshead.errors import BundleError
from crosshead.system.lines import file_sha256
from crosshead.system.stored import read_stored

SEEN = (
    "the training of this model used these data, so the scores are too good for new data; give "
    "data that were kept out of it"
)


def on_card(bundle: Path, sha256: str) -> bool:
    """Return whether the card of a bundle lists training data with this checksum."""
    try:
        return sha256.encode() in read_stored(bundle / CARD)
    except BundleError:  # a bundle need not have a card
        return False


def say_if_seen(bundles: Sequence[Path], files: Sequence[str | Path]) -> None:
    """Print a note that names the files that the card of a bundle lists as training data."""
    seen = []
    for file in files:
        if Path(file).is_file():
            sha256 = file_sha256(Path(file))
            if any(on_card(bundle, sha256) for bundle in bundles):
                seen.append(str(file))
    if seen:
        note(f"{', '.join(seen)}: {SEEN}")
