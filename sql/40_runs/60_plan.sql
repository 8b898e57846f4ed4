-- What a run would meet, said without writing anything. Presence is counted by docs/decisions.md, "Alignment is written down
-- to the last detail": on all subjects where they are few, else on those whose names have a small hash.

CREATE OR REPLACE FUNCTION dbanon_internal.plan_rates() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- The limits are those of the methods and of the store (a test compares them). Microseconds and bytes are those of whole
    -- verified runs on two cores (benchmarks/RESULTS.md, "What a plan foretells"), nothing to compile, without publishing:
    -- `fixed` what any run takes; by fix read; by position, one subject at one instant; by row written and attacked; by request;
    -- by user hidden with a site.
    SELECT '{
        "looked_at": {"subjects": 5000, "fixes": 2000000},
        "limits": {"time_s": 100000000000, "windows": 100000, "cells": 1073741824, "domain": 4611686018427387904,
                   "local_users": 100000, "local_sites": 500, "bytes": 53687091200},
        "stored": {"row": 260, "member": 90, "requests": 14, "cloaked": 17},
        "crowd": 1.11,
        "tp-aware": {"fixed_s": 0.5, "fix_us": 0.6, "position_us": 0.1, "row_us": 8.5, "request_us": 2, "hidden_us": 0,
                     "fixed_mb": 285, "fix_b": 60, "position_b": 4, "row_b": 270, "request_b": 80, "hidden_b": 0},
        "sensitive-sites": {"fixed_s": 0.5, "fix_us": 0.3, "position_us": 0, "row_us": 17, "request_us": 0, "hidden_us": 25,
                            "fixed_mb": 285, "fix_b": 30, "position_b": 0, "row_b": 400, "request_b": 0, "hidden_b": 0}
    }'::jsonb
$$;
COMMENT ON FUNCTION dbanon_internal.plan_rates() IS
'The limits and rates that plans are made with.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_looks_at(subject text, share double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- A hash has 64 bits, from -2^63 on.
    SELECT share >= 1 OR pg_catalog.hashtextextended(subject COLLATE "C", 0)::double precision + 2.0 ^ 63 < share * 2.0 ^ 64;
END;
COMMENT ON FUNCTION dbanon_internal.plan_looks_at(text, double precision) IS
'Whether a plan that looks at a share of the subjects looks at this one; a single SELECT, so that the planner inlines
it.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_read(dataset_id bigint) RETURNS TABLE (
    trajectories bigint, subjects bigint, fixes bigint, first_s double precision, last_s double precision, wild bigint,
    xmin double precision, ymin double precision, xmax double precision, ymax double precision)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
    SELECT a.trajectories,
        (SELECT count(*) FROM (SELECT FROM ONLY dbanon.trajectory t WHERE t.dataset_id = plan_read.dataset_id GROUP BY t.subject) s),
        a.fixes, a.first_s, a.last_s,
        CASE WHEN greatest(-a.first_s, a.last_s) > l.time_s THEN
            (SELECT count(*) FROM ONLY dbanon.trajectory t CROSS JOIN LATERAL @postgis@.ST_DumpPoints(t.path) p
             WHERE t.dataset_id = plan_read.dataset_id AND abs(@postgis@.ST_M(p.geom)) > l.time_s)
        ELSE 0 END,
        @postgis@.ST_XMin(a.box), @postgis@.ST_YMin(a.box), @postgis@.ST_XMax(a.box), @postgis@.ST_YMax(a.box)
    FROM (
        SELECT count(*) AS trajectories, coalesce(sum(@postgis@.ST_NPoints(t.path)), 0)::bigint AS fixes,
            -- Times of a path ascend.
            min(@postgis@.ST_M(CASE @postgis@.ST_NPoints(t.path) WHEN 1 THEN t.path ELSE @postgis@.ST_StartPoint(t.path) END))
                AS first_s,
            max(@postgis@.ST_M(CASE @postgis@.ST_NPoints(t.path) WHEN 1 THEN t.path ELSE @postgis@.ST_EndPoint(t.path) END))
                AS last_s,
            @postgis@.Box3D(@postgis@.ST_Extent(coalesce(t.shape, t.path))) AS box
        FROM ONLY dbanon.trajectory t
        WHERE t.dataset_id = plan_read.dataset_id
    ) a
    CROSS JOIN (SELECT (dbanon_internal.plan_rates() #>> '{limits,time_s}')::double precision AS time_s) l
$$;
COMMENT ON FUNCTION dbanon_internal.plan_read(bigint) IS
'How much a run would read, in one pass over the trajectories.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_figure(value double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT CASE WHEN value < 1000 THEN round(value::numeric)::text
                ELSE regexp_replace(trim(to_char(value, '9.99EEEE')), '\.?0*e', 'e') END
$$;
COMMENT ON FUNCTION dbanon_internal.plan_figure(double precision) IS
'A large number with three digits, as runs write it in their sentences.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_cost(method text, work jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        's', (r.rates ->> 'fixed_s')::numeric + sum((r.rates ->> (w.key || '_us'))::numeric * w.value::numeric) / 1e6,
        'mb', (r.rates ->> 'fixed_mb')::numeric + sum((r.rates ->> (w.key || '_b'))::numeric * w.value::numeric) / 1e6)
    FROM (SELECT dbanon_internal.plan_rates() -> plan_cost.method AS rates) r
    CROSS JOIN jsonb_each_text(plan_cost.work) w
    GROUP BY r.rates
$$;
COMMENT ON FUNCTION dbanon_internal.plan_cost(text, jsonb) IS
'Seconds and memory of a run by dbanon_internal.plan_rates.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_earlier(method text, algorithm text, dataset_id bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object('run_id', r.run_id, 'dataset_id', r.dataset_id, 's', r.s, 'mb', r.peak_rss_mb, 'crowd', r.crowd,
        'work', jsonb_build_object(
            'position', coalesce(w.positions, r.users), 'row', coalesce(round(w.published * r.bundles / nullif(r.shown, 0)), r.users),
            'request', coalesce((r.metrics ->> 'requests_total')::bigint, 0),
            'hidden', CASE WHEN r.algorithm = 'bk' AND (r.params ->> 'improve')::boolean THEN (r.params ->> 'k')::bigint
                           * (r.metrics ->> 'sites')::bigint ELSE 0 END))
    FROM (
        SELECT x.*, (x.metrics ->> 'bundles')::numeric AS bundles, (x.metrics ->> 'users')::numeric AS users,
            (x.metrics ->> 'subject_windows_published')::numeric AS shown,
            (x.metrics ->> 'subject_windows_published')::numeric
                / nullif((x.metrics ->> 'bundles')::numeric * (x.params ->> 'k')::numeric, 0) AS crowd,
            (x.timings ->> 'total_s')::numeric - coalesce((x.timings ->> 'compile_s')::numeric, 0) AS s
        FROM ONLY dbanon.run x
        WHERE x.method = plan_earlier.method AND x.algorithm = plan_earlier.algorithm AND x.status = 'verified'
            AND x.timings ? 'total_s' AND x.peak_rss_mb > 0
        -- Of other datasets the longest: it says most about how long anything takes.
        ORDER BY x.dataset_id = plan_earlier.dataset_id DESC,
            CASE WHEN x.dataset_id <> plan_earlier.dataset_id THEN (x.timings ->> 'total_s')::numeric END DESC, x.run_id DESC
        LIMIT 1
    ) r
    CROSS JOIN LATERAL (
        SELECT sum((w ->> 'seen')::bigint * (w ->> 'instants')::bigint) AS positions,
            sum((w ->> 'published')::bigint * (w ->> 'instants')::bigint) AS published
        FROM jsonb_array_elements(CASE jsonb_typeof(r.suppressed -> 'windows') WHEN 'array' THEN r.suppressed -> 'windows'
                                  ELSE '[]' END) w
    ) w
$$;
COMMENT ON FUNCTION dbanon_internal.plan_earlier(text, text, bigint) IS
'The verified run that a plan is compared with: of this method and algorithm the latest on this dataset, else the
longest on another.';

CREATE OR REPLACE FUNCTION dbanon.plan_run(dataset text, method text, params jsonb DEFAULT '{}', algorithm text DEFAULT NULL)
RETURNS TABLE (item text, value numeric, exact boolean, note text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rates CONSTANT jsonb := dbanon_internal.plan_rates();
    checked jsonb;
    chosen CONSTANT text := dbanon_internal.checked_algorithm(method, algorithm);
    about jsonb;
    data record;
    read record;
    share double precision := 1;
    looked_at bigint;
    earlier jsonb;
    outcome jsonb;
    cost jsonb;
    before jsonb;
    scale numeric;
    bytes numeric;
    bytes_most numeric;
    largest CONSTANT numeric := rates #>> '{limits,bytes}';
    code integer;
    told text;
BEGIN
    data := dbanon_internal.known_dataset(plan_run.dataset);
    checked := dbanon_internal.check_params(method, chosen, params);

    SELECT * INTO read FROM dbanon_internal.plan_read(data.dataset_id);
    looked_at := read.subjects;
    IF (read.subjects > (rates #>> '{looked_at,subjects}')::bigint OR read.fixes > (rates #>> '{looked_at,fixes}')::bigint)
            AND (plan_run.method <> 'sensitive-sites' OR checked ->> 'at' IS NOT NULL) THEN
        share := least((rates #>> '{looked_at,subjects}')::double precision / read.subjects,
                       (rates #>> '{looked_at,fixes}')::double precision / read.fixes);
        SELECT count(DISTINCT t.subject COLLATE "C") INTO looked_at
        FROM ONLY dbanon.trajectory t WHERE t.dataset_id = data.dataset_id AND dbanon_internal.plan_looks_at(t.subject, share);
        IF looked_at = 0 THEN  -- a few subjects with very many fixes
            share := 1;
            looked_at := read.subjects;
        END IF;
    END IF;
    earlier := dbanon_internal.plan_earlier(plan_run.method, chosen, data.dataset_id);
    about := to_jsonb(read) || jsonb_build_object('dataset_id', data.dataset_id, 'grid_s', data.grid_s, 'grid_m', data.grid_m,
        'algorithm', chosen, 'params', checked, 'share', share, 'looked_at', looked_at,
        'crowd', coalesce(earlier -> 'crowd', rates -> 'crowd'));
    IF read.wild > 0 THEN
        outcome := jsonb_build_object('code', 3, 'sure', true, 'sentence', format(
            'Every time must be unix seconds before the year 5138. Got %s that are not; load without them.', read.wild));
    ELSIF plan_run.method = 'tp-aware' THEN
        outcome := dbanon_internal.plan_tp_aware(about);
    ELSIF plan_run.method = 'sensitive-sites' THEN
        outcome := dbanon_internal.plan_sensitive_sites(about);
    ELSE
        outcome := '{}';
    END IF;

    RETURN QUERY VALUES
        ('subjects'::text, read.subjects::numeric, true, ''::text),
        ('trajectories', read.trajectories, true, ''),
        ('fixes', read.fixes, true, '');
    IF plan_run.method = 'sensitive-sites' THEN
        RETURN QUERY SELECT 'sites'::text, count(*)::numeric, true, ''::text FROM ONLY dbanon.site s WHERE s.dataset_id = data.dataset_id;
    ELSE
        RETURN QUERY SELECT 'requests'::text, count(*)::numeric, true, ''::text
            FROM ONLY dbanon.request q WHERE q.dataset_id = data.dataset_id;
    END IF;
    RETURN QUERY VALUES ('subjects_looked_at'::text, looked_at::numeric, true, CASE WHEN share >= 1 THEN 'all of them'
        ELSE 'a sample, by a hash of their names; what is counted on it is an estimate' END::text);
    RETURN QUERY SELECT i ->> 0, (i ->> 1)::numeric, (i ->> 2)::boolean, i ->> 3
        FROM jsonb_array_elements(coalesce(outcome -> 'items', '[]')) WITH ORDINALITY o (i, place) ORDER BY o.place;

    code := coalesce((outcome ->> 'code')::integer, 0);
    told := outcome ->> 'sentence';
    IF outcome ? 'rows' AND code IN (0, 5) THEN
        bytes := (outcome ->> 'rows')::numeric * (rates #>> '{stored,row}')::numeric
            + (outcome ->> 'members')::numeric * (rates #>> '{stored,member}')::numeric + (outcome ->> 'extra')::numeric;
        bytes_most := (outcome ->> 'rows_most')::numeric * (rates #>> '{stored,row}')::numeric
            + (outcome ->> 'members')::numeric * (rates #>> '{stored,member}')::numeric + (outcome ->> 'extra_most')::numeric;
        IF bytes > largest THEN
            code := 1;
            told := format('A run may write at most %s GB. This one would write %s GB in %s cloaks; %s',
                round(largest / 1024 ^ 3), round(bytes / 1024 ^ 3), outcome ->> 'rows', outcome ->> 'too_long');
        END IF;
        cost := dbanon_internal.plan_cost(plan_run.method, jsonb_build_object('fix', read.fixes, 'position', outcome -> 'positions',
            'row', outcome -> 'rows', 'request', outcome -> 'requests', 'hidden', outcome -> 'hidden'));
        IF earlier IS NOT NULL THEN
            before := dbanon_internal.plan_cost(plan_run.method, (earlier -> 'work') || jsonb_build_object('fix',
                CASE WHEN (earlier ->> 'dataset_id')::bigint = data.dataset_id THEN read.fixes
                     ELSE (SELECT e.fixes FROM dbanon_internal.plan_read((earlier ->> 'dataset_id')::bigint) e) END));
        END IF;
        RETURN QUERY VALUES
            ('rows'::text, (outcome ->> 'rows')::numeric, (outcome ->> 'rows_exact')::boolean, CASE
                WHEN (outcome ->> 'rows_exact')::boolean THEN 'cloaks'
                ELSE format('cloaks; at most %s', outcome ->> 'rows_most') END::text),
            ('members', (outcome ->> 'members')::numeric, share >= 1, 'whose trajectories the records carry'),
            ('bytes', bytes, false, CASE WHEN bytes <= largest AND bytes_most > largest
                THEN format('at most %s, and a run may write %s', bytes_most, largest)
                ELSE format('at most %s', bytes_most) END);
        RETURN QUERY
            SELECT c.item, round((cost ->> c.unit)::numeric
                    * coalesce((earlier ->> c.unit)::numeric / (before ->> c.unit)::numeric, 1), c.digits), false,
                CASE WHEN before IS NULL THEN 'no run yet to compare with: by rates measured on two cores'
                     ELSE format('by run %s, which took %s', earlier ->> 'run_id', round((earlier ->> c.unit)::numeric, c.digits))
                END || c.besides
            FROM (VALUES ('seconds', 's', 1, '; some more where the method is not compiled yet'),
                         ('memory_mb', 'mb', 0, '')) c (item, unit, digits, besides);
    END IF;
    RETURN QUERY VALUES ('exit_code'::text, code::numeric,
        (share >= 1 OR outcome ? 'sure') AND (code NOT IN (0, 5) OR told IS NULL) AND outcome <> '{}', CASE
        WHEN code = 5 THEN format('%s is for comparison only: the attack refuses what it publishes.', chosen)
        WHEN code <> 0 THEN told
        WHEN told IS NOT NULL THEN format('It may end with %s: %s', outcome ->> 'may', told)
        WHEN outcome = '{}' THEN 'What a run of this method needs is not known to the plan.'
        ELSE 'It would be computed, and attacked before anyone may read it.' END::text);
END
$$;
COMMENT ON FUNCTION dbanon.plan_run(text, text, jsonb, text) IS
'What a run would meet, without writing anything. Takes: dataset, its name; method; params, as dbanon.submit_run takes them;
algorithm, by default the first of the method. Returns: one row an item: item, value, exact (false: an estimate), note. The
last item, exit_code, is what `dbanon run` would end with: 0, or why not in its note. Raises: DA001 where there is no such
dataset; DA011 for a method, algorithm or parameter. Example: SELECT * FROM dbanon.plan_run(''taxi'', ''tp-aware'', ''{"k": 20}'').';
