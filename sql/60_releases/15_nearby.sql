-- What lies beyond the reach of the rule is not refused, but counted: people whom one release hides and another shows within a day.

CREATE OR REPLACE FUNCTION dbanon_internal.list_releases_within_a_day(run_id bigint, new_release bigint) RETURNS TABLE (
    release_id bigint, run_id bigint, dataset_id bigint, hides_places boolean)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT x.release_id, r.run_id, r.dataset_id, x.promise ->> 'hides' = 'place'
    FROM (SELECT list_releases_within_a_day.new_release AS release_id, list_releases_within_a_day.run_id AS run_id,
              dbanon_internal.make_promise(list_releases_within_a_day.run_id) AS promise
          UNION
          SELECT l.release_id, l.run_id, l.promise
          FROM ONLY dbanon.run o JOIN ONLY dbanon.dataset d ON d.dataset_id = o.dataset_id
          CROSS JOIN LATERAL dbanon_internal.list_releases_near(d.population_id, dbanon_internal.find_run_span(o.run_id), interval '1 day') n
          JOIN ONLY dbanon.release l ON l.release_id = n.release_id
          WHERE o.run_id = list_releases_within_a_day.run_id) x
    JOIN ONLY dbanon.run r ON r.run_id = x.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.list_releases_within_a_day IS
'A run, under the number of the release it is about to be, and the releases of its population within a day.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_people_within_a_day(run_id bigint, new_release bigint) RETURNS TABLE (person bigint)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
SET enable_nestloop = off
AS $$
    WITH near AS MATERIALIZED (
        SELECT rel.*, rel.release_id = list_people_within_a_day.new_release AS new
        FROM dbanon_internal.list_releases_within_a_day(list_people_within_a_day.run_id, list_people_within_a_day.new_release) rel
    ), shown AS MATERIALIZED (
        SELECT near.new, exp.person FROM near JOIN ONLY dbanon.exposure exp ON exp.release_id = near.release_id
    ), hidden AS MATERIALIZED (
        SELECT near.new, ele.person
        FROM near JOIN ONLY dbanon.grouping gro ON gro.release_id = near.release_id CROSS JOIN LATERAL unnest(gro.people) ele (person)
        WHERE near.hides_places AND EXISTS (SELECT FROM shown)
        UNION
        -- One that stands alone stores no groups: it may hide at one time whom it shows at another.
        SELECT near.new, exp.person FROM near JOIN ONLY dbanon.exposure exp ON exp.release_id = near.release_id
        WHERE near.hides_places AND NOT EXISTS (SELECT FROM ONLY dbanon.grouping gro WHERE gro.release_id = near.release_id)
    )
    -- Codes are random, so those of the smallest codes are a sample.
    (SELECT hidden.person FROM hidden WHERE hidden.new AND hidden.person IN (SELECT shown.person FROM shown WHERE NOT shown.new)
     ORDER BY hidden.person LIMIT 20000)
    UNION
    (SELECT hidden.person FROM hidden WHERE NOT hidden.new AND hidden.person IN (SELECT shown.person FROM shown WHERE shown.new)
     ORDER BY hidden.person LIMIT 20000)
$$;
COMMENT ON FUNCTION dbanon_internal.list_people_within_a_day IS
'The people whom a run hides and a release within a day may show, or the other way round; of very many, 20,000 each way.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_shown_within_a_day(run_id bigint, new_release bigint) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
SET enable_nestloop = off
-- A run just written has no statistics: joined in another order, its records would meet all of its regions.
SET join_collapse_limit = 1
AS $$
    WITH person AS MATERIALIZED (
        SELECT peo.person FROM dbanon_internal.list_people_within_a_day(count_shown_within_a_day.run_id, count_shown_within_a_day.new_release) peo
    ), near AS MATERIALIZED (
        SELECT rel.*, rel.release_id = count_shown_within_a_day.new_release AS new
        FROM dbanon_internal.list_releases_within_a_day(count_shown_within_a_day.run_id, count_shown_within_a_day.new_release) rel
        WHERE EXISTS (SELECT FROM person)
    ), trajectory AS MATERIALIZED (
        -- The key is looked up once a dataset, not once a trajectory.
        SELECT person.person, tra.trajectory_id
        FROM (SELECT near.dataset_id, dbanon_internal.find_dataset_key(near.dataset_id) AS key
              FROM (SELECT DISTINCT near.dataset_id FROM near) near OFFSET 0) key
        JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = key.dataset_id
        JOIN person ON person.person = dbanon_internal.hash_person(key.key, tra.subject)
    ), seen AS MATERIALIZED (
        SELECT DISTINCT near.new, near.hides_places AND reg.crowd > 1 AS hidden, reg.crowd = 1 AS shown, tra.person, reg.region, per.period
        FROM near
        JOIN ONLY dbanon.membership mem ON mem.run_id = near.run_id
        JOIN trajectory tra ON tra.trajectory_id = mem.trajectory_id
        JOIN ONLY dbanon.record rec ON rec.run_id = near.run_id AND rec.record_id = mem.record_id
        CROSS JOIN LATERAL unnest(rec.periods, rec.regions) ele (period_no, region_no)
        JOIN ONLY dbanon.period per ON per.run_id = near.run_id AND per.period_no = ele.period_no
        -- Regions are not read where there is nobody to look for.
        JOIN ONLY dbanon.region reg ON reg.run_id = near.run_id AND reg.region_no = ele.region_no AND EXISTS (SELECT FROM person)
    ), counted AS (
        SELECT count(DISTINCT hid.person) FILTER (WHERE hid.new) AS hidden_here, count(DISTINCT hid.person) FILTER (WHERE sho.new) AS shown_here
        FROM seen hid
        JOIN seen sho ON sho.person = hid.person AND sho.new <> hid.new
        WHERE hid.hidden AND sho.shown AND dbanon_internal.pad_period(sho.period, interval '1 day') && hid.period
            AND @postgis@.ST_Covers(hid.region, sho.region)
    )
    SELECT jsonb_build_object('hidden_here', counted.hidden_here, 'shown_here', counted.shown_here) FROM counted
    WHERE counted.hidden_here + counted.shown_here > 0
$$;
COMMENT ON FUNCTION dbanon_internal.count_shown_within_a_day IS
'How many people a run hides whom another release of the population shows exactly within a day, inside the region that hides them, and the other
way round; NULL where there are none, and without those whose data have gone.';
