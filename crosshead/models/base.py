"""The interface of all models, and of models that predict tokens.

Training, search and bundles know models by these classes alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from jaxtyping import Float, Int
from pydantic import Field, ValidationError, field_validator, model_validator
from torch import Tensor, nn

from crosshead.attention.attend import Attention
from crosshead.attention.dropout import check_share
from crosshead.config import MOST_WIDTH, Config
from crosshead.vocabulary import BOS


class Shape(NamedTuple):
    """The shape of one computation: numbers of rows, source positions and target positions."""

    rows: int
    source: int
    target: int


class Numbers(NamedTuple):
    """Counts of stored numbers: in vectors, and in blocks of rows by positions by positions."""

    vectors: int
    weights: int
    block: int
    """The part of `weights` in one tensor: a layer's attention."""


AttentionKind = Literal["cross", "encoder", "decoder"]
"""Kinds of attention: to the source, and the self-attention of an encoder or of a decoder."""


class ModelConfig(Config, ABC):
    """The shape of a model; `architecture` says which."""

    task: ClassVar[str] = "translation"
    """The task that models of this architecture are trained for, by name: see `crosshead.tasks`."""

    vocabularies: ClassVar[int] = 2
    """Vocabularies of such a model: of source and target, or of one text."""

    cannot: ClassVar[Mapping[str, str]] = {
        "memory": "what stands before a text is remembered by one architecture alone, "
        "transformer-xl, which reads from left to right; choose that, or leave memory out"
    }
    """Keys that an architecture cannot have, or not set to anything but the default, and why."""

    architecture: str
    """The architecture of the model."""

    d_model: int = Field(512, ge=1, le=MOST_WIDTH)
    """Width of embeddings and hidden states (Vaswani et al. 2017, section 3.1)."""

    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of numbers set to zero in training: of embeddings, and of the output of each sublayer
    (section 5.4)."""

    @field_validator("dropout", "activation_dropout", "attention_dropout", check_fields=False)
    @classmethod
    def _can_be_dropped(cls, share: float) -> float:
        check_share(share)
        return share

    @model_validator(mode="before")
    @classmethod
    def _check_cannot(cls, values: Any) -> Any:
        for key, why in cls.cannot.items() if isinstance(values, dict) else ():
            field = cls.model_fields.get(key)
            if key in values and (field is None or values[key] != field.default):
                # Not of the model as a whole: the message begins with the key.
                error: Any = {"type": "value_error", "loc": (key,), "input": values[key]}
                error["ctx"] = {"error": ValueError(why)}
                raise ValidationError.from_exception_data(cls.__name__, [error])
        return values

    @property
    def start_token(self) -> int:
        """The id that the target begins with."""
        return BOS

    @property
    def most_positions(self) -> int | None:
        """The number of positions that what is written may have; None where there is no end."""
        return None

    @property
    def most_source(self) -> int | None:
        """The number of positions that a source may have; None where there is no end."""
        return self.most_positions

    @property
    def bound(self) -> str:
        """The limited resource behind `most_source`, named for messages."""
        return "learned positions of model.max_length"

    def refuse_idle(self, key: str, option: str, user: str, former: int) -> None:
        """Raise `ValueError` where `key` is given and `option` is not its only `user`.

        Not for its `former` default: every bundle says that which was written when it had one.
        """
        given, found = getattr(self, key), getattr(self, option)
        if found != user and given not in (None, former):
            raise ValueError(
                f"{key} {given} has no meaning for {option} {found!r}, only for {user!r}; leave it "
                "out"
            )

    @abstractmethod
    def shape(self) -> str:
        """Its layers and widths, in a clause."""

    @property
    def shares_vocabulary(self) -> bool:
        """True if source and target have one embedding, and so need one vocabulary."""
        return False

    @property
    def depth(self) -> int:
        """The number of layers that have weights of their own."""
        return 0

    @classmethod
    def variant(cls, values: Any) -> type[Config]:
        """Return the configuration class of the architecture that `values` name, for messages."""
        wanted = values.get("architecture") if isinstance(values, dict) else None
        for each in cls.__subclasses__():
            found = each.variant(values)
            if found.model_fields["architecture"].default == wanted:
                return found
        return cls

    @abstractmethod
    def numbers_held(self, shape: Shape, *, weights: bool, recompute: bool) -> Numbers:
        """Return the count of numbers held at the peak of an update, derived from the code.

        Args:
            shape: Shape of the part of a batch that is computed at once.
            weights: Whether attention keeps its weights, as `explicit` does and a GPU's kernels do
                not.
            recompute: Whether each layer keeps its inputs alone.
        """


class Model(nn.Module, ABC):
    """Any model: its configuration, its attention and its layers."""

    config: ModelConfig

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention modules of each kind that the model has, the first layer first."""
        return {}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers that it is a stack of: each computes with its own weights alone."""
        return ()

    def called_alone(self) -> Iterable[nn.Module]:
        """Parts of layers that also compute when their layer does not."""
        return ()


class TokenModel(Model):
    """A model that predicts a token at each position."""

    projection: nn.Linear
    """From hidden states to logits; fused with the loss in training."""

    @abstractmethod
    def features(self, *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        """Return the last hidden states, one per predicted position.

        The inputs are a source `B S` and a shifted target `B T`, or tokens `B T` alone for a model
        of monolingual text. `forward` projects these hidden states to logits. A loss that never
        holds all logits starts here.
        """

    def forward(self, *inputs: Int[Tensor, "B _"]) -> Float[Tensor, "B _ V"]:
        """Logits of the token of each position; inputs as those of `features`."""
        return self.projection(self.features(*inputs))


class SequenceModel(TokenModel):
    """A model that says what follows, of a target given a source or of text by itself.

    The logits of a position are those of the token after the one that stands there. `start` and
    `step` decode: see `crosshead.decoding.protocol`.
    """

    @abstractmethod
    def start(self, source: Int[Tensor, "B S"]) -> Any:
        """Return the state before the first token: one row a sentence.

        The source of a model of text by itself is empty: `B 0`.
        """

    @abstractmethod
    def step(self, state: Any, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N D"], Any]:
        """Feed each row its next tokens; what `logits` makes the token after them of, and a state.

        `state` is used up: what it holds may be extended in place, and then no gradient passes.
        """

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """Return the logits of the token that follows each of `features`."""
        return self.projection(features)


def decodable(model: Model) -> SequenceModel:
    """Return the model as autoregressive, or raise `TypeError`."""
    if not isinstance(model, SequenceModel):
        raise TypeError(f"{type(model).__name__} does not say what follows: it cannot be searched")
    return model


class RememberingModel(SequenceModel):
    """A model of text by itself that reads on without end, as far as its memory goes."""

    @abstractmethod
    def start(self, source: Int[Tensor, "B 0"], memory: int | None = None) -> Any:
        """Return the state before the first token; `memory` may be another than that of training."""

    @abstractmethod
    def read(self, state: Any, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N T D"], Any]:
        """Read the next tokens of each row; return their last hidden states and the new state.

        No gradient passes. `state` is used up, as by `step`.
        """
