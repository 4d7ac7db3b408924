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


def _vit(**sizes: int) -> Sections:
    model = {"layers": 6, **sizes, "dropout": 0.0, "stem": "convolution"}
    return {"data": _AUGMENTATION, "model": model, "train": _IMAGES}


def _convnet(d_model: int, **train: float) -> Sections:
    model = {"d_model": d_model, "dropout": 0.1}
    return {"data": _AUGMENTATION, "model": model, "train": {**_IMAGES, **train}}


def _over_patches(**layers: int) -> Sections:
    return {
        "tokenizer": {"kind": "words", "vocab_size": 8000},
        "model": {
            **layers, "d_model": 64, "d_ff": 128, "heads": 4, "dropout": 0.0, "norm": "pre",
            "patch_positions": "sinusoidal",
        },
        "train": {
            "schedule": "cosine", "learning_rate": 0.002, "max_updates": 4000, "batch_tokens": 3072,
            "label_smoothing": 0.0, "average": 0, "patience": 0,
        },
    }  # fmt: skip


PRESETS: dict[str, dict[str, Sections]] = {
    "vit": {
        "tiny": _vit(d_model=128, d_ff=256, heads=4),
        "small": _vit(d_model=192, d_ff=384, heads=6),
    },
    "convnet": {"tiny": _convnet(128, learning_rate=0.002), "small": _convnet(256)},
    "captioner": {"tiny": _over_patches(encoder_layers=1, decoder_layers=3)},
    "multimodal": {"tiny": _over_patches(encoder_layers=2, decoder_layers=2)},
}
"""The presets by the name of the architecture."""
