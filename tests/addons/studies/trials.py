"""Trials of studies for tests: one that says nothing and keeps its files in a folder."""

from pathlib import Path

from crosshead.addons.studies.study import FULL, QUICK, Effort, Trial


def quick(folder: Path) -> Trial:
    return of(QUICK, folder)


def full(folder: Path = Path("runs")) -> Trial:
    return of(FULL, folder)


def of(effort: Effort, folder: Path = Path("runs")) -> Trial:
    return Trial(effort, 1, lambda line: None, folder)
