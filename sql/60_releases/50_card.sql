-- A release on one page: what it promises, what was attacked and left out, who published it and when.

CREATE OR REPLACE FUNCTION dbanon_internal.suppressed_by_hour(suppressed jsonb, published numeric, since timestamptz) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    WITH part AS (
        -- A family of windows counts by window; one of a single moment has that moment alone.
        SELECT to_timestamp(floor((w.value ->> 'start')::numeric / 3600)::bigint * 3600) AS hour,
            (w.value ->> 'seen')::numeric AS seen, (w.value ->> 'published')::numeric AS published,
            jsonb_build_object(
                'absent_at_some_instant', (w.value ->> 'seen')::numeric - (w.value ->> 'present')::numeric,
                'window_below_k', (w.value ->> 'present')::numeric - (w.value ->> 'published')::numeric) AS reasons
        FROM jsonb_array_elements(suppressed -> 'windows') w
        UNION ALL
        SELECT to_timestamp(floor(extract(epoch FROM since) / 3600)::bigint * 3600),
            suppressed_by_hour.published + dbanon_internal.sum_of_counts(suppressed -> 'subjects'), suppressed_by_hour.published,
            coalesce(suppressed -> 'subjects', '{}')
        WHERE NOT suppressed ? 'windows' AND since IS NOT NULL
    ), counted AS (
        SELECT p.hour, sum(p.seen) AS seen, sum(p.published) AS published FROM part p GROUP BY p.hour
    ), reason AS (
        SELECT n.hour, jsonb_object_agg(n.key, n.left_out) AS reasons
        FROM (SELECT p.hour, c.key, sum(c.value::numeric) AS left_out
              FROM part p CROSS JOIN LATERAL jsonb_each_text(p.reasons) c GROUP BY p.hour, c.key) n
        GROUP BY n.hour
    )
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'hour', to_char(c.hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"'), 'seen', c.seen, 'published', c.published,
        'left_out', coalesce(n.reasons, '{}')) ORDER BY c.hour), '[]')
    FROM counted c LEFT JOIN reason n USING (hour)
$$;
COMMENT ON FUNCTION dbanon_internal.suppressed_by_hour(jsonb, numeric, timestamptz) IS
'Counts what a run left out by the hour (UTC) in which its window starts, and by reason.';

CREATE OR REPLACE FUNCTION dbanon.release_card(name text, release_id bigint DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
DECLARE
    release dbanon.release;
    run dbanon.run;
    method dbanon.method;
    dataset dbanon.dataset;
    verdict dbanon.verification;
    covered record;
BEGIN
    SELECT l.* INTO release FROM ONLY dbanon.release l WHERE l.name = release_card.name
            AND (release_card.release_id IS NULL OR l.release_id = release_card.release_id)
        ORDER BY l.withdrawn_at DESC NULLS FIRST, l.release_id DESC LIMIT 1;
    IF release.release_id IS NULL THEN
        RAISE EXCEPTION 'The release must exist, live or withdrawn. There was never one named %.',
                coalesce(quote_literal(left(release_card.name, 60)), 'NULL') || coalesce(' with release_id ' || release_card.release_id, '')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.', HINT = 'List the releases: SELECT * FROM dbanon.releases.';
    END IF;
    SELECT r.* INTO STRICT run FROM ONLY dbanon.run r WHERE r.run_id = release.run_id;
    SELECT m.* INTO STRICT method FROM ONLY dbanon.method m WHERE m.name = run.method;
    SELECT d.* INTO STRICT dataset FROM ONLY dbanon.dataset d WHERE d.dataset_id = run.dataset_id;
    verdict := dbanon_internal.release_figures(release.release_id);
    -- The rows of a run with a release stay as they are, also when the release is withdrawn.
    SELECT min(lower(c.period)) AS since, max(upper(c.period)) AS until INTO covered
        FROM ONLY dbanon.cloak c WHERE c.run_id = run.run_id;
    RETURN jsonb_build_object(
        'release', release.name, 'release_id', release.release_id, 'live', release.withdrawn_at IS NULL, 'dataset', dataset.name,
        'method', run.method, 'algorithm', run.algorithm, 'parameters', run.params,
        'promise', method.guarantee, 'k', run.params -> 'k', 'adversary', method.adversary, 'rows_are', method.row_meaning,
        'attack', jsonb_build_object('name', method.attack, 'passed', verdict.passed, 'figures', verdict.figures,
            'clauses', verdict.clauses, 'checked_at', verdict.checked_at, 'checked_by', verdict.checked_by),
        'left_out', jsonb_build_object('meaning', method.left_out, 'in_all', run.suppressed - 'windows',
            'by_hour', dbanon_internal.suppressed_by_hour(run.suppressed, (verdict.figures ->> 'published')::numeric, covered.since)),
        'rows', release.rows, 'period', jsonb_build_object('since', covered.since, 'until', covered.until),
        'srid', dataset.srid, 'grid_m', dataset.grid_m, 'grid_s', dataset.grid_s,
        'published_at', release.published_at, 'published_by', release.published_by,
        'withdrawn_at', release.withdrawn_at, 'withdrawn_by', release.withdrawn_by,
        'overlap', release.overlap, 'overlap_reason', release.overlap_reason,
        'program_version', run.program_version, 'paper', method.paper);
END
$$;
COMMENT ON FUNCTION dbanon.release_card(text, bigint) IS
'A release on one page: method, parameters without the seed, promise, adversary, what the attack counted clause by clause,
what was left out in all and by hour and reason, rows, period, who published and withdrew it and when, overlap with other
releases. It is for administrators: its counts may be small. Takes: name; release_id, as in dbanon.releases, NULL for the
live release of that name, else the latest withdrawn one. Returns: a JSON object. Raises: DA001. Example: SELECT
jsonb_pretty(dbanon.release_card(''cabs_june'')).';
