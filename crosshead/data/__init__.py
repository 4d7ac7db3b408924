"""Data to ids and batches. Imports no model."""

from crosshead.data.section import DataSection
from crosshead.system.lines import file_sha256

__all__ = ["DataSection", "file_sha256"]
