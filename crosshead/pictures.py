"""Pictures, which need matplotlib: it is loaded when one is drawn."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crosshead.errors import UserError


@contextmanager
def drawing() -> Iterator[None]:
    """Of what cannot be drawn in here, say why: matplotlib loads parts of itself as it goes.

    Raises `UserError` where matplotlib is missing or fails, as under a limit of memory.
    """
    try:
        yield
    except (ImportError, OSError, MemoryError) as error:
        raise UserError(f"no picture: {_why_missing(error)}") from None


@drawing()
def new_figure(**options: Any) -> Any:
    """A Figure of matplotlib, which needs no display and leaves nothing behind in pyplot.

    Raises `UserError` as `drawing` does.
    """
    from matplotlib.figure import Figure

    return Figure(layout="constrained", **options)


@drawing()
def rendered(figure: Any, kind: str = "png", dpi: int = 120) -> bytes:
    """The bytes of a figure as a file of that kind. Raises `UserError` as `drawing` does."""
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=dpi)
    return picture.getvalue()


def _why_missing(error: Exception) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name and name.partition(".")[0] == "matplotlib":
        return "matplotlib is not installed (pip install 'crosshead[plot]')"
    said = " ".join(str(error).split()) or type(error).__name__
    return f"matplotlib fails ({said})"
