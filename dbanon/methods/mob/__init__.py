"""Moving objects with quasi-identifiers of their own: at instants an adversary knows, k objects share a rectangle.

Decides which objects hide which, by nearness along a Hilbert curve at the instants of each object's own
quasi-identifier, and publishes at each instant one rectangle for all that are linked there. Invariant: hiding sets are
symmetric, or generalised at the instants of all their members, so that every published object may be any of k
individuals.

Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009.
"""

from dataclasses import dataclass

import numpy as np

from dbanon.base.cloaks import Cloaks
from dbanon.base.tasks import SERIAL_TASKS, Tasks
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories
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
    """What a run of mob can be asked for."""

    k: int = declare_parameter(
        5, "Least number of records that may belong to any known person.", type="integer", minimum=2, promises="more"
    )
    qid_set: str = declare_parameter(
        "default",
        "The set of quasi-identifiers, which says at which times an adversary may know where each person was.",
        type="name",
        promises="other",
    )
    qid_only: bool = declare_parameter(
        True,
        "Whether only the generalised instants are published. Off publishes exact rows of all other instants, too.",
        type="switch",
        promises="more",
    )
    step_s: int = declare_step_s()
    start: int | None = declare_start()
    align: str = declare_align()
    max_gap_s: int = declare_max_gap_s()
    speed_m_s: float = declare_parameter(
        50.0,
        (
            "Top speed that an adversary may know: people left with fewer than k by exact rows an instant away are "
            "counted."
        ),
        type="number",
        unit="m/s",
        minimum=0,
        maximum=100_000,
    )
    improve: bool = declare_parameter(
        True,
        "Whether to search for hiding sets that lose less information, by means that are not in the paper.",
        type="switch",
        algorithms=("symmetric",),
    )
    since: int | None = declare_since()
    until: int | None = declare_until()


METHOD = Method(
    name="mob",
    module=__name__,
    distributes=True,
    summary="people hidden at the instants at which an adversary may know each: k share a rectangle",
    guarantee=(
        "At least k records may belong to each published person, even if the adversary matches all published people "
        "with all records at once. The adversary knows where people were at all instants of their quasi-identifiers, "
        "and nothing more."
    ),
    adversary=(
        "A reader knows the place of each person at the instants of that person's quasi-identifier, and wants to "
        "find the person's record."
    ),
    row_meaning=(
        "Each row is one person at one instant. Where cloaked is true, the person is somewhere in this region, and"
        " at least k people have the same one. Where cloaked is false, the person is exactly there. Rows with one "
        "record_id are the same person."
    ),
    left_out=(
        "People are left out if they are never seen at an instant, or if fewer than k - 1 others can hide them at "
        "the instants of their quasi-identifiers."
    ),
    paper=("Yarovoy, Bonchi, Lakshmanan, Wang: Anonymizing Moving Objects: How to Hide a MOB in a Crowd?, EDBT 2009"),
    attack="dbanon.attacks.mob",
    algorithms=(
        Algorithm(
            name="symmetric",
            summary="people hide one another, each at the instants of that person's quasi-identifier",
            stands_alone=True,
        ),
        Algorithm(
            name="extreme-union",
            summary="coarser: each person's group is generalised at the instants of all its members",
            stands_alone=True,
        ),
    ),
    columns=(
        Column(
            name="cloaked",
            sql_type="boolean",
            default="false",
            comment="True if the region hides several people, false if it is the place of one person.",
        ),
    ),
    reads=("quasi_identifiers",),
    hides="place",
    holds="instant",
    hidden_by="region",
    begins=("start", "since"),
    every="step_s",
    oldest="max_gap_s",
    notices={
        "exact_rows": (
            "Rows published exactly: %s. A reader with knowledge of a person's place at one of these instants finds "
            "the person's record. qid_only leaves these rows out."
        ),
        "below_k_at_speed": (
            "People left with fewer than k candidates if a reader also knows the top speed and looks at exact rows "
            "an instant away: %s. qid_only leaves these rows out."
        ),
    },
    totals={"subjects": "subjects", "quasi_identifiers": "quasi_identifiers"},
    reasons={
        "never_seen": "People without a position at any instant.",
        "never_generalised": "People that are never generalised, in a release of generalised instants only (qid_only).",
        "few_partners": "People with fewer than k - 1 others that are present at the same instants and can hide them.",
        "absent": "Quasi-identifiers at instants at which their own person has no position.",
        "outside": "Quasi-identifiers in the time of the run, but before the first instant or after the last.",
        "without_subject": "Quasi-identifiers of people without a position at any instant.",
    },
    requires=Requirement(input="quasi_identifiers", hides="people at the times of their quasi-identifiers"),
    proposed={"params": {"k": 5}},
    example={"k": 4, "align": "exact"},
)


def anonymise(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    *,
    algorithm: str = "symmetric",
    quasi_identifiers: QuasiIdentifiers,
    tasks: Tasks = SERIAL_TASKS,
) -> Cloaks:
    """Hide objects at the instants of their quasi-identifiers.

    Parameters
    ----------
    rng : numpy.random.Generator
        Orders people where the choice between them is free.
    quasi_identifiers : QuasiIdentifiers
        At which times the adversary knows where each subject was.
    tasks : Tasks
        Looks for the nearest others of some subjects at a time.

    Returns
    -------
    Cloaks
        One record a subject, a row an instant, and the hiding set of each record that has a quasi-identifier.

    Raises
    ------
    ParameterError
        If times do not fit the dataset's grid.
    DataError
        If there is no position at any instant, there are too many, or they lie too far apart.
    InfeasibleError
        If there are fewer than k subjects, or nobody is left to publish.
    """
    from dbanon.methods.mob import _rows  # with Numba, which is slow to import

    return _rows.compute_cloaks(data, params, rng, algorithm, quasi_identifiers, tasks=tasks)


def prepare(params: Parameters, *, algorithm: str = "symmetric") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.mob import _rows

    _rows.prepare(params, algorithm)
