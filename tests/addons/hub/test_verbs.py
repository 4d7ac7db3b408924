"""`crosshead push`, and commands on models that are named on a hub."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.bundle.config_file import read_settings
from tests.cli.tools import BUNDLE, COMMAND, TINY, Refused, output_of, write_corpus
from tests.hub_server import Hub, connect, contents, environment

NAME = "hf://anna/en-de"


@pytest.fixture
def shared(hub: Hub) -> Hub:
    """The hub with a model."""
    hub.repository("anna/en-de", contents(BUNDLE))
    return hub


def commit(hub: Hub) -> str:
    return hub.repositories["anna/en-de"].branches["main"]


def test_a_dry_run_lists_what_would_go_and_asks_nobody(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    connect(hub, tmp_path / "hf", monkeypatch, token=None)
    said = output_of(["push", BUNDLE, "anna/en-de", "--dry-run"], capfd)
    sizes = {name: len(data) for name, data in contents(BUNDLE).items()}
    rows = dict(line.split() for line in said.split("\n\n")[0].splitlines()[1:])
    assert {name: int(size.replace(",", "")) for name, size in rows.items()} == {
        **sizes, "total": sum(sizes.values()),
    }  # fmt: skip
    assert f"{hub.address}/anna/en-de, branch main" in said and "Nothing was sent" in said
    said = output_of(["push", BUNDLE, "anna/en-de@new", "--dry-run"], capfd)
    assert f"{hub.address}/anna/en-de, branch new" in said
    assert hub.asked == []


def test_a_model_is_pushed_and_used_by_its_name(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = output_of(["push", BUNDLE, "anna/en-de"], capfd)
    assert commit(hub) in said and f"{hub.address}/anna/en-de" in said
    assert "crosshead info hf://anna/en-de" in said
    assert "(nothing was new)" in output_of(["push", BUNDLE, "anna/en-de"], capfd)

    (tmp_path / "in.txt").write_text("One two three.\n")
    for command in (["translate", NAME, tmp_path / "in.txt"],):
        assert output_of(command, capfd) == "Eins zwei drei.\n"
    facts = output_of(["info", f"{NAME}@main"], capfd)
    assert f"hf://anna/en-de@{commit(hub)}" in facts
    assert "unchanged" in output_of(["info", "--verify", NAME], capfd)


@pytest.mark.slow
def test_every_command_that_takes_a_bundle_takes_a_name(
    shared: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("One two three.\n")
    Path("b").write_text("Eins zwei drei.\n")
    test_set = ["--source", "a", "--reference", "b"]
    named = f"{NAME}@{commit(shared)}"
    assert "BLEU" in output_of(["evaluate", NAME, *test_set], capfd)
    assert float(output_of(["score", NAME, "--source", "a", "--target", "b"], capfd)) < 0
    assert named in output_of(["compare", NAME, BUNDLE, *test_set], capfd)
    assert output_of(["translate", BUNDLE, NAME, "a"], capfd) == "Eins zwei drei.\n"
    assert output_of(["pack", NAME], capfd) == "en-de.crosshead.zip\n"
    output_of(["average", NAME, BUNDLE, "--out", "mean"], capfd)
    assert f"- `{named}`" in Path("mean/README.md").read_text()
    output_of(["attention", NAME, "One two three.", "--out", "a.png"], capfd)
    output_of(["backtranslate", NAME, "a", "--out", "made"], capfd)
    output_of(["distill", NAME, "--source", "a", "--out", "taught"], capfd)


@pytest.mark.slow
def test_a_tuned_model_names_the_model_it_began_with(
    shared: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    out = tmp_path / "tuned"
    sets = ["--set", "train.batch_tokens=512", "--set", "metric=loss", "--threads", "1"]
    command = ["train", "--from", NAME, "--source", source, "--target", target, "--out", out]
    output_of([*command, *sets, "--max-updates", "2", "--device", "cpu"], capfd)
    origin = read_settings(out)[0]["origin"]
    sums = read_settings(BUNDLE)[1].files
    assert origin == {
        "kind": "crosshead", "name": "anna/en-de", "sha256": sums["model.safetensors"].sha256,
        "hub": {"name": "anna/en-de", "commit": commit(shared)},
    }  # fmt: skip
    card = (out / "README.md").read_text()
    assert f"downloaded as `hf://anna/en-de@{commit(shared)}`" in card
    assert "license" not in card.partition("\n---\n")[0]  # nobody named one
    facts = output_of(["info", out], capfd)
    assert re.search(rf"^made from .*`hf://anna/en-de@{commit(shared)}`$", facts, re.MULTILINE)


def test_the_licence_that_was_named_goes_up_and_no_other_claim(
    hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, target = write_corpus(tmp_path)
    out = tmp_path / "run"
    command = ["train", "--source", source, "--target", target, "--out", out, *TINY]
    output_of([*command, "--max-updates", "1", "--license", "cc-by-4.0"], capfd)
    output_of(["push", out, "anna/mine"], capfd)
    files = hub.repositories["anna/mine"].files("main")
    card = files["README.md"].decode()
    assert card == (out / "README.md").read_text()
    front = card.split("---\n")[1].splitlines()
    assert 'license: "cc-by-4.0"' in front
    keys = {line.partition(":")[0] for line in front if not line.startswith((" ", "-"))}
    assert keys <= {"license", "library_name", "pipeline_tag", "tags", "model-index", "language"}
    assert json.loads(files["config.json"])["license"] == "cc-by-4.0"
    assert str(tmp_path) not in card
    assert {*files} - {".gitattributes"} == {*read_settings(out)[1].files, "config.json"}


def test_mistakes_are_one_line(
    shared: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    assert "check the name" in refused("push", BUNDLE, "en-de")
    assert "not a bundle" in refused("push", tmp_path, "anna/en-de")
    assert "Repository not found" in refused("info", "hf://anna/lost")
    assert "Invalid rev id: v9" in refused("translate", f"{NAME}@v9", "-")
    assert "check the name" in refused("info", "hf://lost")
    train = ["train", "--from", "hf://anna/lost", "--source", "a", "--target", "b", "--out", "x"]
    assert "Repository not found" in refused(*train)
    connect(shared, tmp_path / "hf", monkeypatch, token=None)
    assert "needs a token" in refused("push", BUNDLE, "anna/en-de")


def test_a_changed_card_goes_up(hub: Hub, tmp_path: Path) -> None:
    for name, data in contents(BUNDLE).items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "README.md").write_text("mine")
    from crosshead.cli import run

    assert run(["push", str(tmp_path), "anna/en-de"]) == 0
    assert hub.repositories["anna/en-de"].files("main")["README.md"] == b"mine"


def killed(process: "subprocess.Popen[bytes]", hub: Hub, after: Callable[[], bool]) -> None:
    """Kill a process when the server has stopped in the middle of a file, and `after` is true."""
    assert hub.stalled.wait(120)
    end = time.monotonic() + 60
    while not after() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait(20) == -signal.SIGKILL


@pytest.mark.slow
def test_a_process_that_is_killed_in_a_download_spoils_nothing(shared: Hub, tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [*COMMAND, "info", NAME]
    env = environment(shared, home)
    shared.stop_after = len(contents(BUNDLE)["model.safetensors"]) // 3  # the tokenizer is shorter
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    killed(process, shared, lambda: True)
    shared.stop_after = None
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"hf://anna/en-de@{commit(shared)}" in done.stdout
    shared.down = True
    offline = {**env, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    lost = [*command[:-1], "hf://anna/lost"]
    done = subprocess.run(lost, env=offline, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "is not in the cache" in done.stderr and str(home) in done.stderr


@pytest.mark.slow
def test_a_process_that_is_killed_in_an_upload_continues(hub: Hub, tmp_path: Path) -> None:
    command = [*COMMAND, "push", str(BUNDLE), "anna/en-de"]
    env = environment(hub, tmp_path / "home")
    hub.refuse_uploads_after = 1
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    killed(process, hub, lambda: len(hub.received) == 1)
    assert len(hub.received) == 1
    assert {*hub.repositories["anna/en-de"].files("main")} == {".gitattributes"}  # no mixture
    hub.refuse_uploads_after = None
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(hub.received) == len({*hub.received}) == 2  # each file was sent once
    files = dict(hub.repositories["anna/en-de"].files("main"))
    del files[".gitattributes"]
    assert files == contents(BUNDLE)
