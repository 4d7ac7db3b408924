"""The answers to the requests of the page: traces, and what each head and each state does."""

import copy
import dataclasses
import math
import threading
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from crosshead.bundle.places import CHECKPOINTS
from crosshead.config import Config, validate
from crosshead.errors import BundleError, ConfigError
from crosshead.inspection.edits import Edit, ForbiddenEdge, GivenWeights, HeadOff, Patch, Prefix
from crosshead.inspection.forms import trace_form
from crosshead.inspection.probe import stacks_of
from crosshead.inspection.record import supervised_head
from crosshead.inspection.trace import Trace, log_probabilities, trace
from crosshead.models.base import AttentionKind
from crosshead.tasks.pipeline import Pipeline, TextPipeline
from crosshead.tasks.translation.translator import Translator
from crosshead.training.checkpoint import list_checkpoints, load_weights
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

    `checkpoint` is the update whose weights are used instead of the last ones. `ask` is "trace";
    "heads", the effect of each head; or "states", the effect of each state of a stack if it comes
    from the text `other`. The effects are those on the model without `edits`.
    """

    ask: Literal["trace", "heads", "states"]
    model: int = Field(0, ge=0)
    checkpoint: int | None = None
    text: str = Field(max_length=LONGEST)
    edits: tuple[Change, ...] = Field((), strict=False)
    other: str = Field("", max_length=LONGEST)
    stack: str = "encoder"


class ModelAt(NamedTuple):
    """A model of a session, and the update of its checkpoint."""

    number: int
    checkpoint: int | None


def _of(request: Request) -> ModelAt:
    """Return the model of a request."""
    return ModelAt(request.model, request.checkpoint)


class Session:
    """Models that the page looks into, by their places.

    The checkpoints of a run beside a model belong to it.
    """

    def __init__(self, pipelines: Mapping[str, Pipeline]) -> None:
        for name, pipeline in pipelines.items():
            if not isinstance(pipeline, TextPipeline):
                raise ConfigError(
                    f"{name}: this model {pipeline.does}; the page shows models of text"
                )
        self.pipelines, self.lock = [*pipelines.values()], threading.Lock()
        self.checkpoints = [_checkpoints(Path(place)) for place in pipelines]
        self.models = [
            _described(name, each) | {"checkpoints": [*updates]}
            for (name, each), updates in zip(pipelines.items(), self.checkpoints, strict=True)
        ]
        self.traced = lru_cache(maxsize=16)(self._trace)
        self.pipeline = lru_cache(maxsize=4)(self._pipeline)

    def answer(self, values: Any) -> dict[str, Any]:
        """Answer the values of a `Request`; raise `UserError` if they do not fit the model."""
        if not isinstance(values, dict):
            raise ConfigError(f"expected an object, found {type(values).__name__}")
        request = validate(Request, values)
        if request.model >= len(self.pipelines):
            raise ConfigError(f"no model {request.model}; there are {len(self.pipelines)}")
        with self.lock:
            if request.ask == "trace":
                return trace_form(self.traced(_of(request), request.text, request.edits))
            listed = self._heads if request.ask == "heads" else self._states
            changes = [*listed(request)]
        effects = []
        for change in changes:
            with self.lock:
                effects.append(self._effect(request, change))
            time.sleep(0.001)  # lets in another request, which waits for the lock
        return {"effects": effects}

    def _pipeline(self, model: ModelAt) -> Pipeline:
        """Return a model, with the weights of a checkpoint if it has one."""
        pipeline = self.pipelines[model.number]
        if model.checkpoint is None:
            return pipeline
        place = self.checkpoints[model.number].get(model.checkpoint)
        if place is None:
            raise ConfigError(
                f"no checkpoint of update {model.checkpoint}; it may have been removed"
            )
        found = copy.copy(pipeline)
        found.bundle = dataclasses.replace(pipeline.bundle, model=copy.deepcopy(pipeline.model))
        try:
            found.model.load_state_dict(load_weights(place), strict=False)
        except BundleError:
            raise ConfigError(f"{place}: the checkpoint cannot be read; it may be gone") from None
        return found

    def _trace(self, model: ModelAt, text: str, edits: tuple[Change, ...]) -> Trace:
        """Return a trace."""
        return trace(self.pipeline(model), text, edits=[self._edit(model, each) for each in edits])

    def _edit(self, model: ModelAt, change: Change) -> Edit:
        """Return the edit that a change stands for."""
        if isinstance(change, PatchChange):
            other = self.traced(model, change.text, ())
            return Patch(other, change.stack, change.layer, change.position)
        if isinstance(change, PrefixChange):
            return Prefix(change.ids)
        place = change.kind, change.layer, change.head
        if isinstance(change, EdgeChange):
            return ForbiddenEdge(*place, change.query, change.key)
        return HeadOff(*place) if change.edit == "off" else GivenWeights(*place, change.edit)

    def _heads(self, request: Request) -> Iterator[HeadChange]:
        """Yield the changes that switch off each head."""
        for kind, modules in self.pipeline(_of(request)).model.attentions().items():
            for layer, module in enumerate(modules, 1):
                for head in range(1, module.heads + 1):
                    yield HeadChange(edit="off", kind=kind, layer=layer, head=head)

    def _states(self, request: Request) -> Iterator[PatchChange]:
        """Yield the changes that take each state from another text."""
        model, stack = _of(request), request.stack
        if stack not in (there := self.models[request.model]["stacks"]):
            raise ConfigError(
                f"no stack {stack!r} in this model; it has {', '.join(there) or 'none'}"
            )
        own, other = (
            self.traced(model, text, ()).states.get(stack, [])
            for text in (request.text, request.other)
        )
        for layer, (mine, theirs) in enumerate(zip(own, other, strict=True)):
            for position in range(min(len(mine), len(theirs))):
                yield PatchChange(
                    edit="patch", text=request.other, stack=stack, layer=layer, position=position
                )

    def _effect(self, request: Request, change: Change) -> dict[str, Any]:
        """Return a change, and what it adds to the log-probability of the output, in nats."""
        place = _of(request), request.text
        before, target, has_end = self.traced(*place, ()), None, True
        if isinstance(self.pipelines[request.model], Translator):
            target, has_end = before.ids[:-1], before.ids[-1] == EOS
        # The last piece does not count if it is a guess, or not the end of an output that ended.
        counted = before.probabilities[: None if has_end and not before.is_guessed else -1]
        edits = [self._edit(place[0], change)]
        after = log_probabilities(self.pipeline(place[0]), request.text, target, edits)
        pairs = zip(after, counted, strict=False)  # an output that was cut off has no end
        return change.model_dump() | {"effect": sum(new - _log(old) for new, old in pairs)}


def _log(probability: float) -> float:
    """Return the natural logarithm of a probability that may be 0 in float32."""
    return math.log(max(probability, 1e-45))


def _checkpoints(place: Path) -> dict[int, Path]:
    """Return the checkpoints of a run by their updates, oldest first."""
    found = list_checkpoints(place / CHECKPOINTS) if place.is_dir() else []
    return {int(each.name.removeprefix("update-")): each for each in found}


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
