"""Term bases of both versions, their languages, and files that are refused."""

from pathlib import Path

import pytest

from crosshead.errors import DataError
from crosshead.text.tbx import tbx_entries

VERSION_2 = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE martif SYSTEM "TBXBasiccoreStructV02.dtd">
<martif type="TBX-Basic" xml:lang="en">
 <martifHeader><fileDesc><sourceDesc><p>test</p></sourceDesc></fileDesc></martifHeader>
 <text><body>
  <termEntry id="1">
   <langSet xml:lang="en-US">
    <tig><term>hard
     disk</term><termNote type="partOfSpeech">noun</termNote></tig>
    <ntig><termGrp><term>HDD &amp; <hi>co</hi></term></termGrp></ntig>
   </langSet>
   <langSet xml:lang="de">
    <tig><term>Fixplatte</term>
     <termNote type="administrativeStatus">deprecatedTerm-admn-sts</termNote></tig>
    <tig><term>Festplatte</term></tig>
   </langSet>
  </termEntry>
  <termEntry id="2"><langSet xml:lang="en-US"><tig><term>mouse</term></tig></langSet></termEntry>
 </body></text>
</martif>"""

VERSION_3 = """<tbx type="TBX-Basic" style="dct" xml:lang="en" xmlns="urn:iso:std:iso:30042:ed-2"
  xmlns:min="http://www.tbxinfo.net/ns/min">
 <text><body>
  <conceptEntry id="c1">
   <langSec xml:lang="en"><termSec><term>colour</term></termSec>
    <termSec><term>color</term>
     <min:administrativeStatus>preferredTerm-admn-sts</min:administrativeStatus></termSec></langSec>
   <langSec xml:lang="fr"><termSec><term>couleur</term></termSec></langSec>
   <langSec xml:lang="pt-BR"><termSec><term>cor</term></termSec></langSec>
   <langSec xml:lang="pt-PT"><termSec><term>côr</term></termSec></langSec>
  </conceptEntry>
 </body></text>
</tbx>"""


def written(folder: Path, text: str) -> Path:
    path = folder / "terms.tbx"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("source", "target"), [("en", "de"), ("en", None), (None, "DE")])
def test_version_2(tmp_path: Path, source: str | None, target: str | None) -> None:
    path = written(tmp_path, VERSION_2)
    [entry] = tbx_entries(path, source, target)
    assert entry == (f"{path}:6", ["hard disk", "HDD & co"], "Festplatte")


def test_version_3(tmp_path: Path) -> None:
    path = written(tmp_path, VERSION_3)
    assert [each[1:] for each in tbx_entries(path, "en", "fr")] == [
        (["color", "colour"], "couleur")
    ]
    assert [each[1:] for each in tbx_entries(path, "fr", "pt-pt")] == [(["couleur"], "côr")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (None, None, "target language is not given; choose one of en, fr, pt-BR, pt-PT"),
        ("en", "ja", "target language 'ja' is missing"),
        ("en", "pt", "target language 'pt' is ambiguous"),
        ("e", "fr", "source language 'e' is missing"),
        (None, "fr", "source language is not given"),
    ],
)
def test_a_language_that_is_missing_or_ambiguous_is_refused(
    tmp_path: Path, source: str | None, target: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        list(tbx_entries(written(tmp_path, VERSION_3), source, target))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tbx><text>", ":1: no well-formed XML"),
        ("en\tde\n", ":1: no well-formed XML"),
        ('<!DOCTYPE tbx [\n<!ENTITY a "aa">]><tbx>&a;</tbx>', ":2: the entity a is declared"),
        (
            '<!DOCTYPE tbx [<!ENTITY % a SYSTEM "/etc/passwd">%a;]><tbx/>',
            "the entity a is declared",
        ),
    ],
)
def test_what_is_no_plain_xml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(tbx_entries(written(tmp_path, text), "en", "de"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        list(tbx_entries(tmp_path / "x.tbx", "en", "de"))
