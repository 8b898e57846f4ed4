-- What a run says of itself to those who may publish it.

CREATE OR REPLACE FUNCTION dbanon_internal.fill_in(sentence text, figures jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
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
COMMENT ON FUNCTION dbanon_internal.fill_in(text, jsonb) IS
'Puts figures into a sentence, each in place of its name in braces; NULL where one of them is not known.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_warnings(run_id bigint, called bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run dbanon.run;
    traits jsonb;
    figures jsonb;
    shares text;
    reason text;
    silent record;
BEGIN
    SELECT r.* INTO STRICT run FROM ONLY dbanon.run r WHERE r.run_id = run_warnings.run_id;
    SELECT m.traits INTO STRICT traits FROM ONLY dbanon.method m WHERE m.name = run.method;
    SELECT v.figures INTO figures FROM ONLY dbanon.verification v WHERE v.run_id = run_warnings.run_id ORDER BY v.verification_id DESC LIMIT 1;
    WITH kind AS (
        SELECT t.key, (figures ->> t.value)::numeric AS total, dbanon_internal.sum_of_counts(run.suppressed -> t.key) AS left_out
        FROM jsonb_each_text(traits -> 'totals') t
    ), most AS (
        SELECT k.* FROM kind k WHERE 2 * k.left_out > k.total AND k.total > 0
    )
    SELECT string_agg(format('%s %% of the %s', dbanon_internal.percent_left_out(m.total, m.left_out),
                             CASE m.key WHEN 'subjects' THEN 'people seen' ELSE replace(m.key, '_', '-') END), ', '
                      ORDER BY m.left_out / m.total DESC, m.key),
           (SELECT c.key FROM most n CROSS JOIN LATERAL jsonb_each_text(run.suppressed -> n.key) c ORDER BY c.value::numeric DESC, c.key LIMIT 1)
        INTO shares, reason FROM most m;
    IF shares IS NOT NULL THEN
        RETURN NEXT format('Run %s leaves out more than half: %s. The most frequent reason is %s', called, shares, reason)
            || coalesce(': ' || (traits -> 'reasons' ->> reason), '.');
        RETURN QUERY SELECT f.sentence
            FROM (SELECT dbanon_internal.fill_in(traits -> 'notices' ->> 'left_out', run.params || figures) AS sentence) f
            WHERE f.sentence IS NOT NULL;
    END IF;
    -- A first window without rows, where the data begin too late for it.
    SELECT h.*, lower(dbanon_internal.run_span(run.run_id)) AS since INTO silent
        FROM ONLY dbanon.dataset d
        CROSS JOIN LATERAL (
            SELECT min(t.first_s) AS first_s FROM ONLY dbanon.trajectory t WHERE t.dataset_id = d.dataset_id) f
        CROSS JOIN LATERAL dbanon_internal.lacking_history(traits, run.params, d.grid_s, f.first_s) h
        WHERE d.dataset_id = run.dataset_id
            AND lower(dbanon_internal.run_span(run.run_id)) > to_timestamp(coalesce(run.params ->> 'start', run.params ->> 'since')::double precision);
    IF silent.start IS NOT NULL THEN
        RETURN NEXT format('Run %s publishes no person from %s to %s: positions count for %s s, and the data begin too late. Load earlier data, or '
            'run it with start = %s.', called, silent.begins, silent.since, run.params ->> 'max_gap_s', silent.start);
    END IF;
    -- What the attack counted and the method warns of, with the figure in the method's own sentence.
    RETURN QUERY SELECT format(n.value, (figures ->> n.key)::numeric)
        FROM jsonb_each_text(traits -> 'notices') n
        WHERE jsonb_typeof(figures -> n.key) = 'number' AND (figures ->> n.key)::numeric > 0;
END
$$;
COMMENT ON FUNCTION dbanon_internal.run_warnings(bigint, bigint) IS
'What there is to say of a verified run, under its number or another: that it leaves out more than half of anything, why, and what would help; that
data for its first window are missing; and what its attack counted that its method warns of.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_notices(run_id bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    WITH before AS MATERIALIZED (
        -- The last run that was asked for the very same. A publication is told what no publication was.
        SELECT max(o.run_id) AS run_id
        FROM ONLY dbanon.run r
        JOIN ONLY dbanon.run o ON o.dataset_id = r.dataset_id AND o.method = r.method AND o.algorithm = r.algorithm AND o.params = r.params
            AND o.run_id < r.run_id AND o.status = 'verified'
        WHERE r.run_id = run_notices.run_id
            AND (EXISTS (SELECT FROM ONLY dbanon.release l WHERE l.run_id = o.run_id)
                OR NOT EXISTS (SELECT FROM ONLY dbanon.release l WHERE l.run_id = r.run_id))
    )
    SELECT w.said FROM dbanon_internal.run_warnings(run_notices.run_id, run_notices.run_id) WITH ORDINALITY w (said, place)
    WHERE NOT EXISTS (SELECT FROM before b CROSS JOIN LATERAL dbanon_internal.run_warnings(b.run_id, run_notices.run_id) o (said)
                      WHERE b.run_id IS NOT NULL AND o.said = w.said)
    ORDER BY w.place
$$;
COMMENT ON FUNCTION dbanon_internal.run_notices(bigint) IS
'What a verified run says when it is done, and again when it is published: what there is to say of it, except what the run before it
that was asked for the same has said as well.';
