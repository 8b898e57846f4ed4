-- Composition: whether a run, published beside earlier releases of its population, leaves a person fewer candidates than promised.
-- docs/understand/releases-together.md states the rule. A run that is measured stands here as a release: its groups are stored under a number first.
-- Functions that return a query of theirs in PL/pgSQL do so because a session keeps the plan; to plan them takes longer than to measure ten people.

-- BEGIN ATOMIC, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION dbanon_internal.padded(period tstzrange, reach interval) RETURNS tstzrange
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN tstzrange(lower(period) - reach, upper(period) + reach);
COMMENT ON FUNCTION dbanon_internal.padded(tstzrange, interval) IS
'A period made longer at both ends: another period overlaps it if it is less than that far away.';

CREATE OR REPLACE FUNCTION dbanon_internal.releases_near(population_id bigint, span tstzrange, reach interval) RETURNS TABLE (release_id bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.release_id
    FROM ONLY dbanon.release l LEFT JOIN ONLY dbanon.run o ON o.run_id = l.run_id LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = o.dataset_id
    WHERE coalesce(l.population_id, d.population_id) = releases_near.population_id
        AND dbanon_internal.padded(l.span, greatest(l.reach, releases_near.reach)) && releases_near.span;
END
$$;
COMMENT ON FUNCTION dbanon_internal.releases_near(bigint, tstzrange, interval) IS
'The releases of a population, withdrawn and lost ones too, that say something at a time or within reach of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.releases_within(dataset_id bigint, extent tstzrange, reach interval) RETURNS TABLE (
    release_id bigint, name text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT l.release_id, l.name || CASE WHEN l.run_id IS NULL THEN ' (lost)' WHEN l.withdrawn_at IS NULL THEN '' ELSE ' (withdrawn)' END
    FROM ONLY dbanon.dataset d
    CROSS JOIN LATERAL dbanon_internal.releases_near(d.population_id, releases_within.extent, releases_within.reach) n
    JOIN ONLY dbanon.release l ON l.release_id = n.release_id
    WHERE d.dataset_id = releases_within.dataset_id
    ORDER BY l.release_id
$$;
COMMENT ON FUNCTION dbanon_internal.releases_within(bigint, tstzrange, interval) IS
'Lists the releases of a dataset''s population, withdrawn and lost ones too and marked so, that say something at a time or within reach of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.compared(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, secret text, k bigint, alone boolean, span tstzrange, reach interval, content bytea, overridden boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH run AS MATERIALIZED (
        SELECT d.population_id, dbanon_internal.run_span(r.run_id) AS span, dbanon_internal.run_reach(r.run_id) AS reach
        FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id WHERE r.run_id = compared.run_id
    ), near AS (
        -- Those that meet the run, and those that meet these: the candidates that a person had before may depend on them.
        SELECT DISTINCT b.release_id
        FROM run n
        CROSS JOIN LATERAL dbanon_internal.releases_near(n.population_id, n.span, n.reach) a
        JOIN ONLY dbanon.release l ON l.release_id = a.release_id
        CROSS JOIN LATERAL dbanon_internal.releases_near(n.population_id, l.span, l.reach) b
    ), known AS (
        SELECT compared.new_release AS release_id, compared.run_id AS run_id, n.span, n.reach, NULL::bytea AS content, false AS overridden
        FROM run n
        UNION ALL
        SELECT l.release_id, l.run_id, l.span, l.reach, l.content, l.overlap_reason IS NOT NULL
        FROM ONLY dbanon.release l JOIN near b ON b.release_id = l.release_id WHERE l.release_id <> compared.new_release
    )
    -- Of a lost release only its time is known: it is taken for one of places that stands alone. It alone has no k.
    SELECT w.release_id, coalesce(m.traits ->> 'hides', 'place'), ceil((r.params ->> 'k')::numeric)::bigint,
        dbanon_internal.stands_alone(r.method, r.algorithm), w.span, w.reach, w.content, w.overridden
    FROM known w LEFT JOIN ONLY dbanon.run r ON r.run_id = w.run_id LEFT JOIN ONLY dbanon.method m ON m.name = r.method;
END
$$;
COMMENT ON FUNCTION dbanon_internal.compared(bigint, bigint) IS
'A run, under the number of the release it is about to be, and the releases it is compared with: what each promises and how far it reaches.';

CREATE OR REPLACE FUNCTION dbanon_internal.audiences(run_id bigint, new_release bigint) RETURNS TABLE (read bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH earlier AS MATERIALIZED (
        SELECT c.release_id, c.overridden FROM dbanon_internal.compared(audiences.run_id, audiences.new_release) c
        WHERE c.release_id <> audiences.new_release
    )
    SELECT DISTINCT ARRAY(SELECT e.release_id FROM earlier e WHERE a.everything OR NOT e.overridden OR e.release_id = a.also ORDER BY 1)
    FROM (SELECT true AS everything, NULL::bigint AS also
          UNION ALL SELECT false, NULL
          UNION ALL SELECT false, e.release_id FROM earlier e WHERE e.overridden) a;
END
$$;
COMMENT ON FUNCTION dbanon_internal.audiences(bigint, bigint) IS
'Which earlier releases an adversary may have read: all; all but those let through for a reason; these and any one that was.';

CREATE OR REPLACE FUNCTION dbanon_internal.comparisons(run_id bigint, new_release bigint, secret text) RETURNS TABLE (
    comparison bigint, moment bigint, snapshot bigint, release_id bigint, period tstzrange, within tstzrange)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
-- There are few periods, of which the planner expects billions: with more, it would make room for these.
SET work_mem = '4MB'
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH considered AS MATERIALIZED (
        -- Every release speaks of places; of senders, only those that publish requests.
        SELECT c.* FROM dbanon_internal.compared(comparisons.run_id, comparisons.new_release) c
        WHERE NOT c.alone AND (comparisons.secret = 'place' OR c.secret = comparisons.secret)
    ), stated AS (
        SELECT DISTINCT g.release_id, g.period, s.reach, s.secret = comparisons.secret AS hides
        FROM considered s JOIN ONLY dbanon.grouping g ON g.release_id = s.release_id
        UNION
        SELECT e.release_id, u.period, s.reach, false
        FROM considered s JOIN ONLY dbanon.exposure e ON e.release_id = s.release_id CROSS JOIN LATERAL unnest(e.period) u (period)
    ), cut AS MATERIALIZED (
        SELECT b.at, row_number() OVER (ORDER BY b.at) AS place
        FROM (SELECT lower(dbanon_internal.padded(d.period, d.reach)) AS at FROM stated d
              UNION SELECT upper(dbanon_internal.padded(d.period, d.reach)) FROM stated d) b
    ), within_reach AS MATERIALIZED (
        -- The promises of releases without a reach, moment by moment: time is cut where a release begins or ends to speak.
        SELECT DISTINCT NULL::bigint AS snapshot, NULL::tstzrange AS at, p.place, d.release_id, d.period
        FROM stated d
        JOIN cut f ON f.at = lower(dbanon_internal.padded(d.period, d.reach))
        JOIN cut t ON t.at = upper(dbanon_internal.padded(d.period, d.reach))
        CROSS JOIN LATERAL generate_series(f.place, t.place - 1) p (place)
        UNION ALL
        -- Those of a snapshot, period by period: all that others say within reach of it is compared together.
        SELECT DISTINCT h.release_id, h.period, NULL::bigint, d.release_id, d.period
        FROM stated h
        JOIN stated d ON CASE WHEN d.release_id = h.release_id THEN d.period = h.period
                            ELSE dbanon_internal.padded(d.period, greatest(d.reach, h.reach)) && h.period END
        WHERE h.hides AND h.reach > interval '0'
    ), moment AS MATERIALIZED (
        -- Where the run and another release speak, and one of them promises something.
        SELECT h.snapshot, h.at, h.place, array_agg(DISTINCT h.release_id) AS releases
        FROM within_reach h JOIN stated d ON d.release_id = h.release_id AND d.period = h.period
        GROUP BY h.snapshot, h.at, h.place
        HAVING bool_or(h.release_id = comparisons.new_release) AND bool_or(h.release_id <> comparisons.new_release)
            AND bool_or(CASE WHEN h.snapshot IS NULL THEN d.hides AND d.reach = interval '0' ELSE true END)
    ), comparison AS MATERIALIZED (
        -- Numbered in one order at every call.
        SELECT row_number() OVER (ORDER BY x.snapshot, x.at, x.place, x.read) AS comparison,
            dense_rank() OVER (ORDER BY x.snapshot, x.at, x.place) AS moment, x.*
        FROM (SELECT DISTINCT o.snapshot, o.at, o.place, ARRAY(SELECT r FROM unnest(o.releases) r WHERE r = ANY (a.read)) AS read
              FROM moment o CROSS JOIN dbanon_internal.audiences(comparisons.run_id, comparisons.new_release) a) x
        WHERE cardinality(x.read) > 0
    )
    SELECT s.comparison, s.moment, s.snapshot, h.release_id, h.period,
        CASE WHEN s.snapshot IS NULL THEN dbanon_internal.padded(tstzrange(f.at, t.at), r.reach) WHEN s.snapshot = h.release_id THEN s.at
             ELSE dbanon_internal.padded(s.at, greatest(r.reach, o.reach)) END
    FROM comparison s
    JOIN within_reach h ON h.snapshot IS NOT DISTINCT FROM s.snapshot AND h.at IS NOT DISTINCT FROM s.at AND h.place IS NOT DISTINCT FROM s.place
    JOIN considered r ON r.release_id = h.release_id
    LEFT JOIN considered o ON o.release_id = s.snapshot
    LEFT JOIN cut f ON f.place = s.place
    LEFT JOIN cut t ON t.place = s.place + 1
    WHERE h.release_id = comparisons.new_release OR h.release_id = ANY (s.read);
END
$$;
COMMENT ON FUNCTION dbanon_internal.comparisons(bigint, bigint, text) IS
'What is compared: for each moment (or period of a snapshot, which is then named) and each audience, the releases and periods that speak of a
secret, and the time within which rows of the release count.';

-- BEGIN ATOMIC, so that PostgreSQL inlines it, and does not copy four million rows once more.
CREATE OR REPLACE FUNCTION dbanon_internal.memberships(run_id bigint, new_release bigint, secret text) RETURNS TABLE (
    moment bigint, person bigint, release_id bigint, group_key bigint, k bigint, same_in bigint[])
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    WITH comparison_period AS MATERIALIZED (
        SELECT DISTINCT s.moment, s.snapshot, s.release_id, s.period, s.within, c.k, c.reach, c.secret, c.secret = memberships.secret
            AND CASE WHEN s.snapshot IS NULL THEN c.reach = interval '0' ELSE s.snapshot = s.release_id END AS promises
        FROM dbanon_internal.comparisons(memberships.run_id, memberships.new_release, memberships.secret) s
        JOIN dbanon_internal.compared(memberships.run_id, memberships.new_release) c ON c.release_id = s.release_id
    ), grouped AS MATERIALIZED (
        -- The key of a group is a number of 64 bits that no adversary can foresee.
        SELECT hashint8extended(row_number() OVER (), x.salt) AS group_key, g.release_id, g.period, g.people
        FROM ONLY dbanon.grouping g
        CROSS JOIN (SELECT hashtextextended(gen_random_uuid()::text, 0) AS salt) x
        WHERE g.release_id IN (SELECT h.release_id FROM comparison_period h)
    ), same_group AS MATERIALIZED (
        -- The very same group was published before with as great a promise, at the same time: where both are read, that promise is the old one's.
        SELECT n.moment, g.group_key, array_agg(o.release_id) AS same_in
        FROM grouped g
        JOIN grouped o ON o.people = g.people AND o.release_id <> g.release_id
        JOIN comparison_period n ON n.release_id = g.release_id AND n.period = g.period AND n.promises
        JOIN comparison_period p ON p.moment = n.moment AND p.release_id = o.release_id AND p.period = o.period
        WHERE g.release_id = memberships.new_release AND p.secret = n.secret AND p.k >= n.k
            AND (n.snapshot IS NULL) = (p.reach = interval '0') AND (n.snapshot IS NULL OR p.period = n.period)
        GROUP BY n.moment, g.group_key
    )
    SELECT x.moment, u.person, x.release_id, x.group_key, x.k, x.same_in
    FROM (SELECT h.moment, h.release_id, g.group_key, g.people, CASE WHEN h.promises THEN h.k END AS k, t.same_in
          FROM comparison_period h
          JOIN grouped g ON g.release_id = h.release_id AND g.period = h.period
          LEFT JOIN same_group t ON t.moment = h.moment AND t.group_key = g.group_key
          OFFSET 0) x  -- once a group, not once a person
    CROSS JOIN LATERAL unnest(x.people) u (person)
    UNION ALL
    -- Who is shown exactly is alone.
    SELECT DISTINCT h.moment, e.person, h.release_id, hashtextextended(e.person::text, h.release_id), NULL::bigint, NULL::bigint[]
    FROM comparison_period h JOIN ONLY dbanon.exposure e ON e.release_id = h.release_id AND e.period && h.within;
END;
COMMENT ON FUNCTION dbanon_internal.memberships(bigint, bigint, text) IS
'Who is in which group (its key) of which release at each moment that is compared, what k is promised there, and which earlier releases have
the very same group.';

CREATE OR REPLACE FUNCTION dbanon_internal.candidates(run_id bigint, new_release bigint, secret text, name_people boolean) RETURNS TABLE (
    comparison bigint, n bigint, shared boolean, is_repeat boolean, k_before bigint, k_now bigint, after bigint, breaks_now boolean,
    breaks_before boolean, example bigint, people bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- The planner cannot know how many people an array holds.
SET enable_nestloop = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH memberships AS MATERIALIZED (
        SELECT s.* FROM dbanon_internal.memberships(candidates.run_id, candidates.new_release, candidates.secret) s
    ), comparison AS MATERIALIZED (
        SELECT x.*, cardinality(x.read) = max(cardinality(x.read)) OVER (PARTITION BY x.moment) AS entire
        FROM (SELECT s.comparison, s.moment, array_agg(DISTINCT s.release_id) AS read
              FROM dbanon_internal.comparisons(candidates.run_id, candidates.new_release, candidates.secret) s GROUP BY s.comparison, s.moment) x
    ), member AS MATERIALIZED (
        -- The exclusive or of the keys of all groups of a person: equal for those who are in the same groups of the same releases.
        SELECT s.moment, s.person, bit_xor(s.group_key) AS group_keys FROM memberships s
        WHERE EXISTS (SELECT FROM comparison c WHERE NOT c.entire)
        GROUP BY s.moment, s.person
    ), block AS MATERIALIZED (
        -- Of these everything said was the same, so whatever part of it an audience has read is: one of them stands for all.
        SELECT m.moment, m.group_keys, count(*)::integer AS n, min(m.person) AS example FROM member m GROUP BY m.moment, m.group_keys
    ), statement AS (
        -- Marks: 1 an earlier release speaks, 2 the run does, 4 it promises to hide the person here, 8 it repeats an older promise.
        SELECT x.comparison, x.example, x.n, x.group_key, CASE WHEN x.release_id <> candidates.new_release THEN x.k END AS k,
            CASE WHEN x.release_id <> candidates.new_release THEN 1 WHEN x.k IS NULL THEN 2 WHEN x.same_in && x.read THEN 10 ELSE 6 END AS marks
        FROM (SELECT c.comparison, c.read, s.person AS example, 1 AS n, s.release_id, s.group_key, s.k, s.same_in
              FROM memberships s JOIN comparison c ON c.moment = s.moment AND c.entire
              UNION ALL
              SELECT b.comparison, b.read, b.example, b.n, s.release_id, s.group_key, s.k, s.same_in
              FROM (SELECT c.comparison, c.read, b.* FROM block b JOIN comparison c ON c.moment = b.moment AND NOT c.entire OFFSET 0) b
              JOIN memberships s ON s.moment = b.moment AND s.person = b.example AND s.release_id = ANY (b.read)) x
    ), knowledge AS MATERIALIZED (
        SELECT s.comparison, s.example, min(s.n) AS n, bit_xor(s.group_key) AS after,
            bit_xor(CASE WHEN s.marks > 1 THEN 0 ELSE s.group_key END) AS before, max(s.k) AS k_before, bit_or(s.marks) AS marks
        FROM statement s GROUP BY s.comparison, s.example
    ), class AS NOT MATERIALIZED (
        -- Those of whom a release is silent are candidates for one another, and for none of whom it speaks. What is `after` says also
        -- what was `before` and which marks there are; few columns to tell classes by keep the table of them small.
        SELECT h.comparison, h.after, min(h.before) AS before, min(h.marks) AS marks, max(h.k_before) AS k_before, sum(h.n) AS n,
            min(h.example) AS example
        FROM knowledge h GROUP BY h.comparison, h.after
    ), alike AS MATERIALIZED (
        -- Classes that came of one by what the run says, and are of the same size, are judged alike: of many people few are left.
        SELECT c.comparison, c.before, c.marks, c.n AS n_after, max(c.k_before) AS k_before, sum(c.n)::bigint AS n, min(c.example) AS example
        FROM class c GROUP BY c.comparison, c.before, c.marks, c.n
    ), earlier AS (
        SELECT a.comparison, a.before, sum(a.n)::bigint AS n FROM alike a GROUP BY a.comparison, a.before
    ), judged AS MATERIALIZED (
        -- What the earlier releases left below k already must only not get smaller.
        SELECT x.*, coalesce(x.n_after < x.k_now, false) AS breaks_now, coalesce(x.n_after < x.k_before AND x.n_after < x.n_before, false) AS breaks_before
        FROM (SELECT a.*, e.n AS n_before, CASE WHEN a.marks & 4 = 4 THEN (
                      SELECT l.k FROM dbanon_internal.compared(candidates.run_id, candidates.new_release) l
                      WHERE l.release_id = candidates.new_release) END AS k_now
              FROM alike a JOIN earlier e ON e.comparison = a.comparison AND e.before = a.before) x
    ), named AS (
        -- Who they are matters only where a person may be counted twice.
        SELECT j.comparison, j.k_before, j.k_now, j.n_after, array_agg(coalesce(m.person, h.example)) AS people
        FROM judged j
        JOIN class c ON c.comparison = j.comparison AND c.before = j.before AND c.marks = j.marks AND c.n = j.n_after
        JOIN knowledge h ON h.comparison = c.comparison AND h.after = c.after
        LEFT JOIN (SELECT c.comparison, m.person, b.example
                   FROM block b JOIN member m ON m.moment = b.moment AND m.group_keys = b.group_keys
                   JOIN comparison c ON c.moment = b.moment AND NOT c.entire) m ON m.comparison = h.comparison AND m.example = h.example
        WHERE candidates.name_people AND (j.breaks_now OR j.breaks_before)
        GROUP BY j.comparison, j.k_before, j.k_now, j.n_after
    )
    SELECT j.comparison, j.n, j.shared, j.is_repeat, j.k_before, j.k_now, j.n_after, j.breaks_now, j.breaks_before, j.example, d.people
    FROM (SELECT i.comparison, i.marks & 3 = 3 AS shared, i.marks & 8 = 8 AS is_repeat, i.k_before, i.k_now, i.n_after, i.breaks_now, i.breaks_before,
              sum(i.n)::bigint AS n, min(i.example) AS example
          FROM judged i GROUP BY i.comparison, shared, is_repeat, i.k_before, i.k_now, i.n_after, i.breaks_now, i.breaks_before) j
    LEFT JOIN named d ON d.comparison = j.comparison AND d.n_after = j.n_after AND d.k_before IS NOT DISTINCT FROM j.k_before
        AND d.k_now IS NOT DISTINCT FROM j.k_now AND (j.breaks_now OR j.breaks_before);
END
$$;
COMMENT ON FUNCTION dbanon_internal.candidates(bigint, bigint, text, boolean) IS
'For each comparison and outcome: how many people it befalls, what is promised them, how many candidates for each are left with the run, whether that
breaks a promise, one of them, and if asked for, all of them where it does.';

CREATE OR REPLACE FUNCTION dbanon_internal.standalone_conflicts(run_id bigint, new_release bigint, content bytea) RETURNS TABLE (release_id bigint, person bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT c.* FROM dbanon_internal.compared(standalone_conflicts.run_id, standalone_conflicts.new_release) c
    ), pair AS MATERIALIZED (
        -- Where one of the two stands alone and the other speaks on its secret; what repeats it entirely says nothing new.
        SELECT o.release_id, greatest(n.reach, o.reach) AS reach
        FROM known n JOIN known o ON o.release_id <> n.release_id
        WHERE n.release_id = standalone_conflicts.new_release AND o.content IS DISTINCT FROM coalesce(standalone_conflicts.content, '')
            AND ((n.alone AND (n.secret = 'place' OR o.secret = n.secret)) OR (o.alone AND (o.secret = 'place' OR n.secret = o.secret)))
            AND EXISTS (
                SELECT FROM dbanon_internal.audiences(standalone_conflicts.run_id, standalone_conflicts.new_release) a
                WHERE o.release_id = ANY (a.read) AND NOT EXISTS (
                    SELECT FROM known r WHERE r.release_id = ANY (a.read) AND r.content = standalone_conflicts.content))
    ), statement AS MATERIALIZED (
        SELECT e.release_id, e.person, e.period
        FROM ONLY dbanon.exposure e
        WHERE e.release_id = standalone_conflicts.new_release OR e.release_id IN (SELECT p.release_id FROM pair p)
        UNION ALL
        SELECT g.release_id, u.person, tstzmultirange(g.period)
        FROM ONLY dbanon.grouping g CROSS JOIN LATERAL unnest(g.people) u (person)
        WHERE g.release_id = standalone_conflicts.new_release OR g.release_id IN (SELECT p.release_id FROM pair p)
    )
    SELECT p.release_id, n.person
    FROM pair p
    JOIN statement o ON o.release_id = p.release_id
    JOIN statement n ON n.release_id = standalone_conflicts.new_release AND n.person = o.person
    WHERE EXISTS (SELECT FROM unnest(n.period) u (period) WHERE dbanon_internal.padded(u.period, p.reach) && o.period)
    UNION
    -- A lost release may speak of all people, at any time of its span.
    SELECT p.release_id, n.person
    FROM pair p
    JOIN known o ON o.release_id = p.release_id AND o.k IS NULL
    CROSS JOIN statement n
    WHERE n.release_id = standalone_conflicts.new_release
        AND EXISTS (SELECT FROM unnest(n.period) u (period) WHERE dbanon_internal.padded(u.period, p.reach) && o.span);
END
$$;
COMMENT ON FUNCTION dbanon_internal.standalone_conflicts(bigint, bigint, bytea) IS
'Of whom both a run and an earlier release speak within reach, although one of the two stands alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.plan_conflicts(
    dataset_id bigint, method text, algorithm text, params jsonb, span tstzrange, reach interval) RETURNS TABLE (people bigint, releases text[])
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
    WITH planned AS (
        SELECT m.traits ->> 'hides' AS secret, dbanon_internal.stands_alone(m.name, plan_conflicts.algorithm) AS alone
        FROM ONLY dbanon.method m WHERE m.name = plan_conflicts.method
    ), conflict AS MATERIALIZED (
        -- As dbanon_internal.standalone_conflicts pairs releases. The same data and parameters give the same sets again, which say nothing new.
        SELECT w.release_id, w.name, greatest(l.reach, plan_conflicts.reach) AS reach, l.run_id IS NULL AS lost, l.span
        FROM planned n
        CROSS JOIN LATERAL dbanon_internal.releases_within(plan_conflicts.dataset_id, plan_conflicts.span, plan_conflicts.reach) w
        JOIN ONLY dbanon.release l ON l.release_id = w.release_id
        LEFT JOIN ONLY dbanon.run r ON r.run_id = l.run_id
        LEFT JOIN ONLY dbanon.method m ON m.name = r.method
        WHERE (l.run_id IS NULL OR (n.alone AND (n.secret = 'place' OR m.traits ->> 'hides' = n.secret))
                OR (dbanon_internal.stands_alone(r.method, r.algorithm) AND (m.traits ->> 'hides' = 'place' OR m.traits ->> 'hides' = n.secret)))
            AND (r.dataset_id, r.dataset_revision, r.method, r.algorithm, r.params) IS DISTINCT FROM (
                plan_conflicts.dataset_id, (SELECT d.revision FROM ONLY dbanon.dataset d WHERE d.dataset_id = plan_conflicts.dataset_id),
                plan_conflicts.method, plan_conflicts.algorithm, plan_conflicts.params)
    ), statement AS (
        SELECT e.release_id, e.person, e.period FROM ONLY dbanon.exposure e WHERE e.release_id IN (SELECT c.release_id FROM conflict c)
        UNION ALL
        SELECT g.release_id, u.person, tstzmultirange(g.period)
        FROM ONLY dbanon.grouping g CROSS JOIN LATERAL unnest(g.people) u (person)
        WHERE g.release_id IN (SELECT c.release_id FROM conflict c)
        UNION ALL
        SELECT c.release_id, NULL, tstzmultirange(c.span) FROM conflict c WHERE c.lost  -- may speak of all people
    ), met AS MATERIALIZED (
        SELECT DISTINCT s.release_id, s.person
        FROM statement s JOIN conflict c ON c.release_id = s.release_id
        WHERE s.period && dbanon_internal.padded(plan_conflicts.span, c.reach)
    ), person AS (
        SELECT DISTINCT dbanon_internal.person_code(k.key, t.subject) AS code
        FROM (SELECT dbanon_internal.dataset_key(plan_conflicts.dataset_id) AS key WHERE EXISTS (SELECT FROM met)) k
        JOIN ONLY dbanon.trajectory t ON t.dataset_id = plan_conflicts.dataset_id
        WHERE t.first_s < extract(epoch FROM upper(plan_conflicts.span)) AND t.last_s >= extract(epoch FROM lower(plan_conflicts.span))
    )
    SELECT count(DISTINCT m.person),
        (SELECT array_agg(c.name ORDER BY c.release_id) FROM conflict c WHERE c.release_id = ANY (array_agg(m.release_id)))
    FROM (SELECT m.release_id, m.person FROM met m JOIN person p ON p.code = m.person
          UNION ALL
          SELECT m.release_id, p.code FROM met m CROSS JOIN person p WHERE m.person IS NULL) m
    HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.plan_conflicts(bigint, text, text, jsonb, tstzrange, interval) IS
'Counts the people of a dataset with positions in the time of a planned run of whom a release already speaks within reach of that time, although
the run or the release stands alone, and names these releases; no row where there is nobody.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_worst(run_id bigint, new_release bigint, content bytea) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, met bigint[], promised_by bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    repeated bytea := (SELECT coalesce(find_worst.content, dbanon_internal.run_content(r.run_id)) FROM ONLY dbanon.run r
                       WHERE r.run_id = find_worst.run_id AND dbanon_internal.stands_alone(r.method, r.algorithm));
    found record;
    intruded record;
BEGIN
    SELECT count(DISTINCT i.person) AS people, array_agg(DISTINCT i.release_id) AS met, array_agg(DISTINCT i.person) AS broken
        INTO intruded FROM dbanon_internal.standalone_conflicts(find_worst.run_id, find_worst.new_release, repeated) i;
    WITH compared_period AS MATERIALIZED (
        SELECT x.secret, s.*
        FROM (VALUES ('sender'), ('place')) x (secret) CROSS JOIN LATERAL dbanon_internal.comparisons(find_worst.run_id, find_worst.new_release, x.secret) s
    ), candidate AS MATERIALIZED (
        SELECT x.secret, c.*, c.is_repeat OR coalesce(c.k_before, c.k_now) IS NOT NULL AS counts
        FROM (SELECT h.secret, (SELECT count(DISTINCT (o.secret, o.comparison)) > 1 FROM compared_period o) OR intruded.people > 0 AS several
              FROM compared_period h GROUP BY h.secret) x
        CROSS JOIN LATERAL dbanon_internal.candidates(find_worst.run_id, find_worst.new_release, x.secret, x.several) c
    ), worst AS MATERIALIZED (
        SELECT c.*, CASE WHEN c.breaks_now THEN c.k_now ELSE c.k_before END AS k FROM candidate c WHERE c.breaks_now OR c.breaks_before
        ORDER BY c.after, c.breaks_now DESC, CASE WHEN c.breaks_now THEN c.k_now ELSE c.k_before END DESC LIMIT 1
    ), reported AS MATERIALIZED (
        -- That of the worst; or, where nothing breaks, all.
        SELECT h.* FROM compared_period h
        WHERE NOT EXISTS (SELECT FROM worst) OR EXISTS (SELECT FROM worst w WHERE w.secret = h.secret AND w.comparison = h.comparison)
    )
    SELECT coalesce(bool_or(c.shared), false) AS shared,
        bool_and(c.is_repeat OR c.k_now IS NULL) FILTER (WHERE c.shared) AND bool_or(c.is_repeat) AS same,
        coalesce(sum(c.n) FILTER (WHERE c.breaks_now OR c.breaks_before), 0)::bigint AS below,
        -- Without lists of people there is one comparison, in which each of them is once.
        coalesce((SELECT count(DISTINCT u) FROM (SELECT unnest(b.people) FROM candidate b UNION ALL SELECT unnest(intruded.broken)) y (u)
                  WHERE EXISTS (SELECT FROM candidate b WHERE b.people IS NOT NULL) OR intruded.people > 0), 0) AS named,
        coalesce((SELECT w.after FROM worst w), min(c.after) FILTER (WHERE c.counts)) AS smallest,
        coalesce((SELECT w.k FROM worst w), max(greatest(c.k_before, c.k_now)) FILTER (WHERE c.counts)) AS k,
        ARRAY(SELECT DISTINCT s.release_id FROM reported s WHERE s.release_id <> find_worst.new_release ORDER BY 1) AS met,
        -- Whose promise the worst breaks: the run's, or that of each release which hid the person with as great a k.
        ARRAY(SELECT find_worst.new_release FROM worst w WHERE w.breaks_now
              UNION
              SELECT s.release_id FROM worst w
              JOIN reported s ON s.release_id <> find_worst.new_release AND coalesce(s.snapshot = s.release_id, true)
              JOIN dbanon_internal.compared(find_worst.run_id, find_worst.new_release) l ON l.release_id = s.release_id AND l.secret = w.secret AND l.k >= w.k
              JOIN ONLY dbanon.grouping g ON g.release_id = s.release_id AND g.period = s.period AND w.example = ANY (g.people)
              WHERE NOT w.breaks_now
              ORDER BY 1) AS promised_by
        INTO found FROM candidate c;
    RETURN QUERY SELECT
        CASE WHEN found.shared OR intruded.people > 0 THEN
            CASE WHEN found.same AND found.below = 0 AND intruded.people = 0 THEN 'same' ELSE 'overlapping' END
            WHEN EXISTS (SELECT FROM dbanon_internal.compared(find_worst.run_id, find_worst.new_release) c WHERE c.content = repeated) THEN 'same'
            ELSE 'disjoint' END,
        CASE WHEN intruded.people > 0 THEN 0 ELSE found.smallest END, found.k, found.below + intruded.people,
        CASE WHEN found.named > 0 THEN found.named ELSE found.below END,
        CASE WHEN intruded.people > 0 THEN intruded.met ELSE found.met END,
        CASE WHEN intruded.people > 0 THEN NULL ELSE found.promised_by END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_worst(bigint, bigint, bytea) IS
'Measures a run whose groups are stored under a number against the releases it is compared with: the fewest candidates that a person is left with,
how many promises break, of how many people, beside which releases, and whose promise the worst one is (null: that of a release that stands alone).';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_unknown_k(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unknown bigint;
BEGIN
    -- Without a k there is nothing to compare candidates with.
    SELECT min(o.run_id) INTO unknown
        FROM dbanon_internal.compared(refuse_unknown_k.run_id, refuse_unknown_k.release_id) c
        LEFT JOIN ONLY dbanon.release l ON l.release_id = c.release_id
        JOIN ONLY dbanon.run o ON o.run_id = coalesce(l.run_id, refuse_unknown_k.run_id)
        WHERE coalesce(jsonb_typeof(o.params -> 'k') <> 'number', true);
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'The k of every release that shares time with run % must be known. That of run % is not.',
                refuse_unknown_k.run_id, unknown
            USING ERRCODE = 'DA010', DETAIL = format('Parameters of run %s name no k.', unknown),
                  HINT = 'Publish a run of another time span.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_unknown_k(bigint, bigint) IS
'Refuses to compare a run if it, or a release that it is compared with, promises no known k.';

CREATE OR REPLACE FUNCTION dbanon_internal.release_titles(releases bigint[], dataset_id bigint, self text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT array_agg(x.title ORDER BY x.first)
    FROM (SELECT coalesce(l.name || CASE WHEN bool_and(l.run_id IS NULL) THEN ' (lost)' WHEN bool_and(l.withdrawn_at IS NOT NULL) THEN ' (withdrawn)' ELSE '' END
                 || CASE WHEN r.dataset_id <> release_titles.dataset_id THEN ' of dataset ' || d.name ELSE '' END, release_titles.self) AS title,
              min(u.release_id) AS first
          FROM unnest(release_titles.releases) u (release_id)
          LEFT JOIN ONLY dbanon.release l ON l.release_id = u.release_id
          LEFT JOIN ONLY dbanon.run r ON r.run_id = l.run_id
          LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
          GROUP BY l.name, r.dataset_id, d.name) x
$$;
COMMENT ON FUNCTION dbanon_internal.release_titles(bigint[], bigint, text) IS
'The names of releases for a sentence, each once, with what is not plain: that it was withdrawn or lost, that it is of another dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_worst(run_id bigint, release_id bigint, content bytea DEFAULT NULL) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, releases text[], broken text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    dataset_id bigint := (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = describe_worst.run_id);
BEGIN
    -- For most runs there is nothing to be compared with.
    IF NOT EXISTS (SELECT FROM dbanon_internal.compared(describe_worst.run_id, describe_worst.release_id) c WHERE c.release_id <> describe_worst.release_id) THEN
        RETURN QUERY SELECT 'disjoint', NULL::bigint, NULL::bigint, 0::bigint, 0::bigint, '{}'::text[], '{}'::text[];
        RETURN;
    END IF;
    PERFORM dbanon_internal.refuse_unknown_k(describe_worst.run_id, describe_worst.release_id);
    PERFORM dbanon_internal.check_groups(describe_worst.run_id, describe_worst.release_id);
    RETURN QUERY
    SELECT j.relation, j.smallest_crowd, j.k, j.below, j.people,
        CASE WHEN j.relation = 'disjoint' THEN '{}' ELSE coalesce(dbanon_internal.release_titles(j.met, dataset_id, ''), '{}') END,
        coalesce(dbanon_internal.release_titles(j.promised_by, dataset_id, format('run %s', describe_worst.run_id)), '{}')
    FROM dbanon_internal.find_worst(describe_worst.run_id, describe_worst.release_id, describe_worst.content) j;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_worst(bigint, bigint, bytea) IS
'Measures a run whose groups are stored under a number, as dbanon.measure_overlap says it; content: as run_content gives it, where the
caller has it.';

CREATE OR REPLACE FUNCTION dbanon.measure_overlap(run_id bigint) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, releases text[], broken text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run dbanon.run;
    measured record;
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
    -- As publish does it, and undone: the groups are stored under number 0, which no other session ever sees.
    BEGIN
        PERFORM dbanon_internal.store_groups(run.run_id, 0);
        SELECT m.* INTO STRICT measured FROM dbanon_internal.describe_worst(run.run_id, 0) m;
        RAISE EXCEPTION USING ERRCODE = 'UNDO0';
    EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
        RETURN QUERY SELECT measured.relation, measured.smallest_crowd, measured.k, measured.below, measured.people, measured.releases, measured.broken;
    END;
END
$$;
COMMENT ON FUNCTION dbanon.measure_overlap(bigint) IS
'Computes how few candidates remain for a reader of this run and of earlier releases of the same population, withdrawn ones too. It tries all sets of
releases that a reader may have read and reports the worst. docs/understand/releases-together.md states the rule. It writes, and undoes that, so it needs
a transaction that may write.
Arguments:
- run_id: the number of the run.
Returns: one row.
- relation: one of three. It is disjoint if no person is in both at a time or within reach, same if the very same groups were published before, or overlapping.
- smallest_crowd: the fewest candidates that are left to a person. 0 where a release that stands alone meets another.
- k: how many were promised there.
- below: how many promises break.
- people: how many people these promises are made to.
- releases: the names of the releases involved.
- broken: the release with the worst broken promise.
Raises: DA001, DA004, DA005. DA010 where a k is not known.
Example: SELECT * FROM dbanon.measure_overlap(2).';

CREATE OR REPLACE FUNCTION dbanon_internal.check_reason(action text, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    words integer := (SELECT count(*) FROM regexp_split_to_table(reason, '\s+') w WHERE w ~ '[[:alnum:]]');
BEGIN
    IF words < 3 OR length(reason) > 1000 THEN
        RAISE EXCEPTION '% must have a reason of at least three words and at most 1,000 characters. Got % instead.', action,
                dbanon_internal.counted(words, 'word')
            USING ERRCODE = 'DA002', DETAIL = format('It has %s.', dbanon_internal.counted(coalesce(length(reason), 0), 'character')),
                  HINT = 'Say why: reason => ''...''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_reason(text, text) IS
'Refuses to do something without a reason.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_override(allow_overlap boolean, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF reason IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A reason must go with allow_overlap. Got one without it.'
            USING ERRCODE = 'DA002', DETAIL = 'Only an overlap that is allowed is recorded with its reason.',
                  HINT = 'Add allow_overlap => true, or leave the reason out.';
    END IF;
    IF allow_overlap THEN
        PERFORM dbanon_internal.check_reason('Allowing an overlap', reason);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_override(boolean, text) IS
'Refuses to allow an overlap without a reason, and a reason where none is needed.';

CREATE OR REPLACE FUNCTION dbanon_internal.free_since(run_id bigint, new_release bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT max(upper(o.span) + greatest(n.reach, o.reach))
    FROM dbanon_internal.compared(free_since.run_id, free_since.new_release) n
    JOIN dbanon_internal.compared(free_since.run_id, free_since.new_release) o ON o.release_id <> n.release_id AND (n.alone OR o.alone)
        AND dbanon_internal.padded(o.span, greatest(n.reach, o.reach)) && n.span
    WHERE n.release_id = free_since.new_release
    HAVING max(upper(o.span) + greatest(n.reach, o.reach)) < max(upper(n.span))
$$;
COMMENT ON FUNCTION dbanon_internal.free_since(bigint, bigint) IS
'From when on the rows of a run are beyond the reach of all releases of which it, or they, must stand alone; null where none of its rows is so late.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_overlap(run_id bigint, release_id bigint, measured jsonb, others text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    hint text := 'Publish the very same groups again, or a time further away than max_gap_s and the settle_s of the population. If you accept '
        'this, use allow_overlap => true with reason => ''...''.';
    since timestamptz;
BEGIN
    IF others LIKE '% of dataset %' THEN
        hint := hint || ' Where equal names are different people, their datasets belong in different populations.';
    END IF;
    IF EXISTS (SELECT FROM dbanon_internal.compared(run_id, release_id) c JOIN ONLY dbanon.release l ON l.release_id = c.release_id
               WHERE c.release_id <> refuse_overlap.release_id AND c.alone AND l.longest_s IS NULL) THEN
        hint := hint || ' Groups that an earlier version of dbanon published are not known for the same.';
    END IF;
    IF (measured ->> 'smallest_crowd')::bigint = 0 THEN
        since := dbanon_internal.free_since(run_id, release_id);
        IF since IS NOT NULL THEN
            hint := format('A run with since = %s would share no time with them. ', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) || hint;
        END IF;
        RAISE EXCEPTION 'A release that stands alone must share no person and time with another, not even within reach. Run % and % '
                        'share %.', run_id, others, dbanon_internal.counted((measured ->> 'people')::bigint, 'person', 'people')
            USING ERRCODE = 'DA010', DETAIL = 'Hiding sets that overlap, and promises beyond k, cannot be compared with other releases.', HINT = hint;
    END IF;
    RAISE EXCEPTION 'A person that a release promises to hide must not be left with fewer candidates than promised. Run % read together with % '
        'leaves % of %, which breaks the promise of %.', run_id, others, measured ->> 'smallest_crowd', measured ->> 'k',
            (SELECT string_agg(b, ', ') FROM jsonb_array_elements_text(measured -> 'broken') b)
        USING ERRCODE = 'DA010', DETAIL = format('%s left with fewer than promised.',
                dbanon_internal.counted((measured ->> 'people')::bigint, 'person is', 'people are')), HINT = hint;
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_overlap(bigint, bigint, jsonb, text) IS
'Says that a run may not be published beside earlier releases, and whose promise breaks.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_copies(run_id bigint, allow_overlap boolean) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own text;
    others text[];
BEGIN
    SELECT max(c.name) FILTER (WHERE c.of_dataset_id = r.dataset_id), array_agg(c.name ORDER BY c.name) FILTER (WHERE c.of_dataset_id <> r.dataset_id)
        INTO own, others
        FROM ONLY dbanon.run r CROSS JOIN LATERAL dbanon_internal.copied_from(r.dataset_id) c WHERE r.run_id = check_copies.run_id;
    IF own IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A dataset in which the same fixes are under several names must have a reason to be published. That of run % is %.',
                run_id, own
            USING ERRCODE = 'DA010',
                  DETAIL = concat('A person with several names hides among copies of themselves: a crowd of k names may be one person.',
                                  CASE WHEN others IS NOT NULL
                                      THEN format(' It has fixes of %s under other names, too.', dbanon_internal.name_some(others)) END),
                  HINT = 'Load it without the copies. If you accept this, use allow_overlap => true with reason => ''...''.';
    ELSIF others IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A dataset with fixes of another one that has releases, under other names, must have a reason to be published. That '
                        'of run % has fixes of %.', run_id, dbanon_internal.name_some(others)
            USING ERRCODE = 'DA010', DETAIL = 'Their rows of one person are not compared: only names identify people.',
                  HINT = 'Append to the other dataset instead. If you accept this, use allow_overlap => true with reason => ''...''.';
    END IF;
    RETURN nullif(array_remove(own || others, NULL), '{}');
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_copies(bigint, boolean) IS
'Refuses a run on a dataset in which people have several names, or that is a copy, under other names, of datasets that have releases; returns
the names of these.';

CREATE OR REPLACE FUNCTION dbanon_internal.check_settle(run_id bigint, allow_overlap boolean) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    people record;
BEGIN
    SELECT p.name, dbanon_internal.settle_s(p.population_id) AS settle_s INTO STRICT people
        FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
        JOIN ONLY dbanon.population p ON p.population_id = d.population_id WHERE r.run_id = check_settle.run_id;
    IF people.settle_s >= 60 OR dbanon_internal.run_traits(run_id) ->> 'instant' IS NULL THEN
        RETURN NULL;
    END IF;
    IF allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A snapshot, or a run with exact rows, must have a reason to be published where settle_s of the population is below 60. '
                        'Run % is of the population ''%'', where it is %.', run_id, people.name, people.settle_s
            USING ERRCODE = 'DA010', DETAIL = 'Later rows of people that stay for longer would not be compared.',
                  HINT = 'Say how long they stay when you append to a dataset of the population, such as settle_s => 900. If you accept this, use '
                      'allow_overlap => true with reason => ''...''.';
    END IF;
    RETURN people.settle_s;
END
$$;
COMMENT ON FUNCTION dbanon_internal.check_settle(bigint, boolean) IS
'Refuses a run whose rows reach as far as people stay, where that is said to be less than a minute; returns what is said, or null.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_if_broken(run_id bigint, release_id bigint, content bytea, allow_overlap boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found record;
    others text;
    within_a_day jsonb;
BEGIN
    SELECT m.* INTO STRICT found FROM dbanon_internal.describe_worst(refuse_if_broken.run_id, refuse_if_broken.release_id, refuse_if_broken.content) m;
    others := dbanon_internal.name_some(found.releases);
    IF found.below > 0 AND allow_overlap IS NOT TRUE THEN
        PERFORM dbanon_internal.refuse_overlap(refuse_if_broken.run_id, refuse_if_broken.release_id, to_jsonb(found), others);
    ELSIF found.below > 0 THEN
        RAISE NOTICE 'Overridden: an adversary who reads this together with % finds % where % were promised. Promises to % break.',
            others, dbanon_internal.counted(found.smallest_crowd, 'candidate'), coalesce(found.k::text, 'more'),
            dbanon_internal.counted(found.people, 'person', 'people');
    ELSIF found.relation = 'same' THEN
        RAISE NOTICE 'The groups are the same as in %: this leaves each person the same candidates as that.', others;
    ELSIF found.relation = 'overlapping' THEN
        RAISE NOTICE 'An adversary who reads this together with % still finds at least % for each person. Promised: %.',
            others, dbanon_internal.counted(found.smallest_crowd, 'candidate'), found.k;
    END IF;
    within_a_day := dbanon_internal.shown_within_a_day(refuse_if_broken.run_id, refuse_if_broken.release_id);
    IF within_a_day IS NOT NULL THEN
        RAISE NOTICE 'Within a day, other releases show exactly % that this one hides, inside the region that hides them. And this one shows '
            'exactly % that they hide.', dbanon_internal.counted((within_a_day ->> 'hidden_here')::bigint, 'person', 'people'),
            dbanon_internal.counted((within_a_day ->> 'shown_here')::bigint, 'person', 'people');
    END IF;
    RETURN CASE WHEN found.relation = 'disjoint' THEN '{}' ELSE to_jsonb(found) END || jsonb_strip_nulls(jsonb_build_object('within_a_day', within_a_day));
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_if_broken(bigint, bigint, bytea, boolean) IS
'Refuses a run whose groups are stored under a number if, beside earlier releases, it leaves a person fewer candidates than promised; returns
what was measured.';
