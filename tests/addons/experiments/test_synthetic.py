import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from crosshead.addons.experiments import synthetic
from crosshead.addons.experiments.synthetic import Synthesis, back_translate, distill
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.tasks.loading import load
from crosshead.tasks.translation.translator import Translator
from tests.tasks.translation.translators import STORED

WORDS = ["one", "two", "", "three", "seven", "one", "ten", "x" * 10_001, "nine", "four"]
GREEDY = DecodeConfig(beam=1)
SAMPLED = DecodeConfig(beam=1, sample=True, temperature=2.0)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return load(STORED, "cpu")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS))
    return path


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "BLOCK", 3)


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_teacher_writes_the_targets(translator: Translator, text: Path, tmp_path: Path) -> None:
    found = distill(translator, Synthesis([STORED], text, GREEDY), tmp_path / "out")
    translated = translator.translate(WORDS, decode=GREEDY)
    best = {w: found[0].text for w, found in zip(WORDS, translated, strict=True)}
    kept = [word for word in dict.fromkeys(WORDS) if word and len(word) < 100]
    assert (found.source.name, found.target.name) == ("train.en", "train.de")
    assert lines(found.source) == kept
    assert lines(found.target) == [best[word] for word in kept]
    assert (found.pairs, found.left_out) == (7, {"with an empty side": 2, "repeated": 1})


def test_a_set_without_pairs_is_refused(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source := tmp_path / "source").write_text("One two.\nSeven.\n")
    monkeypatch.setattr(synthetic, "_stored", lambda found: b"\n" * len(found))
    with pytest.raises(DataError, match=r"source: no pairs, because every line is empty, was"):
        distill(translator, Synthesis([STORED], source, GREEDY), tmp_path / "o")
    assert not list((tmp_path / "o").glob("train.*"))


def test_a_reverse_model_writes_the_sources_with_a_tag(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    work = Synthesis([STORED], packed, GREEDY)
    plain = back_translate(translator, work, tmp_path / "plain", None)
    tagged = back_translate(translator, work, tmp_path / "tagged", "<BT>")
    assert (plain.source.name, plain.target.name) == ("train.de", "train.en")
    assert lines(tagged.source) == [f"<BT> {line}" for line in lines(plain.source)]
    assert lines(tagged.target) == lines(plain.target)
    best = translator.translate(lines(plain.target), decode=GREEDY)
    assert lines(plain.source) == [found[0].text for found in best]
    with pytest.raises(ConfigError, match="'<B T>' is empty or contains white space"):
        back_translate(translator, work, tmp_path / "refused", "<B T>")
    assert not (tmp_path / "refused").exists()


def test_files_have_the_names_of_sides_if_the_languages_are_unknown(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    config = translator.bundle.config.model_copy(
        update={"source_language": None, "target_language": "de"}
    )
    unnamed = Translator(replace(translator.bundle, config=config))
    found = back_translate(unnamed, Synthesis([STORED], text, GREEDY), tmp_path / "o", None)
    assert (found.source.name, found.target.name) == ("train.de", "train.target")
    for suffix, name in (("en", "train.en"), ("de", "train.target")):
        named = tmp_path / f"more.{suffix}"
        named.write_bytes(text.read_bytes())
        work = Synthesis([STORED], named, GREEDY)
        found = back_translate(unnamed, work, tmp_path / f"o-{suffix}", None)
        assert (found.source.name, found.target.name) == ("train.de", name)


@pytest.mark.parametrize("cut", [0, 1, 7, 25, -1])
def test_a_set_that_was_stopped_equals_one_that_was_not(
    translator: Translator, text: Path, tmp_path: Path, cut: int
) -> None:
    """Stopped anywhere, even inside a line; samples and the batches of a block are the same."""
    work = Synthesis([STORED], text, SAMPLED)
    back_translate(translator, work, tmp_path / "whole", None)
    back_translate(translator, work, tmp_path / "stopped", None)
    part = tmp_path / "stopped" / synthetic.TRANSLATIONS
    part.write_bytes(part.read_bytes()[:cut])
    for name in ("train.en", "train.de"):
        (tmp_path / "stopped" / name).unlink()
    back_translate(translator, work, tmp_path / "stopped", None)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_it_goes_on_after_whole_blocks_and_says_so(
    translator: Translator,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    work, out = Synthesis([STORED], text, GREEDY), tmp_path / "out"
    calls: list[int] = []
    translate = Translator.translate

    def stops(self: Translator, block: list[str], **options: object) -> object:
        calls.append(len(block))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return translate(self, block, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", stops)
    with pytest.raises(KeyboardInterrupt):
        distill(translator, work, out)
    assert sorted(contents(out)) == [synthetic.SETTINGS, synthetic.TRANSLATIONS]
    distill(translator, work, out)
    assert capsys.readouterr().err == f"crosshead: {out}: continues after 6 of 10 lines\n"
    assert calls == [3, 3, 3, 3, 1]
    distill(translator, work, out)  # complete: nothing is translated again
    assert calls == [3, 3, 3, 3, 1]


def test_translations_that_may_be_bad_are_counted_from_the_stored_lines(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    words = ["Привет", *WORDS, "Привет"]  # of the first one the model writes repetitions
    text.write_text("".join(f"{word}\n" for word in words))
    translated = [best for [best] in translator.translate(words, decode=GREEDY)]
    flags = [best.flags for best in translated if best.text and not best.was_passed_through]
    assert flags[0] == flags[-1] == ("repetition",) and () in flags
    work, out = Synthesis([STORED], text, GREEDY), tmp_path / "out"
    found = back_translate(translator, work, out, "<BT>").odd
    assert found == (len(flags), sum(map(bool, flags)), {"repetition": sum(map(bool, flags))})
    # A command that finds all lines translated counts the same.
    assert distill(translator, work, out).odd == found


def test_other_work_is_not_mixed_in(translator: Translator, text: Path, tmp_path: Path) -> None:
    work, out = Synthesis([STORED], text, GREEDY), tmp_path / "out"
    distill(translator, work, out)
    before = contents(out)

    def refused(other: Synthesis, place: Path = out) -> str:
        with pytest.raises(UserError) as caught:
            distill(translator, other, place)
        return str(caught.value)

    said = refused(replace(work, decode=DecodeConfig(beam=2)))
    assert said.startswith(f"{out}: holds translations with other settings (search); give another")
    assert "other settings (models)" in refused(replace(work, bundles=[STORED, STORED]))
    text.write_text("another\n")
    assert "other settings (text)" in refused(work)
    assert contents(out) == before
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes").write_text("")
    assert "is not empty and holds no synthetic set" in refused(work, full)


def test_a_text_that_cannot_be_used_is_refused_before_anything_is_written(
    translator: Translator, tmp_path: Path
) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.write_text("")
    for source, words in [
        (empty, "empty; expected text to translate"),
        (tmp_path / "missing", "no such file"),
    ]:
        with pytest.raises(DataError, match=words):
            distill(translator, Synthesis([STORED], source, GREEDY), out)
    assert not out.exists()


def test_the_settings_are_plain_json(translator: Translator, text: Path, tmp_path: Path) -> None:
    distill(translator, Synthesis([STORED], text, GREEDY), tmp_path / "out")
    found = json.loads((tmp_path / "out" / synthetic.SETTINGS).read_text())
    assert found["decode"] == GREEDY.model_dump()
    assert len(found["models"]) == 1 and len(found["text"]) == 64
