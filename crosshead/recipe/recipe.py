"""The recipe: the settings of a whole run as one frozen value.

Every recipe has the sections `[data]`, `[model]` and `[train]`. The recipe of a task may have more.
An invalid recipe is refused when it is created, before any data is read.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from pydantic import PrivateAttr, SerializeAsAny, ValidationInfo, model_validator

from crosshead.config import Config, called
from crosshead.data import DataSection
from crosshead.models.registry import AnyConfig
from crosshead.recipe.train import TrainConfig

TOKEN_KEYS = ("consistency", "consistency_weight", "word_dropout")
"""The keys of `[train]` that only models which predict tokens have."""


class Recipe(Config):
    """The settings of a whole run."""

    data: SerializeAsAny[DataSection]
    model: AnyConfig
    train: TrainConfig

    _open: frozenset[str] = PrivateAttr(default=frozenset())

    changeable: ClassVar[Mapping[str, frozenset[str]]] = {
        "train": frozenset({
            "max_updates", "max_epochs", "max_minutes", "patience", "log_every", "keep_last",
            "average", "device", "threads", "sharded", "accumulate", "recompute", "learning_rate",
            "guided_alignment", "cuda_graphs",
        }),
    }  # fmt: skip
    """Keys by section that may change when a run is resumed. The keys of `[data]` that name files
    may change as well, but not the number of files. Their contents are checked when they are
    read."""

    left_open: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "train": {"warmup": None, "valid_every": 0, "precision": "auto"},
    }
    """Values by section and key that leave a setting open. The run then chooses its value once."""

    of_training: ClassVar[frozenset[str]] = frozenset(
        {"dropout", "attention_dropout", "activation_dropout"}
    )
    """Keys that fine-tuning may change although their sections are fixed by the bundle."""

    fixed_by_bundle: ClassVar[tuple[str, ...]] = ("model",)
    """The sections that fine-tuning takes from its bundle."""

    predicts_tokens: ClassVar[bool] = False
    """True if the loss is the cross-entropy of tokens, which `TOKEN_KEYS` of `[train]` change."""

    @model_validator(mode="after")
    def _check_token_keys(self, info: ValidationInfo) -> Self:
        for key in () if self.predicts_tokens else TOKEN_KEYS:
            if getattr(self.train, key) != TrainConfig.model_fields[key].default:
                raise ValueError(
                    f"{called(f'train.{key}', info)} is for models that predict tokens; the "
                    f"{self.model.task} model {self.model.architecture} does not: leave it out"
                )
        return self

    @model_validator(mode="after")
    def _check_alignment(self, info: ValidationInfo) -> Self:
        if self.train.guided_alignment and self.model.architecture != "transformer":
            raise ValueError(
                f"{called('train.guided_alignment', info)} is for the architecture transformer, "
                f"found {self.model.architecture}: leave it out"
            )
        return self

    @property
    def open(self) -> frozenset[str]:
        """The keys, such as `model.d_model`, that the run may choose: see `Task.settle`.

        A recipe of the preset `auto` has all keys that were not stated. Recipes that a run has
        settled, or that were read from a file, have none.
        """
        return self._open

    def opened(self, keys: Iterable[str]) -> Self:
        """Return the recipe with these keys open.

        Args:
            keys: Keys with their sections.
        """
        found = self.model_copy()
        found._open = frozenset(keys)
        return found

    @classmethod
    def may_change(cls, section: str, key: str) -> bool:
        """Return whether a key may change when a run is resumed.

        Args:
            section: The section of the recipe.
            key: The key in this section.
        """
        if section == "data" and key in cls.data_class().file_keys:
            return True
        return key in cls.changeable.get(section, ())

    @classmethod
    def data_class(cls) -> type[DataSection]:
        """Return the class of the section `[data]`."""
        found = cls.model_fields["data"].annotation
        assert isinstance(found, type) and issubclass(found, DataSection)
        return found
