-- What PostGIS gathers for mob alone: what random range queries find in the rows.

CREATE OR REPLACE FUNCTION dbanon_internal.query_evidence(run_id bigint) RETURNS TABLE (
    start_s double precision, xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    possibly bigint, definitely bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- The rows were just written and no statistics know of them.
SET enable_nestloop = on
SET enable_hashjoin = on
SET enable_mergejoin = off
SET jit = off
SET work_mem = '256MB'
AS $$
    WITH run AS MATERIALIZED (
        SELECT r.run_id, r.dataset_id, d.grid_m
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE r.run_id = query_evidence.run_id
    ), extent AS MATERIALIZED (
        -- In cells, as all that follows: a rectangle that is one cell is inside or outside of a query, never both.
        SELECT e.x0, e.y0, e.x1 - e.x0 + 1 AS wide, e.y1 - e.y0 + 1 AS high
        FROM (
            SELECT floor(min(@postgis@.ST_XMin(b.box)) / run.grid_m) AS x0, floor(min(@postgis@.ST_YMin(b.box)) / run.grid_m) AS y0,
                floor(max(@postgis@.ST_XMax(b.box)) / run.grid_m) AS x1, floor(max(@postgis@.ST_YMax(b.box)) / run.grid_m) AS y1
            FROM run
            JOIN ONLY dbanon.trajectory t ON t.dataset_id = run.dataset_id
            CROSS JOIN LATERAL (SELECT @postgis@.Box3D(t.path) AS box) b
            GROUP BY run.grid_m) e
    ), uniform AS MATERIALIZED (
        -- Random numbers from 0 to 1 that follow from the run's id.
        SELECT n, i, (hashint8extended(run.run_id, n * 8 + i) & ((1::bigint << 52) - 1)) / (1::bigint << 52)::double precision AS u
        FROM run
        CROSS JOIN generate_series(1, 100) n
        CROSS JOIN generate_series(0, 4) i
    ), random AS MATERIALIZED (
        SELECT array_agg(f.u ORDER BY f.i) AS u
        FROM uniform f
        GROUP BY f.n
    ), rectangle AS MATERIALIZED (
        SELECT c.x0, c.y0, c.x0 + s.wide AS x1, c.y0 + s.high AS y1, row_number() OVER () AS no
        FROM extent e
        CROSS JOIN random f
        -- Sides up to a tenth of the extent's, anywhere in it.
        CROSS JOIN LATERAL (SELECT 1 + floor(f.u[1] * 0.1 * e.wide) AS wide, 1 + floor(f.u[2] * 0.1 * e.high) AS high) s
        CROSS JOIN LATERAL (SELECT
            e.x0 + floor(f.u[3] * (e.wide - s.wide + 1)) AS x0, e.y0 + floor(f.u[4] * (e.high - s.high + 1)) AS y0) c
    ), listed AS MATERIALIZED (
        SELECT array_agg(p.period_no ORDER BY lower(p.period)) AS period_no
        FROM run
        JOIN ONLY dbanon.period p ON p.run_id = run.run_id
    ), instant AS MATERIALIZED (
        SELECT l.period_no[1 + floor(f.u[5] * cardinality(l.period_no))::integer] AS period_no, count(*) AS times
        FROM listed l
        CROSS JOIN random f
        GROUP BY 1
    ), shown AS MATERIALIZED (
        SELECT e.region_no, e.period_no, count(*) AS rows
        FROM run
        JOIN ONLY dbanon.record d ON d.run_id = run.run_id
        CROSS JOIN LATERAL unnest(d.regions, d.periods) e (region_no, period_no)
        WHERE e.period_no = ANY (ARRAY(SELECT i.period_no FROM instant i))
        GROUP BY e.region_no, e.period_no
    ), rectangles AS MATERIALIZED (
        SELECT max(q.x1 - q.x0) AS widest, array_agg(q.no ORDER BY q.x0, q.no) AS no, array_agg(q.x0 ORDER BY q.x0, q.no) AS x0,
            array_agg(q.y0 ORDER BY q.x0, q.no) AS y0, array_agg(q.x1 ORDER BY q.x0, q.no) AS x1,
            array_agg(q.y1 ORDER BY q.x0, q.no) AS y1
        FROM rectangle q
    ), counted AS MATERIALIZED (
        SELECT r.period_no, q.no[n] AS no, sum(r.rows) AS possibly,
            sum(CASE WHEN c.x0 >= q.x0[n] AND c.x1 <= q.x1[n] AND c.y0 >= q.y0[n] AND c.y1 <= q.y1[n] THEN r.rows ELSE 0 END) AS definitely
        FROM run
        CROSS JOIN shown r
        JOIN ONLY dbanon.region g ON g.run_id = run.run_id AND g.region_no = r.region_no
        CROSS JOIN LATERAL (SELECT @postgis@.Box3D(g.region) AS box) b
        CROSS JOIN LATERAL (SELECT
            round(@postgis@.ST_XMin(b.box) / run.grid_m) AS x0, round(@postgis@.ST_YMin(b.box) / run.grid_m) AS y0,
            round(@postgis@.ST_XMax(b.box) / run.grid_m) AS x1, round(@postgis@.ST_YMax(b.box) / run.grid_m) AS y1) c
        CROSS JOIN rectangles q
        -- Of the rectangles in the order of x those between the region's sides.
        CROSS JOIN LATERAL generate_series(width_bucket(c.x0 - q.widest, q.x0) + 1, width_bucket(c.x1 - 0.5, q.x0)) n
        WHERE q.x1[n] > c.x0 AND q.y0[n] < c.y1 AND q.y1[n] > c.y0
        GROUP BY r.period_no, q.no[n]
    )
    SELECT date_part('epoch', lower(p.period)), q.x0 * run.grid_m, q.y0 * run.grid_m, q.x1 * run.grid_m, q.y1 * run.grid_m,
        coalesce(c.possibly, 0)::bigint, coalesce(c.definitely, 0)::bigint
    FROM run
    CROSS JOIN instant i
    CROSS JOIN generate_series(1, i.times) again
    JOIN ONLY dbanon.period p ON p.run_id = run.run_id AND p.period_no = i.period_no
    CROSS JOIN rectangle q
    LEFT JOIN counted c ON c.period_no = i.period_no AND c.no = q.no
$$;
COMMENT ON FUNCTION dbanon_internal.query_evidence(bigint) IS
'How many rows of a run are possibly and definitely inside random rectangles at random instants: 100 times 100 queries that follow from
the run''s id.';
