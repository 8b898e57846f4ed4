-- Composition: who is hidden with whom in a run, and what is left of a crowd that is intersected with earlier releases.

CREATE OR REPLACE FUNCTION dbanon_internal.look_back(method text, params jsonb) RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- A snapshot shows fixes up to some seconds old: one that comes shortly before it may show the very same.
    SELECT CASE WHEN params ->> (m.traits ->> 'instant') IS NOT NULL AND m.traits ->> 'oldest' IS NOT NULL
                THEN make_interval(secs => coalesce((params ->> (m.traits ->> 'oldest'))::double precision, 604800))
                ELSE interval '0' END
    FROM ONLY dbanon.method m WHERE m.name = look_back.method
$$;
COMMENT ON FUNCTION dbanon_internal.look_back(text, jsonb) IS
'How old the positions in a run''s rows may be when the rows'' period begins: for a snapshot at an instant, as old as the parameter says
that the method names, else 0.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_unknown_members(run_id bigint) RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
AS $$
DECLARE
    members bigint;
    unknown bigint;
    bare bigint;
BEGIN
    -- Members whose trajectory is no longer in the run's own dataset: deleted, or loaded anew under another number.
    SELECT count(*), count(*) - count(t.trajectory_id) INTO members, unknown
        FROM ONLY dbanon.membership m
        LEFT JOIN ONLY dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = (
            SELECT o.dataset_id FROM ONLY dbanon.run o WHERE o.run_id = refuse_unknown_members.run_id)
        WHERE m.run_id = refuse_unknown_members.run_id;
    SELECT count(DISTINCT d.record_id) INTO bare
        FROM ONLY dbanon.record d LEFT JOIN ONLY dbanon.membership m ON m.run_id = d.run_id AND m.record_id = d.record_id
        WHERE d.run_id = refuse_unknown_members.run_id AND m.record_id IS NULL;
    RAISE EXCEPTION 'Every record of a run must have members, and every member a trajectory in the dataset. Of run %, % records have no '
                    'member, and % of % members have no trajectory.', refuse_unknown_members.run_id, bare, unknown, members
        USING ERRCODE = 'DA005', DETAIL = 'Who is hidden with whom cannot be determined, so the run cannot be measured or published.',
              HINT = 'The dataset has changed since that run; start another: CALL dbanon.anonymize(...).';
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_unknown_members(bigint) IS
'Says how many of a run''s records have no member, and how many members no trajectory in the run''s dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.record_spans(run_id bigint) RETURNS TABLE (record_id bigint, period tstzrange)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
-- The rows of a run are put together first, and what belongs to them is looked up for all at once: no other order knows how many they are.
SET join_collapse_limit = 1
-- Its callers have switched off what suits them.
SET enable_hashjoin = on
SET enable_mergejoin = on
AS $$
    -- Gaps between the rows of a record count as its time: its members are the same people before and after one.
    SELECT d.record_id, tstzrange(min(lower(p.period)), max(upper(p.period)))
    FROM ONLY dbanon.record d
    CROSS JOIN LATERAL unnest(d.periods) e (period_no)
    JOIN ONLY dbanon.period p ON p.run_id = record_spans.run_id AND p.period_no = e.period_no
    WHERE d.run_id = record_spans.run_id
    GROUP BY d.record_id
$$;
COMMENT ON FUNCTION dbanon_internal.record_spans(bigint) IS
'For each record of a run, from the start of its first row to the end of its last.';

CREATE OR REPLACE FUNCTION dbanon_internal.record_groups(run_id bigint) RETURNS TABLE (
    record_id bigint, period tstzrange, trajectory_id bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET join_collapse_limit = 1
SET enable_hashjoin = on
SET enable_mergejoin = on
AS $$
    WITH span AS MATERIALIZED (
        SELECT s.record_id, s.period FROM dbanon_internal.record_spans(record_groups.run_id) s
    ), cut AS (
        -- A cut is where a record begins or ends, or where a member joins or leaves it within that time.
        SELECT s.record_id, c.at FROM span s CROSS JOIN LATERAL (VALUES (lower(s.period)), (upper(s.period))) c (at)
        UNION
        SELECT s.record_id, c.at
        FROM span s
        JOIN ONLY dbanon.membership m ON m.run_id = record_groups.run_id AND m.record_id = s.record_id AND m.period IS NOT NULL
        CROSS JOIN LATERAL (VALUES (lower(m.period)), (upper(m.period))) c (at)
        WHERE s.period @> c.at
    ), piece AS (
        -- Members that a record carries for a stretch cut its time into pieces, in each of which they are the same.
        SELECT x.record_id, tstzrange(x.at, x.until) AS period
        FROM (SELECT c.record_id, c.at, lead(c.at) OVER (PARTITION BY c.record_id ORDER BY c.at) AS until FROM cut c) x
        WHERE x.until IS NOT NULL
    )
    -- A member without a period is in its record for the whole of the record's time, so in every piece of it.
    SELECT i.record_id, i.period, m.trajectory_id
    FROM piece i
    LEFT JOIN ONLY dbanon.membership m
        ON m.run_id = record_groups.run_id AND m.record_id = i.record_id AND (m.period IS NULL OR m.period @> i.period)
    -- A piece without members and without rows says nothing; one with rows is kept, for its reader to refuse.
    WHERE m.record_id IS NOT NULL OR EXISTS (
        SELECT FROM ONLY dbanon.record d
        CROSS JOIN LATERAL unnest(d.periods) e (period_no)
        JOIN ONLY dbanon.period p ON p.run_id = record_groups.run_id AND p.period_no = e.period_no
        WHERE d.run_id = record_groups.run_id AND d.record_id = i.record_id AND p.period && i.period)
$$;
COMMENT ON FUNCTION dbanon_internal.record_groups(bigint) IS
'For each record of a run and each piece of its time in which its members are the same, its members, a row each; a piece with rows but
without members has one of null.';

CREATE OR REPLACE FUNCTION dbanon_internal.hiding_groups(run_id bigint) RETURNS TABLE (
    number bigint, period tstzrange, alone boolean, trajectory_id bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET join_collapse_limit = 1
SET enable_hashjoin = on
SET enable_mergejoin = on
AS $$
DECLARE
    bare bigint;
BEGIN
    -- A record that is hidden at a time must have a hiding set for that time.
    SELECT count(DISTINCT c.record_id) INTO bare
        FROM ONLY dbanon.cloak c
        LEFT JOIN (SELECT h.record_id, range_agg(coalesce(h.period, tstzrange(NULL, NULL))) AS period
                   FROM ONLY dbanon.hiding h WHERE h.run_id = hiding_groups.run_id GROUP BY h.record_id) s ON s.record_id = c.record_id
        WHERE c.run_id = hiding_groups.run_id AND c.crowd > 1 AND NOT coalesce(s.period @> c.period, false);
    IF bare > 0 THEN
        RAISE EXCEPTION 'Every row of a run that hides people must have a hiding set for its time. Rows of % records of run % have none.',
                bare, hiding_groups.run_id
            USING ERRCODE = 'DA005', DETAIL = 'Who is hidden with whom cannot be determined, so the run cannot be measured or published.',
                  HINT = 'Start another run: CALL dbanon.anonymize(...).';
    END IF;
    RETURN QUERY
    WITH hidden AS MATERIALIZED (
        -- One line for each hiding set and record in it, the owner's too, within the time of the owner's record.
        SELECT h.line, coalesce(h.period * s.period, s.period) AS period, u.record_id
        FROM (SELECT l.*, row_number() OVER () AS line FROM ONLY dbanon.hiding l WHERE l.run_id = hiding_groups.run_id) h
        JOIN dbanon_internal.record_spans(hiding_groups.run_id) s ON s.record_id = h.record_id
        CROSS JOIN LATERAL unnest(h.record_id || h.others) u (record_id)
    ), cut AS (
        SELECT h.line, c.at FROM hidden h CROSS JOIN LATERAL (VALUES (lower(h.period)), (upper(h.period))) c (at)
        UNION
        SELECT h.line, c.at
        FROM hidden h
        JOIN ONLY dbanon.membership m ON m.run_id = hiding_groups.run_id AND m.record_id = h.record_id AND m.period IS NOT NULL
        CROSS JOIN LATERAL (VALUES (lower(m.period)), (upper(m.period))) c (at)
        WHERE h.period @> c.at
    ), piece AS (
        -- As in record_groups: in each piece the members of all these records are the same.
        SELECT x.line, tstzrange(x.at, x.until) AS period
        FROM (SELECT c.line, c.at, lead(c.at) OVER (PARTITION BY c.line ORDER BY c.at) AS until FROM cut c) x
        WHERE x.until IS NOT NULL
    )
    SELECT h.line, i.period, false, m.trajectory_id
    FROM hidden h
    JOIN piece i ON i.line = h.line
    LEFT JOIN ONLY dbanon.membership m
        ON m.run_id = hiding_groups.run_id AND m.record_id = h.record_id AND (m.period IS NULL OR m.period @> i.period)
    -- Exact rows hide no person: they are one group of people who are alone, under number 0.
    UNION ALL
    SELECT 0, c.period, true, m.trajectory_id
    FROM ONLY dbanon.cloak c
    LEFT JOIN ONLY dbanon.membership m
        ON m.run_id = c.run_id AND m.record_id = c.record_id AND (m.period IS NULL OR m.period @> c.period)
    WHERE c.run_id = hiding_groups.run_id AND c.crowd = 1;
END
$$;
COMMENT ON FUNCTION dbanon_internal.hiding_groups(bigint) IS
'The members of the records of each hiding set of a run, its owner''s among them, a row each, and those of exact rows, who are alone at their
time; null for a record without members then.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_grouping(run_id bigint) RETURNS TABLE (
    period tstzrange, alone boolean, subjects text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
SET join_collapse_limit = 1
-- Along the index on trajectories: three times as fast as to read all of them.
SET enable_hashjoin = off
SET enable_mergejoin = on
AS $$
DECLARE
    run dbanon.run;
    hidden_by text;
    look_back interval;
BEGIN
    SELECT r.* INTO STRICT run FROM ONLY dbanon.run r WHERE r.run_id = run_grouping.run_id;
    -- Every group begins earlier by the age a shown position may have: it may show what an earlier release shows, too.
    look_back := dbanon_internal.look_back(run.method, run.params);
    SELECT m.traits ->> 'hidden_by' INTO hidden_by FROM ONLY dbanon.method m WHERE m.name = run.method;
    -- Sorted by bytes: a language's order takes ten times as long.
    IF hidden_by = 'record' THEN
        -- A record hides its members in each other for the whole of its time.
        RETURN QUERY
        SELECT tstzrange(lower(g.period) - look_back, upper(g.period)), false,
            CASE WHEN count(t.subject) = count(*) THEN array_agg(DISTINCT t.subject COLLATE "C")
                 ELSE dbanon_internal.refuse_unknown_members(run.run_id) END
        FROM dbanon_internal.record_groups(run.run_id) g
        LEFT JOIN ONLY dbanon.trajectory t ON t.trajectory_id = g.trajectory_id AND t.dataset_id = run.dataset_id
        GROUP BY g.record_id, g.period;
    ELSIF hidden_by = 'region' THEN
        -- People with the same region in a period are one group; all who are published exactly then share a row here.
        RETURN QUERY
        SELECT tstzrange(lower(c.period) - look_back, upper(c.period)), c.crowd = 1,
            CASE WHEN count(t.subject) = count(*) THEN array_agg(DISTINCT t.subject COLLATE "C")
                 ELSE dbanon_internal.refuse_unknown_members(run.run_id) END
        FROM ONLY dbanon.cloak c
        LEFT JOIN ONLY dbanon.membership m ON m.run_id = run.run_id AND m.record_id = c.record_id
        LEFT JOIN ONLY dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = run.dataset_id
        WHERE c.run_id = run.run_id
        GROUP BY c.period, c.crowd = 1, CASE WHEN c.crowd > 1 THEN c.region::bytea END;
    ELSIF hidden_by = 'hiding' THEN
        -- An owner and the others of its hiding set are one group for as long as the set is theirs; exact rows show people alone.
        RETURN QUERY
        SELECT tstzrange(lower(g.period) - look_back, upper(g.period)), g.alone,
            CASE WHEN count(t.subject) = count(*) THEN array_agg(DISTINCT t.subject COLLATE "C")
                 ELSE dbanon_internal.refuse_unknown_members(run.run_id) END
        FROM dbanon_internal.hiding_groups(run.run_id) g
        LEFT JOIN ONLY dbanon.trajectory t ON t.trajectory_id = g.trajectory_id AND t.dataset_id = run.dataset_id
        GROUP BY g.number, g.period, g.alone;
    ELSE
        RAISE EXCEPTION 'A run must have stored who is hidden with whom to be published. Runs of the method % do not.', run.method
            USING ERRCODE = 'DA004', DETAIL = format('People of run %s are hidden by: %s.', run.run_id, coalesce(hidden_by, 'not said')),
                  HINT = 'Publish a run of another method: SELECT * FROM dbanon.methods.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.run_grouping(bigint) IS
'Who is hidden with whom in a run, from its stored rows.';

CREATE OR REPLACE FUNCTION dbanon_internal.repeated_periods(run_id bigint, releases bigint[]) RETURNS TABLE (
    period tstzrange, release_id bigint)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
AS $$
    WITH grouped AS (
        -- A digest stands for a group: a join on whole arrays of subjects would take far more memory.
        SELECT 0::bigint AS release_id, g.period, md5(g.alone::text || g.subjects::text) AS mark
        FROM dbanon_internal.run_grouping(repeated_periods.run_id) g
        UNION ALL
        SELECT g.release_id, g.period, md5(g.alone::text || g.subjects::text)
        FROM ONLY dbanon.grouping g WHERE g.release_id = ANY (repeated_periods.releases)
    ), span AS (
        SELECT g.release_id, g.period, md5(string_agg(g.mark, '' ORDER BY g.mark)) AS mark FROM grouped g GROUP BY g.release_id, g.period
    )
    SELECT n.period, o.release_id
    FROM span n JOIN span o ON o.period = n.period AND o.mark = n.mark
    WHERE n.release_id = 0 AND o.release_id > 0
$$;
COMMENT ON FUNCTION dbanon_internal.repeated_periods(bigint, bigint[]) IS
'The periods of a run for which an earlier release had the very same groups.';

CREATE OR REPLACE FUNCTION dbanon_internal.intersect_grouping(run_id bigint, releases bigint[], aside tstzrange[]) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, met bigint[])
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- The planner cannot know how many subjects an array holds. Sorting keeps to work_mem whatever it estimates.
SET enable_nestloop = off
SET enable_mergejoin = off
SET enable_hashagg = off
AS $$
    WITH grouped AS MATERIALIZED (
        -- Groups of the run have numbers below 0, those of releases above; the run stands as release 0.
        SELECT -row_number() OVER () AS number, 0::bigint AS release_id, g.period, g.alone, g.subjects
        FROM dbanon_internal.run_grouping(intersect_grouping.run_id) g WHERE g.period <> ALL (intersect_grouping.aside)
        UNION ALL
        SELECT row_number() OVER (), g.release_id, g.period, g.alone, g.subjects
        FROM ONLY dbanon.grouping g WHERE g.release_id = ANY (intersect_grouping.releases)
    ), span AS MATERIALIZED (
        SELECT DISTINCT g.release_id, g.period FROM grouped g
    ), cut AS MATERIALIZED (
        SELECT b.at, row_number() OVER (ORDER BY b.at) AS place
        FROM (SELECT lower(s.period) AS at FROM span s UNION SELECT upper(s.period) FROM span s) b
    ), held AS MATERIALIZED (
        -- The pieces of time between cuts, numbered, and who holds them.
        SELECT s.release_id, s.period, p.piece
        FROM span s
        JOIN cut f ON f.at = lower(s.period)
        JOIN cut t ON t.at = upper(s.period)
        CROSS JOIN LATERAL generate_series(f.place, t.place - 1) p (piece)
    ), promise AS MATERIALIZED (
        -- The k that the run and each release promise. A piece holds the largest k of all that hold it.
        SELECT p.release_id, ceil((r.params ->> 'k')::numeric)::bigint AS k, m.traits ->> 'hidden_by' = 'hiding' AS overlapping
        FROM (SELECT 0::bigint AS release_id, intersect_grouping.run_id AS run_id
              UNION ALL
              SELECT l.release_id, l.run_id FROM ONLY dbanon.release l WHERE l.release_id = ANY (intersect_grouping.releases)) p
        JOIN ONLY dbanon.run r ON r.run_id = p.run_id
        LEFT JOIN ONLY dbanon.method m ON m.name = r.method
    ), shared AS MATERIALIZED (
        -- Only pieces that both the run and a release hold can be intersected.
        SELECT h.piece, max(p.k) AS k, coalesce(bool_or(p.overlapping), true) AS overlapping
        FROM held h JOIN promise p ON p.release_id = h.release_id
        GROUP BY h.piece HAVING bool_or(h.release_id = 0) AND bool_or(h.release_id > 0)
    ), member AS (
        SELECT u.subject COLLATE "C" AS subject, h.piece, g.number, g.alone
        FROM shared s
        JOIN held h ON h.piece = s.piece
        JOIN grouped g ON g.release_id = h.release_id AND g.period = h.period
        CROSS JOIN LATERAL unnest(g.subjects) u (subject)
    ), seen AS MATERIALIZED (
        -- Without an order within: sorting each person's few numbers here would cost more than all the rest.
        SELECT x.*, row_number() OVER () AS line
        FROM (SELECT m.subject, m.piece,
                  array_agg(m.number) FILTER (WHERE m.number > 0) AS before,
                  array_agg(m.number) FILTER (WHERE m.number < 0) AS now,
                  coalesce(bool_or(m.alone) FILTER (WHERE m.number > 0), false) AS alone_before,
                  coalesce(bool_or(m.alone) FILTER (WHERE m.number < 0), false) AS alone_now
              FROM member m
              GROUP BY m.subject, m.piece) x
    ), several AS MATERIALIZED (
        -- Only few people are in several groups of one side in a piece; only their numbers have to be sorted.
        SELECT s.line, ARRAY(SELECT DISTINCT b FROM unnest(s.before) b ORDER BY b) AS before,
            ARRAY(SELECT DISTINCT b FROM unnest(s.now) b ORDER BY b) AS now
        FROM seen s WHERE cardinality(s.before) > 1 OR cardinality(s.now) > 1
    ), named AS MATERIALIZED (
        -- People who were in the same several groups share a name: the least of their lines.
        SELECT v.line, min(v.line) OVER (PARTITION BY v.before) AS before, min(v.line) OVER (PARTITION BY v.now) AS now
        FROM several v
    ), placed AS MATERIALIZED (
        -- A class is the groups a person was in, a crowd those they are in now, each identified by one number: 0 is being
        -- left out, which an adversary sees as well; the number of the group; or, of the other sign, a line, for several
        -- groups or for a person who is alone, which is a class or crowd of one.
        SELECT s.subject, s.piece,
            CASE WHEN s.before IS NULL THEN 0 WHEN s.alone_before THEN -s.line
                 WHEN cardinality(s.before) = 1 THEN s.before[1] ELSE -n.before END AS class,
            CASE WHEN s.now IS NULL THEN 0 WHEN s.alone_now THEN s.line
                 WHEN cardinality(s.now) = 1 THEN s.now[1] ELSE n.now END AS crowd,
            n.line IS NOT NULL AS several
        FROM seen s LEFT JOIN named n ON n.line = s.line
    ), counted AS (
        -- An intersection: the people of one class in one crowd, in one piece. Beside it, how large class and crowd are.
        SELECT p.piece, p.class, p.crowd, bool_or(p.several) AS several, count(*) AS n FROM placed p GROUP BY p.piece, p.class, p.crowd
    ), sized AS (
        SELECT c.*, sum(c.n) OVER (PARTITION BY c.piece, c.class) AS of_class,
            sum(c.n) OVER (PARTITION BY c.piece, c.crowd) AS of_crowd
        FROM counted c
    ), judged AS MATERIALIZED (
        -- A class that stays together reveals nothing. Of those never published there is nothing to take apart, unless
        -- they are mixed with others, which intersecting takes away. A person in several hiding sets has others in each: a
        -- separate class says nothing about how few candidates one set leaves with another, so it counts as taken apart.
        SELECT z.*, s.k,
            (z.several AND s.overlapping) OR CASE z.class WHEN 0 THEN z.n < z.of_crowd ELSE z.n < z.of_class END AS parted
        FROM sized z JOIN shared s ON s.piece = z.piece
    ), worst AS MATERIALIZED (
        SELECT j.piece, j.n, j.k FROM judged j WHERE j.parted ORDER BY j.n < j.k DESC, j.n, j.k DESC, j.piece LIMIT 1
    )
    -- disjoint: no person is in both; crossing: a class was split; same: classes and crowds agree; coarser: classes were merged.
    SELECT
        CASE WHEN bool_or(j.class <> 0 AND j.crowd <> 0) IS NOT TRUE THEN 'disjoint'
             WHEN bool_or(j.parted) THEN 'crossing'
             WHEN bool_and(j.n = j.of_class AND j.n = j.of_crowd AND j.class <> 0 AND j.crowd <> 0) THEN 'same'
             ELSE 'coarser' END,
        (SELECT w.n FROM worst w),
        coalesce((SELECT w.k FROM worst w), max(j.k)),
        count(*) FILTER (WHERE j.parted AND j.n < j.k),
        (SELECT count(DISTINCT p.subject) FROM judged b
         JOIN placed p ON p.piece = b.piece AND p.class = b.class AND p.crowd = b.crowd WHERE b.parted AND b.n < b.k),
        ARRAY(SELECT DISTINCT h.release_id FROM shared s JOIN held h ON h.piece = s.piece
              WHERE h.release_id > 0 AND s.piece = coalesce((SELECT w.piece FROM worst w), s.piece)
              ORDER BY h.release_id)
    FROM judged j
$$;
COMMENT ON FUNCTION dbanon_internal.intersect_grouping(bigint, bigint[], tstzrange[]) IS
'Intersects the groups of a run with those of releases, piece by piece of the time that both hold.';

CREATE OR REPLACE FUNCTION dbanon_internal.audiences(run_id bigint, releases bigint[]) RETURNS TABLE (read bigint[])
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    WITH earlier AS MATERIALIZED (
        -- Each earlier release: whether its overlap was allowed for a reason, and whether it keeps the same secret as the run.
        SELECT l.release_id, l.overlap_reason IS NOT NULL AS overridden,
            m.traits -> 'hides' = (SELECT n.traits -> 'hides' FROM ONLY dbanon.run r JOIN ONLY dbanon.method n ON n.name = r.method
                                    WHERE r.run_id = audiences.run_id) AS alike
        FROM ONLY dbanon.release l JOIN ONLY dbanon.run o ON o.run_id = l.run_id JOIN ONLY dbanon.method m ON m.name = o.method
        WHERE l.release_id = ANY (audiences.releases)
    ), audience AS (
        -- Reader 0 has read everything; reader -1 nothing that was allowed for a reason; the others begin with such a release.
        SELECT 0::bigint AS reader, e.* FROM earlier e
        UNION ALL
        -- A release that was allowed for a reason may have readers who read nothing from before it.
        SELECT -1, e.* FROM earlier e WHERE NOT e.overridden
        UNION ALL
        SELECT o.release_id, e.*
        FROM earlier o JOIN earlier e ON e.release_id = o.release_id OR (e.release_id > o.release_id AND NOT e.overridden)
        WHERE o.overridden
    )
    SELECT array_agg(a.release_id ORDER BY a.release_id) FROM audience a GROUP BY a.reader
    UNION
    -- A promise about another secret is not broken: whose place was shown exactly may still have been a hidden sender.
    SELECT array_agg(a.release_id ORDER BY a.release_id) FROM audience a WHERE a.alike GROUP BY a.reader
    UNION
    SELECT ARRAY[e.release_id] FROM earlier e
$$;
COMMENT ON FUNCTION dbanon_internal.audiences(bigint, bigint[]) IS
'Which releases an adversary may have read: all; all that were published without allow_overlap; one that was published
with it, and those without it from then on; of each of these those that keep the same secret as the run; and each
release alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.releases_within(dataset_id bigint, extent tstzrange) RETURNS TABLE (release_id bigint, name text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT l.release_id, l.name || CASE WHEN l.withdrawn_at IS NULL THEN '' ELSE ' (withdrawn)' END
    FROM ONLY dbanon.release l JOIN ONLY dbanon.run o ON o.run_id = l.run_id
    WHERE o.dataset_id = releases_within.dataset_id
        AND EXISTS (SELECT FROM ONLY dbanon.grouping g WHERE g.release_id = l.release_id AND g.period && releases_within.extent)
    ORDER BY l.release_id
$$;
COMMENT ON FUNCTION dbanon_internal.releases_within(bigint, tstzrange) IS
'Lists the releases of a dataset, withdrawn ones too and marked so, that say something about a time, the oldest first.';

CREATE OR REPLACE FUNCTION dbanon.measure_overlap(run_id bigint) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, releases text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run dbanon.run;
    extent tstzrange;
    near bigint[];
    unknown bigint;
    worst record;
    aside tstzrange[];
    repeated bigint[];
BEGIN
    SELECT r.* INTO run FROM ONLY dbanon.run r WHERE r.run_id = measure_overlap.run_id;
    IF run.run_id IS NULL THEN
        PERFORM dbanon_internal.refuse_no_run(measure_overlap.run_id);
    END IF;
    IF run.status NOT IN ('computed', 'verified', 'refused') THEN
        RAISE EXCEPTION 'A run must have been computed to be measured. Run % is %.', run.run_id, run.status
            USING ERRCODE = 'DA004', DETAIL = format('Status of run %s: %s.', run.run_id, run.status),
                  HINT = 'Start another run: CALL dbanon.anonymize(...).';
    END IF;
    -- Only releases that say something about the run's time can be intersected with it; for most runs there are none.
    IF EXISTS (SELECT FROM ONLY dbanon.release l JOIN ONLY dbanon.run o ON o.run_id = l.run_id WHERE o.dataset_id = run.dataset_id) THEN
        SELECT tstzrange(min(lower(p.period)) - dbanon_internal.look_back(run.method, run.params), max(upper(p.period))) INTO extent
            FROM ONLY dbanon.period p WHERE p.run_id = run.run_id HAVING count(*) > 0;
        near := ARRAY(SELECT n.release_id FROM dbanon_internal.releases_within(run.dataset_id, extent) n);
    END IF;
    -- Without a k there is nothing to compare an intersection with.
    SELECT min(o.run_id) INTO unknown FROM ONLY dbanon.run o
        WHERE cardinality(near) > 0
            AND (o.run_id = run.run_id OR o.run_id IN (SELECT l.run_id FROM ONLY dbanon.release l WHERE l.release_id = ANY (near)))
            AND coalesce(jsonb_typeof(o.params -> 'k') <> 'number', true);
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'The k of every release that shares time with run % must be known. That of run % is not.', run.run_id, unknown
            USING ERRCODE = 'DA010', DETAIL = format('Parameters of run %s name no k.', unknown),
                  HINT = 'Publish a run of another time span.';
    END IF;
    IF cardinality(near) > 0 THEN
        -- What was shown before reveals nothing more, whatever it crosses: that was measured, or allowed, when it was first shown.
        SELECT array_agg(DISTINCT p.period), array_agg(DISTINCT p.release_id) INTO aside, repeated
            FROM dbanon_internal.repeated_periods(run.run_id, near) p;
    END IF;
    -- Every set of releases that an adversary may have read is intersected, and the worst outcome reported.
    SELECT i.* INTO worst
    FROM dbanon_internal.audiences(run.run_id, near) a
    CROSS JOIN LATERAL dbanon_internal.intersect_grouping(run.run_id, a.read, coalesce(aside, '{}')) i
    WHERE i.relation <> 'disjoint'
    -- The worst adversary narrows a person down to the fewest people; then one that learns anything at all.
    ORDER BY i.below > 0 DESC, i.relation <> 'crossing', i.smallest_crowd, i.people DESC, i.below DESC,
        i.relation = 'same', cardinality(a.read) DESC, a.read
    LIMIT 1;
    -- All that overlaps was set aside as a repetition: the same groups, with the largest k promised for them.
    IF NOT FOUND AND repeated IS NOT NULL THEN
        SELECT 'same' AS relation, NULL::bigint AS smallest_crowd, max((o.params ->> 'k')::numeric)::bigint AS k, 0::bigint AS below,
                0::bigint AS people, repeated AS met INTO worst
            FROM ONLY dbanon.run o
            WHERE o.run_id = run.run_id OR o.run_id IN (SELECT l.run_id FROM ONLY dbanon.release l WHERE l.release_id = ANY (repeated));
    ELSIF NOT FOUND THEN
        RETURN QUERY SELECT 'disjoint', NULL::bigint, NULL::bigint, 0::bigint, 0::bigint, '{}'::text[];
        RETURN;
    END IF;
    RETURN QUERY SELECT worst.relation, worst.smallest_crowd, worst.k, worst.below, worst.people,
        ARRAY(SELECT l.name || CASE WHEN bool_and(l.withdrawn_at IS NOT NULL) THEN ' (withdrawn)' ELSE '' END
              FROM ONLY dbanon.release l WHERE l.release_id = ANY (worst.met) GROUP BY l.name ORDER BY min(l.release_id));
END
$$;
COMMENT ON FUNCTION dbanon.measure_overlap(bigint) IS
'What an adversary is left with who intersects a run with earlier releases of its dataset, withdrawn ones too: of
all the sets of releases that an adversary may have read, the one that leaves the least. Periods whose very groups were published before count as the
same and are left aside. Time is cut where groups begin or end; a class is all the people who were in the same group, or left out,
in each release that holds a piece. Takes: run_id. Returns: one row: relation (disjoint: no person is in both at a time; same;
coarser: every class stays together; crossing), smallest_crowd: the fewest of a parted class in one group of the run, k: the
largest k promised there, below: how many intersections have fewer, people: how many people are in these, releases: names of
those involved. Raises: DA001, DA004, DA005, and DA010 where a k is not known. Example: SELECT * FROM dbanon.measure_overlap(2).';

CREATE OR REPLACE FUNCTION dbanon_internal.check_override(allow_overlap boolean, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    words integer := (SELECT count(*) FROM regexp_split_to_table(reason, '\s+') w WHERE w ~ '[[:alnum:]]');
BEGIN
    IF reason IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A reason must go with allow_overlap. Got one without it.'
            USING ERRCODE = 'DA002', DETAIL = 'Only an overlap that is allowed is recorded with its reason.',
                  HINT = 'Add allow_overlap => true, or leave the reason out.';
    END IF;
    IF allow_overlap AND (words < 3 OR length(reason) > 1000) THEN
        RAISE EXCEPTION 'Allowing an overlap must have a reason of at least three words and at most 1,000 characters. Got % words instead.',
                words
            USING ERRCODE = 'DA002', DETAIL = format('It has %s characters.', coalesce(length(reason), 0)),
                  HINT = 'Say why it may be published all the same: reason => ''...''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_override(boolean, text) IS
'Refuses to allow an overlap without a reason, and a reason where none is needed.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_overlap(run_id bigint, allow_overlap boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found record;
    others text;
BEGIN
    SELECT m.* INTO STRICT found FROM dbanon.measure_overlap(check_overlap.run_id) m;
    IF allow_overlap AND found.below = 0 THEN
        RAISE NOTICE 'Nothing had to be allowed: the reason is not recorded.';
    END IF;
    IF found.relation = 'disjoint' THEN
        RETURN NULL;
    END IF;
    others := array_to_string(found.releases[:3], ', ')
        || CASE WHEN cardinality(found.releases) > 3 THEN format(' and %s more', cardinality(found.releases) - 3) ELSE '' END;
    IF found.below > 0 AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'An adversary who intersects a run with earlier releases must still find at least % people in every crowd. '
                        'Run % with % leaves %.', found.k, check_overlap.run_id, others, found.smallest_crowd
            USING ERRCODE = 'DA010',
                  DETAIL = format('%s is the largest k of them all; %s intersections are smaller, of %s people in all.', found.k, found.below, found.people),
                  HINT = 'Publish the same grouping again, a coarser one or another time span; or, knowing this, '
                         'allow_overlap => true with reason => ''...''.';
    END IF;
    IF found.below > 0 THEN
        RAISE NOTICE 'Overridden: an adversary who intersects this with % is left with % where % were promised; % intersections '
            'are smaller, of % people in all.', others, found.smallest_crowd, found.k, found.below, found.people;
    ELSIF found.relation = 'same' THEN
        RAISE NOTICE 'The grouping is the same as in %: intersecting them reveals nothing more.', others;
    ELSIF found.relation = 'coarser' THEN
        RAISE NOTICE 'The grouping is coarser than what is known from %: people whom those releases do not separate stay together, and '
            'intersecting them reveals nothing more.', others;
    ELSE
        RAISE NOTICE 'An adversary who intersects this with % still finds at least % people in every crowd; % are enough.',
            others, found.smallest_crowd, found.k;
    END IF;
    RETURN to_jsonb(found);
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_overlap(bigint, boolean) IS
'Refuses a run that, intersected with earlier releases, leaves fewer than k.';
