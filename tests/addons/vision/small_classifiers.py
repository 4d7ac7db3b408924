"""What the tests of classifiers share: the settings of small ones."""

from typing import Any

SIZES: dict[str, dict[str, Any]] = {
    "vit": {"layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, "patch_size": 2},
    "convnet": {"d_model": 16, "blocks": 2},
}
