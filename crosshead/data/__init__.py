"""Data to ids and batches. Imports no model."""

from crosshead.data.section import DataSection

__all__ = ["DataSection"]
