"""The instants of a run, from its parameters and data, one after the other to the end of the data; and its own time."""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import ParameterError
from dbanon.base.trajectory import Float, Trajectories
from dbanon.methods.kernels import align


class Parameters(Protocol):
    """The parameters of a family whose rows are about instants."""

    @property
    def step_s(self) -> int: ...  # noqa: D102
    @property
    def start(self) -> int | None: ...  # noqa: D102
    @property
    def align(self) -> str: ...  # noqa: D102
    @property
    def max_gap_s(self) -> int: ...  # noqa: D102
    @property
    def since(self) -> int | None: ...  # noqa: D102
    @property
    def until(self) -> int | None: ...  # noqa: D102


def list_instants(method: str, data: Trajectories, params: Parameters) -> align.Instants:
    """List all instants of a run, which may be none.

    Parameters
    ----------
    method : str
        For the error.
    data : Trajectories
        With a fix at least.

    Raises `ParameterError` if `step_s` or `start` is no multiple of the data's `grid_s`, or `start` lies before
    `since`.
    """
    start = params.start if params.start is not None else params.since
    for name, value in (("step_s", params.step_s), ("start", start)):
        if value is not None and value % data.grid_s:
            raise ParameterError(
                f"The '{name}' parameter of {method} must be a multiple of the dataset's grid_s, {data.grid_s} s. "
                f"Got {value} instead."
            )
    if start is not None and params.since is not None and start < params.since:
        raise ParameterError(
            f"The 'start' parameter of {method} must not lie before 'since'. Got {start} and {params.since}."
        )
    start = _find_first(data, params) if start is None else start
    return align.Instants(
        start=start,
        step_s=params.step_s,
        count=_count_instants(start, data, params),
        mode=align.MODES[params.align],
        max_gap_s=params.max_gap_s,
    )


def is_in_own_time(t: Float, data: Trajectories, params: Parameters) -> NDArray[np.bool_]:
    """Say which times lie in a run's own time, which other evenings of a dataset do not: bool[n].

    It begins at `since`, or else at `start`, or else with the first fix. It ends at `until`, or else a step after the
    slot of the last fix, as the last instant's period does at the latest.
    """
    begin = params.since if params.since is not None else params.start
    begin = _floor_to_slot(data.times.min(), data.grid_s) if begin is None else begin
    end = _floor_to_slot(data.times.max(), data.grid_s) + params.step_s if params.until is None else params.until
    return (t >= begin) & (t < end)


def _floor_to_slot(t: float, grid_s: int) -> int:
    return math.floor(t / grid_s) * grid_s


def _find_first(data: Trajectories, params: Parameters) -> int:
    """Find the first instant by default: a multiple of `step_s`, `max_gap_s` late (last) if any instant is left."""
    first_s = float(data.times.min())
    if params.align == "last":
        # Sooner, subjects with a fix every `max_gap_s` have none yet, and would be absent from the first instants.
        start = -(-(_floor_to_slot(first_s, data.grid_s) + params.max_gap_s) // params.step_s) * params.step_s
        if _count_instants(start, data, params):
            return start
    return math.floor(first_s / params.step_s) * params.step_s


def _count_instants(start: int, data: Trajectories, params: Parameters) -> int:
    total = (_floor_to_slot(data.times.max(), data.grid_s) - start) // params.step_s + 1
    if params.until is not None:
        # The period of the last instant must end at `until` or before.
        total = min(total, (params.until - start) // params.step_s)
    return max(0, total)
