-- What an attack is given: the stored rows of a run, in bulk, as plain numbers. The functions but the last are single
-- SELECTs without settings of their own, so that the planner inlines them; their names are bound when they are made.

CREATE OR REPLACE FUNCTION dbanon.cloak_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, seq integer, lower_s double precision, upper_s double precision,
    xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    rectangle boolean, srid integer, crowd integer, subjects integer, other_keys integer, cloaked smallint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT
        c.record_id, c.seq,
        pg_catalog.date_part('epoch', pg_catalog.lower(c.period)),
        pg_catalog.date_part('epoch', pg_catalog.upper(c.period)),
        -- Box3D is what ST_XMin takes: a call that needs no cast cannot be caught by somebody's own ST_XMin(geometry).
        @postgis@.ST_XMin(@postgis@.Box3D(c.region)), @postgis@.ST_YMin(@postgis@.Box3D(c.region)),
        @postgis@.ST_XMax(@postgis@.Box3D(c.region)), @postgis@.ST_YMax(@postgis@.Box3D(c.region)),
        -- In the order of corners that dbanon writes, counter-clockwise: another order would mark a row among its like.
        @postgis@.GeometryType(c.region) = 'POLYGON' AND @postgis@.ST_CoordDim(c.region) = 2
            AND @postgis@.ST_OrderingEquals(c.region, @postgis@.ST_Reverse(@postgis@.ST_Envelope(c.region))),
        @postgis@.ST_SRID(c.region), c.crowd, c.subjects,
        CASE WHEN c.extra IS NULL THEN 0
             ELSE (SELECT pg_catalog.count(*)::integer FROM pg_catalog.jsonb_object_keys(c.extra - own.names)) END,
        (CASE c.extra -> 'cloaked' WHEN 'true' THEN 1 WHEN 'false' THEN 0
             ELSE CASE WHEN c.extra ? 'cloaked' THEN -1 ELSE 0 END END)::smallint
    FROM (
        SELECT r.run_id, ARRAY(SELECT k ->> 'name' FROM pg_catalog.jsonb_array_elements(m.columns) k) AS names
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.method m ON m.name = r.method
        WHERE r.run_id = cloak_evidence.run_id
    ) own
    JOIN ONLY dbanon.cloak c ON c.run_id = own.run_id;
END;
COMMENT ON FUNCTION dbanon.cloak_evidence(bigint) IS
'The cloaks of a run as numbers. Takes: run_id. Returns: for each cloak its record_id, seq, period in unix seconds (lower_s,
upper_s), bounds in metres, rectangle (the region is exactly its own envelope), srid, crowd, subjects, other_keys: how
many keys of extra are no columns of the method, and cloaked: 1 where extra -> cloaked is true, 0 where it is false or not
there, -1 where it is anything else; in no order. Raises: nothing. Example:
SELECT count(*) FROM dbanon.cloak_evidence(1) WHERE NOT rectangle.';

CREATE OR REPLACE FUNCTION dbanon.membership_evidence(run_id bigint) RETURNS TABLE (
    record_id bigint, trajectory_id bigint, whole boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT m.record_id, m.trajectory_id, m.period IS NULL
    FROM ONLY dbanon.membership m
    WHERE m.run_id = membership_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon.membership_evidence(bigint) IS
'Whose data each record of a run carries. Takes: run_id. Returns: record_id, trajectory_id, and whole: true where the
trajectory belongs to the record for all its time; in no order, duplicates included. Raises: nothing. Example:
SELECT record_id, count(*) FROM dbanon.membership_evidence(1) GROUP BY record_id.';

CREATE OR REPLACE FUNCTION dbanon.request_evidence(run_id bigint) RETURNS TABLE (
    published boolean, record_id bigint, seq integer, subject text, t double precision, content text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT true, o.record_id, o.seq, NULL::text, NULL::double precision, o.content
    FROM (SELECT c.record_id, c.seq, e.value::text AS content
    FROM ONLY dbanon.cloak c
    -- A value that is no array becomes an array inside an array: no request looks like that, so the attack refuses it.
    CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(
        CASE pg_catalog.jsonb_typeof(c.extra -> 'requests')
            WHEN 'array' THEN c.extra -> 'requests'
            ELSE pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array(c.extra -> 'requests'))
        END) WITH ORDINALITY e
    WHERE c.run_id = request_evidence.run_id AND c.extra ? 'requests'
    ORDER BY c.record_id, c.seq, e.ordinality) o  -- the attack looks at the order within a row
    UNION ALL
    SELECT false, NULL, NULL, q.subject, pg_catalog.date_part('epoch', q.sent_at), q.content::text
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.request q ON q.dataset_id = r.dataset_id
    WHERE r.run_id = request_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon.request_evidence(bigint) IS
'The requests a run would publish beside those its dataset holds. Takes: run_id. Returns: published true: one row for each
element of extra -> requests, with record_id, seq and content; published false: one row for each request of the dataset,
with subject, t in unix seconds and content (a JSON text in the database''s own form); duplicates included. Raises: nothing.
Example: SELECT published, count(*) FROM dbanon.request_evidence(1) GROUP BY published.';

CREATE OR REPLACE FUNCTION dbanon.site_evidence(run_id bigint) RETURNS TABLE (
    site_id bigint, xmin double precision, ymin double precision, xmax double precision, ymax double precision,
    lower_s double precision, upper_s double precision, cloaked boolean, rows bigint, squared_cells double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- The rows were just written and no statistics know of them. Each distinct region asks the index on the sites' geometry
-- once, whatever the planner takes the tables for; `+ 0` keeps the index on dataset_id out of it.
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
    -- 0 or the attack refuses; nobody further away has to be looked for, but for exact rows that the guard keeps away.
    WITH run AS MATERIALIZED (
        SELECT r.run_id, r.dataset_id, d.srid, d.grid_m,
            CASE pg_catalog.jsonb_typeof(r.params -> 'guard_m')
                WHEN 'number' THEN greatest(least((r.params ->> 'guard_m')::numeric, 1e12), 0)::double precision
                ELSE 0 END AS guard_m
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        WHERE r.run_id = site_evidence.run_id
    ), published AS MATERIALIZED (
        SELECT g.*, @postgis@.Box3D(g.region) AS box
        FROM (
            -- Geometries are equal here if all their bytes are: what an analyst can tell apart is not shared.
            SELECT c.region, c.period, coalesce(c.extra -> 'cloaked' = 'true', false) AS cloaked, count(*) AS rows
            FROM run
            JOIN ONLY dbanon.cloak c ON c.run_id = run.run_id
            GROUP BY c.region, c.period, coalesce(c.extra -> 'cloaked' = 'true', false)
        ) g
    ), bounded AS MATERIALIZED (
        SELECT p.period, p.cloaked, p.rows, run.dataset_id, run.grid_m, b.*,
            g.guard_m,
            -- A cell more: which cell a border belongs to is decided below.
            @postgis@.ST_MakeEnvelope(b.xmin - g.guard_m - run.grid_m, b.ymin - g.guard_m - run.grid_m,
                                      b.xmax + g.guard_m + run.grid_m, b.ymax + g.guard_m + run.grid_m, run.srid) AS near
        FROM run
        CROSS JOIN published p
        CROSS JOIN LATERAL (SELECT
            @postgis@.ST_XMin(p.box) AS xmin, @postgis@.ST_YMin(p.box) AS ymin,
            @postgis@.ST_XMax(p.box) AS xmax, @postgis@.ST_YMax(p.box) AS ymax) b
        CROSS JOIN LATERAL (SELECT CASE WHEN p.cloaked THEN 0 ELSE run.guard_m END AS guard_m) g
    )
    SELECT s.site_id, b.xmin, b.ymin, b.xmax, b.ymax,
        date_part('epoch', lower(b.period)), date_part('epoch', upper(b.period)), b.cloaked, b.rows, d.squared
    FROM bounded b
    JOIN ONLY dbanon.site s ON s.geom OPERATOR(@postgis@.&&) b.near AND s.dataset_id + 0 = b.dataset_id
    -- Indices of the cells at both ends, and how many lie from one rectangle to the other.
    CROSS JOIN LATERAL (SELECT
        greatest(0, round(b.xmin / b.grid_m) - floor(@postgis@.ST_XMax(@postgis@.Box3D(s.geom)) / b.grid_m),
                 floor(@postgis@.ST_XMin(@postgis@.Box3D(s.geom)) / b.grid_m) - round(b.xmax / b.grid_m) + 1) AS dx,
        greatest(0, round(b.ymin / b.grid_m) - floor(@postgis@.ST_YMax(@postgis@.Box3D(s.geom)) / b.grid_m),
                 floor(@postgis@.ST_YMin(@postgis@.Box3D(s.geom)) / b.grid_m) - round(b.ymax / b.grid_m) + 1) AS dy) g
    CROSS JOIN LATERAL (SELECT g.dx * g.dx + g.dy * g.dy AS squared) d
    WHERE d.squared = 0 OR sqrt(d.squared) * b.grid_m < b.guard_m
$$;
COMMENT ON FUNCTION dbanon.site_evidence(bigint) IS
'Definition 1''s spatial join on the rows of a run: who an adversary finds nearest to each sensitive site. Takes: run_id.
Returns: for each site of the run''s dataset and each distinct (region, period, cloaked) among the rows whose cells are at
distance 0 from the site''s, or nearer than the run''s guard_m if they are not cloaked: site_id, bounds of the region in metres,
period in unix seconds (lower_s, upper_s), cloaked, rows: how many have it, and squared_cells: the squared distance in cells; in
no order. Raises: nothing of its own. Example: SELECT site_id, sum(rows) FROM dbanon.site_evidence(1)
WHERE squared_cells = 0 GROUP BY site_id.';
