-- What lies beyond the reach of the rule is not refused, but counted: people whom one release hides and another shows within a day.

CREATE OR REPLACE FUNCTION dbanon_internal.rows_of_people(run_id bigint, people bigint[], hidden boolean) RETURNS TABLE (
    person bigint, region @postgis@.geometry, period tstzrange)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_nestloop = off
AS $$
    WITH person AS MATERIALIZED (
        SELECT x.person, x.trajectory_id
        FROM (SELECT dbanon_internal.person_code(k.key, t.subject) AS person, t.trajectory_id
              FROM (SELECT r.dataset_id, dbanon_internal.dataset_key(r.dataset_id) AS key
                    FROM ONLY dbanon.run r WHERE r.run_id = rows_of_people.run_id OFFSET 0) k
              JOIN ONLY dbanon.trajectory t ON t.dataset_id = k.dataset_id) x
        WHERE x.person = ANY (rows_of_people.people)
    )
    SELECT DISTINCT n.person, g.region, p.period
    FROM person n
    JOIN ONLY dbanon.membership m ON m.run_id = rows_of_people.run_id AND m.trajectory_id = n.trajectory_id
    JOIN ONLY dbanon.record d ON d.run_id = rows_of_people.run_id AND d.record_id = m.record_id
    CROSS JOIN LATERAL unnest(d.periods, d.regions) e (period_no, region_no)
    JOIN ONLY dbanon.period p ON p.run_id = rows_of_people.run_id AND p.period_no = e.period_no
    JOIN ONLY dbanon.region g ON g.run_id = rows_of_people.run_id AND g.region_no = e.region_no AND (g.crowd > 1) = rows_of_people.hidden
$$;
COMMENT ON FUNCTION dbanon_internal.rows_of_people(bigint, bigint[], boolean) IS
'The rows of a run in which some people are hidden, or shown exactly; none once their data have gone.';

CREATE OR REPLACE FUNCTION dbanon_internal.hidden_and_shown(
    hiding_run bigint, hiding_release bigint, showing_run bigint, showing_release bigint) RETURNS SETOF bigint
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_nestloop = off
AS $$
    -- Of very many people, 20,000 are looked at: enough to see that it happens.
    WITH common AS MATERIALIZED (
        SELECT array_agg(x.person) AS people
        FROM (SELECT h.person
              FROM (SELECT u.person FROM ONLY dbanon.grouping g CROSS JOIN LATERAL unnest(g.people) u (person)
                    WHERE g.release_id = hidden_and_shown.hiding_release
                    UNION
                    SELECT e.person FROM ONLY dbanon.exposure e WHERE e.release_id = hidden_and_shown.hiding_release) h
              JOIN ONLY dbanon.exposure s ON s.release_id = hidden_and_shown.showing_release AND s.person = h.person
              ORDER BY h.person LIMIT 20000) x
        -- Without any, no trajectory is looked at: to find people by their codes, all names of a dataset are hashed.
        HAVING count(*) > 0
    )
    SELECT DISTINCT h.person
    FROM common b
    CROSS JOIN LATERAL dbanon_internal.rows_of_people(hidden_and_shown.hiding_run, b.people, true) h
    JOIN (SELECT s.* FROM common c CROSS JOIN LATERAL dbanon_internal.rows_of_people(hidden_and_shown.showing_run, c.people, false) s) s
        ON s.person = h.person
    WHERE dbanon_internal.padded(s.period, interval '1 day') && h.period AND @postgis@.ST_Covers(h.region, s.region)
$$;
COMMENT ON FUNCTION dbanon_internal.hidden_and_shown(bigint, bigint, bigint, bigint) IS
'The people whom one release hides and another shows exactly, within a day and inside the region that hides them.';

CREATE OR REPLACE FUNCTION dbanon_internal.shown_within_a_day(run_id bigint, new_release bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    WITH other AS MATERIALIZED (
        SELECT l.release_id, l.run_id, m.traits ->> 'hides' AS secret, d.secret AS own_secret
        FROM (SELECT r.dataset_id, m.traits ->> 'hides' AS secret, s.population_id
              FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset s ON s.dataset_id = r.dataset_id JOIN ONLY dbanon.method m ON m.name = r.method
              WHERE r.run_id = shown_within_a_day.run_id) d
        CROSS JOIN LATERAL dbanon_internal.releases_near(
            d.population_id, dbanon_internal.run_span(shown_within_a_day.run_id), interval '1 day') n
        JOIN ONLY dbanon.release l ON l.release_id = n.release_id AND l.release_id <> shown_within_a_day.new_release
        JOIN ONLY dbanon.run o ON o.run_id = l.run_id JOIN ONLY dbanon.method m ON m.name = o.method
    ), counted AS (
        SELECT (SELECT count(DISTINCT p) FROM other o CROSS JOIN LATERAL dbanon_internal.hidden_and_shown(
                    shown_within_a_day.run_id, shown_within_a_day.new_release, o.run_id, o.release_id) p WHERE o.own_secret = 'place') AS hidden_here,
               (SELECT count(DISTINCT p) FROM other o CROSS JOIN LATERAL dbanon_internal.hidden_and_shown(
                    o.run_id, o.release_id, shown_within_a_day.run_id, shown_within_a_day.new_release) p WHERE o.secret = 'place') AS shown_here
    )
    SELECT jsonb_build_object('hidden_here', c.hidden_here, 'shown_here', c.shown_here) FROM counted c WHERE c.hidden_here + c.shown_here > 0
$$;
COMMENT ON FUNCTION dbanon_internal.shown_within_a_day(bigint, bigint) IS
'How many people a run hides whom another release of the population shows exactly within a day, inside the region that hides them, and the other
way round; NULL where there are none.';
