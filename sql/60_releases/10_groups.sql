-- Who is hidden with whom in a run, and what of it is kept permanently once the run is published.
--
-- In all files of this folder: FROM ONLY, since rows of a child table of somebody's would otherwise be taken for ours. #variable_conflict, since the
-- columns that a function returns have the names of those it reads. A query of a function's own stands in PL/pgSQL with a plan_cache_mode where a
-- session keeps the plan: to make it takes longer than to measure ten people.

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_span(run_id bigint) RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Whole windows: no other release has a part of one, and analysts count windows from the start of a release.
    RETURN (
    SELECT CASE WHEN win.long IS NULL THEN tstzrange(row.since, row.until)
                ELSE tstzrange(date_bin(win.long, row.since, '1970-01-01 00:00Z'),
                               date_bin(win.long, row.until - interval '1 microsecond', '1970-01-01 00:00Z') + win.long) END
    FROM (SELECT min(lower(per.period)) AS since, max(upper(per.period)) AS until FROM ONLY dbanon.period per
          WHERE per.run_id = find_run_span.run_id HAVING count(*) > 0) row
    CROSS JOIN (SELECT make_interval(secs => dbanon_internal.find_window_s(run.method, run.algorithm, run.params)) AS long
                FROM ONLY dbanon.run run WHERE run.run_id = find_run_span.run_id) win);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_span IS
'From the start of a run''s first row to the end of its last, or of the windows that these are in, for operators too, who may not read the rows.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_extent(run_id bigint) RETURNS double precision[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[@postgis@.ST_XMin(b.box), @postgis@.ST_YMin(b.box), @postgis@.ST_XMax(b.box), @postgis@.ST_YMax(b.box)]
    FROM (SELECT @postgis@.ST_3DExtent(g.region) AS box FROM ONLY dbanon.region g WHERE g.run_id = find_run_extent.run_id) b
    WHERE b.box IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_extent IS 'The box around all regions of a run: least x and y, greatest x and y.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_row_meaning(
    run_id bigint, OUT holds text, OUT step_s integer, OUT window_s integer, OUT day_zone text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Without step_s rows are of one moment. Which one, in a row longer than a slot, is not said: as where each person has one fix of any time.
    SELECT CASE WHEN e.step_s IS NULL AND (SELECT upper(s.span) - lower(s.span) > make_interval(secs => d.grid_s)
                                        FROM dbanon_internal.find_run_span(r.run_id) s (span))
                THEN 'some time' ELSE m.traits ->> 'holds' END, e.step_s,
        coalesce(e.step_s * (r.params ->> (m.traits ->> 'window'))::integer, dbanon_internal.find_window_s(r.method, r.algorithm, r.params)),
        CASE WHEN (m.traits -> 'days')::boolean THEN d.day_zone END
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.method m ON m.name = r.method
    JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    CROSS JOIN LATERAL (SELECT (r.params ->> (m.traits ->> 'every'))::integer AS step_s) e
    WHERE r.run_id = find_row_meaning.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_row_meaning IS
'What the rows of a run say, as functions for analysts need it: when they hold, how far instants are apart, and where records end.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_people(run_id bigint, release_id bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET work_mem = '128MB' AS $$
DECLARE
    people numeric;
BEGIN
    IF release_id IS NOT NULL THEN
        people := count(DISTINCT one.person)
            FROM (SELECT unnest(gro.people) AS person FROM ONLY dbanon.grouping gro WHERE gro.release_id = count_people.release_id
                  UNION ALL SELECT exp.person FROM ONLY dbanon.exposure exp WHERE exp.release_id = count_people.release_id) one;
    ELSE
        people := count(DISTINCT tra.subject)
            FROM (SELECT DISTINCT mem.trajectory_id FROM ONLY dbanon.membership mem WHERE mem.run_id = count_people.run_id) own
            JOIN ONLY dbanon.trajectory tra USING (trajectory_id);
    END IF;
    -- Rounded up, so that it does not say how many were left out.
    RETURN (SELECT ceil(people / sub.unit) * sub.unit
            FROM (SELECT greatest(10 ^ greatest(floor(log(greatest(people, 1))) - 1, 0), (run.params ->> 'k')::numeric) AS unit
                  FROM ONLY dbanon.run run WHERE run.run_id = count_people.run_id) sub);
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_people IS
'How many people a run publishes, rounded up to two digits and to a multiple of k; faster by the stored groups of its release, which workers may not read.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_interval_factor(run_id bigint) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(
        (SELECT (fig.figure ->> 'value')::double precision FROM ONLY dbanon.evaluation eva CROSS JOIN LATERAL jsonb_array_elements(eva.figures) fig (figure)
         WHERE eva.run_id = run.run_id AND eva.against = 'published' AND fig.figure ->> 'name' = 'interval_factor'
         ORDER BY eva.evaluation_id DESC LIMIT 1),
        (met.traits ->> 'interval_factor')::double precision)
    FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method WHERE run.run_id = find_interval_factor.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.find_interval_factor IS
'By how much intervals of answers are widened: what the last evaluation of a run found, or what its method has.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_last_verification(run_id bigint) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT max(ver.verification_id) FROM ONLY dbanon.verification ver WHERE ver.run_id = find_last_verification.run_id;
END;
COMMENT ON FUNCTION dbanon_internal.find_last_verification IS 'The number of the last attack on a run, NULL if there was none.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_verdict(run_id bigint) RETURNS dbanon.verification
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- Of others nothing follows: a worker may write verdicts under any name.
    SELECT ver FROM ONLY dbanon.verification ver JOIN ONLY dbanon.run run ON run.run_id = ver.run_id
    JOIN ONLY dbanon.method met ON met.name = run.method AND met.attack = ver.attack
    WHERE ver.run_id = find_verdict.run_id ORDER BY ver.verification_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION dbanon_internal.find_verdict IS 'The latest verdict of the attack of a run''s method, which alone decides on publication; null if there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_guest_presence(run_id bigint) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Of fewer than k people, the exact share would tell of each.
    SELECT CASE WHEN coalesce((run.metrics ->> 'guests')::integer, 0) = 0 THEN 0
                WHEN (SELECT count(*) FROM (
                    SELECT DISTINCT tra.subject FROM ONLY dbanon.membership mem JOIN ONLY dbanon.trajectory tra USING (trajectory_id)
                    WHERE mem.run_id = run.run_id AND mem.period IS NOT NULL LIMIT (run.params ->> 'k')::integer) few) = (run.params ->> 'k')::integer
                THEN greatest(round((run.metrics ->> 'guest_presence')::numeric, 1), 0.1) ELSE 0.5 END::double precision
    FROM ONLY dbanon.run run WHERE run.run_id = compute_guest_presence.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.compute_guest_presence IS
'The share of instants at which guests are there, as readers are told it: in tenths, and a half for fewer than k people.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_traits(run_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Exact rows show where people are, as a snapshot does.
    RETURN (
    SELECT m.traits || CASE WHEN EXISTS (SELECT FROM ONLY dbanon.region g WHERE g.run_id = r.run_id AND g.crowd = 1)
                            THEN '{"instant": ""}' ELSE '{}' END::jsonb
    FROM ONLY dbanon.run r JOIN ONLY dbanon.method m ON m.name = r.method
    WHERE r.run_id = find_run_traits.run_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_traits IS 'The traits of a run''s method; of a run with exact rows, those of a snapshot.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_run_reach(run_id bigint) RETURNS interval
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
    SELECT dbanon_internal.compute_method_reach(dbanon_internal.find_run_traits(r.run_id), r.params, dbanon_internal.find_settle_s(d.population_id))
    FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    WHERE r.run_id = compute_run_reach.run_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_run_reach IS 'How far from a run''s rows others are compared with them; exact rows reach as far as a snapshot.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_unknown_members(run_id bigint) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
AS $$
DECLARE
    members bigint;
    unknown bigint;
    bare bigint;
BEGIN
    -- Members whose trajectory is no longer in the run's own dataset: deleted, or loaded anew under another number.
    SELECT count(*), count(*) - count(tra.trajectory_id) INTO members, unknown
        FROM ONLY dbanon.membership mem
        LEFT JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = (
            SELECT run.dataset_id FROM ONLY dbanon.run run WHERE run.run_id = refuse_unknown_members.run_id)
        WHERE mem.run_id = refuse_unknown_members.run_id;
    SELECT count(DISTINCT rec.record_id) INTO bare
        FROM ONLY dbanon.record rec LEFT JOIN ONLY dbanon.membership mem ON mem.run_id = rec.run_id AND mem.record_id = rec.record_id
        WHERE rec.run_id = refuse_unknown_members.run_id AND mem.record_id IS NULL;
    RAISE EXCEPTION 'Every record of a run must have members, and every member a trajectory in the dataset. In run %, % no member, and % of % no '
        'trajectory.', refuse_unknown_members.run_id, dbanon_internal.format_quantity(bare, 'record has', 'records have'),
            dbanon_internal.format_count(unknown), dbanon_internal.format_quantity(members, 'member has', 'members have')
        USING ERRCODE = 'DA005', DETAIL = 'The groups of people cannot be determined, so the run cannot be measured or published.',
              HINT = 'The dataset has changed since that run. Start another: CALL dbanon.anonymize(...).';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_unknown_members IS
'Says how many of a run''s records have no member, and how many members no trajectory in the run''s dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_record_spans(run_id bigint) RETURNS TABLE (record_id bigint, period tstzrange)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
-- The rows of a run are put together first, and what belongs to them is looked up for all at once: no other order knows how many they are.
SET join_collapse_limit = 1
-- Its callers set the planner's switches (enable_...) for their own statements.
SET enable_hashjoin = on
SET enable_mergejoin = on
AS $$
    WITH list AS MATERIALIZED (
        -- Many records have the same periods: these are put together once.
        SELECT row_number() OVER () AS list_no, rec.periods
        FROM (SELECT DISTINCT rec.periods FROM ONLY dbanon.record rec WHERE rec.run_id = find_record_spans.run_id) rec
    ), span AS MATERIALIZED (
        -- Gaps between the rows of a record count as its time: its members are the same people before and after one.
        SELECT list.list_no, tstzrange(min(lower(per.period)), max(upper(per.period))) AS period
        FROM list
        CROSS JOIN LATERAL unnest(list.periods) ele (period_no)
        JOIN ONLY dbanon.period per ON per.run_id = find_record_spans.run_id AND per.period_no = ele.period_no
        GROUP BY list.list_no
    )
    SELECT rec.record_id, span.period
    FROM ONLY dbanon.record rec JOIN list ON list.periods = rec.periods JOIN span ON span.list_no = list.list_no
    WHERE rec.run_id = find_record_spans.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_record_spans IS 'For each record of a run, from the start of its first row to the end of its last.';

CREATE OR REPLACE FUNCTION dbanon_internal.has_guests(run_id bigint) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((met.traits -> 'guests')::boolean, false)
    FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method WHERE run.run_id = has_guests.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.has_guests IS 'Whether members of a run for a stretch are guests, who are hidden among the others and hide nobody.';

CREATE OR REPLACE FUNCTION dbanon_internal.cut_records(run_id bigint) RETURNS TABLE (record_id bigint, period tstzrange)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET join_collapse_limit = 1
SET enable_hashjoin = on
SET enable_mergejoin = on
AS $$
    WITH span AS MATERIALIZED (
        SELECT spa.record_id, spa.period FROM dbanon_internal.find_record_spans(cut_records.run_id) spa
    ), cut AS (
        -- A cut is where a record begins or ends, or where a member joins or leaves it within that time.
        SELECT span.record_id, edge.at FROM span CROSS JOIN LATERAL (VALUES (lower(span.period)), (upper(span.period))) edge (at)
        UNION
        SELECT span.record_id, edge.at
        FROM span
        JOIN ONLY dbanon.membership mem ON mem.run_id = cut_records.run_id AND mem.record_id = span.record_id AND mem.period IS NOT NULL
            AND NOT dbanon_internal.has_guests(cut_records.run_id)
        CROSS JOIN LATERAL (VALUES (lower(mem.period)), (upper(mem.period))) edge (at)
        WHERE span.period @> edge.at
    )
    SELECT sec.record_id, tstzrange(sec.at, sec.until)
    FROM (SELECT cut.record_id, cut.at, lead(cut.at) OVER (PARTITION BY cut.record_id ORDER BY cut.at) AS until FROM cut) sec
    WHERE sec.until IS NOT NULL
$$;
COMMENT ON FUNCTION dbanon_internal.cut_records IS 'Cuts the time of each record of a run into pieces, in each of which its members are the same.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_contents(run_id bigint) RETURNS TABLE (record_id bigint, period_no integer, contents bigint[])
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB' SET jit = off SET enable_nestloop = off SET enable_mergejoin = off SET join_collapse_limit = 1 AS $$
DECLARE
    key CONSTANT bytea := (
        SELECT dbanon_internal.find_dataset_key(run.dataset_id)
        FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method AND met.traits -> 'joins' ? 'requests'
        WHERE run.run_id = list_contents.run_id);
BEGIN
    IF key IS NULL THEN RETURN; END IF;
    RETURN QUERY  -- of records: a method with requests groups by these, and invites guests instead of cutting them
    WITH sent AS MATERIALIZED (
        -- Many regions have the same requests: each set is taken apart and hashed once.
        SELECT one.regions, ARRAY(SELECT DISTINCT dbanon_internal.hash_person(key, req.value::text) FROM jsonb_array_elements(one.requests::jsonb) req) AS contents
        FROM (SELECT (reg.extra -> 'requests')::text AS requests, array_agg(reg.region_no) AS regions
              FROM ONLY dbanon.region reg WHERE reg.run_id = list_contents.run_id AND reg.extra ? 'requests' GROUP BY 1) one
    )
    SELECT rec.record_id, ele.period_no, cell.contents
    FROM ONLY dbanon.record rec
    CROSS JOIN LATERAL unnest(rec.periods, rec.regions) ele (period_no, region_no)
    JOIN (SELECT unnest(sent.regions) AS region_no, sent.contents FROM sent) cell ON cell.region_no = ele.region_no
    WHERE rec.run_id = list_contents.run_id;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_contents IS
'For each row of a run that has requests, its record, the number of its period, and keyed hashes of the contents of these, each once.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_groups(run_id bigint) RETURNS TABLE (
    period tstzrange, people bigint[], members integer, contents bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
SET join_collapse_limit = 1
-- Names are joined and hashed in parallel where there are many.
SET parallel_setup_cost = 0
SET parallel_tuple_cost = 0
-- What workers share lies in /dev/shm, of which a container may have little. More would not be faster.
SET work_mem = '32MB'
SET hash_mem_multiplier = 1
AS $$
DECLARE
    run dbanon.run;
    hidden_by text;
    key bytea;
    invites CONSTANT boolean := dbanon_internal.has_guests(run_id);
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = find_run_groups.run_id;
    SELECT met.traits ->> 'hidden_by' INTO hidden_by FROM ONLY dbanon.method met WHERE met.name = run.method;
    key := dbanon_internal.find_dataset_key(run.dataset_id);
    IF hidden_by = 'record' THEN
        -- A record hides its members in each other for the whole of its time; who is carried for a stretch, in the pieces of that.
        RETURN QUERY
        WITH piece AS MATERIALIZED (
            SELECT pie.record_id, pie.period FROM dbanon_internal.cut_records(run.run_id) pie
        ), stay AS MATERIALIZED (
            -- All members of a record that are in it for the same time. Mostly these are all members, for the whole of its time (null).
            SELECT who.record_id, who.period, count(*) OVER (PARTITION BY who.record_id) = 1 AND who.period IS NULL AS has_all, who.people
            FROM (SELECT mem.record_id, mem.period, CASE WHEN count(mem.person) = count(*) THEN array_agg(DISTINCT mem.person)
                                                         ELSE dbanon_internal.refuse_unknown_members(run.run_id) END AS people
                  FROM (SELECT mem.record_id, mem.period, dbanon_internal.hash_person(key, tra.subject) AS person
                        FROM ONLY dbanon.membership mem
                        LEFT JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
                        WHERE mem.run_id = run.run_id AND NOT (invites AND mem.period IS NOT NULL)
                        ORDER BY mem.record_id, mem.period) mem  -- sorted, so that workers hash the names
                  GROUP BY mem.record_id, mem.period) who
        ), guest AS MATERIALIZED (
            SELECT mem.record_id, CASE WHEN count(tra.subject) = count(*) THEN array_agg(DISTINCT dbanon_internal.hash_person(key, tra.subject))
                                       ELSE dbanon_internal.refuse_unknown_members(run.run_id) END AS people
            FROM ONLY dbanon.membership mem
            LEFT JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
            WHERE mem.run_id = run.run_id AND invites AND mem.period IS NOT NULL
            GROUP BY mem.record_id
        ), grouped AS MATERIALIZED (
            SELECT piece.record_id, piece.period, stay.people FROM piece JOIN stay ON stay.record_id = piece.record_id AND stay.has_all
            UNION ALL
            SELECT piece.record_id, piece.period, array_agg(DISTINCT ele.person)
            FROM piece
            JOIN stay ON stay.record_id = piece.record_id AND NOT stay.has_all AND (stay.period IS NULL OR stay.period @> piece.period)
            CROSS JOIN LATERAL unnest(stay.people) ele (person)
            GROUP BY piece.record_id, piece.period
        ), told AS (
            SELECT one.record_id, array_agg(one.content ORDER BY one.content) AS contents
            FROM (SELECT DISTINCT con.record_id, ele.content
                  FROM dbanon_internal.list_contents(run.run_id) con CROSS JOIN LATERAL unnest(con.contents) ele (content)) one
            GROUP BY one.record_id
        )
        -- Several records may have the same members.
        SELECT DISTINCT grouped.period, grouped.people || guest.people, CASE WHEN guest.people IS NOT NULL THEN cardinality(grouped.people) END,
            told.contents
        FROM grouped LEFT JOIN guest ON guest.record_id = grouped.record_id LEFT JOIN told ON told.record_id = grouped.record_id
        UNION ALL
        -- A piece without members and without rows says nothing; one with rows is refused.
        SELECT piece.period, dbanon_internal.refuse_unknown_members(run.run_id), NULL, NULL
        FROM piece
        LEFT JOIN grouped ON grouped.record_id = piece.record_id AND grouped.period = piece.period
        WHERE grouped.record_id IS NULL AND EXISTS (
            SELECT FROM ONLY dbanon.record rec
            CROSS JOIN LATERAL unnest(rec.periods) ele (period_no)
            JOIN ONLY dbanon.period per ON per.run_id = run.run_id AND per.period_no = ele.period_no
            WHERE rec.run_id = run.run_id AND rec.record_id = piece.record_id AND per.period && piece.period);
    ELSIF hidden_by = 'region' THEN
        -- People with the same region in a period are one group.
        RETURN QUERY
        SELECT clo.period, CASE WHEN count(tra.subject) = count(*) THEN array_agg(DISTINCT dbanon_internal.hash_person(key, tra.subject))
                              ELSE dbanon_internal.refuse_unknown_members(run.run_id) END, NULL::integer, NULL::bigint[]
        FROM dbanon.cloak clo
        LEFT JOIN ONLY dbanon.membership mem ON mem.run_id = run.run_id AND mem.record_id = clo.record_id
        LEFT JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
        WHERE clo.run_id = run.run_id AND clo.crowd > 1
        GROUP BY clo.period, clo.region::bytea;
    ELSE
        RAISE EXCEPTION 'A run must have stored its groups of people to be published. Runs of the method % do not.', run.method
            USING ERRCODE = 'DA004', DETAIL = format('People of run %s are hidden by: %s.', run.run_id, coalesce(hidden_by, 'not said')),
                  HINT = 'Publish a run of another method: SELECT * FROM dbanon.methods.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_groups IS
'Finds who is hidden with whom in a run that is measured, from its stored rows: each group with its time and its people, in ascending
order, how many hide one another if guests follow them, and contents of requests. Raises an error if the method stores no groups, if a member is not in the dataset, or if a row has no member.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_exposures(run_id bigint) RETURNS TABLE (person bigint, period tstzmultirange)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET join_collapse_limit = 1
SET enable_hashjoin = off
SET enable_mergejoin = on
AS $$
DECLARE
    run dbanon.run;
    key bytea;
    alone boolean;
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = find_run_exposures.run_id;
    key := dbanon_internal.find_dataset_key(run.dataset_id);
    alone := dbanon_internal.stands_alone(run.method, run.algorithm);
    RETURN QUERY
    WITH stated AS MATERIALIZED (
        -- From the first row of a record to its last it speaks of its people, gaps included.
        SELECT spa.record_id, spa.period FROM dbanon_internal.find_record_spans(run.run_id) spa WHERE alone
        UNION ALL
        -- Where the members of a record hide one another, a row of one person is a group of one.
        SELECT rec.record_id, per.period
        FROM ONLY dbanon.record rec
        CROSS JOIN LATERAL unnest(rec.periods, rec.regions) ele (period_no, region_no)
        JOIN ONLY dbanon.region reg ON reg.run_id = run.run_id AND reg.region_no = ele.region_no AND reg.crowd = 1
        JOIN ONLY dbanon.period per ON per.run_id = run.run_id AND per.period_no = ele.period_no
        WHERE rec.run_id = run.run_id AND NOT alone AND EXISTS (
            SELECT FROM ONLY dbanon.method met WHERE met.name = run.method AND met.traits ->> 'hidden_by' = 'region')
    )
    SELECT CASE WHEN who.unknown > 0 THEN (dbanon_internal.refuse_unknown_members(run.run_id))[1]
                ELSE dbanon_internal.hash_person(key, who.subject) END, who.period
    FROM (SELECT tra.subject, range_agg(stated.period) AS period, count(*) - count(tra.subject) AS unknown
          FROM stated
          LEFT JOIN ONLY dbanon.membership mem ON mem.run_id = run.run_id AND mem.record_id = stated.record_id
          LEFT JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
          GROUP BY tra.subject) who;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_exposures IS
'Finds when a run that is measured shows people exactly, or, if it stands alone, when it speaks of them. Raises an error if a member is not in the
dataset, or if a record has none.';

CREATE OR REPLACE FUNCTION dbanon_internal.store_groups(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    alone boolean := (SELECT dbanon_internal.stands_alone(run.method, run.algorithm) FROM ONLY dbanon.run run WHERE run.run_id = store_groups.run_id);
BEGIN
    IF NOT alone THEN
        INSERT INTO dbanon.grouping (release_id, period, people, members, contents)
            SELECT store_groups.release_id, gro.period, gro.people, gro.members, gro.contents FROM dbanon_internal.find_run_groups(store_groups.run_id) gro;
    END IF;
    IF alone OR EXISTS (SELECT FROM ONLY dbanon.region reg WHERE reg.run_id = store_groups.run_id AND reg.crowd = 1) THEN
        INSERT INTO dbanon.exposure (release_id, person, period)
            SELECT store_groups.release_id, exp.person, exp.period FROM dbanon_internal.find_run_exposures(store_groups.run_id) exp;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_groups IS
'Stores of whom a run speaks under the number of a release: groups and exact rows; of one that stands alone, people and times.';
