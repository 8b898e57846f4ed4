-- What lies beyond the reach of the rule is not refused, but counted: people whom one release hides and another shows within a day.

CREATE OR REPLACE FUNCTION dbanon_internal.releases_within_a_day(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, run_id bigint, dataset_id bigint, hides_places boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT x.release_id, r.run_id, r.dataset_id, m.traits ->> 'hides' = 'place'
    FROM (SELECT releases_within_a_day.new_release AS release_id, releases_within_a_day.run_id AS run_id
          UNION
          SELECT l.release_id, l.run_id
          FROM ONLY dbanon.run o JOIN ONLY dbanon.dataset d ON d.dataset_id = o.dataset_id
          CROSS JOIN LATERAL dbanon_internal.releases_near(d.population_id, dbanon_internal.run_span(o.run_id), interval '1 day') n
          JOIN ONLY dbanon.release l ON l.release_id = n.release_id
          WHERE o.run_id = releases_within_a_day.run_id) x
    JOIN ONLY dbanon.run r ON r.run_id = x.run_id
    JOIN ONLY dbanon.method m ON m.name = r.method
$$;
COMMENT ON FUNCTION dbanon_internal.releases_within_a_day(bigint, bigint) IS
'A run, under the number of the release it is about to be, and the releases of its population within a day.';

CREATE OR REPLACE FUNCTION dbanon_internal.people_within_a_day(run_id bigint, new_release bigint) RETURNS TABLE (person bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
SET enable_nestloop = off
AS $$
    WITH near AS MATERIALIZED (
        SELECT n.*, n.release_id = people_within_a_day.new_release AS new
        FROM dbanon_internal.releases_within_a_day(people_within_a_day.run_id, people_within_a_day.new_release) n
    ), shown AS MATERIALIZED (
        SELECT n.new, e.person FROM near n JOIN ONLY dbanon.exposure e ON e.release_id = n.release_id
    ), hidden AS MATERIALIZED (
        SELECT n.new, u.person
        FROM near n JOIN ONLY dbanon.grouping g ON g.release_id = n.release_id CROSS JOIN LATERAL unnest(g.people) u (person)
        WHERE n.hides_places AND EXISTS (SELECT FROM shown)
        UNION
        -- One that stands alone stores no groups: it may hide at one time whom it shows at another.
        SELECT n.new, e.person FROM near n JOIN ONLY dbanon.exposure e ON e.release_id = n.release_id
        WHERE n.hides_places AND NOT EXISTS (SELECT FROM ONLY dbanon.grouping g WHERE g.release_id = n.release_id)
    )
    -- Codes are random, so those of the smallest codes are a sample.
    (SELECT h.person FROM hidden h WHERE h.new AND h.person IN (SELECT s.person FROM shown s WHERE NOT s.new) ORDER BY h.person LIMIT 20000)
    UNION
    (SELECT h.person FROM hidden h WHERE NOT h.new AND h.person IN (SELECT s.person FROM shown s WHERE s.new) ORDER BY h.person LIMIT 20000)
$$;
COMMENT ON FUNCTION dbanon_internal.people_within_a_day(bigint, bigint) IS
'The people whom a run hides and a release within a day may show, or the other way round; of very many, 20,000 each way.';

CREATE OR REPLACE FUNCTION dbanon_internal.shown_within_a_day(run_id bigint, new_release bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
SET enable_nestloop = off
-- A run just written has no statistics: joined in another order, its records would meet all of its regions.
SET join_collapse_limit = 1
AS $$
    WITH person AS MATERIALIZED (
        SELECT p.person FROM dbanon_internal.people_within_a_day(shown_within_a_day.run_id, shown_within_a_day.new_release) p
    ), near AS MATERIALIZED (
        SELECT n.*, n.release_id = shown_within_a_day.new_release AS new
        FROM dbanon_internal.releases_within_a_day(shown_within_a_day.run_id, shown_within_a_day.new_release) n
        WHERE EXISTS (SELECT FROM person)
    ), trajectory AS MATERIALIZED (
        -- The key is looked up once a dataset, not once a trajectory.
        SELECT p.person, t.trajectory_id
        FROM (SELECT n.dataset_id, dbanon_internal.dataset_key(n.dataset_id) AS key
              FROM (SELECT DISTINCT n.dataset_id FROM near n) n OFFSET 0) k
        JOIN ONLY dbanon.trajectory t ON t.dataset_id = k.dataset_id
        JOIN person p ON p.person = dbanon_internal.person_code(k.key, t.subject)
    ), seen AS MATERIALIZED (
        SELECT DISTINCT n.new, n.hides_places AND g.crowd > 1 AS hidden, g.crowd = 1 AS shown, t.person, g.region, p.period
        FROM near n
        JOIN ONLY dbanon.membership m ON m.run_id = n.run_id
        JOIN trajectory t ON t.trajectory_id = m.trajectory_id
        JOIN ONLY dbanon.record d ON d.run_id = n.run_id AND d.record_id = m.record_id
        CROSS JOIN LATERAL unnest(d.periods, d.regions) e (period_no, region_no)
        JOIN ONLY dbanon.period p ON p.run_id = n.run_id AND p.period_no = e.period_no
        -- Regions are not read where there is nobody to look for.
        JOIN ONLY dbanon.region g ON g.run_id = n.run_id AND g.region_no = e.region_no AND EXISTS (SELECT FROM person)
    ), counted AS (
        SELECT count(DISTINCT h.person) FILTER (WHERE h.new) AS hidden_here, count(DISTINCT h.person) FILTER (WHERE s.new) AS shown_here
        FROM seen h
        JOIN seen s ON s.person = h.person AND s.new <> h.new
        WHERE h.hidden AND s.shown AND dbanon_internal.padded(s.period, interval '1 day') && h.period AND @postgis@.ST_Covers(h.region, s.region)
    )
    SELECT jsonb_build_object('hidden_here', c.hidden_here, 'shown_here', c.shown_here) FROM counted c WHERE c.hidden_here + c.shown_here > 0
$$;
COMMENT ON FUNCTION dbanon_internal.shown_within_a_day(bigint, bigint) IS
'How many people a run hides whom another release of the population shows exactly within a day, inside the region that hides them, and the other
way round; NULL where there are none, and without those whose data have gone.';
