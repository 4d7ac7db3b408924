"""Bundles: a trained model as one directory, the only stored form of a model.

Names are imported at their first use, because some parts of bundles are read without PyTorch.
"""

from crosshead.extensions import imported_at_use

TYPE_CHECKING = False  # that of typing, which takes longer to import than a Ctrl-C waits
if TYPE_CHECKING:
    from crosshead.bundle.base import Bundle, BundleConfig
    from crosshead.bundle.card import CardFile, Words
    from crosshead.bundle.config import BundleScore
    from crosshead.bundle.files import verify_bundle
    from crosshead.bundle.io import save_bundle
    from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig

_HOMES = {
    "Bundle": "crosshead.bundle.base",
    "BundleConfig": "crosshead.bundle.base",
    "BundleScore": "crosshead.bundle.config",
    "CardFile": "crosshead.bundle.card",
    "TextBundle": "crosshead.bundle.text_bundle",
    "TextBundleConfig": "crosshead.bundle.text_bundle",
    "Words": "crosshead.bundle.card",
    "save_bundle": "crosshead.bundle.io",
    "verify_bundle": "crosshead.bundle.files",
}

__all__ = [
    "Bundle",
    "BundleConfig",
    "BundleScore",
    "CardFile",
    "TextBundle",
    "TextBundleConfig",
    "Words",
    "save_bundle",
    "verify_bundle",
]

__getattr__ = imported_at_use(__name__, _HOMES)
