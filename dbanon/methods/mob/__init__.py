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
from dbanon.base.tasks import HERE, Tasks
from dbanon.base.trajectory import QuasiIdentifiers, Trajectories
from dbanon.methods import (
    Algorithm,
    Column,
    Method,
    align,
    max_gap_s,
    parameter,
    since,
    start,
    step_s,
    until,
)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What a run of mob can be asked for."""

    k: int = parameter(
        5, "Least number of objects that any known person may be.", type="integer", minimum=2, promises="more"
    )
    qid_set: str = parameter(
        "default",
        "The set of quasi-identifiers: what an adversary may know of whom.",
        type="name",
        promises="other",
    )
    qid_only: bool = parameter(
        True,
        "Whether only the generalised instants are published; off publishes exact rows of all others too.",
        type="switch",
        promises="more",
    )
    step_s: int = step_s()
    start: int | None = start()
    align: str = align()
    max_gap_s: int = max_gap_s()
    speed_m_s: float = parameter(
        50.0,
        "Top speed, if an adversary reads exact rows an instant away too: who is left with fewer than k is counted.",
        type="number",
        unit="m/s",
        minimum=0,
        maximum=100_000,
    )
    improve: bool = parameter(
        True,
        "Whether to search for hiding sets that lose less information, by means that are not in the paper.",
        type="switch",
        algorithms=("symmetric",),
    )
    since: int | None = since()
    until: int | None = until()


METHOD = Method(
    name="mob",
    module=__name__,
    shares=True,
    summary="moving objects hidden at the instants at which an adversary may know each: k share a rectangle",
    guarantee=(
        "An adversary who knows where people were at all instants of their quasi-identifiers, and nothing else, finds "
        "at least k objects that each of them may be, whatever is concluded from all the others."
    ),
    adversary=(
        "A reader who knows where each person was at the instants of that person's quasi-identifier, and asks which "
        "record is whose."
    ),
    row_meaning=(
        "Each row is one person at one instant: somewhere in this region, with at least k people in the same one, "
        "where cloaked is true; exactly there where it is false. Rows with one record_id are the same person."
    ),
    left_out=(
        "People who are never seen at an instant are left out, and people whom fewer than k - 1 others can hide at the "
        "instants of their quasi-identifiers."
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
            summary="each person's group is generalised at the instants of all its members; coarser",
            stands_alone=True,
        ),
    ),
    columns=(
        Column(
            name="cloaked",
            sql_type="boolean",
            default="false",
            comment="Whether the region hides several people; else it is where the one person is.",
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
            "Rows published exactly: %s. Readers who know where a person was at one of these instants find the "
            "person's record. qid_only leaves these rows out."
        ),
        "below_k_at_speed": (
            "People left with fewer than k candidates by readers who also know the top speed and look at exact "
            "rows an instant away: %s. qid_only leaves these rows out."
        ),
    },
    totals={"subjects": "subjects", "quasi_identifiers": "quasi_identifiers"},
    reasons={
        "never_seen": "Without a position at any instant.",
        "never_generalised": "Never generalised, in a release of generalised instants only (qid_only).",
        "few_partners": "Fewer than k - 1 others are present at the same instants and can hide them.",
        "absent": "Quasi-identifiers at instants at which their own subject has no position.",
        "outside": "Quasi-identifiers in the time of the run, but before the first instant or after the last.",
        "without_subject": "Quasi-identifiers of subjects without a position at any instant.",
    },
    example={"k": 4, "align": "exact"},
)


def anonymise(
    data: Trajectories,
    params: Parameters,
    rng: np.random.Generator,
    *,
    algorithm: str = "symmetric",
    quasi_identifiers: QuasiIdentifiers,
    tasks: Tasks = HERE,
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

    return _rows.publish(data, params, rng, algorithm, quasi_identifiers, tasks=tasks)


def prepare(params: Parameters, *, algorithm: str = "symmetric") -> None:
    """Compile all that `anonymise` calls, or load it from Numba's cache."""
    from dbanon.methods.mob import _rows

    _rows.prepare(params, algorithm)
