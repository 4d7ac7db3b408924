"""The bundle: a trained model as one directory, the only form in which a model stands on disk."""

from crosshead.bundle.config import BundleConfig, BundleScore
from crosshead.bundle.io import Bundle, load_bundle, save_bundle, verify_bundle

__all__ = ["Bundle", "BundleConfig", "BundleScore", "load_bundle", "save_bundle", "verify_bundle"]
