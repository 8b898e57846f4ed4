-- What a release says of itself to its readers: comments of the view and its columns, for readers who know no paper.

CREATE OR REPLACE FUNCTION dbanon_internal.compute_percent_left_out(total numeric, left_out numeric) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- As round_percent of the program: ties go to even, so that what is left out and what is published make 100.
    SELECT least(greatest(round((100 * left_out / total)::double precision), sign(left_out)), 100 - sign(total - left_out))::integer
$$;
COMMENT ON FUNCTION dbanon_internal.compute_percent_left_out IS 'The share of what was left out of a total, to the nearest whole percent; of a part, 1 to 99.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_share(total numeric, left_out numeric, k integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- A count below k might point to single people, and so would a share that it can be reckoned from.
    SELECT CASE WHEN left_out < k THEN format('fewer than %s, or none', k)
                WHEN total > 0 THEN format('%s %%', dbanon_internal.compute_percent_left_out(total, left_out))
           END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_share IS
'Says how much was left out without a number that might point to single people: as the nearest whole percent, or that it
was fewer than k, or none.';

CREATE OR REPLACE FUNCTION dbanon_internal.sum_counts(counts jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(c.value::numeric), 0) FROM jsonb_each_text(counts) c
$$;
COMMENT ON FUNCTION dbanon_internal.sum_counts IS 'Adds up counts by reason.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_share_of_people(run_id bigint) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN x.left_out >= (r.params ->> 'k')::numeric AND x.total > 0 THEN dbanon_internal.compute_percent_left_out(x.total, x.left_out) END
    FROM ONLY dbanon.run r JOIN ONLY dbanon.method m ON m.name = r.method
    CROSS JOIN LATERAL (
        SELECT (v.figures ->> (m.traits -> 'totals' ->> 'subjects'))::numeric AS total, dbanon_internal.sum_counts(r.suppressed -> 'subjects') AS left_out
        FROM ONLY dbanon.verification v WHERE v.run_id = r.run_id AND v.attack = m.attack ORDER BY v.verification_id DESC LIMIT 1) x
    WHERE r.run_id = compute_share_of_people.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.compute_share_of_people IS
'The share of all people seen that a verified run leaves out, in whole percent; NULL where these are fewer than k, or not counted.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_release_figures(release_id bigint) RETURNS dbanon.verification
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT v.* FROM ONLY dbanon.release l
    JOIN ONLY dbanon.run r ON r.run_id = l.run_id
    JOIN ONLY dbanon.method m ON m.name = r.method
    -- A digest of an earlier version is of rows that no later one can be compared with: then every later verification counts.
    JOIN ONLY dbanon.verification v ON v.run_id = l.run_id AND v.attack = m.attack AND (v.digest = l.digest OR NOT v.outdated AND EXISTS (
        SELECT FROM ONLY dbanon.verification o WHERE o.run_id = l.run_id AND o.digest = l.digest AND o.outdated))
    WHERE l.release_id = find_release_figures.release_id
    ORDER BY v.verification_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION dbanon_internal.find_release_figures IS
'The latest verification of exactly what a release holds; of its run, where the release is of an earlier version.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_range(low text, high text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN low = high THEN low ELSE low || ' to ' || high END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_range IS 'Two ends of a range, or the one value where they are the same.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_promise(method dbanon.method, algorithm text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT nullif(a.value ->> 'guarantee', '') FROM jsonb_array_elements((method).algorithms) a
                     WHERE a.value ->> 'name' = algorithm), (method).guarantee)
$$;
COMMENT ON FUNCTION dbanon_internal.find_promise IS 'The promise of an algorithm: its own, or that of its method.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_without(traits jsonb, figures jsonb, suppressed jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Of what is published: that something was left out shows in no text for readers.
    SELECT nullif(traits -> 'requires' ->> 'without', '')
    FROM (SELECT traits -> 'requires' ->> 'input' AS input) ned
    WHERE (figures ->> (traits -> 'totals' ->> ned.input))::numeric <= dbanon_internal.sum_counts(suppressed -> ned.input)
$$;
COMMENT ON FUNCTION dbanon_internal.describe_without IS
'Says what is not promised where nothing is published of what a method hides, by the figures of its attack; otherwise NULL.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_promise(release_id bigint) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1
SET standard_conforming_strings = on AS $$
DECLARE
    run dbanon.run;
    method dbanon.method;
    dataset dbanon.dataset;
    parts bigint[];
    k text;
    left_out text;
    without text;
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.release rel JOIN ONLY dbanon.run stored ON stored.run_id = rel.run_id
        WHERE rel.release_id = describe_promise.release_id;
    SELECT met.* INTO STRICT method FROM ONLY dbanon.method met WHERE met.name = run.method;
    SELECT dat.* INTO STRICT dataset FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = run.dataset_id;
    method.guarantee := dbanon_internal.find_promise(method, run.algorithm);
    parts := ARRAY(SELECT rel.release_id FROM ONLY dbanon.release this JOIN ONLY dbanon.release rel ON rel.series_id = this.series_id
                   WHERE this.release_id = describe_promise.release_id AND rel.withdrawn_at IS NULL);
    WITH part AS MATERIALIZED (
        SELECT stored.suppressed, (stored.params ->> 'k')::integer AS k, (dbanon_internal.find_release_figures(rel.release_id)).figures AS figures
        FROM ONLY dbanon.release rel JOIN ONLY dbanon.run stored ON stored.run_id = rel.run_id
        WHERE rel.release_id = ANY (parts) OR (parts = '{}' AND rel.release_id = describe_promise.release_id)
    ), share AS (
        -- What was left out, kind by kind, of the figure of the attack that counts them all. Shares are compared, not what is counted in them.
        SELECT pair.key, dbanon_internal.describe_share(tot.total, tot.left_out, part.k) AS text,
            CASE WHEN tot.left_out < part.k THEN -1
                 WHEN tot.total > 0 THEN dbanon_internal.compute_percent_left_out(tot.total, tot.left_out) END AS percent
        FROM part CROSS JOIN LATERAL jsonb_each_text(method.traits -> 'totals') pair
        CROSS JOIN LATERAL (SELECT (part.figures ->> pair.value)::numeric AS total,
                                dbanon_internal.sum_counts(part.suppressed -> pair.key) AS left_out) tot
        WHERE pair.key = 'subjects' OR part.suppressed ? pair.key
    )
    SELECT (SELECT dbanon_internal.describe_range(min(part.k)::text, max(part.k)::text) FROM part),
        (SELECT CASE WHEN count(say) < count(*) THEN format(' In %s of %s: ', dbanon_internal.format_quantity(count(say), 'part', 'parts'), count(*)) ELSE ' ' END || min(say)
         FROM part CROSS JOIN LATERAL dbanon_internal.describe_without(method.traits, part.figures, part.suppressed) say),
        method.left_out || coalesce(string_agg(' Left out of ' || CASE ran.key WHEN 'subjects' THEN 'all that was seen' ELSE 'all ' || ran.key END
            || ': ' || dbanon_internal.describe_range(ran.low, ran.high) || CASE WHEN ran.low <> ran.high THEN ' by part' ELSE '' END || '.', ''
            ORDER BY ran.key <> 'subjects', ran.key), '')
        INTO k, without, left_out
        FROM (SELECT share.key, (array_agg(share.text ORDER BY share.percent))[1] AS low,
                  (array_agg(share.text ORDER BY share.percent DESC))[1] AS high
              FROM share WHERE share.text IS NOT NULL GROUP BY share.key) ran;
    RETURN concat_ws(E'\n',
        'Rows: ' || method.row_meaning,
        'Promise: ' || method.guarantee || coalesce(' Here k is ' || k || CASE WHEN k LIKE '% to %' THEN ' by part' ELSE '' END || '.', '') || coalesce(without, ''),
        'Against: ' || method.adversary,
        format('Places: in metres of SRID %s, on a grid of %s m or a multiple. Times: with time zone, shown in that of your session. They are on a '
            'grid of %s s from 1970 UTC or a multiple.', dataset.srid, dataset.grid_m, dataset.grid_s),
        CASE WHEN parts <> '{}' THEN
            format('Parts: %s, each computed for itself and listed in published.parts. The promise holds in each. Bounds on valid_from keep a '
                'query to the parts that it needs.', cardinality(parts)) END,
        'Left out: ' || left_out,
        'Counting: `subjects` is how many people a row stands for. Add it up over the rows of one period to count people. crowd is how many people a '
        'row hides. Never add it up, and never count rows for people.',
        format('Made with %s (%s)%s.', run.method, run.algorithm, coalesce(' by dbanon ' || run.program_version, ''))
            || coalesce(' Method: ' || nullif(method.paper, '') || '.', ''));
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_promise IS
'What a release says to its readers: what a row is, the promise with its k, against whom, units, what was left out,
what to add up; holds no seed, no number of a run, no name of a dataset and no count below k; of one that grows, k and shares are from the least
to the greatest of its parts.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_release(release_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    about record;
    col record;
BEGIN
    -- The live part that says the latest speaks for all; where all were withdrawn, one of these.
    release_id := coalesce((
        SELECT part.release_id FROM ONLY dbanon.release rel JOIN ONLY dbanon.release part ON part.series_id = rel.series_id
        WHERE rel.release_id = describe_release.release_id ORDER BY part.withdrawn_at IS NOT NULL, upper(part.bounds) DESC, part.release_id DESC LIMIT 1),
        release_id);
    SELECT rel.name, run.method, dat.srid, dat.grid_m, dat.grid_s,
            CASE WHEN EXISTS (SELECT FROM ONLY dbanon.published_atom pub WHERE pub.release_id = rel.release_id)
                 THEN coalesce(' Points of interest are those loaded until ' || to_char(rel.pois_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC."'),
                               ' When its points of interest were loaded is not known.')
                 ELSE '' END AS pois
        INTO STRICT about
        FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
        WHERE rel.release_id = describe_release.release_id;
    EXECUTE format('COMMENT ON VIEW published.%I IS %L', about.name, dbanon_internal.describe_promise(release_id));
    FOR col IN
        SELECT core.name, core.comment FROM (VALUES
            ('record_id', 'The record of this row: rows with the same number belong together. Numbered at random.'),
            ('seq', 'Place of the row within its record, from 1.'),
            ('region', format('Where: somewhere in this area. Coordinates in metres of SRID %s, on a grid of %s m or a multiple.',
                              about.srid, about.grid_m)),
            ('crowd', 'How many different people this row hides among one another. With 1 that person is not hidden. Never add it up.'),
            ('subjects', 'How many people this row stands for. Add it up over the rows of one period to count people.'),
            ('cloak_id', 'Key of the row. Numbered at random.'),
            ('valid_from', format('When it begins, which is part of it. Times are on a grid of %s s from 1970 UTC or a multiple, shown in the time '
                'zone of your session.', about.grid_s)),
            ('valid_to', 'When it ends, which is not part of it. With its start as a range: tstzrange(valid_from, valid_to).'),
            ('period', 'From valid_from to valid_to. Later releases lack it.')) core (name, comment)
        WHERE core.name <> 'period' OR EXISTS (SELECT FROM pg_attribute att WHERE att.attname = 'period'
                                                   AND att.attrelid = to_regclass(format('published.%I', about.name)))
        UNION ALL
        SELECT family.name, family.comment || about.pois FROM dbanon_internal.list_release_columns(about.method) family
    LOOP
        EXECUTE format('COMMENT ON COLUMN published.%I.%I IS %L', about.name, col.name, col.comment);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_release IS 'Writes the comments of a live release''s view and of its columns; given any part of one that grows.';
