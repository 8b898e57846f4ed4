-- What belongs to tp-aware alone: the evidence of requests for its attack, and its part of a plan.

CREATE OR REPLACE FUNCTION dbanon_internal.request_evidence(run_id bigint) RETURNS TABLE (
    region_no integer, subject text, t double precision, content text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT o.region_no, NULL::text, NULL::double precision, o.content
    FROM (SELECT g.region_no, e.value::text AS content
    FROM ONLY dbanon.region g
    -- A value that is no array becomes an array inside an array: no request looks like that, so the attack refuses it.
    CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(
        CASE pg_catalog.jsonb_typeof(g.extra -> 'requests')
            WHEN 'array' THEN g.extra -> 'requests'
            ELSE pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_array(g.extra -> 'requests'))
        END) WITH ORDINALITY e
    WHERE g.run_id = request_evidence.run_id AND g.extra ? 'requests'
    ORDER BY g.region_no, e.ordinality) o  -- the attack looks at the order within a row
    UNION ALL
    SELECT NULL, q.subject, pg_catalog.date_part('epoch', q.sent_at), q.content::text
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.request q ON q.dataset_id = r.dataset_id
    WHERE r.run_id = request_evidence.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.request_evidence(bigint) IS
'The requests a run would publish beside those its dataset holds. Takes: run_id. Returns: one row for each element of extra ->
requests of a region, with region_no and content; and one row for each request of the dataset, with subject, t in unix seconds and
content (a JSON text in the database''s own form), where region_no is null; duplicates included. Raises: nothing. Example: SELECT
region_no IS NULL, count(*) FROM dbanon_internal.request_evidence(1) GROUP BY 1.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_windows(
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
        WHERE t.dataset_id = plan_windows.dataset_id AND dbanon_internal.plan_looks_at(t.subject, share)
        GROUP BY t.subject
    ), fix AS (
        SELECT n.who, t.trajectory_id, @postgis@.ST_M(p.geom) AS t
        FROM named n
        JOIN ONLY dbanon.trajectory t ON t.subject = n.subject
        CROSS JOIN LATERAL @postgis@.ST_DumpPoints(t.path) p
        WHERE t.dataset_id = plan_windows.dataset_id AND dbanon_internal.plan_looks_at(t.subject, share)
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
            WHERE q.dataset_id = plan_windows.dataset_id AND dbanon_internal.plan_looks_at(q.subject, share)
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
COMMENT ON FUNCTION dbanon_internal.plan_windows(bigint, double precision, integer, bigint, integer, integer, bigint, text, integer) IS
'Who is there in each window of a run, without looking from instant to instant: each fix tells where its subject is from one
instant to another. Takes: dataset_id; share, of the subjects to look at; grid_s of the dataset; start_s, step_s: the first
instant and the distance of two; instants in a window, and total in all windows; align and max_gap_s. Returns: for each
window in which anybody is seen, in no order: its number, from 0; length, its instants; seen, how many subjects have a
position at an instant; present, how many at all; and of these members, how many trajectories supply it, requests they sent
in the window, and letters those take. Raises: nothing. Example: SELECT * FROM dbanon_internal.plan_windows(1, 1, 60, 1212566400, 60,
30, 90, ''last'', 300).';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_tp_aware(about jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    limits CONSTANT jsonb := dbanon_internal.plan_rates() -> 'limits';
    stored CONSTANT jsonb := dbanon_internal.plan_rates() -> 'stored';
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
          FROM dbanon_internal.plan_windows((about ->> 'dataset_id')::bigint, (about ->> 'share')::double precision, grid_s, start_s,
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
                'raise min_cloak_m.', dbanon_internal.plan_figure(side)));
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
COMMENT ON FUNCTION dbanon_internal.plan_tp_aware(jsonb) IS
'What a run of tp-aware would meet. Takes: about, an object that dbanon.plan_run makes: the dataset, what would be read, the
parameters, and the share of subjects to look at. Returns: an object: items, as rows of the plan; rows, rows_most, members,
extra (bytes): what would be written; and code and sentence where it would fail. Raises: nothing. Example: called by
dbanon.plan_run.';
