"""The progress callback."""

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, what is done and the total, or None where it is not known."""


def silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""
