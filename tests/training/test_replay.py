"""Gradients from CUDA graphs beside the same gradients without them, on a GPU."""

import contextlib
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from crosshead.attention.dropout import Dropout
from crosshead.errors import ConfigError
from crosshead.models.language import LanguageConfig
from crosshead.models.registry import build_model
from crosshead.models.transformer import TransformerConfig
from crosshead.recipe.train import TrainConfig
from crosshead.tasks.registry import TASKS
from crosshead.text.batching import Pairs, RoundedBatch
from crosshead.text.parallel.examples import Examples
from crosshead.text.parallel.word_aligner import WordAligner
from crosshead.text.streams import Windows
from crosshead.training import updater as updater_module
from crosshead.training.distributed import ALONE
from crosshead.training.optimizer import Optimizer
from crosshead.training.progress import Progress
from crosshead.training.replay import Replay, check_replayable
from crosshead.training.updater import Updater
from tests.parameters import mostly_slow
from tests.sequences import copy_task

VOCABULARY = 20
PAIRS = copy_task(60, VOCABULARY, 30, seed=1)
SHAPE: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 64, "heads": 4, "dropout": 0.2
}  # fmt: skip
GUIDED = Pairs(PAIRS, aligner=WordAligner(Examples.of(PAIRS), VOCABULARY))
ROWS = [np.arange(20), np.arange(20, 52), np.arange(52, 60)]
"""Batches of three shapes."""

MODELS: list[dict[str, Any]] = [
    *({"positions": kind} for kind in ("sinusoidal", "rotary", "shaw", "t5", "alibi")),
    *({"score": kind} for kind in ("additive", "general", "cosine")),
    {"kv_heads": 1, "norm": "pre", "attention_dropout": 0.1, "activation": "swish"},
    {"tie": "none", "output_bias": True},
]
LOSSES: list[dict[str, Any]] = [
    {"consistency": "r-drop"}, {"consistency": "simcut"}, {"word_dropout": 0.1},
    {"guided_alignment": 0.3, "label_smoothing": 0.0},
]  # fmt: skip

WINDOWS: dict[str, Any] = {"layers": 2, "d_model": 32, "d_ff": 64, "heads": 4, "dropout": 0.0}
"""A language model."""

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="no CUDA GPU")


class Recorder(TorchDispatchMode):
    """A graph on a CPU: it repeats the recorded operations on the memory of the recorded tensors.

    Unlike a CUDA graph it shares no memory between graphs, draws numbers from another generator,
    and lets an operation read a number.
    """

    def __init__(self, graph: "Recorder | None" = None, pool: object = None) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, list[Tensor]]] = getattr(graph, "steps", [])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        assert not _depends_on_values(func, args), f"no CUDA graph can record {func}"
        found = func(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        self.steps.append((func, args, kwargs or {}, made))
        return found

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, made in self.steps:
                again = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, Tensor)]
                for old, new in zip(made, again, strict=True):
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)


def _depends_on_values(func: Any, args: Any) -> bool:
    """Whether the shape of a result depends on the numbers in a tensor."""
    name = func.name().split(".")[0]
    indices = [x for x in tree_leaves(args[1:]) if isinstance(x, Tensor)] if args else []
    return name in {"aten::nonzero", "aten::masked_select", "aten::bincount"} or (
        name == "aten::index" and any(x.dtype == torch.bool for x in indices)
    )


@pytest.fixture(autouse=True)
def _graphs_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    if not GPU:
        monkeypatch.setattr(updater_module, "check_replayable", lambda *_: None)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 0)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
        monkeypatch.setattr(torch.cuda, "set_stream", lambda _: None)
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Recorder)
        monkeypatch.setattr(torch.cuda, "graph", Recorder)


def updater(
    model: dict[str, Any],
    train: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float32,
    drops: bool = True,
    graphs: bool = True,
) -> Updater:
    torch.manual_seed(0)
    config = TrainConfig.model_validate(
        {"max_updates": 9, "learning_rate": 0.01, "clip_norm": 0.0}
        | {"cuda_graphs": graphs}
        | (train or {})
    )
    kind = LanguageConfig if "layers" in model else TransformerConfig
    built = build_model(kind.model_validate(model), VOCABULARY, VOCABULARY)
    built.to(DEVICE if graphs else "cpu", dtype)
    for module in built.modules():
        if isinstance(module, Dropout) and not drops:
            module.p = 0.0
    task = TASKS["language" if "layers" in model else "translation"]
    return Updater(
        task, built, Optimizer(built, config), config, Progress(), print, ALONE, parallel=1
    )


def gradients(made: Updater, rows: np.ndarray, epoch: Any = GUIDED) -> dict[str, Tensor]:
    """The gradients and the loss of a batch, without an update."""
    sums, count = made.gradients(epoch, rows)
    found = {
        name: p.grad.clone() for name, p in made.model.named_parameters() if p.grad is not None
    }
    made.optimizer.drop_gradients()
    return {**found, **{name: torch.tensor(value / count) for name, value in sums.items()}}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        error = (found[name].double().cpu() - each.double().cpu()).norm()
        assert error <= tolerance * (each.double().norm().cpu() + 1e-3), name


@pytest.mark.parametrize(
    ("device", "processes", "works"), [("cpu", 1, False), ("cuda", 2, False), ("cuda", 1, True)]
)
def test_it_needs_one_process_and_a_gpu(device: str, processes: int, works: bool) -> None:
    model = updater(SHAPE, graphs=False).model
    with contextlib.nullcontext() if works else pytest.raises(ConfigError, match="on a CUDA GPU"):
        check_replayable(model, torch.device(device), processes)


@pytest.mark.parametrize(
    "given", [{"pattern": "fixed", "stride": 4, "columns": 1}, {"positions": "learned"}]
)
def test_masks_in_blocks_and_limits_of_length_are_refused(given: dict[str, Any]) -> None:
    model = updater({**SHAPE, **given}, graphs=False).model
    with pytest.raises(ConfigError, match="depend on the shapes"):
        check_replayable(model, torch.device("cuda"), 1)


def test_a_run_on_a_cpu_refuses_the_setting() -> None:
    with pytest.raises(ConfigError, match="Transformer on 1 process of cpu"):
        check_replayable(updater(SHAPE, graphs=False).model, torch.device("cpu"), 1)


class Transfers(TorchDispatchMode):
    """Fails if a number moves between the meta device, which stands for a GPU, and the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        found = func(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, found)) if isinstance(x, Tensor)]
        assert len({x.device.type for x in tensors}) < 2, func
        assert func.name() != "aten::_local_scalar_dense", func
        return found


@pytest.mark.parametrize(
    ("model", "train"),
    [*((each, {}) for each in MODELS), *((MODELS[0], each) for each in LOSSES), (WINDOWS, {})],
    ids=str,
)
def test_an_update_waits_for_no_number(
    model: dict[str, Any], train: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first update may send tables. A tensor made of a list would be sent, too."""
    made = updater({**SHAPE, **model} if "layers" not in model else model, train, graphs=False)
    ids = [torch.ones(8, width, dtype=torch.long, device="meta") for width in (12, 14)]
    alignment = torch.zeros(8, 14, 12, device="meta") if made.config.guided_alignment else None
    inputs = tuple(ids[1:] if "layers" in model else ids)
    batch = RoundedBatch(inputs, ids[1], alignment, counted=50)
    made.model.to("meta")

    def update() -> None:
        made._losses[0](batch).sums["loss"].backward()

    update()
    monkeypatch.setattr(torch, "tensor", partial(pytest.fail, "a list is sent to the GPU"))
    with Transfers():
        update()


@pytest.mark.parametrize(
    ("model", "train"),
    mostly_slow(
        [*((each, {}) for each in MODELS), *((MODELS[-1], each) for each in LOSSES)],
        [(MODELS[0], {}), (MODELS[2], {}), *((MODELS[-1], each) for each in LOSSES[::3])],
    ),
    ids=str,
)
def test_replayed_gradients_equal_those_of_the_cpu(
    model: dict[str, Any], train: dict[str, Any]
) -> None:
    """Batches of three shapes in turns: computed, recorded, and replayed twice."""
    plain = {**SHAPE, **model, "attention_dropout": 0.0}
    still = {**train, "word_dropout": 0.0}
    made = updater(plain, still, drops=False)
    other = updater(plain, still, drops=False, graphs=False)
    expected = [gradients(other, rows) for rows in ROWS]
    for _ in range(4):
        for rows, wanted in zip(ROWS, expected, strict=True):
            assert_equal(gradients(made, rows), wanted, 1e-4)
    assert isinstance(made._replay, Replay) and len(made._replay._graphs) == len(ROWS)


@needs_gpu
@pytest.mark.parametrize("train", LOSSES, ids=str)
@pytest.mark.parametrize("model", [MODELS[0], MODELS[8]], ids=["plain", "kv_heads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_dropout_draws_the_same_numbers_when_it_is_replayed(
    train: dict[str, Any], model: dict[str, Any], dtype: torch.dtype
) -> None:
    made = updater({**SHAPE, **model}, train, dtype)
    found = []
    for update in (1, 1, 1, 2, 1):  # the numbers depend on the update alone
        made.progress.update = update
        found.append(gradients(made, ROWS[0]))
        gradients(made, ROWS[1])
    for each in (found[1], found[2], found[4]):
        assert_equal(each, found[0], 1e-5 if dtype == torch.float32 else 1e-2)
    assert abs(found[3]["loss"] - found[0]["loss"]) > 1e-4


def test_microbatches_add_up() -> None:
    made = updater(SHAPE, drops=False)
    whole = gradients(made, ROWS[0])
    made.progress.microbatches = 4
    for _ in range(4):
        assert_equal(gradients(made, ROWS[0]), whole, 1e-4)


def test_a_language_model_is_replayed() -> None:
    made, other = updater(WINDOWS), updater(WINDOWS, graphs=False)
    epoch = Windows(np.random.default_rng(0).integers(4, VOCABULARY, 2000), 37)
    for _ in range(4):
        rows = np.arange(20)
        assert_equal(gradients(made, rows, epoch), gradients(other, rows, epoch), 1e-4)
    assert made._replay is not None and len(made._replay._graphs) == 1


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("capture was invalidated")]
)
def test_a_graph_that_cannot_be_recorded_is_not_needed(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    made = updater(SHAPE, drops=False)
    made.say = said.append
    expected = gradients(made, ROWS[0])

    class Fails(Recorder):
        def __exit__(self, *given: object) -> None:
            super().__exit__(*given)
            raise error

    monkeypatch.setattr(torch.cuda, "graph", Fails)
    for _ in range(2):
        assert_equal(gradients(made, ROWS[0]), expected, 1e-4)
    assert made._replay is None and made.progress.microbatches == 1
    assert len(said) == 1 and str(error) in said[0] and "without CUDA graphs" in said[0]
