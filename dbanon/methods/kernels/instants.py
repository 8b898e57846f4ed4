"""The instants of a run: from its parameters and data, one after the other to the end of the data."""

import math
from typing import Protocol

from dbanon.errors import ParameterError
from dbanon.methods.kernels import align
from dbanon.trajectory import Trajectories


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


def instants(method: str, data: Trajectories, params: Parameters) -> align.Instants:
    """List all instants of a run, which may be none.

    Parameters
    ----------
    method : str
        For the error.
    data : Trajectories
        With a fix at least.
    params : Parameters

    Raises
    ------
    ParameterError
        If `step_s` or `start` is no multiple of the data's `grid_s`, or `start` lies before `since`.
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
    start = _first(data, params) if start is None else start
    return align.Instants(
        start=start,
        step_s=params.step_s,
        count=_count(start, data, params),
        mode=align.MODES[params.align],
        max_gap_s=params.max_gap_s,
    )


def _first(data: Trajectories, params: Parameters) -> int:
    """Find the first instant by default: a multiple of `step_s`, `max_gap_s` late (last) if any instant is left."""
    first_s = float(data.t.min())
    if params.align == "last":
        # Sooner, subjects with a fix every `max_gap_s` have none yet, and would be absent from the first instants.
        slot = math.floor(first_s / data.grid_s) * data.grid_s
        start = -(-(slot + params.max_gap_s) // params.step_s) * params.step_s
        if _count(start, data, params):
            return start
    return math.floor(first_s / params.step_s) * params.step_s


def _count(start: int, data: Trajectories, params: Parameters) -> int:
    last = math.floor(float(data.t.max()) / data.grid_s) * data.grid_s
    total = (last - start) // params.step_s + 1
    if params.until is not None:
        total = min(total, (params.until - start) // params.step_s)
    return max(0, total)
