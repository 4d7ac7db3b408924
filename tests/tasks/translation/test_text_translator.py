import re
from dataclasses import replace

import pytest

import crosshead
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.translators import STORED


def test_the_chosen_language_puts_its_tag_before_each_line(several: Translator) -> None:
    german, tagged = several.into("de"), several.of_tagged_lines()
    lines = ["abc", " spaced ", "x"]
    written = [f"<2de> {line.strip()}" for line in lines]
    for alone, other in zip(german.translate(lines), tagged.translate(written), strict=True):
        assert alone[0].text.strip() == other[0].text.strip()
        assert alone[0].piece_log_probs == other[0].piece_log_probs
    assert german.score(lines, lines) == tagged.score(written, lines)
    assert german.score(lines, lines) != several.into("fr").score(lines, lines)
    assert several.into("fr").into("de")(lines) == german(lines)
    assert (german.target_language, tagged.target_language) == ("de", None)
    assert german.facts()[1] == ["languages", "to de and fr, by a tag"]


def test_a_missing_or_wrong_language_is_refused(several: Translator) -> None:
    message = "this model translates to de and fr: choose the language with --to de, or with into"
    for call in (lambda: several("abc"), lambda: several.score(["a"], ["b"])):
        with pytest.raises(ConfigError, match=message):
            call()
    with pytest.raises(ConfigError, match="does not translate to 'cs'; it translates to de and fr"):
        several.into("cs")
    plain = crosshead.load(STORED, "cpu")
    assert plain.into("de") is plain
    with pytest.raises(ConfigError, match="does not translate to 'fr'; it translates to de: leave"):
        plain.into("fr")


def test_a_model_of_one_tag_needs_no_choice(several: Translator) -> None:
    config = several.bundle.config.model_copy(update={"target_languages": ["fr"]})
    only = Translator(replace(several.bundle, config=config))
    assert only("abc") == several.into("fr")("abc")


def test_the_parts_of_a_long_line_have_a_tag_each(several: Translator) -> None:
    german = several.into("de")
    sentences = ["Aa bb cc dd ee.", "Ff gg hh ii jj.", "Kk ll mm nn oo."]
    [[found]] = german.translate([" ".join(sentences)])
    assert found.was_split
    alone = german.translate(sentences)
    assert found.piece_log_probs == pytest.approx(
        [value for [each] in alone for value in each.piece_log_probs], abs=1e-4
    )


def test_a_document_keeps_its_markup_and_its_sentences_have_all_translations() -> None:
    translator = crosshead.load(STORED)
    sentences = ["A dog runs.", "Two men sit."]
    page = "<p>A <!-- x -->dog\n<b>runs. Two</b> men sit.</p>"
    found = translator.translate_document(page, "html", n_best=2)
    expected = translator.translate(sentences, n_best=2)
    read = re.sub("<.*?>", "", found.text)
    assert " ".join(read.split()) == " ".join(each[0].text for each in expected)
    assert re.findall("<.*?>", found.text) == ["<p>", "<!-- x -->", "<b>", "</b>", "</p>"]
    assert [" ".join(each.source.split()) for each in found.sentences] == sentences
    assert [each.translations for each in found.sentences] == expected
    assert len(found.texts) == 2
    greedy = translator.translate_document("A dog runs.", decode=DecodeConfig(beam=1))
    assert (
        greedy.sentences[0].translations
        == translator.translate(["A dog runs."], decode=DecodeConfig(beam=1))[0]
    )


def test_a_document_of_an_unknown_format_is_refused(random_translator: Translator) -> None:
    with pytest.raises(ConfigError, match="unknown format 'docx'"):
        random_translator.translate_document("", "docx")
