"""Request logs as bundles: one cloak an instant for k or more subjects, and the set of requests sent in it.

Decides who shares a bundle, by least total cloak area, from trajectories and parameters alone; requests are joined to
finished bundles by `attach`, which cannot change them. Invariant: every bundle has at least k distinct subjects, and
each of them is in its cloak at every instant of the window. Guests, present at only some instants, join a finished
bundle and are in its cloak at these.

Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Requests, Trajectories
from dbanon.methods import (
    Algorithm,
    Column,
    Method,
    Requirement,
    declare_align,
    declare_max_gap_s,
    declare_parameter,
    declare_since,
    declare_start,
    declare_step_s,
    declare_until,
)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a run of tp-aware can be asked for."""

    k: int = declare_parameter(5, "Least number of people in a bundle.", type="integer", minimum=2, promises="more")
    step_s: int = declare_step_s()
    instants: int = declare_parameter(
        30, "Instants in a window: the length of a published trajectory.", type="integer", minimum=1, maximum=10_000
    )
    start: int | None = declare_start()
    align: str = declare_align()
    max_gap_s: int = declare_max_gap_s()
    cloak: str = declare_parameter(
        "mbr",
        "Publish minimum bounding rectangles, or the quadrants of the tree that holds them.",
        type="choice",
        choices=("mbr", "quadrant"),
    )
    min_cloak_m: float | None = declare_parameter(
        None,
        "Least side of a cloak, rounded up to a multiple of grid_m. Default: grid_m.",
        type="number",
        unit="m",
        minimum=0,
        maximum=100_000,
    )
    min_contents: int = declare_parameter(
        1,
        "Least number of distinct contents in a set of requests. Rows of a bundle are joined until the set has so many "
        "or is empty. 1 joins no rows.",
        type="integer",
        minimum=1,
        maximum=1000,
        promises="more",
    )
    improve: bool = declare_parameter(
        True,
        "Whether to regroup for smaller bounding rectangles, by means that are not in the paper. It is for mbr cloaks.",
        type="switch",
    )
    guests: bool = declare_parameter(
        True,
        "Whether people present at only some instants of a window may join a bundle that holds k others. It is for mbr "
        "cloaks.",
        type="switch",
    )
    since: int | None = declare_since()
    until: int | None = declare_until()


METHOD = Method(
    name="tp-aware",
    module=__name__,
    summary="LBS request logs as bundles: one cloak an instant, and the set of requests sent in it",
    guarantee="At least k people may have sent any published request. This holds against an adversary that knows the "
    "trajectories of all people and the algorithm.",
    adversary="A reader knows the place of every person at every instant, how the groups were made and even their "
    "members, and wants to find the sender of a request.",
    row_meaning="Each row is a group of people at one instant, or at successive instants with min_contents. All of "
    "them were in this region when last seen, and any of them may have sent the requests. Rows with one record_id are "
    "the same people at successive instants. Guests, seen at only some of these, count in `subjects` alone.",
    left_out="People without a position at some instant of a window are left out of it, or are guests. A window with "
    "fewer than k people is left out whole. The requests that these people sent then are left out, too. People"
    " count once a window.",
    paper="Deutsch, Hull, Vyas, Zhao: Trajectory and Policy Aware Sender Anonymity in Location Based Services, 2012",
    attack="dbanon.attacks.tp_aware",
    algorithms=(
        Algorithm(
            name="traj-anon",
            summary="least total cloak area over the binary tree of uniform semi-quadrants",
            tight={"cloak": "mbr", "min_cloak_m": None},
        ),
    ),
    columns=(
        Column(
            name="requests",
            sql_type="jsonb",
            default="[]",
            comment="The set of requests sent by the people of the bundle in this period, without count or sender.",
        ),
    ),
    joins=("requests",),
    hides="sender",
    holds="instant",
    hidden_by="record",
    begins=("start", "since"),
    distributes=True,
    every="step_s",
    window="instants",
    has_guests=True,
    notices={
        "guests_refused": "People that could have been guests of a window: %s. The run let none in, because nothing "
        "shows that people are present whether they ask for something or not.",
        "requests_of_few_subjects": "Published request values that fewer than k people sent in the time of the run: "
        "%s. Such a value can identify its senders by itself.",
        "requests_of_few_over_windows": "Published request values that point to fewer than k people over windows: %s. "
        "If one person sent such a value in most of them, a reader finds that person. Windows that have the clearest "
        "value: {few_over_windows_windows}. Greatest number of them in which one person was in its groups: "
        "{few_over_windows_greatest}. People with that number: {few_over_windows_people}.",
        "requests_of_few_over_parts": "Published request values that point to fewer than k people over the last 30 "
        "parts of this release, or releases of its dataset or population: %s. If one person sent such a value in most "
        "of them, a reader finds that person. Windows that have the clearest value: {few_over_parts_windows}. Greatest "
        "number of them in which one person was in its groups: {few_over_parts_greatest}. People with that number: "
        "{few_over_parts_people}.",
    },
    totals={"subjects": "seen", "requests": "requests"},
    reasons={
        "absent_at_some_instant": "People without a position at some instant of a window in which they were seen, who "
        "are not guests.",
        "window_below_k": "People present at all instants of a window with fewer than k such people.",
        "sender_absent": "Requests of guests, sent at instants at which they have no position.",
        "sender_not_published": "Requests of people left out of the window in which they were sent.",
        "outside_windows": "Requests sent in the time of the run, but before the first window or after the last.",
        "bundle_below_min_contents": "Requests of groups that sent fewer than min_contents values in the whole window.",
    },
    requires=Requirement(
        input="requests",
        hides="the senders of requests",
        without="No request was sent that can be published, so no sender is hidden. Where people were is not hidden.",
    ),
    proposed={"params": {"k": 5}},
    example={"k": 4, "instants": 4},
)


def anonymise(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    *,
    algorithm: str = "traj-anon",
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Bundle the subjects of every window at the least cost the algorithm finds.

    Parameters
    ----------
    rng : numpy.random.Generator
        Not used: the policy is deterministic, so that "the adversary knows it" is literally true.

    Returns
    -------
    Cloaks
        Records by window, then by first member; without requests.

    Raises
    ------
    ParameterError
        If `step_s` or `start` does not fit the dataset's time grid.
    DataError
        If fixes lie too far apart, in time or space, to be one dataset's.
    InfeasibleError
        If no window has k subjects at all its instants.
    """
    from dbanon.methods.tp_aware import _bundles  # with Numba, which is slow to import

    return _bundles.compute_cloaks(data, params, algorithm, tasks)


def prepare(params: Parameters, *, algorithm: str = "traj-anon") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.tp_aware import _bundles

    _bundles.prepare(params, algorithm)


def judge_presence(data: Trajectories, params: Parameters, *, requests: Requests) -> str:
    """Say whether guests may join: whether people are present at an instant whether they asked for something or not.

    Presence is that of `anonymise`. Of people who asked, in windows in which they are seen, it is compared at the
    instants at which the position of a request counts first with that at instants further away than `max_gap_s`.

    Returns
    -------
    str
        ``on``; ``asked`` where presence is more than twice as frequent at requests; ``unknown`` without requests, or
        where there is nothing to compare.
    """
    from dbanon.methods.tp_aware import _presence

    return _presence.judge(data, params, requests)


def attach(cloaks: Cloaks, data: Trajectories, params: Parameters, *, requests: Requests) -> Cloaks:
    """Join requests to finished cloaks.

    A row's requests are the distinct contents the record's members sent in its period, sorted. Who is in which record
    is read from `cloaks` and cannot change; rows are joined where `min_contents` wants it.

    Parameters
    ----------
    cloaks : Cloaks
        From `anonymise`.

    Returns
    -------
    Cloaks
        With `extra`, the counts of requests that no record carries, and further metrics.
    """
    from dbanon.methods.tp_aware import _requests

    return _requests.join(cloaks, data, params, requests)
