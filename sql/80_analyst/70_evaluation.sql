-- A run that is asked as if it were a release: what it says of itself, a temporary table of its rows, and many questions at once.

CREATE OR REPLACE FUNCTION dbanon_internal.describe_as_release(run_id bigint) RETURNS published.releases
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'run ' || run.run_id, run.method, CASE jsonb_typeof(run.params -> 'k') WHEN 'number' THEN (run.params -> 'k')::integer END,
        dbanon_internal.find_promise(met, run.algorithm),
        lower(spa.span), upper(spa.span), dat.srid,
        coalesce(run.rows, (SELECT sum(cardinality(rec.regions)) FROM ONLY dbanon.record rec WHERE rec.run_id = run.run_id)),
        say.holds, say.step_s, say.window_s, say.day_zone, dbanon_internal.find_run_extent(run.run_id), 1,
        ARRAY[lower(spa.span)], ARRAY[upper(spa.span)],
        -- Of all stored periods: one that no row has makes answers slower, and no other.
        (SELECT max(extract(epoch FROM upper(per.period) - lower(per.period)))::double precision FROM ONLY dbanon.period per
         WHERE per.run_id = run.run_id),
        dbanon_internal.compute_guest_presence(run.run_id), dbanon_internal.count_people(run.run_id),
        dbanon_internal.find_interval_factor(run.run_id)
    FROM ONLY dbanon.run run
    JOIN ONLY dbanon.method met ON met.name = run.method
    JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
    CROSS JOIN LATERAL dbanon_internal.find_row_meaning(run.run_id) say
    CROSS JOIN LATERAL (SELECT dbanon_internal.find_run_span(run.run_id) AS span) spa
    WHERE run.run_id = describe_as_release.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.describe_as_release IS 'What published.releases would say of a run if it were published.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_asking(run_id bigint) RETURNS regclass
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CREATE TEMPORARY TABLE asked_rows (
        record_id bigint, seq integer, region @postgis@.geometry, crowd integer, subjects integer,
        valid_from timestamptz, valid_to timestamptz) ON COMMIT DROP;
    CREATE TEMPORARY TABLE asked_surface ON COMMIT DROP AS
        SELECT ver.surface FROM ONLY dbanon.verification ver
        WHERE ver.verification_id = dbanon_internal.find_last_verification(begin_asking.run_id);
    RETURN 'pg_temp.asked_rows'::regclass;
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_asking IS 'Makes a temporary table for rows of a run in the form of a release, and one with its surface, which go with the transaction.';

CREATE OR REPLACE FUNCTION dbanon_internal.copy_run_rows(run_id bigint, times tstzmultirange, records bigint[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET work_mem = '128MB'
SET jit = off
-- As when a release is copied: the planner takes a run for one row, and would join periods with regions first.
SET enable_nestloop = off
SET join_collapse_limit = 1
AS $$
DECLARE
    many CONSTANT boolean := (SELECT met.region_type = 'MultiPolygon' FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method
                              WHERE run.run_id = copy_run_rows.run_id);
    copied bigint;
BEGIN
    INSERT INTO pg_temp.asked_rows
        SELECT clo.record_id, clo.seq, CASE WHEN many THEN @postgis@.ST_Multi(clo.region) ELSE clo.region END, clo.crowd, clo.subjects,
            lower(clo.period), upper(clo.period)
        FROM dbanon.cloak clo WHERE clo.run_id = copy_run_rows.run_id AND clo.period && times AND (records IS NULL OR clo.record_id = ANY (records));
    GET DIAGNOSTICS copied = ROW_COUNT;
    RETURN copied;
END
$$;
COMMENT ON FUNCTION dbanon_internal.copy_run_rows IS
'Copies the rows of a run that meet some times, or those of some of its records, into the temporary table, with the numbers of its records.';

CREATE OR REPLACE FUNCTION dbanon_internal.finish_asked() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET maintenance_work_mem = '256MB'
AS $$
BEGIN
    CREATE INDEX ON pg_temp.asked_rows (record_id, seq);
    CREATE INDEX ON pg_temp.asked_rows (valid_from, valid_to);
    -- One for both: a question is of a place and a time, and either alone meets ten times as many rows.
    CREATE INDEX ON pg_temp.asked_rows USING gist (region, tstzrange(valid_from, valid_to));
    ANALYZE pg_temp.asked_rows;
END
$$;
COMMENT ON FUNCTION dbanon_internal.finish_asked IS 'Makes the indexes of the temporary table.';

CREATE OR REPLACE FUNCTION dbanon_internal.ask_rows(
    about published.releases, relation regclass, x double precision[], y double precision[], side_m double precision[],
    since_s double precision[], until_s double precision[])
RETURNS TABLE (at_least double precision, expected double precision, at_most double precision, deviation double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning  -- questions over several windows are meant
AS $$
BEGIN
    FOR i IN 1 .. cardinality(x) LOOP
        SELECT c.at_least, c.expected, c.at_most, c.deviation INTO ask_rows.at_least, ask_rows.expected, ask_rows.at_most, ask_rows.deviation
            FROM published_inner.count_inside_of(
                about, relation, @postgis@.ST_MakeEnvelope(x[i], y[i], x[i] + side_m[i], y[i] + side_m[i], about.srid),
                CASE WHEN since_s[i] = until_s[i] THEN to_timestamp(since_s[i]) END,
                CASE WHEN since_s[i] < until_s[i] THEN tstzrange(to_timestamp(since_s[i]), to_timestamp(until_s[i])) END, false, NULL) c;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.ask_rows IS
'Asks published_inner.count_inside_of about squares, each by its lower left corner and side, and about the moment or the span of each; answers in their order.';
