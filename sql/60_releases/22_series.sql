-- Releases that grow: what a part must have in common with the others, its table, and the table of all parts.
--
-- The view published.<name> shows dbanon.series_<series_id>, which is partitioned by valid_from. A partition is the table
-- dbanon.release_<release_id> of a part, or one table of several parts that dbanon.fold_release has put together. Each part is a row of
-- dbanon.release with a run, groups and a digest of its own, and is compared with all others as any release is.

CREATE OR REPLACE FUNCTION dbanon_internal.find_live_series(name text) RETURNS dbanon.series
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.* FROM ONLY dbanon.series s WHERE s.name = find_live_series.name AND s.withdrawn_at IS NULL
$$;
COMMENT ON FUNCTION dbanon_internal.find_live_series IS 'The live release of a name that grows; NULL where there is none.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_series(name text) RETURNS dbanon.series
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    series CONSTANT dbanon.series := dbanon_internal.find_live_series(demand_series.name);
BEGIN
    IF series.series_id IS NULL THEN
        RAISE EXCEPTION 'A release with parts must be live. There is none named %.', coalesce(dbanon_internal.quote_text(demand_series.name), 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.series.',
                  HINT = CASE WHEN EXISTS (SELECT FROM ONLY dbanon.release rel WHERE rel.name = demand_series.name AND rel.withdrawn_at IS NULL)
                              THEN format('It is a release of one run: withdraw all of it with SELECT dbanon.unpublish(%L).', demand_series.name)
                              ELSE 'List the parts: SELECT name, bounds FROM dbanon.releases WHERE live AND bounds IS NOT NULL.' END;
    END IF;
    RETURN series;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_series IS 'The live release of a name that grows; refuses other names.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_withdrawal(release dbanon.release) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN release.series_id IS NULL THEN format('SELECT dbanon.unpublish(%L)', release.name)
                ELSE format('SELECT dbanon.unpublish_part(%L, %L)', release.name, lower(release.bounds)) END
$$;
COMMENT ON FUNCTION dbanon_internal.build_withdrawal IS 'What to type to withdraw a release, or a part of one.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_releases(
    release_ids bigint[], OUT number bigint, OUT named text, OUT withdraw text)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- A release that grows is named once, and withdrawn with all of its parts that are meant.
    SELECT count(*), string_agg(ser.name || CASE WHEN par.parts > 0
        THEN format(' (%s of %s)', ser.meant, dbanon_internal.format_quantity(par.parts, 'part')) ELSE '' END, ', ' ORDER BY ser.name),
        string_agg(CASE WHEN ser.meant = 1 THEN ser.withdraw
                        WHEN ser.meant = par.parts THEN format('SELECT dbanon.unpublish(%L)', ser.name)
                        ELSE 'SELECT dbanon.unpublish_part(name, lower(bounds)) FROM dbanon.release WHERE ' || CASE
                            -- Of a year of parts the numbers would fill a page.
                            WHEN ser.meant = par.within
                            THEN format('name = %L AND withdrawn_at IS NULL AND bounds <@ %L::tstzrange', ser.name, ser.extent)
                            ELSE format('release_id = ANY (%L)', ser.ids) END END,
                   '; ' ORDER BY ser.name)
    FROM (SELECT rel.name, rel.series_id, count(*) AS meant, min(dbanon_internal.build_withdrawal(rel)) AS withdraw,
              array_agg(rel.release_id ORDER BY rel.release_id) AS ids, tstzrange(min(lower(rel.bounds)), max(upper(rel.bounds))) AS extent
          FROM ONLY dbanon.release rel
          WHERE rel.release_id = ANY (name_releases.release_ids) AND rel.withdrawn_at IS NULL
          GROUP BY rel.name, rel.series_id) ser
    CROSS JOIN LATERAL (SELECT count(*) AS parts, count(*) FILTER (WHERE rel.bounds <@ ser.extent) AS within
                        FROM ONLY dbanon.release rel WHERE rel.series_id = ser.series_id AND rel.withdrawn_at IS NULL) par
$$;
COMMENT ON FUNCTION dbanon_internal.name_releases IS 'How many live releases some are or are parts of, their names, and what to type to withdraw them.';

-- ---- what a part must be

CREATE OR REPLACE FUNCTION dbanon_internal.demand_part_bounds(run_id bigint) RETURNS tstzrange
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    run dbanon.run;
    named tstzrange;
    bounds tstzrange;
    needed text;
BEGIN
    SELECT stored.* INTO STRICT run FROM ONLY dbanon.run stored WHERE stored.run_id = demand_part_bounds.run_id;
    SELECT dbanon_internal.find_planned_span(met.traits, run.params, dat.grid_s, NULL, NULL), coalesce(met.traits ->> 'instant', 'since and until')
        INTO STRICT named, needed
        FROM ONLY dbanon.method met CROSS JOIN ONLY dbanon.dataset dat WHERE met.name = run.method AND dat.dataset_id = run.dataset_id;
    bounds := tstzrange(coalesce(to_timestamp((run.params ->> 'since')::double precision), lower(named)),
                        coalesce(to_timestamp((run.params ->> 'until')::double precision), upper(named)));
    IF isempty(bounds) OR lower_inf(bounds) OR upper_inf(bounds) THEN
        RAISE EXCEPTION 'A part of a release that grows must be of a run with bounds. Run % was asked for without.', run.run_id
            USING ERRCODE = 'DA011', DETAIL = format('Parameters of %s that bound a run: %s.', run.method, needed),
                  HINT = 'Run it for a day, say, and publish that. Or publish this one without grow.';
    END IF;
    RETURN bounds;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_part_bounds IS
'The time that a run was asked for, which its part of a release takes: from since to until, or the slot of its instant; refuses a run without.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_run_series(run_id bigint, name text, readers text[]) RETURNS dbanon.series
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    SELECT NULL::bigint, find_run_series.name, r.method, r.algorithm, d.srid, d.grid_m, d.grid_s,
        ARRAY(SELECT format('%s %s', k.name, k.sql_type) FROM dbanon_internal.list_release_columns(r.method) k ORDER BY k.ord),
        s.step_s, s.window_s, s.day_zone, find_run_series.readers, NULL::timestamptz, NULL::text
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    CROSS JOIN LATERAL dbanon_internal.find_row_meaning(r.run_id) s
    WHERE r.run_id = find_run_series.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.find_run_series IS 'The release that grows of which a run could be a part: what all of its parts have in common.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_series_tables(series_id bigint) RETURNS TABLE (relation regclass, bounds tstzrange)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO'
SET standard_conforming_strings = on AS $$
    SELECT i.inhrelid::regclass, tstzrange(b.bound[1]::timestamptz, b.bound[2]::timestamptz)
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.*)''\) TO \(''(.*)''\)') b (bound)
    WHERE i.inhparent = to_regclass(format('dbanon.series_%s', list_series_tables.series_id))
$$;
COMMENT ON FUNCTION dbanon_internal.list_series_tables IS 'The tables that a release that grows has its rows in, and of which time each is.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_series_of_part(run_id bigint, name text, bounds tstzrange, readers text[]) RETURNS dbanon.series
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old CONSTANT dbanon.series := dbanon_internal.find_live_series(find_series_of_part.name);
    new CONSTANT dbanon.series := dbanon_internal.find_run_series(find_series_of_part.run_id, find_series_of_part.name, find_series_of_part.readers);
    span CONSTANT tstzrange := dbanon_internal.find_run_span(find_series_of_part.run_id);
    holds CONSTANT text := (dbanon_internal.find_row_meaning(find_series_of_part.run_id)).holds;
    anchor timestamptz;
    taken tstzrange;
    other record;
BEGIN
    IF NOT span <@ bounds THEN
        RAISE EXCEPTION 'The rows of a part must lie in its bounds, from % on and before %. Some of run % do not.', lower(bounds), upper(bounds), run_id
            USING ERRCODE = 'DA011', DETAIL = format('Its rows are from %s to %s.', lower(span), upper(span)),
                  HINT = 'Choose a since and an until that are whole steps apart.';
    END IF;
    IF old.series_id IS NULL THEN RETURN new; END IF;
    SELECT dif.what, dif.has, dif.got INTO other
        FROM (VALUES (1, 'method', old.method, new.method), (2, 'algorithm', old.algorithm, new.algorithm),
                     (3, 'SRID', old.srid::text, new.srid::text),
                     (4, 'grid', format('%s m and %s s', old.grid_m, old.grid_s), format('%s m and %s s', new.grid_m, new.grid_s)),
                     (5, 'columns', array_to_string(old.columns, ', '), array_to_string(new.columns, ', ')),
                     (6, 'step_s', old.step_s::text, new.step_s::text), (7, 'window', old.window_s || ' s', new.window_s || ' s'),
                     (8, 'zone of days', old.day_zone, new.day_zone),
                     (9, 'value of holds', coalesce((SELECT min(rel.holds) FROM ONLY dbanon.release rel
                                                     WHERE rel.series_id = old.series_id AND rel.span IS NOT NULL), holds), holds),
                     (10, 'readers', coalesce(array_to_string(old.readers, ', '), 'all analysts'),
                                    coalesce(array_to_string(new.readers, ', '), 'all analysts'))) dif (ord, what, has, got)
        WHERE dif.has IS DISTINCT FROM dif.got ORDER BY dif.ord LIMIT 1;
    IF other.what IS NOT NULL THEN
        RAISE EXCEPTION 'A part must have the % of the release it is to be part of. That of % is %. That of run % is %.', other.what, name,
                coalesce(other.has, 'none'), run_id, coalesce(other.got, 'none')
            USING ERRCODE = 'DA011', DETAIL = 'All parts are read as one release. Only k may differ.',
                  HINT = 'Run it again like the parts before it, or publish it under another name.';
    END IF;
    SELECT rel.bounds INTO taken FROM ONLY dbanon.release rel
        WHERE rel.series_id = old.series_id AND rel.withdrawn_at IS NULL AND rel.bounds && find_series_of_part.bounds
        ORDER BY lower(rel.bounds) LIMIT 1;
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION 'Each time of a release must have one part. % has a part from % to % already, and run % is from % to %.', name, lower(taken), upper(taken),
                run_id, lower(bounds), upper(bounds)
            USING ERRCODE = 'DA003', DETAIL = 'Each row''s time belongs to one part.',
                  HINT = format('Run it for another time, or withdraw that part first: SELECT dbanon.unpublish_part(%L, %L).', name, lower(taken));
    END IF;
    SELECT tab.bounds INTO taken FROM dbanon_internal.list_series_tables(old.series_id) tab
        WHERE tab.bounds && find_series_of_part.bounds ORDER BY 1 LIMIT 1;
    IF taken IS NOT NULL THEN
        RAISE EXCEPTION 'Each time of a release must have one part. A part of % from % to % was withdrawn, and its table is still there.', name,
                lower(taken), upper(taken)
            USING ERRCODE = 'DA013', DETAIL = 'It may be in use, or hold parts that were folded together.',
                  HINT = 'SELECT dbanon.clear_withdrawn() drops it where it can; publish the time of a folded part under another name.';
    END IF;
    SELECT lower(rel.span) INTO anchor FROM ONLY dbanon.release rel
        WHERE rel.series_id = old.series_id AND rel.span IS NOT NULL ORDER BY rel.release_id LIMIT 1;
    IF mod(extract(epoch FROM lower(span) - anchor), old.step_s) <> 0 THEN
        RAISE EXCEPTION 'A part must begin whole steps of % s after the others. The first row of run % is at %.', old.step_s, run_id, lower(span)
            USING ERRCODE = 'DA011', DETAIL = format('A row of another part begins at %s.', anchor),
                  HINT = 'Choose since, or start, a multiple of step_s after theirs.';
    END IF;
    RETURN old;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_series_of_part IS
'The live release that a run can be a part of; or what it would begin, without a number; refuses a run that cannot be part of the one that is there.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_places_digest(run_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Equal for the same places, whatever their order and numbers: a load that replaces them by themselves changes nothing.
    SELECT sha256(string_agg(dig.digest, ''::bytea ORDER BY dig.digest))
    FROM ONLY dbanon.run run JOIN ONLY dbanon.method met ON met.name = run.method
    CROSS JOIN LATERAL (
        SELECT 1 AS kind, '' AS category, site.geom FROM ONLY dbanon.site site
        WHERE site.dataset_id = run.dataset_id AND met.traits -> 'reads' ? 'sites'
        UNION ALL
        SELECT 2, '', cel.geom FROM ONLY dbanon.cell cel WHERE cel.dataset_id = run.dataset_id AND met.traits -> 'reads' ? 'cells'
        UNION ALL
        SELECT 3, poi.category, poi.geom FROM ONLY dbanon.poi poi WHERE poi.dataset_id = run.dataset_id AND met.traits -> 'reads' ? 'cells') inp
    CROSS JOIN LATERAL sha256(record_send(ROW(inp.kind, convert_to(inp.category, 'UTF8'), @postgis@.ST_AsEWKB(inp.geom, 'NDR')))) dig (digest)
    WHERE run.run_id = compute_places_digest.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.compute_places_digest IS
'A digest of the sensitive sites, or of the cells and points of interest, that a run reads; null where it reads none.';

CREATE OR REPLACE FUNCTION dbanon_internal.draw_prefix(series_id bigint) RETURNS integer
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    drawn integer;
BEGIN
    -- From the operating system's cryptographic source: 20 bits say neither when a part came nor how many there are.
    LOOP
        drawn := ('x' || left(encode(uuid_send(gen_random_uuid()), 'hex'), 5))::bit(20)::integer;
        EXIT WHEN drawn > 0 AND NOT EXISTS (
            SELECT FROM ONLY dbanon.release rel WHERE rel.series_id = draw_prefix.series_id AND rel.prefix = drawn);
    END LOOP;
    RETURN drawn;
END
$$;
COMMENT ON FUNCTION dbanon_internal.draw_prefix IS
'Draws the upper bits of the keys of a new part, which no other part has or had: keys stay below 2^53, which is exact in JavaScript.';

CREATE OR REPLACE FUNCTION dbanon_internal.prepare_part(run_id bigint, name text, readers text[], OUT bounds tstzrange, OUT prefix integer)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    bounds := dbanon_internal.demand_part_bounds(run_id);
    prefix := dbanon_internal.draw_prefix((dbanon_internal.find_series_of_part(
        run_id, name, bounds, dbanon_internal.choose_readers(name, true, readers))).series_id);
END
$$;
COMMENT ON FUNCTION dbanon_internal.prepare_part IS
'The bounds of a run that is to be a part, and the upper bits of its keys; refuses a run that cannot be one, before anything is copied.';

-- ---- tables

CREATE OR REPLACE FUNCTION dbanon_internal.finish_table(target text, bounds tstzrange) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET maintenance_work_mem = '256MB'
-- Of regions and of JSON statistics of 30,000 rows take as long as half of the indexes. 7,500 are enough.
SET default_statistics_target = 25 AS $$
DECLARE
    own text;
    longest_s double precision;
    varies boolean;
BEGIN
    EXECUTE format('CREATE UNIQUE INDEX ON %s (cloak_id)', target);
    EXECUTE format('CREATE UNIQUE INDEX ON %s (record_id, seq)', target);
    EXECUTE format('CREATE INDEX ON %s (valid_from, valid_to)', target);
    EXECUTE format('CREATE INDEX ON %s USING gist (region)', target);
    -- Who asks for a time asks for the starts of rows from longest_s before it on, which an index has, or for a range: rows that begin together
    -- lie together, so the ranges of some pages say enough. Where a few rows are long and most are short, all pages have a long one. An index
    -- of each range takes as long as all others together, and without buffers five times as long.
    EXECUTE format('SELECT extract(epoch FROM max(valid_to - valid_from)), 8 * max(valid_to - valid_from) > max(valid_to) - min(valid_from) '
                   'AND 16 * avg(valid_to - valid_from) < max(valid_to) - min(valid_from) FROM %s', target) INTO longest_s, varies;
    EXECUTE format('CREATE INDEX ON %s USING %s', target, CASE WHEN varies THEN 'gist (tstzrange(valid_from, valid_to)) WITH (buffering = on)'
                                                              ELSE 'brin (tstzrange(valid_from, valid_to)) WITH (pages_per_range = 16)' END);
    FOR own IN SELECT att.attname FROM pg_attribute att
        WHERE att.attrelid = target::regclass AND att.atttypid = 'jsonb'::regtype AND att.attnum > 0 LOOP
        EXECUTE format('CREATE INDEX ON %s USING gin (%I jsonb_path_ops)', target, own);
    END LOOP;
    -- From here on the rows are fixed: not even the owner changes them by mistake. Those of a part that is withdrawn are deleted.
    EXECUTE format('CREATE TRIGGER refuse_change BEFORE INSERT OR UPDATE%s OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.refuse_change()', CASE WHEN bounds IS NULL THEN ' OR DELETE' ELSE '' END, target);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER refuse_change', target);
    IF bounds IS NOT NULL THEN
        EXECUTE format('CREATE TRIGGER guard_part AFTER DELETE ON %s REFERENCING OLD TABLE AS changed '
            'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.guard_part()', target);
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER guard_part', target);
        -- Spares ATTACH from reading all rows.
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT bounds CHECK (valid_from >= %L AND valid_from < %L)', target, lower(bounds), upper(bounds));
    END IF;
    EXECUTE format('COMMENT ON TABLE %s IS %L', target, 'The rows of one release, or of parts of one, never changed. Read through its view.');
    EXECUTE format('ANALYZE %s', target);
    RETURN longest_s;
END
$$;
COMMENT ON FUNCTION dbanon_internal.finish_table IS
'Makes the indexes and triggers of a table with rows of a release; and the check of its bounds, where it is of parts; returns how many
seconds its longest row holds.';

CREATE OR REPLACE FUNCTION dbanon_internal.join_series(run_id bigint, name text, bounds tstzrange, readers text[], release_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    -- Again, since another part may have been published while the rows were copied.
    series CONSTANT dbanon.series := dbanon_internal.find_series_of_part(run_id, name, bounds, readers);
    number bigint := series.series_id;
    target text;
    others text;
BEGIN
    IF number IS NOT NULL THEN
        SELECT string_agg(DISTINCT other.params ->> 'k', ', ') INTO others
            FROM ONLY dbanon.release rel JOIN ONLY dbanon.run other ON other.run_id = rel.run_id
            JOIN ONLY dbanon.run run ON run.run_id = join_series.run_id
            WHERE rel.series_id = number AND rel.withdrawn_at IS NULL AND other.params -> 'k' <> run.params -> 'k';
        IF others IS NOT NULL THEN
            RAISE NOTICE 'Other parts of % keep k = %. The release promises the least of all.', name, others;
        END IF;
        RETURN number;
    END IF;
    INSERT INTO dbanon.series (name, method, algorithm, srid, grid_m, grid_s, columns, step_s, window_s, day_zone, readers)
        SELECT series.name, series.method, series.algorithm, series.srid, series.grid_m, series.grid_s, series.columns, series.step_s,
            series.window_s, series.day_zone, series.readers
        RETURNING series_id INTO number;
    target := format('dbanon.series_%s', number);
    -- Without indexes: with them, each new partition would get a second one of each.
    EXECUTE format('CREATE TABLE %s (LIKE dbanon.release_%s) PARTITION BY RANGE (valid_from)', target, release_id);
    EXECUTE format('REVOKE ALL ON TABLE %s FROM PUBLIC', target);
    EXECUTE format('CREATE TRIGGER refuse_change BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION dbanon_internal.refuse_change()', target);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER refuse_change', target);
    EXECUTE format('COMMENT ON TABLE %s IS %L', target, 'The parts of one release that grows. Read through its view.');
    RETURN number;
END
$$;
COMMENT ON FUNCTION dbanon_internal.join_series IS
'The number of the release that grows of which a run becomes a part; with its first part, makes it and the table of which parts are partitions.';

CREATE OR REPLACE FUNCTION dbanon_internal.attach_table(series_id bigint, relation text, bounds tstzrange) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Waits for no reader of the other parts, and makes none wait.
    EXECUTE format('ALTER TABLE dbanon.series_%s ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)', series_id, relation, lower(bounds), upper(bounds));
    -- The partition's own bounds say the same, and every login can read constraints.
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT bounds', relation);
END
$$;
COMMENT ON FUNCTION dbanon_internal.attach_table IS 'Makes a table a partition of a release that grows, and drops the check of its bounds.';
