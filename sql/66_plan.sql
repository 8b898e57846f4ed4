-- What a run would meet, said without writing anything. Presence is counted by docs/decisions.md, "Alignment is written down
-- to the last detail": on all subjects where they are few, else on those whose names have a small hash.

CREATE OR REPLACE FUNCTION dbanon.plan_rates() RETURNS jsonb
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
COMMENT ON FUNCTION dbanon.plan_rates() IS
'The limits and rates that plans are made with. Takes: nothing. Returns: an object: looked_at, how much of a dataset is
looked at before a sample is; limits of a run; stored, bytes of what a run writes; crowd, mean bundle in multiples of k; and,
by method, seconds and memory of a run without an earlier one to compare with. Raises: nothing. Example: SELECT
dbanon.plan_rates() -> ''limits''.';

CREATE OR REPLACE FUNCTION dbanon.plan_looks_at(subject text, share double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- A hash has 64 bits, from -2^63 on.
    SELECT share >= 1 OR pg_catalog.hashtextextended(subject COLLATE "C", 0)::double precision + 2.0 ^ 63 < share * 2.0 ^ 64;
END;
COMMENT ON FUNCTION dbanon.plan_looks_at(text, double precision) IS
'Whether a plan that looks at a share of the subjects looks at this one; a single SELECT, so that the planner inlines it. Takes:
subject, its name; share, of all subjects, 1 for all. Returns: true or false, always the same. Raises: nothing. Example:
SELECT count(DISTINCT subject) FROM dbanon.trajectory WHERE dbanon.plan_looks_at(subject, 0.01).';

CREATE OR REPLACE FUNCTION dbanon.plan_read(dataset_id bigint) RETURNS TABLE (
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
    CROSS JOIN (SELECT (dbanon.plan_rates() #>> '{limits,time_s}')::double precision AS time_s) l
$$;
COMMENT ON FUNCTION dbanon.plan_read(bigint) IS
'How much a run would read, in one pass over the trajectories. Takes: dataset_id. Returns: one row: trajectories, subjects,
fixes; first_s and last_s, the least and greatest time in unix seconds; wild, how many fixes are at times that no run takes;
and bounds in metres of all paths and shapes; NULL where there are no fixes. Raises: nothing. Example: SELECT fixes FROM
dbanon.plan_read(1).';

CREATE OR REPLACE FUNCTION dbanon.plan_windows(
    dataset_id bigint, share double precision, grid_s integer, start_s bigint, step_s integer, instants integer, total bigint,
    align text, max_gap_s integer)
RETURNS TABLE (number bigint, length bigint, seen bigint, present bigint, members bigint, requests bigint, letters bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
-- The planner does not know how many rows a step leaves, nor of which dataset. Hashing, sorting and reading pages in their order
-- are never far off; an index scan jumps between the pages of millions of requests.
SET enable_nestloop = off
SET enable_indexscan = off
SET jit = off
SET work_mem = '128MB'
AS $$
    WITH named AS MATERIALIZED (  -- a number for each subject looked at
        SELECT t.subject, min(t.trajectory_id) AS who
        FROM ONLY dbanon.trajectory t
        WHERE t.dataset_id = plan_windows.dataset_id AND dbanon.plan_looks_at(t.subject, share)
        GROUP BY t.subject
    ), fix AS (
        SELECT n.who, t.trajectory_id, @postgis@.ST_M(p.geom) AS t
        FROM named n
        JOIN ONLY dbanon.trajectory t ON t.subject = n.subject
        CROSS JOIN LATERAL @postgis@.ST_DumpPoints(t.path) p
        WHERE t.dataset_id = plan_windows.dataset_id AND dbanon.plan_looks_at(t.subject, share)
    ), ordered AS (
        SELECT f.who, f.trajectory_id AS a, f.slot,
            lead(f.slot) OVER later AS next_slot, lead(f.trajectory_id) OVER later AS b
        FROM (SELECT x.who, x.trajectory_id, x.t, floor(x.t / grid_s)::bigint * grid_s AS slot FROM fix x) f
        WINDOW later AS (PARTITION BY f.who ORDER BY f.t, f.trajectory_id)
    ), reach AS (  -- the last fix of each slot, and from which instant to which it tells where its subject is
        SELECT o.who, o.a, o.b, o.slot,
            greatest(0, ceil((o.slot - start_s)::double precision / step_s))::bigint AS first,
            least(total - 1, floor((u.until - start_s)::double precision / step_s))::bigint AS last
        FROM ordered o
        CROSS JOIN LATERAL (SELECT CASE
            WHEN align = 'last' THEN least(o.slot + max_gap_s, o.next_slot - 1)
            WHEN align = 'linear' AND o.next_slot - o.slot <= max_gap_s THEN o.next_slot - 1
            ELSE o.slot END AS until) u
        WHERE o.next_slot IS DISTINCT FROM o.slot
        OFFSET 0  -- else the planner writes these expressions out wherever they are used, and they are computed ten times
    ), piece AS (  -- cut where windows begin; b is a member only where an instant lies between the two
        SELECT r.who, r.a, w.number, i.last - i.first + 1 AS instants,
            CASE WHEN align = 'linear' AND start_s + i.last * step_s > r.slot THEN r.b END AS b
        FROM reach r
        CROSS JOIN LATERAL generate_series(r.first / plan_windows.instants, r.last / plan_windows.instants) w (number)
        CROSS JOIN LATERAL (SELECT greatest(r.first, w.number * plan_windows.instants) AS first,
                                   least(r.last, (w.number + 1) * plan_windows.instants - 1) AS last) i
        WHERE r.first <= r.last
        OFFSET 0
    ), supplied AS (
        SELECT p.who, p.number, v.trajectory_id, sum(v.instants) AS instants
        FROM piece p
        CROSS JOIN LATERAL (VALUES (p.a, p.instants), (p.b, 0)) v (trajectory_id, instants)
        WHERE v.trajectory_id IS NOT NULL
        GROUP BY p.who, p.number, v.trajectory_id
    ), there AS (
        SELECT s.who, s.number, count(*) AS members,
            sum(s.instants) = least(plan_windows.instants, total - s.number * plan_windows.instants) AS whole
        FROM supplied s
        GROUP BY s.who, s.number
    ), sent AS (
        SELECT n.who, q.number, count(*) AS requests, sum(q.letters) AS letters
        FROM (
            SELECT q.subject, length(q.content::text) + 2 AS letters,
                floor((floor(date_part('epoch', q.sent_at)) - start_s) / (step_s::double precision * plan_windows.instants))::bigint
                    AS number
            FROM ONLY dbanon.request q
            WHERE q.dataset_id = plan_windows.dataset_id AND dbanon.plan_looks_at(q.subject, share)
                AND q.sent_at >= to_timestamp(start_s) AND q.sent_at < to_timestamp(start_s + total * step_s)
        ) q
        JOIN named n ON n.subject = q.subject
        GROUP BY n.who, q.number
    )
    SELECT h.number, least(plan_windows.instants, total - h.number * plan_windows.instants),
        count(*), count(*) FILTER (WHERE h.whole), coalesce(sum(h.members) FILTER (WHERE h.whole), 0)::bigint,
        coalesce(sum(s.requests) FILTER (WHERE h.whole), 0)::bigint, coalesce(sum(s.letters) FILTER (WHERE h.whole), 0)::bigint
    FROM there h
    LEFT JOIN sent s ON s.who = h.who AND s.number = h.number
    GROUP BY h.number
$$;
COMMENT ON FUNCTION dbanon.plan_windows(bigint, double precision, integer, bigint, integer, integer, bigint, text, integer) IS
'Who is there in each window of a run, without looking from instant to instant: each fix tells where its subject is from one
instant to another. Takes: dataset_id; share, of the subjects to look at; grid_s of the dataset; start_s, step_s: the first
instant and the distance of two; instants in a window, and total in all windows; align and max_gap_s. Returns: for each
window in which anybody is seen, in no order: its number, from 0; length, its instants; seen, how many subjects have a
position at an instant; present, how many at all; and of these members, how many trajectories supply it, requests they sent
in the window, and letters those take. Raises: nothing. Example: SELECT * FROM dbanon.plan_windows(1, 1, 60, 1212566400, 60,
30, 90, ''last'', 300).';

CREATE OR REPLACE FUNCTION dbanon.plan_tp_aware(about jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon.plan_rates() -> 'limits';
    stored CONSTANT jsonb := dbanon.plan_rates() -> 'stored';
    params CONSTANT jsonb := about -> 'params';
    -- More than there can be people is as much as any such number.
    k CONSTANT bigint := least((params ->> 'k')::numeric, 10 ^ 15);
    step_s CONSTANT bigint := params ->> 'step_s';
    instants CONSTANT bigint := params ->> 'instants';
    grid_s CONSTANT integer := about ->> 'grid_s';
    cell_m double precision := about ->> 'grid_m';
    side double precision;
    start_s bigint;
    total bigint := 0;
    windows bigint;
    seen record;
    requests bigint;
    outside bigint := 0;
    all_of_them CONSTANT boolean := (about ->> 'share')::double precision >= 1;
    fails jsonb := '{}';
    told text;
BEGIN
    IF step_s % grid_s <> 0 THEN
        RETURN jsonb_build_object('code', 2, 'sure', true, 'sentence', format(
            'The ''step_s'' parameter of tp-aware must be a multiple of the dataset''s grid_s, %s s. Got %s instead.', grid_s, step_s));
    END IF;
    IF (about ->> 'fixes')::bigint > 0 THEN
        start_s := coalesce((params ->> 'start')::bigint, floor((about ->> 'first_s')::double precision / step_s)::bigint * step_s);
        IF start_s % grid_s <> 0 THEN
            RETURN jsonb_build_object('code', 2, 'sure', true, 'sentence', format(
                'The ''start'' parameter of tp-aware must be a multiple of the dataset''s grid_s, %s s. Got %s instead.',
                grid_s, params ->> 'start'));
        END IF;
        total := greatest(0, floor((floor((about ->> 'last_s')::double precision / grid_s) * grid_s - start_s) / step_s)::bigint + 1);
    END IF;
    windows := (total + instants - 1) / instants;
    IF windows > (limits ->> 'windows')::bigint THEN
        RETURN jsonb_build_object('code', 3, 'sure', true, 'sentence', format(
            'The data must span at most %s windows of %s instants. Got %s. Remove fixes at wild times, or raise step_s or instants.',
            limits ->> 'windows', instants, windows));
    END IF;
    SELECT coalesce(sum(w.seen), 0) AS seen, coalesce(sum(w.seen * w.length), 0) AS positions,
        coalesce(max(w.present), 0) AS most, count(*) FILTER (WHERE w.present >= k) AS windows,
        coalesce(sum(w.present), 0) AS present, coalesce(sum(w.present) FILTER (WHERE w.present >= k), 0) AS published,
        coalesce(sum(w.members) FILTER (WHERE w.present >= k), 0) AS members,
        coalesce(sum(w.requests) FILTER (WHERE w.present >= k), 0) AS requests,
        coalesce(sum(w.letters) FILTER (WHERE w.present >= k), 0) AS letters,
        coalesce(sum(div(w.present, k) * w.length) FILTER (WHERE w.present >= k), 0) AS rows_most,
        coalesce(sum(least(div(w.present, k), round(w.present / (k * (about ->> 'crowd')::numeric))) * w.length)
                 FILTER (WHERE w.present >= k), 0) AS rows
    INTO seen
    FROM (SELECT p.length, round(p.seen * s.scale) AS seen, round(p.present * s.scale) AS present,
              round(p.members * s.scale) AS members, round(p.requests * s.scale) AS requests, p.letters * s.scale AS letters
          FROM dbanon.plan_windows((about ->> 'dataset_id')::bigint, (about ->> 'share')::double precision, grid_s, start_s,
                                   step_s::integer, instants::integer, total, params ->> 'align', (params ->> 'max_gap_s')::integer) p
          CROSS JOIN (SELECT (about ->> 'subjects')::numeric / greatest((about ->> 'looked_at')::numeric, 1) AS scale) s) w
    WHERE total > 0;
    SELECT count(*), count(*) FILTER (WHERE NOT coalesce(q.sent_at >= to_timestamp(start_s)
                                                         AND q.sent_at < to_timestamp(start_s + total * step_s), false))
    INTO requests, outside
    FROM ONLY dbanon.request q
    WHERE q.dataset_id = (about ->> 'dataset_id')::bigint;
    IF seen.most < k THEN
        told := CASE WHEN seen.most > 0
            THEN format('Got at most %s. Lower k, shorten instants or raise max_gap_s.', seen.most)
            ELSE 'Nobody is at all instants of any. Shorten instants, raise max_gap_s or set start within the data.' END;
        fails := jsonb_build_object('code', 4, 'sentence', format(
            'At least one window must hold k = %s subjects at all its instants. %s', k, told));
    ELSE
        IF params ->> 'min_cloak_m' IS NOT NULL THEN
            cell_m := greatest(1, ceil((params ->> 'min_cloak_m')::double precision / cell_m - 1e-9)) * cell_m;
        END IF;
        side := greatest(floor((about ->> 'xmax')::double precision / cell_m) - floor((about ->> 'xmin')::double precision / cell_m),
                         floor((about ->> 'ymax')::double precision / cell_m) - floor((about ->> 'ymin')::double precision / cell_m)) + 1;
        IF side > (limits ->> 'cells')::double precision THEN  -- of all fixes; those of a run may lie closer together
            fails := jsonb_build_object('code', 0, 'may', 3, 'sentence', format(
                'Positions must lie within 2^30 cells of one another. Got at most %s cells. Keep wild fixes out when loading, or '
                'raise min_cloak_m.', dbanon.plan_figure(side)));
        END IF;
    END IF;
    RETURN fails || jsonb_build_object('items', jsonb_build_array(
            jsonb_build_array('windows', windows, true, CASE WHEN windows > 0 THEN format(
                'of %s instants every %s s, from %s', instants, step_s, to_char(to_timestamp(start_s) AT TIME ZONE 'UTC',
                'YYYY-MM-DD HH24:MI:SS "UTC"')) ELSE 'the data end before the first instant' END),
            jsonb_build_array('windows_published', seen.windows, all_of_them, format('k = %s subjects or more', k)),
            jsonb_build_array('subject_windows_seen', seen.seen, all_of_them, 'one subject in one window'),
            jsonb_build_array('subject_windows_published', seen.published, all_of_them, 'at all instants of a window with k or more'),
            jsonb_build_array('absent_at_some_instant', seen.seen - seen.present, all_of_them, 'suppressed: seen, but not at all instants'),
            jsonb_build_array('window_below_k', seen.present - seen.published, all_of_them, 'suppressed: fewer than k in the window'),
            jsonb_build_array('requests_published', seen.requests, all_of_them, 'their senders are published'),
            jsonb_build_array('sender_not_published', greatest(0, requests - outside - seen.requests), all_of_them,
                              'suppressed: requests of those suppressed'),
            jsonb_build_array('outside_windows', outside, true, 'suppressed: requests sent at another time')),
        'rows', seen.rows, 'rows_most', seen.rows_most, 'rows_exact', false, 'members', seen.members, 'requests', requests,
        'positions', seen.positions, 'hidden', 0,
        'extra', round(seen.letters) + least(seen.requests, seen.rows) * (stored ->> 'requests')::numeric,
        'extra_most', round(seen.letters) + least(seen.requests, seen.rows_most) * (stored ->> 'requests')::numeric,
        'too_long', 'use fewer instants or a shorter time.');
END
$$;
COMMENT ON FUNCTION dbanon.plan_tp_aware(jsonb) IS
'What a run of tp-aware would meet. Takes: about, an object that dbanon.plan_run makes: the dataset, what would be read, the
parameters, and the share of subjects to look at. Returns: an object: items, as rows of the plan; rows, rows_most, members,
extra (bytes): what would be written; and code and sentence where it would fail. Raises: nothing. Example: called by
dbanon.plan_run.';

CREATE OR REPLACE FUNCTION dbanon.plan_figure(value double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT CASE WHEN value < 1000 THEN round(value::numeric)::text
                ELSE regexp_replace(trim(to_char(value, '9.99EEEE')), '\.?0*e', 'e') END
$$;
COMMENT ON FUNCTION dbanon.plan_figure(double precision) IS
'A large number with three digits, as runs write it in their sentences. Takes: value. Returns: such as 1.07e+09. Raises:
nothing. Example: SELECT dbanon.plan_figure(2 ^ 30).';

CREATE OR REPLACE FUNCTION dbanon.plan_sensitive_sites(about jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon.plan_rates() -> 'limits';
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
        FROM dbanon.plan_windows((about ->> 'dataset_id')::bigint, (about ->> 'share')::double precision, grid_s, at_s, grid_s, 1, 1,
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
            'and sites: drop outliers, or keep to a box.', dbanon.plan_figure(greatest(cells[1], cells[2]))));
    ELSIF cells[1] * cells[2] * sites > (limits ->> 'domain')::double precision THEN
        fails := jsonb_build_object('code', 3, 'sentence', format(
            'Users and sites must span fewer than 2^62 cells, times sites. Got %s cells; keep wild positions out when loading, or load '
            'with a coarser grid_m.', dbanon.plan_figure(cells[1] * cells[2])));
    END IF;
    IF sites > 0 AND fails IS NOT NULL AND at_s IS NOT NULL THEN  -- the bounds are of all fixes; the snapshot's may be smaller
        fails := fails || jsonb_build_object('code', 0, 'may', fails -> 'code');
    ELSIF fails IS NULL THEN
        fails := dbanon.plan_site_users(algorithm, k, users, subjects - users, sites);
    END IF;
    RETURN coalesce(fails, '{}') || jsonb_build_object('items', jsonb_build_array(
            jsonb_build_array('users', users, exact, CASE WHEN at_s IS NULL THEN 'one fix each'
                ELSE format('at %s', to_char(to_timestamp(at_s) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')) END),
            jsonb_build_array('absent_at_instant', subjects - users, exact, 'suppressed: no position then'),
            jsonb_build_array('users_cloaked', k * sites, false, format(
                'k = %s for each of %s sites, and those who stand on one or are guarded', k, sites))),
        'rows', users, 'rows_most', users, 'rows_exact', exact AND algorithm <> 'local', 'members', users, 'requests', 0,
        'positions', users, 'hidden', CASE WHEN algorithm = 'bk' AND (params ->> 'improve')::boolean THEN k * sites ELSE 0 END,
        'extra', k * sites * (dbanon.plan_rates() #>> '{stored,cloaked}')::numeric,
        'extra_most', users * (dbanon.plan_rates() #>> '{stored,cloaked}')::numeric,
        'too_long', 'use fewer instants or a shorter time.');
END
$$;
COMMENT ON FUNCTION dbanon.plan_sensitive_sites(jsonb) IS
'What a run of sensitive-sites would meet. Takes: about, as dbanon.plan_tp_aware does. Returns: an object of the same kind.
Raises: nothing. Example: called by dbanon.plan_run.';

CREATE OR REPLACE FUNCTION dbanon.plan_site_users(algorithm text, k bigint, users bigint, absent bigint, sites bigint)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon.plan_rates() -> 'limits';
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
COMMENT ON FUNCTION dbanon.plan_site_users(text, bigint, bigint, bigint, bigint) IS
'Whether an algorithm of sensitive-sites has what it needs. Takes: algorithm; k; users with a position; absent, those
without; sites. Returns: NULL where it has, else an object: code and sentence of what it would fail with; may, where it
depends on places. Raises: nothing. Example: SELECT dbanon.plan_site_users(''bk'', 5, 7, 0, 2).';

CREATE OR REPLACE FUNCTION dbanon.plan_cost(method text, work jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
        's', (r.rates ->> 'fixed_s')::numeric + sum((r.rates ->> (w.key || '_us'))::numeric * w.value::numeric) / 1e6,
        'mb', (r.rates ->> 'fixed_mb')::numeric + sum((r.rates ->> (w.key || '_b'))::numeric * w.value::numeric) / 1e6)
    FROM (SELECT dbanon.plan_rates() -> plan_cost.method AS rates) r
    CROSS JOIN jsonb_each_text(plan_cost.work) w
    GROUP BY r.rates
$$;
COMMENT ON FUNCTION dbanon.plan_cost(text, jsonb) IS
'Seconds and memory of a run by dbanon.plan_rates. Takes: method; work, an object of counts: fix, position, row, request,
hidden. Returns: an object: s and mb, what any run takes included. Raises: nothing. Example: SELECT
dbanon.plan_cost(''tp-aware'', ''{"fix": 1000000, "position": 500000}'').';

CREATE OR REPLACE FUNCTION dbanon.plan_earlier(method text, algorithm text, dataset_id bigint) RETURNS jsonb
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
COMMENT ON FUNCTION dbanon.plan_earlier(text, text, bigint) IS
'The verified run that a plan is compared with: of this method and algorithm the latest on this dataset, else the longest on
another. Takes: method, algorithm, dataset_id. Returns: an object: run_id, dataset_id, s (without compiling), mb, crowd (mean
bundle in multiples of k) and work, as dbanon.plan_cost takes it, but without fixes; NULL if there is none. Raises: nothing.
Example: SELECT dbanon.plan_earlier(''tp-aware'', ''traj-anon'', 1).';

CREATE OR REPLACE FUNCTION dbanon.plan_run(dataset text, method text, params jsonb DEFAULT '{}', algorithm text DEFAULT NULL)
RETURNS TABLE (item text, value numeric, exact boolean, note text)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rates CONSTANT jsonb := dbanon.plan_rates();
    checked jsonb;
    chosen CONSTANT text := dbanon.checked_algorithm(method, algorithm);
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
    data := dbanon.known_dataset(plan_run.dataset);
    checked := dbanon.check_params(method, chosen, params);

    SELECT * INTO read FROM dbanon.plan_read(data.dataset_id);
    looked_at := read.subjects;
    IF (read.subjects > (rates #>> '{looked_at,subjects}')::bigint OR read.fixes > (rates #>> '{looked_at,fixes}')::bigint)
            AND (plan_run.method <> 'sensitive-sites' OR checked ->> 'at' IS NOT NULL) THEN
        share := least((rates #>> '{looked_at,subjects}')::double precision / read.subjects,
                       (rates #>> '{looked_at,fixes}')::double precision / read.fixes);
        SELECT count(DISTINCT t.subject COLLATE "C") INTO looked_at
        FROM ONLY dbanon.trajectory t WHERE t.dataset_id = data.dataset_id AND dbanon.plan_looks_at(t.subject, share);
        IF looked_at = 0 THEN  -- a few subjects with very many fixes
            share := 1;
            looked_at := read.subjects;
        END IF;
    END IF;
    earlier := dbanon.plan_earlier(plan_run.method, chosen, data.dataset_id);
    about := to_jsonb(read) || jsonb_build_object('dataset_id', data.dataset_id, 'grid_s', data.grid_s, 'grid_m', data.grid_m,
        'algorithm', chosen, 'params', checked, 'share', share, 'looked_at', looked_at,
        'crowd', coalesce(earlier -> 'crowd', rates -> 'crowd'));
    IF read.wild > 0 THEN
        outcome := jsonb_build_object('code', 3, 'sure', true, 'sentence', format(
            'Every time must be unix seconds before the year 5138. Got %s that are not; load without them.', read.wild));
    ELSIF plan_run.method = 'tp-aware' THEN
        outcome := dbanon.plan_tp_aware(about);
    ELSIF plan_run.method = 'sensitive-sites' THEN
        outcome := dbanon.plan_sensitive_sites(about);
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
        cost := dbanon.plan_cost(plan_run.method, jsonb_build_object('fix', read.fixes, 'position', outcome -> 'positions',
            'row', outcome -> 'rows', 'request', outcome -> 'requests', 'hidden', outcome -> 'hidden'));
        IF earlier IS NOT NULL THEN
            before := dbanon.plan_cost(plan_run.method, (earlier -> 'work') || jsonb_build_object('fix',
                CASE WHEN (earlier ->> 'dataset_id')::bigint = data.dataset_id THEN read.fixes
                     ELSE (SELECT e.fixes FROM dbanon.plan_read((earlier ->> 'dataset_id')::bigint) e) END));
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
dataset; what dbanon.check_params raises. Example: SELECT * FROM dbanon.plan_run(''taxi'', ''tp-aware'', ''{"k": 20}'').';
