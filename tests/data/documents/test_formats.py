import pytest

from crosshead.data.documents.formats import ENDS, FORMATS, parser_of
from crosshead.data.documents.parts import rebuilt, texts_of
from crosshead.errors import ConfigError

DOCUMENTS = {
    "text": "One.\n\nTwo.\n",
    "markdown": "# One\n\nTwo `three`.\n",
    "html": "<p>One &amp; two</p>\n",
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nOne.\n",
}


def test_a_document_of_each_format_is_rebuilt_from_its_texts() -> None:
    assert DOCUMENTS.keys() == FORMATS.keys() == set(ENDS.values())
    for name in FORMATS:
        parts = parser_of(name)(DOCUMENTS[name])
        assert texts_of(parts) and rebuilt(parts, texts_of(parts)) == DOCUMENTS[name]


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown format 'htm'; did you mean 'html'"):
        parser_of("htm")
