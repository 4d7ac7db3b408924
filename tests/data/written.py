"""What the tests of corpora share: files written, configurations of them, refusals."""

import gzip
from pathlib import Path

import pytest

from crosshead.config import validate
from crosshead.data.parallel.corpora import DataConfig
from crosshead.errors import UserError


def config(**values: object) -> DataConfig:
    as_given = {
        key: [str(path) for path in value] if isinstance(value, list) else value
        for key, value in values.items()
    }
    return validate(DataConfig, as_given)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def refusal(*read: object) -> str:
    """The one line with which `read[0]` refuses the rest."""
    function, *arguments = read
    assert callable(function)
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)
