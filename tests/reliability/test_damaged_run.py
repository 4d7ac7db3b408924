"""A bit that flips in any file of a run: it is named, or the run ends in the same weights."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from crosshead.training.checkpoint import BEST, list_checkpoints
from crosshead.training.run import train
from tests.recipe.composing import resumed_recipe
from tests.reliability.tools import SEED, counts, fresh_copy, said, small_optimizer, write_corpus
from tests.training.runs import Remembering, digest, recipe_for, stop_after

Record = Callable[[str], None]

SETTINGS = [
    "tokenizer.kind=bpe", "tokenizer.vocab_size=290", "data.max_length=40", "data.valid_size=2",
    "max_updates=5", "valid_every=2", "checkpoint_every=1", "keep_last=2", "average=0",
    "train.batch_tokens=400", "decode.beam=1", "max_extra=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints that is not at its end; beside it the same one that is."""
    folder = tmp_path_factory.mktemp("run")
    write_corpus(folder, pairs=60)
    for side, name in (("source", "en"), ("target", "de")):
        (folder / f"{side}.txt").rename(folder / name)
    recipe, out = recipe_for(folder, *SETTINGS), folder / "run"
    small_optimizer()  # what it imports is imported once
    assert not said(lambda: train(recipe, out, should_stop=stop_after(out, 4)))
    assert len(list_checkpoints(out / "checkpoints")) == 2
    fresh_copy(out, folder / "whole")
    assert not said(lambda: resume(folder / "whole", folder / "lines"))
    return out


def resume(out: Path, lines: Path) -> None:
    """Go on as the command line does, and write down what was said."""
    display = Remembering()
    try:
        train(resumed_recipe(out, None, {}, []), out, resume=True, display=display)
    finally:
        lines.write_text("\n".join(display.lines))


def flipped(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


@counts(quick=5, full=300)
def test_a_bit_that_flips_in_any_file_of_a_run(
    count: int, stopped: Path, tmp_path: Path, record: Record
) -> None:
    rng = random.Random(SEED)
    weights = digest(stopped.parent / "whole/model.safetensors")
    files = sorted(path.relative_to(stopped) for path in stopped.rglob("*") if path.is_file())
    files = [name for name in files if "tensorboard" not in name.parts]
    found: Counter[str] = Counter()
    for number in range(count):
        # Beside the folder of the text: the recipe names it from there.
        out = fresh_copy(stopped, stopped.parent / f"flipped-{number}")
        name = rng.choice(files) if count < len(files) else files[number % len(files)]
        flipped(out / name, rng)
        message = said(lambda out=out: resume(out, tmp_path / "lines"))
        lines = (tmp_path / "lines").read_text()
        if message:
            assert str(out / name) in message + lines, (name, message)
            assert "\n" not in message and not message.startswith("traceback"), message
            found["refused by name"] += 1
        elif digest(out / "model.safetensors") == weights:
            named = str(out / name) in lines
            found["named, the same weights" if named else "the same weights"] += 1
        else:
            assert str(out / name) in lines, (name, lines)
            assert name.name in (BEST, "recipe.toml")
            found["named, other weights"] += 1
    assert found.total() == count
    counted = ", ".join(f"{number} {what}" for what, number in found.most_common())
    record(f"{count} flipped bits in {len(files)} files of a run that was resumed: {counted}")
