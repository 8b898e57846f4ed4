"""Tells how far long work is: the callback, and what shows it to people."""

import functools
import importlib.util
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, Self, TextIO, TypeVar

from dbanon.base.console import make_visible

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

P = ParamSpec("P")
Result = TypeVar("Result")

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, what is done and the total, or None where it is not known."""


def report_nothing(stage: str, done: int, total: int | None) -> None:
    """Show nothing, where a function that reports progress must be given."""


class Display:
    """Shows progress on stderr: a bar on a terminal or in a notebook, otherwise nothing, or lines if asked for.

    Lines also in a notebook without the package ipywidgets, with which Rich draws there.

    A context manager, which takes the bar away at the end; so does `finish`, and the next call begins another.

    Parameters
    ----------
    stream : file, optional
        Instead of stderr.
    writes_lines : bool
        Write a line for each stage, and every five seconds, where there can be no bar.
    """

    def __init__(self, stream: TextIO | None = None, *, writes_lines: bool = False) -> None:
        self._stream, self._lines = stream, writes_lines
        self._bar: Bar | None = None
        self._task: Any = None
        self._stage = ""
        self._said = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Show that `done` of `total` of a stage is done."""
        stream = self._stream or sys.stderr
        notebook = _is_in_notebook()
        drawn = _is_terminal(stream) or (notebook and importlib.util.find_spec("ipywidgets"))
        lines = stream is not None and (self._lines or notebook)
        if self._bar is not None or drawn:
            self._draw(stream, stage, done, total)
        elif lines and (stage != self._stage or time.monotonic() - self._said > 5):
            self._said = time.monotonic()
            amount = f" {done:,} of {total:,}" if total and done else f" {done:,}" if done else ""
            print(f"{make_visible(stage)}{amount} ...", file=stream, flush=True)
        self._stage = stage

    def finish(self) -> None:
        """Take the bar away: the work has ended."""
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._stage = None, ""

    def _draw(self, stream: TextIO, stage: str, done: int, total: int | None) -> None:
        from rich.console import Console  # Rich is slow to import, and only a bar needs it
        from rich.markup import escape  # a file may be called [red]
        from rich.progress import Progress as Bar

        if self._bar is None:
            # What else the program prints goes where it always goes.
            self._bar, self._task = Bar(console=Console(file=stream), transient=True, redirect_stdout=False), None
            self._bar.start()
        if stage != self._stage or self._task is None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(escape(make_visible(stage)), total=total)
        self._bar.update(self._task, completed=done, total=total)


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a program without a console has none, and one's own may know no terminals."""
    return stream is not None and hasattr(stream, "isatty") and stream.isatty()


def _is_in_notebook() -> bool:
    """Whether this is a notebook, as Rich decides it; a program without IPython need not import Rich for that."""
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


class Reporting(Protocol):
    """What has verbs that take long; they call `progress`."""

    progress: Progress


Owner = TypeVar("Owner", bound=Reporting)


def finish_progress(verb: Callable[Concatenate[Owner, P], Result]) -> Callable[Concatenate[Owner, P], Result]:
    """Take the bar away when a verb ends, however it ends."""

    @functools.wraps(verb)
    def call(owner: Owner, /, *given: P.args, **options: P.kwargs) -> Result:
        try:
            return verb(owner, *given, **options)
        finally:
            if isinstance(owner.progress, Display):
                owner.progress.finish()

    return call
