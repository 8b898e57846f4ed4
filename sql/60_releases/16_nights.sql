-- What a reader of all parts of a release that grows can conclude, and no part alone shows. Nothing is refused for it: it is counted and said.

CREATE OR REPLACE FUNCTION dbanon_internal.store_requests(run_id bigint, release_id bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
-- Rows are published right after they were written, before any statistics know of them: the planner takes a run for one row.
SET enable_nestloop = off
AS $$
    WITH run AS MATERIALIZED (
        SELECT r.run_id, r.dataset_id, lower(dbanon_internal.run_span(r.run_id)) AS since, dbanon_internal.dataset_key(r.dataset_id) AS key,
            (r.params ->> (m.traits ->> 'every'))::numeric * (r.params ->> (m.traits ->> 'window'))::numeric AS window_s
        FROM ONLY dbanon.run r JOIN ONLY dbanon.method m ON m.name = r.method AND m.traits -> 'joins' ? 'requests'
        WHERE r.run_id = store_requests.run_id
    ), said AS MATERIALIZED (
        SELECT DISTINCT d.record_id, floor(extract(epoch FROM lower(p.period) - n.since) / n.window_s) AS window_no, q.value::text AS content
        FROM run n
        JOIN ONLY dbanon.record d ON d.run_id = n.run_id
        CROSS JOIN LATERAL unnest(d.periods, d.regions) e (period_no, region_no)
        JOIN ONLY dbanon.region g ON g.run_id = n.run_id AND g.region_no = e.region_no AND g.extra ? 'requests'
        JOIN ONLY dbanon.period p ON p.run_id = n.run_id AND p.period_no = e.period_no
        CROSS JOIN LATERAL jsonb_array_elements(g.extra -> 'requests') q
    ), sent AS (
        SELECT s.content, count(DISTINCT s.window_no) AS windows FROM said s GROUP BY s.content
    ), met AS (
        SELECT s.content, t.subject, count(DISTINCT s.window_no) AS windows
        FROM run n
        JOIN ONLY dbanon.membership m ON m.run_id = n.run_id
        JOIN said s ON s.record_id = m.record_id
        JOIN ONLY dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = n.dataset_id
        GROUP BY s.content, t.subject
    )
    INSERT INTO dbanon.asked (release_id, content, people)
        SELECT store_requests.release_id, dbanon_internal.person_code(n.key, s.content),
            coalesce(array_agg(c.person ORDER BY c.person) FILTER (WHERE c.person IS NOT NULL), '{}')
        FROM run n CROSS JOIN sent s
        LEFT JOIN met m ON m.content = s.content AND m.windows = s.windows
        LEFT JOIN LATERAL (SELECT dbanon_internal.person_code(n.key, m.subject) AS person) c ON true
        GROUP BY n.key, s.content
$$;
COMMENT ON FUNCTION dbanon_internal.store_requests(bigint, bigint) IS
'Stores under the number of a part, for each content of its requests, who may have sent all of them if one person did.';

CREATE OR REPLACE FUNCTION dbanon_internal.few_over_parts(run_id bigint, new_release bigint, name text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
AS $$
DECLARE
    most CONSTANT integer := 30;
    own CONSTANT bigint := (dbanon_internal.live_series(few_over_parts.name)).series_id;
    of_run record;
    among bigint[];
    found bigint[] := '{}';
    few bigint;
BEGIN
    SELECT r.dataset_id, d.population_id, (r.params ->> 'k')::numeric AS k INTO STRICT of_run
        FROM ONLY dbanon.run r JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id WHERE r.run_id = few_over_parts.run_id;
    -- Those of its release, of its dataset and of its population, each by itself: a content that others sent elsewhere would leave nobody over all
    -- parts. Those that were withdrawn, too: who has read them still knows. Mostly the three are the same parts.
    FOR among IN
        WITH known AS MATERIALIZED (
            SELECT l.release_id, upper(l.bounds) AS until, ARRAY[coalesce(l.series_id = own, false), r.dataset_id = of_run.dataset_id, true] AS is_of
            FROM ONLY dbanon.release l
            JOIN ONLY dbanon.run r ON r.run_id = l.run_id
            JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id AND d.population_id = of_run.population_id
            WHERE l.bounds IS NOT NULL AND l.release_id <> new_release
        )
        SELECT DISTINCT array_agg(x.release_id ORDER BY x.release_id)
        FROM (SELECT c.scope, n.release_id, dense_rank() OVER (PARTITION BY c.scope ORDER BY n.until DESC) AS nth
              FROM known n CROSS JOIN LATERAL unnest(n.is_of) WITH ORDINALITY c (is_of, scope) WHERE c.is_of) x
        WHERE x.nth < most GROUP BY x.scope
    LOOP
        among := among || new_release;
        WITH sent AS MATERIALIZED (
            SELECT a.content, count(*) AS parts FROM ONLY dbanon.asked a WHERE a.release_id = ANY (among)
            GROUP BY a.content HAVING count(*) > 1 AND bool_or(a.release_id = new_release)
        ), common AS (
            SELECT a.content, p.person, count(*) AS parts
            FROM ONLY dbanon.asked a CROSS JOIN LATERAL unnest(a.people) p (person)
            WHERE a.release_id = ANY (among) GROUP BY a.content, p.person
        )
        SELECT found || coalesce(array_agg(x.content), '{}') INTO found
            FROM (SELECT s.content FROM sent s JOIN common c ON c.content = s.content AND c.parts = s.parts
                  GROUP BY s.content HAVING count(*) < of_run.k) x;
    END LOOP;
    few := (SELECT count(DISTINCT f.content) FROM unnest(found) f (content));
    IF few > 0 THEN
        RAISE NOTICE 'Published request values that leave fewer than k = % people when their groups are intersected over the last 30 parts of this '
                     'release, its dataset or its population: %. If one person sent such a value in each part, it points to that person.',
            of_run.k, few;
    END IF;
    RETURN jsonb_build_object('requests_of_few_over_parts', few);
END
$$;
COMMENT ON FUNCTION dbanon_internal.few_over_parts(bigint, bigint, text) IS
'How many contents of requests of a new part leave fewer than k people, but one at least, when groups are intersected over the parts of the last 30 days, or
whatever time a part is of, that have them: those of its release, of its dataset, or of its population, whatever they are called and withdrawn or not; says so.';
