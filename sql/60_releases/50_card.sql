-- A run and its release in one record: promise, attack, what is left open and left out, logins and times.
-- dbanon card, the pages of dbanon report and dbanon.release_card are made from it: add a new figure here.

CREATE OR REPLACE FUNCTION dbanon_internal.describe_shares_left_out(run_id bigint, figures jsonb) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- No count below k is given, and shares are in whole percent, so that no small count is the difference of two others.
    SELECT coalesce(jsonb_object_agg(t.key, jsonb_build_object(
            'share', dbanon_internal.describe_share((figures ->> t.value)::numeric, s.left_out, (r.params ->> 'k')::integer),
            'reasons', (SELECT coalesce(jsonb_object_agg(c.key,
                            dbanon_internal.describe_share((figures ->> t.value)::numeric, c.value::numeric, (r.params ->> 'k')::integer)), '{}')
                        FROM jsonb_each_text(r.suppressed -> t.key) c))), '{}')
    FROM ONLY dbanon.run r JOIN ONLY dbanon.method m ON m.name = r.method
    CROSS JOIN LATERAL jsonb_each_text(m.traits -> 'totals') t
    CROSS JOIN LATERAL (SELECT dbanon_internal.sum_counts(r.suppressed -> t.key) AS left_out) s
    WHERE r.run_id = describe_shares_left_out.run_id AND (t.key = 'subjects' OR r.suppressed ? t.key)
$$;
COMMENT ON FUNCTION dbanon_internal.describe_shares_left_out IS
'What a run leaves out by kind, in all and by reason, in words that point to no single person: whole percent, or that these are fewer than k.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_run(run_id bigint, release_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    release dbanon.release;
    run dbanon.run;
    method dbanon.method;
    dataset dbanon.dataset;
    verdict dbanon.verification;
BEGIN
    SELECT rel.* INTO release FROM ONLY dbanon.release rel WHERE rel.release_id = describe_run.release_id;
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = describe_run.run_id;
    SELECT met.* INTO STRICT method FROM ONLY dbanon.method met WHERE met.name = run.method;
    SELECT dat.* INTO STRICT dataset FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id;
    IF release.release_id IS NOT NULL THEN
        verdict := dbanon_internal.find_release_figures(release.release_id);
    ELSE
        verdict := dbanon_internal.find_verdict(run.run_id);
    END IF;
    RETURN jsonb_build_object(
        'release', release.name, 'release_id', release.release_id,
        'live', CASE WHEN release.release_id IS NOT NULL THEN release.withdrawn_at IS NULL END, 'dataset', dataset.name,
        'run_id', run.run_id, 'status', run.status,
        'method', run.method, 'algorithm', run.algorithm, 'parameters', run.params,
        'promise', dbanon_internal.find_promise(method, run.algorithm), 'k', run.params -> 'k', 'adversary', method.adversary, 'rows_are', method.row_meaning,
        'holds', coalesce(release.holds, (SELECT mea.holds FROM dbanon_internal.find_row_meaning(run.run_id) mea)),
        'attack', jsonb_build_object('name', method.attack, 'passed', verdict.passed, 'figures', verdict.figures, 'outdated', verdict.outdated,
            'changed', CASE WHEN release.release_id IS NULL AND NOT verdict.outdated THEN
                verdict.digest <> dbanon_internal.add_surface(dbanon_internal.compute_run_digest(run.run_id), verdict.surface) END,
            'clauses', (SELECT coalesce(jsonb_agg(
                            ele.value || coalesce(method.traits -> 'clauses' -> (ele.value ->> 'name'), '{}') ORDER BY ele.ordinality), '[]')
                        FROM jsonb_array_elements(verdict.clauses) WITH ORDINALITY ele),
            'left_open', coalesce(method.traits -> 'left_open', '{}'),
            'notices', (SELECT coalesce(jsonb_agg(war.text ORDER BY war.place), '[]')
                        FROM dbanon_internal.list_run_warnings(run.run_id, run.run_id, verdict.figures || coalesce(release.overlap, '{}'),
                            (run.params ->> 'k')::numeric) WITH ORDINALITY war (text, place)),
            'checked_at', verdict.checked_at, 'checked_by', verdict.checked_by, 'digest', encode(verdict.digest, 'hex')),
        'left_out', jsonb_build_object('meaning', method.left_out, 'reasons', coalesce(method.traits -> 'reasons', '{}'),
            'by_hour', coalesce(run.suppressed -> 'by_hour', '[]'),
            'in_all', (SELECT coalesce(jsonb_object_agg(pair.key, pair.value), '{}') FROM jsonb_each(run.suppressed) pair
                       WHERE jsonb_typeof(pair.value) = 'object'),
            'shares', dbanon_internal.describe_shares_left_out(run.run_id, verdict.figures),
            'joined', coalesce(release.left_out, dbanon_internal.join_hours(run.suppressed -> 'by_hour', (run.params ->> 'k')::integer))),
        'percent_left_out', dbanon_internal.compute_share_of_people(run.run_id),
        'rows', coalesce(release.rows, run.rows), 'box', @postgis@.ST_AsText(dbanon_internal.make_extent_shape(release.extent, dataset.srid), 5),
        'longer_side_m', jsonb_build_object('half_under', run.metrics -> 'longer_side_50_m', 'nine_tenths_under', run.metrics -> 'longer_side_90_m'),
        'period', (SELECT jsonb_build_object('since', lower(spa.span), 'until', upper(spa.span))
                   FROM (SELECT CASE WHEN release.release_id IS NULL THEN dbanon_internal.find_run_span(run.run_id)
                                     ELSE release.span END AS span) spa),
        'part', CASE WHEN release.series_id IS NOT NULL THEN jsonb_build_object(
            'since', lower(release.bounds), 'until', upper(release.bounds), 'live_parts', (
                SELECT count(*) FROM ONLY dbanon.release rel WHERE rel.series_id = release.series_id AND rel.withdrawn_at IS NULL)) END,
        'parts', (SELECT coalesce(jsonb_agg(jsonb_build_object('since', lower(rel.bounds), 'until', upper(rel.bounds), 'rows', rel.rows,
                                                               'run_id', rel.run_id,
                            'k', stored.params -> 'k', 'percent_left_out', rel.percent_left_out, 'withdrawn_at', rel.withdrawn_at)
                            ORDER BY lower(rel.bounds), rel.release_id), '[]')
                  FROM ONLY dbanon.release rel JOIN ONLY dbanon.run stored ON stored.run_id = rel.run_id WHERE rel.series_id = release.series_id),
        'atoms', (SELECT jsonb_build_object('number', count(*), 'pois_loaded_at', release.pois_at) FROM ONLY dbanon.published_atom pub
                  WHERE pub.release_id = release.release_id HAVING count(*) > 0),
        'reach_s', extract(epoch FROM release.reach)::double precision,
        'srid', dataset.srid, 'grid_m', dataset.grid_m, 'grid_s', dataset.grid_s,
        'published_at', release.published_at, 'published_by', release.published_by,
        'withdrawn_at', release.withdrawn_at, 'withdrawn_by', release.withdrawn_by,
        'policy', CASE WHEN release.release_id IS NULL THEN dbanon_internal.describe_policy(run.run_id, verdict.digest) ELSE release.policy END,
        'overlap', release.overlap, 'overlap_reason', release.overlap_reason, 'readers', release.readers,
        'evaluation', (SELECT jsonb_build_object('figures', eva.figures, 'queries', eva.queries, 'against', eva.against, 'notes', eva.notes,
                            'evaluated_at', eva.evaluated_at)
                       FROM ONLY dbanon.evaluation eva WHERE eva.run_id = run.run_id ORDER BY eva.evaluation_id DESC LIMIT 1),
        'pages', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                          'at', aud.at, 'login', aud.login, 'digest', aud.detail ->> 'sha256') ORDER BY aud.audit_id), '[]')
                  FROM ONLY dbanon.audit aud WHERE aud.action = 'page' AND aud.run_id = run.run_id),
        'program_version', run.program_version, 'versions', jsonb_build_object(
            'schema', (SELECT ver.version_num FROM ONLY dbanon.alembic_version ver),
            'PostgreSQL', current_setting('server_version'), 'PostGIS', @postgis@.postgis_lib_version()),
        'paper', nullif(method.paper, ''));
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_run IS 'The one record of a run, and of its release where that is given, from which cards and pages are made.';

CREATE OR REPLACE FUNCTION dbanon.release_card(name text, release_id bigint DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1 AS $$
DECLARE
    release dbanon.release;
BEGIN
    SELECT rel.* INTO release FROM ONLY dbanon.release rel WHERE rel.name = release_card.name AND rel.run_id IS NOT NULL
            AND (release_card.release_id IS NULL OR rel.release_id = release_card.release_id)
        ORDER BY rel.withdrawn_at DESC NULLS FIRST, upper(rel.bounds) DESC, rel.release_id DESC LIMIT 1;
    IF release.release_id IS NULL THEN
        RAISE EXCEPTION 'The release must exist, live or withdrawn. There was never one named %.',
                coalesce(dbanon_internal.quote_text(release_card.name), 'NULL') || coalesce(' with release_id ' || release_card.release_id, '')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.', HINT = 'List the releases: SELECT * FROM dbanon.releases.';
    END IF;
    RETURN dbanon_internal.describe_run(release.run_id, release.release_id);
END
$$;
COMMENT ON FUNCTION dbanon.release_card IS
'Describes a release on one page. The page has the method, the parameters without the seed, the promise and the adversary. It has the counts of the
attack, clause by clause in plain words, and the limits of each of the three tests. It has the shares left out in all and by hour and reason, the
rows, the period, the number of atoms, and the time at which the points of interest were loaded. It has the seconds around it within which others are
compared with it, the logins and times of its publication and withdrawal, and its readers. It has the overlap with other releases, the parts, the
private pages
that were made of it, and the versions. It is for administrators, because its counts may be small.
Arguments:
- name: name of the release.
- release_id: the key of the release in dbanon.releases. NULL means the live release of that name, or the last part of one that grows. Where none is
  live, it means the latest withdrawn one.
Returns: a JSON object.
Raises: DA001.
Example: SELECT key, value FROM jsonb_each_text(jsonb_strip_nulls(dbanon.release_card(''taxi_k5'')) - ARRAY[''attack'', ''left_out'', ''parts'',
''pages'', ''versions'', ''evaluation'']).';

CREATE OR REPLACE FUNCTION dbanon.run_card(run_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1 AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ONLY dbanon.run r WHERE r.run_id = run_card.run_id) THEN
        PERFORM dbanon_internal.refuse_no_run(run_card.run_id);
    END IF;
    RETURN dbanon_internal.describe_run(run_card.run_id, NULL);
END
$$;
COMMENT ON FUNCTION dbanon.run_card IS
'Describes a run on one page, whether it was published or not. It has the same facts as dbanon.release_card would have of its release, by the latest
verification,
and whether its rows or data were changed since.
Arguments:
- run_id: the number of the run.
Returns: a JSON object.
Raises: DA001.
Example: SELECT dbanon.run_card(7) -> ''promise''.';

CREATE OR REPLACE FUNCTION dbanon_internal.note_page(run_id bigint, release text, sha256 text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sha256 !~ '^[0-9a-f]{64}$' OR sha256 IS NULL THEN
        RAISE EXCEPTION 'The digest of a page must be 64 hexadecimal digits. Got others.'
            USING ERRCODE = 'DA011', DETAIL = 'It is kept forever.', HINT = 'Make it with sha256 of the whole file.';
    END IF;
    INSERT INTO dbanon.audit (action, dataset, run_id, release, detail)
        SELECT 'page', dat.name, run.run_id, (SELECT min(rel.name) FROM ONLY dbanon.release rel
                                              WHERE rel.run_id = run.run_id AND rel.name = note_page.release),
            jsonb_build_object('sha256', note_page.sha256)
        FROM ONLY dbanon.run run JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id WHERE run.run_id = note_page.run_id;
    IF NOT FOUND THEN PERFORM dbanon_internal.refuse_no_run(note_page.run_id); END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.note_page IS
'Writes into the audit that a private page was made of a run, with the digest of the page. Raises an error if there is no such run, or if that is no
digest.';
