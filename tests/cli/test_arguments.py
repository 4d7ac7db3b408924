import dataclasses
import shlex
import zipfile
from pathlib import Path

import pytest

from crosshead.bundle.files import pack
from crosshead.cli.arguments import (
    bundles_and_file,
    check_direction,
    check_outputs,
    only,
    search_settings,
    writing_settings,
)
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.tasks.loading import load_as
from crosshead.tasks.translation.translator import Translator
from tests.cli.tools import BUNDLE


def test_no_output_replaces_the_input_or_a_file_of_the_model(tmp_path: Path) -> None:
    bundle = tmp_path / "run"
    (bundle / "checkpoints").mkdir(parents=True)
    own = ["recipe.toml", "tokenizer.json", "checkpoints/best.safetensors"]
    for name in (*own, "mine.txt"):
        (bundle / name).write_text("kept")
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    with pytest.raises(UserError, match="is the input file"):
        check_outputs({"--output": lines}, [lines], bundle)
    for name in own:
        with pytest.raises(UserError, match="is a file of the model"):
            check_outputs({"--output": bundle / "checkpoints" / ".." / name}, ["-"], bundle)
    packed = tmp_path / "a.crosshead.zip"
    packed.write_text("kept")
    with pytest.raises(UserError, match="is a file of the model"):
        check_outputs({"--output": packed}, ["-"], packed)
    with pytest.raises(UserError, match=r"^--output and --plot both name .*a\.png; give two files"):
        check_outputs({"--output": tmp_path / "a.png", "--plot": tmp_path / "a.png"}, [], bundle)
    for allowed in (None, bundle / "mine.txt", tmp_path / "new"):
        check_outputs({"--output": allowed}, [lines], bundle)


def test_the_last_argument_is_a_file_unless_it_is_a_bundle(tmp_path: Path) -> None:
    packed, text = pack(BUNDLE, tmp_path / "packed.zip"), tmp_path / "input.txt"
    text.write_text("one\n")
    for more, bundles, file in [
        ([], [BUNDLE], "-"),
        (["-"], [BUNDLE], "-"),
        ([str(text)], [BUNDLE], str(text)),
        (["missing.txt"], [BUNDLE], "missing.txt"),
        ([str(packed)], [BUNDLE, packed], "-"),
        ([str(tmp_path)], [BUNDLE, tmp_path], "-"),
        ([str(packed), str(text)], [BUNDLE, packed], str(text)),
        (["missing", str(text)], [BUNDLE, Path("missing")], str(text)),
    ]:
        assert bundles_and_file(BUNDLE, more) == (bundles, file)


def test_a_text_for_a_file_is_recognised(tmp_path: Path) -> None:
    text = tmp_path / "two words.txt"
    text.write_text("one\n")
    assert bundles_and_file(BUNDLE, [str(text)]) == ([BUNDLE], str(text))
    for long in ("It's one.", "one two " * 100):
        with pytest.raises(UserError, match=r"no such file; to translate a text, send") as caught:
            bundles_and_file(BUNDLE, [long])
        assert f"echo {shlex.quote(long)} | crosshead translate {BUNDLE}" in str(caught.value)


@pytest.mark.parametrize("name", ["a.xlsx", "a.DOCX", "a.epub", "a.pptx", "a.zip"])
def test_a_file_of_an_office_program_is_no_bundle_although_it_is_a_zip_archive(
    name: str, tmp_path: Path
) -> None:
    office = str(tmp_path / name)
    with zipfile.ZipFile(office, "w") as archive:
        archive.writestr("content.xml", "<x/>")
    assert bundles_and_file(BUNDLE, [office]) == ([BUNDLE], office)


def test_one_bundle_is_asked_for_where_no_ensemble_can_be() -> None:
    assert only([BUNDLE], "--text") == BUNDLE
    with pytest.raises(UserError, match="--text takes one bundle, found 2; only models that"):
        only([BUNDLE, BUNDLE], "--text")


def translator_between(source: str | None, target: str | None) -> Translator:
    translator = load_as(Translator, [BUNDLE], "cpu", 1)
    stated = {"source_language": source, "target_language": target}
    config = translator.bundle.config.model_copy(update=stated)
    return Translator(dataclasses.replace(translator.bundle, config=config))


def test_text_in_the_target_language_is_not_read_as_a_source() -> None:
    named = translator_between("en", "de")
    for fine in ("news.en", "news.txt", "-", "news.fr.gz"):
        check_direction(named, fine)
    with pytest.raises(UserError, match=r"named as text in de, but .* from en to de; give"):
        check_direction(named, "news.de.gz")


def test_the_search_is_the_bundles_but_for_what_is_given() -> None:
    says = DecodeConfig(beam=3, length_penalty=0.2)
    found = search_settings(says, False, {"beam": None, "length_penalty": 1.0}, None)
    assert found == DecodeConfig(beam=3, length_penalty=1.0)
    assert search_settings(says, False, {}, 3) == says
    with pytest.raises(ConfigError, match="give --beam 4"):
        search_settings(says, False, {}, 4)
    for flag in ("temperature", "top_k", "top_p", "seed"):
        with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')} applies to sampling"):
            search_settings(says, False, {flag: 1}, None)
    bundled = search_settings(DecodeConfig(beam=1, sample=True), False, {"seed": 7}, None)
    assert bundled.seed == 7
    sampled = search_settings(says, True, {"top_k": 5}, 4)
    assert (sampled.sample, sampled.beam, sampled.top_k) == (True, 1, 5)


SAMPLES = {"temperature": None, "top_k": None, "top_p": None, "seed": None}


@pytest.mark.parametrize(
    "says",
    [
        DecodeConfig(beam=1, sample=True, temperature=0.7, top_k=9),
        DecodeConfig(beam=4),
        DecodeConfig(beam=1),
    ],
)
def test_text_is_written_as_the_bundle_says_but_for_what_is_given(says: DecodeConfig) -> None:
    assert writing_settings(says, False, None, SAMPLES) == says
    for flag, value in (("temperature", 0.5), ("top_k", 3), ("top_p", 0.9), ("seed", 7)):
        drawn = {"beam": 1, "sample": True, flag: value}
        expected = says.model_copy(update=drawn)
        assert writing_settings(says, False, None, {**SAMPLES, flag: value}) == expected
        for greedy, beam, other in ((True, None, "--greedy"), (False, 4, "--beam")):
            name = f"--{flag.replace('_', '-')}"
            with pytest.raises(ConfigError, match=f"{name} applies to .* leave out it or {other}$"):
                writing_settings(says, greedy, beam, {**SAMPLES, flag: value})
    for size in (1, 5):
        assert writing_settings(says, False, size, SAMPLES) == DecodeConfig(beam=size)
    assert writing_settings(says, True, None, SAMPLES) == DecodeConfig(beam=1)
    with pytest.raises(ConfigError, match="--beam 5 and --greedy"):
        writing_settings(says, True, 5, SAMPLES)
