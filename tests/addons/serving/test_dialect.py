"""Dialects: operations become routes."""

from starlette.requests import Request
from starlette.responses import Response

from crosshead.addons.serving.dialect import Dialect, LooseForm, Operation


class Form(LooseForm):
    q: str = "nothing"


class Own(Dialect):
    name, text = "Own", "One operation."

    def operations(self) -> list[Operation]:
        return [Operation("GET", "/own", self.hello, "A greeting.", Form)]

    async def hello(self, request: Request) -> Response:
        """Greet."""
        return Response()


def test_operations_are_routes() -> None:
    own = Own(None)  # type: ignore[arg-type]
    [route] = own.routes()
    assert route.path == "/own" and route.methods == {"GET", "HEAD"}
    assert route.endpoint == own.hello


def test_empty_values_count_as_missing() -> None:
    assert Form.model_validate({"q": ""}).q == Form.model_validate({"q": None}).q == "nothing"
    assert Form.model_validate({"q": "a"}).q == "a"
