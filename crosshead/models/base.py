"""The interface of all models, and of models that predict tokens.

Training, search and bundles know models only by these classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int, Shaped
from pydantic import Field, ValidationError, field_validator, model_validator
from torch import Tensor, nn

from crosshead.attention.attend import Attention
from crosshead.attention.dropout import check_share
from crosshead.config import MOST_LAYERS, MOST_WIDTH, Config
from crosshead.vocabulary import BOS

AttentionKind = Literal["cross", "encoder", "decoder", "image"]
"""Kinds of attention: to the source, the self-attention of an encoder or of a decoder, and from a
sentence to the image beside it."""


class ModelConfig(Config, ABC):
    """The shape of a model. `architecture` names its architecture."""

    task: ClassVar[str] = "translation"
    """The task that models of this architecture are trained for, by name: see `crosshead.tasks`."""

    cannot: ClassVar[Mapping[str, str]] = {}
    """Keys that an architecture does not support, or only with their default, and the reasons."""

    architecture: str
    """The architecture of the model."""

    d_model: int = Field(512, ge=1, le=MOST_WIDTH)
    """Width of embeddings and hidden states (Vaswani et al. 2017, section 3.1)."""

    dropout: float = Field(0.1, ge=0, lt=1)
    """The share of numbers set to zero in training: in embeddings, and in the output of each
    sublayer (section 5.4)."""

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
                # An error of this key, so that the message begins with the key.
                error: Any = {"type": "value_error", "loc": (key,), "input": values[key]}
                error["ctx"] = {"error": ValueError(why)}
                raise ValidationError.from_exception_data(cls.__name__, [error])
        return values

    @property
    def most_positions(self) -> int | None:
        """The largest number of positions of an output, or None without a limit."""
        return None

    def refuse_idle(self, key: str, option: str, user: str, former: int | None = None) -> None:
        """Refuse a key that is set but has no effect.

        Args:
            key: The key, which has an effect only if `option` is `user`.
            option: The key that selects the variant.
            user: The only value of `option` that uses `key`.
            former: A value that is accepted because stored bundles contain it.

        Raises:
            ValueError: If the key is set and has no effect.
        """
        given, found = getattr(self, key), getattr(self, option)
        if found != user and given not in (None, former):
            raise ValueError(
                f"{key} {given} has no meaning for {option} {found!r}, only for {user!r}; leave it "
                "out"
            )

    @abstractmethod
    def shape(self) -> str:
        """Return the number of layers and the widths, as a clause."""

    @property
    def depth(self) -> int:
        """The number of layers with their own weights."""
        return 0

    @classmethod
    def variant(cls, values: Any) -> type[Config]:
        """Return the configuration class of an architecture, for messages.

        Args:
            values: The settings of a model, among them its `architecture`.
        """
        wanted = values.get("architecture") if isinstance(values, dict) else None
        for each in cls.__subclasses__():
            found = each.variant(values)
            if found.model_fields["architecture"].default == wanted:
                return found
        return cls


class TokenModelConfig(ModelConfig):
    """The shape of a model that predicts tokens."""

    vocabularies: ClassVar[int] = 2
    """The number of vocabularies: two for source and target, one for monolingual text."""

    cannot: ClassVar[Mapping[str, str]] = {
        "memory": "only the architecture transformer-xl, which reads from left to right, has a "
        "memory of earlier text; choose it, or leave memory out"
    }

    @property
    def start_token(self) -> int:
        """The id of the first token of every target."""
        return BOS

    @property
    def most_source(self) -> int | None:
        """The largest number of positions of a source, or None without a limit."""
        return self.most_positions

    @property
    def bound(self) -> str:
        """The resource that limits `most_source`, named for messages."""
        return "learned positions of model.max_length"

    @property
    def shares_vocabulary(self) -> bool:
        """True if source and target share one embedding matrix, and therefore one vocabulary."""
        return False

    def check_context(self, context: int) -> None:
        """Check that the model can be trained on windows of monolingual text.

        Args:
            context: Length of the windows, in tokens.

        Raises:
            ValueError: If the windows do not fit the model.
        """
        if self.most_positions is not None and context > self.most_positions:
            raise ValueError(
                f"data.context {context} is more than the {self.most_positions} learned positions "
                "of model.max_length; lower the first or raise the second"
            )


class EncoderDecoderConfig(TokenModelConfig):
    """The shape of a model with an encoder of tokens and a decoder of tokens."""

    encoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Layers of the encoder."""

    decoder_layers: int = Field(6, ge=1, le=MOST_LAYERS)
    """Layers of the decoder."""

    tie: Literal["three-way", "two-way", "none"] = "three-way"
    """The matrices that are shared: `three-way` shares source embedding, target embedding and
    output projection (Vaswani et al. 2017, section 3.4), `two-way` the last two, `none` shares
    none."""

    @property
    def shares_vocabulary(self) -> bool:
        """True if source and target share one embedding matrix."""
        return self.tie == "three-way"

    @property
    def depth(self) -> int:
        """The number of layers."""
        return self.encoder_layers + self.decoder_layers


class Model(nn.Module, ABC):
    """The base of all models: configuration, attention and layers."""

    config: ModelConfig

    def attentions(self) -> Mapping[AttentionKind, Sequence[Attention]]:
        """Return the attention modules of each kind, the first layer first."""
        return {}

    def layers(self) -> Iterable[nn.Module]:
        """Return the layers of the model. Each computes only with its own weights."""
        return ()

    @property
    def has_fixed_work(self) -> bool:
        """True if the shapes of a `Batch` alone decide the operations of training on it.

        A GPU can then replay them.
        """
        return False

    def called_alone(self) -> Iterable[nn.Module]:
        """Return parts of layers that also compute outside their layer's call."""
        return ()


class TokenModel(Model):
    """A model that predicts a token at each position."""

    config: TokenModelConfig
    projection: nn.Linear
    """The projection of hidden states to logits, which training fuses with the loss."""

    @abstractmethod
    def features(self, *inputs: Any, **named: Any) -> Float[Tensor, "B T D"]:
        """Return the last hidden states, "B T D", one per predicted position.

        `forward` projects these hidden states to logits. A loss that never holds all logits starts
        here.

        Args:
            inputs: A source, "B S", and a shifted target, "B T"; or tokens, "B T", for a model of
                monolingual text.
            named: Further arguments of a model.
        """

    def forward(self, *inputs: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B _ V"]:
        """Return the logits of every position, "B T V".

        Args:
            inputs: As for `features`, each "B ...".
        """
        return self.projection(self.features(*inputs))


class SequenceModel(TokenModel):
    """An autoregressive model: it predicts a target given a source, or continues monolingual text.

    The logits of a position belong to the token after it. `start` and `step` decode: see
    `crosshead.decoding.protocol`.
    """

    @abstractmethod
    def start(self, source: Any) -> Any:
        """Return the state before the first token, one row per source.

        Args:
            source: The sources: padded token ids, "B S", for a model of pairs; "B 0", empty, for a
                model of monolingual text; images for a captioner; images and token ids for a
                multimodal model.
        """

    @abstractmethod
    def step(self, state: Any, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N D"], Any]:
        """Feed each row its next tokens.

        Args:
            state: The state so far. It may be extended in place, so do not use it again.
            tokens: Token ids, "N T".

        Returns:
            The last hidden state of each row, "N D", for `logits`, and the new state. No gradient
            passes if the state is extended in place.
        """

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """Return the logits of the next token, "N V".

        Args:
            features: Last hidden states, "N D".
        """
        return self.projection(features)


def decodable(model: Model) -> SequenceModel:
    """Return the model if it is autoregressive, else raise `TypeError`."""
    if not isinstance(model, SequenceModel):
        raise TypeError(f"{type(model).__name__} is not autoregressive: it cannot be decoded")
    return model


class RememberingModel(SequenceModel):
    """A model of monolingual text that reads text of any length, with a limited memory."""

    @abstractmethod
    def start(self, source: Int[Tensor, "B 0"], memory: int | None = None) -> Any:
        """Return the state before the first token."""

    @abstractmethod
    def read(self, state: Any, tokens: Int[Tensor, "N T"]) -> tuple[Float[Tensor, "N T D"], Any]:
        """Read the next tokens of each row. No gradient passes."""
