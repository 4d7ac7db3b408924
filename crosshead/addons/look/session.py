"""The answers to the requests of the page: traces, and what each head and each state does."""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from crosshead.config import Config, validate
from crosshead.errors import ConfigError
from crosshead.inspection.edits import Edit, ForbiddenEdge, GivenWeights, HeadOff, Patch, Prefix
from crosshead.inspection.forms import trace_form
from crosshead.inspection.probe import stacks_of
from crosshead.inspection.record import supervised_head
from crosshead.inspection.trace import Trace, trace
from crosshead.models.base import AttentionKind
from crosshead.tasks.pipeline import Pipeline, TextPipeline
from crosshead.tasks.translation.translator import Translator
from crosshead.vocabulary import EOS

LONGEST = 4000
"""The largest number of characters of a text."""


class HeadChange(Config):
    """A head, or all heads of a layer, that adds nothing or has given weights."""

    edit: Literal["off", "uniform", "diagonal"]
    kind: AttentionKind
    layer: int
    head: int | None = None


class EdgeChange(Config):
    """A query that may not attend to a key."""

    edit: Literal["edge"]
    kind: AttentionKind
    layer: int
    head: int | None = None
    query: int
    key: int


class PatchChange(Config):
    """A state that comes from another text."""

    edit: Literal["patch"]
    text: str = Field(max_length=LONGEST)
    stack: str
    layer: int
    position: int


class PrefixChange(Config):
    """The first tokens of the output."""

    edit: Literal["prefix"]
    ids: tuple[int, ...] = Field(strict=False)


Change = Annotated[
    HeadChange | EdgeChange | PatchChange | PrefixChange, Field(discriminator="edit")
]


class Request(Config):
    """A request of the page.

    `ask` is "trace"; "heads", the effect of each head; or "states", the effect of each state of a
    stack if it comes from the text `other`.
    """

    ask: Literal["trace", "heads", "states"]
    model: int = Field(0, ge=0)
    text: str = Field(max_length=LONGEST)
    target: str | None = Field(None, max_length=LONGEST)
    edits: tuple[Change, ...] = Field((), strict=False)
    other: str = Field("", max_length=LONGEST)
    stack: str = "encoder"


class Session:
    """Models that the page looks into, by their names.

    Args:
        pipelines: The pipelines of models of text.
    """

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        for name, pipeline in pipelines.items():
            if not isinstance(pipeline, TextPipeline):
                raise ConfigError(
                    f"{name}: this model {pipeline.does}; the page shows models of text"
                )
        self.pipelines, self.lock = [*pipelines.values()], threading.Lock()
        self.models = [_described(name, each) for name, each in pipelines.items()]
        self.traced = lru_cache(maxsize=16)(self._trace)

    def answer(self, values: Any) -> dict[str, Any]:
        """Answer a request.

        Args:
            values: The values of a `Request`.

        Raises:
            ConfigError: If a value is wrong, or does not fit the model.
            DataError: If the text is empty or too long for the model.
        """
        if not isinstance(values, dict):
            raise ConfigError(f"expected an object, found {type(values).__name__}")
        request = validate(Request, values)
        if request.model >= len(self.pipelines):
            raise ConfigError(f"no model {request.model}; there are {len(self.pipelines)}")
        with self.lock:
            if request.ask == "trace":
                return trace_form(
                    self.traced(request.model, request.text, request.target, request.edits)
                )
            return {"effects": [*getattr(self, f"_{request.ask}")(request)]}

    def _trace(
        self, model: int, text: str, target: str | Sequence[int] | None, edits: tuple[Change, ...]
    ) -> Trace:
        """Return a trace."""
        changes = [self._edit(model, each) for each in edits]
        return trace(self.pipelines[model], text, target, changes)

    def _edit(self, model: int, change: Change) -> Edit:
        """Return the edit that a change stands for."""
        if isinstance(change, PatchChange):
            other = self.traced(model, change.text, None, ())
            return Patch(other, change.stack, change.layer, change.position)
        if isinstance(change, PrefixChange):
            return Prefix(change.ids)
        place = change.kind, change.layer, change.head
        if isinstance(change, EdgeChange):
            return ForbiddenEdge(*place, change.query, change.key)
        return HeadOff(*place) if change.edit == "off" else GivenWeights(*place, change.edit)

    def _heads(self, request: Request) -> Iterator[dict[str, Any]]:
        """Yield the effect of each head on the log-probability of the model's own output."""
        for kind, modules in self.pipelines[request.model].model.attentions().items():
            for layer, module in enumerate(modules, 1):
                for head in range(1, module.heads + 1):
                    place = {"kind": kind, "layer": layer, "head": head}
                    effect = self._effect(request, HeadChange(edit="off", **place))
                    yield place | {"effect": effect}

    def _states(self, request: Request) -> Iterator[dict[str, Any]]:
        """Yield the effect of each state that comes from another text."""
        model, stack = request.model, request.stack
        own, other = (
            self.traced(model, text, None, ()).states.get(stack, [])
            for text in (request.text, request.other)
        )
        for layer, (mine, theirs) in enumerate(zip(own, other, strict=True)):
            for position in range(min(len(mine), len(theirs))):
                place = {"stack": stack, "layer": layer, "position": position}
                change = PatchChange(edit="patch", text=request.other, **place)
                yield place | {"effect": self._effect(request, change)}

    def _effect(self, request: Request, change: Change) -> float:
        """Return what a change adds to the log-probability of the output without it, in nats."""
        place = request.model, request.text
        before = self.traced(*place, request.target, request.edits)
        given: Any = request.target
        if isinstance(self.pipelines[request.model], Translator) and given is None:
            given = tuple(before.ids[:-1] if before.ids[-1:] == [EOS] else before.ids)
        edits = tuple(each for each in request.edits if not isinstance(each, PrefixChange))
        after = self._trace(*place, given, (*edits, change))
        pairs = zip(after.probabilities, before.probabilities, strict=False)
        return sum(_log(new) - _log(old) for new, old in pairs)


def _log(probability: float) -> float:
    """Return the natural logarithm of a probability that may be 0 in float32."""
    return math.log(max(probability, 1e-45))


def _described(name: str, pipeline: Pipeline) -> dict[str, Any]:
    """Return what the page says of a model."""
    model, supervised = pipeline.model, supervised_head(pipeline)
    return {
        "name": name,
        "shape": f"{model.config.architecture}: {model.config.shape()}",
        "translates": isinstance(pipeline, Translator),
        "heads": {
            kind: [module.heads for module in modules]
            for kind, modules in model.attentions().items()
        },
        "stacks": {stack: len(each.layers) for stack, each in stacks_of(model).items()},
        "supervised": supervised and supervised._asdict(),
    }
