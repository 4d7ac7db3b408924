"""The import of CTranslate2, which must not compute 8-bit products inexactly."""

import importlib
import logging
import os
from typing import Any

from crosshead.system.processor import saturates_int8


def library() -> Any:
    """Import CTranslate2 and its specifications of models, and let it log errors only.

    On an AMD processor without dot products of bytes, CTranslate2's choice of oneDNN gives wrong
    products in int8. `CT2_USE_MKL` makes it take MKL there, unless the environment has a value.
    CTranslate2 reads it when it is imported.
    """
    if saturates_int8():
        os.environ.setdefault("CT2_USE_MKL", "1")
    found = importlib.import_module("ctranslate2")
    importlib.import_module("ctranslate2.specs.transformer_spec")
    found.set_log_level(logging.ERROR)
    return found
