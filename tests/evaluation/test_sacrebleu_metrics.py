import sys
from pathlib import Path

import pytest
import sacrebleu

from crosshead.addons.vision.scores import multi_bleu
from crosshead.errors import ConfigError, DataError
from crosshead.evaluation.sacrebleu_metrics import (
    bleu,
    check_sizes,
    compare,
    corpus_scores,
    default_tokenisation,
    exact_match,
    interval,
    metric_scores,
    sentence_chrf,
    tokenised_warning,
)
from tests.evaluation.texts import BAD, GOOD, REFERENCES


def test_scores_are_those_of_sacrebleu() -> None:
    named, chrf, ter = metric_scores(GOOD, [REFERENCES], ["bleu", "chrf", "ter"], None)
    expected = sacrebleu.corpus_bleu(GOOD, [REFERENCES]).score
    assert bleu(GOOD, REFERENCES) == named.value == pytest.approx(expected)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score)
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(GOOD, [REFERENCES]).score)
    assert [score.metric for score in (named, chrf, ter)] == ["BLEU", "chrF2", "TER"]
    assert "tok:13a" in named.signature
    assert f"version:{sacrebleu.__version__}" in named.signature
    for score in (named, chrf, ter):
        assert score.low < score.value < score.high


@pytest.mark.parametrize(
    ("text", "tokenisation"),
    [
        ("我们今天去公园散步了。", "zh"), ("我们今天用Python写程序。", "zh"),
        ("今日は公園を散歩しました。", "char"), ("วันนี้เราไปเดินเล่น", "char"),
        ("Wir gehen heute im Park spazieren, 公园.", "13a"), ("12.5", "13a"),
        ("오늘 공원에 갔다", "13a"), ("ꦲꦏ꧀ꦱꦫꦗꦮ", "char"),
    ],
)  # fmt: skip
def test_text_without_spaces_is_not_one_word(text: str, tokenisation: str) -> None:
    references = [text] * 20
    assert default_tokenisation([*references, None, ""]) == tokenisation
    [score] = metric_scores(references, [references], ["bleu"], None)
    assert f"tok:{tokenisation}|" in score.signature
    own = [f"{text}{text}" for _ in range(20)]
    assert bleu(own, references) == pytest.approx(
        sacrebleu.corpus_bleu(own, [references], tokenize=tokenisation).score
    )
    assert multi_bleu(own, [[each] for each in references]) == bleu(own, references)
    assert compare({"one": own, "other": own}, references, ["bleu"])[0].value == pytest.approx(
        bleu(own, references)
    )


def test_tokenised_text_is_scored_without_a_word(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [f"one two three {number} ." for number in range(120)]
    assert bleu(lines, lines) == pytest.approx(100)
    assert multi_bleu(lines, [[line] for line in lines]) == pytest.approx(100)
    [score] = metric_scores(lines, [lines], ["bleu"], None)
    compare({"a": lines, "b": lines}, lines, ["bleu"])
    assert not caplog.records and capfd.readouterr() == ("", "")
    assert score.signature == str(sacrebleu_bleu(lines).get_signature())


def sacrebleu_bleu(lines: list[str]) -> sacrebleu.BLEU:
    """The metric of sacreBLEU itself, after it has scored these lines."""
    metric = sacrebleu.BLEU()
    metric.corpus_score(lines, [lines], n_bootstrap=1000)
    return metric


def test_the_chrf_of_a_sentence() -> None:
    assert sentence_chrf(GOOD, REFERENCES) == [
        pytest.approx(sacrebleu.sentence_chrf(text, [wanted]).score)
        for text, wanted in zip(GOOD, REFERENCES, strict=True)
    ]
    assert sentence_chrf(["", "a"], ["a", "a"]) == [0.0, 100.0]


def test_intervals_are_the_same_every_time() -> None:
    first, again = (metric_scores(GOOD, [REFERENCES], ["bleu", "chrf"], None) for _ in range(2))
    assert first == again


# In some resamples nothing matches, or there is nothing to match: these score plain floats there,
# and NumPy's elsewhere.
NO_MATCH_AT_TIMES = (["the cat sat on the mat", "zz"], ["the cat sat on the mat", "qq"])
NOTHING_AT_TIMES = (["", ""], ["a", ""])


@pytest.mark.parametrize(
    ("metric", "texts"), [("chrf", NO_MATCH_AT_TIMES), ("ter", NOTHING_AT_TIMES)]
)
def test_an_interval_is_found_where_resamples_score_nothing(
    metric: str, texts: tuple[list[str], list[str]]
) -> None:
    [score] = metric_scores(texts[0], [texts[1]], [metric], None)
    plain = {"chrf": sacrebleu.corpus_chrf, "ter": sacrebleu.corpus_ter}[metric]
    assert score.value == pytest.approx(plain(texts[0], [texts[1]]).score)
    assert type(score.value) is float
    assert 0 <= score.low < score.value < score.high


def test_intervals_stay_within_the_scale() -> None:
    references = [f"a man walks down street {number} with a dog" for number in range(20)]
    nearly = [*references[1:], "nothing"]
    bleu, chrf, ter = metric_scores(
        [references[0], *nearly[:-2], "nothing at all"], [references[:1] + nearly[:-2] + ["a b"]],
        ["bleu", "chrf", "ter"], None,
    )  # fmt: skip
    assert bleu.high == chrf.high == 100 and ter.low == 0
    assert interval("ter", 110, 20) == (90, 130)
    assert interval("bleu", 5, 6) == (0, 11)


def test_the_tokenisation_is_passed_on() -> None:
    [score] = metric_scores(["你好世界和平"], [["你好世界"]], ["bleu"], "zh")
    assert "tok:zh" in score.signature
    [joined] = metric_scores(["你好世界和平"], [["你好世界"]], ["bleu"], "none")
    assert score.value > joined.value


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown metric 'blue'; did you mean 'bleu'"):
        metric_scores(["a"], [["a"]], ["blue"], None)
    with pytest.raises(ConfigError, match="unknown tokenisation '13b'; did you mean '13a'"):
        metric_scores(["a"], [["a"]], ["bleu"], "13b")


def test_a_tokenisation_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(ConfigError, match=r"'ja-mecab' cannot be used here: .*install"):
        metric_scores(["a"], [["a"]], ["bleu"], "ja-mecab")


def test_sets_of_other_sizes_and_kinds_are_refused() -> None:
    check_sizes({"one": ["a"], "two": ["b"]}, ["c"])
    with pytest.raises(DataError, match="the test set is empty"):
        check_sizes({"one": []}, [])
    with pytest.raises(DataError, match=r"found 1 translations \(two\) and 2 references"):
        check_sizes({"one": ["a", "b"], "two": ["a"]}, ["a", "b"])
    with pytest.raises(DataError, match=r"^references: .* found PosixPath\('t.de'\)"):
        check_sizes({"one": ["a"]}, Path("t.de"))  # type: ignore[arg-type]


def test_chrf_of_a_sentence_is_that_of_sacrebleu() -> None:
    found = sentence_chrf([*GOOD, ""], [*REFERENCES, "a"])
    wanted = [
        sacrebleu.sentence_chrf(*row).score
        for row in zip(GOOD, [[r] for r in REFERENCES], strict=True)
    ]
    assert found == pytest.approx([*wanted, 0.0])


def test_a_perfect_translation_has_100() -> None:
    [score] = corpus_scores(REFERENCES, REFERENCES, ["bleu"])
    assert (score.value, score.low, score.high) == pytest.approx((100, 100, 100))


def test_exact_matches_are_exact() -> None:
    assert exact_match(["a", "b ", "C", "d"], ["a", "b", "c", "d"]) == 0.5
    assert exact_match(["a", "b", "C", "d"], ["a", "b", "c", "d"]) == 0.75


def test_sets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"found 1 translations .* and 2 references"):
        corpus_scores(["a"], ["a", "b"])
    with pytest.raises(DataError, match="the test set is empty"):
        exact_match([], [])


PLAIN = ["Ein Hund rennt.", "Zwei Katzen, drei Hunde."] * 10
TOKENISED = ["ein hund rennt .", "zwei katzen , drei hunde .  "] * 10


def test_tokenised_references_bring_one_warning() -> None:
    [said] = tokenised_warning([*TOKENISED, "ohne punkt", *PLAIN[:10]], "val.de")
    assert said.startswith("warning: val.de: tokenised text (a space stands before 20 of 30 full ")
    assert "BLEU on text that is tokenised in the same way" in said and "--tokenize none" in said


@pytest.mark.parametrize(
    "references",
    [
        PLAIN, [], TOKENISED[:9], [*TOKENISED[:9], *PLAIN], ["Vraiment ?", "Non !"] * 20,
        ["ein hund rennt"] * 20, ["Und so weiter ..."] * 3,
    ],
)  # fmt: skip
def test_plain_references_and_very_few_bring_none(references: list[str]) -> None:
    assert tokenised_warning(references, "val.de") == []


def test_a_better_system_is_told_from_a_worse_one() -> None:
    rows = compare({"bad": BAD, "good": GOOD, "same": BAD}, REFERENCES, ["bleu", "chrf"])
    assert [(row.metric, row.system) for row in rows] == [
        (metric, system) for metric in ("BLEU", "chrF2") for system in ("bad", "good", "same")
    ]
    baseline, good, same = rows[:3]
    assert baseline.p_value is None
    assert good.value > baseline.value
    assert good.p_value is not None
    assert good.p_value < 0.05
    assert same.p_value == 1.0
    assert good.low < good.value < good.high
    assert "seed:" in good.signature or "rs:" in good.signature


def test_systems_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least two systems"):
        compare({"one": ["a"]}, ["a"])
    with pytest.raises(DataError, match=r"found 1 translations \(two\) and 2 references"):
        compare({"one": ["a", "b"], "two": ["a"]}, ["a", "b"])
    with pytest.raises(DataError, match=r"^two: expected a list of sentences, found 'a'"):
        compare({"one": ["a"], "two": "a"}, ["a"])
