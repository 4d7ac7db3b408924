"""The engine of CTranslate2: whole batches of the sentences of all requests."""

import contextlib
import json
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosshead.addons.interop.ctranslate2_model import (
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
from crosshead.bundle.places import CONFIG, ENGINES
from crosshead.bundle.texts import TextParts
from crosshead.decoding.settings import BeamRules, DecodeConfig
from crosshead.errors import ConfigError, UserError
from crosshead.system.files import atomic_write, hidden_directory, put
from crosshead.tasks.translation.engine import Engine, Engines, MakesEngines

if TYPE_CHECKING:
    import torch

    from crosshead.tasks.translation.translator import Translator


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
            searches_alike(decode)
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

    def store(self, translator: "Translator", place: Path) -> None:
        """Store the model of a bundle beside it, unless it is there, or nothing can be written."""
        from crosshead.addons.interop.ctranslate2 import write_model

        if not (place / CONFIG).is_file() or record_of(place) is not None:
            return
        with contextlib.suppress(OSError, UserError), hidden_directory(place / STORED) as hidden:
            write_model(translator.bundle, "float32", hidden)
            most_source, most_target = translator.most_positions
            sums = {each.name: file_checksum(each.read_bytes()) for each in hidden.iterdir()}
            record = {
                **versions(place),
                "most_source": most_source,
                "most_target": most_target,
                "files": {name: each.model_dump() for name, each in sums.items()},
            }
            atomic_write(hidden / RECORD, (json.dumps(record, indent=1) + "\n").encode())
            put(hidden, place / STORED, replace=True)
            atomic_write(place / ENGINES / ".gitignore", b"*\n")  # of a bundle in a repository

    def stored(
        self, place: Path, parts: TextParts, decode: DecodeConfig, workers: int
    ) -> StoredCTranslate2 | None:
        """Return the model that was stored beside a bundle, if it suits a search.

        A machine with a GPU computes with PyTorch.
        """
        if not searches_alike(decode) or find_spec("ctranslate2") is None:
            return None
        record = record_of(place)
        if record is None or library().get_cuda_device_count():
            return None
        return StoredCTranslate2(place, record, parts, workers)


ctranslate2_engines = CTranslate2Engines()
"""The entry point of the engine."""


def _engines(
    kind: str, workers: int, translator: "Translator", decode: DecodeConfig | None = None
) -> Engines:
    from crosshead.addons.interop.ctranslate2 import CTRANSLATE2, write_model
    from crosshead.addons.interop.export import usual_search
    from crosshead.addons.interop.formats import check_expressible
    from crosshead.models.ensemble import Ensemble
    from crosshead.tasks.translation.model_engine import model_engines

    decode = decode or translator.bundle.config.decode
    if decode.sample or isinstance(translator.model, Ensemble):
        what = "samples" if decode.sample else "ensembles"
        raise ConfigError(f"CTranslate2 computes no {what}; leave out `--engine ctranslate2`")
    bundle = check_expressible(translator.bundle, CTRANSLATE2)
    penalty = usual_search(bundle, decode).length_penalty
    with tempfile.TemporaryDirectory() as scratch:
        write_model(bundle, kind, Path(scratch))
        model = CTranslate2Model(bundle, _translator(scratch, translator.device, workers))
    own = model_engines(translator, decode)
    return lambda beam: CTranslate2Engine(model, own(beam), own(beam).rules, penalty)


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


class CTranslate2Engine:
    """A model in CTranslate2 with the beam of one search."""

    def __init__(
        self, model: CTranslate2Model, own: Engine, rules: BeamRules, penalty: float
    ) -> None:
        self.own, self.batch = own, partial(CTranslate2Batch, model, rules, penalty)

    @property
    def beam(self) -> int:
        """The number of hypotheses of the search."""
        return self.own.beam

    def bytes(self, sentences: int, source: int, target: int) -> float:
        """Return the memory of a batch, estimated by that of crosshead's own engine."""
        return self.own.bytes(sentences, source, target)
