"""The benchmarks compare equals: the peers compute what ours computes; and the scripts run."""

import itertools
import math
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import yaml
from torch.testing import assert_close

from crosshead.addons.interop.ctranslate2_model import library
from crosshead.bundle.io import save_bundle
from crosshead.bundle.text_bundle import TextBundle, TextBundleConfig
from crosshead.errors import UserError
from crosshead.models.transformer import Transformer, TransformerConfig
from crosshead.tasks.token_loss import LabelSmoothing, token_loss
from crosshead.text.batching import collate
from crosshead.text.profile import TextProfile
from crosshead.text.tokenizers import TokenizerConfig, train_tokenizer
from crosshead.vocabulary import BOS, EOS, PAD

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SHAPE = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2}
VOCABULARY = 40
SIDES = (("source", "val.en"), ("target", "val.de"))


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def random_model(**settings: object) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(**{**SHAPE, **settings})
    return Transformer(config, VOCABULARY, VOCABULARY).eval()


def copying_model() -> Transformer:
    """A model that has begun to learn to copy: its outputs differ, and they end."""
    model = random_model()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        sources = [row[:-1] for row in random_sources(64)]
        batch = collate(list(zip(sources, sources, strict=True)), range(64))
        sums = token_loss(model.train(), batch, LabelSmoothing(0.1))
        (sums.sums["loss"] / sums.count).backward()
        adam.step()
        adam.zero_grad()
    return model.eval()


def random_sources(count: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCABULARY, (count, 7), generator=generator).tolist()
    return [[*row[: 3 + number % 5], EOS] for number, row in enumerate(ids)]


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-halves"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_marian_computes_the_same_logits(positions: str, attention: str) -> None:
    from peers import marian_of

    ours = random_model(positions=positions)
    theirs = marian_of(ours, attention)
    source = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
    target = torch.tensor([[BOS, 9, 10], [BOS, 11, 12]])
    with torch.no_grad():
        found = theirs(
            input_ids=source,
            attention_mask=(source != PAD).long(),
            decoder_input_ids=target,
        ).logits
        assert_close(found, ours(source, target), rtol=1e-4, atol=1e-4)


def test_a_model_that_marian_cannot_be_is_refused() -> None:
    from peers import marian_of

    with pytest.raises(UserError, match=r"model\.norm = 'post', found 'pre'"):
        marian_of(random_model(norm="pre"), "sdpa")


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["generate", "CTranslate2"])
def test_the_peers_find_the_same_translations(peer: str, tmp_path: Path) -> None:
    library()  # before anything else imports CTranslate2
    from ctranslate2_model import write_ctranslate2
    from translate_speed import LIBRARIES

    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), ["abc"])
    ours = copying_model()
    write_ctranslate2(ours, tmp_path / "ctranslate2")
    config = TextBundleConfig(
        model=ours.config,
        joint_tokenizer=True,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        longest_source=9,
    )
    bundle = TextBundle(config, ours, tokenizer, tokenizer)
    settings = {
        "files": str(tmp_path),
        "precision": "float32",
        "attention": "sdpa",
        "translators": 1,
        "threads": 1,
        "budget": 30,
        "beam": 3,
    }
    sources = random_sources(12)
    expected = LIBRARIES["crosshead"](bundle, settings)(sources)
    found = LIBRARIES[peer](bundle, settings)(sources)
    finished = [row for row, ids in enumerate(expected) if ids[-1] == EOS]
    assert len({tuple(expected[row]) for row in finished}) > 6
    # What does not end is cut at a limit that is a batch's, not a sentence's, for the peers.
    assert [found[row] for row in finished] == [expected[row] for row in finished]


def test_a_report_begins_with_the_machine() -> None:
    from harness import machine

    processor, rates, versions, command = machine().splitlines()
    assert "cores" in processor and "GFLOP/s in float32" in rates
    assert torch.__version__ in versions and command.startswith("- `python ")


def test_the_calibration_finds_the_fastest_settings_choice_by_choice() -> None:
    from harness import choose_settings

    speeds = {("slow", 1): 1.0, ("slow", 2): 2.0, ("fast", 2): 5.0, ("fast", 1): 6.0}
    rows: list[list[str]] = []
    best = choose_settings(
        {"side": "ours", "kind": "slow", "threads": 2},
        {"kind": ["slow", "fast"], "threads": [1, 2]},
        lambda settings: speeds[settings["kind"], settings["threads"]],
        rows,
    )
    assert best == {"side": "ours", "kind": "fast", "threads": 1}
    assert rows == [
        ["ours", "kind slow, threads 2", "2"],
        ["ours", "kind fast, threads 2", "5"],
        ["ours", "kind fast, threads 1", "6"],
    ]


def run(script: str, *arguments: object) -> str:
    """What a script prints."""
    process = subprocess.run(
        [sys.executable, BENCHMARKS / script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.slow
def test_the_training_benchmark_runs(data: Path) -> None:
    printed = run(
        "train_speed.py", "--sizes", "tiny", "--rounds", 1, "--updates", 1, "--loss", 1,
        "--pairs", 200, "--vocabulary", 400, "--no-calibration",
    )  # fmt: skip
    assert "- crosshead / Marian: **" in printed
    assert "- crosshead / Marian, bfloat16 weights: **" in printed
    assert "not measured" not in printed


@pytest.mark.slow
def test_the_memory_benchmark_runs() -> None:
    printed = run(
        "memory.py", "--size", "tiny", "--tokens", 128, "--rounds", 1, "--depths", 1
    )  # fmt: skip
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows if row[0].startswith("| 1+1")] == [
        "| 1+1 layers", "| 1+1 layers, recompute"
    ]  # fmt: skip


@pytest.mark.slow
def test_the_benchmark_of_regularisers_runs(data: Path) -> None:
    printed = run("regularisers.py", "--rounds", 1, "--vocabulary", 400)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[1:3]] == ["| none", "| subword sampling 0.1"]
    assert len(rows) == 7 and rows[1][-1] == "1.00 (1.00 to 1.00) |"


@pytest.mark.slow
def test_the_benchmark_of_long_sequences_runs() -> None:
    printed = run(
        "long_attention.py", "--lengths", 128, 256, "--radius", 8, "--rounds", 1, "--threads", 1,
    )  # fmt: skip
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    for pattern in ("full", "window", "dilated", "strided", "fixed"):
        found = [row[1] for row in rows if row[0] == f"| {pattern}"]
        assert found == ["128", "256", "exponent"]
    assert "256^2 x 4 heads x 4 bytes" in printed


@pytest.mark.slow
def test_the_benchmark_of_shared_weights_runs() -> None:
    torchrun = Path(sys.executable).with_name("torchrun")
    command = [torchrun, "--nproc-per-node", "2", BENCHMARKS / "sharding.py", "--size", "tiny"]
    for form, more in (("replicated", []), ("sharded", ["--sharded"])):
        process = subprocess.run(
            [*map(str, command), *more], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(BENCHMARKS.parent), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        for rank in (0, 1):
            assert f"process {rank} of 2, {form}, 2.3 M parameters, float32: " in process.stdout


@pytest.mark.slow
def test_the_benchmark_of_a_large_corpus_runs(tmp_path: Path) -> None:
    printed = run("large_corpus.py", "--pairs", 3000, "--folder", tmp_path)
    rows = [line.split(" | ") for line in printed.splitlines() if " | " in line]
    assert [row[0] for row in rows] == ["run", "cold", "resumed", "from the cache"]
    assert all(float(row[1]) > 0 for row in rows[1:])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_benchmark_of_going_on_runs(data: Path) -> None:
    texts = [f"--{side}={data / 'multi30k/raw' / file}" for side, file in SIDES]
    printed = run(
        "resume.py", "--rounds", 1, *texts, "--set=train.batch_tokens=20000", "--set=d_model=16",
        "--set=heads=2", "--set=vocab_size=500", "--set=encoder_layers=1", "--set=decoder_layers=1",
    )  # fmt: skip
    rows = [line for line in printed.splitlines() if line.startswith("| after ")]
    assert len(rows) == 2 and rows[0].startswith("| after 1 of ")


LINES = ["a man rides", "two dogs", "the red ball flies"]


def write_bundle_and_lines(folder: Path) -> list[object]:
    """Write an untrained bundle and what it translates; return arguments that name them."""
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), LINES)
    config = TransformerConfig(**SHAPE)
    bundle = TextBundle(
        TextBundleConfig(
            model=config,
            joint_tokenizer=True,
            source_vocabulary=tokenizer.vocab_size,
            target_vocabulary=tokenizer.vocab_size,
            longest_source=20,
        ),
        Transformer(config, tokenizer.vocab_size, tokenizer.vocab_size).eval(),
        tokenizer,
        tokenizer,
    )
    save_bundle(folder / "bundle", bundle, "")
    for side in ("source", "reference"):
        (folder / side).write_text("\n".join(LINES) + "\n")
    named = [f"--{side}={folder / side}" for side in ("source", "reference")]
    return [folder / "bundle", *named]


@pytest.mark.slow
def test_the_translation_benchmark_runs(tmp_path: Path) -> None:
    files = write_bundle_and_lines(tmp_path)
    printed = run("translate_speed.py", *files, "--rounds", 1, "--no-calibration")
    assert "times as fast as CTranslate2 int8" in printed


@pytest.mark.slow
def test_the_benchmark_of_stops_runs(tmp_path: Path) -> None:
    files = write_bundle_and_lines(tmp_path)
    printed = run("beam_stops.py", *files, "--beam", 3, "--length-penalty", 1, "--n-best", 2)
    assert (
        "beam 3, length penalty 1, at most 50 tokens more than the source, n-best 2, 3" in printed
    )
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[2:]] == ["| full", "| exact"]
    full, exact = (int(row[2].split()[0].replace(",", "")) for row in rows[2:])
    assert exact >= full > 0


@pytest.mark.slow
def test_the_benchmark_of_odd_input_runs(tmp_path: Path, data: Path) -> None:
    sentences = [f"eins zwei {'abcdefghij'[n % 10] * (n % 7)}" for n in range(100)]
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), sentences)
    ids = [tokenizer.encode(sentence) for sentence in sentences]
    profile = TextProfile.of(list(zip(ids, ids, strict=True)), tokenizer, tokenizer)
    sizes = dict.fromkeys(("source_vocabulary", "target_vocabulary"), tokenizer.vocab_size)
    model = Transformer(TransformerConfig(**SHAPE), *sizes.values()).eval()
    config = TextBundleConfig(
        model=model.config, joint_tokenizer=True, longest_source=400, profile=profile, **sizes
    )
    save_bundle(tmp_path, TextBundle(config, model, tokenizer, tokenizer), "A card.")
    printed = run("odd_input.py", tmp_path, "--most", 2)
    rows = {line.split(" | ")[0]: line.split(" | ") for line in printed.splitlines()}
    assert rows["| in Greek letters"][1:3] == ["2", "100.0"]
    assert rows["| validation, en"][2] == "0.0"
    assert rows["| val, references"][1] == rows["| val, model"][1] == "2"


@pytest.mark.slow
def test_the_benchmark_of_data_curves_runs() -> None:
    printed = run("data_curves.py", "--draws", 2, "--runs", 4)
    assert "| flat | 0.00 |" in printed and printed.count("\n| ") == 7


@pytest.mark.slow
def test_the_benchmark_of_presets_runs(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for _ in range(2):  # the second time nothing is trained
        printed = run(
            "defaults.py", "--folder", folder, "--pairs", 50, "--minutes", 0.1, "--joined", 2,
            "--directions", "en-de", "--test", "val", "--presets", "auto", "tiny,d_model=16",
        )  # fmt: skip
        fixed, auto = [line for line in printed.splitlines() if line.startswith("| en-de | 50 |")]
        assert fixed.startswith("| en-de | 50 | 2 | 0.1 | tiny,d_model=16 | ")
        assert auto.startswith("| en-de | 50 | 2 | 0.1 | auto | ")
    assert len((folder / "50x2-train.en").read_text().splitlines()) == 50


@pytest.mark.slow
def test_the_benchmark_of_time_to_quality_runs(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    for _ in range(2):  # the second time nothing is trained
        printed = run(
            "time_to_quality.py", "--folder", folder, "--systems", "crosshead,d_model=16",
            "--pairs", 50, "--minutes", 0.25,
        )  # fmt: skip
        [row] = [line for line in printed.splitlines() if line.startswith("| crosshead")]
        assert row.startswith("| crosshead,d_model=16 | 50 | ") and row.count("|") == 8
    assert len((folder / "crosshead,d_model=16-50-0.25/train.en").read_text().splitlines()) == 50


def test_a_system_is_stopped_when_its_processor_time_is_spent(tmp_path: Path) -> None:
    from time_to_quality import MESSAGES, spend

    assert 0.5 < spend([sys.executable, "-c", "while True: pass"], tmp_path, 1) < 2
    assert spend([sys.executable, "-c", "print('done')"], tmp_path, 1) < 1
    assert (tmp_path / MESSAGES).read_text() == "done\n"
    with pytest.raises(SystemExit, match="ended with 3"):
        spend([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, 1)


def test_a_system_trains_once_and_is_scored_on_the_validation_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from time_to_quality import System, row

    for name, count in (("train", 5), ("val", 4)):
        for language in ("en", "de"):
            lines = [f"{language} {name} number {number}\n" for number in range(count)]
            raw = tmp_path / "multi30k" / "raw"
            raw.mkdir(parents=True, exist_ok=True)
            (raw / f"{name}.{language}").write_text("".join(lines))
    monkeypatch.setenv("CROSSHEAD_DATA", str(tmp_path))

    class Copies(System):
        """Learns the last update, and translates with the references."""

        settings = {"updates": "3", "size": "7"}

        def training(self) -> list[list[str]]:
            text = "update {updates} of {size}".format(**self.chosen)
            program = f"open('log', 'a').write('update 1 of 7, {text}')"
            return [[self.python, "-c", program]]

        def translation(self) -> list[str]:
            program = "import sys; print(sys.stdin.read().replace('en', 'de'), end='')"
            return [self.python, "-c", program]

        def counts(self) -> tuple[int, int]:
            return self.logged("log", r"update (\d+)"), self.logged("log", r"of (\d+)")

    system = Copies(sys.executable, tmp_path / "run", 60, {"updates": "1200"})
    for _ in range(2):
        cells = row(system, 2)
        assert cells[:4] == ["100.0 (100.0–100.0)", "100.0", "1,200", "7"]
        assert len(cells) == 5 and (system.folder / "log").read_text().count("1200") == 1
    assert (system.folder / "train.de").read_text() == "de train number 0\nde train number 1\n"


def test_the_settings_of_the_peers_reach_their_commands(tmp_path: Path) -> None:
    from time_to_quality import Joey, Marian

    joey = Joey("python", tmp_path, 60, {"width": "64", "vocabulary": "123"})
    pieces, train = joey.training()
    assert "vocab_size=123" in pieces[2] and train[2:5] == ["joeynmt", "train", "joey.yaml"]
    written = yaml.safe_load((tmp_path / "joey.yaml").read_text())
    assert written["model"]["decoder"]["hidden_size"] == 64
    assert (written["data"]["src"]["lang"], written["data"]["trg"]["lang"]) == ("en", "de")
    [words] = Marian("python", tmp_path, 60, {"dim-emb": "64"}).training()
    assert words[words.index("--dim-emb") + 1] == "64"


STORED = Path(__file__).parent / "fixtures" / "bundle-format-1"


def rows_of(printed: str) -> dict[str, str]:
    """The rows of the table of a benchmark of the server."""
    rows = [line.strip("| ").split(" | ") for line in printed.splitlines() if line[:2] == "| "]
    return {each[0]: each[1] for each in rows}


@pytest.mark.slow
def test_an_overloaded_server_refuses_in_time_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"one {word} two\n" for word in "abcdefghijklmnop"))
    printed = run(
        "overload.py", STORED, tmp_path / "lines", "--seconds", 8, "--lines", 15, "--deadline", 3
    )  # fmt: skip
    rows = rows_of(printed)
    assert rows["neither 200 nor a 429 or 503"] == rows["429 and 503 without Retry-After"] == "0"
    assert "503: " in rows["answers by status"] and "200: " in rows["answers by status"]
    *_, largest = rows["answered with 200: median, p99, largest ms"].split(", ")
    assert 0 < int(largest) < 2 * 3000  # the deadline, and a client that is slow to notice
    assert "The server was alive at the end: True; exit code after SIGTERM: 0." in printed


@pytest.mark.slow
def test_the_metrics_of_a_server_under_load_are_the_counts_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"one {word} two\n" for word in "abcdefghijklmnop"))
    printed = run("soak.py", STORED, tmp_path / "lines", "--seconds", 10)
    rows = rows_of(printed)
    assert rows["answers of 500 and more, or none"] == "0"
    before, after = rows["open descriptors without clients, before and after"].split(", ")
    assert before == after
    assert (
        "differ from the client's: 0 of" in printed
        and "differ from the client's: 0 of 0" not in printed
    )


@pytest.mark.slow
def test_a_good_client_is_answered_beside_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"one {word} two\n" for word in "abcdefghijklmnop" * 7))
    printed = run("abuse.py", STORED, tmp_path / "lines", "--seconds", 1, "--pause", 0.2)
    rows = rows_of(printed)
    del rows["bad clients"], rows["---"]
    assert len(rows) == 10
    assert all(re.fullmatch(r"200: \d+", statuses) for statuses in rows.values())


def test_a_count_that_differs_from_the_client_is_found() -> None:
    from load import Answer, Request
    from soak import compared, expected_counts

    asked = Request("/translate", {}, None, 2, 10)
    answers = [Answer(asked, status, 0.0, 0.0, 0.1) for status in (200, 200, 400)]
    counts = expected_counts(answers)
    assert counts['crosshead_requests_total{path="/translate",status="200"}'] == 2.0
    assert (counts["crosshead_sentences_total"], counts["crosshead_characters_total"]) == (4, 20)
    assert compared(counts, answers) == []
    [line] = compared(counts | {"crosshead_sentences_total": 5.0}, answers)
    assert line == "`crosshead_sentences_total`: 5.0, and the client counted 4.0"
    other = {'crosshead_requests_total{path="/x",status="500"}': 1.0}
    assert len(compared(counts | other, answers)) == 1


DUMP = """\
#date;pid;id;http method;host;URL;HTTP status;size;duration;transaction;match;error;tag
100.5;<0.1.0>;1;post;127.0.0.1;/translate;200;72;500.0;-;;;a
101.0;<0.2.0>;2;post;127.0.0.1;/translate;503;72;1000.0;-;;;a
101.5;<0.1.0>;1;post;127.0.0.1;/translate;200;72;1000.0;-;;;a
103.0;<0.2.0>;2;post;127.0.0.1;/translate;200;72;2000.0;-;;;b
104.0;<0.2.0>;2;post;127.0.0.1;/translate;200;72;10"""


def test_the_answers_of_the_load_generator_are_read_as_far_as_they_are_whole() -> None:
    from tsung import Answer, answers_of, rate_of, totals_of

    found = answers_of(DUMP)
    assert found[0] == Answer("a", 1, 100.0, 0.5, 200) and found[1].status == 503
    assert [each.name for each in found] == ["a", "a", "a", "b"]
    # The first client is done at 101.5; until then there were two translations in 1.5 seconds.
    assert rate_of(found) == pytest.approx(2 / 1.5)
    log = "stats: users_count 3 3\nstats: 200 2 2\nstats: users 2 5\nstats: users_count 4 7\n"
    log += "stats: 200 3 5\nstats: 503 1 1\nstats: request 3 0.1 0.2 5 6 7 8\n"
    assert (totals_of(log), totals_of("")) == ((7, 6), (0, 0))


def test_each_phase_of_an_open_loop_has_its_own_rate_and_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tsung

    written: list[tuple[object, ...]] = []
    monkeypatch.setattr(tsung, "_run", lambda *values: written.append(values))
    tsung.open_loop("http://127.0.0.1:1", ["x"], [tsung.Phase("a", 4, 3), tsung.Phase("b", 50, 6)])
    [(_, _, load, sessions, expected, most)] = written
    text = tsung.configuration("127.0.0.1", 1, Path("bodies"), str(load), str(sessions), 9)
    root = ElementTree.fromstring(text.partition("\n")[2].partition("\n")[2])
    phases = root.findall("load/arrivalphase")
    assert [each.find("users").get("interarrival") for each in phases] == ["0.250000", "0.020000"]  # type: ignore[union-attr]
    chosen = [
        {setup.get("name"): setup.get("probability") for setup in each.findall("session_setup")}
        for each in phases
    ]
    assert chosen == [{"a": "100", "b": "0"}, {"a": "0", "b": "100"}]
    tags = [each.find("request").get("tag") for each in root.findall("sessions/session")]  # type: ignore[union-attr]
    assert tags == ["a", "b"] and expected is None and most == 3 + 6 + 30
    monkeypatch.undo()
    with pytest.raises(ValueError, match="a tab"):
        tsung.closed_loop("http://127.0.0.1:1", ["a\tb"], 1, 1)


def test_texts_of_the_load_are_surely_one_sentence() -> None:
    from serving import is_sentence

    assert is_sentence("A man in a blue shirt, it's new, stands on a well-kept lawn.")
    others = ["A man. A dog runs.", "A man runs", "a dog runs fast.", 'A "dog" runs fast.', "Hm."]
    assert not any(map(is_sentence, others))


def measurements(rounds: int) -> dict[str, dict[str, object]]:
    """Measurements of all sides, in which LibreTranslate takes 0.1 seconds and the others less."""
    from serving import CHOICES, CLIENTS, PEER, closed_name, open_name, tried_name

    def values(side: str, **others: object) -> dict[str, object]:
        seconds = 0.1 if side == PEER else 0.025
        return {"times": [seconds] * 99 + [8 * seconds], "sent": 101, "refused": 1} | others

    known: dict[str, dict[str, object]] = {}
    for side, choices in CHOICES.items():
        rate = 20.0 if side == PEER else 50.0
        loop = values(side, missing=0, rate=rate, used=0.1, generator=0.001)
        known |= {tried_name(side, each): {"1": loop, "16": loop} for each in choices}
        for number in range(rounds):
            known |= {closed_name(known, number, side, clients): loop for clients in CLIENTS}
            opened = {
                share: values(side, missing=2 * (share == "1"), rate=rate * float(share), asked=1.0)
                for share in ("0.5", "1")
            }
            known[open_name(number, side)] = opened
    return known


def test_a_report_compares_the_servers_and_counts_what_has_no_answer() -> None:
    from serving import CHOICES, FAST, OWN, PEER, chart, milliseconds, report

    outputs = {OWN: ["ein Hund", "zwei"], FAST: ["ein Hund", "drei"], PEER: ["ein Hund", "zwei"]}
    text = report(measurements(2), outputs, ["ein Hund", "zwei"], 2)
    assert f"- {FAST}, 16 clients: 2.50 (2.50–2.50) times the sentences a second" in text
    assert "the p99 is 2.00 (2.00–2.00) times the p50 of LibreTranslate" in text
    assert f"- {OWN}, one client: the median is 0.25 (0.25–0.25) times" in text
    assert f"| {FAST} | 50.0% |" in text and f"| {OWN} | 100.0% |" in text
    assert text.count("| inf (inf–inf) | 202 | 2 | 4 |") == len(CHOICES)
    counted = [
        {"times": [0.1] * 98, "refused": refused, "missing": 2 - refused} for refused in (0, 2)
    ]
    assert milliseconds(counted, 0.97) == [100, 100]
    assert milliseconds(counted, 0.99) == [math.inf, math.inf]
    picture = chart(measurements(1), 1)
    assert picture.startswith(b"<?xml") and len(picture) < 200_000


def test_measurements_are_kept_and_rates_beyond_a_server_left_out(tmp_path: Path) -> None:
    from serving import CHOICES, FAST, OWN, PEER, Bench, closed_name, tried_name

    file = tmp_path / "folder" / "measurements.jsonl"
    rates = {PEER: 10.0, FAST: 25.0, OWN: 3.0}
    loop = {"times": [1.0], "refused": 0, "missing": 0, "rate": 1.0}
    for turn in range(2):
        bench = Bench(file, lambda side, settings: pytest.fail(side), ["A dog runs."], ("en", "de"))
        for side in rates:
            for settings in CHOICES[side]:
                bench.kept(tried_name(side, settings), partial(dict, {"1": loop, "16": loop}))
        for (side, rate), clients in itertools.product(rates.items(), (1, 4, 16)):
            measure = partial(dict, rate=rate + turn)  # the second time nothing is measured
            name = closed_name(bench.known, 0, side, clients)
            assert bench.kept(name, measure) == {"rate": rate}
        bench.close()
        with file.open("a") as broken:
            broken.write('{"name": "half')
    shares = {side: [each.name for each in bench.phases(side, 5)] for side in rates}
    assert shares[PEER] == ["0.25", "0.5", "0.75", "1"] and shares[FAST][-1] == "2"
    assert shares[OWN] == ["0.25", "0.5"]
    assert [each.rate for each in bench.phases(FAST, 5)][:2] == [2.5, 5.0]


def test_each_question_has_the_best_settings_of_each_side() -> None:
    from serving import CHOICES, OWN, PEER, best_of, closed_name, report, tried_name

    known = measurements(1)
    first, second, third = CHOICES[OWN]
    own = {name: values for name, values in known.items() if name.startswith(f"closed 0 {OWN} ")}
    assert best_of(known, OWN) == {1: first, 16: first} and f"closed 0 {OWN} 1" in own
    loop = known[tried_name(OWN, first)]["1"]
    quick = {**loop, "times": [0.01] * 100}  # type: ignore[dict-item]
    known[tried_name(OWN, second)] = {"1": loop, "16": {**loop, "rate": 60.0}}  # type: ignore[dict-item]
    known[tried_name(OWN, third)] = {"1": quick, "16": loop}
    assert best_of(known, OWN) == {1: third, 16: second}
    assert best_of(known, PEER)[16] == CHOICES[PEER][0]
    names = [closed_name(known, 0, OWN, clients) for clients in (1, 4, 16)]
    shown = "workers 2, batch 8"
    assert names == [f"closed 0 {OWN} 1 with {shown}", *(f"closed 0 {OWN} {n}" for n in (4, 16))]
    known[names[0]] = quick
    outputs = {side: ["ein Hund"] for side in CHOICES}
    text = report(known, outputs, ["ein Hund"], 1)
    assert f"- {OWN}, one client: the median is 0.10 (0.10–0.10) times" in text
    assert f"| {OWN} | {shown} | 10.0 | 50 | 1 |" in text


def test_a_bundle_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    from translate_speed import load_named

    with pytest.raises(UserError, match="there is no bundle; name one that `crosshead train` made"):
        load_named(tmp_path / "nothing")
