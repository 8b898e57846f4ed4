-- Composition: whether a run, published beside earlier releases of its population, leaves a person fewer candidates than promised.
-- docs/understand/releases-together.md states the rule. A run that is measured stands here as a release: its groups are stored under a number first.

-- BEGIN ATOMIC, so that PostgreSQL inlines it.
CREATE OR REPLACE FUNCTION dbanon_internal.pad_period(period tstzrange, reach interval) RETURNS tstzrange
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
RETURN tstzrange(lower(period) - reach, upper(period) + reach);
COMMENT ON FUNCTION dbanon_internal.pad_period IS 'A period made longer at both ends: another period overlaps it if it is less than that far away.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_releases_near(population_id bigint, span tstzrange, reach interval) RETURNS TABLE (release_id bigint)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.release_id
    FROM ONLY dbanon.release l LEFT JOIN ONLY dbanon.run o ON o.run_id = l.run_id LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = o.dataset_id
    WHERE coalesce(l.population_id, d.population_id) = list_releases_near.population_id
        AND dbanon_internal.pad_period(l.span, greatest(l.reach, list_releases_near.reach)) && list_releases_near.span;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_releases_near IS
'The releases of a population, withdrawn and lost ones too, that say something at a time or within reach of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_releases_within(dataset_id bigint, extent tstzrange, reach interval) RETURNS TABLE (
    release_id bigint, name text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.release_id, l.name || CASE WHEN l.run_id IS NULL THEN ' (lost)' WHEN l.withdrawn_at IS NULL THEN '' ELSE ' (withdrawn)' END
    FROM ONLY dbanon.dataset d
    CROSS JOIN LATERAL dbanon_internal.list_releases_near(d.population_id, list_releases_within.extent, list_releases_within.reach) n
    JOIN ONLY dbanon.release l ON l.release_id = n.release_id
    WHERE d.dataset_id = list_releases_within.dataset_id
    ORDER BY l.release_id
$$;
COMMENT ON FUNCTION dbanon_internal.list_releases_within IS
'Lists the releases of a dataset''s population, withdrawn and lost ones too and marked so, that say something at a time or within reach of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_compared(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, secret text, k bigint, alone boolean, span tstzrange, reach interval, content bytea, overridden boolean)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH run AS MATERIALIZED (
        SELECT dat.population_id, dbanon_internal.find_run_span(run.run_id) AS span, dbanon_internal.compute_run_reach(run.run_id) AS reach
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id WHERE run.run_id = list_compared.run_id
    ), near AS (
        -- Those that meet the run, and those that meet these: the candidates that a person had before may depend on them.
        SELECT DISTINCT second.release_id
        FROM run
        CROSS JOIN LATERAL dbanon_internal.list_releases_near(run.population_id, run.span, run.reach) first
        JOIN ONLY dbanon.release rel ON rel.release_id = first.release_id
        CROSS JOIN LATERAL dbanon_internal.list_releases_near(run.population_id, rel.span, rel.reach) second
    ), known AS (
        SELECT list_compared.new_release AS release_id, run.span, run.reach, NULL::bytea AS content,
            false AS overridden, dbanon_internal.make_promise(list_compared.run_id) AS promise
        FROM run
        UNION ALL
        SELECT rel.release_id, rel.span, rel.reach, rel.content, rel.overlap_reason IS NOT NULL, rel.promise
        FROM ONLY dbanon.release rel JOIN near ON near.release_id = rel.release_id WHERE rel.release_id <> list_compared.new_release
    )
    SELECT known.release_id, known.promise ->> 'hides', ceil((known.promise ->> 'k')::numeric)::bigint, (known.promise ->> 'alone')::boolean,
        known.span, known.reach, known.content, known.overridden
    FROM known;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_compared IS
'A run, under the number of the release it is about to be, and the releases it is compared with: what each promises and how far it reaches.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_audiences(run_id bigint, new_release bigint) RETURNS TABLE (read bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH earlier AS MATERIALIZED (
        SELECT known.release_id, known.overridden FROM dbanon_internal.list_compared(list_audiences.run_id, list_audiences.new_release) known
        WHERE known.release_id <> list_audiences.new_release
    )
    SELECT DISTINCT ARRAY(SELECT earlier.release_id FROM earlier WHERE aud.everything OR NOT earlier.overridden OR earlier.release_id = aud.also
                          ORDER BY 1)
    FROM (SELECT true AS everything, NULL::bigint AS also
          UNION ALL SELECT false, NULL
          UNION ALL SELECT false, earlier.release_id FROM earlier WHERE earlier.overridden) aud;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_audiences IS
'Which earlier releases an adversary may have read: all; all but those let through for a reason; these and any one that was.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_comparisons(run_id bigint, new_release bigint, secret text) RETURNS TABLE (
    comparison bigint, moment bigint, snapshot bigint, release_id bigint, period tstzrange, within tstzrange)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET jit = off
-- There are few periods, of which the planner expects billions: with more, it would make room for these.
SET work_mem = '4MB'
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    -- Release 1 hides places at 8:00-9:00, run 2 at 8:30-10:00, release 3 let through for a reason at 8:45-9:15. When are they compared?
    --   in:   what each says when        1 8:00-9:00    2 8:30-10:00    3 8:45-9:15
    --   cut:  at each begin and end      moments 8:00  8:30  8:45  9:00  9:15; of 8:30 speak 1 and 2, of 8:45 all, of 9:00 2 and 3
    --   out:  moment 8:30 read {1};  8:45 read {1}, read {1, 3};  9:00 read {3}: one comparison for each audience that has read an earlier one
    RETURN QUERY
    WITH compared AS MATERIALIZED (
        -- Every release speaks of places; of senders, only those that publish requests.
        SELECT known.* FROM dbanon_internal.list_compared(list_comparisons.run_id, list_comparisons.new_release) known
        WHERE NOT known.alone AND (list_comparisons.secret = 'place' OR known.secret = list_comparisons.secret)
    ), stated AS (
        SELECT DISTINCT gro.release_id, gro.period, con.reach, con.secret = list_comparisons.secret AS hides
        FROM compared con JOIN ONLY dbanon.grouping gro ON gro.release_id = con.release_id
        UNION
        SELECT exp.release_id, ele.period, con.reach, false
        FROM compared con JOIN ONLY dbanon.exposure exp ON exp.release_id = con.release_id CROSS JOIN LATERAL unnest(exp.period) ele (period)
    ), cut AS MATERIALIZED (
        SELECT edge.at, row_number() OVER (ORDER BY edge.at) AS place
        FROM (SELECT lower(dbanon_internal.pad_period(stated.period, stated.reach)) AS at FROM stated
              UNION SELECT upper(dbanon_internal.pad_period(stated.period, stated.reach)) FROM stated) edge
    ), within_reach AS MATERIALIZED (
        -- The promises of releases without a reach, moment by moment: time is cut where a release begins or ends to speak.
        SELECT DISTINCT NULL::bigint AS snapshot, NULL::tstzrange AS at, step.place, stated.release_id, stated.period
        FROM stated
        JOIN cut start ON start.at = lower(dbanon_internal.pad_period(stated.period, stated.reach))
        JOIN cut stop ON stop.at = upper(dbanon_internal.pad_period(stated.period, stated.reach))
        CROSS JOIN LATERAL generate_series(start.place, stop.place - 1) step (place)
        UNION ALL
        -- Those of a snapshot, period by period: all that others say within reach of it is compared together.
        SELECT DISTINCT snap.release_id, snap.period, NULL::bigint, stated.release_id, stated.period
        FROM stated snap
        JOIN stated ON CASE WHEN stated.release_id = snap.release_id THEN stated.period = snap.period
                            ELSE dbanon_internal.pad_period(stated.period, greatest(stated.reach, snap.reach)) && snap.period END
        WHERE snap.hides AND snap.reach > interval '0'
    ), moment AS MATERIALIZED (
        -- Where the run and another release speak, and one of them promises something.
        SELECT wit.snapshot, wit.at, wit.place, array_agg(DISTINCT wit.release_id) AS releases
        FROM within_reach wit JOIN stated ON stated.release_id = wit.release_id AND stated.period = wit.period
        GROUP BY wit.snapshot, wit.at, wit.place
        HAVING bool_or(wit.release_id = list_comparisons.new_release) AND bool_or(wit.release_id <> list_comparisons.new_release)
            AND bool_or(CASE WHEN wit.snapshot IS NULL THEN stated.hides AND stated.reach = interval '0' ELSE true END)
    ), comparison AS MATERIALIZED (
        -- Numbered in one order at every call.
        SELECT row_number() OVER (ORDER BY com.snapshot, com.at, com.place, com.read) AS comparison,
            dense_rank() OVER (ORDER BY com.snapshot, com.at, com.place) AS moment, com.*
        FROM (SELECT DISTINCT mom.snapshot, mom.at, mom.place, ARRAY(SELECT ele FROM unnest(mom.releases) ele WHERE ele = ANY (aud.read)) AS read
              FROM moment mom CROSS JOIN dbanon_internal.list_audiences(list_comparisons.run_id, list_comparisons.new_release) aud) com
        WHERE cardinality(com.read) > 0
    )
    SELECT com.comparison, com.moment, com.snapshot, wit.release_id, wit.period,
        CASE WHEN com.snapshot IS NULL THEN dbanon_internal.pad_period(tstzrange(start.at, stop.at), con.reach)
             WHEN com.snapshot = wit.release_id THEN com.at
             ELSE dbanon_internal.pad_period(com.at, greatest(con.reach, snap.reach)) END
    FROM comparison com
    JOIN within_reach wit ON wit.snapshot IS NOT DISTINCT FROM com.snapshot AND wit.at IS NOT DISTINCT FROM com.at
        AND wit.place IS NOT DISTINCT FROM com.place
    JOIN compared con ON con.release_id = wit.release_id
    LEFT JOIN compared snap ON snap.release_id = com.snapshot
    LEFT JOIN cut start ON start.place = com.place
    LEFT JOIN cut stop ON stop.place = com.place + 1
    WHERE wit.release_id = list_comparisons.new_release OR wit.release_id = ANY (com.read);
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_comparisons IS
'What is compared: for each moment (or period of a snapshot, which is then named) and each audience, the releases and periods that speak of a
secret, and the time within which rows of the release count.';

-- BEGIN ATOMIC, so that PostgreSQL inlines it, and does not copy four million rows once more.
CREATE OR REPLACE FUNCTION dbanon_internal.list_memberships(run_id bigint, new_release bigint, secret text) RETURNS TABLE (
    moment bigint, person bigint, release_id bigint, group_key bigint, k bigint, same_in bigint[], guest boolean)
LANGUAGE sql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- At 8:30 release 1 hides Ann among Ann, Bob, Cid (k = 3), and run 2 hides Ann among Ann, Bob (k = 2). Who is in which group?
    --   in:   groupings      1 {Ann, Bob, Cid}    2 {Ann, Bob}; Dot is exposed in 2
    --   out:  moment 8:30    Ann 1 key a, Ann 2 key b k 2, Bob 1 key a, Bob 2 key b k 2, Cid 1 key a    (of 1, k 3 each)
    --                        Dot 2 key d: alone, no k. Were the groups the same and 1's promise as great, b would name 1 in same_in
    WITH comparison_period AS MATERIALIZED (
        SELECT DISTINCT com.moment, com.snapshot, com.release_id, com.period, com.within, known.k, known.reach, known.secret,
            known.secret = list_memberships.secret
            AND CASE WHEN com.snapshot IS NULL THEN known.reach = interval '0' ELSE com.snapshot = com.release_id END AS promises
        FROM dbanon_internal.list_comparisons(list_memberships.run_id, list_memberships.new_release, list_memberships.secret) com
        JOIN dbanon_internal.list_compared(list_memberships.run_id, list_memberships.new_release) known ON known.release_id = com.release_id
    ), grouped AS MATERIALIZED (
        -- The key of a group is a number of 64 bits that no adversary can foresee.
        SELECT hashint8extended(row_number() OVER (), salt.salt) AS group_key, gro.release_id, gro.period, gro.people, gro.members
        FROM ONLY dbanon.grouping gro
        CROSS JOIN (SELECT hashtextextended(gen_random_uuid()::text, 0) AS salt) salt
        WHERE gro.release_id IN (SELECT com.release_id FROM comparison_period com)
    ), same_group AS MATERIALIZED (
        -- The very same group was published before with as great a promise, at the same time: where both are read, that promise is the old one's.
        SELECT com.moment, grouped.group_key, array_agg(twin.release_id) AS same_in
        FROM grouped
        JOIN grouped twin ON twin.people = grouped.people AND twin.members IS NOT DISTINCT FROM grouped.members
            AND twin.release_id <> grouped.release_id
        JOIN comparison_period com ON com.release_id = grouped.release_id AND com.period = grouped.period AND com.promises
        JOIN comparison_period before ON before.moment = com.moment AND before.release_id = twin.release_id AND before.period = twin.period
        WHERE grouped.release_id = list_memberships.new_release AND before.secret = com.secret AND before.k >= com.k
            AND (com.snapshot IS NULL) = (before.reach = interval '0') AND (com.snapshot IS NULL OR before.period = com.period)
        GROUP BY com.moment, grouped.group_key
    )
    SELECT gro.moment, ele.person, gro.release_id, gro.group_key, gro.k, gro.same_in, coalesce(ele.nth > gro.members, false)
    FROM (SELECT com.moment, com.release_id, grouped.group_key, grouped.people, grouped.members, CASE WHEN com.promises THEN com.k END AS k, same.same_in
          FROM comparison_period com
          JOIN grouped ON grouped.release_id = com.release_id AND grouped.period = com.period
          LEFT JOIN same_group same ON same.moment = com.moment AND same.group_key = grouped.group_key
          OFFSET 0) gro  -- once a group, not once a person
    CROSS JOIN LATERAL unnest(gro.people) WITH ORDINALITY ele (person, nth)
    UNION ALL
    -- Who is shown exactly is alone.
    SELECT DISTINCT com.moment, exp.person, com.release_id, hashtextextended(exp.person::text, com.release_id), NULL::bigint, NULL::bigint[], false
    FROM comparison_period com JOIN ONLY dbanon.exposure exp ON exp.release_id = com.release_id AND exp.period && com.within;
END;
COMMENT ON FUNCTION dbanon_internal.list_memberships IS
'Who is in which group (its key) of which release at each moment that is compared, what k is promised there, which earlier releases have
the very same group, and whether the person is a guest of it.';

CREATE OR REPLACE FUNCTION dbanon_internal.measure_candidates(run_id bigint, new_release bigint, secret text, name_people boolean) RETURNS TABLE (
    comparison bigint, n bigint, shared boolean, is_repeat boolean, k_before bigint, k_now bigint, n_after bigint, breaks_now boolean,
    breaks_before boolean, example bigint, people bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
-- The planner cannot know how many people the array of a group holds, and would loop over all of them.
SET enable_nestloop = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    -- Flags of what releases say of a person.
    earlier_speaks CONSTANT integer := 1;
    run_speaks CONSTANT integer := 2;
    run_promises CONSTANT integer := 4;  -- by the groups here, which are its own
    run_repeats CONSTANT integer := 8;  -- the very group that a release before promised, which the audience has read
    earlier_guest CONSTANT integer := 16;
    run_guest CONSTANT integer := 32;
    guest CONSTANT integer := earlier_guest | run_guest;
BEGIN
    -- How many candidates has Ann left for somebody who has read release 1 and run 2 of the example at dbanon_internal.list_memberships?
    --   in:   memberships    Ann 1a 2b    Bob 1a 2b    Cid 1a; all that was said of a person, as one number: key_after Ann, Bob = a#b, Cid = a
    --   by key_before (what 1 said, a): Ann, Bob, Cid, so n_before 3; by key_after: Ann, Bob, so n_after 2, and Cid, n_after 1
    --   out:  n 2 (Ann, Bob) n_after 2, k_now 2, k_before 3: 2 < 3 breaks_before; n 1 (Cid) n_after 1, k_before 3: breaks_before, too
    -- A guest of a group is a candidate for nobody. For its own request, candidates are the others with its key_after, and itself.
    -- memberships to block say who is told apart by nobody; knowledge to alike count; judged compares with k; named says who they are.
    RETURN QUERY
    WITH memberships AS MATERIALIZED (
        SELECT mem.* FROM dbanon_internal.list_memberships(measure_candidates.run_id, measure_candidates.new_release, measure_candidates.secret) mem
    ), comparison AS MATERIALIZED (
        -- Each is of one moment. One audience of a moment has read all that speaks there: it needs no choice of releases.
        SELECT com.*, cardinality(com.read) = max(cardinality(com.read)) OVER (PARTITION BY com.moment) AS entire
        FROM (SELECT com.comparison, com.moment, array_agg(DISTINCT com.release_id) AS read
              FROM dbanon_internal.list_comparisons(measure_candidates.run_id, measure_candidates.new_release, measure_candidates.secret) com
              GROUP BY com.comparison, com.moment) com
    ), member AS MATERIALIZED (
        -- The exclusive or of the keys of all groups of a person: equal for those who are in the same groups of the same releases. A key
        -- is of one group of one release, so no two cancel.
        SELECT mem.moment, mem.person, bit_xor(mem.group_key) AS group_keys,
            bit_xor(CASE WHEN mem.guest THEN mem.group_key ELSE 0 END) AS guest_keys
        FROM memberships mem
        WHERE EXISTS (SELECT FROM comparison com WHERE NOT com.entire)
        GROUP BY mem.moment, mem.person
    ), block AS MATERIALIZED (
        -- Of these everything said was the same, so whatever part of it an audience has read is: one of them stands for all.
        SELECT member.moment, member.group_keys, member.guest_keys, count(*)::integer AS n, min(member.person) AS example FROM member
        GROUP BY member.moment, member.group_keys, member.guest_keys
    ), statement AS (
        SELECT stated.comparison, stated.example, stated.n, stated.group_key, CASE WHEN stated.release_id <> measure_candidates.new_release THEN stated.k END AS k,
            CASE WHEN stated.release_id <> measure_candidates.new_release THEN earlier_speaks WHEN stated.k IS NULL THEN run_speaks
                 WHEN stated.same_in && stated.read THEN run_speaks | run_repeats ELSE run_speaks | run_promises END  -- &&: both arrays name one
            | CASE WHEN NOT stated.guest THEN 0 WHEN stated.release_id <> measure_candidates.new_release THEN earlier_guest ELSE run_guest END AS flags
        FROM (SELECT com.comparison, com.read, mem.person AS example, 1 AS n, mem.release_id, mem.group_key, mem.k, mem.same_in, mem.guest
              FROM memberships mem JOIN comparison com ON com.moment = mem.moment AND com.entire
              UNION ALL
              SELECT blo.comparison, blo.read, blo.example, blo.n, mem.release_id, mem.group_key, mem.k, mem.same_in, mem.guest
              FROM (SELECT com.comparison, com.read, blo.* FROM block blo
                    JOIN comparison com ON com.moment = blo.moment AND NOT com.entire OFFSET 0) blo
              JOIN memberships mem ON mem.moment = blo.moment AND mem.person = blo.example AND mem.release_id = ANY (blo.read)) stated
    ), knowledge AS MATERIALIZED (
        SELECT sta.comparison, sta.example, min(sta.n) AS n, bit_xor(sta.group_key) AS key_after,
            bit_xor(CASE WHEN sta.flags & earlier_speaks <> 0 THEN sta.group_key ELSE 0 END) AS key_before, max(sta.k) AS k_before,
            bit_or(sta.flags) AS flags
        FROM statement sta GROUP BY sta.comparison, sta.example
    ), member_class AS NOT MATERIALIZED (
        -- People of whom a release says nothing are candidates for one another, and for nobody of whom it speaks. Who has the same
        -- key_after has the same key_before and flags, so min() gives these: few columns to tell classes by keep the table of them small.
        SELECT kno.comparison, kno.key_after, min(kno.key_before) AS key_before, min(kno.flags) AS flags, max(kno.k_before) AS k_before, sum(kno.n) AS size,
            min(kno.example) AS example
        FROM knowledge kno WHERE kno.flags & guest = 0 GROUP BY kno.comparison, kno.key_after
    ), class AS NOT MATERIALIZED (
        SELECT own.*, own.size AS people FROM member_class own
        UNION ALL
        SELECT kno.comparison, kno.key_after, min(kno.key_before), kno.flags, max(kno.k_before), 1 + coalesce(min(own.size), 0), min(kno.example), sum(kno.n)
        FROM knowledge kno LEFT JOIN member_class own ON own.comparison = kno.comparison AND own.key_after = kno.key_after
        WHERE kno.flags & guest <> 0 GROUP BY kno.comparison, kno.key_after, kno.flags
    ), alike AS MATERIALIZED (
        -- Classes that came of one by what the run says, and are of the same size, are judged alike: one row for all of them.
        SELECT class.comparison, class.key_before, class.flags, class.size AS n_after, max(class.k_before) AS k_before, sum(class.people)::bigint AS n,
            min(class.example) AS example
        FROM class GROUP BY class.comparison, class.key_before, class.flags, class.size
    ), earlier AS (
        SELECT alike.comparison, alike.key_before, coalesce(sum(alike.n) FILTER (WHERE alike.flags & earlier_guest = 0), 0)::bigint AS n
        FROM alike GROUP BY alike.comparison, alike.key_before
    ), judged AS MATERIALIZED (
        -- What the earlier releases left below k already must only not get smaller.
        SELECT cla.*, coalesce(cla.n_after < cla.k_now, false) AS breaks_now,
            coalesce(cla.n_after < cla.k_before AND cla.n_after < cla.n_before, false) AS breaks_before
        FROM (SELECT alike.*, earlier.n + (alike.flags & earlier_guest) / earlier_guest AS n_before, CASE WHEN alike.flags & run_promises <> 0 THEN (
                          SELECT known.k FROM dbanon_internal.list_compared(measure_candidates.run_id, measure_candidates.new_release) known
                          WHERE known.release_id = measure_candidates.new_release) END AS k_now
              FROM alike JOIN earlier ON earlier.comparison = alike.comparison AND earlier.key_before = alike.key_before) cla
    ), named AS (
        -- Names are for a caller that adds up comparisons and must not count a person twice. Outcomes with the same numbers share a row.
        SELECT judged.comparison, judged.k_before, judged.k_now, judged.n_after, array_agg(coalesce(mem.person, kno.example)) AS people
        FROM judged
        JOIN class ON class.comparison = judged.comparison AND class.key_before = judged.key_before AND class.flags = judged.flags
            AND class.size = judged.n_after
        JOIN knowledge kno ON kno.comparison = class.comparison AND kno.key_after = class.key_after
            AND kno.flags & guest = class.flags & guest
        LEFT JOIN (SELECT com.comparison, member.person, block.example
                   FROM block JOIN member ON member.moment = block.moment AND member.group_keys = block.group_keys AND member.guest_keys = block.guest_keys
                   JOIN comparison com ON com.moment = block.moment AND NOT com.entire) mem
            ON mem.comparison = kno.comparison AND mem.example = kno.example
        WHERE measure_candidates.name_people AND (judged.breaks_now OR judged.breaks_before)
        GROUP BY judged.comparison, judged.k_before, judged.k_now, judged.n_after
    )
    SELECT outcome.comparison, outcome.n, outcome.shared, outcome.is_repeat, outcome.k_before, outcome.k_now, outcome.n_after, outcome.breaks_now,
        outcome.breaks_before, outcome.example, named.people
    FROM (SELECT judged.comparison, judged.flags & earlier_speaks <> 0 AND judged.flags & run_speaks <> 0 AS shared,
              judged.flags & run_repeats <> 0 AS is_repeat, judged.k_before, judged.k_now, judged.n_after,
              judged.breaks_now, judged.breaks_before,
              sum(judged.n)::bigint AS n, min(judged.example) AS example
          FROM judged GROUP BY judged.comparison, shared, is_repeat, judged.k_before, judged.k_now, judged.n_after, judged.breaks_now,
              judged.breaks_before) outcome
    LEFT JOIN named ON named.comparison = outcome.comparison AND named.n_after = outcome.n_after AND named.k_before IS NOT DISTINCT FROM outcome.k_before
        AND named.k_now IS NOT DISTINCT FROM outcome.k_now AND (outcome.breaks_now OR outcome.breaks_before);
END
$$;
COMMENT ON FUNCTION dbanon_internal.measure_candidates IS
'For each comparison and outcome: how many people it befalls, what is promised them, how many candidates for each are left with the run, whether that
breaks a promise, one of them, and if asked for, all of them where it does.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_standalone_conflicts(run_id bigint, new_release bigint, content bytea) RETURNS TABLE (release_id bigint, person bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    -- Run 2 must stand alone and has a reach of an hour. Of whom does another release speak?
    --   in:   statements     1 Ann 8:00-9:00    1 Bob 6:00-7:00    2 Ann, Bob 9:30-10:00
    --   pair: 1 and 2, one hour; padded, 2 speaks of 8:30-11:00
    --   out:  1 Ann: 8:00-9:00 is within reach, 6:00-7:00 is not
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT known.* FROM dbanon_internal.list_compared(list_standalone_conflicts.run_id, list_standalone_conflicts.new_release) known
    ), pair AS MATERIALIZED (
        -- Where one of the two stands alone and the other speaks on its secret; what repeats it entirely says nothing new.
        SELECT theirs.release_id, greatest(ours.reach, theirs.reach) AS reach
        FROM known ours JOIN known theirs ON theirs.release_id <> ours.release_id
        WHERE ours.release_id = list_standalone_conflicts.new_release
            AND theirs.content IS DISTINCT FROM coalesce(list_standalone_conflicts.content, '')
            AND ((ours.alone AND (ours.secret = 'place' OR theirs.secret = ours.secret))
                 OR (theirs.alone AND (theirs.secret = 'place' OR ours.secret = theirs.secret)))
            AND EXISTS (
                SELECT FROM dbanon_internal.list_audiences(list_standalone_conflicts.run_id, list_standalone_conflicts.new_release) aud
                WHERE theirs.release_id = ANY (aud.read) AND NOT EXISTS (
                    SELECT FROM known twin WHERE twin.release_id = ANY (aud.read) AND twin.content = list_standalone_conflicts.content))
    ), statement AS MATERIALIZED (
        SELECT exp.release_id, exp.person, exp.period
        FROM ONLY dbanon.exposure exp
        WHERE exp.release_id = list_standalone_conflicts.new_release OR exp.release_id IN (SELECT pair.release_id FROM pair)
        UNION ALL
        SELECT gro.release_id, ele.person, tstzmultirange(gro.period)
        FROM ONLY dbanon.grouping gro CROSS JOIN LATERAL unnest(gro.people) ele (person)
        WHERE gro.release_id = list_standalone_conflicts.new_release OR gro.release_id IN (SELECT pair.release_id FROM pair)
    )
    SELECT pair.release_id, ours.person
    FROM pair
    JOIN statement theirs ON theirs.release_id = pair.release_id
    JOIN statement ours ON ours.release_id = list_standalone_conflicts.new_release AND ours.person = theirs.person
    WHERE EXISTS (SELECT FROM unnest(ours.period) ele (period) WHERE dbanon_internal.pad_period(ele.period, pair.reach) && theirs.period)
    UNION
    -- A lost release may speak of all people, at any time of its span.
    SELECT pair.release_id, ours.person
    FROM pair
    JOIN known theirs ON theirs.release_id = pair.release_id AND theirs.k IS NULL
    CROSS JOIN statement ours
    WHERE ours.release_id = list_standalone_conflicts.new_release
        AND EXISTS (SELECT FROM unnest(ours.period) ele (period) WHERE dbanon_internal.pad_period(ele.period, pair.reach) && theirs.span);
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_standalone_conflicts IS
'Of whom both a run and an earlier release speak within reach, although one of the two stands alone.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_conflicts(
    dataset_id bigint, method text, algorithm text, params jsonb, span tstzrange, reach interval) RETURNS TABLE (people bigint, releases text[])
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET enable_nestloop = off
AS $$
    WITH planned AS (
        SELECT met.traits ->> 'hides' AS secret, dbanon_internal.stands_alone(met.name, find_conflicts.algorithm) AS alone
        FROM ONLY dbanon.method met WHERE met.name = find_conflicts.method
    ), conflict AS MATERIALIZED (
        -- As dbanon_internal.list_standalone_conflicts pairs releases. The same data and parameters give the same sets again, which say nothing new.
        SELECT near.release_id, near.name, greatest(rel.reach, find_conflicts.reach) AS reach, rel.run_id IS NULL AS lost, rel.span
        FROM planned
        CROSS JOIN LATERAL dbanon_internal.list_releases_within(find_conflicts.dataset_id, find_conflicts.span, find_conflicts.reach) near
        JOIN ONLY dbanon.release rel ON rel.release_id = near.release_id
        LEFT JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        WHERE (planned.alone AND (planned.secret = 'place' OR rel.promise ->> 'hides' = planned.secret)
                OR (rel.promise ->> 'alone')::boolean AND rel.promise ->> 'hides' IN ('place', planned.secret))
            AND (run.dataset_id, run.dataset_revision, run.method, run.algorithm, run.params) IS DISTINCT FROM (
                find_conflicts.dataset_id, (SELECT dat.revision FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = find_conflicts.dataset_id),
                find_conflicts.method, find_conflicts.algorithm, find_conflicts.params)
    ), statement AS (
        SELECT exp.release_id, exp.person, exp.period FROM ONLY dbanon.exposure exp WHERE exp.release_id IN (SELECT conflict.release_id FROM conflict)
        UNION ALL
        SELECT gro.release_id, ele.person, tstzmultirange(gro.period)
        FROM ONLY dbanon.grouping gro CROSS JOIN LATERAL unnest(gro.people) ele (person)
        WHERE gro.release_id IN (SELECT conflict.release_id FROM conflict)
        UNION ALL
        SELECT conflict.release_id, NULL, tstzmultirange(conflict.span) FROM conflict WHERE conflict.lost  -- may speak of all people
    ), met AS MATERIALIZED (
        SELECT DISTINCT sta.release_id, sta.person
        FROM statement sta JOIN conflict ON conflict.release_id = sta.release_id
        WHERE sta.period && dbanon_internal.pad_period(find_conflicts.span, conflict.reach)
    ), person AS (
        SELECT DISTINCT dbanon_internal.hash_person(key.key, tra.subject) AS code
        FROM (SELECT dbanon_internal.find_dataset_key(find_conflicts.dataset_id) AS key WHERE EXISTS (SELECT FROM met)) key
        JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = find_conflicts.dataset_id
        WHERE tra.first_s < extract(epoch FROM upper(find_conflicts.span)) AND tra.last_s >= extract(epoch FROM lower(find_conflicts.span))
    )
    SELECT count(DISTINCT who.person),
        (SELECT array_agg(conflict.name ORDER BY conflict.release_id) FROM conflict WHERE conflict.release_id = ANY (array_agg(who.release_id)))
    FROM (SELECT met.release_id, met.person FROM met JOIN person ON person.code = met.person
          UNION ALL
          SELECT who.release_id, person.code FROM met who CROSS JOIN person WHERE who.person IS NULL) who
    HAVING count(*) > 0
$$;
COMMENT ON FUNCTION dbanon_internal.find_conflicts IS
'Counts the people of a dataset with positions in the time of a planned run of whom a release already speaks within reach of that time, although
the run or the release stands alone, and names these releases; no row where there is nobody.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_smallest_set(run_id bigint, new_release bigint, content bytea) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, met bigint[], promised_by bigint[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '256MB'
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    repeated bytea := (SELECT coalesce(find_smallest_set.content, dbanon_internal.compute_content_digest(run.run_id)) FROM ONLY dbanon.run run
                       WHERE run.run_id = find_smallest_set.run_id AND dbanon_internal.stands_alone(run.method, run.algorithm));
    twins CONSTANT bigint[] := ARRAY(
        SELECT known.release_id FROM dbanon_internal.list_compared(find_smallest_set.run_id, find_smallest_set.new_release) known WHERE known.content = repeated);
    found record;
    intruded record;
BEGIN
    SELECT count(DISTINCT con.person) AS people, array_agg(DISTINCT con.release_id) AS met, array_agg(DISTINCT con.person) AS broken
        INTO intruded FROM dbanon_internal.list_standalone_conflicts(find_smallest_set.run_id, find_smallest_set.new_release, repeated) con;
    WITH compared_period AS MATERIALIZED (
        SELECT kind.secret, com.*
        FROM (VALUES ('sender'), ('place')) kind (secret)
        CROSS JOIN LATERAL dbanon_internal.list_comparisons(find_smallest_set.run_id, find_smallest_set.new_release, kind.secret) com
    ), candidate AS MATERIALIZED (
        SELECT kind.secret, can.*, can.is_repeat OR coalesce(can.k_before, can.k_now) IS NOT NULL AS counts
        FROM (SELECT com.secret,
                  (SELECT count(DISTINCT (other.secret, other.comparison)) > 1 FROM compared_period other) OR intruded.people > 0 AS several
              FROM compared_period com GROUP BY com.secret) kind
        CROSS JOIN LATERAL dbanon_internal.measure_candidates(find_smallest_set.run_id, find_smallest_set.new_release, kind.secret, kind.several) can
    ), worst AS MATERIALIZED (
        SELECT can.*, CASE WHEN can.breaks_now THEN can.k_now ELSE can.k_before END AS k FROM candidate can WHERE can.breaks_now OR can.breaks_before
        ORDER BY can.n_after, can.breaks_now DESC, CASE WHEN can.breaks_now THEN can.k_now ELSE can.k_before END DESC LIMIT 1
    ), reported AS MATERIALIZED (
        -- That of the worst; or, where nothing breaks, all.
        SELECT com.* FROM compared_period com
        WHERE NOT EXISTS (SELECT FROM worst) OR EXISTS (SELECT FROM worst WHERE worst.secret = com.secret AND worst.comparison = com.comparison)
    )
    SELECT coalesce(bool_or(can.shared), false) AS shared,
        bool_and(can.is_repeat OR can.k_now IS NULL) FILTER (WHERE can.shared) AND bool_or(can.is_repeat) AS same,
        coalesce(sum(can.n) FILTER (WHERE can.breaks_now OR can.breaks_before), 0)::bigint AS below,
        -- Without lists of people there is one comparison, in which each of them is once.
        coalesce((SELECT count(DISTINCT who.person)
                  FROM (SELECT unnest(can.people) FROM candidate can UNION ALL SELECT unnest(intruded.broken)) who (person)
                  WHERE EXISTS (SELECT FROM candidate can WHERE can.people IS NOT NULL) OR intruded.people > 0), 0) AS named,
        coalesce((SELECT worst.n_after FROM worst), min(can.n_after) FILTER (WHERE can.counts)) AS smallest,
        coalesce((SELECT worst.k FROM worst), max(greatest(can.k_before, can.k_now)) FILTER (WHERE can.counts)) AS k,
        ARRAY(SELECT DISTINCT rep.release_id FROM reported rep WHERE rep.release_id <> find_smallest_set.new_release ORDER BY 1) AS met,
        -- Whose promise the worst breaks: the run's, or that of each release which hid the person with as great a k.
        ARRAY(SELECT find_smallest_set.new_release FROM worst WHERE worst.breaks_now
              UNION
              SELECT rep.release_id FROM worst
              JOIN reported rep ON rep.release_id <> find_smallest_set.new_release AND coalesce(rep.snapshot = rep.release_id, true)
              JOIN dbanon_internal.list_compared(find_smallest_set.run_id, find_smallest_set.new_release) known
                  ON known.release_id = rep.release_id AND known.secret = worst.secret AND known.k >= worst.k
              JOIN ONLY dbanon.grouping gro ON gro.release_id = rep.release_id AND gro.period = rep.period AND worst.example = ANY (gro.people)
              WHERE NOT worst.breaks_now
              ORDER BY 1) AS promised_by
        INTO found FROM candidate can;
    RETURN QUERY SELECT
        CASE WHEN found.shared OR intruded.people > 0 THEN
            CASE WHEN found.same AND found.below = 0 AND intruded.people = 0 THEN 'same' ELSE 'overlapping' END
            WHEN twins <> '{}' THEN 'same' ELSE 'disjoint' END,
        CASE WHEN intruded.people > 0 THEN 0 ELSE found.smallest END, found.k, found.below + intruded.people,
        CASE WHEN found.named > 0 THEN found.named ELSE found.below END,
        CASE WHEN intruded.people > 0 THEN intruded.met ELSE twins || found.met END,
        CASE WHEN intruded.people > 0 THEN NULL ELSE found.promised_by END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_smallest_set IS
'Measures a run whose groups are stored under a number against the releases it is compared with: the fewest candidates that a person is left with,
how many promises break, of how many people, beside which releases, and whose promise the worst one is (null: that of a release that stands alone).';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_known_k(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unknown bigint;
BEGIN
    -- Without a k there is nothing to compare candidates with.
    SELECT min(run.run_id) INTO unknown
        FROM dbanon_internal.list_compared(demand_known_k.run_id, demand_known_k.release_id) known
        LEFT JOIN ONLY dbanon.release rel ON rel.release_id = known.release_id
        JOIN ONLY dbanon.run run ON run.run_id = coalesce(rel.run_id, demand_known_k.run_id)
        WHERE coalesce(jsonb_typeof(run.params -> 'k') <> 'number', true);
    IF unknown IS NOT NULL THEN
        RAISE EXCEPTION 'The k of every release that shares time with run % must be known. That of run % is not.',
                demand_known_k.run_id, unknown
            USING ERRCODE = 'DA010', DETAIL = format('Parameters of run %s name no k.', unknown),
                  HINT = 'Publish a run of another time span.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_known_k IS 'Refuses to compare a run if it, or a release that it is compared with, promises no known k.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_release_titles(releases bigint[], dataset_id bigint, self text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(x.title ORDER BY x.first)
    FROM (SELECT coalesce(l.name || CASE WHEN bool_and(l.run_id IS NULL) THEN ' (lost)' WHEN bool_and(l.withdrawn_at IS NOT NULL) THEN ' (withdrawn)' ELSE '' END
                 || CASE WHEN r.dataset_id <> list_release_titles.dataset_id THEN ' of dataset ' || d.name ELSE '' END,
                          list_release_titles.self) AS title,
              min(u.release_id) AS first
          FROM unnest(list_release_titles.releases) u (release_id)
          LEFT JOIN ONLY dbanon.release l ON l.release_id = u.release_id
          LEFT JOIN ONLY dbanon.run r ON r.run_id = l.run_id
          LEFT JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
          GROUP BY l.name, r.dataset_id, d.name) x
$$;
COMMENT ON FUNCTION dbanon_internal.list_release_titles IS
'The names of releases for a sentence, each once, with what is not plain: that it was withdrawn or lost, that it is of another dataset.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_worst(run_id bigint, release_id bigint, content bytea DEFAULT NULL) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, releases text[], broken text[])
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dataset_id bigint := (SELECT run.dataset_id FROM ONLY dbanon.run run WHERE run.run_id = describe_worst.run_id);
BEGIN
    PERFORM dbanon_internal.demand_unchanged_groups(describe_worst.run_id, describe_worst.release_id);
    -- For most runs there is nothing to be compared with.
    IF NOT EXISTS (SELECT FROM dbanon_internal.list_compared(describe_worst.run_id, describe_worst.release_id) known
                   WHERE known.release_id <> describe_worst.release_id) THEN
        RETURN QUERY SELECT 'disjoint', NULL::bigint, NULL::bigint, 0::bigint, 0::bigint, '{}'::text[], '{}'::text[];
        RETURN;
    END IF;
    PERFORM dbanon_internal.demand_known_k(describe_worst.run_id, describe_worst.release_id);
    RETURN QUERY
    SELECT worst.relation, worst.smallest_crowd, worst.k, worst.below, worst.people,
        CASE WHEN worst.relation = 'disjoint' THEN '{}' ELSE coalesce(dbanon_internal.list_release_titles(worst.met, dataset_id, ''), '{}') END,
        coalesce(dbanon_internal.list_release_titles(worst.promised_by, dataset_id, format('run %s', describe_worst.run_id)), '{}')
    FROM dbanon_internal.find_smallest_set(describe_worst.run_id, describe_worst.release_id, describe_worst.content) worst;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_worst IS
'Measures a run whose groups are stored under a number, as dbanon.measure_overlap says it; content: as compute_content_digest gives it, where the
caller has it. Raises an error if a release promises no known k, or if what is stored of one was changed.';

CREATE OR REPLACE FUNCTION dbanon.measure_overlap(run_id bigint) RETURNS TABLE (
    relation text, smallest_crowd bigint, k bigint, below bigint, people bigint, releases text[], broken text[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dbanon.run;
    measured record;
BEGIN
    SELECT stored.* INTO run FROM ONLY dbanon.run stored WHERE stored.run_id = measure_overlap.run_id;
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
        SELECT worst.* INTO STRICT measured FROM dbanon_internal.describe_worst(run.run_id, 0) worst;
        RAISE EXCEPTION USING ERRCODE = 'UNDO0';
    EXCEPTION WHEN SQLSTATE 'UNDO0' THEN
        RETURN QUERY SELECT measured.relation, measured.smallest_crowd, measured.k, measured.below, measured.people, measured.releases, measured.broken;
    END;
END
$$;
COMMENT ON FUNCTION dbanon.measure_overlap IS
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

CREATE OR REPLACE FUNCTION dbanon_internal.demand_reason(action text, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    words integer := (SELECT count(*) FROM regexp_split_to_table(reason, '\s+') w WHERE w ~ '[[:alnum:]]');
BEGIN
    IF words < 3 OR length(reason) > 1000 THEN
        RAISE EXCEPTION '% must have a reason of at least three words and at most 1,000 characters. Got % instead.', action,
                dbanon_internal.format_quantity(words, 'word')
            USING ERRCODE = 'DA002', DETAIL = format('It has %s.', dbanon_internal.format_quantity(coalesce(length(reason), 0), 'character')),
                  HINT = 'Say why: reason => ''...''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_reason IS 'Refuses to do something without a reason.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_override_reason(allow_overlap boolean, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF reason IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A reason must go with allow_overlap. Got one without it.'
            USING ERRCODE = 'DA002', DETAIL = 'Only an overlap that is allowed is recorded with its reason.',
                  HINT = 'Add allow_overlap => true, or leave the reason out.';
    END IF;
    IF allow_overlap THEN
        PERFORM dbanon_internal.demand_reason('Allowing an overlap', reason);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_override_reason IS 'Refuses to allow an overlap without a reason, and a reason where none is needed.';

CREATE OR REPLACE FUNCTION dbanon_internal.refuse_overlap(run_id bigint, release_id bigint, measured jsonb, others text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hint text := 'Publish the very same groups again, or a time further away than max_gap_s and the settle_s of the population. If you accept '
        'this, use allow_overlap => true with reason => ''...''.';
    since timestamptz;
BEGIN
    IF others LIKE '% of dataset %' THEN
        hint := hint || ' Where equal names are different people, their datasets belong in different populations.';
    END IF;
    IF EXISTS (SELECT FROM dbanon_internal.list_compared(run_id, release_id) known JOIN ONLY dbanon.release rel ON rel.release_id = known.release_id
               WHERE known.release_id <> refuse_overlap.release_id AND known.alone AND rel.longest_s IS NULL) THEN
        hint := hint || ' Groups that an earlier version of dbanon published are not known for the same.';
    END IF;
    IF (measured ->> 'smallest_crowd')::bigint = 0 THEN
        -- From when on the rows of the run are beyond the reach of all releases of which it, or they, must stand alone.
        SELECT max(upper(other.span) + greatest(new.reach, other.reach)) INTO since
        FROM dbanon_internal.list_compared(refuse_overlap.run_id, refuse_overlap.release_id) new
        JOIN dbanon_internal.list_compared(refuse_overlap.run_id, refuse_overlap.release_id) other ON other.release_id <> new.release_id
            AND (new.alone OR other.alone) AND dbanon_internal.pad_period(other.span, greatest(new.reach, other.reach)) && new.span
        WHERE new.release_id = refuse_overlap.release_id
        HAVING max(upper(other.span) + greatest(new.reach, other.reach)) < max(upper(new.span));
        IF since IS NOT NULL THEN
            hint := format('A run with since = %s would share no time with them. ', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) || hint;
        END IF;
        RAISE EXCEPTION 'A release that stands alone must share no person and time with another, not even within reach. Run % and % '
                        'share %.', run_id, others, dbanon_internal.format_quantity((measured ->> 'people')::bigint, 'person', 'people')
            USING ERRCODE = 'DA010', DETAIL = 'Hiding sets that overlap, and promises beyond k, cannot be compared with other releases.', HINT = hint;
    END IF;
    RAISE EXCEPTION 'A person that a release promises to hide must not be left with fewer candidates than promised. Run % read together with % '
        'leaves % of %, which breaks the promise of %.', run_id, others, measured ->> 'smallest_crowd', measured ->> 'k',
            (SELECT string_agg(ele, ', ') FROM jsonb_array_elements_text(measured -> 'broken') ele)
        USING ERRCODE = 'DA010', DETAIL = format('%s left with fewer than promised.',
                dbanon_internal.format_quantity((measured ->> 'people')::bigint, 'person is', 'people are')), HINT = hint;
END
$$;
COMMENT ON FUNCTION dbanon_internal.refuse_overlap IS 'Says that a run may not be published beside earlier releases, and whose promise breaks.';

CREATE OR REPLACE FUNCTION dbanon_internal.is_doubled(figures jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT (figures ->> 'names_together')::bigint >= greatest(0.2 * (figures ->> 'names_compared')::bigint, 1)
$$;
COMMENT ON FUNCTION dbanon_internal.is_doubled IS
'Whether a fifth of the names in a verified run travel together, as they do where people have several names, and where families do not.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_no_copies(run_id bigint, allow_overlap boolean) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    near CONSTANT boolean := (SELECT dbanon_internal.is_doubled(ver.figures) FROM ONLY dbanon.verification ver
                              WHERE ver.run_id = demand_no_copies.run_id ORDER BY ver.verification_id DESC LIMIT 1);
    own text;
    others text[];
BEGIN
    SELECT max(cop.name) FILTER (WHERE cop.of_dataset_id = run.dataset_id),
        array_agg(cop.name ORDER BY cop.name) FILTER (WHERE cop.of_dataset_id <> run.dataset_id)
        INTO own, others
        FROM ONLY dbanon.run run CROSS JOIN LATERAL dbanon_internal.find_published_copies(run.dataset_id) cop
        WHERE run.run_id = demand_no_copies.run_id;
    own := coalesce(own, (SELECT dat.name FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
                          WHERE run.run_id = demand_no_copies.run_id AND near));
    IF own IS NOT NULL AND allow_overlap IS NOT TRUE THEN
        RAISE EXCEPTION 'A dataset in which the same people are under several names must have a reason to be published. That of run % is %.',
                run_id, own
            USING ERRCODE = 'DA010',
                  DETAIL = concat('A person with several names hides among copies of themselves: a crowd of k names may be one person.',
                                  CASE WHEN near THEN ' Many names that it hides among one another travel together.' END,
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
COMMENT ON FUNCTION dbanon_internal.demand_no_copies IS
'Refuses a run on a dataset in which people have several names, or that is a copy, under other names, of datasets that have releases; returns
the names of these.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_settle_time(run_id bigint, allow_overlap boolean) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    people record;
BEGIN
    SELECT pop.name, dbanon_internal.find_settle_s(pop.population_id) AS settle_s INTO STRICT people
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        JOIN ONLY dbanon.population pop ON pop.population_id = dat.population_id WHERE run.run_id = demand_settle_time.run_id;
    IF people.settle_s >= 60 OR dbanon_internal.find_run_traits(run_id) ->> 'instant' IS NULL THEN
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
COMMENT ON FUNCTION dbanon_internal.demand_settle_time IS
'Refuses a run whose rows reach as far as people stay, where that is said to be less than a minute; returns what is said, or null.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_kept_promises(run_id bigint, release_id bigint, content bytea, allow_overlap boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record;
    others text;
    within_a_day jsonb;
BEGIN
    SELECT worst.* INTO STRICT found
    FROM dbanon_internal.describe_worst(demand_kept_promises.run_id, demand_kept_promises.release_id, demand_kept_promises.content) worst;
    others := dbanon_internal.name_some(found.releases);
    IF found.below > 0 AND allow_overlap IS NOT TRUE THEN
        PERFORM dbanon_internal.refuse_overlap(demand_kept_promises.run_id, demand_kept_promises.release_id, to_jsonb(found), others);
    ELSIF found.below > 0 THEN
        RAISE NOTICE 'Overridden: an adversary that reads this together with % finds % where % were promised. Promises to % break.',
            others, dbanon_internal.format_quantity(found.smallest_crowd, 'candidate'), coalesce(found.k::text, 'more'),
            dbanon_internal.format_quantity(found.people, 'person', 'people');
    ELSIF found.relation = 'same' THEN
        RAISE NOTICE 'The groups are the same as in %: this leaves each person the same candidates as that.', others;
    ELSIF found.relation = 'overlapping' THEN
        RAISE NOTICE 'An adversary that reads this together with % still finds at least % for each person. Promised: %.',
            others, dbanon_internal.format_quantity(found.smallest_crowd, 'candidate'), found.k;
    END IF;
    within_a_day := dbanon_internal.count_shown_within_a_day(demand_kept_promises.run_id, demand_kept_promises.release_id);
    IF within_a_day IS NOT NULL THEN
        RAISE NOTICE 'Within a day, other releases show exactly % that this one hides, inside the region that hides them. And this one shows '
            'exactly % that they hide.', dbanon_internal.format_quantity((within_a_day ->> 'hidden_here')::bigint, 'person', 'people'),
            dbanon_internal.format_quantity((within_a_day ->> 'shown_here')::bigint, 'person', 'people');
    END IF;
    RETURN CASE WHEN found.relation = 'disjoint' THEN '{}' ELSE to_jsonb(found) END || jsonb_strip_nulls(jsonb_build_object('within_a_day', within_a_day));
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_kept_promises IS
'Refuses a run whose groups are stored under a number if, beside earlier releases, it leaves a person fewer candidates than promised; returns
what was measured.';
