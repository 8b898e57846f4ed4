"""Draws the rows of a run at one moment as SVG paths, before the run is dropped.

Rows of fewer people than the promise hides are not drawn: exact rows are true positions.
"""

from dbanon.pages import maps
from dbanon.postgres.connection import Connection, find_postgis_schema
from dbanon.results.figures import Questions
from dbanon.results.sweep import Minute

_MAX_ROWS, _MAX_BYTES = 400, 30_000


def draw(connection: Connection, run_id: int, k: int, questions: Questions, like: Minute | None) -> Minute | None:
    """Draw the rows at the same moment and place as another drawing, or at a moment with a median number of rows.

    Parameters
    ----------
    k : int
        Rows of fewer people are not drawn.
    questions : Questions
        The questions of the evaluation, which lie in the area of nearly all people.

    Returns
    -------
    Minute or None
        None if there are no rows at that moment.
    """
    at = like.at if like else _choose_moment(connection, run_id)
    x0, y0, x1, y1 = like.window if like else _find_window(questions)
    if at is None or x1 <= x0:
        return None
    own, unit = find_postgis_schema(connection), maps.UNITS_ACROSS / (x1 - x0)
    query = f"""
        SELECT {own}.ST_AsSVG({own}.ST_SnapToGrid({own}.ST_SimplifyPreserveTopology({own}.ST_Scale({own}.ST_Translate(
            c.region, %s, %s), %s, %s), 2), 1), 1, 0), count(*) OVER ()
        FROM dbanon.cloak c WHERE c.run_id = %s AND c.period @> to_timestamp(%s) AND c.crowd >= %s
        ORDER BY {own}.ST_Area(c.region) DESC, c.record_id LIMIT %s"""
    given = [-x0, -y1, unit, unit, run_id, at, k, _MAX_ROWS]
    rows = connection.execute(query, given).fetchall()
    paths = [path for path, _ in rows]
    while sum(map(len, paths)) > _MAX_BYTES:
        del paths[0]
    return Minute(at=at, window=(x0, y0, x1, y1), rows=int(rows[0][1]), paths=tuple(paths)) if paths else None


def _choose_moment(connection: Connection, run_id: int) -> float | None:
    """Choose a moment with the median number of rows."""
    query = """
        WITH n AS (SELECT lower(c.period) AS at, count(*) AS rows FROM dbanon.cloak c WHERE c.run_id = %s GROUP BY 1)
        SELECT extract(epoch FROM n.at)::float8 FROM n
        ORDER BY n.rows, n.at OFFSET (SELECT count(*) / 2 FROM n) LIMIT 1"""
    row = connection.execute(query, [run_id]).fetchone()
    return None if row is None else float(row[0])


def _find_window(questions: Questions) -> tuple[float, float, float, float]:
    """Find the area from which the middles of squares were drawn, in the shape of a map."""
    x, y = questions.x + questions.side_m / 2, questions.y + questions.side_m / 2
    window = maps.fit_window(float(x.min()), float(y.min()), float(x.max()), float(y.max()))
    return window.x0, window.y0, window.x1, window.y1
