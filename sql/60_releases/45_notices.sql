-- What a run says of itself to those who may publish it.

CREATE OR REPLACE FUNCTION dbanon_internal.fill_in(sentence text, figures jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    filled text := sentence;
    name text;
BEGIN
    FOR name IN SELECT m.found[1] FROM regexp_matches(sentence, '\{(\w+)\}', 'g') m (found) LOOP
        filled := replace(filled, format('{%s}', name), figures ->> name);
    END LOOP;
    RETURN filled;
END
$$;
COMMENT ON FUNCTION dbanon_internal.fill_in IS 'Puts figures into a sentence, each in place of its name in braces; NULL where one of them is not known.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_run_warnings(run_id bigint, called bigint, known jsonb, joined_below numeric) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dbanon.run;
    traits jsonb;
    figures jsonb;
    told jsonb;
    shares text;
    reason text;
    silent record;
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = list_run_warnings.run_id;
    SELECT met.traits INTO STRICT traits FROM ONLY dbanon.method met WHERE met.name = run.method;
    figures := coalesce(known, (SELECT ver.figures FROM ONLY dbanon.verification ver WHERE ver.run_id = list_run_warnings.run_id
                                ORDER BY ver.verification_id DESC LIMIT 1));
    SELECT jsonb_object_agg(pair.key, CASE WHEN num.figure > 0 AND num.figure < joined_below
                                           THEN to_jsonb(format('fewer than %s', joined_below)) ELSE pair.value END) INTO told
        FROM jsonb_each(figures) pair
        CROSS JOIN LATERAL (SELECT CASE jsonb_typeof(pair.value) WHEN 'number' THEN pair.value::numeric END AS figure) num;
    WITH kind AS (
        SELECT pair.key, (figures ->> pair.value)::numeric AS total, dbanon_internal.sum_counts(run.suppressed -> pair.key) AS left_out
        FROM jsonb_each_text(traits -> 'totals') pair
    ), most AS (
        SELECT kind.* FROM kind WHERE 2 * kind.left_out > kind.total AND kind.total > 0
    )
    SELECT string_agg(format('%s %% of the %s', dbanon_internal.compute_percent_left_out(most.total, most.left_out),
                             CASE most.key WHEN 'subjects' THEN 'people seen' ELSE replace(most.key, '_', '-') END), ', '
                      ORDER BY most.left_out / most.total DESC, most.key),
           (SELECT pair.key FROM most CROSS JOIN LATERAL jsonb_each_text(run.suppressed -> most.key) pair
            ORDER BY pair.value::numeric DESC, pair.key LIMIT 1)
        INTO shares, reason FROM most;
    IF shares IS NOT NULL THEN
        RETURN NEXT format('Run %s leaves out more than half: %s. The most frequent reason is %s', called, shares, reason)
            || coalesce(': ' || (traits -> 'reasons' ->> reason), '.');
        RETURN QUERY SELECT note.sentence
            FROM (SELECT dbanon_internal.fill_in(traits -> 'notices' ->> 'left_out', run.params || told) AS sentence) note
            WHERE note.sentence IS NOT NULL;
    END IF;
    RETURN QUERY SELECT say FROM dbanon_internal.describe_without(traits, figures, run.suppressed) say WHERE say IS NOT NULL;
    -- A first window without rows, where the data begin too late for it.
    SELECT lack.*, lower(dbanon_internal.find_run_span(run.run_id)) AS since INTO silent
        FROM ONLY dbanon.dataset dat
        CROSS JOIN LATERAL (
            SELECT min(tra.first_s) AS first_s FROM ONLY dbanon.trajectory tra WHERE tra.dataset_id = dat.dataset_id) first
        CROSS JOIN LATERAL dbanon_internal.find_lacking_history(traits, run.params, dat.grid_s, first.first_s) lack
        WHERE dat.dataset_id = run.dataset_id
            AND lower(dbanon_internal.find_run_span(run.run_id)) > to_timestamp(coalesce(run.params ->> 'start', run.params ->> 'since')::double precision);
    IF silent.start IS NOT NULL THEN
        RETURN NEXT format('Run %s publishes no person from %s to %s: positions count for %s s, and the data begin too late. Load earlier data, or '
            'run it with start = %s.', called, silent.begins, silent.since, run.params ->> 'max_gap_s', silent.start);
    END IF;
    RETURN QUERY SELECT note.sentence
        FROM (SELECT dbanon_internal.describe_sender_columns(run.dataset_id, tstzrange(
            least(to_timestamp(coalesce((run.params ->> 'since')::double precision, '-Infinity')), upper(dbanon_internal.find_run_span(run.run_id)) - interval '30 days'),
            to_timestamp((run.params ->> 'until')::double precision))) AS sentence) note
        WHERE traits -> 'joins' ? 'requests' AND note.sentence IS NOT NULL;
    IF (figures ->> 'names_together')::bigint > 0 THEN
        RETURN NEXT format('In run %s, names travel all the time with another one of their group: %s of the %s that move about. One person with two '
            'names is such a pair, and so are two people of a family. A group hides fewer people than it says where two names are one person.', called,
            told ->> 'names_together', told ->> 'names_compared')
            || CASE WHEN dbanon_internal.is_doubled(figures) THEN ' With so many, publishing it needs a reason.' ELSE '' END;
    END IF;
    -- What was counted and the method warns of, with the figure, and others in braces, in the method's own sentence.
    RETURN QUERY SELECT note.sentence
        FROM jsonb_each_text(traits -> 'notices') pair
        CROSS JOIN LATERAL (SELECT dbanon_internal.fill_in(format(pair.value, told ->> pair.key), told) AS sentence) note
        WHERE CASE jsonb_typeof(figures -> pair.key) WHEN 'number' THEN (figures ->> pair.key)::numeric > 0 END AND note.sentence IS NOT NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.list_run_warnings IS
'What there is to say of a verified run, under its number or another: that it leaves out more than half of anything, why, and what would help; that
nothing is published of what its method hides; that data
for its first window are missing; columns that say something of senders; that names travel together; and what was counted that its method warns of, by the figures known or of its latest verification, each below joined_below told as fewer than that.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_run_notices(run_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    WITH before AS MATERIALIZED (
        -- The last run that was asked for the very same. A publication is told what no publication was.
        SELECT max(earlier.run_id) AS run_id
        FROM ONLY dbanon.run run
        JOIN ONLY dbanon.run earlier ON earlier.dataset_id = run.dataset_id AND earlier.method = run.method AND earlier.algorithm = run.algorithm
            AND earlier.params = run.params
            AND earlier.run_id < run.run_id AND earlier.status = 'verified'
        WHERE run.run_id = list_run_notices.run_id
            AND (EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.run_id = earlier.run_id)
                OR NOT EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.run_id = run.run_id))
    )
    SELECT war.text FROM dbanon_internal.list_run_warnings(list_run_notices.run_id, list_run_notices.run_id, NULL, NULL) WITH ORDINALITY war (text, place)
    WHERE NOT EXISTS (SELECT FROM before CROSS JOIN LATERAL dbanon_internal.list_run_warnings(before.run_id, list_run_notices.run_id, NULL, NULL) told (text)
                      WHERE before.run_id IS NOT NULL AND told.text = war.text)
    ORDER BY war.place
$$;
COMMENT ON FUNCTION dbanon_internal.list_run_notices IS
'What a verified run says when it is done, and again when it is published: what there is to say of it, except what the run before it
that was asked for the same has said as well.';
