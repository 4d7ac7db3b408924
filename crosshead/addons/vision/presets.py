"""Presets of tasks on images: complete recipes except for the data, by architecture and size."""

from crosshead.recipe.presets import Sections

_AUGMENTATION = {"crop": 4, "flip": True, "mixup": 0.8, "cutmix": 1.0}

_IMAGES = {
    "schedule": "cosine",
    "learning_rate": 0.001,
    "max_updates": 10_000,
    "adam_beta2": 0.999,
    "adam_eps": 1e-8,
    "batch_tokens": 8192,
    "patience": 0,
}

_VIT: dict[str, Sections] = {
    "tiny": {
        "data": _AUGMENTATION,
        "model": {
            "layers": 6, "d_model": 128, "d_ff": 256, "heads": 4, "dropout": 0.0,
            "stem": "convolution",
        },
        "train": _IMAGES,
    },
    "small": {
        "data": _AUGMENTATION,
        "model": {
            "layers": 6, "d_model": 192, "d_ff": 384, "heads": 6, "dropout": 0.0,
            "stem": "convolution",
        },
        "train": _IMAGES,
    },
}  # fmt: skip

_CONVNET: dict[str, Sections] = {
    "tiny": {
        "data": _AUGMENTATION,
        "model": {"d_model": 128, "dropout": 0.1},
        "train": {**_IMAGES, "learning_rate": 0.002},
    },
    "small": {
        "data": _AUGMENTATION,
        "model": {"d_model": 256, "dropout": 0.1},
        "train": _IMAGES,
    },
}

_CAPTIONER: dict[str, Sections] = {
    "tiny": {
        "tokenizer": {"kind": "words", "vocab_size": 8000},
        "model": {
            "encoder_layers": 1, "decoder_layers": 3, "d_model": 64, "d_ff": 128, "heads": 4,
            "dropout": 0.0, "norm": "pre", "patch_positions": "sinusoidal",
        },
        "train": {
            "schedule": "cosine", "learning_rate": 0.002, "max_updates": 4000, "batch_tokens": 3072,
            "label_smoothing": 0.0, "average": 0, "patience": 0,
        },
    },
}  # fmt: skip

_MULTIMODAL: dict[str, Sections] = {
    "tiny": {
        "tokenizer": {"kind": "words", "vocab_size": 8000},
        "model": {
            "encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "d_ff": 128, "heads": 4,
            "dropout": 0.0, "norm": "pre", "patch_positions": "sinusoidal",
        },
        "train": _CAPTIONER["tiny"]["train"],
    },
}  # fmt: skip

PRESETS = {"vit": _VIT, "convnet": _CONVNET, "captioner": _CAPTIONER, "multimodal": _MULTIMODAL}
"""The presets by the name of the architecture."""
