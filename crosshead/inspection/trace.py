"""Traces of a text through a model: pieces, search, attention, states, and the effect of edits.

Axes: `H` heads, `Q` query positions, `K` key positions, `E` per-head width, `D` width, `P`
positions, `V` vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from crosshead.attention.multihead import MultiHeadAttention
from crosshead.decoding.search import search
from crosshead.errors import ConfigError, DataError
from crosshead.inspection.edits import Edit, ForbiddenEdge, Patch, Prefix, changes
from crosshead.inspection.probe import Probe, probed, stacks_of
from crosshead.inspection.record import NAMES, Supervised, joined, supervised_head
from crosshead.models.base import AttentionKind, TokenModel, decodable
from crosshead.tasks.pipeline import Pipeline, TextPipeline
from crosshead.tasks.translation.translator import Translator
from crosshead.text.batching import collate
from crosshead.text.tokenizers import Tokenizer
from crosshead.vocabulary import BOS, EOS, PAD

__all__ = ["Attended", "BeamStep", "Difference", "NextPiece", "Trace", "trace"]


class NextPiece(NamedTuple):
    """A piece that may come next.

    Attributes:
        piece: The piece.
        probability: Its probability.
        id: Its token id.
    """

    piece: str
    probability: float
    id: int


class Row(NamedTuple):
    """A hypothesis of a step of beam search.

    Attributes:
        parent: The number of the hypothesis of the step before that it continues.
        piece: The piece that it adds.
        log_prob: The natural log-probability of the whole hypothesis.
        best: The most probable next pieces, with their probability after this hypothesis.
    """

    parent: int
    piece: str
    log_prob: float
    best: list[NextPiece]


BeamStep = list[Row]
"""The hypotheses that beam search has kept, best first. The first step has the start alone."""


class Found(NamedTuple):
    """A hypothesis that the search has returned.

    Attributes:
        text: The text.
        score: The log-probability divided by the length penalty, without a given prefix.
        log_prob: The natural log-probability, without a given prefix.
        finished: False if the length limit has cut it off.
    """

    text: str
    score: float
    log_prob: float
    finished: bool


@dataclass(frozen=True)
class Attended:
    """The attention of one layer.

    Attributes:
        query: Queries of each head, "H Q E".
        key: Keys of each head, "H K E".
        value: Values of each head, "H K E".
        scores: Scores before the mask and the softmax, "H Q K".
        mask: True where a query may attend, "H Q K".
        weights: Weights, "H Q K".
        norms: The length of each key's part in the output of a query, |a v W^O|, "H Q K".

    Reference:
        Kobayashi et al. 2020, "Attention is Not Only a Weight", section 2.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor
    mask: Tensor
    weights: Tensor
    norms: Tensor


@dataclass(frozen=True)
class Trace:
    """The record of a model that reads one text.

    Attributes:
        source: The pieces of the source; empty for a model of monolingual text.
        read: The pieces that the decoder, or the only stack, reads.
        target: The pieces that are predicted, one for each piece of `read`.
        ids: The token ids of these pieces.
        best: For each position, the most probable pieces.
        probabilities: The probability of each piece of `target`.
        axes: The pieces on the query and key axes of each kind of attention.
        attention: The layers of each kind of attention.
        supervised: The head that guided alignment has trained, or None.
        states: What enters the first layer of each stack, and leaves every layer: "P D" each.
        lens: For each of these states of the stack that predicts, and each position, the most
            probable pieces if the output projection read this state.
        beam: The steps of beam search; empty if the target was given.
        given: The number of pieces of a given prefix, with which the beam begins.
        found: The hypotheses that the search returned, best first.
        edits: The changes that were in force.
        is_guessed: True if the last piece of `target` is the model's guess: nothing that was read
            or found follows.
    """

    source: list[str]
    read: list[str] = field(repr=False)
    target: list[str]
    ids: list[int] = field(repr=False)
    best: list[list[NextPiece]] = field(repr=False)
    probabilities: list[float]
    axes: dict[AttentionKind, tuple[list[str], list[str]]] = field(repr=False)
    attention: dict[AttentionKind, list[Attended]] = field(repr=False)
    supervised: Supervised | None
    states: dict[str, list[Tensor]] = field(repr=False)
    lens: list[list[list[NextPiece]]] = field(repr=False)
    beam: list[BeamStep] = field(repr=False)
    given: int = field(repr=False)
    found: list[Found] = field(repr=False)
    edits: tuple[Edit, ...] = ()
    is_guessed: bool = field(default=False, repr=False)

    def weights(self, kind: AttentionKind) -> Float[Tensor, "L H Q K"]:
        """Return the weights of all layers of a kind of attention.

        Args:
            kind: The kind.

        Returns:
            The weights, "L H Q K".
        """
        return torch.stack([layer.weights for layer in self.attention[kind]])

    def _repr_html_(self) -> str:
        """Return the page of this trace, for a notebook."""
        from crosshead.inspection.saved_page import frame_of

        return frame_of(self)

    def __sub__(self, other: "Trace") -> "Difference":
        """Return what differs from another trace of as many pieces."""
        if (self.source, self.read) != (other.source, other.read):
            raise ConfigError("the traces have other pieces; trace the same text and target")
        probabilities = [
            a - b for a, b in zip(self.probabilities, other.probabilities, strict=True)
        ]
        states = {
            name: torch.stack(
                [(a - b).norm(dim=-1) for a, b in zip(own, other.states[name], strict=True)]
            )
            for name, own in self.states.items()
        }
        weights = {kind: self.weights(kind) - other.weights(kind) for kind in self.attention}
        return Difference(probabilities, states, weights)


@dataclass(frozen=True)
class Difference:
    """The differences between two traces of the same pieces.

    Attributes:
        probabilities: The difference of the probability of each piece of the target.
        states: The distances of the states, "L+1 P" for each stack.
        weights: The differences of the weights, "L H Q K" for each kind of attention.
    """

    probabilities: list[float]
    states: dict[str, Tensor]
    weights: dict[AttentionKind, Tensor]


@torch.inference_mode()
def trace(
    pipeline: Pipeline,
    text: str,
    target: str | Sequence[int] | None = None,
    edits: Sequence[Edit] = (),
    *,
    most: int = 5,
) -> Trace:
    """Return what a model computes for a text, with changes in force.

    Without a target, a translator first searches for its translation, with the same changes. Then
    the model reads the source and the target at once, as in training; decoding step by step gives
    the same numbers.

    Args:
        pipeline: The pipeline that `crosshead.load` returns.
        text: A line to translate, or a text, as for `attention_weights`.
        target: The translation given to the decoder, as a text or, for a translator, as token ids;
            by default the model's own.
        edits: Changes of what the model computes (`crosshead.inspection.edits`).
        most: The number of most probable pieces that are listed.

    Returns:
        The trace, on the CPU in float32.

    Raises:
        ConfigError: If an edit does not fit the model, or the model predicts no pieces.
        DataError: If the text is empty, or longer than the model reads at once.
    """
    edits = tuple(edits)
    model, read, hooks, search, listed = _prepared(pipeline, text, target, edits, most)
    with probed(model, *hooks) as probe:
        log_probs = model(*read.inputs)[0].float().log_softmax(-1)
    _check_places(edits, read, probe)
    ids, is_guessed = read.ids, len(read.ids) < len(log_probs)
    if is_guessed:  # nobody has written what follows the last piece
        ids = [*ids, int(log_probs[-1].argmax())]
    attention = {
        kind: [_attended(probe, name, module, len(read.axes[kind][1])) for name, module in modules]
        for kind, modules in _named(model).items()
    }
    states: dict[str, list[Tensor]] = {}
    for (name, _), calls in probe.states.items():
        if calls:
            states.setdefault(name, []).append(torch.cat(calls, dim=1)[0])
    return Trace(
        source=read.source,
        read=read.read,
        target=listed.tokenizer.pieces(ids),
        ids=ids,
        best=listed(log_probs),
        probabilities=log_probs[range(len(ids)), ids].exp().tolist(),
        axes=read.axes,
        attention=attention,
        supervised=supervised_head(pipeline),
        states={name: [each.float().cpu() for each in found] for name, found in states.items()},
        lens=_lens(model, states, listed),
        beam=search.steps,
        given=search.given,
        found=search.found,
        edits=edits,
        is_guessed=is_guessed,
    )


class _Prepared(NamedTuple):
    """A text that is ready to be read at once, after a search if there was one."""

    model: TokenModel
    read: "_Read"
    hooks: Any
    """The changes, as arguments of `probed`."""
    search: "_Searched"
    listed: "_Lister"


def _prepared(
    pipeline: Pipeline,
    text: str,
    target: str | Sequence[int] | None,
    edits: Sequence[Edit],
    most: int,
) -> _Prepared:
    """Search for the target unless it is given, and prepare what the model reads then."""
    if not isinstance(pipeline, Pipeline):
        raise ConfigError(f"expected what crosshead.load returns, found {type(pipeline).__name__}")
    model = pipeline.model
    if not isinstance(pipeline, TextPipeline) or not isinstance(model, TokenModel):
        raise ConfigError("this model predicts no pieces; `attention_weights` shows its attention")
    if not text.strip():
        raise DataError("the text is empty: there is nothing to look at; give some words")
    prefix, *more = [each.start for each in edits if isinstance(each, Prefix)] or [""]
    if more:
        raise ConfigError(f"found {len(more) + 1} prefixes; give one")
    if prefix and (target is not None or not isinstance(pipeline, Translator)):
        raise ConfigError("a prefix is for a translation that the model finds; leave one out")
    hooks, listed = changes(model, edits), _Lister(pipeline.tokenizer, most)
    search = _Searched(model, listed)
    if isinstance(pipeline, Translator):
        given = _ids(pipeline, prefix if target is None else target)
        planned = pipeline.planned([text], 0).ids  # as the translator reads it
        if not planned:
            raise DataError("the model reads nothing of this text; give some words")
        if len(planned) != 1:
            raise DataError(
                f"the text has {len(planned)} sentences for the model; give a single one"
            )
        if target is None:
            with probed(model, *hooks, keeps="nothing") as search.probe:
                given = search.run(pipeline, planned[0], given)
        ends = target is not None or search.found[0].finished
        read = _read_pair(pipeline, planned[0], given, ends=ends)
    elif edits and target is None and "cross" in model.attentions():
        raise ConfigError("changes reach the search of translators alone; give the target")
    elif target is None or isinstance(target, str):
        read = _read_text(pipeline, text, target)
    else:
        raise ConfigError("only a translator takes a target of token ids; give its text")
    return _Prepared(model, read, hooks, search, listed)


@torch.inference_mode()
def log_probabilities(
    pipeline: Pipeline, text: str, target: str | Sequence[int] | None, edits: Sequence[Edit]
) -> list[float]:
    """Return the log-probabilities of what is read, in half of the time that `trace` takes."""
    model, read, hooks, *_ = _prepared(pipeline, text, target, edits, 1)
    with probed(model, *hooks, keeps="nothing"):
        log_probs = model(*read.inputs)[0].float().log_softmax(-1)
    return log_probs[range(len(read.ids)), read.ids].tolist()  # type: ignore[no-any-return]


class _Lister:
    """Lists the most probable pieces."""

    def __init__(self, tokenizer: Tokenizer, most: int) -> None:
        self.tokenizer, self.most = tokenizer, most

    def __call__(self, log_probs: Float[Tensor, "P V"]) -> list[list[NextPiece]]:
        """Return the most probable pieces of each row."""
        values, ids = log_probs.topk(min(self.most, log_probs.shape[-1]))
        return [
            [NextPiece(*each) for each in zip(self.tokenizer.pieces(row), found, row, strict=True)]
            for row, found in zip(ids.tolist(), values.exp().tolist(), strict=True)
        ]


@dataclass
class _State:
    """The state of a model, and the hypothesis that each of its rows continues."""

    state: Any
    position: int
    log_probs: Float[Tensor, "M V"]
    """The log-probability of each hypothesis with each next piece."""
    rows: Int[Tensor, " N"]

    def select(self, rows: Int[Tensor, " M"]) -> "_State":
        """Return a state whose row i continues row `rows[i]`."""
        return replace(self, state=self.state.select(rows), rows=self.rows[rows])


class _Searched:
    """A model while it is searched, and the hypotheses that the search has kept: a `Decodable`."""

    def __init__(self, model: TokenModel, listed: _Lister) -> None:
        self.model, self.listed, self.probe = model, listed, Probe()
        self.steps: list[BeamStep] = []
        self.given = 0
        self.found: list[Found] = []

    def run(
        self, translator: Translator, source: Sequence[int], prefix: Sequence[int]
    ) -> list[int]:
        """Search for the translation of token ids with a prefix, and return its token ids."""
        bundle, decode = translator.bundle, translator.bundle.config.decode
        most = len(source) + 1 + decode.max_extra
        limit = min(most, translator.most_positions[1] or most) - len(prefix)
        batch = collate([(source, ())], [0]).to(translator.device)
        self.given = len(prefix)
        if limit < 1:
            raise ConfigError(
                f"a prefix of {len(prefix)} pieces is too long; the output has at most "
                f"{limit + len(prefix)}"
            )
        fed = torch.tensor([[bundle.specials.start, *prefix]], device=translator.device)
        [hypotheses] = search(
            self, batch.source, torch.tensor([limit]), bundle.specials, decode,
            n_best=1 if decode.sample else decode.beam, prefix=fed,
        )  # fmt: skip
        for each in hypotheses:
            text = bundle.target_tokenizer.decode([*prefix, *each.tokens])
            self.found.append(Found(text, each.score, each.log_prob, each.finished))
        return [*prefix, *hypotheses[0].tokens]

    def start(self, source: Tensor) -> _State:
        """Return the state before the first token."""
        self.probe.step = None
        state = decodable(self.model).start(source)
        empty = torch.zeros(0, device=source.device)
        return _State(state, 0, empty, torch.zeros(len(source), dtype=torch.long))

    def step(
        self, state: _State, tokens: Int[Tensor, "N T"]
    ) -> tuple[Float[Tensor, "N D"], _State]:
        """Feed each row its next tokens."""
        self.probe.step = state.position, tokens.shape[1]
        hidden, new = decodable(self.model).step(state.state, tokens)
        last, parents = tokens[:, -1], state.rows.to(tokens.device)
        total = torch.zeros(len(tokens), device=tokens.device)
        if state.position:
            total = state.log_probs[parents, last]
        log_probs = self.logits(hidden).float().log_softmax(-1)
        pieces = self.listed.tokenizer.pieces(last.tolist())
        rows = zip(parents.tolist(), pieces, total.tolist(), self.listed(log_probs), strict=True)
        self.steps.append([Row(*each) for each in rows])
        numbers = torch.arange(len(tokens), device=tokens.device)
        position = state.position + tokens.shape[1]
        return hidden, _State(new, position, total[:, None] + log_probs, numbers)

    def logits(self, hidden: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        """Return the logits of the next token."""
        return decodable(self.model).logits(hidden)


class _Read(NamedTuple):
    """The inputs of a model, and the names of what it reads and predicts."""

    inputs: tuple[Tensor, ...]
    source: list[str]
    read: list[str]
    ids: list[int]
    """The ids of what is predicted. The last one may be missing."""
    axes: dict[AttentionKind, tuple[list[str], list[str]]]


def _ids(translator: Translator, given: str | Sequence[int]) -> Sequence[int]:
    """Return the token ids of a target or of its beginning."""
    if isinstance(given, str):
        return translator.examples([""], [given])[0][1]
    size = translator.bundle.target_tokenizer.vocab_size
    specials = (PAD, BOS, EOS)
    if wrong := [each for each in given if not 0 <= each < size or each in specials]:
        raise ConfigError(f"the token id {wrong[0]} is no piece of an output")
    return given


def _check_places(edits: Sequence[Edit], read: _Read, probe: Probe) -> None:
    """Raise `ConfigError` if an edge or a patched state is outside of the text."""
    for edit in edits:
        if isinstance(edit, Patch):
            count = sum(call.shape[1] for call in probe.states.get((edit.stack, edit.layer), []))
            if edit.position >= count:
                raise ConfigError(
                    f"no position {edit.position} in the {edit.stack}: it has 0 to {count - 1}"
                )
        if isinstance(edit, ForbiddenEdge):
            for name, pieces in zip(("query", "key"), read.axes[edit.kind], strict=True):
                if not 0 <= getattr(edit, name) < len(pieces):
                    raise ConfigError(
                        f"no {name} {getattr(edit, name)} in the {NAMES[edit.kind]}: it has 0 to "
                        f"{len(pieces) - 1}"
                    )


def _read_pair(
    translator: Translator, source: Sequence[int], target: Sequence[int], *, ends: bool
) -> _Read:
    """Return what a translator reads, from token ids. It does not read the last one of all."""
    bundle = translator.bundle
    ids = [*target, EOS] if ends else [*target]
    batch = collate([(source, ids[:-1])], [0], bundle.specials.start).to(translator.device)
    from_pieces = bundle.source_tokenizer.pieces([*source, EOS])
    read = bundle.target_tokenizer.pieces([bundle.specials.start, *ids[:-1]])
    axes: dict[AttentionKind, tuple[list[str], list[str]]] = {
        "cross": (bundle.target_tokenizer.pieces(ids), from_pieces),
        "encoder": (from_pieces, from_pieces),
        "decoder": (read, read),
    }
    return _Read(batch.inputs, from_pieces, read, ids, axes)


def _read_text(pipeline: TextPipeline, text: str, target: str | None) -> _Read:
    """Return what a pipeline of another task reads."""
    kinds = [kind for kind in NAMES if kind in pipeline.model.attentions()]
    found = {kind: pipeline.attention_inputs(text, target, kind) for kind in kinds}
    axes = {kind: (each.queries, each.keys) for kind, each in found.items()}
    own: AttentionKind = "decoder" if "decoder" in found else "encoder"
    inputs, read, *_ = found[own]
    ids = inputs[-1][0].tolist()
    if own == "decoder":  # a position predicts the next piece
        ids = ids[1:] + [EOS] * ("cross" in found)
    source = axes["cross"][1] if "cross" in axes else []
    return _Read(inputs, source, read, ids, axes)


def _named(model: TokenModel) -> dict[AttentionKind, list[tuple[str, nn.Module]]]:
    """Return the attentions of each kind, with their names."""
    names = {module: name for name, module in model.named_modules()}
    return {
        kind: [(names[module], module) for module in modules]
        for kind, modules in model.attentions().items()
    }


def _attended(probe: Probe, name: str, module: nn.Module, keys: int) -> Attended:
    """Return the attention of a layer, from all of its calls."""
    calls = probe.calls[name]
    weights, scores, mask = (
        joined([getattr(call, part) for call in calls], keys).float().cpu()
        for part in ("weights", "scores", "mask")
    )
    mask = mask.bool()
    weights = weights * mask.any(dim=-1, keepdim=True)  # a query without any key adds nothing
    query = torch.cat([call.query for call in calls], dim=2)[0]
    # Every call has all keys, or those of its own segment after those of earlier ones.
    new = [None if call.key.shape[2] == keys else -call.query.shape[2] for call in calls]
    parts = calls[-1:] if None in new else calls
    key, value = (
        torch.cat([getattr(call, part)[0][:, at:] for call, at in zip(parts, new, strict=False)], 1)
        for part in ("key", "value")
    )
    outputs = value
    if isinstance(module, MultiHeadAttention):
        matrix = module.output.weight.view(-1, module.heads, module.d_value)
        outputs = torch.einsum("hke,dhe->hkd", value, matrix)
    norms = weights * outputs.float().norm(dim=-1)[:, None].cpu()
    query, key, value = (each.float().cpu() for each in (query, key, value))
    return Attended(query, key, value, scores, mask, weights, norms)


def _lens(
    model: TokenModel, states: Mapping[str, list[Tensor]], listed: _Lister
) -> list[list[list[NextPiece]]]:
    """Return what the output projection reads in each state of the stack that predicts."""
    stacks = stacks_of(model)
    name = next((each for each in ("decoder", "stack") if each in states), None)
    if name is None:
        return []
    read = (model.projection(stacks[name].norm(each)) for each in states[name])
    return [listed(logits.float().log_softmax(-1)) for logits in read]
