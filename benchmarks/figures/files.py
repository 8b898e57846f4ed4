"""Files that programs write, points or rectangles with times, as `benchmarks/peers.py` gets them from all of them."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyproj

from dbanon.base.trajectory import Float, Int
from dbanon.results.figures import Movements

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tracks(Movements):
    """Movements that a reader can follow: a track is a person of the truth, or a record of a file. By person and time.

    Attributes
    ----------
    weight : float64[n]
        Number of people that a position stands for.
    """

    weight: Float

    @classmethod
    def from_truth(cls, moved: Movements) -> "Tracks":
        """Let each position stand for one person."""
        return cls(**vars(moved), weight=np.ones(len(moved.t)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Rectangles:
    """Rows that say of a record that it was in a rectangle for a time, by record and time.

    Attributes
    ----------
    record : int64[n]
        0, 1, 2, ... in the order in which the file names them.
    since, until : float64[n]
        Unix seconds; equal for a moment.
    bounds : float64[n, 4]
        xmin, ymin, xmax, ymax in metres.
    subjects : int64[n]
        Number of people that a row stands for.
    """

    record: Int
    since: Float
    until: Float
    bounds: Float
    subjects: Int

    @property
    def centres(self) -> Tracks:
        """The middle of each, at the time when it begins."""
        x, y = (self.bounds[:, :2] + self.bounds[:, 2:]).T / 2
        return Tracks(person=self.record, t=self.since, x=x, y=y, weight=self.subjects.astype(float))


def read(file: Path, srid: int) -> Tracks | Rectangles:
    """Read a file of id, time, lon and lat, which are projected, or of id, since, until, four corners and subjects."""
    with file.open(newline="") as text:
        header, *rows = csv.reader(text)
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    numbers: dict[str, int] = {}
    record = np.array([numbers.setdefault(name, len(numbers)) for name in cells.pop("id")])
    values = {name: np.array(column, float) for name, column in cells.items()}
    order = np.lexsort((values["time" if "time" in values else "since"], record))
    record, values = record[order], {name: column[order] for name, column in values.items()}
    if "time" in values:
        x, y = pyproj.Transformer.from_crs(4326, srid, always_xy=True).transform(values["lon"], values["lat"])
        return Tracks(person=record, t=values["time"], x=x, y=y, weight=np.ones(len(record)))
    return Rectangles(
        record=record,
        since=values["since"],
        until=values["until"],
        bounds=np.column_stack([values[corner] for corner in _CORNERS]),
        subjects=values["subjects"].astype(np.int64),
    )
