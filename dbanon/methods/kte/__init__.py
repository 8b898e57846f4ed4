"""Mobile-phone trajectories: no knowledge of some time of a person's movements identifies them or reveals much more.

Decides whose samples are merged with whose, epoch by epoch, so that an adversary that followed a person for `tau_s`
finds k records that fit, and learns no more than `leak_s` beyond. Invariant: every generalised sample holds a true
sample of each trajectory merged in it, and those of one record do not overlap in time.

Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of Spatiotemporal
Trajectory Data, 2017.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import Trajectories
from dbanon.methods import Algorithm, Method, Requirement, declare_parameter, declare_since, declare_until

_KTE_HIDE_ONLY = ("kte-hide",)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a run of kte can be asked for."""

    k: int = declare_parameter(
        2, "Least number of records that fit the knowledge of an adversary.", type="integer", minimum=2, promises="more"
    )
    tau_s: int = declare_parameter(
        1800,
        "How long an adversary may have followed a person, a multiple of leak_s.",
        type="integer",
        unit="s",
        minimum=1,
        maximum=604_800,
        algorithms=_KTE_HIDE_ONLY,
        multiple_of="leak_s",
        promises="more",
    )
    leak_s: int = declare_parameter(
        1800,
        "How much more of the person's movements the adversary may then learn, a multiple of grid_s.",
        type="integer",
        unit="s",
        minimum=1,
        maximum=604_800,
        algorithms=_KTE_HIDE_ONLY,
        multiple_of="grid_s",
        promises="less",
    )
    window_s: int | None = declare_parameter(
        None,
        "Length of a window, a multiple of grid_s, from 1970 on: each has its own groups and records. Half an hour "
        "is a good value with k >= 5. Default: one window.",
        type="integer",
        unit="s",
        minimum=1,
        maximum=604_800,
        algorithms=("k-merge",),
        multiple_of="grid_s",
        promises="more",
    )
    grid_s: int = declare_parameter(
        60,
        "Length of a slot of time, a multiple of the dataset's grid_s.",
        type="integer",
        unit="s",
        minimum=1,
        maximum=86_400,
    )
    grid_m: float = declare_parameter(
        100.0,
        "Side of a cell, a multiple of the dataset's grid_m.",
        type="number",
        unit="m",
        minimum=0,
        maximum=100_000,
    )
    reuse: str = declare_parameter(
        "never",
        "Whether the same person may hide another one again: never, or apart, after a whole epoch without. "
        "With k = 2, apart means never.",
        type="choice",
        choices=("never", "apart"),
        algorithms=_KTE_HIDE_ONLY,
        promises="other",
    )
    improve: bool = declare_parameter(
        True,
        "Whether to search for less suppression and finer samples by means that are not in the paper.",
        type="switch",
    )
    since: int | None = declare_since("window_s")
    until: int | None = declare_until("window_s")


METHOD = Method(
    name="kte",
    module=__name__,
    summary="phone records and other irregular trajectories: time and place generalised until k records fit",
    guarantee=(
        "The adversary followed a person for at most tau_s and knows all of the person's positions in that time. "
        "At least k records fit, and they reveal less than leak_s of the movements before and less than leak_s "
        "after (leak_s in all, if the adversary followed for tau_s). The promise does not cover chance, people who "
        "stay together, a silence of few people, or data no longer than tau_s + leak_s, which are k-anonymous."
    ),
    adversary=(
        "A reader has followed a person for some time, and wants to find the person's record and the other places "
        "in it."
    ),
    row_meaning=(
        "Each row is one person, seen somewhere in this region at some time of this period, at least once. With "
        "k-merge, all people of a group have the same rows, with window_s until the window ends."
    ),
    left_out="Samples are left out where a person cannot be hidden among k people with samples at the same times.",
    paper=(
        "Gramaglia, Fiore, Tarable, Banchs: k^(tau,epsilon)-anonymity: Towards Privacy-Preserving Publishing of "
        "Spatiotemporal Trajectory Data, 2017"
    ),
    attack="dbanon.attacks.kte",
    algorithms=(
        Algorithm(
            name="kte-hide",
            summary="k records fit all knowledge of length tau_s, and other k records in each stretch of time",
            stands_alone=True,
        ),
        Algorithm(
            name="k-merge",
            summary="groups of k people with one record each, merged at least cost",
            guarantee=(
                "An adversary that knows a person's whole trajectory finds at least k people with the same record. "
                "With window_s this holds in each window by itself, and nothing is promised over several: a reader who "
                "knew several, or all people up to a border, may follow a person across."
            ),
            window="window_s",
        ),
    ),
    hides="place",
    holds="some time",
    distributes=True,
    hidden_by="record",
    notices={
        "one_window_s": "All of the run is in one window of %s s: its records do not end before the run does.",
        "left_out": (
            "People of the run: {subjects}. Others needed by a person with samples at all times: {others_needed}, "
            "which is k - 1 times the windows, {windows}. A longer leak_s makes fewer windows, in which more people "
            "have samples, and reveals more. A smaller k needs fewer others. k-merge needs no windows and promises "
            "k-anonymity."
        ),
    },
    totals={"samples": "samples", "subjects": "subjects"},
    reasons={
        "few_alike": "Fewer than k - 1 other people, new ones each time, have samples in the same epochs.",
        "window_below_k": "People seen in a window with fewer than k people.",
        "silence": "Left out so that at any time either no person is without samples, or at least k people are.",
    },
    requires=Requirement(input="people", hides="each person's movements among those of others"),
    proposed={"algorithm": "k-merge", "params": {"k": 5, "window_s": 1800}},
    example={"k": 4, "grid_s": 1, "grid_m": 5},
)


def anonymise(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    *,
    algorithm: str = "kte-hide",
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Generalise trajectories until k fit.

    Parameters
    ----------
    rng : numpy.random.Generator
        Orders people where the choice between them is free.
    tasks : Tasks
        Does the blocks of `k-merge`, the clusters of each epoch of `kte-hide`, and the merges of both.

    Returns
    -------
    Cloaks
        One record a subject, with `window_s` one in each window; with `k-merge`, those of a group are alike.

    Raises
    ------
    ParameterError
        If grids or times are no multiples of one another.
    DataError
        If fixes lie too far away to be counted.
    InfeasibleError
        If no subject can be hidden.
    """
    from dbanon.methods.kte import _rows  # with Numba, which is slow to import

    return _rows.compute_cloaks(data, params, rng, algorithm, tasks)


def prepare(params: Parameters, *, algorithm: str = "kte-hide") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.kte import _rows

    _rows.prepare(params, algorithm)
