"""Presets: complete recipes except for the data, by architecture and size."""

import math
from typing import Any

from crosshead.extensions import Table

Sections = dict[str, dict[str, Any]]
"""Tables of a recipe by name."""

AUTO = "auto"
"""The preset whose settings the run chooses from its data, its budget and its machine."""

STUDENT = "student"
"""The preset of a thin decoder. Its run chooses the settings that it does not fix, as with `auto`,
and all of `[train]`."""

DEFAULT = "tiny"
"""The preset that completes a recipe file, and that `auto` begins with."""

TO_THE_END = {"schedule": "constant", "cooldown": 0.9, "warmup_share": 0.1, "patience": 0}
"""Keys of `[train]` if a budget is stated and the schedule of the preset is in `ENDLESS`. The rate
rises in the first tenth of the run at most and then falls linearly to 0, so early stopping is
off."""

ENDLESS = (None, "inverse-sqrt", "paper")
"""Schedules of presets that do not depend on the length of the run; None is the default."""

_SMALL_DATA = {"learning_rate": 0.004, "max_updates": 30_000, "batch_tokens": 4096}
"""Without a stated budget, early stopping ends the run and the rate falls as 1/sqrt(update)."""

PAPER_WARMUP = 4000
"""The warm-up of Vaswani et al. 2017, section 5.3. It is also the longest that is chosen."""

_PAPER = {
    "schedule": "paper",
    "warmup": PAPER_WARMUP,
    "batch_tokens": 25_000,
    "clip_norm": 0.0,
    "valid_every": 1000,
    "patience": 0,
}
"""This schedule has no `learning_rate`. Its peak is `paper_peak`."""


def paper_peak(d_model: int) -> float:
    """Return the peak of the paper's schedule, for runs with another schedule.

    Reference:
        Vaswani et al. 2017, Eq. 3.
    """
    return round(1 / math.sqrt(d_model * PAPER_WARMUP), 4)


_TRANSFORMER: dict[str, Sections] = {
    STUDENT: {
        "tokenizer": {"vocab_size": 4000},
        "model": {
            "encoder_layers": 6, "decoder_layers": 1, "d_model": 128, "d_ff": 512, "heads": 4,
            "norm": "pre",
        },
        "train": _SMALL_DATA,
        "decode": {"beam": 1},  # a beam of 4 gains 0.2 BLEU in twice the time
    },
    "tiny": {
        "tokenizer": {},
        "model": {
            "encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "d_ff": 256, "heads": 4,
            "dropout": 0.3,
        },
        "train": _SMALL_DATA,
    },
    "small": {
        "tokenizer": {},
        "model": {
            "encoder_layers": 4, "decoder_layers": 4, "d_model": 256, "d_ff": 1024, "heads": 4,
            "dropout": 0.3,
        },
        "train": {**_SMALL_DATA, "learning_rate": 0.001},
    },
    "base": {
        "tokenizer": {"vocab_size": 37_000},
        "model": {"d_model": 512},
        "train": {**_PAPER, "max_updates": 100_000},
    },
    "big": {
        "tokenizer": {"vocab_size": 37_000},
        "model": {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3},
        "train": {**_PAPER, "max_updates": 300_000, "keep_last": 20, "average": 20},
    },
}  # fmt: skip

_CONVOLUTIONAL: dict[str, Sections] = {
    "tiny": {
        "tokenizer": {},
        "model": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "dropout": 0.3},
        "train": _SMALL_DATA,
    },
    "small": {
        "tokenizer": {},
        "model": {"encoder_layers": 4, "decoder_layers": 4, "d_model": 256, "dropout": 0.3},
        "train": {**_SMALL_DATA, "learning_rate": 0.001},
    },
}

_RECURRENT: dict[str, Sections] = {
    "tiny": {
        "tokenizer": {},
        "model": {"encoder_layers": 1, "decoder_layers": 1, "d_model": 128, "dropout": 0.3},
        "train": {**_SMALL_DATA, "learning_rate": 0.002},
    },
    "small": {
        "tokenizer": {},
        "model": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 256, "dropout": 0.3},
        "train": {**_SMALL_DATA, "learning_rate": 0.001},
    },
}

_TEXT = {
    "schedule": "cosine",
    "learning_rate": 0.002,
    "max_updates": 2000,
    "label_smoothing": 0.0,
    "adam_beta2": 0.99,
    "batch_tokens": 4096,
    "average": 0,
    "patience": 0,
}
_WRITE = {"beam": 1, "sample": True}

_LANGUAGE: dict[str, Sections] = {
    "tiny": {
        "tokenizer": {},
        "model": {"layers": 4, "d_model": 128, "d_ff": 512, "heads": 4, "dropout": 0.0},
        "train": _TEXT,
        "decode": _WRITE,
    },
    "small": {
        "tokenizer": {},
        "model": {"layers": 6, "d_model": 384, "d_ff": 1536, "heads": 6, "dropout": 0.2},
        "train": {**_TEXT, "learning_rate": 0.001, "max_updates": 5000},
        "decode": _WRITE,
    },
}

_ENCODER: dict[str, Sections] = {
    size: {name: table for name, table in sections.items() if name != "decode"}
    for size, sections in _LANGUAGE.items()
}

_TRANSFORMER_XL: dict[str, Sections] = {
    "tiny": {
        **_LANGUAGE["tiny"],
        "model": {**_LANGUAGE["tiny"]["model"], "segment": 64, "memory": 64},
    },
}

PRESETS: Table[dict[str, Sections]] = Table(
    {
        "transformer": _TRANSFORMER,
        "recurrent": _RECURRENT,
        "convolutional": _CONVOLUTIONAL,
        "language": _LANGUAGE,
        "encoder": _ENCODER,
        "transformer-xl": _TRANSFORMER_XL,
    }
)
"""Presets by architecture and size. `base` and `big` are the models of Vaswani et al. 2017, Table
3, and never stop early. The other presets are for small data: vocabulary, warm-up and validation
adapt to it."""
