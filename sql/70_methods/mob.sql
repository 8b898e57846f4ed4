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
    ), uniform AS MATERIALIZED (
        -- Random numbers from 0 to 1, the same for every run: figures of two runs can be compared.
        SELECT n, i, (hashint8extended(n, i) & ((1::bigint << 52) - 1)) / (1::bigint << 52)::double precision AS u
        FROM generate_series(1, 100) n
        CROSS JOIN generate_series(0, 4) i
    ), random AS MATERIALIZED (
        SELECT array_agg(f.u ORDER BY f.i) AS u
        FROM uniform f
        GROUP BY f.n
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
        -- Where a record misses no instant, its row of an instant is as many places from its first.
        SELECT d.regions[a.place] AS region_no, i.period_no, count(*) AS rows
        FROM run
        JOIN ONLY dbanon.record r ON r.run_id = run.run_id
        CROSS JOIN LATERAL (SELECT r.periods || '{}'::integer[] AS periods, r.regions || '{}'::integer[] AS regions OFFSET 0) d
        CROSS JOIN instant i
        CROSS JOIN LATERAL (SELECT i.period_no - d.periods[1] + 1 AS nth) f
        CROSS JOIN LATERAL (SELECT CASE d.periods[f.nth] WHEN i.period_no THEN f.nth
                                                         ELSE array_position(d.periods, i.period_no) END AS place) a
        WHERE a.place IS NOT NULL
        GROUP BY d.regions[a.place], i.period_no
    ), bounded AS MATERIALIZED (
        -- In cells, as all that follows: a rectangle that is one cell is inside or outside of a query, never both.
        SELECT g.region_no, c.*
        FROM run
        JOIN ONLY dbanon.region g ON g.run_id = run.run_id AND g.region_no IN (SELECT s.region_no FROM shown s)
        CROSS JOIN LATERAL (SELECT @postgis@.Box3D(g.region) AS box) b
        CROSS JOIN LATERAL (SELECT
            round(@postgis@.ST_XMin(b.box) / run.grid_m) AS x0, round(@postgis@.ST_YMin(b.box) / run.grid_m) AS y0,
            round(@postgis@.ST_XMax(b.box) / run.grid_m) AS x1, round(@postgis@.ST_YMax(b.box) / run.grid_m) AS y1) c
    ), extent AS MATERIALIZED (
        -- Of what is shown: the dataset may hold other evenings, of people elsewhere.
        SELECT min(b.x0) AS x0, min(b.y0) AS y0, max(b.x1) - min(b.x0) AS wide, max(b.y1) - min(b.y0) AS high
        FROM bounded b
    ), rectangle AS MATERIALIZED (
        SELECT c.x0, c.y0, c.x0 + s.wide AS x1, c.y0 + s.high AS y1, row_number() OVER () AS no
        FROM extent e
        CROSS JOIN random f
        -- Sides up to a tenth of the extent's, anywhere in it.
        CROSS JOIN LATERAL (SELECT 1 + floor(f.u[1] * 0.1 * e.wide) AS wide, 1 + floor(f.u[2] * 0.1 * e.high) AS high) s
        CROSS JOIN LATERAL (SELECT
            e.x0 + floor(f.u[3] * (e.wide - s.wide + 1)) AS x0, e.y0 + floor(f.u[4] * (e.high - s.high + 1)) AS y0) c
    ), box AS MATERIALIZED (
        SELECT b.*, floor((b.x0 - e.x0) * 20 / e.wide) AS column0, floor((b.x1 - 1 - e.x0) * 20 / e.wide) AS column1,
            floor((b.y0 - e.y0) * 20 / e.high) AS row0, floor((b.y1 - 1 - e.y0) * 20 / e.high) AS row1
        FROM extent e
        CROSS JOIN bounded b
    ), tile AS MATERIALIZED (
        -- The tiles, 20 times 20 over all, that each rectangle reaches into.
        SELECT q.*, c.no AS in_column, w.no AS in_row
        FROM extent e
        CROSS JOIN rectangle q
        CROSS JOIN LATERAL generate_series(floor((q.x0 - e.x0) * 20 / e.wide)::integer, floor((q.x1 - 1 - e.x0) * 20 / e.wide)::integer) c (no)
        CROSS JOIN LATERAL generate_series(floor((q.y0 - e.y0) * 20 / e.high)::integer, floor((q.y1 - 1 - e.y0) * 20 / e.high)::integer) w (no)
    ), hit AS MATERIALIZED (
        -- Most regions are cells, and lie in one tile; the others are compared with all rectangles.
        SELECT b.region_no, q.no, b.x0 >= q.x0 AND b.x1 <= q.x1 AND b.y0 >= q.y0 AND b.y1 <= q.y1 AS within
        FROM box b
        JOIN tile q ON q.in_column = b.column0 AND q.in_row = b.row0
        WHERE b.column0 = b.column1 AND b.row0 = b.row1 AND q.x0 < b.x1 AND q.x1 > b.x0 AND q.y0 < b.y1 AND q.y1 > b.y0
        UNION ALL
        SELECT b.region_no, q.no, b.x0 >= q.x0 AND b.x1 <= q.x1 AND b.y0 >= q.y0 AND b.y1 <= q.y1
        FROM box b
        JOIN rectangle q ON q.x0 < b.x1 AND q.x1 > b.x0 AND q.y0 < b.y1 AND q.y1 > b.y0
        WHERE b.column0 <> b.column1 OR b.row0 <> b.row1
    ), counted AS MATERIALIZED (
        SELECT s.period_no, h.no, sum(s.rows) AS possibly, sum(s.rows) FILTER (WHERE h.within) AS definitely
        FROM shown s
        JOIN hit h ON h.region_no = s.region_no
        GROUP BY s.period_no, h.no
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
'How many rows of a run are possibly and definitely inside random rectangles at random instants: 100 times 100 queries, the same for every
run that covers the same area and time.';
