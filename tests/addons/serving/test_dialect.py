"""Dialects: operations become routes, and each dialect has its own form of errors."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from crosshead.addons.serving.dialect import Dialect, LooseForm, Operation
from crosshead.addons.serving.requests import RequestError


class Form(LooseForm):
    q: str = "nothing"


class Own(Dialect):
    name, text = "Own", "One operation."

    def operations(self) -> list[Operation]:
        return [Operation("GET", "/own", self.hello, "A greeting.", Form)]

    async def hello(self, request: Request) -> Response:
        """Greet."""
        raise RequestError(418, "no")

    def error_response(self, error: RequestError) -> Response:
        return JSONResponse({"own": error.message}, error.status)


def test_operations_are_routes_whose_errors_have_the_form_of_the_dialect() -> None:
    [route] = Own(None).routes()  # type: ignore[arg-type]
    assert route.path == "/own" and route.methods == {"GET", "HEAD"}
    scope = {"type": "http", "method": "GET", "path": "/own", "headers": [], "query_string": b""}
    answer = asyncio.run(route.endpoint(Request(scope)))
    assert answer.status_code == 418 and answer.body == b'{"own":"no"}'


def test_empty_values_count_as_missing() -> None:
    assert Form.model_validate({"q": ""}).q == Form.model_validate({"q": None}).q == "nothing"
    assert Form.model_validate({"q": "a"}).q == "a"
