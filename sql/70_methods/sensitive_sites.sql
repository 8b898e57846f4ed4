-- What PostGIS gathers for sensitive-sites alone: the sites and rows its attack looks at.

CREATE OR REPLACE FUNCTION dbanon_internal.site_evidence(run_id bigint) RETURNS TABLE (
    site_id bigint, xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    lower_s double precision, upper_s double precision, cloaked boolean, rows bigint, squared_cells double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- The rows were just written and no statistics know of them. Each distinct exact region asks the index on the sites' geometry
-- once, whatever the planner takes the tables for; `IS TRUE` keeps the list of places from becoming a join.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_material = off
SET enable_sort = off
SET enable_nestloop = on
SET enable_indexscan = on
SET jit = off
SET work_mem = '128MB'
AS $$
    -- The spatial join of the attack: who is nearest to each site. Every site's rectangle holds it, so the least distance is
    -- 0 or the attack refuses; no person further away has to be looked for, but for exact rows that the guard keeps away.
    WITH run AS MATERIALIZED (
        SELECT r.run_id, r.dataset_id, d.srid, d.grid_m,
            CASE pg_catalog.jsonb_typeof(r.params -> 'guard_m')
                WHEN 'number' THEN greatest(least((r.params ->> 'guard_m')::numeric, 1e12), 0)::double precision
                ELSE 0 END AS guard_m
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE r.run_id = site_evidence.run_id
    ), place AS MATERIALIZED (
        -- The first site stands for all in its cells: there may be thousands, and as many rectangles that hold them.
        SELECT min(s.site_id) AS site_id, g.x0, g.y0, g.x1, g.y1
        FROM run
        JOIN ONLY dbanon.site s ON s.dataset_id = run.dataset_id
        CROSS JOIN LATERAL @postgis@.Box3D(s.geom) c
        CROSS JOIN LATERAL (SELECT
            floor(@postgis@.ST_XMin(c) / run.grid_m) AS x0, floor(@postgis@.ST_YMin(c) / run.grid_m) AS y0,
            floor(@postgis@.ST_XMax(c) / run.grid_m) AS x1, floor(@postgis@.ST_YMax(c) / run.grid_m) AS y1) g
        GROUP BY g.x0, g.y0, g.x1, g.y1
    ), places AS MATERIALIZED (
        SELECT max(p.x1 - p.x0) AS widest, array_agg(p.site_id ORDER BY p.x0, p.site_id) AS site_id,
            array_agg(p.x0 ORDER BY p.x0, p.site_id) AS x0, array_agg(p.y0 ORDER BY p.x0, p.site_id) AS y0,
            array_agg(p.x1 ORDER BY p.x0, p.site_id) AS x1, array_agg(p.y1 ORDER BY p.x0, p.site_id) AS y1
        FROM place p
    ), published AS MATERIALIZED (
        SELECT g.*, @postgis@.Box3D(g.region) AS box
        FROM (
            -- Geometries are equal here if all their bytes are: what an analyst can distinguish is not shared.
            SELECT u.region, u.period, coalesce(u.extra -> 'cloaked' = 'true', false) AS cloaked, sum(u.rows)::bigint AS rows
            FROM run
            CROSS JOIN LATERAL dbanon_internal.shown_regions(run.run_id) u
            GROUP BY u.region, u.period, coalesce(u.extra -> 'cloaked' = 'true', false)
        ) g
    ), bounded AS MATERIALIZED (
        SELECT p.period, p.cloaked, p.rows, run.grid_m, run.guard_m, run.srid, b.*,
            -- Indices of the cells at both ends.
            round(b.xmin / run.grid_m) AS x0, round(b.ymin / run.grid_m) AS y0,
            round(b.xmax / run.grid_m) - 1 AS x1, round(b.ymax / run.grid_m) - 1 AS y1
        FROM run
        CROSS JOIN published p
        CROSS JOIN LATERAL (SELECT
            @postgis@.ST_XMin(p.box) AS xmin, @postgis@.ST_YMin(p.box) AS ymin,
            @postgis@.ST_XMax(p.box) AS xmax, @postgis@.ST_YMax(p.box) AS ymax) b
    )
    -- Rectangles, of which there are no more than sites: of the places in the order of x those between the sides.
    SELECT p.site_id[n], b.xmin, b.ymin, b.xmax, b.ymax,
        date_part('epoch', lower(b.period)), date_part('epoch', upper(b.period)), b.cloaked, b.rows, 0
    FROM bounded b
    CROSS JOIN places p
    CROSS JOIN LATERAL generate_series(width_bucket(b.x0 - p.widest - 0.5, p.x0) + 1, width_bucket(b.x1, p.x0)) n
    WHERE b.cloaked AND p.x1[n] >= b.x0 AND p.y1[n] >= b.y0 AND p.y0[n] <= b.y1
    UNION ALL
    SELECT s.site_id, b.xmin, b.ymin, b.xmax, b.ymax,
        date_part('epoch', lower(b.period)), date_part('epoch', upper(b.period)), b.cloaked, b.rows, d.squared
    FROM bounded b
    -- A cell more: which cell a border belongs to is decided below.
    JOIN ONLY dbanon.site s ON s.geom OPERATOR(@postgis@.&&) @postgis@.ST_MakeEnvelope(
            b.xmin - b.guard_m - b.grid_m, b.ymin - b.guard_m - b.grid_m, b.xmax + b.guard_m + b.grid_m, b.ymax + b.guard_m + b.grid_m, b.srid)
        AND (s.site_id IN (SELECT p.site_id FROM place p)) IS TRUE
    -- How many cells lie from one rectangle to the other.
    CROSS JOIN LATERAL (SELECT
        greatest(0, b.x0 - floor(@postgis@.ST_XMax(@postgis@.Box3D(s.geom)) / b.grid_m),
                 floor(@postgis@.ST_XMin(@postgis@.Box3D(s.geom)) / b.grid_m) - b.x1) AS dx,
        greatest(0, b.y0 - floor(@postgis@.ST_YMax(@postgis@.Box3D(s.geom)) / b.grid_m),
                 floor(@postgis@.ST_YMin(@postgis@.Box3D(s.geom)) / b.grid_m) - b.y1) AS dy) g
    CROSS JOIN LATERAL (SELECT g.dx * g.dx + g.dy * g.dy AS squared) d
    WHERE NOT b.cloaked AND (d.squared = 0 OR sqrt(d.squared) * b.grid_m < b.guard_m)
$$;
COMMENT ON FUNCTION dbanon_internal.site_evidence(bigint) IS
'Definition 1''s spatial join on the rows of a run: who an adversary finds nearest to each sensitive site; of sites in the same cells to
the first.';
