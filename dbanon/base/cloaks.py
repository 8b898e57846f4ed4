"""What comes out of a method: cloaks in compact form, where each distinct region and period stands once.

150,000 objects at 400 instants are 60 million rows of a few hundred thousand regions: a row costs an index of its
region and one of its period, in memory and in the database. Invariant: every index is of something that is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.base.errors import DataError
from dbanon.base.trajectory import Float, Int, freeze


@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """The distinct regions of a run, each with the crowd, people and own columns that all of its rows have.

    A region is a rectangle or a set of cells of ``dbanon.cell``, which PostGIS unites when they are written.
    """

    crowd: NDArray[np.int32]  # int32[r]: distinct subjects a row hides
    subjects: NDArray[np.int32]  # int32[r]: how many people a row stands for
    # float64[r, 4]: xmin, ymin, xmax, ymax of the rectangles, metres; None where regions are sets of cells.
    bounds: Float | None = None
    # int64[r + 1]: cells of region i are ``cell[cell_offset[i]:cell_offset[i + 1]]``, at least one
    cell_offset: Int | None = None
    cell: Int | None = None  # int64[]: ids of the cells, ascending within a region
    extra: NDArray[np.int32] | None = None  # int32[r]: index into `extras`; -1 is SQL NULL
    extras: tuple[str, ...] = field(default=())  # distinct JSON objects for the ``extra`` column

    def __post_init__(self) -> None:
        r = len(self.crowd)
        columns = [a for a in (self.subjects, self.bounds, self.extra) if a is not None]
        _demand(all(len(a) == r for a in columns), "columns of regions must have one length")
        if self.cell is None or self.cell_offset is None:
            are_rectangles = self.bounds is not None and self.bounds.shape == (r, 4)
            _demand(are_rectangles, "regions must be rectangles or sets of cells")
        else:
            are_sets = self.bounds is None and _is_ragged(self.cell_offset, r, len(self.cell))
            _demand(are_sets, "every region must have cells, or every one be a rectangle")
            within = np.ones(len(self.cell), bool)
            within[self.cell_offset[:-1]] = False
            _demand(not (np.diff(self.cell, prepend=0)[within] <= 0).any(), "the cells of a region must ascend")
        low, high = (0, -1) if self.extra is None or not r else (int(self.extra.min()), int(self.extra.max()))
        _demand(low >= -1 and high < len(self.extras), "a region's own columns must be among the distinct ones")
        freeze(self)

    def __len__(self) -> int:
        return len(self.crowd)


@dataclass(frozen=True, kw_only=True, eq=False)
class Hiding:
    """The sets of records that records are hidden among, where such sets overlap, one set an entry."""

    record: Int  # int64[h]: whose set it is; a record may have several, for different periods
    offset: Int  # int64[h + 1]: the others of set i are ``other[offset[i]:offset[i + 1]]``, at least one
    other: Int  # int64[]: ids of records; the owner is not among them
    # int64[h]; start, end: when, in unix seconds, half-open; None, or a start that is the end: for the whole record.
    start: Int | None = None
    end: Int | None = None

    def __post_init__(self) -> None:
        _demand(_is_ragged(self.offset, len(self.record), len(self.other)), "every hiding set must have others")
        owner = np.repeat(self.record, np.diff(self.offset))
        _demand(not (owner == self.other).any(), "the others of a hiding set must not include its owner")
        _demand_stretches(self.start, self.end, len(self.record))
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Atoms:
    """The sets of cells that a run's regions are made of, which tell nothing of the place within them."""

    cell: Int  # int64[c]: ids of all cells of the dataset, ascending
    atom: Int  # int64[c]: the number of the atom that each is in, from 0 on

    def __post_init__(self) -> None:
        _demand(len(self.cell) == len(self.atom), "every cell must be in an atom")
        _demand(
            not (np.diff(self.cell) <= 0).any() and int(self.atom.min(initial=0)) >= 0, "atoms must be sets of cells"
        )
        freeze(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cloaks:
    """What a method writes: the rows of a run, who is in them, and what it left out.

    Rows are ragged by record and compact: each is the index of one of the run's distinct regions and periods. The
    properties named like columns of ``dbanon.cloak`` give a value a row; each use of one makes the array anew.
    """

    # int64[R + 1]: rows of record i + 1 are ``[offset[i], offset[i + 1])``, at least one, with ``seq`` from 1 on
    offset: Int
    region: NDArray[np.int32]  # int32[c]: index into `regions`
    # unsigned integers[c]: index into `periods`, of the smallest type that holds it
    period: NDArray[np.unsignedinteger[Any]]
    regions: Regions
    periods: Int  # int64[p, 2]: distinct half-open periods: start and end in unix seconds
    member_record: Int  # int64[m]
    # int64[m]: trajectory ids (database keys), sorted by (record, trajectory). A person is in one record at a time, or
    # in several with the very same members (`dbanon.attacks.overlapping_records`); where hiding sets overlap, the owner
    # alone.
    member_trajectory: Int
    # ``{"subjects": {reason: n}, ..., "by_hour": by_hour(...)}``: counts by reason, and those of subjects by hour
    suppressed: Mapping[str, Any]
    metrics: Mapping[str, Any]  # figures of the paper and of the run; plain numbers
    # int64[m]; member_start, member_end: the stretch the record carries the trajectory for; None, or a start that is
    # the end: the whole record.
    member_start: Int | None = None
    member_end: Int | None = None
    hiding: Hiding | None = None  # where people are hidden in sets that overlap
    atoms: Atoms | None = None  # where regions are made of atoms

    def __post_init__(self) -> None:
        c, m, records = len(self.region), len(self.member_record), len(self.offset) - 1
        _demand(_is_ragged(self.offset, records, c) and len(self.period) == c, "every record must have rows")
        _demand(_is_index(self.region, len(self.regions)), "every row must have a region")
        _demand(_is_index(self.period, len(self.periods)), "every row must have a period")
        _demand(self.periods.shape == (len(self.periods), 2), "every period must have a start and an end")
        _demand(not (self.periods[:, 0] >= self.periods[:, 1]).any(), "no period may be empty")
        _demand(len(self.member_trajectory) == m, "members must be pairs of a record and a trajectory")
        _demand_stretches(self.member_start, self.member_end, m)
        _demand(_is_index(self.member_record - 1, records), "members must be of records")
        if self.hiding is not None:
            known = _is_index(self.hiding.record - 1, records) and _is_index(self.hiding.other - 1, records)
            _demand(known, "hiding sets must be of records")
        freeze(self)

    @classmethod
    def from_rows(
        cls,
        *,
        record_id: Int,
        start: Int,
        end: Int,
        bounds: Float,
        crowd: NDArray[np.integer[Any]],
        subjects: NDArray[np.integer[Any]],
        extra: NDArray[np.integer[Any]] | None = None,
        extras: tuple[str, ...] = (),
        **others: Any,
    ) -> "Cloaks":
        """Make cloaks of rows that are rectangles, given column by column: finds the distinct regions and periods.

        Parameters
        ----------
        record_id : int64[c]
            1..R, ascending; the rows of a record in the order of their ``seq``.
        start, end : int64[c]
            Unix seconds.
        bounds : float64[c, 4]
        crowd, subjects : int[c]
        extra : int[c], optional
            Index into `extras`, -1 for none.
        **others
            The fields that are not rows: members, `hiding`, `suppressed`, `metrics`.

        Notes
        -----
        O(c log c) time; regions and periods are numbered as they first come.
        """
        records = int(record_id[-1]) if len(record_id) else 0
        offset = np.searchsorted(record_id, np.arange(1, records + 2))
        _demand(bool((np.diff(record_id) >= 0).all()), "rows must lie by record")
        own = np.full(len(record_id), -1, np.int32) if extra is None else extra.astype(np.int32)
        # 0.0 added: a -0.0 would be another region, and mark it.
        sides = np.ascontiguousarray((bounds + 0.0).T)
        first, region = _find_distinct([*sides.view(np.int64), crowd, subjects, own])
        regions = Regions(
            crowd=crowd[first].astype(np.int32),
            subjects=subjects[first].astype(np.int32),
            bounds=np.ascontiguousarray(sides[:, first].T),
            extra=None if extra is None else own[first],
            extras=extras,
        )
        when, period = _find_distinct([start, end])
        return cls(
            offset=offset,
            region=region.astype(np.int32),
            period=period.astype(np.min_scalar_type(max(len(when) - 1, 0))),
            regions=regions,
            periods=np.stack((start[when], end[when]), axis=1).astype(np.int64),
            **others,
        )

    def replace_extra(self, extra: NDArray[np.integer[Any]], extras: tuple[str, ...]) -> "Cloaks":
        """Give rows their own columns, in place of those they have: index into `extras` of each row, -1 for none."""
        first, region = _find_distinct([self.region, extra])
        before = self.region[first]
        regions = Regions(
            crowd=self.regions.crowd[before],
            subjects=self.regions.subjects[before],
            bounds=None if self.regions.bounds is None else self.regions.bounds[before],
            extra=extra[first].astype(np.int32),
            extras=extras,
        )
        return replace(self, regions=regions, region=region.astype(np.int32))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.region)

    @property
    def record_id(self) -> Int:
        """The record of each row: int64[c]."""
        return np.repeat(np.arange(1, len(self.offset)), np.diff(self.offset))

    @property
    def seq(self) -> NDArray[np.int32]:
        """Place of each row within its record, from 1: int32[c]."""
        begin = np.repeat(self.offset[:-1], np.diff(self.offset))
        return (np.arange(1, self.rows + 1) - begin).astype(np.int32)

    @property
    def start(self) -> Int:
        """Where the period of each row begins: int64[c], unix seconds."""
        return np.asarray(self.periods[self.period, 0])

    @property
    def end(self) -> Int:
        """Where the period of each row ends: int64[c], unix seconds."""
        return np.asarray(self.periods[self.period, 1])

    @property
    def bounds(self) -> Float:
        """The rectangle of each row: float64[c, 4]."""
        if self.regions.bounds is None:
            raise DataError("Only rectangles have bounds before they are written. This is a defect of the caller.")
        return self.regions.bounds[self.region]

    @property
    def crowd(self) -> NDArray[np.int32]:
        """How many distinct subjects each row hides: int32[c]."""
        return self.regions.crowd[self.region]

    @property
    def subjects(self) -> NDArray[np.int32]:
        """How many people each row stands for: int32[c]."""
        return self.regions.subjects[self.region]

    @property
    def extra(self) -> NDArray[np.int32] | None:
        """Index into `extras` of each row, -1 for none: int32[c]; None where no row has any."""
        return None if self.regions.extra is None else self.regions.extra[self.region]

    @property
    def extras(self) -> tuple[str, ...]:
        """The distinct JSON objects of rows."""
        return self.regions.extras


def find_longer_sides(wide_m: NDArray[Any], high_m: NDArray[Any]) -> NDArray[Any]:
    """Give the longer sides of regions; of any other shape, that of the least rectangle around it along the axes.

    The root of an area tells less: a sliver of 8 m by 8 km is as large as a square of 250 m.
    """
    return np.asarray(np.maximum(wide_m, high_m))


def summarise_sides(wide_m: NDArray[Any], high_m: NDArray[Any]) -> dict[str, float]:
    """Give the figures of how long regions are: the tenths of their longer sides.

    Neither the least nor the greatest is told: one group somewhere off makes it.

    Parameters
    ----------
    wide_m, high_m : float[n]
        Of the rectangle around each region, one for whatever the family counts: rows, or distinct regions.
    """
    shares = range(10, 100, 10)
    if not len(wide_m):
        return dict.fromkeys((f"longer_side_{share}_m" for share in (50, 90)), 0.0)
    tenths = np.quantile(find_longer_sides(wide_m, high_m), [share / 100 for share in shares]).tolist()
    return {f"longer_side_{share}_m": tenth for share, tenth in zip(shares, tenths, strict=True)}


def count_by_hour(
    start_s: Int, seen: NDArray[Any], published: NDArray[Any], left_out: Mapping[str, NDArray[Any]]
) -> list[dict[str, Any]]:
    """Count subjects by the hour (UTC), for ``suppressed["by_hour"]``.

    Parameters
    ----------
    start_s : int64[w]
        When each window (or the snapshot) begins, unix seconds.
    seen, published : int[w]
        Subjects seen in it, and published for it.
    left_out : mapping of int[w]
        How many were left out, by reason.

    Returns
    -------
    list of dict
        ``hour`` ("2008-06-04T08:00Z"), ``seen``, ``published``, ``left_out`` by reason; in order of time.
    """
    hour, of = np.unique(np.asarray(start_s, np.int64) // 3600, return_inverse=True)
    names = np.datetime_as_string((hour * 60).astype("datetime64[m]")).tolist()

    def sum_by_hour(counts: NDArray[Any]) -> list[int]:
        sums = np.zeros(len(hour), np.int64)
        np.add.at(sums, of, np.asarray(counts))
        return [int(number) for number in sums]

    all_seen, all_published = sum_by_hour(seen), sum_by_hour(published)
    reasons = {reason: sum_by_hour(counts) for reason, counts in left_out.items()}
    return [
        {
            "hour": f"{name}Z",
            "seen": all_seen[at],
            "published": all_published[at],
            "left_out": {reason: numbers[at] for reason, numbers in reasons.items()},
        }
        for at, name in enumerate(names)
    ]


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise DataError(f"In a set of cloaks {what}. This is a defect of the method.")


def _is_ragged(offset: Int, count: int, total: int) -> bool:
    """Whether offsets cut `total` values into `count` parts of at least one."""
    right = len(offset) == count + 1 and offset[0] == 0 and offset[-1] == total
    return bool(right) and not (np.diff(offset) < 1).any()


def _is_index(values: NDArray[np.integer[Any]], count: int) -> bool:
    return not len(values) or bool(values.min() >= 0 and values.max() < count)


def _demand_stretches(start: Int | None, end: Int | None, count: int) -> None:
    if start is None or end is None:
        _demand(start is end, "a stretch must have a start and an end")
    else:
        _demand(len(start) == count == len(end) and not (start > end).any(), "no stretch may end before it begins")


def _find_distinct(columns: Sequence[NDArray[Any]]) -> tuple[Int, Int]:
    """Find distinct rows of columns of integers: the first of each, and which of these every row is.

    Rows are numbered as they first come. They are sorted by a hash of 64 bits, which makes one sort of several; should
    two different rows have the same hash, all columns are sorted instead.
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed ^= column.astype(np.int64).view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    first, number = _number_values(mixed)
    if all(np.array_equal(column[first][number], column) for column in columns):
        return first, number
    for column in columns:
        _, number = _number_values(number * len(number) + np.unique(column, return_inverse=True)[1])
    return _number_values(number)


def _number_values(values: NDArray[Any]) -> tuple[Int, Int]:
    """Number distinct values as they first come: where each first is, and the number of every value."""
    order = np.argsort(values)
    new = np.ones(len(values), bool)
    new[1:] = values[order[1:]] != values[order[:-1]]
    begin = np.flatnonzero(new)
    is_first = np.zeros(len(values), bool)
    first = np.minimum.reduceat(order, begin) if len(begin) else order
    is_first[first] = True
    number = np.empty(len(values), np.int64)
    number[order] = np.repeat(np.cumsum(is_first)[first] - 1, np.diff(np.append(begin, len(values))))
    return np.flatnonzero(is_first), number
