"""The engine of CTranslate2: whole batches of the sentences of all requests."""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosshead.addons.interop.ctranslate2_model import (
    IGNORED,
    NAME,
    RECORD,
    STORED,
    CTranslate2Batch,
    CTranslate2Model,
    StoredCTranslate2,
    library,
    record_of,
    searches_alike,
    versions,
)
from crosshead.bundle.config_file import file_checksum
from crosshead.bundle.texts import BundleState, TextParts, read_parts
from crosshead.decoding.settings import DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.system.files import atomic_write, hidden_directory, put
from crosshead.tasks.translation.engine import Engines, MakesEngines

if TYPE_CHECKING:
    import torch

    from crosshead.tasks.translation.translator import Translator

logger = logging.getLogger(__name__)


class CTranslate2Engines:
    """Makes the engines of translators in CTranslate2.

    What needs PyTorch is imported where it is used: a stored model is used without it.
    """

    def suits(self, translator: "Translator", decode: DecodeConfig) -> bool:
        """Return whether CTranslate2 finds the translations of a search that crosshead finds."""
        import torch

        from crosshead.addons.interop.ctranslate2 import CTRANSLATE2
        from crosshead.addons.interop.export import missing_libraries
        from crosshead.models.ensemble import Ensemble

        return (
            searches_alike(decode, translator.bundle.target_tokenizer)
            and not isinstance(translator.model, Ensemble)
            and translator.device.type in ("cpu", "meta")  # a bundle may be outlined
            and next(translator.model.parameters()).dtype == torch.float32
            and not missing_libraries(CTRANSLATE2, verify=True)
            and not CTRANSLATE2.refusals(translator.bundle)
        )

    def __call__(self, kind: str | None, workers: int) -> MakesEngines:
        """Return what makes engines with a number format."""
        from crosshead.addons.interop.ctranslate2 import CTRANSLATE2
        from crosshead.addons.interop.export import check_libraries, number_format

        check_libraries(CTRANSLATE2, verify=True)
        return partial(_engines, number_format(CTRANSLATE2, kind), workers)

    def store(self, translator: "Translator", state: BundleState) -> None:
        """Store the model of a bundle beside it, unless it is there, or nothing can be written."""
        place = state.path / STORED
        if record_of(state) is not None:
            return
        try:
            if not _is_free(place):
                raise FileExistsError("something else stands there")
            if read_parts(state.path) is not None:
                self._store(translator, state, place)
        except (OSError, UserError) as error:
            logger.warning(
                "%s: CTranslate2's form of the model cannot be stored there (%s), so each command "
                "converts the model anew", place, getattr(error, "strerror", None) or error,
            )  # fmt: skip

    def _store(self, translator: "Translator", state: BundleState, place: Path) -> None:
        from crosshead.addons.interop.ctranslate2 import write_model

        with hidden_directory(place) as hidden:
            write_model(translator.bundle, "float32", hidden)
            most_source, most_target = translator.most_positions
            sums = {each.name: file_checksum(each.read_bytes()) for each in hidden.iterdir()}
            record = {
                **versions(state),
                "most_source": most_source,
                "most_target": most_target,
                "files": {name: each.model_dump() for name, each in sums.items()},
            }
            atomic_write(hidden / RECORD, (json.dumps(record, indent=1) + "\n").encode())
            atomic_write(hidden / IGNORED, b"*\n")  # the bundle may be in a repository
            if state.is_current:
                put(hidden, place, replace=True)

    def stored(
        self, state: BundleState, parts: TextParts, decode: DecodeConfig, workers: int
    ) -> StoredCTranslate2 | None:
        """Return the model that was stored beside a bundle, if it suits a search.

        A machine with a GPU computes with PyTorch.
        """
        is_alike = searches_alike(decode, parts.target_tokenizer)
        if not is_alike or find_spec("ctranslate2") is None:
            return None
        record = record_of(state)
        if record is None or library().get_cuda_device_count():
            return None
        try:
            return StoredCTranslate2(state.path / STORED, record, parts, decode, workers)
        except (RuntimeError, ValueError, TypeError) as error:
            logger.info("%s: not loaded (%s)", state.path / STORED, error)
            shutil.rmtree(state.path / STORED, ignore_errors=True)  # to be stored again
            return None


ctranslate2_engines = CTranslate2Engines()
"""The entry point of the engine."""


def _is_free(place: Path) -> bool:
    """Return whether nothing stands at a place, or what an engine has stored there."""
    is_own = not os.path.lexists(place) or any(
        (place / name).is_file() for name in (RECORD, "model.bin")
    )
    return is_own and not (place.is_symlink() or place.parent.is_symlink())


def _engines(
    kind: str, workers: int, translator: "Translator", decode: DecodeConfig | None = None
) -> Engines:
    from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, write_model
    from crosshead.addons.interop.export import usual_search
    from crosshead.models.ensemble import Ensemble
    from crosshead.tasks.translation.model_engine import model_engines

    decode, bundle = decode or translator.bundle.config.decode, translator.bundle
    whys = ["samples"] * decode.sample + ["ensembles"] * isinstance(translator.model, Ensemble)
    if whys := whys or CTRANSLATE2.refusals(bundle):
        what = "; ".join(whys)
        raise ConfigError(f"CTranslate2 cannot compute {what}; leave out `--engine ctranslate2`")
    penalty = usual_search(bundle, decode).length_penalty
    with tempfile.TemporaryDirectory() as scratch:
        write_model(bundle, kind, Path(scratch))
        model = CTranslate2Model(bundle, _translator(scratch, translator.device, workers))
    own = model_engines(translator, decode)

    def engine(beam: int) -> CTranslate2Engine:
        settings = decode.model_copy(update={"beam": beam})
        batch = partial(CTranslate2Batch, model, penalty, settings)
        return CTranslate2Engine(beam, own(beam).bytes, batch)

    return engine


def _translator(folder: str, device: "torch.device", workers: int) -> Any:
    """Return CTranslate2's translator of a model on a device."""
    try:
        return library().Translator(
            folder, device=device.type, device_index=device.index or 0,
            inter_threads=workers, intra_threads=1,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        if device.type == "cpu":
            raise
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"CTranslate2 cannot compute on the device {device} ({reason}); use `--device cpu`, or "
            "leave out `--engine ctranslate2`"
        ) from None


@dataclass(frozen=True)
class CTranslate2Engine:
    """A model in CTranslate2 with the beam of one search."""

    name = NAME

    beam: int
    """The number of hypotheses of the search."""
    bytes: Callable[[int, int, int], float]
    """Returns the memory of a batch, as crosshead's own engine estimates it."""
    batch: Callable[[], CTranslate2Batch]
