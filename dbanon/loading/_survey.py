"""A look at all staged fixes together: where they are, which axis is which, and which lie far outside the rest.

Decides from 100,000 fixes evenly drawn, so that judging takes no longer for more, and from the places among them
rather than the fixes: a cab that is parked all week is one place, and so is every fix that a broken receiver put
at zero degrees. A fix lies far outside the rest where, on either axis or in time, it is further from the middle 96
percent of the places (or minutes) than three times their extent, and than a kilometre (or a day). With few places the
middle is taken narrower, so that a single wild one is no part of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import sql

from dbanon.errors import ParameterError
from dbanon.loading import _crs, _staging

Connection = psycopg.Connection[Any]
Float = NDArray[np.float64]
Span = tuple[float, float]

SAMPLE = 100_000
TAIL = 0.02  # of the places, at either end of an axis
FAR = 3.0  # times the extent of those between
LEAST_M, DEGREES_A_M, LEAST_S = 1000.0, 1 / 111_000, 86_400.0
PLACE_M, MINUTE_S = 100.0, 60.0
FAR_FROM_MERIDIAN, NEAR_MERIDIAN = 15.0, 6.0  # degrees; a UTM zone reaches 3 to either side
STRETCHED_SHARE = 0.01
SWAPPED, FAR_POSITION, FAR_TIME = "swapped-axes", "far-position", "far-time"
_LATITUDES = {"lat", "latitude", "northing", "north"}
_LONGITUDES = {"lon", "lng", "long", "longitude", "easting", "east"}


@dataclass(frozen=True)
class Shape:
    """Bounds of what is not far outside the rest, in units of the source.

    `x` may run on beyond 180 degrees where `turns`. `middle` is the median position of what lies inside. `home` is None
    where x and y could be mistaken for each other; else it says where most fixes are, and whether x is greater there.
    """

    x: Span
    y: Span
    t: Span
    middle: tuple[float, float]
    turns: bool
    home: "Home | None"


@dataclass(frozen=True)
class Home:
    """Where the fixes are that have x and y as most have: with x the greater of the two, or the lesser."""

    x: Span
    y: Span
    x_is_greater: bool

    def swapped(self, x: Float, y: Float) -> NDArray[np.bool_]:
        """Which fixes would be at home with x and y exchanged, and only so."""
        there = (y >= self.x[0]) & (y <= self.x[1]) & (x >= self.y[0]) & (x <= self.y[1])
        return np.asarray(there & ((x < y) if self.x_is_greater else (x > y)))


@dataclass(frozen=True)
class Survey:
    """What was seen; `lon` and `lat` are the median position in degrees, `sample` holds x, y and t: float64[n, 3]."""

    source: _crs.Crs
    shape: Shape
    lon: float
    lat: float
    sample: Float

    def reasons(self) -> dict[str, sql.Composed]:
        """Conditions on a staged fix, by reason; swapped axes first, since they too put a fix far outside the rest."""
        shape = self.shape
        far = sql.SQL("NOT ({} AND {})").format(self._within("x", shape.x), self._within("y", shape.y))
        late = sql.SQL("NOT {}").format(self._within("t", shape.t))
        there = sql.SQL("{} AND {} AND {}").format(far, self._within("y", shape.x), self._within("x", shape.y))
        if shape.home is not None:
            order = sql.SQL("x < y" if shape.home.x_is_greater else "x > y")
            home = self._within("y", shape.home.x), self._within("x", shape.home.y)
            there = sql.SQL("{} AND {} AND {}").format(order, *home)
        return {SWAPPED: sql.SQL("({})").format(there), FAR_POSITION: far, FAR_TIME: late}

    def _within(self, column: str, span: Span) -> sql.Composed:
        """Write that a value lies in a span; a longitude may be one turn off."""
        turns = (-360, 0, 360) if self.shape.turns and span is self.shape.x else (0,)
        parts = [
            sql.SQL("{} BETWEEN {} AND {}").format(sql.Identifier(column), span[0] + turn, span[1] + turn)
            for turn in turns
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))


# ---- from a sample ---------------------------------------------------------------------------------------------------


def shape(sample: Float, *, geographic: bool) -> Shape:
    """Find the bounds of what is not far outside the rest.

    Parameters
    ----------
    sample : float64[n, 3]
        x, y and t of at least one fix.
    geographic : bool
        Whether x and y are degrees.
    """
    unit = DEGREES_A_M if geographic else 1.0
    x, y = sample[:, 0], sample[:, 1]
    home = _home(sample, unit)
    if home is not None:
        wrong = home.swapped(x, y)
        x, y = np.where(wrong, y, x), np.where(wrong, x, y)
    if geographic:
        x = x - 360 * np.round((x - _centre(x)) / 360)
    places = _places(x, y, unit)
    minutes = np.unique(np.floor(sample[:, 2] / MINUTE_S)) * MINUTE_S
    wide, high = _span(places[:, 0], LEAST_M * unit), _span(places[:, 1], LEAST_M * unit)
    inside = (x >= wide[0]) & (x <= wide[1]) & (y >= high[0]) & (y <= high[1])
    return Shape(
        x=wide,
        y=high,
        t=_span(minutes, LEAST_S),
        middle=(float(np.median(x[inside])), float(np.median(y[inside]))),
        turns=geographic,
        home=home,
    )


def _home(sample: Float, unit: float) -> Home | None:
    """Find where the fixes are that have x and y as most have, if the two cannot be mistaken for each other.

    The lesser and the greater coordinate of a fix do not depend on which is called x. If the middle of all the lesser
    ones ends before that of the greater ones begins, no fix is its own mirror image.
    """
    lesser, greater = np.sort(sample[:, :2], axis=1).T
    folded = _places(lesser, greater, unit)
    if not _middle(folded[:, 0])[1] < _middle(folded[:, 1])[0]:
        return None
    x_is_greater = bool(2 * (sample[:, 0] > sample[:, 1]).sum() > len(sample))
    most = sample[(sample[:, 0] > sample[:, 1]) == x_is_greater]
    places = _places(most[:, 0], most[:, 1], unit)
    return Home(_span(places[:, 0], LEAST_M * unit), _span(places[:, 1], LEAST_M * unit), x_is_greater)


def _places(x: Float, y: Float, unit: float) -> Float:
    """Distinct places among positions: float64[p, 2]."""
    return np.unique(np.round(np.column_stack([x, y]) / (PLACE_M * unit)), axis=0) * (PLACE_M * unit)


def _middle(values: Float) -> Span:
    """Where the middle of some values lies: 96 percent of many, fewer of few."""
    share = min(0.3, TAIL + 1 / len(values))
    ordered = np.sort(values)
    cut = int(share * len(ordered))
    return float(ordered[cut]), float(ordered[len(ordered) - 1 - cut])


def _span(values: Float, least: float) -> Span:
    low, high = _middle(values)
    margin = max(FAR * (high - low), least)
    return low - margin, high + margin


def _centre(lon: Float) -> float:
    """Mean of longitudes as directions, so that the antimeridian is a place like any other."""
    angle = np.radians(lon)
    return float(np.degrees(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean())))


# ---- in the database -------------------------------------------------------------------------------------------------


def take(connection: Connection, source: _crs.Crs, staged: int, remedy: str) -> Survey:
    """Look at the staged fixes, of which there are so many.

    Raises
    ------
    ParameterError
        If their median is not in the reference system of the source, or only with x and y swapped; `remedy` says what
        to do then.
    """
    sample = _draw(connection, staged)
    found = shape(sample, geographic=source.geographic)
    lon, lat = _degrees(connection, source, found.middle, remedy)
    return Survey(source, found, lon, lat, sample)


def _draw(connection: Connection, staged: int) -> Float:
    """Draw about 100,000 of the staged fixes, all of them where there are fewer."""
    return _copied(connection, sql.SQL("SELECT x, y, t FROM dbanon_staged {}").format(_sampled(staged)), 3)


def _sampled(rows: int) -> sql.Composed:
    """Write what draws a sample, where there are so many rows."""
    percent = min(100.0, 100.0 * SAMPLE / max(rows, 1))
    return sql.SQL("TABLESAMPLE BERNOULLI ({}) REPEATABLE (1)").format(percent)


def _copied(connection: Connection, query: sql.Composed, columns: int) -> Float:
    """Read the rows of a query whose columns are all doubles: float64[n, columns]."""
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query)) as copy,
    ):
        packed = b"".join(copy)
    row = np.dtype([("fields", ">i2"), *((f"{kind}{i}", f">{kind}") for i in range(columns) for kind in ("i4", "f8"))])
    rows = np.frombuffer(packed, row, (len(packed) - 21) // row.itemsize, 19)  # a header of 19 bytes, a trailer of 2
    return np.column_stack([rows[f"f8{i}"] for i in range(columns)]).astype(np.float64)


def reach(connection: Connection, dataset_id: int) -> tuple[Span, Span]:
    """Find, in metres, the bounds on x and y of what is not far outside the rest of a dataset's trajectories.

    Each trajectory counts with two corners of the box around it; without any, nothing is far.
    """
    counted = connection.execute("SELECT count(*) FROM dbanon.trajectory WHERE dataset_id = %s", [dataset_id])
    query = sql.SQL(
        "SELECT ST_XMin(b), ST_YMin(b), ST_XMax(b), ST_YMax(b) FROM (SELECT Box2D(coalesce(shape, path))::box3d AS b "
        "FROM dbanon.trajectory {} WHERE dataset_id = {}) boxes"
    ).format(_sampled((counted.fetchone() or [0])[0]), dataset_id)
    boxes = _copied(connection, query, 4)
    if not len(boxes):
        return (-np.inf, np.inf), (-np.inf, np.inf)
    corners = np.vstack([boxes[:, :2], boxes[:, 2:]])
    places = _places(corners[:, 0], corners[:, 1], 1.0)
    return _span(places[:, 0], LEAST_M), _span(places[:, 1], LEAST_M)


def check_axes(found: Survey, target: _crs.Crs, remedy: str) -> None:
    """Raise `ParameterError` if x and y in degrees must be swapped to be where the dataset's reference system is true.

    Parameters
    ----------
    found : Survey
    target : Crs
        Reference system of the dataset.
    remedy : str
        What is the other way round, and what to do.
    """
    if found.source.geographic and abs(found.lon) <= 90 and _belongs(target, found.lat) and _strays(target, found.lon):
        raise swapped_axes(remedy)


def _belongs(crs: _crs.Crs, lon: float) -> bool:
    return crs.meridian is not None and _crs.degrees_apart(lon, crs.meridian) < NEAR_MERIDIAN


def _strays(crs: _crs.Crs, lon: float) -> bool:
    return crs.meridian is not None and _crs.degrees_apart(lon, crs.meridian) > FAR_FROM_MERIDIAN


def swapped_axes(remedy: str) -> ParameterError:
    """Make the error of a source whose x and y are the wrong way round."""
    return ParameterError(f"x must be the longitude or easting and y the latitude or northing. {remedy}")


def mean_each_other(x: str, y: str) -> bool:
    """Whether the columns of x and y are called latitude and longitude, in this order."""
    return x.strip().lower() in _LATITUDES and y.strip().lower() in _LONGITUDES


def _degrees(connection: Connection, source: _crs.Crs, place: tuple[float, float], remedy: str) -> tuple[float, float]:
    found = _try_degrees(connection, source, place)
    if not source.geographic and (found is None or _strays(source, found[0])):
        swapped = _try_degrees(connection, source, place[::-1])
        if swapped is not None and _belongs(source, swapped[0]):
            raise swapped_axes(remedy)
    if found is None:
        raise ParameterError(
            f"Positions must be in the reference system of the source. Their median is outside SRID {source.srid}; "
            "give the right --crs, or --srid for the dataset's own."
        )
    return found


def _try_degrees(connection: Connection, source: _crs.Crs, place: tuple[float, ...]) -> tuple[float, float] | None:
    """Longitude and latitude of a place; None where there is none."""
    x, y = place
    if source.geographic:
        x = (x + 180) % 360 - 180
    query = "SELECT ST_X(p), ST_Y(p) FROM (SELECT ST_Transform(ST_SetSRID(ST_MakePoint(%s, %s), %s), %s) AS p) m"
    try:
        with connection.transaction():
            lon, lat = connection.execute(query, [x, y, source.srid, _crs.WGS84]).fetchone() or (0.0, 0.0)
    except psycopg.errors.InternalError:
        return None
    return (lon, lat) if abs(lon) <= 360 and abs(lat) <= 90 else None


def sort_out(staging: _staging.Staging, found: Survey, *, drop: bool) -> None:
    """Reject fixes with swapped axes, and those far outside the rest if asked to."""
    conditions = found.reasons()
    leaving = [reason for reason in conditions if drop or reason == SWAPPED]
    named = sql.SQL(" ").join(sql.SQL("WHEN {} THEN {}").format(c, sql.Literal(r)) for r, c in conditions.items())
    reason = sql.SQL("CASE {} END").format(named)
    staging.leave_out(sql.SQL("{} AND {} = ANY ({})").format(_any(conditions), reason, leaving), reason)


def _any(conditions: dict[str, sql.Composed]) -> sql.Composed:
    return sql.SQL("({})").format(sql.SQL(" OR ").join(conditions.values()))


def kept_far(connection: Connection, found: Survey) -> dict[str, int]:
    """Count the fixes that lie far outside the rest and were kept, by reason."""
    conditions = {reason: c for reason, c in found.reasons().items() if reason != SWAPPED}
    named = sql.SQL(" ").join(sql.SQL("WHEN {} THEN {}").format(c, sql.Literal(r)) for r, c in conditions.items())
    query = sql.SQL("SELECT CASE {} END, count(*) FROM dbanon_ordered WHERE kept AND {} GROUP BY 1 ORDER BY 1")
    return dict(connection.execute(query.format(named, _any(conditions))).fetchall())


def refuse_swapped(staging: _staging.Staging, remedy: str) -> None:
    """Raise `ParameterError` if x and y of most rows of a source are the wrong way round."""
    counted = staging.connection.execute(
        "SELECT file, count(*) FROM dbanon_rejected WHERE reason = %s GROUP BY file", [SWAPPED]
    )
    if any(2 * n > staging.read[file] for file, n in counted):
        raise swapped_axes(remedy)


def notices(found: Survey, target: _crs.Crs, far: dict[str, int]) -> tuple[str, ...]:
    """Say what somebody should look at: what lies far outside the rest, and a reference system stretched too far."""
    told = []
    for reason, what in ((FAR_POSITION, "position"), (FAR_TIME, "time")):
        if far.get(reason):
            lie, kept, them = (" lies", "was", "it") if far[reason] == 1 else ("s lie", "were", "them")
            told.append(
                f"Notice: {far[reason]:,} {what}{lie} far outside the rest and {kept} kept; load with --drop-outliers "
                f"to leave {them} out" + (", or keep to an area with --bbox." if reason == FAR_POSITION else ".")
            )
    share = _stretched(found, target)
    if share > STRETCHED_SHARE:
        told.append(
            f"Notice: {share:.0%} of the positions lie more than {NEAR_MERIDIAN:.0f} degrees from the meridian of SRID "
            f"{target.srid}, where its metres are too long; load each area as a dataset of its own, or choose --srid."
        )
    return tuple(told)


def _stretched(found: Survey, target: _crs.Crs) -> float:
    """Share of the fixes too far from the meridian of the dataset's reference system."""
    if target.meridian is None or not found.source.geographic:
        return 0.0
    x, y = found.sample[:, 0], found.sample[:, 1]
    meant = (y >= found.shape.y[0]) & (y <= found.shape.y[1])
    apart = np.abs((x[meant] - target.meridian + 180) % 360 - 180)
    return float((apart > NEAR_MERIDIAN).mean())
