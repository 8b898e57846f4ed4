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
    """What the stored rows and the data say about any run; read-only arrays, records in any order.

    Rows are as compact as they are stored: each is the index of one of the run's distinct regions and periods. The
    properties ``cloak_*`` give a value a row; each use of one makes the array anew.

    Attributes
    ----------
    method, algorithm : str
        As stored in ``run.method`` and ``run.algorithm``.
    params, suppressed : mapping
        As stored in ``run.params`` (all parameters, also those left at their defaults) and ``run.suppressed``.
    trajectories : Trajectories
        All of the dataset, read anew from the database.
    record_id : int64[R]
    offset : int64[R + 1]
        Rows of record i are ``[offset[i], offset[i + 1])``.
    region, period : integers[c]
        Indices into the columns of regions and periods.
    place : int32[c], optional
        ``seq`` of each row; None where it is 1, 2, ... in every record.
    region_bounds : float64[r, 4]
        xmin, ymin, xmax, ymax.
    region_rectangle : bool[r]
        Whether the region is exactly its own envelope: one polygon without holes.
    region_srid, region_crowd, region_subjects : int[r]
    region_other_keys : int[r]
        Keys of ``extra`` that are no columns of the method.
    period_start_s, period_end_s : float64[p]
        The bounds of the period in unix seconds.
    member_record : int64[m]
    member_trajectory : int64[m]
        Trajectory ids (database keys), not checked by the database.
    member_start_s, member_end_s : float64[m]
        The stretch the record carries the trajectory for; NaN where it is the whole record.
    hiding_record : int64[h]
        Whose hiding set it is.
    hiding_start_s, hiding_end_s : float64[h]
        When; NaN where it is for the whole record.
    hiding_offset : int64[h + 1]
    hiding_other : int64[]
        Records that record i is hidden among, not checked by the database:
        ``[hiding_offset[i], hiding_offset[i + 1])``.

    Raises
    ------
    DataError
        If the columns of one table differ in length.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "region": ("bounds", "rectangle", "srid", "crowd", "subjects", "other_keys"),
        "period": ("start_s", "end_s"),
        "member": ("record", "trajectory", "start_s", "end_s"),
        "hiding": ("record", "start_s", "end_s"),
    }

    method: str
    algorithm: str
    params: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    trajectories: Trajectories
    record_id: Int
    offset: Int
    region: NDArray[np.integer]
    period: NDArray[np.integer]
    place: NDArray[np.int32] | None
    region_bounds: Float
    region_rectangle: Bool
    region_srid: NDArray[np.integer]
    region_crowd: NDArray[np.integer]
    region_subjects: NDArray[np.integer]
    region_other_keys: NDArray[np.integer]
    period_start_s: Float
    period_end_s: Float
    member_record: Int
    member_trajectory: Int
    member_start_s: Float
    member_end_s: Float
    hiding_record: Int
    hiding_start_s: Float
    hiding_end_s: Float
    hiding_offset: Int
    hiding_other: Int

    def __post_init__(self) -> None:
        for table, columns in self.tables.items():
            if len({len(getattr(self, f"{table}_{column}")) for column in columns}) != 1:
                raise DataError("The columns of a table must have one length; this is a defect of the read.")
        if self.region_bounds.shape != (len(self.region_crowd), 4):
            raise DataError("A region must come with four bounds; this is a defect of the read.")
        rows = (self.offset, self.record_id, self.region)
        sets = (self.hiding_offset, self.hiding_record, self.hiding_other)
        if any(len(at) != len(keys) + 1 or at[-1] != len(values) for at, keys, values in (rows, sets)):
            raise DataError("Every row must be of a record; this is a defect of the read.")
        if len(self.period) != self.rows or (self.place is not None and len(self.place) != self.rows):
            raise DataError("Every row must have a region and a period; this is a defect of the read.")
        _freeze(self)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.region)

    @property
    def member_whole(self) -> Bool:
        """Whether each membership is of the whole record: bool[m]."""
        return np.isnan(self.member_start_s)

    @property
    def cloak_record(self) -> Int:
        """The record of each row: int64[c]."""
        return np.repeat(self.record_id, np.diff(self.offset))

    @property
    def cloak_seq(self) -> Int:
        """The place of each row in its record: int[c]."""
        if self.place is not None:
            return self.place.astype(np.int64)
        return np.arange(1, self.rows + 1) - np.repeat(self.offset[:-1], np.diff(self.offset))

    @property
    def cloak_start_s(self) -> Float:
        """Where the period of each row begins: float64[c], unix seconds."""
        return np.asarray(self.period_start_s[self.period])

    @property
    def cloak_end_s(self) -> Float:
        """Where the period of each row ends: float64[c], unix seconds."""
        return np.asarray(self.period_end_s[self.period])

    @property
    def cloak_bounds(self) -> Float:
        """The bounds of each row's region: float64[c, 4]."""
        return np.asarray(self.region_bounds[self.region])

    @property
    def cloak_rectangle(self) -> Bool:
        """Whether each row's region is a rectangle: bool[c]."""
        return np.asarray(self.region_rectangle[self.region])

    @property
    def cloak_srid(self) -> NDArray[np.integer]:
        """The SRID of each row's region: int[c]."""
        return np.asarray(self.region_srid[self.region])

    @property
    def cloak_crowd(self) -> NDArray[np.integer]:
        """The crowd of each row: int[c]."""
        return np.asarray(self.region_crowd[self.region])

    @property
    def cloak_subjects(self) -> NDArray[np.integer]:
        """How many people each row stands for: int[c]."""
        return np.asarray(self.region_subjects[self.region])

    @property
    def cloak_other_keys(self) -> NDArray[np.integer]:
        """How many keys of each row's ``extra`` are no columns of the method: int[c]."""
        return np.asarray(self.region_other_keys[self.region])


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
    region_cloaked : int8[r]
        Whether rows of the region say that they are no exact place: 1 where ``extra -> cloaked`` is true, 0 where it is
        false or not there, -1 where it is anything else.
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
        "region": (*Evidence.tables["region"], "cloaked"),
        "pair": ("site", "cloaked", "rows", "squared"),
    }

    places: Places
    region_cloaked: NDArray[np.int8]
    pair_site: Int
    pair_cloaked: Bool
    pair_rows: Int
    pair_squared: Float

    @property
    def cloak_cloaked(self) -> NDArray[np.int8]:
        """Whether each row says that it is no exact place: int8[c]."""
        return np.asarray(self.region_cloaked[self.region])


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
