"""Draws people like those of a release from its rows alone, so that tests have tables like production's.

For each record as many people as it stands for, guests too; each keeps one relative place in the regions of the record.
Requests are not drawn. Invariant: all that is read any reader of the release reads: its rows, and how they hold.
"""

from collections.abc import Iterator
from pathlib import Path

import geopandas
import numpy as np
import pyproj
import shapely

from dbanon.base.errors import ParameterError
from dbanon.postgres import binary_copy
from dbanon.postgres.connection import Connection
from dbanon.releases import frames
from dbanon.synth._journeys import Float, Int

_MAX_DRAWS = 100  # places drawn in the envelope of a region before the nearest place of the region is taken


def draw_places(people: int, rng: np.random.Generator) -> Float:
    """Draw the relative place (u, v) of each person in the envelopes of its regions: float64[people, 2] in [0, 1)."""
    return rng.random((people, 2))


class Drawing:
    """Rows of a release, sorted by record, of which people are drawn: arrays of n rows, times in unix seconds.

    `members` are those of a row's `subjects` that are no guests; `offset` cuts the rows into records, and `people` cuts
    the people, who are numbered from 0; `mark` is what data drawn so are called.
    """

    def __init__(self, frame: geopandas.GeoDataFrame) -> None:
        self.about, self.crs = frame.attrs, frame.crs
        if not len(frame):
            raise ParameterError(f"The release must have rows. {self.about['release']} has none. Choose another.")
        self.mark = f"drawn from {self.about['release']}, not for analysis"
        frame = frame.sort_values(["record_id", "seq"])
        self.start: Int = frame["valid_from"].to_numpy("datetime64[s]").astype(np.int64)
        self.end: Int = frame["valid_to"].to_numpy("datetime64[s]").astype(np.int64)
        self.subjects = frame["subjects"].to_numpy(np.int64)
        self.members = np.minimum(frame["crowd"].to_numpy(np.int64), self.subjects)
        self.regions = frame.geometry.to_numpy()
        self.bounds: Float = shapely.bounds(self.regions)
        self.is_odd = shapely.area(self.regions) != shapely.area(shapely.envelope(self.regions))  # no rectangle
        shapely.prepare(self.regions[self.is_odd])
        self.offset = np.append(np.unique(frame["record_id"], return_index=True)[1], len(frame))
        self.people = np.append(0, np.cumsum(np.maximum.reduceat(self.subjects, self.offset[:-1])))

    def draw_fixes(self, seed: int, size: int) -> Iterator[tuple[Int, Int, Float]]:
        """Draw people's numbers, unix seconds, and longitudes and latitudes, about `size` fixes at a time."""
        rng, step_s = np.random.default_rng(seed), self.about["step_s"]
        to_degrees = pyproj.Transformer.from_crs(self.crs, "EPSG:4326", always_xy=True).transform
        instants = np.ones_like(self.start) if step_s is None else (self.end - self.start) // step_s
        fixes = np.append(0, np.cumsum(self.subjects * instants))
        for part in binary_copy.split_at_offsets(fixes[self.offset], size):
            row, person, at = self._draw_people(part, rng)
            of, instant = _repeat(np.arange(len(row)), instants[row])
            row, person = row[of], person[of]
            t = self.start[row] + instant * (step_s or 0)
            if self.about["holds"] == "some time":
                t += (rng.random(len(row)) * (self.end - self.start)[row]).astype(np.int64)
            # Rows that hold at some time may overlap: a person is at one place at a time.
            order = np.lexsort((t, person))
            once = order[np.append(True, np.diff(person[order]) + np.abs(np.diff(t[order])) > 0)]
            yield person[once], t[once], np.column_stack(to_degrees(*at[of[once]].T))

    def _draw_people(self, part: slice, rng: np.random.Generator) -> tuple[Int, Int, Float]:
        """Draw where the people of some records are in each row: the row, the person's number, metres."""
        first, last = self.people[part.start], self.people[part.stop]
        place, arrival = draw_places(last - first, rng), rng.random(last - first)
        rows = np.arange(self.offset[part.start], self.offset[part.stop])
        row, nth = _repeat(rows, self.subjects[rows])
        record = np.searchsorted(self.offset, row, side="right") - 1
        person = self.people[record] + nth
        # A guest is there for one stretch of the rows, or away for one.
        length = np.diff(self.offset)[record]
        stay = np.maximum(1, self.about["guest_presence"] * length)
        there = (nth < self.members[row]) | ((row + arrival[person - first] * length) % length < stay)
        row, person = row[there], person[there]
        return row, person, self._find_places(row, place[person - first], rng)

    def _find_places(self, row: Int, place: Float, rng: np.random.Generator) -> Float:
        """Find relative places in the regions of rows; where that is outside of one, draw another place in it."""
        low, size = self.bounds[row, :2], self.bounds[row, 2:] - self.bounds[row, :2]
        at, odd = low + place * size, np.flatnonzero(self.is_odd[row])
        for _ in range(_MAX_DRAWS):
            odd = odd[~shapely.contains_xy(self.regions[row[odd]], *at[odd].T)]
            at[odd] = low[odd] + rng.random((len(odd), 2)) * size[odd]
        nearest = shapely.shortest_line(self.regions[row[odd]], shapely.points(at[odd]))
        at[odd] = shapely.get_coordinates(shapely.get_point(nearest, 0))
        return at


def _repeat(values: Int, count: Int) -> tuple[Int, Int]:
    """Repeat each value so often, and number the repetitions of each from 0."""
    return np.repeat(values, count), np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


def read_drawing(like: str, source: Connection | None) -> Drawing:
    """Read the rows of a release that the login may read, or of a file of one, which has a suffix."""
    if source is None or Path(like).suffix:
        return Drawing(frames.read_file(Path(like)))
    return Drawing(frames.build_frame(source, like))
