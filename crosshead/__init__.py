"""crosshead: the Transformer as working software, from raw text to a translation.

    import crosshead

    translate = crosshead.load("runs/en-de")
    translate("A dog runs.")

Importing the package is cheap: PyTorch is imported when a model is.
"""

TYPE_CHECKING = False  # that of typing, which takes longer to import than a Ctrl-C waits
if TYPE_CHECKING:
    from crosshead.tasks.loading import load

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import `load` at its first use (PEP 562): `import crosshead` then needs no PyTorch."""
    if name == "load":
        from crosshead.tasks.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List `load` before it is imported, for completion."""
    return sorted({*globals(), *__all__})
