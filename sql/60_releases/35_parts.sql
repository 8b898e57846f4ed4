-- Parts of a release that grows, taken away or put together.

CREATE OR REPLACE FUNCTION dbanon.unpublish_part(name text, at timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '30s'
AS $$
DECLARE
    series dbanon.series;
    part dbanon.release;
    relation regclass;
BEGIN
    PERFORM dbanon_internal.demand_release_name(unpublish_part.name);
    PERFORM dbanon_internal.lock_releases();
    series := dbanon_internal.demand_series(unpublish_part.name);
    SELECT rel.* INTO part FROM dbanon.release rel
        WHERE rel.series_id = series.series_id AND rel.withdrawn_at IS NULL AND rel.bounds @> unpublish_part.at;
    IF part.release_id IS NULL THEN
        RAISE EXCEPTION 'The time must be one of which the release has a part. % has none at %.', unpublish_part.name, coalesce(unpublish_part.at::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.release.',
                  HINT = format('List the parts: SELECT bounds FROM dbanon.releases WHERE live AND name = %L ORDER BY bounds.', unpublish_part.name);
    END IF;
    SELECT tab.relation INTO STRICT relation FROM dbanon_internal.list_series_tables(series.series_id) tab WHERE tab.bounds @> part.bounds;
    UPDATE dbanon.release rel SET withdrawn_at = now(), withdrawn_by = session_user WHERE rel.release_id = part.release_id;
    -- Readers go on: who has begun a statement sees the rows to its end, nobody later. An empty table is dropped when it is free.
    EXECUTE format('DELETE FROM ONLY %s WHERE valid_from >= %L AND valid_from < %L', relation, lower(part.bounds), upper(part.bounds));
    PERFORM dbanon_internal.describe_release(part.release_id);
    PERFORM dbanon.clear_withdrawn();
    RETURN part.run_id;
END
$$;
COMMENT ON FUNCTION dbanon.unpublish_part IS
'Withdraws the part of a release that holds a time. It deletes the rows while others read, and drops the table as soon as no session reads the
release. The
other parts, the run and the entry in dbanon.release stay. Later parts are compared with it as with a release that is withdrawn.
Arguments:
- name: name of the release.
- at: a time within the part.
Returns: the number of its run.
Raises: DA001, DA002. DA013 where another publication or withdrawal does not end.
Example: SELECT dbanon.unpublish_part(''taxi_days'', ''2026-11-20 12:00Z'').';

CREATE OR REPLACE FUNCTION dbanon_internal.fold_tables(series_id bigint, before timestamptz) RETURNS TABLE (
    target regclass, relations regclass[], bounds tstzrange)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    relation regclass;
    made text;
BEGIN
    FOR relations, bounds IN
        -- Tables of a month that follow one another without a gap: a part that is late can still get a table of its own in a gap.
        SELECT array_agg(fold.relation ORDER BY lower(fold.bounds)), tstzrange(min(lower(fold.bounds)), max(upper(fold.bounds)))
        FROM (SELECT isl.*, count(*) FILTER (WHERE isl.begins) OVER (ORDER BY lower(isl.bounds)) AS island
              FROM (SELECT tab.*, mon.month,
                        lag(upper(tab.bounds)) OVER w IS DISTINCT FROM lower(tab.bounds) OR lag(mon.month) OVER w <> mon.month AS begins
                    FROM dbanon_internal.list_series_tables(fold_tables.series_id) tab
                    -- By its middle, a day of any time zone is of the month that it has there.
                    CROSS JOIN LATERAL (SELECT date_trunc('month', lower(tab.bounds) + (upper(tab.bounds) - lower(tab.bounds)) / 2) AS month) mon
                    WHERE EXISTS (SELECT FROM dbanon.release rel
                                  WHERE rel.series_id = fold_tables.series_id AND rel.withdrawn_at IS NULL AND rel.bounds && tab.bounds)
                    WINDOW w AS (ORDER BY lower(tab.bounds))) isl) fold
        GROUP BY fold.island
        HAVING count(*) > 1 AND max(upper(fold.bounds)) <= before AND min(fold.month) + interval '1 month' <= before
        ORDER BY min(lower(fold.bounds))
    LOOP
        made := format('dbanon.release_%s', nextval(pg_get_serial_sequence('dbanon.release', 'release_id')));
        EXECUTE format('CREATE TABLE %s (LIKE dbanon.series_%s)', made, series_id);
        EXECUTE format('REVOKE ALL ON TABLE %s FROM PUBLIC', made);
        FOREACH relation IN ARRAY relations LOOP
            EXECUTE format('INSERT INTO %s SELECT * FROM ONLY %s ORDER BY valid_from, cloak_id', made, relation);
        END LOOP;
        PERFORM dbanon_internal.finish_table(made, bounds);
        target := made;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.fold_tables IS
'Makes a table for each whole month of a release that grows, with the rows of all its parts; what it takes the place of, and the time of these.';

CREATE OR REPLACE FUNCTION dbanon_internal.hold_series(series_id bigint, patience text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
DECLARE
    release_name CONSTANT text := (SELECT ser.name FROM dbanon.series ser WHERE ser.series_id = hold_series.series_id);
    readers text;
BEGIN
    PERFORM set_config('lock_timeout', patience, true);
    EXECUTE format('LOCK TABLE dbanon.series_%s IN ACCESS EXCLUSIVE MODE', series_id);
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    SELECT string_agg(rea.reader, ', ') INTO readers FROM dbanon_internal.find_readers(release_name) rea;
    RAISE EXCEPTION 'Release % is in use by % and cannot be folded yet.', release_name, coalesce(readers, 'sessions that have ended since')
        USING ERRCODE = 'DA013', DETAIL = 'Its tables are as they were.', HINT = 'Try again when their transactions have ended.';
END
$$;
COMMENT ON FUNCTION dbanon_internal.hold_series IS
'Keeps readers from a release that grows until the transaction ends. Raises an error that names those who are there longer than the time given.';

CREATE OR REPLACE FUNCTION dbanon.fold_release(name text, before timestamptz) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    series dbanon.series;
    made jsonb;
    month record;
    relation regclass;
    folded integer := 0;
BEGIN
    PERFORM dbanon_internal.demand_release_name(fold_release.name);
    IF before IS NULL OR NOT isfinite(before) THEN
        RAISE EXCEPTION 'The time before which a release is folded must be a finite one. Got %.', coalesce(before::text, 'NULL')
            USING ERRCODE = 'DA011', DETAIL = 'Months that end later stay as they are.', HINT = 'Give the first of this month: date_trunc(''month'', now()).';
    END IF;
    PERFORM dbanon_internal.lock_releases();
    series := dbanon_internal.demand_series(fold_release.name);
    -- Copying takes long: readers who are there now are asked for first, and let in again meanwhile.
    BEGIN
        PERFORM dbanon_internal.hold_series(series.series_id, '100ms');
        RAISE EXCEPTION USING ERRCODE = 'transaction_rollback';
    EXCEPTION WHEN transaction_rollback THEN
        NULL;
    END;
    made := (SELECT jsonb_agg(to_jsonb(tab)) FROM dbanon_internal.fold_tables(series.series_id, before) tab);
    IF made IS NOT NULL THEN
        PERFORM dbanon_internal.hold_series(series.series_id, '5s');
        FOR month IN SELECT ele.* FROM jsonb_to_recordset(made) ele (target text, relations text[], bounds tstzrange) LOOP
            FOREACH relation IN ARRAY month.relations LOOP
                EXECUTE format('DROP TABLE %s', relation);
                folded := folded + 1;
            END LOOP;
            PERFORM dbanon_internal.attach_table(series.series_id, month.target, month.bounds);
        END LOOP;
    END IF;
    RETURN folded;
END
$$;
COMMENT ON FUNCTION dbanon.fold_release IS
'Puts the parts of each whole month of a release that grows into one table, with the same rows and keys. A query without bounds of time locks each
table and its indexes, and a server has few locks. A part belongs to the month (of UTC) that its middle is in. The copy is made while others read.
Then the release is locked for a moment. A session with an older REPEATABLE READ transaction does not see the folded rows if it reads the release for
the first time afterwards.
Arguments:
- name: name of the release.
- before: months that end later stay as they are.
Returns: how many tables were put into others.
Raises: DA001, DA002, DA011. DA013 if the release is being read, and then nothing has changed.
Example: SELECT dbanon.fold_release(''taxi_days'', date_trunc(''month'', now())).';
