"""Pipelines: a bundle as a function on raw text."""

from crosshead.pipelines.loading import load, load_as
from crosshead.pipelines.mask_filler import Filler
from crosshead.pipelines.text_generator import Writer
from crosshead.pipelines.translator import Translator

__all__ = ["Filler", "Translator", "Writer", "load", "load_as"]
