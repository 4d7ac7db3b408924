"""Bundles: a trained model as one directory, the only stored form of a model."""

from crosshead.bundle.base import Bundle
from crosshead.bundle.card import CardFile, Words
from crosshead.bundle.config import BundleConfig, BundleScore
from crosshead.bundle.files import verify_bundle
from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig

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
