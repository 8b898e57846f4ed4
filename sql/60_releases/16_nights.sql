-- What a reader of many releases, or of all parts of one, can conclude, and none of them alone shows. Nothing is refused for it: it is counted and said.

CREATE OR REPLACE FUNCTION dbanon_internal.store_requests(run_id bigint, release_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
AS $$
DECLARE
    guests_came CONSTANT boolean := EXISTS (
        SELECT FROM ONLY dbanon.grouping gro WHERE gro.release_id = store_requests.release_id AND gro.members IS NOT NULL);
BEGIN
    -- Full members met what their group has: dbanon.grouping says that. A guest met what was sent while it was there. A row of nobody counts windows.
    WITH run AS MATERIALIZED (
        SELECT run.run_id, run.dataset_id, lower(dbanon_internal.find_run_span(run.run_id)) AS since,
            dbanon_internal.find_dataset_key(run.dataset_id) AS key,
            (run.params ->> (met.traits ->> 'every'))::numeric * (run.params ->> (met.traits ->> 'window'))::numeric AS window_s
        FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method AND met.traits -> 'joins' ? 'requests'
        WHERE run.run_id = store_requests.run_id
    ), said AS MATERIALIZED (
        SELECT floor(extract(epoch FROM lower(gro.period) - run.since) / run.window_s) AS window_no, gro.contents, cardinality(gro.people) AS people
        FROM run CROSS JOIN ONLY dbanon.grouping gro WHERE gro.release_id = store_requests.release_id
    ), present AS (
        SELECT said.window_no, sum(said.people) AS people FROM said GROUP BY said.window_no
    ), sent AS MATERIALIZED (
        SELECT one.content, count(*) AS windows, sum(present.people) AS present
        FROM (SELECT DISTINCT ele.content, said.window_no FROM said CROSS JOIN LATERAL unnest(said.contents) ele (content)) one
        JOIN present ON present.window_no = one.window_no GROUP BY one.content
    ), guest AS MATERIALIZED (
        SELECT DISTINCT mem.record_id, mem.period, dbanon_internal.hash_person(run.key, tra.subject) AS person
        FROM run
        JOIN ONLY dbanon.membership mem ON mem.run_id = run.run_id AND mem.period IS NOT NULL
        JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
        WHERE guests_came
    ), met AS (
        SELECT one.content, one.person, count(*) AS windows
        FROM (SELECT DISTINCT ele.content, floor(extract(epoch FROM lower(per.period) - run.since) / run.window_s) AS window_no, guest.person
              FROM run CROSS JOIN guest
              JOIN (SELECT lis.* FROM dbanon_internal.list_contents(store_requests.run_id) lis WHERE guests_came) con ON con.record_id = guest.record_id
              JOIN ONLY dbanon.period per ON per.run_id = run.run_id AND per.period_no = con.period_no AND per.period && guest.period
              CROSS JOIN LATERAL unnest(con.contents) ele (content)) one
        GROUP BY one.content, one.person
    )
    INSERT INTO dbanon.asked (release_id, content, windows, present, met, people)
        SELECT store_requests.release_id, sent.content, sent.windows, sent.present, 0, '{}' FROM sent
        UNION ALL
        SELECT store_requests.release_id, sent.content, sent.windows, sent.present, met.windows, array_agg(met.person ORDER BY met.person)
        FROM sent JOIN met ON met.content = sent.content GROUP BY sent.content, sent.windows, sent.present, met.windows;
END
$$;
COMMENT ON FUNCTION dbanon_internal.store_requests IS
'Stores under the number of a release, whose groups are stored already, the contents of its requests, and which guests met them in how many windows.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_chance(windows bigint, present numeric, met numeric, most bigint) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    -- A person of an average window is in one of the groups with this share. Where windows differ the binomial tail is an upper bound (Hoeffding,
    -- On the distribution of the number of successes, 1956). In logarithms, since PostgreSQL refuses very small numbers.
    SELECT (present / windows)::double precision * sum(exp(greatest(term.log, -600)))
    FROM (SELECT ele.drawn, windows * ln(1 - chance.share)
              + sum(ln((windows - ele.drawn + 1) * chance.share / (ele.drawn * (1 - chance.share)))) OVER (ORDER BY ele.drawn) AS log
          FROM (SELECT least((met / present)::double precision, 1 - 1e-9) AS share) chance
          CROSS JOIN generate_series(1, windows) ele (drawn)) term
    WHERE term.drawn >= most
$$;
COMMENT ON FUNCTION dbanon_internal.compute_chance IS
'At most how many people would be in so many groups of a content, given its windows, the people in them and in its groups, had chance drawn members.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_counted_releases(run_id bigint, new_release bigint, name text, most bigint) RETURNS SETOF bigint[]
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
AS $$
BEGIN
    RETURN QUERY
    -- Releases of a name, of a dataset and of a population are counted separately: people who sent a content in another release must not hide
    -- the person in front here. Withdrawn releases count, because their readers still know them.
    WITH RECURSIVE own AS MATERIALIZED (
        SELECT run.dataset_id, dat.population_id, (dbanon_internal.find_live_series(list_counted_releases.name)).series_id,
            coalesce(dbanon_internal.make_promise(run.run_id) ->> 'times', '{}')::tstzmultirange AS times
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id WHERE run.run_id = list_counted_releases.run_id
    ), known AS MATERIALIZED (
        -- Many of the newest are enough, also where most of them share time with others.
        SELECT nth.* FROM (
            SELECT ele.scope, run.dataset_id, rel.release_id, upper(rel.span) AS until, run.dataset_id = own.dataset_id AS is_own,
                coalesce((rel.promise ->> 'times')::tstzmultirange, tstzmultirange(rel.span)) AS times,
                row_number() OVER (PARTITION BY ele.scope ORDER BY rel.release_id DESC) AS nth
            FROM own CROSS JOIN ONLY dbanon.release rel
            JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
            JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id AND dat.population_id = own.population_id
            CROSS JOIN LATERAL unnest(ARRAY[rel.series_id = own.series_id, run.dataset_id = own.dataset_id, true]) WITH ORDINALITY ele (is_of, scope)
            WHERE ele.is_of AND rel.release_id <> list_counted_releases.new_release AND EXISTS (
                SELECT FROM ONLY dbanon.asked ask WHERE ask.release_id = rel.release_id AND ask.content IN (
                    SELECT new.content FROM ONLY dbanon.asked new WHERE new.release_id = list_counted_releases.new_release))) nth
        WHERE nth.nth <= 8 * most
    ), counted AS (
        -- Of releases of a dataset that share time one counts, the latest: in the others are the same requests.
        SELECT DISTINCT known.scope, known.dataset_id, 1 AS nth, NULL::bigint AS release_id, NULL::timestamptz AS until,
            CASE WHEN known.is_own THEN own.times ELSE '{}' END AS taken
        FROM known CROSS JOIN own
        UNION ALL
        SELECT cou.scope, cou.dataset_id, cou.nth + 1, next.release_id, next.until, cou.taken + next.times
        FROM counted cou
        CROSS JOIN LATERAL (SELECT known.* FROM known WHERE known.scope = cou.scope AND known.dataset_id = cou.dataset_id
                                AND NOT known.times && cou.taken ORDER BY known.release_id DESC LIMIT 1) next
        WHERE cou.nth < most
    )
    SELECT DISTINCT array_agg(nth.release_id ORDER BY nth.release_id)
    FROM (SELECT cou.scope, cou.release_id, dense_rank() OVER (PARTITION BY cou.scope ORDER BY cou.until DESC) AS nth
          FROM counted cou WHERE cou.release_id IS NOT NULL) nth
    WHERE nth.nth < most GROUP BY nth.scope;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_counted_releases IS
'The last releases, also withdrawn ones, with a content of a new one: those of its name, of its dataset, and of its population, each where they
differ.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_few_over_parts(run_id bigint, new_release bigint, name text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
AS $$
DECLARE
    max_chance CONSTANT double precision := 0.02;
    promised_k numeric;
    sentence text;
    among bigint[];
    found bigint[] := '{}';
    front jsonb;
    worst jsonb;
    figures jsonb;
BEGIN
    FOR among IN SELECT lis.releases FROM dbanon_internal.list_counted_releases(run_id, new_release, name, 30) lis (releases)
    LOOP
        among := among || new_release;
        promised_k := max((made.promise ->> 'k')::numeric) FROM (
            SELECT rel.promise FROM ONLY dbanon.release rel WHERE rel.release_id = ANY (among)
            UNION ALL SELECT dbanon_internal.make_promise(run_id)) made;
        -- A content has a sender in front where fewer than k people were in its groups as often as anyone, and nobody would have been by
        -- chance. All are looked at who were in any of its groups: that nobody was in all of them hides nobody.
        WITH sent AS MATERIALIZED (
            SELECT part.content, sum(part.windows)::bigint AS windows, sum(part.present) AS present
            FROM (SELECT DISTINCT ask.release_id, ask.content, ask.windows, ask.present
                  FROM ONLY dbanon.asked ask WHERE ask.release_id = ANY (among)) part
            GROUP BY part.content HAVING count(*) > 1 AND sum(part.windows) >= 3 AND bool_or(part.release_id = new_release)
        ), met AS (
            SELECT one.content, one.person, sum(one.windows) AS windows
            FROM (SELECT ask.content, ele.person, ask.met AS windows
                  FROM sent JOIN ONLY dbanon.asked ask ON ask.content = sent.content AND ask.release_id = ANY (among)
                  CROSS JOIN LATERAL unnest(ask.people) ele (person)
                  UNION ALL
                  SELECT said.content, ele.person, 1
                  FROM (SELECT gro.people[:coalesce(gro.members, cardinality(gro.people))] AS people, unnest(gro.contents) AS content
                        FROM ONLY dbanon.grouping gro WHERE gro.release_id = ANY (among)) said
                  JOIN sent ON sent.content = said.content
                  CROSS JOIN LATERAL unnest(said.people) ele (person)) one
            GROUP BY one.content, one.person
        ), most AS (
            SELECT met.content, met.windows, max(met.windows) OVER (PARTITION BY met.content) AS greatest FROM met
        ), ahead AS MATERIALIZED (
            SELECT most.content, most.greatest::bigint AS greatest, sum(most.windows) AS met, count(*) FILTER (WHERE most.windows = most.greatest) AS people
            FROM most GROUP BY most.content, most.greatest HAVING count(*) FILTER (WHERE most.windows = most.greatest) < promised_k
        )
        SELECT found || coalesce(array_agg(chance.content), '{}'), (array_agg(to_jsonb(chance.*) ORDER BY chance.chance))[1] INTO found, front
            FROM (SELECT ahead.content, ahead.greatest, ahead.people, sent.windows,
                      dbanon_internal.compute_chance(sent.windows, sent.present, ahead.met, ahead.greatest) AS chance
                  FROM ahead JOIN sent ON sent.content = ahead.content) chance
            WHERE chance.chance <= max_chance;
        worst := CASE WHEN worst -> 'chance' <= front -> 'chance' THEN worst ELSE coalesce(front, worst) END;
    END LOOP;
    found := ARRAY(SELECT DISTINCT ele.content FROM unnest(found) ele (content));
    figures := jsonb_build_object('requests_of_few_over_parts', cardinality(found), 'few_over_parts_windows', coalesce(worst -> 'windows', '0'),
        'few_over_parts_greatest', coalesce(worst -> 'greatest', '0'), 'few_over_parts_people', coalesce(worst -> 'people', '0'));
    IF worst IS NOT NULL THEN
        sentence := met.traits -> 'notices' ->> 'requests_of_few_over_parts' FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method
            WHERE run.run_id = count_few_over_parts.run_id;
        RAISE NOTICE '%', dbanon_internal.fill_in(format(sentence, cardinality(found)), figures);
    END IF;
    RETURN figures;
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_few_over_parts IS
'How many contents of requests of a new release or part have fewer than k people in front over the last 30 of its name, of its dataset, or of its
population, whatever they are called and withdrawn or not, with the figures of the most telling one; says so.';
