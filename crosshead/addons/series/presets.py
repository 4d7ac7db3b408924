"""Presets of forecasting: complete recipes except for the data, by architecture and size."""

from crosshead.recipe.presets import Sections

_FORECAST = {
    "schedule": "cosine",
    "learning_rate": 0.001,
    "max_updates": 3000,
    "adam_beta2": 0.999,
    "adam_eps": 1e-8,
    "batch_tokens": 100_000,
    "precision": "float32",
    "average": 0,
    "patience": 10,
}

_PATCHTST: dict[str, Sections] = {
    "tiny": {
        "model": {
            "layers": 3, "d_model": 16, "d_ff": 128, "heads": 4, "dropout": 0.3,
            "activation_dropout": 0.3,
        },
        "train": _FORECAST,
    },
    "small": {
        "model": {
            "layers": 3, "d_model": 128, "d_ff": 256, "heads": 16, "dropout": 0.2,
            "activation_dropout": 0.2,
        },
        "train": {**_FORECAST, "learning_rate": 0.0003},
    },
}  # fmt: skip

_DLINEAR: dict[str, Sections] = {"tiny": {"model": {}, "train": _FORECAST}}

_SERIES_TRANSFORMER: dict[str, Sections] = {
    "tiny": {
        "model": {
            "encoder_layers": 2, "decoder_layers": 1, "d_model": 64, "d_ff": 128, "heads": 4,
            "dropout": 0.1,
        },
        "train": _FORECAST,
    },
}  # fmt: skip

_SERIES_RECURRENT: dict[str, Sections] = {
    "tiny": {"model": {"layers": 2, "d_model": 64, "dropout": 0.1}, "train": _FORECAST},
}

PRESETS = {
    "patchtst": _PATCHTST,
    "dlinear": _DLINEAR,
    "series-transformer": _SERIES_TRANSFORMER,
    "series-recurrent": _SERIES_RECURRENT,
}
"""The presets by the name of the architecture."""
