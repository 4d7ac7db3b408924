"""uvicorn's HTTP/1.1, with limits for clients that are slow or send what is not HTTP."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from crosshead.addons.serving.app import STATUS
from crosshead.addons.serving.metrics import Metrics

_HEADER_SECONDS = 10.0
"""The time in which the headers of a request must be complete."""

MOST_HEADERS = 128 * 2**10
"""The most bytes of headers. Longer ones are refused, unless they arrive in one piece."""

_TAKE_SECONDS = 20.0
"""The time in which a client must take `_LEAST_TAKEN` bytes of an answer that waits for it."""

_LEAST_TAKEN = 100 * 2**10
"""The bytes of an answer that a client must take in `_TAKE_SECONDS`: 5 KiB a second."""

_SLICE = 8 * 2**10
"""The bytes of a body that are parsed at once."""

_LEAST_CONTENT = 0.25
"""The smallest part of a body that may be content, from `_SLICE` bytes on. The rest are the headers
of chunks, and parsing a chunk takes the same time whatever its size."""

_MOST_AHEAD = 64 * 2**10
"""The most bytes of further requests that a client may send before its answer."""


class HttpProtocol(H11Protocol):
    """HTTP that closes the connections of clients that are too slow.

    The headers of the first request must be complete some time after the connection opens, and
    those of a later one some time after their first byte. Further bytes do not extend it. The same
    limit ends a connection that goes on sending a body after the answer. A body in tiny chunks is
    refused. A client that takes its answer too slowly is disconnected. What is not HTTP is answered
    with 400, and counted.
    """

    _deadline: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _bytes = _content = 0  # of the body so far, after the read with its headers

    def __init__(self, metrics: Metrics, **options: Any) -> None:
        super().__init__(**options)
        self.metrics = metrics

    def connection_made(self, transport: Any) -> None:
        """Begin with a connection."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        end = 0
        while end < len(data) and not self.transport.is_closing():
            start, end = end, end + _SLICE
            if self.conn.their_state is not h11.SEND_BODY:
                # Headers are not cut: h11 refuses long ones that are not complete.
                found = data.find(b"\r\n\r\n", start)
                end = len(data) if found < 0 else found + 4 + _SLICE
            self._slice_received(data[start:end])
        if self.cycle is not None and not self.cycle.response_complete:
            _cancel(self._deadline)
            self._deadline = None
            self._read_ahead()
        else:
            self._await_headers()

    def _await_headers(self) -> None:
        """Close the connection some time from now, unless a request begins."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _read_ahead(self) -> None:
        """Go on reading after a whole request: the end of a connection is not seen otherwise.

        A client that sends much more before its answer is disconnected.
        """
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE):
            if len(self.conn.trailing_data[0]) > _MOST_AHEAD:
                self.transport.abort()
            else:
                self.flow.resume_reading()

    def _slice_received(self, data: bytes) -> None:
        cycle = self.cycle
        before = 0 if cycle is None else len(cycle.body)
        super().data_received(data)
        if self.cycle is None or self.conn.their_state is not h11.SEND_BODY:
            return
        if self.cycle is not cycle:  # these bytes had headers, too
            self._bytes = self._content = 0
            return
        self._bytes += len(data)
        self._content += len(self.cycle.body) - before
        too_small = self._content < _LEAST_CONTENT * self._bytes
        if self._bytes >= _SLICE and too_small and not self.cycle.response_complete:
            self.send_400_response("The chunks of the body are too small.")

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with 400, and close the connection."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # the answer has begun, or is complete
            return
        if self.cycle is None or self.cycle.response_complete:
            self.metrics.requests.labels("other", "400").inc()
        else:
            self.cycle.scope["state"][STATUS] = 400
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Note that the client takes less than is sent."""
        super().pause_writing()
        self._watch_answer()

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        if self.conn.trailing_data[0] and self.cycle.response_complete:
            self._await_headers()
        self._watch_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        """End with the connection."""
        _cancel(self._deadline)
        _cancel(self._taking)
        super().connection_lost(exc)

    def _watch_answer(self) -> None:
        """Look later whether the client has taken enough of what is to be sent."""
        size = self.transport.get_write_buffer_size()
        _cancel(self._taking)
        if size:
            self._taking = self.loop.call_later(_TAKE_SECONDS, self._check_taken, size)

    def _check_taken(self, before: int) -> None:
        if self.transport.get_write_buffer_size() > max(0, before - _LEAST_TAKEN):
            self.transport.abort()
        else:
            self._watch_answer()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
