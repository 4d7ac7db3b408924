"""Trials of studies for tests: one that says nothing and keeps its files in a folder."""

from pathlib import Path

from crosshead.addons.studies.study import Trial


def quick(folder: Path = Path("runs")) -> Trial:
    return Trial(True, 1, lambda line: None, folder)


def full(folder: Path = Path("runs")) -> Trial:
    return Trial(False, 1, lambda line: None, folder)
