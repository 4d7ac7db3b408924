import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from crosshead.addons.checks.glance import Glance
from crosshead.errors import ConfigError, DataError, UserError
from crosshead.models.registry import build_model
from crosshead.recipe.compose import compose
from crosshead.recipe.recipe import Recipe
from crosshead.tasks.corpus import Stopped
from crosshead.tasks.translation.parallel_corpus import (
    ParallelCorpus,
    epoch_examples,
    read_parallel,
)
from crosshead.tasks.translation.task import with_tags
from crosshead.text.batching import example_lengths
from crosshead.text.parallel.examples import Measured, Sampled
from crosshead.text.tokenizers import load_tokenizer, save_tokenizers
from tests.addons.checks.made_up import pairs

LINES = [f"one {word} two" for word in "abcdefghijklmnopqrst"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "en").write_text("\n".join(LINES) + "\n")
    (tmp_path / "de").write_text("\n".join(line.upper() for line in LINES) + "\n")
    (tmp_path / "tsv").write_text("x y\tX Y\nx\tX\n")
    return tmp_path


def recipe(folder: Path, *assignments: str) -> Recipe:
    data = {"source": str(folder / "en"), "target": str(folder / "de")}
    return compose(flags={"data": data}, assignments=["tokenizer.kind=words", *assignments])


def test_what_is_held_out_is_not_trained_on(folder: Path) -> None:
    corpus = read_parallel(recipe(folder), None, None)
    assert corpus.held_out and corpus.data_fault.startswith("from 18 pairs a model only learns to ")
    assert len(corpus.valid) == len(corpus.valid_examples) == 2
    sources = [corpus.source_tokenizer.decode(source) for source, _ in corpus.kept.examples]
    trained = set(sources)
    assert trained | set(corpus.valid.source) == set(LINES)
    assert not trained & set(corpus.valid.source)
    source, target = corpus.kept.examples[0]
    line = LINES[corpus.kept.encoded.rows[0]]
    assert corpus.source_tokenizer.decode(source) == line
    assert corpus.target_tokenizer.decode(target) == line.upper()
    data = recipe(folder).data
    assert corpus.validation(data) == "2 pairs held out of the training files (held-out.tsv)"


def test_batches_have_alignments_if_the_recipe_asks_for_them(folder: Path) -> None:
    plain = recipe(folder)
    corpus = read_parallel(plain, None, None)
    assert corpus.epochs(plain)(0).collate([0, 1]).alignment is None
    assert corpus.learned.aligner is None  # it takes seconds to learn
    guided = recipe(folder, "guided_alignment=0.3")
    batch = corpus.epochs(guided)(0).collate([0, 3, 5])
    assert batch.alignment is not None
    assert batch.alignment.shape == (3, *batch.target_output.shape[1:], *batch.source.shape[1:])
    # `one` and `two` are in every line, so that only the word between them is known from others.
    chosen = batch.source.gather(1, batch.alignment.argmax(dim=2))
    source, target = corpus.source_tokenizer, corpus.target_tokenizer
    for row, number in enumerate([0, 3, 5]):
        words = source.decode(corpus.kept.examples[number][0]).split()
        assert target.decode(corpus.kept.examples[number][1]).lower().split() == words
        assert source.decode(chosen[row][:3].tolist()).split() == words
    assert batch.to(torch.device("cpu")).alignment is not None


def test_learning_alignments_can_be_stopped_and_happens_once(folder: Path) -> None:
    guided, asked = recipe(folder, "guided_alignment=0.3"), [False]
    corpus = read_parallel(guided, None, None, should_stop=lambda: asked[0])
    asked[0] = True
    with pytest.raises(Stopped):
        corpus.epochs(guided)
    asked[0] = False
    first, copy = corpus.epochs(guided)(0).aligner, corpus.with_origin(None)
    assert first is not None and copy is not corpus
    assert copy.epochs(guided)(1).aligner is first


def test_alignments_are_learned_from_sampled_segmentations(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["tokenizer.kind=bpe", "tokenizer.vocab_size=320", "guided_alignment=0.3"]
    for sampling in (0.5, 0.0):
        seen: list[Measured] = []
        monkeypatch.setattr(
            "crosshead.tasks.translation.parallel_corpus.WordAligner",
            lambda examples, size, check, seen=seen: seen.append(examples),
        )
        sampled = recipe(folder, *settings, f"tokenizer.sampling={sampling}")
        corpus = read_parallel(sampled, None, None)
        corpus.epochs(sampled)
        assert len(seen) == 1 and isinstance(seen[0], Sampled) == bool(sampling)
        usual = [list(source) for source, _ in corpus.kept.examples]
        assert ([list(source) for source, _ in seen[0]] == usual) == (not sampling)


def test_tokenised_references_are_warned_of_once(folder: Path) -> None:
    lines = [f"{line} ." for line in LINES]
    (folder / "tokenised").write_text("\n".join(lines) + "\n")
    data = {"source": str(folder / "en"), "target": str(folder / "tokenised")}
    for valid, where in (
        ({}, "the held-out references"),
        (
            {"valid_source": data["source"], "valid_target": data["target"]},
            str(folder / "tokenised"),
        ),
    ):
        settings = compose(flags={"data": {**data, **valid}}, assignments=["tokenizer.kind=words"])
        corpus = read_parallel(settings, None, None)
        valid_text = dataclasses.replace(corpus.valid, target=lines)
        corpus = dataclasses.replace(corpus, valid=valid_text)
        [said] = [line for line in corpus.opening(settings.data) if "tokenised text" in line]
        assert said.startswith(f"warning: {where}: tokenised text")
    plain = recipe(folder)
    assert not any("tokenised" in x for x in read_parallel(plain, None, None).opening(plain.data))


def test_the_same_text_on_both_sides_is_warned_of(folder: Path) -> None:
    (folder / "copy").write_bytes((folder / "en").read_bytes())
    said: list[str] = []
    read_parallel(recipe(folder), None, None, said.append)
    assert said == []
    for source, target in (("en", "en"), ("en", "copy")):
        data = {"source": str(folder / source), "target": str(folder / target)}
        settings = compose(flags={"data": data}, assignments=["tokenizer.kind=words"])
        read_parallel(settings, None, None, said.append)
        [warning], said = said, []
        assert warning.startswith("warning: both sides hold the same text in 100% of the pairs")


def test_suspect_pairs_are_warned_of_once_and_change_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pairs(600)
    (folder / "en").write_text("".join(f"{line}\n" for line in source))
    english = [*source[301:], source[300]]
    (folder / "de").write_text("".join(f"{line}\n" for line in [*target[:300], *english]))
    said: list[str] = []
    corpus = read_parallel(recipe(folder), None, None, said.append)
    [warning] = said
    assert warning.startswith("warning: suspect pairs in 600 pairs: 300 language; to see them: ")
    sides = "source_language=en", "target_language=de"
    tagged = with_tags(recipe(folder, "data.directions=tagged", *sides))[0]
    read_parallel(tagged, None, None, said.append)
    assert said == [warning]  # a run in several directions has several languages on a side
    monkeypatch.setattr(
        "crosshead.tasks.translation.parallel_corpus.quick_check", lambda *arguments: Glance([], "")
    )
    assert read_parallel(recipe(folder), None, None).sha256() == corpus.sha256()


def test_the_profile_leaves_out_suspect_pairs_in_a_resumed_run_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pairs(600)
    foreign = range(7, 607, 30)
    source = [target[row] if row in foreign else line for row, line in enumerate(source)]
    (folder / "en").write_text("".join(f"{line}\n" for line in source))
    (folder / "de").write_text("".join(f"{line}\n" for line in target))
    corpus = read_parallel(recipe(folder), None, None)
    assert list(corpus.suspects) == list(foreign)
    run = folder / "run"
    run.mkdir()
    save_tokenizers(run, corpus.source_tokenizer, corpus.target_tokenizer, joint=True)
    said: list[str] = []
    resumed = read_parallel(recipe(folder), None, run, said.append)
    assert said == [] and resumed.profile == corpus.profile is not None
    odd = target[0]
    assert "words" in resumed.profile.source_flags(odd, resumed.source_tokenizer.encode(odd))
    whole = dataclasses.replace(corpus, suspects=())
    assert whole.profile is not None and whole.profile != corpus.profile


def test_validation_files_leave_the_training_text_whole(folder: Path) -> None:
    settings = recipe(folder, f"valid_pairs={folder / 'tsv'}")
    corpus = read_parallel(settings, None, None)
    assert not corpus.held_out
    assert corpus.kept.encoded.rows.tolist() == list(range(len(LINES)))
    assert corpus.valid.target == ["X Y", "X"]
    typed = settings.data.renamed(["a", "b", "typed.tsv"])
    assert corpus.validation(typed) == "2 pairs of typed.tsv"
    assert corpus.longest_input == 3


def test_validation_pairs_that_are_also_training_pairs_are_warned_of(folder: Path) -> None:
    def opening(validation: list[str]) -> list[str]:
        (folder / "v.tsv").write_text("".join(f"{x}\t{x.upper()}\n" for x in validation))
        settings = recipe(folder, f"valid_pairs={folder / 'v.tsv'}")
        return read_parallel(settings, None, None).opening(settings.data)

    new = [f"{line} one" for line in LINES]
    warning = (
        "warning: 1 of 50 validation pairs are also training pairs, so scores are too high for "
        "new text; validate on other pairs"
    )
    assert warning in opening([LINES[7], *(new * 3)[:49]])
    assert not any("also training" in line for line in opening([LINES[7], *(new * 3)[:50]]))
    held_out = recipe(folder)
    lines = read_parallel(held_out, None, None).opening(held_out.data)
    assert not any("also training" in line for line in lines)


def test_the_files_are_listed_with_their_pairs(folder: Path) -> None:
    corpus = read_parallel(recipe(folder, f"pairs={folder / 'tsv'}"), None, None)
    assert [(Path(file.path).name, file.lines) for file in corpus.files] == [
        ("en", 20), ("de", 20), ("tsv", 2),
    ]  # fmt: skip
    assert len({file.sha256 for file in corpus.files}) == 3


def test_a_run_that_goes_on_keeps_its_tokenizers(folder: Path) -> None:
    settings = recipe(folder, "tokenizer.joint=false", "tie=two-way")
    first = read_parallel(settings, None, None)
    assert first.source_tokenizer.encode("one") != first.target_tokenizer.encode("one")
    first.source_tokenizer.save(folder, "source")
    first.target_tokenizer.save(folder, "target")
    (folder / "en").write_text("\n".join(f"{line} more" for line in LINES) + "\n")
    second = read_parallel(settings, None, folder)
    words = second.source_tokenizer
    assert words.vocab_size == first.source_tokenizer.vocab_size
    assert words.decode(words.encode("one more")) == "one <unk>"
    assert load_tokenizer(folder, "target").vocab_size == second.target_tokenizer.vocab_size


def test_the_checksum_is_of_all_ids(folder: Path) -> None:
    corpus = read_parallel(recipe(folder), None, None)
    before = corpus.sha256()
    assert before == read_parallel(recipe(folder), None, None).sha256()
    fewer = dataclasses.replace(corpus, valid_examples=corpus.valid_examples[1:])
    other = dataclasses.replace(corpus, kept=dataclasses.replace(corpus.kept, sha256="0"))
    assert len({before, fewer.sha256(), other.sha256()}) == 3


def test_sampled_examples_are_others_in_each_epoch_and_the_same_again(folder: Path) -> None:
    settings = recipe(
        folder, "tokenizer.kind=bpe", "tokenizer.vocab_size=306", "tokenizer.sampling=0.5"
    )
    draw = epoch_examples(settings, read_parallel(settings, None, None))
    first, again, other = ([list(map(list, pair)) for pair in draw(n)] for n in (0, 0, 1))
    assert first == again != other
    plain = recipe(folder)
    corpus = read_parallel(plain, None, None)
    assert list(epoch_examples(plain, corpus)(3)) == list(corpus.kept.examples)


def test_text_without_a_pair_is_refused_by_its_files(folder: Path) -> None:
    (folder / "de").write_text("\n" * 20)
    with pytest.raises(DataError, match=r"en, .*de: no pair has text on both sides"):
        read_parallel(recipe(folder), None, None)
    (folder / "de").write_text("x\n" * 20)
    (folder / "tsv").write_text(" \tX\n")
    with pytest.raises(DataError, match="tsv: no pair has text"):
        read_parallel(recipe(folder, f"valid_pairs={folder / 'tsv'}"), None, None)


def test_a_cache_that_cannot_be_written_can_be_moved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.LARGEST_IN_MEMORY", 10)
    (tmp_path / "file").write_text("x")
    cache = tmp_path / "file/cache"
    monkeypatch.setenv("CROSSHEAD_CACHE", str(cache))
    with pytest.raises(UserError, match=r"; or set CROSSHEAD_CACHE to another place") as caught:
        read_parallel(recipe(folder), None, None)
    assert str(caught.value).startswith(f"{cache}: cannot make")
    monkeypatch.setenv("CROSSHEAD_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataError) as refused:
        read_parallel(recipe(folder, "data.max_length=1"), None, None)
    assert "CROSSHEAD_CACHE" not in str(refused.value)


def test_a_large_corpus_is_found_in_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, said = recipe(folder, f"pairs={folder / 'tsv'}", "data.weights=[1, 2]"), list[str]()
    small = read_parallel(settings, None, None, said.append)
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.LARGEST_IN_MEMORY", 10)
    monkeypatch.setenv("CROSSHEAD_CACHE", str(tmp_path / "cache"))
    corpora = [read_parallel(settings, None, None, said.append) for _ in range(2)]
    small.source_tokenizer.save(folder, "tokenizer")
    # A run that goes on neither reads nor tokenizes the text.
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.survey", None)
    monkeypatch.setattr("crosshead.tasks.translation.parallel_corpus.hold_out", None)
    corpora.append(read_parallel(settings, None, folder, said.append))
    for corpus in corpora:
        assert corpus.sha256() == small.sha256()
        assert corpus.files == small.files and corpus.valid == small.valid
        assert corpus.kept.left_out == small.kept.left_out
        for epoch in (0, 1):
            ours, theirs = (epoch_examples(settings, each)(epoch) for each in (corpus, small))
            assert list(ours) == list(theirs)
    assert said == [
        f"tokenizing 22 pairs into {tmp_path / 'cache'}, where later runs reuse them",
        "tokenized 22 of 22 pairs",
    ]
    assert len(list((tmp_path / "cache").glob("*/corpus.json"))) == 1


def test_a_corpus_with_a_weight_comes_as_often_in_an_epoch(folder: Path) -> None:
    valid = f"valid_pairs={folder / 'tsv'}"
    settings = recipe(folder, f"pairs={folder / 'tsv'}", valid, "data.weights=[0.5, 3]")
    corpus = read_parallel(settings, None, None)
    draw = epoch_examples(settings, corpus)
    small = [pair for row, pair in enumerate(corpus.kept.examples) if row >= 20]
    for epoch in (0, 1):
        assert len(draw(epoch)) == 16 and len(example_lengths(draw(epoch))) == 16
        assert sum(pair in small for pair in draw(epoch)) == 6
    assert list(draw(0)) == list(draw(0)) != list(draw(1))


def test_a_text_is_read_until_somebody_asks_for_the_end(folder: Path) -> None:
    asked = iter([False, False, True])
    with pytest.raises(Stopped):
        read_parallel(recipe(folder), None, None, should_stop=lambda: next(asked))
    # SentencePiece reads the text itself, in pieces of 20 pairs here, and hides what that raises.
    asked = iter([False, False, False, False, True, True])
    bpe = recipe(folder, "tokenizer.kind=bpe", "tokenizer.vocab_size=306")
    with pytest.raises(Stopped):
        read_parallel(bpe, None, None, should_stop=lambda: next(asked))


TRAIN = """
import crosshead.text.parallel.filters, crosshead.text.parallel.shards
import crosshead.tasks.translation.parallel_corpus
from crosshead.cli import main
crosshead.tasks.translation.parallel_corpus.LARGEST_IN_MEMORY = 1000
crosshead.text.parallel.filters.CHUNKS_A_SHARD = crosshead.text.parallel.shards.CHUNKS_A_SHARD = 2
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [(signal.SIGINT, 130, "tokenizing"), (signal.SIGTERM, 143, "tokenized")],
)
def test_a_signal_ends_tokenizing_within_seconds_and_keeps_what_is_done(
    number: int, code: int, line: str, tmp_path: Path
) -> None:
    """As a terminal does, the signal is sent to all processes of the group."""
    for name in ("en", "de"):
        lines = "".join(f"{name} {row} {'word ' * 40}\n" for row in range(200_000))
        (tmp_path / name).write_text(lines)
    out, cache = tmp_path / "run", tmp_path / "cache"
    settings = [
        "--set",
        "tokenizer.kind=characters",
        "--set",
        "precision=float32",
        "--threads",
        "1",
    ]
    files = ["--source", tmp_path / "en", "--target", tmp_path / "de", "--out", out]
    with subprocess.Popen(
        [sys.executable, "-c", TRAIN, "train", *files, *settings],
        env={**os.environ, "CROSSHEAD_CACHE": str(cache)},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr
        while not process.stderr.readline().startswith(line):
            assert process.poll() is None
        began = time.perf_counter()
        os.killpg(process.pid, number)
        assert process.wait(timeout=60) == code
        seconds = time.perf_counter() - began
        said = process.stderr.read()
    assert seconds < 5
    assert "Traceback" not in said
    assert said.endswith(f"crosshead: stopped before the first update: nothing is left in {out}\n")
    assert not out.exists()
    finished = list(cache.glob("*/corpus.json"))
    assert bool(finished) == (line == "tokenized")


def several(folder: Path, *assignments: str) -> Recipe:
    for side in ("en", "de", "fr"):
        lines = "".join(f"{side} {line}\n" for line in LINES)
        (folder / f"a.{side}").write_text(lines)
    data = {"source": [str(folder / "a.en")] * 2,
            "target": [str(folder / "a.de"), str(folder / "a.fr")]}  # fmt: skip
    given = compose(flags={"data": data}, assignments=["tokenizer.kind=words", *assignments])
    return with_tags(given)[0]


def sources_of(corpus: ParallelCorpus) -> list[str]:
    return [corpus.source_tokenizer.decode(source) for source, _ in corpus.kept.examples]


def test_tags_are_one_piece_and_both_directions_are_the_reverse_of_each_other(
    folder: Path,
) -> None:
    corpus = read_parallel(several(folder, "data.directions=both"), None, None)
    tokenizer = corpus.source_tokenizer
    assert tokenizer.special == ["<2de>", "<2en>", "<2fr>"]
    pairs = [tuple(map(tokenizer.decode, pair)) for pair in corpus.kept.examples]
    assert {source.split()[0] for source, _ in pairs} == {"<2de>", "<2fr>", "<2en>"}
    half = len(pairs) // 2
    for (source, target), (back, forth) in zip(pairs[:half], pairs[half:], strict=True):
        assert source == f"<2{target[:2]}> {forth}"
        assert back == f"<2{forth[:2]}> {target}"
    ids = [source for source, _ in corpus.kept.examples]
    pieces = {tokenizer.pieces(source)[0] for source in ids}
    assert pieces == {"<2de>", "<2fr>", "<2en>"}
    assert len(corpus.files) == 4  # each file once, although it is read twice


def test_tags_alone_keep_the_direction_of_each_corpus(folder: Path) -> None:
    settings = several(folder, "data.directions=tagged")
    corpus = read_parallel(settings, None, None)
    assert {source.split()[0] for source in sources_of(corpus)} == {"<2de>", "<2fr>"}
    config = corpus.bundle_config(settings, 10)
    assert config.target_languages == ["de", "fr"]
    plain = read_parallel(recipe(folder), None, None).bundle_config(recipe(folder), 10)
    assert plain.target_languages == []


def test_weights_count_for_both_directions(folder: Path) -> None:
    settings = several(folder, "data.directions=both", "data.weights=[2,1]")
    corpus = read_parallel(settings, None, None)
    tags = [
        corpus.source_tokenizer.pieces(source)[0]
        for source, _ in (epoch_examples(settings, corpus)(0)[row] for row in range(120 - 12))
    ]
    counts = {tag: tags.count(tag) for tag in set(tags)}
    assert counts["<2de>"] == 2 * counts["<2fr>"]
    assert counts["<2en>"] == counts["<2de>"] + counts["<2fr>"]


def test_a_bundle_without_the_tag_is_refused(folder: Path) -> None:
    settings = several(folder, "data.directions=tagged")
    base = read_parallel(recipe(folder), None, None)
    size = base.source_tokenizer.vocab_size
    model = build_model(settings.model, size, size)
    bundle = base.bundle(base.bundle_config(recipe(folder), 10), model)
    with pytest.raises(ConfigError, match="the tokenizer has no piece <2de> and <2fr>: its model"):
        read_parallel(settings, bundle, None)


def test_languages_must_be_known_and_differ(folder: Path) -> None:
    with pytest.raises(DataError, match=r"expected two languages.*found none and none"):
        with_tags(recipe(folder, "data.directions=tagged"))
    stated = recipe(folder, "data.directions=both", "source_language=en", "target_language=de")
    filled, said = with_tags(stated)
    assert filled.tokenizer.special == ["<2de>", "<2en>"]
    assert said == [f"directions: <2de> {folder / 'en'} {folder / 'de'}, <2en> {folder / 'de'} "
                    f"{folder / 'en'}"]  # fmt: skip
    assert with_tags(filled)[0] == filled


def test_an_old_domain_is_mixed_in_and_validated(folder: Path) -> None:
    for side, change in (("en", str), ("de", str.upper)):
        (folder / f"old.{side}").write_text("".join(f"{change(f'old {n}')}\n" for n in range(50)))
        (folder / f"valid.{side}").write_text(f"{change('one two')}\n")
    data = {
        "source": str(folder / "en"), "target": str(folder / "de"),
        "old_source": str(folder / "old.en"), "old_target": str(folder / "old.de"),
        "valid_pairs": str(folder / "tsv"), "old_valid_source": str(folder / "valid.en"),
        "old_valid_target": str(folder / "valid.de"), "old_ratio": 0.5,
    }  # fmt: skip
    settings = compose(flags={"data": data}, assignments=["tokenizer.kind=words"])
    corpus = read_parallel(settings, None, None)
    assert corpus.old_valid is not None and corpus.old_valid.target == ["ONE TWO"]
    assert [line for line in corpus.opening(settings.data) if line.startswith("old domain")] == [
        "old domain: 50 of these pairs (data.old_ratio = 0.5); validation with 1 pair of "
        f"{folder / 'valid.en'}, {folder / 'valid.de'}"
    ]
    drawn = []
    for epoch in (0, 1):
        examples = epoch_examples(settings, corpus)(epoch)
        sources = [corpus.source_tokenizer.decode(examples[row][0]) for row in range(len(examples))]
        old = [source for source in sources if source.startswith("old")]
        assert len(old) == len(LINES) // 2 and sorted(set(sources) - set(old)) == sorted(LINES)
        drawn.append(old)
    assert drawn[0] != drawn[1]
    alone = compose(flags={"data": {**data, "old_valid_target": str(folder / "valid.en")}},
                    assignments=["tokenizer.kind=words"])  # fmt: skip
    assert read_parallel(alone, None, None).sha256() != corpus.sha256()


@pytest.mark.parametrize("directions", ["one", "both"])
def test_old_pairs_that_repeat_old_validation_pairs_are_left_out(
    directions: str, folder: Path
) -> None:
    for name in ("en", "de"):
        lines = (folder / name).read_text().splitlines()
        (folder / f"old.{name}").write_text("".join(f"{line} old\n" for line in lines))
        (folder / f"valid.{name}").write_text(f" {lines[3]} old\n{lines[5]}\n")
    data = {
        "source": str(folder / "en"), "target": str(folder / "de"),
        "valid_source": str(folder / "en"), "valid_target": str(folder / "de"),
        "old_source": str(folder / "old.en"), "old_target": str(folder / "old.de"),
        "old_valid_source": str(folder / "valid.en"), "old_valid_target": str(folder / "valid.de"),
        "directions": directions, "source_language": "en", "target_language": "de",
    }  # fmt: skip
    settings = compose(flags={"data": data}, assignments=["tokenizer.kind=words"])
    if directions == "both":
        settings, _ = with_tags(settings)
    corpus = read_parallel(settings, None, None)
    rows = range(40 * (1 if directions == "one" else 2))
    gone = [23] if directions == "one" else [23, 63]
    assert corpus.kept.encoded.rows.tolist() == [row for row in rows if row not in gone]
    assert {each.line for each in corpus.kept.left_out} == {4}
    (line, *_) = corpus.opening(settings.data)
    assert f"left out: repeats a validation source {len(gone)}" in line


def test_other_translations_of_an_old_validation_source_are_left_out(folder: Path) -> None:
    """A run that held the source out left its other translations out of training, too."""
    (folder / "old.tsv").write_text("a long old source\tEINS\na long old source\tZWEI\nx\tDREI\n")
    (folder / "valid.tsv").write_text("a long old source\tVIER\nx\tFÜNF\n")
    data = {
        "source": str(folder / "en"), "target": str(folder / "de"),
        "valid_source": str(folder / "en"), "valid_target": str(folder / "de"),
        "old_pairs": str(folder / "old.tsv"), "old_valid_pairs": str(folder / "valid.tsv"),
    }  # fmt: skip
    corpus = read_parallel(compose(flags={"data": data}), None, None)
    assert [each.line for each in corpus.kept.left_out] == [1, 2]
    both = {**data, "directions": "both", "source_language": "en", "target_language": "de"}
    tags = ['tokenizer.special=["<2en>", "<2de>"]']
    corpus = read_parallel(compose(assignments=tags, flags={"data": both}), None, None)
    assert [each.line for each in corpus.kept.left_out] == [1, 2, 1, 2]


@pytest.mark.parametrize(("count", "few"), [(99, True), (100, False)])
def test_a_hundred_pairs_are_no_longer_few(count: int, few: bool, tmp_path: Path) -> None:
    for name in ("en", "de"):
        lines = [f"{name} {number}" for number in range(count + 1)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    corpus = read_parallel(recipe(tmp_path, "data.valid_size=1"), None, None)
    opening = corpus.opening(recipe(tmp_path).data)
    assert corpus.size == count
    assert any(f"warning: from {count} pairs a model" in line for line in opening) == few
    assert bool(corpus.data_fault) == few


def test_the_fault_of_the_data_is_said_once_and_not_by_a_resumed_run(tmp_path: Path) -> None:
    source, target = pairs(600)
    (tmp_path / "en").write_text("\n".join(source) + "\n")
    (tmp_path / "de").write_text("\n".join(reversed(target)) + "\n")
    said: list[str] = []
    corpus = read_parallel(recipe(tmp_path), None, None, said.append)
    assert "do not belong together line by line" in corpus.data_fault
    assert f"warning: {corpus.data_fault}" in said
    sides = corpus.source_tokenizer, corpus.target_tokenizer
    save_tokenizers(tmp_path, *sides, joint=corpus.tokenizer.joint)
    said.clear()
    assert not read_parallel(recipe(tmp_path), None, tmp_path, said.append).data_fault
    assert not any("warning" in line for line in said)


def test_a_resumed_run_repeats_no_warning_about_its_data(tmp_path: Path) -> None:
    """A resumed run does not know here whether it was fine-tuned, when few pairs are enough."""
    for name in ("en", "de"):
        (tmp_path / name).write_text("".join(f"{number} same\n" for number in range(40)))
    said: list[str] = []
    corpus = read_parallel(recipe(tmp_path), None, None, said.append)
    assert any("hold the same text" in line for line in said) and corpus.few
    sides = corpus.source_tokenizer, corpus.target_tokenizer
    save_tokenizers(tmp_path, *sides, joint=corpus.tokenizer.joint)
    said.clear()
    resumed = read_parallel(recipe(tmp_path), None, tmp_path, said.append)
    assert not said and not resumed.few
