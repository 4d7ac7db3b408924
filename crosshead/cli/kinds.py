"""Verbs for several kinds of data: each kind is a function with options of its own."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from crosshead.cli.app import app
from crosshead.errors import UserError

Function = Callable[..., None]


class Kind(NamedTuple):
    """A kind of data of a verb."""

    options: tuple[str, ...]
    """The options that choose it, all of which are given: names of parameters. None for the usual
    kind."""
    run: Function
    parameters: dict[str, inspect.Parameter]
    examples: tuple[str, ...]
    taken: Callable[[str], bool]
    """True if its `**options` stand for a parameter of the usual kind."""


class KindsVerb:
    """A verb for several kinds of data. Packages add theirs.

    Its options are those of all kinds. An option that the chosen kind does not have is refused.
    """

    def __init__(self, name: str, usual: str, summary: str) -> None:
        self.name, self.usual, self.summary = name, usual, summary
        self.kinds: list[Kind] = []

    def kind(
        self,
        *options: str,
        examples: tuple[str, ...] = (),
        without: tuple[str, ...] = (),
        usual: tuple[str, ...] | None = None,
    ) -> Callable[[Function], Function]:
        """Add a function as a kind, which these options choose.

        A function that takes `**options` has those of the usual kind: the `usual` ones, or all
        apart from `without`.
        """

        def add(function: Function) -> Function:
            found = dict(inspect.signature(function, eval_str=True).parameters)
            taken = usual.__contains__ if usual else lambda name: name not in without
            self.kinds.append(Kind(options, function, found, examples, taken))
            return function

        return add

    def register(self) -> None:
        """Make the verb known to the program, once all kinds are added."""
        # By name, because packages add their kinds in the order in which they happen to be loaded.
        self.kinds.sort(key=lambda kind: (len(kind.options), kind.options))
        usual = self.kinds[0].parameters.items()
        for kind in self.kinds:
            if kind.parameters.pop("options", None) is not None:
                own = {**kind.parameters}
                kind.parameters.clear()
                kind.parameters.update({n: x for n, x in usual if kind.taken(n)} | own)
        found: dict[str, inspect.Parameter] = {}
        for kind in self.kinds:
            for name, each in kind.parameters.items():
                found.setdefault(name, each.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        def verb(**given: Any) -> None:
            kind = self._chosen(given)
            for name, value in given.items():
                if name not in kind.parameters and value != found[name].default:
                    raise UserError(f"{_flag(found[name])} is not for {self._called(kind)}")
            kind.run(**{name: given[name] for name in kind.parameters})

        verb.__signature__ = inspect.Signature([*found.values()])  # type: ignore[attr-defined]
        verb.__annotations__ = {name: each.annotation for name, each in found.items()}
        verb.__name__ = self.name
        about = [inspect.getdoc(kind.run) or "" for kind in self.kinds]
        verb.__doc__ = "\n\n".join([self.summary, *about])
        examples = [line for kind in self.kinds for line in kind.examples]
        app.command(self.name, epilog="\b\nExamples:\n" + "\n".join(f"  {x}" for x in examples))(
            verb
        )

    def others(self) -> str:
        """Return the options that choose the kinds besides the usual one."""
        return ", ".join(self._called(kind) for kind in self.kinds if kind.options)

    def _chosen(self, given: dict[str, Any]) -> Kind:
        fitting = [
            kind for kind in self.kinds if all(given[option] is not None for option in kind.options)
        ]
        return max(fitting, key=lambda kind: len(kind.options))

    def _called(self, kind: Kind) -> str:
        return " with ".join(_flag(kind.parameters[name]) for name in kind.options) or self.usual


def _flag(parameter: inspect.Parameter) -> str:
    """Return the option of a parameter, such as `--max-updates`."""
    if get_origin(parameter.annotation) is Annotated:
        for info in get_args(parameter.annotation)[1:]:
            declared = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
            for each in declared:  # in an annotation, Typer takes the first name for the default
                if isinstance(each, str) and each.startswith("--"):
                    return each
    return f"--{parameter.name.replace('_', '-')}"


evaluate = KindsVerb("evaluate", "translations", "Score a model on a test set.")
translate = KindsVerb("translate", "plain text", "Translate lines of text, or a document.")


class Further(NamedTuple):
    """Runs that follow a training run."""

    flags: Mapping[str, int]
    """The options that ask for them, with their values, and the number of models of each."""
    check_data: Callable[[Any], None]
    """Refuses a `Corpus` with too few training pairs."""
    run: Callable[..., bool]
    """Trains, and returns whether all runs are finished. It takes the run directory, the recipe,
    and `force`, `command`, `display` and `resume` by name."""


class TrainOptions(NamedTuple):
    """Options that a package adds to `train`."""

    group: str
    """The name of their part of the help."""
    types: Mapping[str, Any]
    """The annotated type of each, by the name of its parameter."""
    keys: Callable[[dict[str, Any]], None] = lambda data: None
    """Turns the values among the keys of `[data]` into those of the recipe."""
    further: Callable[..., Further | None] | None = None
    """Returns the runs that follow, given the values, the recipe, and `start` and `resume`. Without
    it, the values are keys of `[data]`."""


TRAIN: list[TrainOptions] = []
"""The options of `train` that packages have added."""
