"""A training curve that takes no time to draw."""

from pathlib import Path

from crosshead.training.log import read_log


def blank_curve(log: Path, picture: Path, metrics: object = ()) -> None:
    """Do what `draw_training_curve` does, but leave the picture blank."""
    read_log(log)
    picture.write_bytes(b"\x89PNG")
