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
        SELECT run.run_id, run.dataset_id, lower(dbanon_internal.find_run_span(run.run_id)) AS since,
            dbanon_internal.find_dataset_key(run.dataset_id) AS key,
            (run.params ->> (met.traits ->> 'every'))::numeric * (run.params ->> (met.traits ->> 'window'))::numeric AS window_s
        FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method AND met.traits -> 'joins' ? 'requests'
        WHERE run.run_id = store_requests.run_id
    ), said AS MATERIALIZED (
        SELECT DISTINCT rec.record_id, floor(extract(epoch FROM lower(per.period) - run.since) / run.window_s) AS window_no,
            req.value::text AS content
        FROM run
        JOIN ONLY dbanon.record rec ON rec.run_id = run.run_id
        CROSS JOIN LATERAL unnest(rec.periods, rec.regions) ele (period_no, region_no)
        JOIN ONLY dbanon.region reg ON reg.run_id = run.run_id AND reg.region_no = ele.region_no AND reg.extra ? 'requests'
        JOIN ONLY dbanon.period per ON per.run_id = run.run_id AND per.period_no = ele.period_no
        CROSS JOIN LATERAL jsonb_array_elements(reg.extra -> 'requests') req
    ), sent AS (
        SELECT said.content, count(DISTINCT said.window_no) AS windows FROM said GROUP BY said.content
    ), met AS (
        SELECT said.content, tra.subject, count(DISTINCT said.window_no) AS windows
        FROM run
        JOIN ONLY dbanon.membership mem ON mem.run_id = run.run_id
        JOIN said ON said.record_id = mem.record_id
        JOIN ONLY dbanon.trajectory tra ON tra.trajectory_id = mem.trajectory_id AND tra.dataset_id = run.dataset_id
        GROUP BY said.content, tra.subject
    )
    INSERT INTO dbanon.asked (release_id, content, people)
        SELECT store_requests.release_id, dbanon_internal.hash_person(run.key, sent.content),
            coalesce(array_agg(who.person ORDER BY who.person) FILTER (WHERE who.person IS NOT NULL), '{}')
        FROM run CROSS JOIN sent
        LEFT JOIN met ON met.content = sent.content AND met.windows = sent.windows
        LEFT JOIN LATERAL (SELECT dbanon_internal.hash_person(run.key, met.subject) AS person) who ON true
        GROUP BY run.key, sent.content
$$;
COMMENT ON FUNCTION dbanon_internal.store_requests(bigint, bigint) IS
'Stores under the number of a part, for each content of its requests, who may have sent all of them if one person did.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_few_over_parts(run_id bigint, new_release bigint, name text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
AS $$
DECLARE
    most CONSTANT integer := 30;
    own CONSTANT bigint := (dbanon_internal.find_live_series(count_few_over_parts.name)).series_id;
    of_run record;
    among bigint[];
    found bigint[] := '{}';
    few bigint;
BEGIN
    SELECT run.dataset_id, dat.population_id, (run.params ->> 'k')::numeric AS k,
            met.traits -> 'notices' ->> 'requests_of_few_over_parts' AS sentence INTO STRICT of_run
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        JOIN ONLY dbanon.method met ON met.name = run.method WHERE run.run_id = count_few_over_parts.run_id;
    -- Those of its release, of its dataset and of its population, each by itself: a content that others sent elsewhere would leave nobody over all
    -- parts. Those that were withdrawn, too: who has read them still knows. Mostly the three are the same parts.
    FOR among IN
        WITH known AS MATERIALIZED (
            SELECT rel.release_id, upper(rel.bounds) AS until,
                ARRAY[coalesce(rel.series_id = own, false), run.dataset_id = of_run.dataset_id, true] AS is_of
            FROM ONLY dbanon.release rel
            JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
            JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id AND dat.population_id = of_run.population_id
            WHERE rel.bounds IS NOT NULL AND rel.release_id <> new_release
        )
        SELECT DISTINCT array_agg(nth.release_id ORDER BY nth.release_id)
        FROM (SELECT ele.scope, known.release_id, dense_rank() OVER (PARTITION BY ele.scope ORDER BY known.until DESC) AS nth
              FROM known CROSS JOIN LATERAL unnest(known.is_of) WITH ORDINALITY ele (is_of, scope) WHERE ele.is_of) nth
        WHERE nth.nth < most GROUP BY nth.scope
    LOOP
        among := among || new_release;
        WITH sent AS MATERIALIZED (
            SELECT ask.content, count(*) AS parts FROM ONLY dbanon.asked ask WHERE ask.release_id = ANY (among)
            GROUP BY ask.content HAVING count(*) > 1 AND bool_or(ask.release_id = new_release)
        ), common AS (
            SELECT ask.content, ele.person, count(*) AS parts
            FROM ONLY dbanon.asked ask CROSS JOIN LATERAL unnest(ask.people) ele (person)
            WHERE ask.release_id = ANY (among) GROUP BY ask.content, ele.person
        )
        SELECT found || coalesce(array_agg(rep.content), '{}') INTO found
            FROM (SELECT sent.content FROM sent JOIN common ON common.content = sent.content AND common.parts = sent.parts
                  GROUP BY sent.content HAVING count(*) < of_run.k) rep;
    END LOOP;
    few := (SELECT count(DISTINCT ele.content) FROM unnest(found) ele (content));
    IF few > 0 THEN
        RAISE NOTICE '%', format(of_run.sentence, few);
    END IF;
    RETURN jsonb_build_object('requests_of_few_over_parts', few);
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_few_over_parts(bigint, bigint, text) IS
'How many contents of requests of a new part leave fewer than k people, but one at least, when groups are intersected over the parts of the last 30 days, or
whatever time a part is of, that have them: those of its release, of its dataset, or of its population, whatever they are called and withdrawn or not; says so.';
