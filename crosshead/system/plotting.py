"""Pictures with matplotlib, which is imported when a picture is drawn."""

import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from os.path import samefile
from typing import Any

from crosshead.errors import UserError


@contextmanager
def drawing() -> Iterator[None]:
    """Turn matplotlib failures within the block into a one-line `UserError`.

    matplotlib imports parts of itself while it draws, so a failure may come late.
    """
    try:
        yield
    except (ImportError, OSError, MemoryError) as error:
        raise UserError(f"no picture: {_why_missing(error)}") from None


@drawing()
def new_figure(**options: Any) -> Any:
    """Return a matplotlib figure, which needs no display and is not registered in pyplot."""
    from matplotlib.figure import Figure

    return Figure(**{"layout": "constrained", **options})


@drawing()
def rendered(figure: Any, kind: str = "png", dpi: int = 120) -> bytes:
    """Return a figure as the bytes of a picture file."""
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=dpi)
    return picture.getvalue()


@drawing()
def families_for(characters: Collection[str]) -> tuple[list[str], set[str]]:
    """Find installed fonts for characters that the default font lacks.

    matplotlib keeps a list of fonts. Fonts that were installed later are read if a character needs
    them.
    """
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, fontManager

    families = list(rcParams["font.family"])
    missing = set(characters) - _glyphs(findfont(FontProperties()))
    for entry in fontManager.ttflist:
        if not missing:
            break
        # The font "Last Resort" only has a box for each script.
        if not entry.name.startswith("Last Resort"):
            found = missing & _glyphs(entry.fname)
            # Only the family's regular face is drawn.
            if found and samefile(findfont(FontProperties(family=entry.name)), entry.fname):
                families.append(entry.name)
                missing -= found
    if missing and _has_new_fonts():
        return families_for(characters)
    return families, missing


def _has_new_fonts() -> bool:
    """Add fonts that matplotlib's list lacks, and return True if there are any."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    count = len(fontManager.ttflist)
    for path in set(findSystemFonts()) - known:
        with suppress(OSError, RuntimeError):  # matplotlib cannot read some fonts
            fontManager.addfont(path)
    return len(fontManager.ttflist) > count


def _glyphs(font: str) -> set[str]:
    """Return the characters of a font file, or an empty set if matplotlib cannot read it."""
    from matplotlib.font_manager import get_font

    try:
        return set(map(chr, get_font(font).get_charmap()))
    except (OSError, RuntimeError):
        return set()


def _why_missing(error: Exception) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if name and name.partition(".")[0] == "matplotlib":
        return "matplotlib is not installed (pip install 'crosshead[plot]')"
    message = " ".join(str(error).split()) or type(error).__name__
    return f"matplotlib fails ({message})"
