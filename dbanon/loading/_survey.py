"""A look at all staged fixes together: where they are, whether x and y are swapped, and which lie far outside the rest.

Decides from 100,000 fixes evenly drawn, so that it costs the same whatever is loaded. A fix lies far outside the rest
where, on either axis or in time, it is further from the middle 98 percent of the fixes than three times their extent
(and than a kilometre, or a day). With few fixes the middle is taken narrower, so that a single wild one is no part of
it.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from dbanon.errors import ParameterError
from dbanon.loading import _crs, _staging

Connection = psycopg.Connection[Any]

SAMPLE = 100_000
FAR = 3.0  # times the extent of the middle 98 percent
LEAST_M, DEGREES_A_M, LEAST_S = 1000.0, 1 / 111_000, 86_400.0
FAR_FROM_MERIDIAN, NEAR_MERIDIAN = 15.0, 6.0  # degrees; a UTM zone reaches 3 to either side
STRETCHED_SHARE = 0.01
_LATITUDES = {"lat", "latitude", "northing", "north"}
_LONGITUDES = {"lon", "lng", "long", "longitude", "easting", "east"}
SWAPPED, FAR_POSITION, FAR_TIME = "swapped-axes", "far-position", "far-time"


@dataclass(frozen=True)
class Survey:
    """What was seen.

    `low` and `high` bound x, y (in units of the source) and t of what is not far outside the rest; a longitude may run
    on beyond 180 degrees. `lon`, `lat` is the median position in degrees, `centre` the longitude all others are counted
    from.
    """

    source: _crs.Crs
    centre: float | None
    lon: float
    lat: float
    low: tuple[float, ...]
    high: tuple[float, ...]

    def reasons(self) -> dict[str, sql.Composed]:
        """Conditions on a staged fix, by reason; swapped axes first, since they too put a fix far outside the rest."""
        outside = sql.SQL("NOT ({} AND {})").format(self._within("x", 0), self._within("y", 1))
        other_way = sql.SQL("{} AND {}").format(self._within("y", 0), self._within("x", 1))
        late = sql.SQL("NOT {}").format(self._within("t", 2))
        return {SWAPPED: sql.SQL("({} AND {})").format(outside, other_way), FAR_POSITION: outside, FAR_TIME: late}

    def _within(self, column: str, axis: int) -> sql.Composed:
        """Write that a value lies within the bounds of an axis; a longitude may be one turn off."""
        turns = (-360, 0, 360) if axis == 0 and self.centre is not None else (0,)
        parts = [
            sql.SQL("{} BETWEEN {} AND {}").format(
                sql.Identifier(column), self.low[axis] + turn, self.high[axis] + turn
            )
            for turn in turns
        ]
        return sql.SQL("({})").format(sql.SQL(" OR ").join(parts))


def take(connection: Connection, source: _crs.Crs, staged: int, remedy: str) -> Survey:
    """Look at the staged fixes, of which there are so many.

    Raises
    ------
    ParameterError
        If their median is not in the reference system of the source, or only with x and y swapped; `remedy` says what
        to do then.
    """
    percent = min(100.0, 100.0 * SAMPLE / max(staged, 1))
    connection.execute(
        sql.SQL(
            "CREATE TEMP TABLE dbanon_sample ON COMMIT DROP AS "
            "SELECT x, y, t FROM dbanon_staged TABLESAMPLE BERNOULLI ({}) REPEATABLE (1)"
        ).format(percent)
    )
    row = connection.execute(
        "SELECT count(*), degrees(atan2(avg(sind(x)), avg(cosd(x)))) FROM dbanon_sample"
    ).fetchone()
    drawn, centre = row or (0, 0.0)
    centre = centre if source.geographic else None
    share = max(0.01, min(0.25, 2.0 / max(drawn, 1)))
    low, middle, high = _quantiles(connection, centre, [share, 0.5, 1.0 - share])
    lon, lat = _degrees(connection, source, (middle[0], middle[1]), remedy)
    least = LEAST_M * (DEGREES_A_M if source.geographic else 1.0)
    margin = [max(FAR * (b - a), m) for a, b, m in zip(low, high, (least, least, LEAST_S), strict=True)]
    return Survey(
        source=source,
        centre=centre,
        lon=lon,
        lat=lat,
        low=tuple(a - m for a, m in zip(low, margin, strict=True)),
        high=tuple(b + m for b, m in zip(high, margin, strict=True)),
    )


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


def _from_centre(column: str, centre: float | None) -> sql.Composable:
    """Count longitudes from the centre of the data, so that the antimeridian is a place like any other."""
    if centre is None:
        return sql.Identifier(column)
    return sql.SQL("({0} - 360 * round((({0} - {1}) / 360)::numeric))").format(sql.Identifier(column), centre)


def _quantiles(connection: Connection, centre: float | None, shares: list[float]) -> list[list[float]]:
    """Find the values of x (from the centre), y and t below which those shares of the sample lie: [share][axis]."""
    parts = [
        sql.SQL("percentile_disc({}::float8[]) WITHIN GROUP (ORDER BY {})").format(sql.Literal(shares), axis)
        for axis in (_from_centre("x", centre), sql.SQL("y"), sql.SQL("t"))
    ]
    row = connection.execute(sql.SQL("SELECT {} FROM dbanon_sample").format(sql.SQL(", ").join(parts))).fetchone() or ()
    return [[axis[i] for axis in row] for i in range(len(shares))]


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


def sort_out(staging: _staging.Staging, found: Survey, *, drop: bool) -> dict[str, int]:
    """Reject fixes with swapped axes, and far ones if asked to; returns how many far ones were kept, by reason."""
    conditions = found.reasons()
    named = sql.SQL(" ").join(sql.SQL("WHEN {} THEN {}").format(c, sql.Literal(r)) for r, c in conditions.items())
    counted = staging.connection.execute(
        sql.SQL("SELECT CASE {} END, count(*) FROM dbanon_staged WHERE {} OR {} GROUP BY 1").format(
            named, conditions[FAR_POSITION], conditions[FAR_TIME]
        )
    ).fetchall()
    there = dict(counted)
    leaving = [reason for reason in there if drop or reason == SWAPPED]
    if leaving:
        staging.connection.execute(
            sql.SQL(
                "WITH gone AS (DELETE FROM dbanon_staged WHERE CASE {named} END = ANY ({leaving}) RETURNING *) "
                "INSERT INTO dbanon_rejected SELECT file, line, CASE {named} END, {content} FROM gone"
            ).format(named=named, leaving=leaving, content=staging.content())
        )
    return {reason: n for reason, n in there.items() if reason not in leaving}


def refuse_swapped(staging: _staging.Staging, remedy: str) -> None:
    """Raise `ParameterError` if x and y of most rows are the wrong way round."""
    if 2 * staging.rejected().get(SWAPPED, 0) > sum(staging.read):
        raise swapped_axes(remedy)


def mean_each_other(x: str, y: str) -> bool:
    """Whether the columns of x and y are called latitude and longitude, in this order."""
    return x.strip().lower() in _LATITUDES and y.strip().lower() in _LONGITUDES


def notices(connection: Connection, found: Survey, target: _crs.Crs, far: dict[str, int]) -> tuple[str, ...]:
    """Say what somebody should look at: what lies far outside the rest, and a reference system stretched too far."""
    told = []
    for reason, what in ((FAR_POSITION, "positions"), (FAR_TIME, "times")):
        if far.get(reason):
            told.append(
                f"Notice: {far[reason]:,} {what} lie far outside the rest and were kept; load with --drop-outliers to "
                "leave them out" + (", or keep to an area with --bbox." if reason == FAR_POSITION else ".")
            )
    share = _stretched(connection, found, target)
    if share > STRETCHED_SHARE:
        told.append(
            f"Notice: {share:.0%} of the positions lie more than {NEAR_MERIDIAN:.0f} degrees from the meridian of SRID "
            f"{target.srid}, where its metres are too long; load each area as a dataset of its own, or choose --srid."
        )
    return tuple(told)


def _stretched(connection: Connection, found: Survey, target: _crs.Crs) -> float:
    """Share of the sample too far from the meridian of the dataset's reference system."""
    if target.meridian is None or not found.source.geographic:
        return 0.0
    row = connection.execute(
        sql.SQL(
            "SELECT avg((abs(x - {m} - 360 * round(((x - {m}) / 360)::numeric)) > {near})::int)::float8 "
            "FROM dbanon_sample"
        ).format(m=target.meridian, near=NEAR_MERIDIAN)
    ).fetchone()
    return float((row and row[0]) or 0.0)
