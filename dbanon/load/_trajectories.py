"""Fixes out of files, batch by batch, into the staging table; what cannot be used goes into quarantine."""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.base.errors import ParameterError
from dbanon.base.progress import Progress
from dbanon.load import _bbox, _files, _parse, _staging
from dbanon.options.loading import LoadingTrajectories
from dbanon.postgres import binary_copy

MB = 1024**2
ITS_OWN = "-"
"""As the name of the subject column: every row is a separate subject."""
OPTIONS = "--subject, --time, --x, --y or --trip"
_LATITUDES = {"lat", "latitude", "northing", "north"}
_LONGITUDES = {"lon", "lng", "long", "longitude", "easting", "east"}


def check_columns(asked: LoadingTrajectories) -> None:
    """Raise `ParameterError` for columns of which no fix can be made.

    One column is to be two things, none but the subject's is `ITS_OWN`, and x and y are not called like each other.
    """
    check_differ([asked.subject, asked.time, asked.x, asked.y], "subject, time, x and y")
    if ITS_OWN in (asked.time, asked.x, asked.y, asked.trip):
        raise ParameterError(f"Only the subject can be '{ITS_OWN}'. Got it for another column; name that column.")
    refuse_names_of_each_other(asked.x, asked.y)


@dataclass(frozen=True)
class Files:
    """Files of fixes, in the order that decides between contradicting ones."""

    paths: tuple[Path, ...]
    asked: LoadingTrajectories

    @property
    def sources(self) -> list[str]:
        """What the record of the load calls them."""
        return [str(path) for path in self.paths]

    @property
    def remedy(self) -> str:
        """What to do where x and y are the wrong way round."""
        return swapped_columns(self.asked.x, self.asked.y)

    @property
    def cells(self) -> dict[str, str]:
        """For each column to read, each once, the column of the staging table."""
        asked = self.asked
        named = {asked.subject: "subject", asked.time: "t", asked.x: "x", asked.y: "y", asked.trip: "trip"}
        return {name: staged for name, staged in named.items() if name is not None and name != ITS_OWN}

    def stage(self, staging: _staging.Staging, progress: Progress, *, geographic: bool, first: int) -> None:
        """Copy the usable rows into the staging table; rows that are their own subjects are numbered from `first`."""
        for path in self.paths:
            times, rows = _parse.Times(self.asked.tz), 0
            for batch in tracked(path, list(self.cells), progress, options=OPTIONS):
                self._stage_batch(staging, batch, times, first + sum(staging.read) + rows, geographic=geographic)
                rows += len(batch)
            staging.read.append(rows)

    def _stage_batch(
        self, staging: _staging.Staging, batch: _files.Batch, times: _parse.Times, first: int, *, geographic: bool
    ) -> None:
        columns, named = batch.columns, self.asked
        if named.subject == ITS_OWN:
            subject = pc.utf8_lpad(pa.array(first + np.arange(len(batch))).cast(pa.string()), 12, "0")
        else:
            subject = _parse.texts(columns[named.subject])
        t, x, y = times.seconds(columns[named.time]), _parse.numbers(columns[named.x]), _parse.numbers(columns[named.y])
        trip = pa.nulls(len(batch), pa.string()) if named.trip is None else _parse.texts(columns[named.trip])
        fine = self._fine(subject, trip, t, x, y, geographic=geographic)
        file, line = np.full(len(batch), len(staging.read), np.int32), batch.line.to_numpy().astype(np.int64)
        keep = pa.array(fine)
        numbers = [_staging.floats(column.filter(keep)) for column in (t, x, y)]
        staging.stage([file[fine], line[fine], subject.filter(keep), trip.filter(keep), *numbers])
        if not fine.all():
            odd = pa.array(~fine)
            cells = _parse.as_json({name: column.filter(odd) for name, column in columns.items()})
            texts = [_parse.sendable(column.filter(odd)) for column in (subject, trip)]
            values = [_nullable(column.filter(odd)) for column in (t, x, y)]
            staging.suspect([file[~fine], line[~fine], *texts, *values, binary_copy.jsonb(cells)])

    def _fine(
        self, subject: pa.Array, trip: pa.Array, t: pa.Array, x: pa.Array, y: pa.Array, *, geographic: bool
    ) -> NDArray[np.bool_]:
        """Where nothing can be wrong; `dbanon_internal.judge_suspects` knows the reasons against the others."""
        time, east, north = _staging.floats(t), _staging.floats(x), _staging.floats(y)
        greatest = np.finfo(np.float64).max
        most_x, most_y = (180.0, 90.0) if geographic else (greatest, greatest)
        odd = _staging.is_null(subject) | _parse.too_long(subject) | _parse.has_control(subject)
        odd |= _parse.has_control(trip) | ~((time >= _parse.FIRST_S) & (time < _parse.LAST_S))
        odd |= ~((np.abs(east) <= most_x) & (np.abs(north) <= most_y))
        if self.asked.bbox is not None:
            odd |= ~_bbox.inside(east, north, self.asked.bbox)
        return np.asarray(~odd)


def _nullable(column: pa.Array) -> pa.Array:
    return binary_copy.nullable(_staging.floats(column), _staging.is_null(column))


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


def check_differ(named: list[str], what: str) -> None:
    """Raise `ParameterError` if a column is named twice."""
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(f"The columns of {what} must differ. Got '{twice}' twice; name each as it is called.")


def tracked(
    path: Path, names: list[str], progress: Progress, *, options: str, may_break: Collection[str] = ()
) -> Iterator[_files.Batch]:
    """Read the batches of a file and report how much of it is done, in MB; `options` are those that name columns."""
    stage = f"reading {path.name}, MB"
    progress(stage, 0, None)
    for batch in _files.batches(path, names, options=options, may_break=may_break):
        progress(stage, -(-batch.done_bytes // MB), -(-path.stat().st_size // MB))
        yield batch
