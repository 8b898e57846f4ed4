-- What PostGIS gathers for mob alone: what random range queries find in the rows.

CREATE OR REPLACE FUNCTION dbanon_internal.gather_query_evidence(run_id bigint) RETURNS TABLE (
    start_s double precision, xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    possibly bigint, definitely bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- The rows were just written and no statistics know of them.
SET enable_nestloop = on
SET enable_hashjoin = on
SET enable_mergejoin = off
SET jit = off
SET work_mem = '256MB'
AS $$
    WITH run AS MATERIALIZED (
        SELECT run.run_id, run.dataset_id, dat.grid_m
        FROM ONLY dbanon.run run
        JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        WHERE run.run_id = gather_query_evidence.run_id
    ), uniform AS MATERIALIZED (
        -- Random numbers from 0 to 1, the same for every run: figures of two runs can be compared.
        SELECT question, nth, (hashint8extended(question, nth) & ((1::bigint << 52) - 1)) / (1::bigint << 52)::double precision AS u
        FROM generate_series(1, 100) question
        CROSS JOIN generate_series(0, 4) nth
    ), random AS MATERIALIZED (
        SELECT array_agg(uniform.u ORDER BY uniform.nth) AS u
        FROM uniform
        GROUP BY uniform.question
    ), listed AS MATERIALIZED (
        SELECT array_agg(per.period_no ORDER BY lower(per.period)) AS period_no
        FROM run
        JOIN ONLY dbanon.period per ON per.run_id = run.run_id
    ), instant AS MATERIALIZED (
        SELECT listed.period_no[1 + floor(random.u[5] * cardinality(listed.period_no))::integer] AS period_no, count(*) AS times
        FROM listed
        CROSS JOIN random
        GROUP BY 1
    ), shown AS MATERIALIZED (
        -- Where a record misses no instant, its row of an instant is as many places from its first.
        SELECT lists.regions[pla.place] AS region_no, instant.period_no, count(*) AS rows
        FROM run
        JOIN ONLY dbanon.record rec ON rec.run_id = run.run_id
        CROSS JOIN LATERAL (SELECT rec.periods || '{}'::integer[] AS periods, rec.regions || '{}'::integer[] AS regions OFFSET 0) lists
        CROSS JOIN instant
        CROSS JOIN LATERAL (SELECT instant.period_no - lists.periods[1] + 1 AS nth) nth
        CROSS JOIN LATERAL (SELECT CASE lists.periods[nth.nth] WHEN instant.period_no THEN nth.nth
                                                               ELSE array_position(lists.periods, instant.period_no) END AS place) pla
        WHERE pla.place IS NOT NULL
        GROUP BY lists.regions[pla.place], instant.period_no
    ), bounded AS MATERIALIZED (
        -- In cells, as all that follows: a rectangle that is one cell is inside or outside of a query, never both.
        SELECT reg.region_no, edges.*
        FROM run
        JOIN ONLY dbanon.region reg ON reg.run_id = run.run_id AND reg.region_no IN (SELECT shown.region_no FROM shown)
        CROSS JOIN LATERAL (SELECT @postgis@.Box3D(reg.region) AS box) ext
        CROSS JOIN LATERAL (SELECT
            round(@postgis@.ST_XMin(ext.box) / run.grid_m) AS x0, round(@postgis@.ST_YMin(ext.box) / run.grid_m) AS y0,
            round(@postgis@.ST_XMax(ext.box) / run.grid_m) AS x1, round(@postgis@.ST_YMax(ext.box) / run.grid_m) AS y1) edges
    ), extent AS MATERIALIZED (
        -- Of what is shown: the dataset may hold other evenings, of people elsewhere.
        SELECT min(bou.x0) AS x0, min(bou.y0) AS y0, max(bou.x1) - min(bou.x0) AS wide, max(bou.y1) - min(bou.y0) AS high
        FROM bounded bou
    ), rectangle AS MATERIALIZED (
        SELECT cor.x0, cor.y0, cor.x0 + size.wide AS x1, cor.y0 + size.high AS y1, row_number() OVER () AS no
        FROM extent
        CROSS JOIN random
        -- Sides up to a tenth of the extent's, anywhere in it.
        CROSS JOIN LATERAL (SELECT 1 + floor(random.u[1] * 0.1 * extent.wide) AS wide, 1 + floor(random.u[2] * 0.1 * extent.high) AS high) size
        CROSS JOIN LATERAL (SELECT
            extent.x0 + floor(random.u[3] * (extent.wide - size.wide + 1)) AS x0,
            extent.y0 + floor(random.u[4] * (extent.high - size.high + 1)) AS y0) cor
    ), box AS MATERIALIZED (
        SELECT bou.*, floor((bou.x0 - extent.x0) * 20 / extent.wide) AS column0, floor((bou.x1 - 1 - extent.x0) * 20 / extent.wide) AS column1,
            floor((bou.y0 - extent.y0) * 20 / extent.high) AS row0, floor((bou.y1 - 1 - extent.y0) * 20 / extent.high) AS row1
        FROM extent
        CROSS JOIN bounded bou
    ), tile AS MATERIALIZED (
        -- The tiles, 20 times 20 over all, that each rectangle reaches into.
        SELECT rect.*, col.no AS in_column, lin.no AS in_row
        FROM extent
        CROSS JOIN rectangle rect
        CROSS JOIN LATERAL generate_series(floor((rect.x0 - extent.x0) * 20 / extent.wide)::integer,
                                           floor((rect.x1 - 1 - extent.x0) * 20 / extent.wide)::integer) col (no)
        CROSS JOIN LATERAL generate_series(floor((rect.y0 - extent.y0) * 20 / extent.high)::integer,
                                           floor((rect.y1 - 1 - extent.y0) * 20 / extent.high)::integer) lin (no)
    ), hit AS MATERIALIZED (
        -- Most regions are cells, and lie in one tile; the others are compared with all rectangles.
        SELECT box.region_no, tile.no, box.x0 >= tile.x0 AND box.x1 <= tile.x1 AND box.y0 >= tile.y0 AND box.y1 <= tile.y1 AS within
        FROM box
        JOIN tile ON tile.in_column = box.column0 AND tile.in_row = box.row0
        WHERE box.column0 = box.column1 AND box.row0 = box.row1 AND tile.x0 < box.x1 AND tile.x1 > box.x0 AND tile.y0 < box.y1 AND tile.y1 > box.y0
        UNION ALL
        SELECT box.region_no, rect.no, box.x0 >= rect.x0 AND box.x1 <= rect.x1 AND box.y0 >= rect.y0 AND box.y1 <= rect.y1
        FROM box
        JOIN rectangle rect ON rect.x0 < box.x1 AND rect.x1 > box.x0 AND rect.y0 < box.y1 AND rect.y1 > box.y0
        WHERE box.column0 <> box.column1 OR box.row0 <> box.row1
    ), counted AS MATERIALIZED (
        SELECT shown.period_no, hit.no, sum(shown.rows) AS possibly, sum(shown.rows) FILTER (WHERE hit.within) AS definitely
        FROM shown
        JOIN hit ON hit.region_no = shown.region_no
        GROUP BY shown.period_no, hit.no
    )
    SELECT date_part('epoch', lower(per.period)), rect.x0 * run.grid_m, rect.y0 * run.grid_m, rect.x1 * run.grid_m, rect.y1 * run.grid_m,
        coalesce(counted.possibly, 0)::bigint, coalesce(counted.definitely, 0)::bigint
    FROM run
    CROSS JOIN instant
    CROSS JOIN generate_series(1, instant.times) again
    JOIN ONLY dbanon.period per ON per.run_id = run.run_id AND per.period_no = instant.period_no
    CROSS JOIN rectangle rect
    LEFT JOIN counted ON counted.period_no = instant.period_no AND counted.no = rect.no
$$;
COMMENT ON FUNCTION dbanon_internal.gather_query_evidence IS
'How many rows of a run are possibly and definitely inside random rectangles at random instants: 100 times 100 queries, the same for every
run that covers the same area and time.';
