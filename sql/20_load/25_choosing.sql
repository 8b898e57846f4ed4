-- Which rows of a source a load takes: a condition and a span of time in the source, and what is left out although nothing is wrong with it.
--
-- A row that is left out for a reason of this file is counted, and no copy of it is kept: the source has it still, or it is of somebody
-- who was forgotten. Such rows are in pg_temp.dbanon_rejected without their content.

CREATE OR REPLACE FUNCTION dbanon_internal.list_counted_reasons() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY['known', 'late', 'forgotten', 'forgotten-time', 'no-time', 'outside-period']
$$;
COMMENT ON FUNCTION dbanon_internal.list_counted_reasons IS 'The reasons for which rows are left out and counted, but not put into quarantine.';

-- ---- what may be asked

CREATE OR REPLACE FUNCTION dbanon_internal.demand_window(asked dbanon_internal.loading) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.since >= asked.until THEN
        RAISE EXCEPTION 'The time ''since'' must lie before the time ''until''. Got % and %.', asked.since, asked.until
            USING ERRCODE = 'DA011', DETAIL = 'The span includes ''since'', and not ''until''.', HINT = 'Exchange since and until, or leave one out.';
    ELSIF asked.mode = 'new' AND asked.subject = '-' THEN
        RAISE EXCEPTION 'New rows are recognised by person and time. Got ''-'' for the column of people.'
            USING ERRCODE = 'DA011', DETAIL = 'It makes every row a separate person, also one that was loaded before.',
                  HINT = 'Name the column of people, or load with mode => ''append'' and since => ....';
    ELSIF asked.time_unit NOT IN ('s', 'ms', 'us', 'ns', 'days') OR num_nonnulls(asked.time_unit, asked.time_format) = 2 THEN
        RAISE EXCEPTION 'The unit of times must be s, ms, us, ns or days, without a format beside it. Got %.', dbanon_internal.quote_text(asked.time_unit)
                || CASE WHEN asked.time_format IS NULL THEN '' ELSE ' and a format' END
            USING ERRCODE = 'DA011', DETAIL = 'Days are those since 1899-12-30, the others since 1970.',
                  HINT = 'Give one of time_unit => ... and time_format => ....';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_window IS
'Refuses a span or a unit of time that is none, and to look for new rows that cannot be told from known ones.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_filter(qualified text, filter text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    tried refcursor;
    plan jsonb;
BEGIN
    IF filter IS NULL THEN RETURN; END IF;
    BEGIN
        -- A cursor is of one statement, so that a filter cannot bring another; it is planned, and reads no row.
        SET LOCAL search_path = pg_catalog, @postgis@, pg_temp;
        -- Without parentheses around it: a filter must not end those that the next statements put around it.
        OPEN tried FOR EXECUTE format(E'SELECT %s\n FROM %s LIMIT 0', filter, qualified);
        CLOSE tried;
        OPEN tried FOR EXECUTE format(E'SELECT FROM %s WHERE (%s\n) LIMIT 0', qualified, filter);
        CLOSE tried;
        -- The planner puts a subquery into the query around it, unless a volatile function is among what that selects.
        EXECUTE format(E'EXPLAIN (FORMAT JSON) SELECT FROM (SELECT (%s\n) AS kept FROM %s) dbanon_filtered WHERE kept', filter, qualified) INTO plan;
        SET LOCAL search_path = pg_catalog, pg_temp;
        -- As dbanon_internal.ask_source binds its names.
        EXECUTE format(E'CREATE FUNCTION pg_temp.dbanon_ask() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT FROM %s WHERE (%s\n); END', qualified, filter);
        DROP FUNCTION pg_temp.dbanon_ask();
    EXCEPTION WHEN others THEN
        IF left(SQLSTATE, 2) NOT IN ('0A', '21', '22', '26', '38', '39', '42', 'P0', 'XX') THEN
            RAISE;
        END IF;
        RAISE EXCEPTION 'The filter must be a condition on a row of %. The server refused it with SQLSTATE %.', qualified, SQLSTATE
            USING ERRCODE = 'DA011', DETAIL = 'It stands after WHERE, and sees columns of the source.',
                  HINT = format('Try it in psql: SELECT * FROM %s WHERE (...) LIMIT 1. There, too, name the schema of each function that is not '
                                'part of the server.', qualified);
    END;
    IF jsonb_path_exists(plan, '$.** ? (@."Node Type" == "Subquery Scan" && @.Alias == "dbanon_filtered")') THEN
        RAISE EXCEPTION 'The filter must choose the same rows each time. Got one with a volatile function.'
            USING ERRCODE = 'DA011', DETAIL = 'Examples are random(), and functions that were made without STABLE or IMMUTABLE.',
                  HINT = 'Leave the function out, or declare it STABLE if it is stable.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_filter IS
'Refuses a filter that is no condition on rows of a source, or not the same each time; with the rights of the caller, and without its text.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_newest_time(kind text, dataset_id bigint, set_name text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- A row that is later than its own load has a wrong clock. Loads of trajectories keep their newest time, since a path may hold some such rows,
    -- and loads that did not are looked at.
    SELECT CASE kind
        WHEN 'trajectories' THEN coalesce(
            (SELECT load.newest FROM dbanon.load load
             WHERE load.dataset_id = find_newest_time.dataset_id AND load.newest IS NOT NULL
                AND EXISTS (SELECT FROM dbanon.trajectory tra WHERE tra.load_id = load.load_id) ORDER BY load.newest DESC LIMIT 1),
            (SELECT to_timestamp(max(CASE WHEN tra.last_s <= clock.now_s THEN tra.last_s
                 ELSE (SELECT max(@postgis@.ST_M(point.geom)) FROM @postgis@.ST_DumpPoints(tra.path) point
                       WHERE @postgis@.ST_M(point.geom) <= clock.now_s) END))
             FROM dbanon.trajectory tra LEFT JOIN dbanon.load load ON load.load_id = tra.load_id
             CROSS JOIN LATERAL (SELECT extract(epoch FROM coalesce(load.loaded_at, now()))::float8 AS now_s) clock
             WHERE tra.dataset_id = find_newest_time.dataset_id))
        WHEN 'requests' THEN (
            SELECT req.sent_at FROM dbanon.request req LEFT JOIN dbanon.load load ON load.load_id = req.load_id
            WHERE req.dataset_id = find_newest_time.dataset_id AND req.sent_at <= coalesce(load.loaded_at, now()) ORDER BY req.sent_at DESC LIMIT 1)
        ELSE (SELECT max(qid.at) FROM dbanon.quasi_identifier qid LEFT JOIN dbanon.load load ON load.load_id = qid.load_id
              WHERE qid.dataset_id = find_newest_time.dataset_id AND qid.set_name = find_newest_time.set_name AND qid.at <= coalesce(load.loaded_at, now())) END
$$;
COMMENT ON FUNCTION dbanon_internal.find_newest_time IS 'The last time of what a dataset has of a kind, as an honest clock said it.';

-- ---- conditions in the source

CREATE OR REPLACE FUNCTION dbanon_internal.build_time_bound(
    types jsonb, units_per_s double precision, asked dbanon_internal.loading, moment timestamptz, upper boolean) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    iso CONSTANT text := 'YYYY-MM-DD HH24:MI:SS.US';
    time_column CONSTANT text := asked.time_column;
    kind CONSTANT text := types ->> time_column;
    comparison CONSTANT text := CASE WHEN upper THEN '<' ELSE '>=' END;
    -- Local times are judged again as instants; here an hour that comes twice must not lose rows.
    slack CONSTANT interval := CASE WHEN upper THEN interval '1 hour' ELSE interval '-1 hour' END;
    wide CONSTANT timestamp := (moment AT TIME ZONE asked.tz) + slack;
    number numeric;
BEGIN
    IF moment IS NULL OR moment < '0001-01-03' OR moment > '5138-01-01' THEN
        RETURN NULL;
    ELSIF dbanon_internal.is_text(kind) OR asked.time_format IS NOT NULL AND kind !~ 'time|date' THEN
        -- No index of such a column could serve. A time of an hour that comes twice is read as the first of the two here. The rows around it
        -- decide later which one it is, so they have to be read, too.
        RETURN format('coalesce((SELECT tim.t FROM %s) %s %L::float8, true)',
                      dbanon_internal.build_reading(quote_ident(time_column), types, asked, units_per_s), comparison,
                      extract(epoch FROM moment + 3 * slack)::float8);
    ELSIF kind = 'timestamp with time zone' THEN
        RETURN format('%I %s %L::timestamptz', time_column, comparison, to_char(moment AT TIME ZONE 'UTC', iso) || '+00');
    ELSIF kind = 'timestamp without time zone' THEN
        RETURN format('%I %s %L::timestamp', time_column, comparison, to_char(wide, iso));
    ELSIF kind = 'date' THEN
        RETURN format('%I %s %L::date', time_column, CASE WHEN upper THEN '<=' ELSE '>=' END, to_char(wide, 'YYYY-MM-DD'));
    END IF;
    number := CASE WHEN units_per_s < 1 THEN extract(epoch FROM moment) / 86400 + 25569 ELSE extract(epoch FROM moment) * units_per_s::numeric END;
    RETURN format('%I %s %s', time_column, comparison, CASE
        WHEN kind IN ('smallint', 'integer', 'bigint') AND abs(number) < 9e18 THEN format('%L::bigint', ceil(number))
        WHEN kind IN ('real', 'double precision') THEN format('%L::float8', number)
        ELSE format('%L::numeric', number) END);
END
$$;
COMMENT ON FUNCTION dbanon_internal.build_time_bound IS
'Writes that a column of times, as it is, lies on one side of a moment, so that its index serves; NULL where there is no bound.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_chosen_rows(
    qualified text, types jsonb, units_per_s double precision, asked dbanon_internal.loading) RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
    -- Rows without a time are read, too, to be counted.
    SELECT qualified || coalesce(' WHERE ' || nullif(concat_ws(' AND ', '(' || (asked).filter || E'\n)',
        '(' || nullif(concat_ws(' AND ', b.low, b.high), '') || format(' OR %I IS NULL)', (asked).time_column)), ''), '')
    FROM (SELECT dbanon_internal.build_time_bound(types, units_per_s, asked, (asked).since, false) AS low,
                 dbanon_internal.build_time_bound(types, units_per_s, asked, (asked).until, true) AS high) b
$$;
COMMENT ON FUNCTION dbanon_internal.build_chosen_rows IS 'Writes what follows FROM where the rows of a source are chosen by filter and time.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_missing_index(source regclass, asked dbanon_internal.loading) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Of a view or a foreign table it cannot be said, and a small table is read fast without one.
    SELECT format('Table %s has no index on %I, so all of it was read: CREATE INDEX ON %1$s (%2$I).', c.oid::regclass, (asked).time_column)
    FROM pg_class c
    WHERE c.oid = source AND num_nonnulls((asked).since, (asked).until) > 0
        AND (c.relkind = 'p' OR (c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND pg_relation_size(c.oid) > 8388608))
        AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                        WHERE i.indrelid = c.oid AND i.indisvalid AND a.attname = (asked).time_column)
$$;
COMMENT ON FUNCTION dbanon_internal.describe_missing_index IS 'Words that a large table from which a span of time is read has no index on its times.';

-- ---- times that are published

CREATE OR REPLACE FUNCTION dbanon_internal.list_published_periods(dataset_id bigint) RETURNS SETOF tstzrange
LANGUAGE sql STABLE PARALLEL SAFE STRICT ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
    -- All of the time that a part is about, beyond which it has no row (dbanon_internal.find_series_of_part). Where it has none within, too: that
    -- nobody is in it is said of that time, which no other part can take. A release of one run leaves the time without rows to others.
    SELECT DISTINCT coalesce(l.bounds, l.span)
    FROM ONLY dbanon.release l JOIN ONLY dbanon.run r ON r.run_id = l.run_id
    WHERE r.dataset_id = list_published_periods.dataset_id AND NOT isempty(coalesce(l.bounds, l.span))
$$;
COMMENT ON FUNCTION dbanon_internal.list_published_periods IS 'The times of which releases of a dataset speak, live or withdrawn, one by one.';

-- ---- who was forgotten

CREATE OR REPLACE FUNCTION dbanon_internal.find_forgotten(population_id bigint, subjects text[]) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(
        SELECT s.name
        FROM ONLY dbanon.population p CROSS JOIN unnest(subjects) s (name) CROSS JOIN unnest(dbanon_internal.list_name_forms(s.name)) form (name)
        WHERE p.population_id = find_forgotten.population_id
            AND dbanon_internal.hash_person(p.key, form.name) IN (
                SELECT f.code FROM ONLY dbanon.forgotten f WHERE f.population_id = find_forgotten.population_id)
        GROUP BY s.name)
$$;
COMMENT ON FUNCTION dbanon_internal.find_forgotten IS
'Those of some names in a population that belong to people who were forgotten, under this name or as the same whole number.';

CREATE OR REPLACE FUNCTION dbanon_internal.guard_forgotten() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    back bigint;
BEGIN
    IF pg_relation_size('dbanon.forgotten') = 0 THEN RETURN NULL; END IF;
    -- Rows of a dataset where the person was not forgotten may still be changed.
    EXECUTE 'SELECT coalesce(sum(cardinality(dbanon_internal.find_forgotten(n.population_id, n.names))), 0) '
        'FROM (SELECT d.population_id, array_agg(a.subject) AS names FROM (SELECT dataset_id, subject FROM added'
        || CASE TG_OP WHEN 'UPDATE' THEN ' EXCEPT SELECT dataset_id, subject FROM changed' ELSE ' GROUP BY 1, 2' END ||
        ') a JOIN ONLY dbanon.dataset d ON d.dataset_id = a.dataset_id AND NOT d.own_subjects GROUP BY d.population_id) n' INTO back;
    IF back > 0 THEN
        RAISE EXCEPTION 'Forgotten people must not come back. Got rows of % in dbanon.%.', dbanon_internal.format_quantity(back, 'such person', 'such people'),
                TG_TABLE_NAME
            USING ERRCODE = 'DA012', DETAIL = 'A load leaves them out by itself.',
                  HINT = 'Leave their rows out, or lift it first: SELECT dbanon.remember_subject(population, subject).';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.guard_forgotten IS 'Refuses rows of people who were forgotten, however they are written.';

-- ---- rows that are left out

CREATE OR REPLACE FUNCTION dbanon_internal.apply_source_filter(asked dbanon_internal.loading, relation text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    dataset dbanon.dataset;
    forgotten text[] := '{}';
    reasons text;
BEGIN
    SELECT dat.* INTO dataset FROM dbanon.dataset dat WHERE dat.name = asked.dataset AND dat.dropped_at IS NULL;
    IF pg_relation_size('dbanon.forgotten') > 0 AND asked.subject <> '-' THEN
        EXECUTE format('SELECT dbanon_internal.find_forgotten($1, ARRAY(SELECT DISTINCT s.subject FROM pg_temp.%I s WHERE s.subject IS NOT NULL))', relation)
            INTO forgotten USING dbanon_internal.find_population_of_load(asked);
    END IF;
    -- Times that are none lie on neither side of a bound.
    reasons := concat_ws(' ',
        CASE WHEN isfinite(asked.since) THEN format('WHEN t < %L::float8 THEN ''outside-period''', extract(epoch FROM asked.since)::float8) END,
        CASE WHEN isfinite(asked.until) THEN format(
            'WHEN t >= %L::float8 AND t < @last_s@ THEN ''outside-period''', extract(epoch FROM asked.until)::float8) END,
        CASE WHEN cardinality(forgotten) > 0 THEN 'WHEN subject = ANY ($1) THEN ''forgotten''' END,
        CASE WHEN dataset.kept_since IS NOT NULL THEN format('WHEN t < %L::float8 THEN ''forgotten-time''', extract(epoch FROM dataset.kept_since)::float8) END,
        CASE WHEN asked.mode = 'new' THEN 'WHEN dbanon_internal.is_time(t) IS NOT TRUE THEN ''no-time''' END);
    IF reasons <> '' THEN
        EXECUTE format('WITH gone AS (DELETE FROM pg_temp.%I WHERE CASE %2$s END IS NOT NULL RETURNING file, line, CASE %2$s END AS reason, t) '
                       'INSERT INTO pg_temp.dbanon_rejected (file, line, reason, t) SELECT g.* FROM gone g', relation, reasons) USING forgotten;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.apply_source_filter IS
'Leaves out, before they are judged, rows of another time than was asked for, of people and times that were forgotten, and where what is new is
looked for, rows without a time.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_rejected(published tstzmultirange, relation text DEFAULT 'dbanon_staged') RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off  -- nobody has counted the rows of temporary tables
AS $$
BEGIN
    -- Of a person's requests at one time each is judged by itself.
    EXECUTE format(
        'WITH before AS MATERIALIZED (SELECT DISTINCT ON (subject, t) * FROM pg_temp.dbanon_before WHERE reason <> ''empty-request'' '
        '    ORDER BY subject, t, quarantine_id DESC), '
        'gone AS (DELETE FROM pg_temp.%I sta USING before bef WHERE bef.subject = sta.subject AND bef.t = sta.t '
        '    AND CASE WHEN $1 IS NULL THEN bef.reason = ''future-time'' ELSE $1 @> to_timestamp(sta.t) END '
        '    RETURNING sta.file, sta.line, bef.reason, bef.content, sta.t) '
        'INSERT INTO pg_temp.dbanon_rejected SELECT * FROM gone', relation) USING published;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_rejected IS
'Leaves out rows of published times, or where none are given of the future, that an earlier load rejected, for the reason that it had.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_rejected(
    asked dbanon_internal.loading, kind text, sources text[], names_time boolean, relation text DEFAULT 'dbanon_staged') RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET enable_nestloop = off AS $$
DECLARE
    loads CONSTANT bigint[] := ARRAY(
        SELECT load.load_id FROM dbanon.load load JOIN dbanon.dataset dat USING (dataset_id)
        WHERE dat.name = asked.dataset AND dat.dropped_at IS NULL AND load.kind = find_rejected.kind AND load.quarantined <> '{}'
            AND load.source IN (SELECT left(src.name, 1000) FROM unnest(sources) src (name)));
BEGIN
    IF asked.mode NOT IN ('append', 'new') OR loads = '{}' THEN RETURN; END IF;
    -- A row is known by who and when: its other cells may be read from other columns now.
    EXECUTE format(
        'WITH held AS MATERIALIZED ('
        '  SELECT qua.quarantine_id, qua.reason, qua.content, qua.at, dbanon_internal.read_text(qua.content ->> $2) COLLATE "C" AS subject '
        '  FROM dbanon.quarantine qua '
        '  JOIN (SELECT to_timestamp(min(sta.t)) AS low, to_timestamp(max(sta.t)) AS high FROM pg_temp.%1$I sta WHERE dbanon_internal.is_time(sta.t)) span '
        '      ON qua.at BETWEEN span.low AND span.high WHERE qua.load_id = ANY ($1)) '
        'INSERT INTO pg_temp.dbanon_before SELECT held.quarantine_id, held.reason, held.content, held.subject, sta.t FROM pg_temp.%1$I sta JOIN held '
        '  ON held.at = CASE WHEN dbanon_internal.is_time(sta.t) THEN to_timestamp(sta.t) END AND held.subject IS NOT DISTINCT FROM sta.subject',
        relation) USING loads, asked.subject;
    -- Their clock was wrong, and it is no better when that time has come.
    IF NOT (names_time OR coalesce(asked.allow_future, false)) THEN
        PERFORM dbanon_internal.leave_out_rejected(NULL, relation);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_rejected IS
'Finds the rows that an earlier load of the same sources put into quarantine, into dbanon_before; leaves out those that were of the future then, unless
the load allows the future or names a time.';

CREATE OR REPLACE FUNCTION dbanon_internal.settle_staged(
    asked dbanon_internal.loading, kind text, sources text[], names_time boolean, relations text[] DEFAULT '{dbanon_staged}') RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation text;
    n bigint;
    missing bigint := 0;
BEGIN
    PERFORM dbanon_internal.settle_names(asked, relations);
    FOREACH relation IN ARRAY CASE WHEN asked.tz <> 'UTC' THEN relations ELSE '{}' END LOOP
        EXECUTE format('UPDATE pg_temp.%I SET t = NULL WHERE t = @skipped_s@', relation);
        GET DIAGNOSTICS n = ROW_COUNT;
        missing := missing + n;
    END LOOP;
    PERFORM dbanon_internal.raise_notice(CASE WHEN missing > 0 THEN format(
        'Times of an hour that clocks in %s left out cannot be read: %s.', asked.tz, dbanon_internal.format_quantity(missing, 'row')) END);
    PERFORM dbanon_internal.settle_repeated_hours(asked.tz);
    FOREACH relation IN ARRAY relations LOOP
        PERFORM dbanon_internal.apply_source_filter(asked, relation), dbanon_internal.find_rejected(asked, kind, sources, names_time, relation);
    END LOOP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.settle_staged IS
'Decides over all staged rows what single ones do not tell: which names are one, which times clocks left out or had twice, and what is left out before
rows are judged.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out_late(dataset_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    published CONSTANT tstzmultirange := (
        SELECT coalesce(range_agg(pub.period), '{}') FROM dbanon_internal.list_published_periods(dataset_id) pub (period));
BEGIN
    -- What was rejected before its time was published did not come late.
    PERFORM dbanon_internal.leave_out_rejected(published);
    WITH gone AS (DELETE FROM pg_temp.dbanon_staged sta WHERE published @> to_timestamp(sta.t) RETURNING sta.file, sta.line, sta.t)
    INSERT INTO pg_temp.dbanon_rejected SELECT gone.file, gone.line, 'late', NULL, gone.t FROM gone;
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out_late IS
'Leaves out staged rows of times that were published: those that an earlier load rejected as it did, the others as late.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_late_rows(dataset_id bigint) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counted jsonb;
BEGIN
    -- A row of a time that was published twice counts once, for the earlier period.
    SELECT jsonb_agg(jsonb_build_object('since', lower(late.period), 'until', upper(late.period), 'rows', late.rows) ORDER BY late.period)
    INTO counted
    FROM (SELECT (SELECT pub.period FROM dbanon_internal.list_published_periods(dataset_id) pub (period)
              WHERE pub.period @> to_timestamp(tally.t) ORDER BY pub.period LIMIT 1) AS period,
              sum(tally.n)::bigint AS rows
          FROM (SELECT rej.t, count(*) AS n FROM pg_temp.dbanon_rejected rej WHERE rej.reason = 'late' GROUP BY rej.t) tally GROUP BY 1) late;
    RETURN coalesce(counted, '[]');
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_late_rows IS 'Counts the rows that were left out as late by the published period that they are of.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_left_out(rows_read bigint, kept bigint, looked_for_new boolean, kept_since timestamptz) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT ROWS 3 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY
    WITH out_ AS MATERIALIZED (SELECT rej.reason, count(*) AS n FROM pg_temp.dbanon_rejected rej GROUP BY rej.reason)
    SELECT CASE WHEN rows_read = 0 THEN 'The source has no rows of this time. Nothing to do.'
        WHEN rows_read = (SELECT out_.n FROM out_ WHERE out_.reason = 'known')
            THEN format('%s loaded before. Nothing to do.', dbanon_internal.format_quantity(rows_read, 'row was', 'rows were'))
        ELSE format('No row of %s was new (%s).', dbanon_internal.format_quantity(rows_read, 'row'),
                    (SELECT string_agg(format('%s %s', dbanon_internal.format_count(out_.n), out_.reason), ', ' ORDER BY out_.reason) FROM out_)) END
    WHERE looked_for_new AND kept = 0
    UNION ALL
    SELECT format(told.words, dbanon_internal.format_count(out_.n))
    FROM (VALUES (1, 'forgotten', 'Rows of forgotten people were left out: %s.'),
                 (2, 'forgotten-time', format('Rows from before %s were left out, since that time was forgotten: %%s.', kept_since)),
                 (3, 'late', 'Rows of times that are published were left out: %s.'),
                 (4, 'future-time', 'Rows of the future were put into quarantine: %s. Load those that are right with allow_future => true.'),
                 (5, 'no-time', 'Rows without a time that can be read were left out: %s.')) told (place, reason, words)
        JOIN out_ ON out_.reason = told.reason;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_left_out IS
'Words what was left out of a load although nothing else is wrong with it, and that there was nothing new.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_main_counts(left_out jsonb, OUT known bigint, OUT late bigint, OUT forgotten bigint)
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((left_out ->> 'known')::bigint, 0), coalesce((left_out ->> 'late')::bigint, 0), coalesce((left_out ->> 'forgotten')::bigint, 0)
$$;
COMMENT ON FUNCTION dbanon_internal.read_main_counts IS
'How many rows of a load were there already, are of published times, and are of people who were forgotten.';
