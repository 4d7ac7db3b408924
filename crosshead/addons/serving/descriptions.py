"""Routes that describe the server: to programs in Swagger and OpenAPI, and to people as a page."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crosshead.addons.serving.docs_page import docs_page
from crosshead.addons.serving.page_files import PAGE_HEADERS
from crosshead.addons.serving.requests import State, with_error_responses
from crosshead.addons.serving.spec import openapi, swagger


class Descriptions:
    """The handlers of descriptions."""

    def __init__(self, state: State) -> None:
        self.state = state

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/spec", with_error_responses(self.spec), methods=["GET"]),
            Route("/v1/openapi.json", with_error_responses(self.openapi), methods=["GET"]),
            Route("/docs", with_error_responses(self.docs), methods=["GET"]),
        ]

    async def spec(self, request: Request) -> Response:
        """Return the description of every operation in Swagger 2: `GET /spec`."""
        return JSONResponse(swagger())

    async def openapi(self, request: Request) -> Response:
        """Return the description of crosshead's own operations: `GET /v1/openapi.json`."""
        return JSONResponse(openapi())

    async def docs(self, request: Request) -> Response:
        """Return the page of documentation: `GET /docs`."""
        source, target = "en", "de"
        if self.state.service is not None:
            source, target = next(iter(self.state.service.directory.pairs))
        page = docs_page(str(request.base_url), source, target, self.state.keys is not None)
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)
