"""What an attack is given, and what it answers.

An attack is a pure function ``Evidence -> Verdict``: it reads what the database holds, never what a method had in
memory, and shares no code with any method. It fails closed: what it cannot decide is a refusal with a clause of its
own, `decidable`. Nothing it says names a subject, a trajectory or a coordinate.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError
from dbanon.base.trajectory import Bool, Float, Int, Trajectories, freeze

if TYPE_CHECKING:
    from dbanon.attacks.shared.clauses import Attack

Kind = TypeVar("Kind", bound="Evidence")


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What the stored rows and the data say about any run; read-only arrays, records in any order.

    Rows are as compact as they are stored: each is the index of one of the run's distinct regions and periods. The
    properties ``cloak_*`` give a value a row; each use of one makes the array anew.

    Raises `DataError` if the columns of one table differ in length.
    """

    tables: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "region": ("no", "bounds", "rectangle", "srid", "crowd", "subjects", "other_keys"),
        "period": ("start_s", "end_s"),
        "member": ("record", "trajectory", "start_s", "end_s"),
        "hiding": ("record", "start_s", "end_s"),
    }

    method: str  # method, algorithm: as stored in ``run.method`` and ``run.algorithm``
    algorithm: str
    # params, suppressed: as stored in ``run.params`` (all parameters, also those left at their defaults) and
    # ``run.suppressed``
    params: Mapping[str, Any]
    suppressed: Mapping[str, Any]
    trajectories: Trajectories  # all of the dataset, read anew from the database
    record_id: Int  # int64[R]
    offset: Int  # int64[R + 1]: rows of record i are ``[offset[i], offset[i + 1])``
    region: NDArray[np.integer]  # integers[c]; region, period: indices into the columns of regions and periods
    period: NDArray[np.integer]
    place: NDArray[np.int32] | None  # int32[c]: ``seq`` of each row; None where it is 1, 2, ... in every record.
    region_no: Int  # int64[r]: the number of each region in ``dbanon.region``, ascending
    region_bounds: Float  # float64[r, 4]: xmin, ymin, xmax, ymax
    region_rectangle: Bool  # bool[r]: whether the region is exactly its own envelope: one polygon without holes
    region_srid: NDArray[np.integer]
    region_crowd: NDArray[np.integer]
    region_subjects: NDArray[np.integer]
    region_other_keys: NDArray[np.integer]  # int[r]: keys of ``extra`` that are no columns of the method
    period_start_s: Float  # float64[p]; period_start_s, period_end_s: the bounds of the period in unix seconds
    period_end_s: Float
    member_record: Int  # int64[m]
    member_trajectory: Int  # int64[m]: trajectory ids (database keys), not checked by the database
    # float64[m]; member_start_s, member_end_s: the stretch the record carries the trajectory for; NaN where it is the
    # whole record.
    member_start_s: Float
    member_end_s: Float
    hiding_record: Int  # int64[h]: whose hiding set it is
    hiding_start_s: Float  # float64[h]; hiding_start_s, hiding_end_s: when; NaN where it is for the whole record.
    hiding_end_s: Float
    hiding_offset: Int  # int64[h + 1]
    # int64[]: records that record i is hidden among, ``[hiding_offset[i], hiding_offset[i + 1])``; not checked by the
    # database
    hiding_other: Int

    def __post_init__(self) -> None:
        for table, columns in self.tables.items():
            if len({len(getattr(self, f"{table}_{column}")) for column in columns}) != 1:
                raise DataError("The columns of a table must have one length. This is a defect of the read.")
        if self.region_bounds.shape != (len(self.region_crowd), 4):
            raise DataError("A region must come with four bounds. This is a defect of the read.")
        rows = (self.offset, self.record_id, self.region)
        sets = (self.hiding_offset, self.hiding_record, self.hiding_other)
        if any(len(at) != len(keys) + 1 or at[-1] != len(values) for at, keys, values in (rows, sets)):
            raise DataError("Every row must belong to a record. This is a defect of the read.")
        if len(self.period) != self.rows or (self.place is not None and len(self.place) != self.rows):
            raise DataError("Every row must have a region and a period. This is a defect of the read.")
        freeze(self)

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

    def find_regions(self, region_no: Int) -> Int:
        """Find the index of each of some regions by number: int64[q]; -1 where no row has it."""
        at = np.minimum(np.searchsorted(self.region_no, region_no), max(len(self.region_no) - 1, 0))
        return np.where(self.region_no[at] == region_no, at, -1) if len(self.region_no) else np.full(len(region_no), -1)

    def extend(self, kind: type[Kind], **columns: Any) -> Kind:
        """Make a family's own kind of evidence of this and of what only it looks at."""
        return kind(**{item.name: getattr(self, item.name) for item in fields(self)}, **columns)


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One thing that must hold, how often it does not, both in a sentence, and whether anything could break it."""

    name: str
    passed: bool
    violations: int
    sentence: str
    tested: bool = True


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What an attack found: `passed` if every clause did; `figures` are plain numbers that JSON can hold."""

    attack: str
    passed: bool
    figures: Mapping[str, int | float]
    clauses: tuple[Clause, ...]


class Source(Protocol):
    """What an attack may ask the database for beside the stored rows, in the snapshot they are read from."""

    def read_table(self, function: str) -> Mapping[str, NDArray[Any]]:
        """Call a SQL evidence function with the run; its columns by name, without nulls.

        A column of text comes as int64 codes in the order of its distinct texts, one named ``subject`` in the codes of
        the trajectories (-1 where the subject has none).
        """

    def read_table_in_parts(self, function: str, *numbers: Int) -> Mapping[str, NDArray[Any]]:
        """Call one that takes long about some numbers at a time, by a session each: one table of what all answer."""

    def read_batches(self, function: str) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Call a SQL evidence function with the run, and have the rows of its table some megabytes at a time.

        Its columns are numbers or bytes.
        """

    def read_lists(self, key: str) -> tuple[Int, list[list[str]]]:
        """Give the lists that a key of ``extra`` holds: of each region the index of its list, -1 where it has none.

        Elements are JSON as the server writes it. What is no list comes as one element that is a list itself, which no
        value looks like.
        """

    def read_inputs(self, *names: str) -> dict[str, Any]:
        """Read inputs of the run's dataset again, as the classes that the method gets: `dbanon.base.trajectory`."""


class Attacker(Protocol):
    """A package that attacks a family: `attack` decides, on the evidence on any run and what `read` adds to it.

    It may have a function `prepare` without arguments, which is called while the evidence is read: to compile. And
    `READS` may name inputs with many rows, which are read beside the trajectories.
    """

    attack: "Attack[Any]"

    def read(self, evidence: Evidence, source: Source) -> Evidence:
        """Read what this attack looks at as well."""


def import_attacker(package: str) -> Attacker:
    """Import the package of an attack, as `dbanon.methods.Method.attack` names it."""
    return cast("Attacker", importlib.import_module(package))
