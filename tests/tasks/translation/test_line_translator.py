import math
import re
from collections.abc import Callable

import pytest
import torch

import crosshead
from crosshead.decoding.hypotheses import Hypothesis
from crosshead.decoding.settings import DecodeConfig
from crosshead.models.transformer import TransformerConfig
from crosshead.tasks.translation.engine import Engines, Query
from crosshead.tasks.translation.line_translator import TranslatedText, Translation, UsedTerm
from crosshead.tasks.translation.translator import Translator
from crosshead.text.documents.document import Document
from crosshead.text.documents.formats import parser_of
from crosshead.text.glossary import Entry, Glossary
from crosshead.text.markers import MARKERS, TERM_MARKERS
from tests.tasks.translation.test_translator import STORED, english, german
from tests.tasks.translation.translators import untrained


def test_a_paragraph_is_split_at_its_sentences(translator: Translator) -> None:
    sentences = [["one", "two", "three"], ["four"], ["ten", "nine", "eight", "seven"]] * 3
    paragraph = "  ".join(english(words) for words in sentences)
    [[found]] = translator.translate([paragraph])
    assert found.was_split
    assert found.text == "  ".join(german(words) for words in sentences)
    assert found.pieces.count("</s>") == len(sentences)
    assert found.log_prob == pytest.approx(math.fsum(found.piece_log_probs))
    [[short]] = translator.translate(["One two. Three."])
    assert not short.was_split


def test_n_best_of_a_paragraph_are_in_order(translator: Translator) -> None:
    paragraph = " ".join(english(["one", "two", "three", "four"]) for _ in range(4))
    [found] = translator.translate([paragraph], n_best=3)
    assert len({each.text for each in found}) == 3
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("stretch", ["x" * 10_001, "x" * 10**6, "\u0301" * 10_001])
def test_a_line_that_is_no_text_is_passed_through(translator: Translator, stretch: str) -> None:
    line = f" One two. {stretch}\rThree.\r"
    found = translator.translate(["One.", line, "Two."], n_best=2)
    assert [best[0].was_passed_through for best in found] == [False, True, False]
    assert [best[0].text for best in found] == [
        "Eins.", f" One two. {stretch} Three.", "Zwei.",
    ]  # fmt: skip
    [passed] = found[1]
    assert (passed.pieces, passed.log_prob, passed.was_split) == ([], 0.0, False)
    assert translator("One.\n" + "x" * 20_000) == "Eins.\n" + "x" * 20_000


def found(*texts: str) -> list[Translation]:
    return [Translation(text, -1.0, -0.5 - rank, [], []) for rank, text in enumerate(texts)]


def test_the_n_th_translation_joins_the_n_th_of_each_sentence_or_its_last() -> None:
    document = Document.of("<i>One.</i> Two.", parser_of("html"))
    text = TranslatedText.of(document, [found("a", "b", "c"), found("x", "y")], 3)
    assert text.texts == ["<i>a</i> x", "<i>b</i> y", "<i>c</i> y"] and text.text == "<i>a</i> x"
    assert [each.source for each in text.sentences] == ["One.", "Two."]
    assert text.score == pytest.approx(-1.0)


def test_translations_are_different_and_one_is_enough() -> None:
    document = Document.of("One.", parser_of("text"))
    assert TranslatedText.of(document, [found("a", "a")], 2).texts == ["a"]
    nothing = TranslatedText.of(Document.of("\n", parser_of("text")), [], 2)
    assert (nothing.texts, nothing.sentences, nothing.score) == (["\n"], [], 0)


@pytest.fixture(scope="module")
def stored() -> Translator:
    found = crosshead.load(STORED)
    assert isinstance(found, Translator)
    return found


SENTENCE = "One two three four."


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u3000", "\u2009", "\t"])
def test_white_space_of_any_kind_is_a_space(stored: Translator, space: str) -> None:
    [found] = stored.translate([SENTENCE.replace(" ", space)])
    assert found == stored.translate([SENTENCE])[0]


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\ufeff", "\u200e", "\ufe0f"])
def test_what_the_eye_cannot_see_changes_nothing(stored: Translator, mark: str) -> None:
    assert stored(SENTENCE.replace("o", f"o{mark}")) == stored(SENTENCE)


@pytest.mark.parametrize(
    "line",
    [
        "%s One two three.", "{date}: One two three.", "One two ✓", "▾ One two", "%(count)s",
        "One 😆 two three 👨‍👩‍👧‍👦 four five.",
        "One two three https://example.org/a?b=two", "__X__",
        "One <b>two</b> three four <i>five <u>six</u></i>.", 'One two <x id="22"></x> three.',
    ],
)  # fmt: skip
def test_placeholders_and_tags_go_through(stored: Translator, line: str) -> None:
    pattern = re.compile(r"%s|\{date\}|%\(count\)s|https?:\S+|__X__|<[^>]*>|[✓▾😆]|👨.*👦")
    [[found, *_]] = stored.translate([line], n_best=2)
    assert sorted(pattern.findall(found.text)) == sorted(pattern.findall(line))
    plain = pattern.sub("", line).strip(" :")
    if "<" in line and "x id" not in line:  # tags alone change nothing of the text
        assert pattern.sub("", found.text) == stored(plain)
    assert bool(found.pieces) == bool(plain)


@pytest.mark.parametrize("case", [str.upper, str.title])
def test_a_text_in_one_case_is_read_in_another(
    stored: Translator, case: Callable[[str], str]
) -> None:
    usual = stored("One two three four.")
    assert stored(case("One two three four.")) == (usual.upper() if case == str.upper else usual)
    found = stored(case("One ") + "<b>" + case("two") + "</b> {x} " + case("three four."))
    assert sorted(re.findall("<b>|</b>|{x}", found)) == ["</b>", "<b>", "{x}"]


def test_terms_of_a_text_in_capitals_are_in_capitals(stored: Translator) -> None:
    glossary = Glossary([Entry("two", "beide")])
    [[found]] = stored.translate(["ONE TWO THREE FOUR."], glossary=glossary)
    assert "BEIDE" in found.text and found.terms[0].is_used


def test_every_way_to_translate_tags_gives_the_same_text(stored: Translator) -> None:
    line = "One <b>two</b> three four <i>five six</i>."
    found = stored(line)
    assert stored.translate_document(line, "html").text == found
    assert stored.translate_document(line, "markdown").text == found
    assert stored.translate_document(line).text == found


MARKED = [
    "One <b>two</b> three.", "{x} two", "<i>One <b>two</b></i> three {y} four.", "One.",
    "a <b>b</b> {c} <i>d</i> %s 😆 <br/> e",
]  # fmt: skip


@pytest.fixture(scope="module")
def reads_marks() -> Translator:
    """A model that says anything, but has the pieces of marks and terms."""
    shape = TransformerConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=2)
    return untrained(shape, [*MARKERS, *TERM_MARKERS])


@pytest.mark.parametrize("beam", [1, 4])
def test_a_model_that_reads_marks_writes_each_of_them(reads_marks: Translator, beam: int) -> None:
    decode = DecodeConfig(beam=beam, max_extra=200)
    pattern = re.compile(r"</?\w/?>|<br/>|\{.\}|%s|😆")
    for line, found in zip(MARKED, reads_marks.translate(MARKED, decode=decode), strict=True):
        assert sorted(pattern.findall(found[0].text)) == sorted(pattern.findall(line))
        assert not re.search(r"</?\d/?>|</?term>|<as>", found[0].text)
        opened: list[str] = []
        for tag in re.findall(r"</?[bi]>", found[0].text):
            assert tag[1] != "/" or opened.pop() == tag.replace("/", "")
            opened += [tag] if tag[1] != "/" else []


def test_both_engines_keep_marks(
    reads_marks: Translator, engines: Callable[[Translator], Engines]
) -> None:
    planned = reads_marks.planned(MARKED, 0)
    engine, found = engines(reads_marks)(2), dict[int, list[Hypothesis]]()
    batch = engine.batch()
    with torch.inference_mode():
        found |= batch.add([Query(n, ids, 60, 1) for n, ids in enumerate(planned.ids)])
        while len(batch):
            found |= batch.step()
    hypotheses = [found[n] for n in range(len(found))]
    joined = reads_marks.joined(MARKED, planned, hypotheses, 1, None, engine.name)
    for line, [best] in zip(MARKED, joined, strict=True):
        tags = re.compile(r"</?[bi]>|<br/>|\{.\}|%s|😆")
        assert sorted(tags.findall(best.text)) == sorted(tags.findall(line))


GLOSSARY = [Entry("two", "beide"), Entry("three four", "Viererbande")]


def test_an_exact_glossary_is_kept_by_any_model(stored: Translator) -> None:
    glossary = Glossary(GLOSSARY, exact=True)
    lines = [
        "One two three.",
        "One <b>two</b> three four five.",
        "Five three <i>four</i> {x}.",
        "One.",
    ]
    found = [best for [best] in stored.translate(lines, glossary=glossary)]
    assert found[0].text == "Eins beide drei."
    assert found[1].text == "Eins <b>beide</b> Viererbande fünf."
    assert found[2].text == "Fünf <i>Viererbande</i> {x}."
    assert (found[3].text, found[3].terms) == ("Eins.", ())
    assert found[1].terms == (
        UsedTerm("two", "beide", True), UsedTerm("three four", "Viererbande", True)
    )  # fmt: skip


def test_a_model_that_has_learned_terms_is_told_them(reads_marks: Translator) -> None:
    line = "One two <b>three four</b> {x}."
    plain = reads_marks.planned([line], 0).ids
    glossary = Glossary([*GLOSSARY, Entry("One", "One")])  # a term that stays is not told
    told = reads_marks.planned([line], 0, glossary).ids
    decode = reads_marks.bundle.source_tokenizer.decode
    assert decode(plain[0]) == "One two three four<0/>."
    assert decode(told[0]) == (
        "One <term>two<as>beide</term> <term>three four<as>Viererbande</term><0/>."
    )


def test_a_term_with_reserved_pieces_is_not_told(reads_marks: Translator) -> None:
    glossary = Glossary([Entry("two", "<0/> x"), Entry("three", "</term>")])
    [ids] = reads_marks.planned(["One two three."], 0, glossary).ids
    decode = reads_marks.bundle.source_tokenizer.decode
    assert decode(ids) == "One two three."
    [[found]] = reads_marks.translate(["One two three."], glossary=glossary)
    assert "<0/> x" in found.text and "</term>" in found.text


def test_tags_alone_change_nothing_of_the_text(reads_marks: Translator) -> None:
    [tagged, plain] = reads_marks.planned(["One <b>two</b> three.", "One two three."], 0).ids
    assert tagged == plain


def test_a_told_term_that_the_model_has_not_written_is_put_in(reads_marks: Translator) -> None:
    [[found]] = reads_marks.translate(["One two {x}."], glossary=Glossary(GLOSSARY))
    assert found.terms == (UsedTerm("two", "beide", True),)
    assert found.text.lower().count("beide") == found.text.count("{x}") == 1


def test_a_term_that_a_tag_crosses_is_flagged(reads_marks: Translator) -> None:
    [[found]] = reads_marks.translate(["One three <b>four five</b>."], glossary=Glossary(GLOSSARY))
    assert found.terms == (UsedTerm("three four", "Viererbande", False),)
    assert "term" in found.flags
