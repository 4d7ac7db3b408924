"""The import of CTranslate2, which must not compute 8-bit products inexactly."""

import importlib
import logging
import os
import sys
from typing import Any

from crosshead.system.devices import saturates_int8

logger = logging.getLogger(__name__)


def library() -> Any:
    """Import CTranslate2 and its specifications of models, and let it log errors only.

    On some processors, CTranslate2's choice of oneDNN gives wrong products in int8
    (`saturates_int8`). `CT2_USE_MKL` makes it take MKL there, unless the environment has a value.
    CTranslate2 reads it when it is imported. If the caller has imported it before, a warning says
    so.
    """
    if saturates_int8() and "CT2_USE_MKL" not in os.environ:
        if "ctranslate2" in sys.modules:
            logger.warning(
                "CTranslate2 multiplies bytes inexactly on this processor, and was imported "
                "already; set CT2_USE_MKL=1 before the program starts"
            )
        os.environ["CT2_USE_MKL"] = "1"
    found = importlib.import_module("ctranslate2")
    importlib.import_module("ctranslate2.specs.transformer_spec")
    found.set_log_level(logging.ERROR)
    return found
