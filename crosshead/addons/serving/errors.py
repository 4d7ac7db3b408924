"""Errors that are the answers to requests. `app.Guard` alone turns them into answers."""

import math


class RequestError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: The status of the answer.
        message: The sentence in the answer. It may name a value of the request, which may be long.
        headers: `Retry-After`, if the request may be sent again `after` some seconds, and
            `Connection`, if the connection ends.
    """

    def __init__(
        self, status: int, message: str, *, after: float | None = None, close: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message[:1000]
        self.headers = {"Connection": "close"} if close else {}
        if after is not None:
            self.headers["Retry-After"] = str(math.ceil(after))


class Overloaded(RequestError):
    """Too much work waits: of the client itself, if `own` of its sentences wait, or of all."""

    def __init__(self, seconds: int, own: int = 0) -> None:
        self.seconds, self.own = seconds, own
        message = "the server is busy; try again later"
        if own:
            message = f"you have {own:,} sentences waiting; send more when they are done"
        super().__init__(429 if own else 503, message, after=seconds)


class TooLong(RequestError):
    """A request takes longer than a request may take, even if nothing else waits."""

    def __init__(self, needed: float, allowed: float) -> None:
        # Without Retry-After: it would take as long again.
        super().__init__(
            413,
            f"Invalid request: the text would take about {math.ceil(needed)} seconds, and a "
            f"request may take {max(1, round(allowed))}; send it in parts",
        )


class DeadlineExceeded(RequestError):
    """A request was not finished by its deadline."""

    def __init__(self) -> None:
        super().__init__(503, "the request took too long; send a shorter text", after=5)


class Failed(RequestError):
    """A text could not be translated, because it or a thread failed, or the server stops."""

    def __init__(self, message: str = "the text could not be translated") -> None:
        super().__init__(503, message, after=1)
