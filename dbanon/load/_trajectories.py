"""Fixes out of files, batch by batch, into the staging table; what cannot be used goes into quarantine."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbanon._progress import Progress
from dbanon.errors import ParameterError
from dbanon.load import _bbox, _files, _parse, _staging
from dbanon.load._bbox import Box

MB = 1024**2
ITS_OWN = "-"
"""As the name of the subject column: every row is a subject of its own."""
OPTIONS = "--subject, --time, --x, --y or --trip"
_SWAPPED = "swapped-axes"
_LATITUDES = {"lat", "latitude", "northing", "north"}
_LONGITUDES = {"lon", "lng", "long", "longitude", "easting", "east"}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column of a file holds what; `trip` cuts a subject's fixes into trajectories."""

    subject: str = "subject"
    time: str = "time"
    x: str = "x"
    y: str = "y"
    trip: str | None = None

    def check(self) -> None:
        """Raise `ParameterError` if one column is to be two things, or no column but the subject's is its own."""
        check_named([self.subject, self.time, self.x, self.y], self.trip, "subject, time, x and y")

    def names(self) -> list[str]:
        """The columns to read from a file, each once."""
        return list(self.staged())

    def staged(self) -> dict[str, str]:
        """Name the column of the staging table for each column of a file."""
        named = {self.subject: "subject", self.time: "t", self.x: "x", self.y: "y", self.trip: "trip"}
        return {name: staged for name, staged in named.items() if name is not None and name != ITS_OWN}


@dataclass(frozen=True)
class Files:
    """Files of fixes, in the order that decides between contradicting ones."""

    paths: tuple[Path, ...]
    columns: Columns
    tz: str | None
    bbox: Box | None

    @property
    def sources(self) -> list[str]:
        """What the record of the load calls them."""
        return [str(path) for path in self.paths]

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        return swapped_columns(self.columns.x, self.columns.y)

    @property
    def cells(self) -> Mapping[str, str]:
        """For each column, the expression of what was read from it."""
        return self.columns.staged()

    def stage(self, staging: _staging.Staging, progress: Progress, *, geographic: bool, first: int) -> None:
        """Copy the usable rows into the staging table; rows that are their own subjects are numbered from `first`."""
        for path in self.paths:
            times, rows = _parse.Times(self.tz), 0
            for batch in tracked(path, self.columns.names(), progress, options=OPTIONS):
                self._stage_batch(staging, batch, times, first + sum(staging.read) + rows, geographic=geographic)
                rows += len(batch)
            staging.read.append(rows)

    def _stage_batch(
        self, staging: _staging.Staging, batch: _files.Batch, times: _parse.Times, first: int, *, geographic: bool
    ) -> None:
        columns, named = batch.columns, self.columns
        if named.subject == ITS_OWN:
            subject = pc.utf8_lpad(pa.array(first + np.arange(len(batch))).cast(pa.string()), 12, "0")
        else:
            subject = _parse.texts(columns[named.subject])
        t, x, y = times.seconds(columns[named.time]), _parse.numbers(columns[named.x]), _parse.numbers(columns[named.y])
        trip = pa.nulls(len(batch), pa.string()) if named.trip is None else _parse.texts(columns[named.trip])
        reasons = self._judge(subject, trip, t, x, y, geographic=geographic)
        staging.reject(batch, reasons)
        keep = pa.array(reasons.kept)
        staging.stage(
            [
                np.full(int(reasons.kept.sum()), len(staging.read), np.int32),
                batch.line.to_numpy()[reasons.kept].astype(np.int64),
                subject.filter(keep),
                trip.filter(keep),
                *(_staging.floats(column.filter(keep)) for column in (t, x, y)),
            ]
        )

    def _judge(
        self, subject: pa.Array, trip: pa.Array, t: pa.Array, x: pa.Array, y: pa.Array, *, geographic: bool
    ) -> _staging.Reasons:
        """Find the first reason against each row, in the order of `dbanon_internal.stage_fixes`."""
        reasons = _staging.Reasons(len(subject))
        mark_events(reasons, subject, t)
        reasons.mark("control-characters", _parse.has_control(trip))
        mark_positions(reasons, x, y, self.bbox, geographic=geographic)
        return reasons


def mark_events(reasons: _staging.Reasons, subject: pa.Array, t: pa.Array) -> None:
    """Find the first reason against who and when of each row; `dbanon_internal.event_reasons` does it for tables."""
    time = _staging.floats(t)
    reasons.mark("missing-subject", _staging.is_null(subject))
    reasons.mark("subject-too-long", _parse.too_long(subject))
    reasons.mark("control-characters", _parse.has_control(subject))
    reasons.mark("unparsable-time", _staging.is_null(t))
    reasons.mark("non-finite-time", ~np.isfinite(time))
    reasons.mark("time-out-of-range", _parse.out_of_range(time))


def mark_positions(reasons: _staging.Reasons, x: pa.Array, y: pa.Array, bbox: Box | None, *, geographic: bool) -> None:
    """Find the first reason against the position of each row."""
    east, north = _staging.floats(x), _staging.floats(y)
    reasons.mark("unparsable-position", _staging.is_null(x) | _staging.is_null(y))
    reasons.mark("non-finite-position", ~(np.isfinite(east) & np.isfinite(north)))
    with np.errstate(invalid="ignore"):
        if geographic:
            north_is_lon = (np.abs(east) <= 90) & (np.abs(north) > 90) & (np.abs(north) <= 180)
            reasons.mark(_SWAPPED, north_is_lon)
            reasons.mark("position-out-of-range", (np.abs(east) > 180) | (np.abs(north) > 90))
        if bbox is not None:
            outside = ~_bbox.inside(east, north, bbox)
            reasons.mark(_SWAPPED, outside & _bbox.inside(north, east, bbox))
            reasons.mark("outside-bbox", outside)


def refuse_names_of_each_other(x: str, y: str) -> None:
    """Raise `ParameterError` if the columns of x and y are called latitude and longitude, in this order."""
    if x.strip().lower() in _LATITUDES and y.strip().lower() in _LONGITUDES:
        raise ParameterError(
            f"x must be the longitude or easting and y the latitude or northing. {swapped_columns(x, y)}"
        )


def swapped_columns(x: str, y: str) -> str:
    """Say what to do where two columns of a file are the wrong way round."""
    return f"Columns '{x}' and '{y}' are the other way round; give --x {y} --y {x}."


def check_files(paths: Sequence[Path]) -> None:
    """Raise `ParameterError` unless there are files and each is another, whatever it is called."""
    if not paths:
        raise ParameterError("At least one file must be named. Got none; name a CSV or Parquet file.")
    places = [os.path.realpath(path) for path in paths]
    twice = next((path for path, place in zip(paths, places, strict=True) if places.count(place) > 1), None)
    if twice is not None:
        raise ParameterError(f"Each file must be named once. Got {twice.name} more than once; leave out the others.")


def check_differ(named: list[str], told: str) -> None:
    """Raise `ParameterError` if a column is named twice."""
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(f"The columns of {told} must differ. Got '{twice}' twice; name each as it is called.")


def check_named(named: list[str], trip: str | None, told: str) -> None:
    """Raise `ParameterError` if a column is named twice, or any but the first is `ITS_OWN`."""
    check_differ(named, told)
    if ITS_OWN in [*named[1:], trip]:
        raise ParameterError(f"Only the subject can be '{ITS_OWN}'. Got it for another column; name that column.")


def tracked(
    path: Path, names: list[str], progress: Progress, *, options: str, may_break: Collection[str] = ()
) -> Iterator[_files.Batch]:
    """Read the batches of a file and tell how much of it is done, in MB; `options` are those that name columns."""
    stage = f"reading {path.name}, MB"
    progress(stage, 0, None)
    for batch in _files.batches(path, names, options=options, may_break=may_break):
        progress(stage, -(-batch.done_bytes // MB), -(-path.stat().st_size // MB))
        yield batch
