"""Dialects of HTTP: operations that share one form of keys, values and errors."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from crosshead.addons.serving.errors import RequestError
from crosshead.addons.serving.requests import (
    State,
    client_of,
    header_key,
    limited_address,
    read_values,
)

JSON, FORM, FILES = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data",
)  # fmt: skip

Handler = Callable[[Request], Awaitable[Response]]
"""A function that answers a request."""

AnyForm = TypeVar("AnyForm", bound=BaseModel)


MOST_ALTERNATIVES = 9
"""The largest number of further translations that a request may ask for."""

Alternatives = Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)]
"""The number of further translations."""


class LooseForm(BaseModel):
    """Values of a request, of which empty ones count as missing."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value not in (None, "")}


class Operation(NamedTuple):
    """A route with one method, and everything that its description says.

    Attributes:
        method: `GET`, `POST` or `DELETE`.
        path: The path, with names of its values in braces.
        handler: Answers a request. The first line of its docstring is the summary.
        answer: A sentence about the answer without an error.
        form: The model of its values.
        takes: The types of a request's body. An example has the last one.
        media: The type of the answer without an error.
        key: True if it needs a key on a server with keys.
        status: The status of the answer without an error.
    """

    method: str
    path: str
    handler: Handler
    answer: str
    form: type[BaseModel] | None = None
    takes: Sequence[str] = (JSON, FORM)
    media: str = JSON
    key: bool = False
    status: int = 200


class Dialect:
    """Operations that belong together.

    Attributes:
        name: The name.
        text: A paragraph about them.
        error_name: The name of an error's message in its answer.
        no_key: The status and the message of a request without a key.
        secret: The value that may have the key, or None if only a header may.
        repeated: The values that a form may repeat.
        wrong: The status of a request with a wrong value.
        too_long: The status of a request with too many characters.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    error_name: ClassVar[str] = "error"
    no_key: ClassVar[tuple[int, str]] = (
        401, "an API key is needed: send it as `Authorization: Bearer KEY`",
    )  # fmt: skip
    secret: ClassVar[str | None] = None
    repeated: ClassVar[Sequence[str]] = ()
    wrong: ClassVar[int] = 400
    too_long: ClassVar[int] = 413

    def __init__(self, state: State) -> None:
        self.state = state

    def operations(self) -> list[Operation]:
        """Return the operations."""
        raise NotImplementedError

    def routes(self) -> list[Route]:
        """Return the routes of the operations."""
        return [Route(each.path, each.handler, methods=[each.method]) for each in self.operations()]

    def wrong_value(self, name: str, error: ErrorDetails) -> str:
        """Return the message about a wrong value."""
        return f"{name}: {error['msg']}"

    async def read(self, request: Request, form: type[AnyForm]) -> tuple[str, AnyForm]:
        """Return the name of a client, and the checked values of its request.

        The body is read after the check of the key, unless it may have the key.
        """
        state = self.state
        if state.keys is None or self.secret is None or header_key(request.headers):
            client = client_of(state, request, self.no_key)
            values = await read_values(state, request, client, self.repeated)
        else:
            address = limited_address(state, request)
            values = await read_values(state, request, address, self.repeated)
            client = client_of(state, request, self.no_key, values.get(self.secret))
        try:
            return client, form.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0])[:50] if first["loc"] else "body"
            raise RequestError(self.wrong, self.wrong_value(name, first)) from None

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise an error if a request has too many texts or characters."""
        most, characters = self.state.settings, sum(map(len, texts))
        for found, limit, status in (
            (len(texts), most.texts, self.wrong), (characters, most.characters, self.too_long),
        ):  # fmt: skip
            if limit and found > limit:
                message = f"Invalid request: request ({found}) exceeds text limit ({limit})"
                raise RequestError(status, message)
