import dataclasses
import json
import os
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

import crosshead
from crosshead.bundle.files import pack
from crosshead.bundle.io import save_bundle
from crosshead.cli import run
from crosshead.tasks.registry import load_bundle
from crosshead.text.profile import TextProfile
from tests.cli.tools import BUNDLE, COMMAND, Refused, environment, output_of, preloaded_command
from tests.parameters import mostly_slow
from tests.text.written import write

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
LINES = ["one two", "", "three", "two one three one", " ", "seven"]


def test_translations_are_those_of_the_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_text("\n".join(LINES), encoding="utf-8")
    expected = crosshead.load(BUNDLE)(LINES)
    printed = output_of(["translate", BUNDLE, path], capfd)
    assert printed == "".join(f"{line}\n" for line in expected)
    assert printed.split("\n")[1] == ""
    assert output_of(["translate", BUNDLE, path, "--output", out], capfd) == ""
    assert out.read_text(encoding="utf-8") == printed


def test_several_bundles_translate_as_an_ensemble(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    path, other = tmp_path / "in", pack(BUNDLE, tmp_path / "other.zip")
    path.write_text("\n".join(LINES), encoding="utf-8")
    alone = output_of(["translate", BUNDLE, path], capfd)
    assert output_of(["translate", BUNDLE, other, path], capfd) == alone
    assert output_of(["translate", BUNDLE, other, path, "--beam", 1, "--scores"], capfd) != alone
    said = refused("translate", BUNDLE, other, path, "--images", tmp_path)
    assert "--images takes one bundle, found 2" in said
    said = refused("translate", BUNDLE, path, "--images", tmp_path, "--to", "de")
    assert "--to is not for --images" in said
    assert "is given twice" in refused("translate", BUNDLE, BUNDLE, path)
    assert "nothing: no such directory" in refused("translate", BUNDLE, "nothing", path)
    assert "nothing: no such file" in refused("translate", BUNDLE, "nothing")
    said = refused("translate", BUNDLE, other, path, "--output", other)
    assert "is a file of the model" in said


def test_a_glossary_is_kept_in_lines_and_documents(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], refused: Refused
) -> None:
    terms, lines, page = tmp_path / "terms.tsv", tmp_path / "in", tmp_path / "in.html"
    terms.write_text("two\tbeide\nthree\n", encoding="utf-8")
    lines.write_text("One <b>two</b> three.\nOne four.\n", encoding="utf-8")
    page.write_text("<p>One <b>two</b> three.</p>", encoding="utf-8")
    given = ["--glossary", terms, "--exact-terms"]
    assert output_of(["translate", BUNDLE, lines, *given], capfd) == (
        "Eins <b>beide</b> three.\nEins vier.\n"
    )
    assert output_of(["translate", BUNDLE, page, *given], capfd) == (
        "<p>Eins <b>beide</b> three.</p>"
    )
    [first, second] = map(
        json.loads, output_of(["translate", BUNDLE, lines, *given, "--jsonl"], capfd).splitlines()
    )
    assert first["terms"] == [
        {"source": "two", "target": "beide", "is_used": True},
        {"source": "three", "target": "three", "is_used": True},
    ]
    assert second["terms"] == []
    terms.write_text("two\tbeide\ntwo\tzwo\n", encoding="utf-8")
    assert f"{terms}:2: " in refused("translate", BUNDLE, lines, *given)
    assert "--exact-terms is for --glossary" in refused("translate", BUNDLE, lines, "--exact-terms")


def test_a_warning_about_a_document_has_no_signs_of_tags(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page, terms = tmp_path / "in.html", tmp_path / "terms.tsv"
    page.write_text("<p>One <b>two three</b> four.</p>", encoding="utf-8")
    terms.write_text("one two\tbeide\n", encoding="utf-8")  # the tag stands around a part of it
    assert run([str(each) for each in ("translate", BUNDLE, page, "--glossary", terms)]) == 0
    assert '("One two three four.")' in capfd.readouterr().err


def test_n_best_and_scores_and_json_agree(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_text("\n".join(LINES))
    listed = [
        line.split(" ||| ")
        for line in output_of(["translate", BUNDLE, path, "--n-best", 2], capfd).splitlines()
    ]
    scored = output_of(["translate", BUNDLE, path, "--scores"], capfd).splitlines()
    rows = output_of(["translate", BUNDLE, path, "--jsonl"], capfd).splitlines()
    both = output_of(["translate", BUNDLE, path, "--jsonl", "--n-best", 2], capfd).splitlines()
    assert [line for line, _, _ in listed] == ["1", "1", "2", "3", "3", "4", "4", "5", "6", "6"]
    for number, line in enumerate(LINES, 1):
        best = next([text, score] for at, text, score in listed if at == str(number))
        assert scored[number - 1].split("\t") == best
        row, several = json.loads(rows[number - 1]), json.loads(both[number - 1])
        assert (row["line"], row["source"], row["translation"]) == (number, line, best[0])
        assert f"{row['score']:.4f}" == best[1]
        assert row["log_prob"] == pytest.approx(sum(row["piece_log_probs"]))
        assert several["translations"][0]["translation"] == best[0]


VTT = "WEBVTT\n\n1\n00:14.167 --> 00:16.083 align:start\n<v Anna>one two\n"
NO_LINES = {
    "captions.vtt": (VTT, "subtitles"),
    "paper.pdf": ("%PDF-1.7\nstream\n", "a PDF document"),
    "strings.json": ('{"one": "two", "three": ["four"]}\n', "a JSON file"),
    "pairs.jsonl": ('{"en": "one"}\n{"en": "two"}\n', "a JSON file"),
    "a.tmx.gz": ('<?xml version="1.0"?>\n<tmx>\n', "an XML file"),
    "a.xliff": ('<xliff version="1.2">\n', "an XML file"),
    "a.tsv": ("one\teins\ntwo\tzwei\n", "a table"),
    "a.csv": ("en,de\none,eins\ntwo,zwei\n", "a table"),
}
MEMBERS = {
    "a.xlsx": ("xl/workbook.xml", "a spreadsheet"),
    "a.docx": ("word/document.xml", "a document of an office program"),
    "a.pptx": ("ppt/presentation.xml", "a document of an office program"),
    "a.odt": ("content.xml", "a document of an office program"),
    "texts.zip": ("one.txt", "a zip archive"),
}


@pytest.mark.parametrize("name", [each for each in NO_LINES if each != "captions.vtt"])
@pytest.mark.parametrize("as_txt", [False, True])
def test_a_file_without_sentences_is_refused_by_its_kind_whatever_its_name(
    name: str, as_txt: bool, tmp_path: Path, refused: Refused, capfd: pytest.CaptureFixture[str]
) -> None:
    content, kind = NO_LINES[name]
    kept = name.endswith((".gz", ".csv"))  # its name tells a table with commas from sentences
    path = write(tmp_path / (f"{name}.txt" if as_txt and not kept else name), content)
    said = refused("translate", BUNDLE, path, "--output", tmp_path / "out")
    assert f"{path}: {kind}" in said and not (tmp_path / "out").exists()
    if name == "paper.pdf":  # no text, so it has no lines either
        return
    lines = output_of(["translate", BUNDLE, path, "--format", "lines"], capfd)
    assert lines.count("\n") == content.count("\n")


@pytest.mark.parametrize("name", MEMBERS)
def test_a_zip_archive_without_a_model_is_a_file_and_refused_by_its_kind(
    name: str, tmp_path: Path, refused: Refused
) -> None:
    path, (member, kind) = tmp_path / name, MEMBERS[name]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, "<x/>")
    assert f"{path}: {kind}, expected text" in refused("translate", BUNDLE, path)
    renamed = path.rename(tmp_path / "input.txt")
    assert f"{renamed}: {kind}, expected text" in refused("translate", BUNDLE, renamed)
    assert f"{renamed}: {kind}; expected the directory of a bundle" in refused("info", renamed)


def test_lines_are_translated_whatever_their_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = output_of(["translate", BUNDLE, write(tmp_path / "in", "one two\n[1] a\n")], capfd)
    for name in ("x.json", "x.po", "x.tsv", "x.epub", "x.docx"):
        path = write(tmp_path / name, "one two\n[1] a\n")
        assert output_of(["translate", BUNDLE, path], capfd) == expected


def test_documents_are_known_by_their_content(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\none two\n"
    page = "<!DOCTYPE html>\n<p>one two</p>\n"
    for name, content in (("film.txt", srt), ("page", page), ("captions", VTT)):
        found = output_of(["translate", BUNDLE, write(tmp_path / name, content)], capfd)
        assert found.startswith(content.partition("one two")[0]) and found != content


@pytest.mark.parametrize("name", ["a.xliff", "strings.json", "a.tsv"])
def test_standard_input_is_refused_by_its_kind(name: str) -> None:
    content, kind = NO_LINES[name]
    done = subprocess.run(
        [*preloaded_command(), "translate", BUNDLE],
        input=content, capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert f"standard input: {kind}, expected text" in done.stderr


@pytest.mark.parametrize("name", ["captions.vtt", "strings.json", "a.tsv", "a.xliff", "paper.pdf"])
def test_every_verb_that_reads_sentences_gives_the_same_answer(
    name: str, tmp_path: Path, refused: Refused
) -> None:
    content, kind = NO_LINES[name]
    path, text = write(tmp_path / name, content), tmp_path / "text"
    text.write_text("eins\n" * content.count("\n"))
    sides = ["--source", path, "--target", text]
    for command in (
        ["evaluate", BUNDLE, "--source", text, "--reference", path],
        ["score", BUNDLE, *sides],
        ["data", "check", *sides],
        ["train", *sides, "--out", tmp_path / "run", "--max-updates", 1],
        ["distill", BUNDLE, "--source", path, "--out", tmp_path / "out"],
        ["backtranslate", BUNDLE, path, "--out", tmp_path / "out"],
    ):
        assert f"{path}: {kind}, expected text" in refused(*command), command
    assert not (tmp_path / "run").exists() and not (tmp_path / "out").exists()


def test_samples_depend_on_the_seed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in"
    path.write_text("one two three\n" * 8)
    flags = ["--sample", "--temperature", 3, "--top-k", 50]
    first, again, other = (
        output_of(["translate", BUNDLE, path, *flags, "--seed", seed], capfd) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_line_that_is_split_is_warned_of(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_text("one.\n" + "One two three. " * 20 + "\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 0
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    said = "translated in parts: 1 of 2 lines (the first is line 2)"
    assert f"{said}\n" in captured.err
    path.write_text("one.\n" + "one two three " * 20 + "\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 0
    assert f"{said}; 1 split inside a sentence" in capfd.readouterr().err


def test_a_line_that_is_no_text_is_passed_through_with_a_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, letters = tmp_path / "in", "x" * 10_001
    path.write_text(f"one\n{letters}\ntwo\n")
    command = ["translate", str(BUNDLE), str(path), "--beam", "2"]
    assert run(command) == 0
    captured = capfd.readouterr()
    first, passed, last, _ = captured.out.split("\n")
    assert passed == letters and first and last
    assert captured.err.count("\n") == 1
    assert (
        "warning: kept unchanged, not translated: 1 of 3 lines (the first is line 2)"
        in captured.err
    )
    rows = [json.loads(row) for row in output_of([*command, "--jsonl"], capfd).splitlines()]
    assert [row["was_passed_through"] for row in rows] == [False, True, False]
    assert [row["engine"] for row in rows] == ["crosshead", "", "crosshead"]
    assert [row["translation"] for row in rows] == [first, letters, last]
    listed = output_of([*command, "--n-best", 2], capfd).splitlines()
    assert [line.split(" ||| ")[0] for line in listed] == ["1", "1", "2", "3", "3"]


@pytest.mark.slow
def test_a_pipe_is_answered_while_it_is_open_and_ends_quietly() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, "translate", BUNDLE], env=environment(), **pipes) as process:
        assert process.stdin and process.stdout and process.stderr
        for line in (b"one\n", b"\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == b""


CLOSED = ("<&-", "standard input is closed"), (">&-", "output is closed")


@pytest.mark.parametrize(("redirection", "words"), mostly_slow(CLOSED, CLOSED[:1]))
def test_a_closed_input_and_a_closed_output_are_mistakes(redirection: str, words: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "-", *COMMAND, "translate", BUNDLE],
        env=environment(), input=b"one\n", capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_quietly() -> None:
    script = 'yes one | head -n 3000 | "$@" | head -n 1; echo ${PIPESTATUS[2]}'
    done = subprocess.run(
        ["bash", "-c", script, "-", *preloaded_command(), "translate", BUNDLE, "--beam", "1"],
        env=environment(), capture_output=True, check=True,
    )  # fmt: skip
    first, code = done.stdout.decode().splitlines()
    assert first
    assert (code, done.stderr) == ("141", b"")


def test_a_megabyte_in_a_line_is_translated_or_refused_by_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"one\n" + b"two " * (2**20 // 400) + b"\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 0
    said = capfd.readouterr()
    assert said.out.count("\n") == 2
    assert "the first is line 2" in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--beam", "0"], "--beam: expected more than 0"),
        (["--length-penalty", "-1"], "--length-penalty: expected 0 or more"),
        (["--length-penalty", "nan"], "--length-penalty: expected a finite number"),
        (["--n-best", "9"], "--n-best 9 needs a beam of at least 9; the beam is 4: give --beam 9"),
        (["--top-k", "5"], "--top-k applies to sampling only: add --sample"),
        (["--sample", "--top-p", "2"], "--top-p: expected 1 or less"),
        (["--sample", "--beam", "4"], "sampling needs beam = 1"),
        (["--device", "gpu"], "'gpu'"),
        (["--precision", "float8"], "unknown precision 'float8'"),
        (["--threads", "-1"], "or 0 for all cores, found -1"),
        (["--device", "meta"], "no device 'meta' on this machine"),
    ],
)
def test_wrong_searches(flags: list[str], words: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    assert words in refused("translate", BUNDLE, tmp_path / "in", *flags)


def test_what_was_translated_before_an_error_stays_in_a_pipe_and_not_in_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_bytes(b"one\n\ntwo\xff\nthree\n")
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1"]) == 2
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 2
    assert f"{path}:3:4: not UTF-8 (byte 0xFF)" in captured.err
    assert run(["translate", str(BUNDLE), str(path), "--beam", "1", "--output", str(out)]) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in"]


def test_an_output_that_cannot_be_written(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    place = tmp_path / "absent" / "out"
    said = refused("translate", BUNDLE, tmp_path / "in", "--output", place)
    assert f"{place}: cannot be written: No such file or directory; make the directory " in said
    said = refused("translate", BUNDLE, tmp_path / "in", "--output", tmp_path)
    assert f"{tmp_path}: cannot be written: Is a directory; name a file in it" in said


def test_the_input_is_not_written_over(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for output in ("in", "link"):
        said = refused("translate", BUNDLE, tmp_path / "in", "--output", tmp_path / output)
        assert "is the input file; give another --output" in said
    assert (tmp_path / "in").read_text() == "one\n"


@pytest.mark.slow
def test_a_line_without_an_end_is_refused_behind_the_lines_before(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo\n")
    os.truncate(tmp_path / "in", 200 * 10**9)
    command = ["prlimit", f"--as={8 * 10**9}", *COMMAND, "translate", BUNDLE, "--beam", "1"]
    done = subprocess.run(
        [*command, tmp_path / "in"], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.count("\n")) == (2, 2)
    assert "in:3: more than 16,777,216 bytes without a line feed" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_batch_of_hardly_a_sentence_is_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "in").write_text("one\n")
    said = refused("translate", BUNDLE, tmp_path / "in", "--batch-tokens", "1")
    assert "'--batch-tokens': expected a number greater than or equal to 64" in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_a_pipe_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\n")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*preloaded_command(), "translate", BUNDLE, tmp_path / "in"],
            env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "crosshead: error: standard output: cannot be written: No space left on device; "
        "free some disk space, or send the output elsewhere\n",
    )


def test_odd_lines_are_counted_in_one_warning_and_flagged_in_json(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle, path = tmp_path / "profiled", tmp_path / "in"
    stored = load_bundle(BUNDLE)
    sources = [f"{one} {other}" for one in NUMBERS for other in NUMBERS]
    ids = [stored.source_tokenizer.encode(each) for each in sources]  # type: ignore[attr-defined]
    profile = TextProfile.of(
        list(zip(ids, ids, strict=True)),
        stored.source_tokenizer,  # type: ignore[attr-defined]
        stored.target_tokenizer,  # type: ignore[attr-defined]
    )
    config = stored.config.model_copy(update={"profile": profile})
    save_bundle(bundle, dataclasses.replace(stored, config=config), "A card.")
    path.write_text("one two\n\nодин два\nthree one\nтри четыре\n", encoding="utf-8")
    assert (
        run(["translate", str(bundle), str(path), "--jsonl", "--output", str(tmp_path / "o")]) == 0
    )
    [warning] = capfd.readouterr().err.splitlines()
    assert warning.startswith("crosshead: warning: 2 of 5 lines may be translated badly (script 2")
    assert 'the first is line 3 ("один два"): the source has letters of a script' in warning
    rows = [json.loads(row) for row in (tmp_path / "o").read_text("utf-8").splitlines()]
    assert [("script" in row["flags"]) for row in rows] == [False, False, True, False, True]
    path.write_text("one two\n")
    assert run(["translate", str(bundle), str(path)]) == 0
    assert capfd.readouterr().err == ""


DOCUMENTS = {
    "page.html": "<p>one two.\r\n<b>Three?</b> &amp;</p>",
    "notes.md": "# one two\n\n- `code` three\n",
    "film.srt": "1\n00:00:01,000 --> 00:00:02,000\none two\nthree\n",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_end_of_a_name_makes_a_document(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(DOCUMENTS[name].encode())
    kind = {"html": "html", "md": "markdown", "srt": "srt"}[name.split(".")[1]]
    expected = crosshead.load(BUNDLE).translate_document(DOCUMENTS[name], kind)
    out = tmp_path / "out"
    assert output_of(["translate", BUNDLE, path, "--output", out], capfd) == ""
    assert out.read_bytes() == expected.text.encode() != path.read_bytes()
    rows = output_of(["translate", BUNDLE, path, "--jsonl"], capfd).splitlines()
    assert [(row["sentence"], row["source"]) for row in map(json.loads, rows)] == [
        (number, each.source) for number, each in enumerate(expected.sentences, 1)
    ]
    lines = output_of(["translate", BUNDLE, path, "--format", "lines"], capfd)
    assert lines.count("\n") == len(DOCUMENTS[name].rstrip("\n").split("\n"))


def test_a_text_is_lines_unless_its_format_says_that_lines_have_sentences(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, text = tmp_path / "in.txt", "One two. Three.\n\nSeven"
    path.write_text(text)
    translator = crosshead.load(BUNDLE)
    assert output_of(["translate", BUNDLE, path], capfd) == translator(text) + "\n"
    found = translator.translate_document(text)
    assert output_of(["translate", BUNDLE, path, "--format", "text"], capfd) == found.text
    listed = output_of(["translate", BUNDLE, path, "--format", "text", "--n-best", 2], capfd)
    sentences = translator.translate_document(text, n_best=2).sentences
    assert [line.split(" ||| ")[:2] for line in listed.splitlines()] == [
        [str(number), each.text]
        for number, sentence in enumerate(sentences, 1)
        for each in sentence.translations
    ]


def test_a_broken_document_is_one_line_and_leaves_nothing(tmp_path: Path, refused: Refused) -> None:
    path, out = tmp_path / "film.srt", tmp_path / "out.srt"
    path.write_text("no times here\n")
    said = refused("translate", BUNDLE, path, "--output", out)
    assert f"{path}: no line has the times of a subtitle" in said
    path.write_bytes(b"\xff\n")
    assert f"{path}:1:1: not UTF-8" in refused("translate", BUNDLE, path, "--output", out)
    said = refused("translate", BUNDLE, path, "--images", tmp_path, "--format", "srt")
    assert "--format is not for --images" in said
    said = refused("translate", BUNDLE, path, "--format", "htm")
    assert "Invalid value for '--format': 'htm' is not one of 'lines', 'text'" in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["film.srt"]


def test_a_document_comes_from_a_pipe_and_its_long_sentences_are_named(tmp_path: Path) -> None:
    text = "<p>" + "one two three " * 60 + "</p>"
    done = subprocess.run(
        [*preloaded_command(), "translate", BUNDLE, "--format", "html"],
        input=text, capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.startswith("<p>") and done.stdout.endswith("</p>")
    assert "translated in parts: 1 of 1 sentence (the first is sentence 1)" in done.stderr
