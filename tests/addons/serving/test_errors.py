"""Errors know the status, the message and the headers of their answers."""

from crosshead.addons.serving.errors import Overloaded, RequestError, TooLong


def test_a_text_that_is_too_long_is_told_how_long() -> None:
    error = TooLong(61.2, 9.98)
    assert "about 62 seconds" in error.message and "may take 10;" in error.message
    assert (error.status, error.headers) == (413, {})


def test_who_has_too_much_waiting_is_told_apart_from_a_busy_server() -> None:
    assert [Overloaded(3).status, Overloaded(3, own=5).status] == [503, 429]
    assert Overloaded(3).headers == {"Retry-After": "3"} and "5" in Overloaded(3, own=5).message


def test_a_message_has_an_end_and_a_time_is_whole_seconds() -> None:
    error = RequestError(400, "a" * 10_000, after=0.2, close=True)
    assert len(error.message) == 1000
    assert error.headers == {"Connection": "close", "Retry-After": "1"}
