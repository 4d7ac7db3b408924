from crosshead.data.documents.formats import FORMATS
from crosshead.data.documents.parts import rebuilt, texts_of

DOCUMENTS = {
    ".txt": "One.\n\nTwo.\n",
    ".md": "# One\n\nTwo `three`.\n",
    ".html": "<p>One &amp; two</p>\n",
    ".srt": "1\n00:00:01,000 --> 00:00:02,000\nOne.\n",
}


def test_a_document_of_each_format_is_rebuilt_from_its_texts() -> None:
    assert DOCUMENTS.keys() == FORMATS.keys()
    for name, parser in FORMATS.items():
        parts = parser(DOCUMENTS[name])
        assert texts_of(parts) and rebuilt(parts, texts_of(parts)) == DOCUMENTS[name]
