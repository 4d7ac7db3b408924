"""Settings of training: the section `[train]` of a recipe."""

from typing import Literal, Self

from pydantic import Field, model_validator

from crosshead.config import LARGEST, MOST, Config


class TrainConfig(Config):
    """Settings of training: the section `[train]` of a recipe."""

    batch_tokens: int = Field(4096, ge=1, le=MOST)
    """The budget of a batch: sentences times the longer of source and target, padding counted."""

    accumulate: int = Field(1, ge=1, le=100_000)
    """The parts that a batch is computed in, one after the other, to take less memory; the update
    is that of the whole batch."""

    recompute: bool = False
    """Keep of each layer its inputs only, and compute the rest again for the gradients: less
    memory, and about a third more time."""

    sharded: bool = False
    """Each of several processes holds its share of weights, gradients and moments: less memory,
    and half as much again to send. One process holds them all in any case."""

    max_updates: int | None = Field(None, ge=1, le=MOST)
    """Budget: training ends after this many updates, if no other budget ends it before."""

    max_epochs: int | None = Field(None, ge=1, le=MOST)
    """Budget: training ends after this many passes over the data."""

    max_minutes: float | None = Field(None, gt=0, le=1e8)
    """Budget: the whole command takes at most this many minutes. Training ends with the first
    budget that is reached."""

    schedule: Literal["paper", "inverse-sqrt", "cosine"] = "inverse-sqrt"
    """`paper` is Eq. 3 of Vaswani et al. 2017; `inverse-sqrt` has a stated peak, and so has
    `cosine`, which falls to a tenth of it by `max_updates` (Loshchilov and Hutter 2017), whatever
    other budget ends the run earlier: it ends at a higher rate then."""

    learning_rate: float | None = Field(None, gt=0, le=1e30)
    """The peak of the schedule, reached after the warm-up; Eq. 3 has its own."""

    warmup: int | None = Field(None, ge=1, le=MOST)
    """Updates in which the learning rate grows. Unset, the run chooses: ten epochs of them, from
    200 to 4,000 and at most a tenth of what `max_updates` and `max_epochs` allow."""

    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of the first moment of Adam (section 5.3)."""

    adam_beta2: float = Field(0.98, ge=0, lt=1)
    """Decay of the second moment of Adam (section 5.3)."""

    adam_eps: float = Field(1e-9, ge=1e-30, le=1)
    """Adam's epsilon (section 5.3)."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the target distribution spread over all tokens (section 5.4). It has no effect on
    tasks without tokens."""

    clip_norm: float = Field(1.0, ge=0, le=1e9)
    """Gradients longer than this are shortened to it; 0 leaves them alone."""

    seed: int = Field(1, ge=0, le=LARGEST)
    """Random seed of the run."""

    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """`bfloat16` computes with 16-bit weights beside float32 masters; `auto` takes it where this
    machine multiplies matrices faster with it. `float16`, for GPUs without bfloat16, scales the
    loss besides."""

    device: str = "auto"
    """Device to train on, such as cpu or cuda:1; `auto` takes the first CUDA GPU, or else the
    CPU."""

    threads: int = Field(0, ge=0, le=1024)
    """Threads of the CPU, at most one a core; 0 takes all cores."""

    valid_every: int = Field(0, ge=0, le=MOST)
    """Updates between validations; with 0 the run chooses: an epoch of them, from 200 to 2,000. The
    end of a run is validated in any case."""

    checkpoint_every: int = Field(0, ge=0, le=MOST)
    """Updates between checkpoints; 0 writes one at every validation."""

    keep_last: int = Field(5, ge=1, le=MOST)
    """Number of checkpoints that are kept: the newest ones. The best one is kept besides."""

    average: int = Field(5, ge=0, le=MOST)
    """The weights of so many last checkpoints are averaged at the end (section 6.1); the average is
    taken where it validates better than the best single one. 0 or 1 averages nothing."""

    patience: int = Field(10, ge=0, le=MOST)
    """Training stops after so many validations without a better one, counted from the end of the
    warm-up; 0 never stops early."""

    metric: str | None = None
    """Metric that chooses checkpoints: for translation `bleu` (of greedy translations, the default)
    or `loss`; for text `loss`."""

    log_every: int = Field(100, ge=1, le=MOST)
    """Updates between lines of the log."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            raise ValueError("give max_updates, max_epochs or max_minutes: one budget at least")
        if self.schedule != "paper" and self.learning_rate is None:
            raise ValueError(f"the schedule {self.schedule} needs learning_rate, its peak")
        if self.schedule == "cosine" and self.max_updates is None:
            raise ValueError("the schedule cosine needs max_updates, where it ends")
        if self.schedule == "paper" and self.learning_rate is not None:
            raise ValueError(
                "the schedule paper (Eq. 3) has no learning_rate; remove it, or set "
                "schedule = 'inverse-sqrt'"
            )
        if self.average > self.keep_last:
            raise ValueError(
                f"average {self.average} is more than the {self.keep_last} checkpoints that "
                "keep_last keeps"
            )
        return self
