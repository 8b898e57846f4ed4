"""What an attack is given, what it answers, and the registry of attacks.

An attack is a pure function ``Evidence -> Verdict``: it reads what the database holds, never what a method had in
memory, and shares no code with any method. It fails closed: what it cannot decide is a refusal with a clause of its
own, `decidable`. Nothing it says names a subject, a trajectory or a coordinate.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import DataError
from dbanon.trajectory import Float, Int, Places, Trajectories, _freeze

Bool = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the stored rows and the data say about any run; read-only arrays, rows of a table in any order.

    Attributes
    ----------
    method, algorithm : str
        As stored in ``run.method`` and ``run.algorithm``.
    params, suppressed : mapping
        As stored in ``run.params`` (all parameters, also those left at their defaults) and ``run.suppressed``.
    trajectories : Trajectories
        All of the dataset, read anew from the database.
    cloak_record : int64[c]
    cloak_seq : int[c]
    cloak_start_s, cloak_end_s : float64[c]
        The bounds of ``period`` in unix seconds.
    cloak_bounds : float64[c, 4]
        xmin, ymin, xmax, ymax of ``region``.
    cloak_rectangle : bool[c]
        Whether the region is exactly its own envelope: one polygon without holes.
    cloak_srid, cloak_crowd, cloak_subjects : int[c]
    cloak_other_keys : int[c]
        Keys of ``extra`` that are no columns of the method.
    member_record : int64[p]
    member_trajectory : int64[p]
        Trajectory ids (database keys), not checked by the database.
    member_whole : bool[p]
        Whether the membership's ``period`` is null.

    Raises
    ------
    DataError
        If the columns of one table differ in length.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "cloak": (
            "record",
            "seq",
            "start_s",
            "end_s",
            "bounds",
            "rectangle",
            "srid",
            "crowd",
            "subjects",
            "other_keys",
        ),
        "member": ("record", "trajectory", "whole"),
    }

    method: str
    algorithm: str
    params: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    trajectories: Trajectories
    cloak_record: Int
    cloak_seq: NDArray[np.integer]
    cloak_start_s: Float
    cloak_end_s: Float
    cloak_bounds: Float
    cloak_rectangle: Bool
    cloak_srid: NDArray[np.integer]
    cloak_crowd: NDArray[np.integer]
    cloak_subjects: NDArray[np.integer]
    cloak_other_keys: NDArray[np.integer]
    member_record: Int
    member_trajectory: Int
    member_whole: Bool

    def __post_init__(self) -> None:
        for table, columns in self.tables.items():
            if len({len(getattr(self, f"{table}_{column}")) for column in columns}) != 1:
                raise DataError("The columns of a table must have one length; this is a defect of the read.")
        if self.cloak_bounds.shape != (len(self.cloak_record), 4):
            raise DataError("A cloak must come with four bounds; this is a defect of the read.")
        _freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class RequestEvidence(Evidence):
    """What a run of requests leaves: beside the rows, the requests in them and those of the dataset.

    Attributes
    ----------
    published_request_record, published_request_seq : int[q]
        The row of ``cloak`` whose ``extra`` holds the request; the elements of one row in the order they are stored in.
    published_request_content : int64[q]
        Code of the content. Codes are shared with `request_content` and number the distinct contents of both in the
        order of their text (``jsonb::text``, by code point), so that sorted contents have ascending codes.
    request_subject : int64[r]
        The sender in the codes of `trajectories`; -1 where it has no trajectory.
    request_t : float64[r]
        Unix seconds.
    request_content : int64[r]
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "published_request": ("record", "seq", "content"),
        "request": ("subject", "t", "content"),
    }

    published_request_record: Int
    published_request_seq: NDArray[np.integer]
    published_request_content: Int
    request_subject: Int
    request_t: Float
    request_content: Int


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvidence(Evidence):
    """What a run around sensitive sites leaves: beside the rows, the sites, and who an adversary finds nearest to each.

    Attributes
    ----------
    places : Places
        The dataset's sites and shapes, read anew from the database.
    cloak_cloaked : int8[c]
        Whether the row says that it is no exact place: 1 where ``extra -> cloaked`` is true, 0 where it is false or not
        there, -1 where it is anything else.
    pair_site : int64[j]
        Site ids. A pair is a site and one distinct (region, period, cloaked or not) among the rows: all at distance 0,
        and those not cloaked that are nearer than the run's ``guard_m``.
    pair_cloaked : bool[j]
    pair_rows : int64[j]
        How many rows have this region, period and `pair_cloaked`.
    pair_squared : float64[j]
        Squared distance in cells.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Evidence.tables,
        "cloak": (*Evidence.tables["cloak"], "cloaked"),
        "pair": ("site", "cloaked", "rows", "squared"),
    }

    places: Places
    cloak_cloaked: NDArray[np.int8]
    pair_site: Int
    pair_cloaked: Bool
    pair_rows: Int
    pair_squared: Float


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One thing that must hold, how often it does not, and a sentence that says both."""

    name: str
    passed: bool
    violations: int
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attack found: `passed` if every clause did; `figures` are plain numbers that JSON can hold."""

    attack: str
    passed: bool
    figures: Mapping[str, int | float]
    clauses: tuple[Clause, ...]


Attack = Callable[[Any], Verdict]
"""Takes the kind of evidence its family leaves."""


def _lazily(module: str) -> Attack:
    def attack(evidence: Evidence) -> Verdict:
        return cast("Attack", importlib.import_module(module).attack)(evidence)

    return attack


ATTACKS: dict[str, Attack] = {
    "sensitive-sites": _lazily("dbanon.attacks.sensitive_sites"),
    "tp-aware": _lazily("dbanon.attacks.tp_aware"),
}
