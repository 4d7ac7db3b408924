"""Sentences that have tags: whether their translations have them all, nested alike.

    python benchmarks/tagged_lines.py BUNDLE FILE

FILE has a text a line, with tags of XML, which is translated as clients of DeepL ask for it. The
last line has the number of texts with tags, and how many translations have all tags, and the same
tree of tags up to the order of neighbours, which a parser of XML reads.
"""

import argparse
import re
from pathlib import Path
from xml.etree import ElementTree

from judge import lines_of

from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from crosshead.text.documents.document import Document
from crosshead.text.documents.xml import xml_parts

TAG = re.compile(r"<[^<>]+>")


def tree(line: str) -> object:
    """Return the tree of tags of a line, neighbours in the order of the alphabet."""

    def of(element: ElementTree.Element) -> tuple[str, list[object]]:
        return element.tag + str(sorted(element.attrib.items())), sorted(map(of, element), key=repr)

    return of(ElementTree.fromstring(f"<line>{line}</line>"))


def main() -> None:
    """Translate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bundle")
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    lines = [line for line in lines_of(given.file) if TAG.search(line)]
    translate = load_as(Translator, given.bundle)
    documents = [Document.of(line, xml_parts, translate.source_language) for line in lines]
    sentences = iter(translate([each for document in documents for each in document.sentences]))
    found = [
        document.with_translations([next(sentences) for _ in document.sentences])
        for document in documents
    ]
    kept = equal = 0
    for line, output in zip(lines, found, strict=True):
        kept += sorted(TAG.findall(line)) == sorted(TAG.findall(output))
        try:
            equal += tree(line) == tree(output)
        except ElementTree.ParseError as error:
            print(f"{error}: {line}\n    {output}")
    print(f"{len(lines)} sentences with tags: all tags {kept}, the same tree {equal}")


if __name__ == "__main__":
    main()
