"""How often a run is looked at while it is worked on: tests wait for looks, not for a time."""

import threading
import time

import pytest

from dbanon.runs import queue, watch
from dbanon.runs.watch import Watch


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have runs looked at often, and get the answers as they come."""
    answers: list[str] = []
    look = queue.watch_run

    def counted(*arguments: object) -> str:
        answers.append(look(*arguments))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(queue, "watch_run", counted)
    monkeypatch.setattr(watch, "LOOK_S", 0.02)
    return answers


def look_on(answers: list[str]) -> None:
    """Wait for two more looks, or until nobody looks any more."""
    before = len(answers)
    while len(answers) < before + 2 and _is_watched():
        time.sleep(0.005)


def _is_watched() -> bool:
    targets = (getattr(thread, "_target", None) for thread in threading.enumerate())
    return any(getattr(target, "__func__", None) is Watch._look for target in targets)
