-- What belongs to sensitive-sites alone: the evidence of sites for its attack, and its part of a plan.

CREATE OR REPLACE FUNCTION dbanon_internal.site_evidence(run_id bigint) RETURNS TABLE (
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
            SELECT u.region, u.period, coalesce(u.extra -> 'cloaked' = 'true', false) AS cloaked, sum(u.rows)::bigint AS rows
            FROM run
            CROSS JOIN LATERAL dbanon_internal.shown_regions(run.run_id) u
            GROUP BY u.region, u.period, coalesce(u.extra -> 'cloaked' = 'true', false)
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
COMMENT ON FUNCTION dbanon_internal.site_evidence(bigint) IS
'Definition 1''s spatial join on the rows of a run: who an adversary finds nearest to each sensitive site. Takes: run_id.
Returns: for each site of the run''s dataset and each distinct (region, period, cloaked) among the rows whose cells are at
distance 0 from the site''s, or nearer than the run''s guard_m if they are not cloaked: site_id, bounds of the region in metres,
period in unix seconds (lower_s, upper_s), cloaked, rows: how many have it, and squared_cells: the squared distance in cells; in
no order. Raises: nothing of its own. Example: SELECT site_id, sum(rows) FROM dbanon_internal.site_evidence(1)
WHERE squared_cells = 0 GROUP BY site_id.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_sensitive_sites(about jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon_internal.plan_rates() -> 'limits';
    params CONSTANT jsonb := about -> 'params';
    algorithm CONSTANT text := about ->> 'algorithm';
    -- More than there can be people is as much as any such number.
    k CONSTANT bigint := least((params ->> 'k')::numeric, 10 ^ 15);
    grid_s CONSTANT integer := about ->> 'grid_s';
    grid_m CONSTANT double precision := about ->> 'grid_m';
    at_s CONSTANT bigint := params ->> 'at';
    subjects CONSTANT bigint := about ->> 'subjects';
    users bigint := about ->> 'subjects';
    sites bigint;
    box @postgis@.box3d;
    cells double precision[];
    exact boolean := true;
    fails jsonb;
BEGIN
    IF at_s % grid_s <> 0 THEN
        fails := jsonb_build_object('code', 2, 'sure', true, 'sentence', format(
            'The ''at'' parameter of sensitive-sites must be a multiple of the dataset''s grid_s, %s s. Got another time; choose the '
            'start of a slot.', grid_s));
    ELSIF at_s IS NULL AND (about ->> 'fixes')::bigint > subjects THEN
        fails := jsonb_build_object('code', 2, 'sentence', format(
            'Every subject must have one fix, or the ''at'' parameter must say at which instant to look. Got %s fixes of %s subjects; '
            'give the ''at'' parameter.', about ->> 'fixes', subjects));
    END IF;
    IF fails IS NOT NULL THEN
        RETURN fails;
    END IF;
    IF at_s IS NOT NULL THEN
        exact := (about ->> 'share')::double precision >= 1;
        SELECT coalesce(round(sum(w.seen) * subjects / nullif((about ->> 'looked_at')::numeric, 0)), 0) INTO users
        FROM dbanon_internal.plan_windows((about ->> 'dataset_id')::bigint, (about ->> 'share')::double precision, grid_s, at_s, grid_s, 1, 1,
                                 'last', (params ->> 'max_gap_s')::integer) w;
    END IF;
    SELECT count(*), @postgis@.Box3D(@postgis@.ST_Extent(s.geom)) INTO sites, box
    FROM ONLY dbanon.site s
    WHERE s.dataset_id = (about ->> 'dataset_id')::bigint;
    cells := ARRAY[
        floor(greatest((about ->> 'xmax')::double precision, @postgis@.ST_XMax(box)) / grid_m)
            - floor(least((about ->> 'xmin')::double precision, @postgis@.ST_XMin(box)) / grid_m) + 1,
        floor(greatest((about ->> 'ymax')::double precision, @postgis@.ST_YMax(box)) / grid_m)
            - floor(least((about ->> 'ymin')::double precision, @postgis@.ST_YMin(box)) / grid_m) + 1];
    -- In the order in which the run looks.
    IF sites = 0 THEN
        fails := jsonb_build_object('code', 3, 'sure', true, 'sentence',
            'The dataset must have sensitive sites. Got none; load some first.');
    ELSIF greatest(cells[1], cells[2]) > (limits ->> 'cells')::double precision THEN
        fails := jsonb_build_object('code', 3, 'sentence', format(
            'Users and sites must lie within 2^30 cells of one another. Got %s cells. Keep wild ones out when loading trajectories '
            'and sites: drop outliers, or keep to a box.', dbanon_internal.plan_figure(greatest(cells[1], cells[2]))));
    ELSIF cells[1] * cells[2] * sites > (limits ->> 'domain')::double precision THEN
        fails := jsonb_build_object('code', 3, 'sentence', format(
            'Users and sites must span fewer than 2^62 cells, times sites. Got %s cells; keep wild positions out when loading, or load '
            'with a coarser grid_m.', dbanon_internal.plan_figure(cells[1] * cells[2])));
    END IF;
    IF sites > 0 AND fails IS NOT NULL AND at_s IS NOT NULL THEN  -- the bounds are of all fixes; the snapshot's may be smaller
        fails := fails || jsonb_build_object('code', 0, 'may', fails -> 'code');
    ELSIF fails IS NULL THEN
        fails := dbanon_internal.plan_site_users(algorithm, k, users, subjects - users, sites);
    END IF;
    RETURN coalesce(fails, '{}') || jsonb_build_object('items', jsonb_build_array(
            jsonb_build_array('users', users, exact, CASE WHEN at_s IS NULL THEN 'one fix each'
                ELSE format('at %s', to_char(to_timestamp(at_s) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')) END),
            jsonb_build_array('absent_at_instant', subjects - users, exact, 'suppressed: no position then'),
            jsonb_build_array('users_cloaked', k * sites, false, format(
                'k = %s for each of %s sites, and those who stand on one or are guarded', k, sites))),
        'rows', users, 'rows_most', users, 'rows_exact', exact AND algorithm <> 'local', 'members', users, 'requests', 0,
        'positions', users, 'hidden', CASE WHEN algorithm = 'bk' AND (params ->> 'improve')::boolean THEN k * sites ELSE 0 END,
        'extra', k * sites * (dbanon_internal.plan_rates() #>> '{stored,cloaked}')::numeric,
        'extra_most', users * (dbanon_internal.plan_rates() #>> '{stored,cloaked}')::numeric,
        'too_long', 'use fewer instants or a shorter time.');
END
$$;
COMMENT ON FUNCTION dbanon_internal.plan_sensitive_sites(jsonb) IS
'What a run of sensitive-sites would meet. Takes: about, as dbanon_internal.plan_tp_aware does. Returns: an object of the same kind.
Raises: nothing. Example: called by dbanon.plan_run.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_site_users(algorithm text, k bigint, users bigint, absent bigint, sites bigint)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon_internal.plan_rates() -> 'limits';
BEGIN
    IF algorithm IN ('bk', 'knn') AND users < k * sites THEN
        RETURN jsonb_build_object('code', 4, 'sentence', format(
            '%s must have k = %s users of its own for each of %s sites, %s in all. Got %s.%s Lower k, leave out sites, or load more users.',
            algorithm, k, sites, k * sites, users, CASE WHEN absent > 0 THEN format(
                ' %s more have no position at that instant: choose another, or raise max_gap_s.', absent) ELSE '' END));
    ELSIF algorithm = 'mk' AND users < (2 * k - 1) * sites THEN
        RETURN jsonb_build_object('code', CASE WHEN users < k * sites THEN 4 ELSE 0 END, 'may', 4, 'sentence', format(
            'mk must make a group of k = %s users or more for each of %s sites. It can make at most %s of %s users. Lower k, leave out '
            'sites, or use another algorithm.', k, sites, users / k, users));
    ELSIF algorithm = 'local' THEN
        IF users > (limits ->> 'local_users')::bigint OR sites > (limits ->> 'local_sites')::bigint THEN
            RETURN jsonb_build_object('code', 2, 'sentence', format(
                'local, which is for comparison, must have at most %s users and %s sites. Got %s and %s; use bk.',
                limits ->> 'local_users', limits ->> 'local_sites', users, sites));
        END IF;
        RETURN jsonb_build_object('code', CASE WHEN users < k THEN 4 ELSE 5 END, 'may', 4, 'sentence', format(
            'local must find k = %s users for each of %s sites. It has %s users. Lower k, leave out sites, or load more users.',
            k, sites, users));
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.plan_site_users(text, bigint, bigint, bigint, bigint) IS
'Whether an algorithm of sensitive-sites has what it needs. Takes: algorithm; k; users with a position; absent, those
without; sites. Returns: NULL where it has, else an object: code and sentence of what it would fail with; may, where it
depends on places. Raises: nothing. Example: SELECT dbanon_internal.plan_site_users(''bk'', 5, 7, 0, 2).';
