-- A release on one page: what it promises, what was attacked and left out, who published it and when.

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
BEGIN
    SELECT l.* INTO release FROM ONLY dbanon.release l WHERE l.name = release_card.name AND l.run_id IS NOT NULL
            AND (release_card.release_id IS NULL OR l.release_id = release_card.release_id)
        ORDER BY l.withdrawn_at DESC NULLS FIRST, upper(l.bounds) DESC, l.release_id DESC LIMIT 1;
    IF release.release_id IS NULL THEN
        RAISE EXCEPTION 'The release must exist, live or withdrawn. There was never one named %.',
                coalesce(dbanon_internal.quoted(release_card.name), 'NULL') || coalesce(' with release_id ' || release_card.release_id, '')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.', HINT = 'List the releases: SELECT * FROM dbanon.releases.';
    END IF;
    SELECT r.* INTO STRICT run FROM ONLY dbanon.run r WHERE r.run_id = release.run_id;
    SELECT m.* INTO STRICT method FROM ONLY dbanon.method m WHERE m.name = run.method;
    SELECT d.* INTO STRICT dataset FROM ONLY dbanon.dataset d WHERE d.dataset_id = run.dataset_id;
    verdict := dbanon_internal.release_figures(release.release_id);
    RETURN jsonb_build_object(
        'release', release.name, 'release_id', release.release_id, 'live', release.withdrawn_at IS NULL, 'dataset', dataset.name,
        'method', run.method, 'algorithm', run.algorithm, 'parameters', run.params,
        'promise', method.guarantee, 'k', run.params -> 'k', 'adversary', method.adversary, 'rows_are', method.row_meaning,
        'attack', jsonb_build_object('name', method.attack, 'passed', verdict.passed, 'figures', verdict.figures,
            'clauses', verdict.clauses, 'checked_at', verdict.checked_at, 'checked_by', verdict.checked_by),
        'left_out', jsonb_build_object('meaning', method.left_out, 'reasons', coalesce(method.traits -> 'reasons', '{}'),
            'by_hour', coalesce(run.suppressed -> 'by_hour', '[]'),
            'in_all', (SELECT coalesce(jsonb_object_agg(c.key, c.value), '{}') FROM jsonb_each(run.suppressed) c
                       WHERE jsonb_typeof(c.value) = 'object')),
        'rows', release.rows, 'period', jsonb_build_object('since', lower(release.span), 'until', upper(release.span)),
        'part', CASE WHEN release.series_id IS NOT NULL THEN jsonb_build_object(
            'since', lower(release.bounds), 'until', upper(release.bounds), 'live_parts', (
                SELECT count(*) FROM ONLY dbanon.release o WHERE o.series_id = release.series_id AND o.withdrawn_at IS NULL)) END,
        'atoms', (SELECT jsonb_build_object('number', count(*), 'pois_loaded_at', release.pois_at) FROM ONLY dbanon.published_atom a
                  WHERE a.release_id = release.release_id HAVING count(*) > 0),
        'reach_s', extract(epoch FROM release.reach)::double precision,
        'srid', dataset.srid, 'grid_m', dataset.grid_m, 'grid_s', dataset.grid_s,
        'published_at', release.published_at, 'published_by', release.published_by,
        'withdrawn_at', release.withdrawn_at, 'withdrawn_by', release.withdrawn_by,
        'overlap', release.overlap, 'overlap_reason', release.overlap_reason, 'readers', release.readers,
        'program_version', run.program_version, 'paper', nullif(method.paper, ''));
END
$$;
COMMENT ON FUNCTION dbanon.release_card(text, bigint) IS
'A release on one page: method, parameters without the seed, promise, adversary, what the attack counted clause by clause,
what was left out in all and by hour and reason, rows, period, how many atoms and when the points of interest were loaded, how many seconds around that others are compared with it, who published and withdrew it and when, its readers, overlap with other
releases. It is for administrators: its counts may be small. Takes: name; release_id, as in dbanon.releases, NULL for the
live release of that name, or of one that grows its last part, else the latest withdrawn one. Returns: a JSON object. Raises: DA001. Example: SELECT key, value FROM
jsonb_each_text(jsonb_strip_nulls(dbanon.release_card(''cabs_june'')) - ''attack'' - ''left_out'').';
