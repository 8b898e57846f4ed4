"""How long the slowest backdrops take: as many points as are allowed, in the shapes that cost most.

Run with ``./dev bench benchmarks/backdrops.py``; with other numbers of points as
``.venv/bin/python benchmarks/backdrops.py 1000000``.
Plain: PostGIS cuts, repairs and unites shapes with GEOS, which looks for all crossings, and is timed on few points.
"""

import sys
import time
from typing import Any

from dbanon.base.errors import ParameterError
from dbanon.database import open_database
from dbanon.pages.maps import Window
from dbanon.postgres.connection import make_sql
from dbanon.releases import backdrops, pictured

PLAIN_POINTS = 2_000
WINDOW = Window(x0=0, y0=0, x1=1000, y1=1000)
LINE = "SELECT ST_MakeLine(ST_MakePoint({x}, {y}) ORDER BY i) AS geom FROM generate_series(1, {points}) i"
AREA = "SELECT ST_MakePolygon(ST_SetPoint(geom, ST_NPoints(geom) - 1, ST_StartPoint(geom))) AS geom FROM ({line}) q"
PIECES = (
    "SELECT ST_MakeLine(ST_MakePoint({x}, {y}), ST_MakePoint({x}, {y})) AS geom FROM generate_series(1, {points} / 2)"
)
INSIDE = {"x": "random() * 1000", "y": "random() * 1000"}
ACROSS = {"x": "random() * 2000 - 500", "y": "random() * 2000 - 500"}
ZIGZAG = {"x": "i * 1000.0 / {points}", "y": "CASE WHEN i % 2 = 0 THEN -9 ELSE 1009 END"}
SHRINKING = {"x": ZIGZAG["x"], "y": "500 + 500 * (1 - i::float / {points}) * (i % 2 * 2 - 1)"}
FEW = {"x": "floor(random() * 30) * 30 + 50", "y": "floor(random() * 30) * 30 + 50"}


def write_cases(points: int) -> dict[str, str]:
    """Write queries that make tables of so many points, by name."""
    line = {
        name: LINE.format(points=points, **{axis: text.format(points=points) for axis, text in axes.items()})
        for name, axes in {"inside": INSIDE, "across": ACROSS, "zigzag": ZIGZAG, "shrinking": SHRINKING}.items()
    }
    inside = line["inside"]
    shuffled = (
        "SELECT geom FROM (SELECT ST_MakeLine(place, lead(place) OVER (ORDER BY i)) AS geom FROM (SELECT i, "
        f"ST_MakePoint({INSIDE['x']}, {INSIDE['y']}) AS place FROM generate_series(1, {points} / 2) i) p) q "
        "WHERE geom IS NOT NULL ORDER BY random()"
    )
    return {
        "a random line in the map": inside,
        "a random line across its edges": line["across"],
        "a line that crosses the map with each piece": line["zigzag"],
        "a zigzag that becomes smaller": line["shrinking"],
        "a random area across its edges": AREA.format(line=line["across"]),
        "an area that crosses the map with each side": AREA.format(line=line["zigzag"]),
        "pieces between random places": PIECES.format(points=points, **INSIDE),
        "pieces between 900 places": PIECES.format(points=points, **FEW),
        "pieces from one place": PIECES.format(points=points, **INSIDE).replace(
            "ST_MakePoint(random() * 1000, random() * 1000),", "ST_MakePoint(500, 500),"
        ),
        "a chain in pieces, shuffled": shuffled,
        "a random line in degrees": f"SELECT ST_Transform(ST_SetSRID(geom, 32632), 4326) AS geom FROM ({inside}) q",
    }


def make_table(connection: Any, query: str) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL search_path = public; SELECT setseed(0.5); DROP TABLE IF EXISTS backdrop")
        connection.execute(make_sql(f"CREATE TABLE backdrop AS {query}; GRANT SELECT ON backdrop TO PUBLIC"))


def main(points: int) -> None:
    backdrops.MAX_POINTS = max(points, backdrops.MAX_POINTS)
    with open_database() as database:
        connection = database.connection
        print(f"{points:,} points: seconds")
        for name, query in write_cases(points).items():
            make_table(connection, query)
            began = time.perf_counter()
            try:
                with connection.transaction():
                    backdrops.draw(connection, pictured.scale_to_window(WINDOW), 32632, "public.backdrop")
                drawn = ""
            except ParameterError:
                drawn = "  too large for the page"
            print(f"{name:<44}{time.perf_counter() - began:6.1f}{drawn}", flush=True)
        make_table(connection, write_cases(PLAIN_POINTS)["a random line across its edges"])
        began = time.perf_counter()
        connection.execute(
            "SELECT public.ST_Intersection(public.ST_MakeValid(geom), public.ST_MakeEnvelope(0, 0, 1000, 1000))"
            " FROM public.backdrop"
        )
        print(f"{f'plain, a random line of {PLAIN_POINTS:,} points':<44}{time.perf_counter() - began:6.1f}")
        connection.execute("DROP TABLE public.backdrop")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else backdrops.MAX_POINTS)
