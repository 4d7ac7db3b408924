"""Checks of training data from Python: `crosshead.check_data`."""

import logging
import re
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crosshead.addons.checks.check import DataReport
from crosshead.addons.checks.files import check_files
from crosshead.caller import PYTHON, calling_from
from crosshead.config import validate
from crosshead.text.parallel.pairs import Origin
from crosshead.text.parallel.section import DataConfig
from crosshead.training.given_data import GivenData, Pairs, Texts


def check_data(
    *,
    source: Texts | None = None,
    target: Texts | None = None,
    pairs: Pairs | None = None,
    fields: Sequence[str | int] | None = None,
    valid_source: Texts | None = None,
    valid_target: Texts | None = None,
    valid_pairs: Pairs | None = None,
    skip: Collection[str] = (),
) -> DataReport:
    """Look for suspect pairs in parallel text: misaligned, repeated, in another language.

    The data have the forms that `crosshead.train` takes: files, or texts in memory. They are not
    changed.

    Args:
        source: Source sentences.
        target: Their translations, in the same order.
        pairs: Pairs in place of `source` and `target`.
        fields: The source field and the target field of `pairs`: names, or numbers as keys of
            columns in memory.
        valid_source: Source sentences of validation or test sets, which the data should not
            contain.
        valid_target: Their translations.
        valid_pairs: Pairs of validation or test sets, in a form of `pairs`.
        skip: Kinds of suspect pairs that are not looked for: keys of
            `crosshead.addons.checks.suspects.KINDS`.

    Returns:
        The suspect pairs (`suspects`), their number by kind (`counts()`), and the text without them
        (`cleaned()`).

    Raises:
        UserError: If the data cannot be read, or `skip` has an unknown kind.

    Example:
        >>> report = crosshead.check_data(source="train.en", target="train.de")  # doctest: +SKIP
        >>> report.counts()  # doctest: +SKIP
        {'misaligned': 1421, 'language': 578}
    """
    with calling_from(PYTHON), tempfile.TemporaryDirectory() as folder:
        given = GivenData(Path(folder) / "check")
        keys: dict[str, Any] = given.split("train", "", source, target, pairs, None, fields)
        keys |= given.split(
            "valid", "valid_", valid_source, valid_target, valid_pairs, None, fields
        )
        config = validate(DataConfig, keys)
        report, text = check_files(config, skip, logging.getLogger(__name__).info)

    def origin(row: int) -> Origin:
        found = text.origin(row)
        return found._replace(file=_in_memory(found.file, folder))

    suspects = [each._replace(reason=_in_memory(each.reason, folder)) for each in report.suspects]
    verdict = _in_memory(report.verdict, folder)
    return replace(report, origin=origin, suspects=suspects, verdict=verdict)


def _in_memory(text: str, folder: str) -> str:
    """Return a text with the argument in place of the name of its file in `folder`."""
    return re.sub(
        rf"{re.escape(folder)}/\S*?(train|valid)-[0-9a-f]+\.jsonl",
        lambda found: "pairs" if found[1] == "train" else "valid_pairs",
        text,
    )
