"""Settings of training: the section `[train]` of a recipe."""

from typing import Literal, Self

from pydantic import Field, model_validator

from crosshead.attention.dropout import check_share
from crosshead.config import LARGEST, MOST, Config

LAST_PART = 0.2
"""The part of a run with a cooldown that comes after its patience is spent. The learning rate falls
to 0 in it."""


class TrainConfig(Config):
    """Settings of training: the section `[train]` of a recipe."""

    batch_tokens: int = Field(4096, ge=1, le=MOST)
    """The budget of a batch: sentences times the length of the longer side in tokens, padding
    included. For a series: the values that its windows read, windows times context times
    columns. For images: their patches."""

    accumulate: int = Field(1, ge=1, le=100_000)
    """Gradient accumulation: the number of microbatches that a batch is split into. They are
    computed one after the other, to use less memory. Without dropout, the update is the same as
    for the whole batch, apart from rounding."""

    recompute: bool = False
    """True keeps only the inputs of each layer and recomputes the rest for the gradients: less
    memory, about a third more time."""

    cuda_graphs: bool = False
    """True records updates on a CUDA GPU as graphs and replays them, for a model so small that
    starting its kernels takes longer than computing them. One process trains a Transformer or a
    language model so. Not measured."""

    sharded: bool = False
    """True gives each of several processes a share of weights, gradients and moments. This takes
    less memory, but the processes send 1.5 times as much. A single process always holds all of
    them."""

    max_updates: int | None = Field(None, ge=1, le=MOST)
    """Budget: training ends after this many updates at the latest."""

    max_epochs: int | None = Field(None, ge=1, le=MOST)
    """Budget: training ends after this many passes over the data at the latest."""

    max_minutes: float | None = Field(None, gt=0, le=1e8)
    """Budget: the run takes at most this many minutes, reading the data and scoring at the end
    included. The first budget reached ends training."""

    schedule: Literal["paper", "inverse-sqrt", "cosine", "constant"] = "inverse-sqrt"
    """The learning-rate schedule. `paper` is Eq. 3 of Vaswani et al. 2017; `inverse-sqrt` has its
    peak at `learning_rate`; `cosine` has the same peak and falls to a tenth of it at the end of the
    budget that will end the run first, minutes included (Loshchilov and Hutter 2017); `constant`
    stays at the peak."""

    cooldown: float = Field(0.0, ge=0, le=1)
    """The last part of the run in which the learning rate also falls linearly to 0, as a fraction
    of the budget that will end the run first, minutes included (Zhai et al. 2022). With `constant`
    and 0.9 the rate falls linearly after a warm-up of a tenth. 0 turns it off."""

    learning_rate: float | None = Field(None, gt=0, le=1e30)
    """The peak of the schedule, reached at the end of the warm-up. `paper` has none."""

    warmup: int | None = Field(None, ge=1, le=MOST)
    """The number of updates in which the learning rate grows. Unset, the run chooses: ten epochs,
    from 200 to 4,000 updates and at most a tenth of the updates that the budgets allow, minutes
    included."""

    warmup_share: float = Field(0.0, ge=0, le=1)
    """The part of the run after which the warm-up ends at the latest, as a fraction of the budget
    that will end the run first, minutes included. So it also ends in time if updates take longer
    than expected. 0 sets no such limit. `paper` has none, because its warm-up sets its peak."""

    optimizer: Literal["adam", "muon"] = "adam"
    """`muon` changes the linear maps inside of layers by their momentum with all singular values
    made equal (Jordan et al. 2024); embeddings, the output projection and all else keep Adam. A
    model learns in fewer updates, and an update takes longer."""

    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of the first moment of Adam (section 5.3)."""

    adam_beta2: float = Field(0.98, ge=0, lt=1)
    """Decay of the second moment of Adam (section 5.3)."""

    adam_eps: float = Field(1e-9, ge=1e-30, le=1)
    """Adam's epsilon (section 5.3)."""

    weight_decay: float = Field(0.0, ge=0, le=100)
    """Decoupled weight decay (Loshchilov and Hutter 2019). Each update multiplies matrices and
    kernels by 1 - learning rate * weight_decay, as PyTorch's AdamW does; biases, norms, embeddings
    and positions do not decay. A usual value for images is 0.05; 0 turns it off."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """The share of the target distribution that is spread over all tokens or classes (section
    5.4). It has no effect on forecasts."""

    consistency: Literal["none", "r-drop", "simcut"] = "none"
    """Consistency between two views of each batch, for models that predict tokens. `r-drop`
    computes the batch twice with different dropout, and adds the divergence between the two
    predictions (Liang et al. 2021). `simcut` adds the divergence from a second view whose inputs
    lack a share `word_dropout` of their tokens (Gao et al. 2022). An update takes about twice as
    long."""

    consistency_weight: float | None = Field(None, gt=0, le=1e6)
    """The weight of the divergence beside the mean cross-entropy. Unset, it is the paper's: 2.5 for
    `r-drop`, whose alpha of 5 stands beside the sum of two cross-entropies, and 3 for `simcut`."""

    word_dropout: float | None = Field(None, ge=0, le=0.99)
    """The share of input tokens whose embedding is set to zero in training, on both sides, for
    models that predict tokens. `simcut` cuts them in its second view alone. Unset, it is 0.05 for
    `simcut` and otherwise 0."""

    guided_alignment: float = Field(0.0, ge=0, le=1000)
    """The weight of guided alignment, for the architecture `transformer`; 0 turns it off. One head
    of the attention to the source, in the last layer but one, then also learns word alignments,
    which IBM model 1 finds in the training pairs (Chen et al. 2016; Garg et al. 2019). So a short
    run learns sooner where to look. The weight stands beside the mean cross-entropy."""

    ema: float = Field(0.0, ge=0, le=0.999999)
    """Decay of a moving average of the weights, per update; 0 turns it off. The average is
    validated, and becomes the model, in place of the weights of the last update. A usual value is
    0.999, which averages about the last 1,000 updates."""

    clip_norm: float = Field(1.0, ge=0, le=1e9)
    """The largest norm of the gradient; a longer gradient is scaled down to it. 0 turns this
    off."""

    seed: int = Field(1, ge=0, le=LARGEST)
    """The random seed of the run."""

    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """The number format. `bfloat16` computes with 16-bit weights and keeps float32 master weights.
    `auto` uses it if this machine multiplies matrices faster with it. `float16`, for GPUs without
    bfloat16, also scales the loss."""

    device: str = "auto"
    """The device to train on, such as cpu or cuda:1; `auto` uses the first CUDA GPU, or the CPU if
    there is none."""

    threads: int = Field(0, ge=0, le=1024)
    """The number of CPU threads, at most one per core; 0 uses all cores."""

    valid_every: int = Field(0, ge=0, le=MOST)
    """The number of updates between validations; 0 lets the run choose: one epoch, from 200 to
    2,000 updates. A run always ends with a validation."""

    checkpoint_every: int = Field(0, ge=0, le=MOST)
    """The number of updates between checkpoints; 0 writes one at every validation."""

    keep_last: int = Field(5, ge=1, le=MOST)
    """The number of newest checkpoints to keep. The best checkpoint is kept as well."""

    average: int = Field(5, ge=0, le=MOST)
    """The number of last checkpoints whose weights are averaged at the end (section 6.1). The
    average is used if it validates better than the best single checkpoint. 0 and 1 turn averaging
    off."""

    patience: int = Field(10, ge=0, le=MOST)
    """Early stopping: training stops after this many validations without improvement, counted from
    the end of the warm-up. With a `cooldown` it goes on for a quarter of the updates so far, in
    which the learning rate falls to 0. 0 turns early stopping off."""

    metric: str | None = None
    """The metric that chooses checkpoints. Translation has `bleu` (of greedy translations, the
    default) and `loss`; language models have `loss` (the default) and `bits_per_character`; masked
    models have `loss`; forecasters have `loss` (the default) and `mae`, the mean absolute error;
    classifiers have `accuracy` (the default) and `loss`, captioners and multimodal models
    `bleu` (the default), `exact` (exact match) and `loss`."""

    log_every: int = Field(100, ge=1, le=MOST)
    """The number of updates between lines of the log."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            raise ValueError("no budget: give max_updates, max_epochs or max_minutes")
        if self.schedule != "paper" and self.learning_rate is None:
            raise ValueError(f"the schedule {self.schedule} needs learning_rate, its peak")
        if self.schedule == "paper" and self.learning_rate is not None:
            raise ValueError(
                "the schedule paper (Eq. 3) has no learning_rate; remove it, or set "
                "schedule = 'inverse-sqrt'"
            )
        if self.schedule == "paper" and self.warmup_share:
            raise ValueError(
                "the schedule paper (Eq. 3) has no warmup_share, because its warm-up sets its "
                "peak; remove it, or set schedule = 'inverse-sqrt'"
            )
        self._check_views()
        if self.guided_alignment and self.recompute:
            raise ValueError(
                "recompute keeps no attention weights, which guided_alignment needs: set "
                "guided_alignment = 0, or leave recompute out"
            )
        if self.cuda_graphs and self.recompute:
            raise ValueError("cuda_graphs cannot record recompute; leave one of them out")
        if self.average > self.keep_last:
            raise ValueError(
                f"average {self.average} is more than keep_last {self.keep_last}; lower the first "
                "or raise the second"
            )
        return self

    def _check_views(self) -> None:
        """Raise `ValueError` for keys of two views that have no effect or cannot be used."""
        if self.consistency_weight is not None and self.consistency == "none":
            raise ValueError(
                f"consistency_weight {self.consistency_weight:g} has no meaning for consistency "
                "'none'; leave it out, or set consistency to 'r-drop' or 'simcut'"
            )
        if self.word_dropout is not None:
            check_share(self.word_dropout, "word_dropout")
