-- What all imports share: whose turn it is, what a source holds, what its columns mean, and the record a load leaves.
--
-- Staged rows are in pg_temp.dbanon_staged (its first columns are file, line), those left out in pg_temp.dbanon_rejected (file,
-- line, reason, content); files are counted from 0, and a table is file 0. Steps over millions of rows are single statements: a
-- function a row would cost more than all the rest, so functions that write expressions say what a column means.

-- ---- the dataset

CREATE OR REPLACE FUNCTION dbanon_internal.lock_dataset(dataset text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('dbanon.load ' || dataset, 0))
$$;
COMMENT ON FUNCTION dbanon_internal.lock_dataset IS 'Waits for other loads into a dataset of this name, and holds it until the transaction ends.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_dataset(dataset text) RETURNS dbanon.dataset
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found_row dbanon.dataset;
BEGIN
    SELECT dat.* INTO found_row FROM dbanon.dataset dat WHERE dat.name = demand_dataset.dataset AND dat.dropped_at IS NULL;
    IF FOUND THEN
        RETURN found_row;
    END IF;
    RAISE EXCEPTION 'The dataset must exist. There is none named %.', coalesce(dbanon_internal.quote_text(dataset), 'NULL')
        USING ERRCODE = 'DA001', DETAIL = format('There %s.', (SELECT CASE count(*) WHEN 1 THEN 'is ' ELSE 'are ' END || dbanon_internal.format_quantity(count(*), 'dataset')
                                           FROM dbanon.dataset dat WHERE dat.dropped_at IS NULL)),
              HINT = coalesce(dbanon_internal.choose_one(ARRAY(SELECT dat.name FROM dbanon.dataset dat WHERE dat.dropped_at IS NULL)),
                              'Load one with SELECT * FROM dbanon.import_trajectories(...).');
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_dataset IS 'Looks up a dataset.';

-- ---- arguments

CREATE OR REPLACE FUNCTION dbanon_internal.demand_different(named text[], what text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    twice text;
BEGIN
    IF array_position(named, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'The columns of % must be named. Got NULL for one of them.', what
            USING ERRCODE = 'DA011', DETAIL = format('%s needed.', dbanon_internal.format_quantity(cardinality(named), 'column is', 'columns are')),
                  HINT = 'Name each as it is called.';
    END IF;
    SELECT ele.name INTO twice FROM unnest(named) WITH ORDINALITY ele (name, ord)
    GROUP BY ele.name HAVING count(*) > 1 ORDER BY min(ele.ord) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'The columns of % must differ. Got ''%'' twice.', what, twice
            USING ERRCODE = 'DA011', DETAIL = format('%s needed.', dbanon_internal.format_quantity(cardinality(named), 'column is', 'columns are')),
                  HINT = 'Name each as it is called.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_different IS 'Refuses columns of which one is to be two things, or one is not named.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_zone(tz text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not by trying: AT TIME ZONE takes UTC+2 for two hours west. The list reads 600 files: 40 ms, which UTC need not wait for.
    IF tz <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = tz) THEN
        RAISE EXCEPTION 'The time zone must be a name such as Europe/Berlin or UTC. Got %.', CASE tz WHEN '' THEN 'none' ELSE dbanon_internal.quote_text(tz) END
            USING ERRCODE = 'DA011', DETAIL = 'pg_timezone_names lists those that can be used.',
                  HINT = 'Name another, for example tz => ''UTC''.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_zone IS 'Refuses a time zone that there is not.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_reference_system(
    crs text, OUT srid integer, OUT geographic boolean, OUT metric boolean, OUT meridian double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[] := regexp_match(btrim(crs), '^(?:([A-Za-z]+):)?([0-9]{1,6})$');
BEGIN
    SELECT srs.srid, srs.proj4text ~ '[+]proj=longlat',
        srs.srtext ILIKE 'PROJCS%' AND srs.proj4text ~ '[+]units=m( |$)' AND srs.proj4text !~ '[+]to_meter',
        coalesce(substring(srs.proj4text from '[+]lon_0=([-0-9.]+)')::float8,
                 6 * substring(srs.proj4text from '[+]zone=([0-9]+)')::float8 - 183)
    INTO demand_reference_system.srid, geographic, metric, meridian
    FROM @postgis@.spatial_ref_sys srs
    WHERE srs.auth_srid = parts[2]::integer AND srs.auth_name = upper(coalesce(parts[1], 'EPSG'));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The reference system must be one of PostGIS''s spatial_ref_sys. Got %.',
                coalesce(dbanon_internal.quote_text(crs), 'NULL')
            USING ERRCODE = 'DA011', DETAIL = format('It lists %s.', (SELECT count(*) FROM @postgis@.spatial_ref_sys)),
                  HINT = 'Give one such as EPSG:4326.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_reference_system IS 'Looks up a reference system.';

-- ---- the source

CREATE OR REPLACE FUNCTION dbanon_internal.suggest_coordinates(types jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('Name the columns of coordinates instead: x => %L, y => %L', x.name, y.name)
        || CASE WHEN p.degrees THEN '.' ELSE ', and their reference system, for example crs => ''EPSG:32610''.' END
    FROM (VALUES (1, true, '^(lon|lng|long|longitude)$', '^(lat|latitude)$'), (2, false, '^(x|east|easting)$', '^(y|north|northing)$'))
            p (nth, degrees, x, y)
        JOIN jsonb_object_keys(types) x (name) ON x.name ~* p.x
        JOIN jsonb_object_keys(types) y (name) ON y.name ~* p.y
    ORDER BY p.nth, x.name COLLATE "C", y.name COLLATE "C" LIMIT 1
$$;
COMMENT ON FUNCTION dbanon_internal.suggest_coordinates IS
'Says which columns of a table are called like coordinates, where it lacks the column of points; nothing if none are.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_source(
    source regclass, columns text[], subject text DEFAULT NULL, geom text DEFAULT NULL, OUT qualified text, OUT types jsonb)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    readable boolean;
    reached boolean;
    filtered boolean;
    blurred boolean;
    missing text;
BEGIN
    -- What kind of relation it is, under the name that every later statement uses, and whether rows of it are hidden.
    SELECT format('%I.%I', nsp.nspname, cla.relname), row_security_active(cla.oid), has_schema_privilege(nsp.oid, 'USAGE')
    INTO qualified, filtered, reached
    FROM pg_class cla JOIN pg_namespace nsp ON nsp.oid = cla.relnamespace
    WHERE cla.oid = source AND cla.relkind IN ('r', 'p', 'v', 'm', 'f');
    IF NOT FOUND THEN
        RAISE EXCEPTION 'The source of an import must be a table or a view. Got %.',
                CASE WHEN source IS NULL THEN 'NULL' ELSE 'something else' END
            USING ERRCODE = 'DA012', DETAIL = 'Partitioned and foreign tables and materialized views are tables and views, too.',
                  HINT = 'Name it with its schema, such as public.gps.';
    END IF;
    IF filtered THEN
        RAISE EXCEPTION 'The table must be read whole. Row-level security keeps rows of % from this login.', qualified
            USING ERRCODE = 'DA012', DETAIL = 'Rows that it may not see would be left out without notice.',
                  HINT = 'Import it as a login that sees all of them.';
    END IF;
    -- Types of the columns, that of a domain being what it is made of; and whether equal subjects may differ in bytes.
    SELECT jsonb_object_agg(att.attname, format_type(coalesce(nullif(typ.typbasetype, 0), typ.oid), NULL)),
        bool_and(has_column_privilege(att.attrelid, att.attnum, 'SELECT')) FILTER (WHERE att.attname = ANY (columns)),
        bool_or(NOT coll.collisdeterministic OR format_type(coalesce(nullif(typ.typbasetype, 0), typ.oid), NULL) ~ '(^|\.)citext$')
            FILTER (WHERE att.attname = subject)
    INTO types, readable, blurred
    FROM pg_attribute att JOIN pg_type typ ON typ.oid = att.atttypid LEFT JOIN pg_collation coll ON coll.oid = att.attcollation
    WHERE att.attrelid = source AND att.attnum > 0 AND NOT att.attisdropped;
    SELECT ele.name INTO missing FROM unnest(columns) WITH ORDINALITY ele (name, ord)
    WHERE NOT coalesce(types ? ele.name, false) ORDER BY ele.ord LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% must have a column ''%''. It has: %.', qualified, missing,
                (SELECT string_agg(att.attname, ', ' ORDER BY att.attnum) FROM pg_attribute att
                 WHERE att.attrelid = source AND att.attnum > 0 AND NOT att.attisdropped)
            USING ERRCODE = 'DA012', DETAIL = format('Columns named: %s.', array_to_string(columns, ', ')),
                  HINT = coalesce(CASE missing WHEN geom THEN dbanon_internal.suggest_coordinates(types) END, 'Name the right one.');
    END IF;
    -- A cast runs a function of its maker with the rights of the login that imports; those of extensions are trusted.
    SELECT att.attname INTO missing
    FROM pg_attribute att
    JOIN pg_type typ ON typ.oid = att.atttypid
    CROSS JOIN LATERAL (
        WITH RECURSIVE base (oid) AS (
            SELECT typ.oid
            UNION ALL
            SELECT coalesce(nullif(typ.typbasetype, 0), nullif(typ.typelem, 0)) FROM base JOIN pg_type typ ON typ.oid = base.oid
            WHERE typ.typbasetype <> 0 OR typ.typelem <> 0)
        SELECT base.oid FROM base
    ) used
    JOIN pg_cast cas ON cas.castsource = used.oid AND cas.castfunc <> 0
    JOIN pg_type src ON src.oid = used.oid AND src.typnamespace <> 'pg_catalog'::regnamespace
    -- To what an import converts to: others may have casts to types of their own, which no import calls.
    JOIN pg_type target ON target.oid = cas.casttarget AND (target.typnamespace = 'pg_catalog'::regnamespace OR EXISTS (
        SELECT FROM pg_depend dep WHERE dep.classid = 'pg_type'::regclass AND dep.objid = target.oid AND dep.deptype = 'e'))
    WHERE att.attrelid = source AND att.attname = ANY (columns)
        AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.classid = 'pg_cast'::regclass AND dep.objid = cas.oid AND dep.deptype = 'e')
    ORDER BY att.attnum LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Column ''%'' must be of a type that the server or an extension converts. A cast of its type calls another function.', missing
            USING ERRCODE = 'DA012', DETAIL = 'The cast would run with the rights of the login that imports.',
                  HINT = 'Have its owner convert it in a separate table, or drop that cast, and import again.';
    END IF;
    -- Only now: a login that may not read the table learns first what is wrong with its call, which is in the catalog.
    IF NOT (reached AND readable) THEN
        RAISE EXCEPTION 'The login must be allowed to read the table. It may not read %.', qualified
            USING ERRCODE = 'DA014', DETAIL = format('Columns named: %s.', array_to_string(columns, ', ')),
                  HINT = 'Have its owner grant that: ' || concat_ws(' ',
                      CASE WHEN NOT reached THEN format('GRANT USAGE ON SCHEMA %s TO %I;',
                          (SELECT cla.relnamespace::regnamespace FROM pg_class cla WHERE cla.oid = source), current_user) END,
                      CASE WHEN NOT readable THEN format('GRANT SELECT ON %s TO %I;', qualified, current_user) END);
    END IF;
    IF blurred THEN
        RAISE EXCEPTION 'Column ''%'' must distinguish people byte by byte. Its type takes different spellings for the same.', subject
            USING ERRCODE = 'DA012', DETAIL = format('It is %s.', types ->> subject),
                  HINT = 'Bring them into one in a view, with lower(x)::text COLLATE "C", and import it.';
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.describe_source IS 'Looks up a table or view to import, and refuses one that cannot be read whole by this login.';

CREATE OR REPLACE FUNCTION dbanon_internal.make_file(called text, cells integer, swap_remedy text DEFAULT NULL, check_remedy text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Two loads may be of one transaction.
    IF to_regclass('pg_temp.dbanon_file') IS NOT NULL THEN
        DROP TABLE pg_temp.dbanon_file;
    END IF;
    EXECUTE format('CREATE TEMP TABLE dbanon_file (line bigint, content jsonb, %s) ON COMMIT DROP', CASE WHEN cells IS NULL
        THEN 'label text, geom @postgis@.geometry'
        ELSE concat_ws(', ', 'subject text, "time" timestamptz, repeated boolean', (SELECT string_agg(format('cell_%s text', num), ', ' ORDER BY num)
                                                                  FROM generate_series(1, cells) num)) END);
    EXECUTE format('COMMENT ON TABLE pg_temp.dbanon_file IS %L', called);
    IF cells IS NULL THEN
        EXECUTE format('COMMENT ON COLUMN pg_temp.dbanon_file.geom IS %L', swap_remedy);
        EXECUTE format('COMMENT ON COLUMN pg_temp.dbanon_file.label IS %L', check_remedy);
    ELSE
        EXECUTE format('COMMENT ON COLUMN pg_temp.dbanon_file."time" IS %L', swap_remedy);
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_file IS
'Makes pg_temp.dbanon_file, empty, into which a file of this name is copied for an import of places (cells NULL) or of events with
so many cells; swap_remedy is what to do if x and y are the wrong way round, or for events the file''s name of their times.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_rows(
    source regclass, qualified text, OUT is_file boolean, OUT called text, OUT line text, OUT content text, OUT swap_remedy text,
    OUT check_remedy text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT f.is_file, CASE WHEN f.is_file THEN obj_description(source, 'pg_class') ELSE 'table ' || qualified END,
        CASE WHEN f.is_file THEN 'line' ELSE 'row_number() OVER ()' END, CASE WHEN f.is_file THEN 'content' ELSE 'NULL::jsonb' END,
        CASE WHEN f.is_file THEN col_description(source, 4) END, CASE WHEN f.is_file THEN col_description(source, 3) END
    FROM (SELECT coalesce(source = to_regclass('pg_temp.dbanon_file'), false) AS is_file) f
$$;
COMMENT ON FUNCTION dbanon_internal.describe_rows IS
'Says how the rows of a source are known in the record of a load: whether it is pg_temp.dbanon_file, what the source is called,
expressions of a row''s number and of the row as it was read (NULL: by the columns named), and what to do if x and y are the wrong
way round.';

CREATE OR REPLACE FUNCTION dbanon_internal.raise_reading_error(qualified text, state text, context text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    name text;
    missing text[] := '{}';
BEGIN
    -- Classes of what a view can do wrong; that the disk is full is none. A view may call functions of ours, and raise what they say; only of
    -- moving points and of texts the statement calls one itself.
    IF left(state, 2) NOT IN ('21', '22', '38', '39', '42', 'DA', 'P0', 'XX') OR split_part(context, E'\n', 1) ~ 'dbanon_internal\.(read_moving_instants|refuse_local_time)\(' THEN
        RETURN;
    END IF;
    -- A foreign table has columns that the other server may have renamed: reading each by itself tells which.
    FOR name IN SELECT att.attname FROM pg_attribute att
                WHERE state = '42703' AND att.attrelid = qualified::regclass AND att.attnum > 0 AND NOT att.attisdropped ORDER BY att.attnum LOOP
        BEGIN
            EXECUTE format('SELECT %I FROM %s LIMIT 1', name, qualified);
        EXCEPTION WHEN undefined_column THEN
            missing := missing || name;
        WHEN others THEN
            NULL;
        END;
    END LOOP;
    RAISE EXCEPTION 'The table must be readable to its last row. Reading % stopped with SQLSTATE %.', qualified, state
        USING ERRCODE = 'DA012', DETAIL = 'The server''s own words may quote a row.',
              HINT = CASE WHEN missing <> '{}' THEN format('Name other columns than those that it lacks: %s.', array_to_string(missing, ', ')) ELSE 'Select all of it in psql to see why.' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.raise_reading_error IS
'Raises that the source, which may be a view of anything, cannot be read, if this SQLSTATE comes from it; otherwise does nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.ask_source(query text, qualified text) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- Rows come in the order of the table, which decides between contradicting fixes.
SET synchronize_seqscans = off
AS $$
DECLARE
    figure double precision;
    context text;
BEGIN
    -- A view may call functions that name PostGIS's by the search path. Our own names are looked up before it leads there: the
    -- body of a function of this kind is bound when it is made.
    EXECUTE format('CREATE FUNCTION pg_temp.dbanon_ask() RETURNS double precision LANGUAGE sql BEGIN ATOMIC %s; END', query);
    SET LOCAL search_path = pg_catalog, @postgis@, pg_temp;
    EXECUTE 'SELECT pg_temp.dbanon_ask()' INTO figure;
    SET LOCAL search_path = pg_catalog, pg_temp;
    DROP FUNCTION pg_temp.dbanon_ask();
    RETURN figure;
EXCEPTION WHEN others THEN
    GET STACKED DIAGNOSTICS context = PG_EXCEPTION_CONTEXT;
    PERFORM dbanon_internal.raise_reading_error(qualified, SQLSTATE, context);
    RAISE;
END
$$;
COMMENT ON FUNCTION dbanon_internal.ask_source IS
'Runs statements that read a source, the last of which selects one number. Raises an error if the source cannot be read.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_geometry(types jsonb, geom text, source regclass) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    kind CONSTANT text := types ->> geom;
    form double precision;
BEGIN
    IF kind ~ '(^|\.)(geometry|geography)$' THEN
        RETURN;
    ELSIF dbanon_internal.is_text(kind) THEN
        form := dbanon_internal.ask_source(format(
            'SELECT CASE WHEN g ~ ''^\s*\{'' THEN 1.0::float8 WHEN g ~* %L THEN 2 END FROM (SELECT %I::text AS g FROM %s) s WHERE g <> '''' LIMIT 1',
            '^\s*(srid *=|(multi)?(point|linestring|polygon)|0[01][0-9a-f]{16})', geom, source), source::text);
    END IF;
    RAISE EXCEPTION 'Column ''%'' must be a geometry. It is %.', geom, kind
        USING ERRCODE = 'DA012', DETAIL = 'A geography will do, too.', HINT = coalesce((
            SELECT format('Read its texts in a view, and import that with geom => %1$L: CREATE VIEW %2$s.%3$I AS SELECT *, %4$s AS %1$I FROM %2$s.%5$I.',
                geom || '_read', cla.relnamespace::regnamespace, left(cla.relname, 58) || '_read',
                format(CASE form WHEN 1 THEN '@postgis@.ST_GeomFromGeoJSON(%I)' ELSE '%I::@postgis@.geometry' END, geom), cla.relname)
            FROM pg_class cla WHERE cla.oid = source AND form IS NOT NULL),
            'Make points in a view, with ST_SetSRID(ST_MakePoint(lon, lat), 4326), and import that.');
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_geometry IS 'Refuses a column that holds no geometries.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_source_crs(qualified text, geom text, chosen text, place text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    srid CONSTANT double precision := dbanon_internal.ask_source(format(
        'SELECT @postgis@.ST_SRID(g) FROM (SELECT %s AS g FROM %s) s WHERE g IS NOT NULL LIMIT 1',
        coalesce(place, format('%I::@postgis@.geometry', geom)), chosen), qualified);
BEGIN
    IF srid = 0 THEN
        RAISE EXCEPTION 'The geometries in ''%'' must name their reference system. Theirs is 0.', geom
            USING ERRCODE = 'DA012', DETAIL = 'The first of them counts.',
                  HINT = 'Name it, for example crs => ''EPSG:4326'', or set it with ST_SetSRID.';
    END IF;
    RETURN coalesce(srid, 4326);
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_source_crs IS
'Names the reference system of the first geometry of a column, or of what place writes, among the rows chosen: WGS 84 where there is none. Raises an
error if its SRID is 0.';

-- ---- what columns mean, as expressions

CREATE OR REPLACE FUNCTION dbanon_internal.build_text_expression(argument text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    -- One name in two spellings of Unicode would count as two people. The blanks are those that Arrow trims.
    SELECT format(
        'nullif(CASE WHEN octet_length(%1$s) = char_length(%1$s) THEN btrim(%1$s, %2$s) ELSE normalize(btrim(%1$s, %2$s), NFC) END, '''')',
        argument,
        quote_literal(E'\t\n\u000b\f\r\u001c\u001d\u001e\u001f \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007'
                      '\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'))
$$;
COMMENT ON FUNCTION dbanon_internal.build_text_expression IS
'Writes a text without the blanks around it and in one spelling of Unicode (NFC), NULL where nothing is left.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_number_expression(argument text, kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    -- A numeric may be too large or too small for a double.
    SELECT format(CASE kind WHEN 'numeric' THEN '(CASE WHEN abs(%1$s) < 1e-300 THEN 0 WHEN abs(%1$s) >= 1e300 AND %1$s::text NOT IN (''NaN'', ''Infinity'', ''-Infinity'') '
                                                'THEN 1e300 ELSE %1$s::float8 END)' ELSE '(%1$s::float8)' END, argument)
    WHERE kind IN ('smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision')
$$;
COMMENT ON FUNCTION dbanon_internal.build_number_expression IS 'Writes a number of some type as a double; NULL where the type is none of numbers.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_middle_expression(argument text, axis text, geographic boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format(CASE WHEN axis = 'y' THEN '(@postgis@.ST_YMin(@postgis@.Box3D(%1$s)) + @postgis@.ST_YMax(@postgis@.Box3D(%1$s))) / 2'
        WHEN NOT geographic THEN '(@postgis@.ST_XMin(@postgis@.Box3D(%1$s)) + @postgis@.ST_XMax(@postgis@.Box3D(%1$s))) / 2'
        -- Across the antimeridian, the short way round.
        ELSE '(SELECT CASE WHEN west + east > 360 AND west <= 180 THEN (west + east) / 2 - 360 '
             'WHEN west + east < -360 AND east >= -180 THEN (west + east) / 2 + 360 ELSE (west + east) / 2 END '
             'FROM (SELECT @postgis@.ST_XMin(b) AS west, @postgis@.ST_XMax(b) AS east FROM (SELECT @postgis@.Box3D('
             'CASE WHEN @postgis@.ST_XMax(@postgis@.Box3D(%1$s)) - @postgis@.ST_XMin(@postgis@.Box3D(%1$s)) > 180 '
             'THEN @postgis@.ST_ShiftLongitude(%1$s) ELSE %1$s END) AS b) box) sides)' END, argument)
$$;
COMMENT ON FUNCTION dbanon_internal.build_middle_expression IS 'Writes the middle of the bounds of a shape on one axis.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_name_reasons(argument text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT format('WHEN %s ~ %L THEN ''control-characters''', argument, E'[\u0001-\u001f\u007f-\u009f]')
$$;
COMMENT ON FUNCTION dbanon_internal.build_name_reasons IS 'Writes what may be wrong with a name, as a branch of a CASE.';

CREATE OR REPLACE FUNCTION dbanon_internal.list_null_names(asked dbanon_internal.loading) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
    SELECT CASE WHEN (asked).nulls IS NULL THEN ARRAY['NA', 'N/A', 'NULL', 'nan', 'None', '\N'] ELSE
        ARRAY(SELECT normalize(btrim(ele.name), NFC) FROM unnest((asked).nulls) ele (name) WHERE btrim(ele.name) <> '') END
$$;
COMMENT ON FUNCTION dbanon_internal.list_null_names IS 'The texts that a load takes for nobody where a name should be, beside the empty text.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_last_time(asked dbanon_internal.loading) RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
    -- Clocks differ by minutes, and wrong zones by an hour or more.
    SELECT CASE WHEN (asked).allow_future THEN 1e11 ELSE extract(epoch FROM now())::float8 + 3600 END
$$;
COMMENT ON FUNCTION dbanon_internal.find_last_time IS
'The unix second after which a time is of the future: an hour after the server''s clock, unless a load allows the future.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_event_reasons(asked dbanon_internal.loading) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
AS $$
    SELECT format('WHEN subject IS NULL THEN ''missing-subject'' WHEN octet_length(subject) <= %s AND subject = ANY (%L::text[]) THEN ''nobody'' ',
                  (SELECT coalesce(max(octet_length(ele.name)), 0) FROM unnest(nul.nobody) ele (name)), nul.nobody)
           || 'WHEN octet_length(subject) > 1000 THEN ''subject-too-long'' '
           || dbanon_internal.build_name_reasons('subject') ||
           ' WHEN t IS NULL OR t = -1e300 THEN ''unparsable-time'' '
           'WHEN NOT abs(t) < ''Infinity'' THEN ''non-finite-time'' '
           'WHEN t < -62135596800 OR t >= 1e11 THEN ''time-out-of-range'' '
           || format('WHEN t > %L::float8 THEN ''future-time''', dbanon_internal.find_last_time(asked))
    FROM (SELECT dbanon_internal.list_null_names(asked) AS nobody) nul
$$;
COMMENT ON FUNCTION dbanon_internal.build_event_reasons IS
'Writes what may be wrong with who and when, as branches of a CASE over columns subject and t (unix seconds); the first counts.';

CREATE OR REPLACE FUNCTION dbanon_internal.build_position_reasons(expected_srid integer, geographic boolean, missing text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('WHEN srid NOT IN (0, %s) THEN ''other-reference-system'' '
                  'WHEN x IS NULL OR y IS NULL THEN CASE WHEN %s THEN ''missing-position'' ELSE ''unparsable-position'' END '
                  'WHEN NOT (abs(x) < ''Infinity'' AND abs(y) < ''Infinity'') THEN ''non-finite-position''', expected_srid, missing)
           || CASE WHEN geographic THEN
                  ' WHEN abs(x) <= 90 AND abs(y) > 90 AND abs(y) <= 180 THEN ''swapped-axes'' '
                  'WHEN abs(x) > 180 OR abs(y) > 90 THEN ''position-out-of-range''' ELSE '' END
$$;
COMMENT ON FUNCTION dbanon_internal.build_position_reasons IS
'Writes what may be wrong with a place, as branches of a CASE over columns srid, x and y (its middle); the first counts. missing says there is none.';

-- ---- staged rows

CREATE OR REPLACE FUNCTION dbanon_internal.make_staging(columns text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    old text;
BEGIN
    -- Two loads may be of one transaction.
    FOREACH old IN ARRAY ARRAY['pg_temp.dbanon_staged', 'pg_temp.dbanon_rejected', 'pg_temp.dbanon_before'] LOOP
        IF to_regclass(old) IS NOT NULL THEN
            EXECUTE 'DROP TABLE ' || old;
        END IF;
    END LOOP;
    EXECUTE format('CREATE TEMP TABLE dbanon_staged (file integer, line bigint, t double precision, %s, repeated boolean) ON COMMIT DROP', columns);
    CREATE TEMP TABLE dbanon_rejected (file integer, line bigint, reason text, content jsonb, t double precision) ON COMMIT DROP;
    CREATE TEMP TABLE dbanon_before (quarantine_id bigint, reason text, content jsonb, subject text COLLATE "C", t double precision) ON COMMIT DROP;
END
$$;
COMMENT ON FUNCTION dbanon_internal.make_staging IS
'Makes the temporary tables of a load, empty, with a column t for unix seconds and one that says whether that may be of an hour that comes twice; they
end with the transaction.';

CREATE OR REPLACE FUNCTION dbanon_internal.leave_out(condition text, reason text, content text, query text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    EXECUTE format(
        'WITH gone AS (DELETE FROM pg_temp.dbanon_staged sta%s WHERE %s RETURNING sta.*, %s AS why) '
        'INSERT INTO pg_temp.dbanon_rejected SELECT file, line, why, CASE WHEN why <> ALL (%L::text[]) THEN %s END, t FROM gone',
        ' USING (' || query || ') found', condition, reason, dbanon_internal.list_counted_reasons(), content);
END
$$;
COMMENT ON FUNCTION dbanon_internal.leave_out IS
'Moves the staged rows sta that meet a condition, perhaps on what a query found, to those left out; of those that go to quarantine with their content.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_usable_rows(
    rows_read bigint, remedy text, may_be_none boolean DEFAULT false, cells jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    lost bigint;
    counts text;
    known boolean;
    expected boolean;
BEGIN
    -- Rows left out by reason. If all were left out as repetitions, the same file was loaded before.
    SELECT coalesce(sum(tally.n), 0), string_agg(format('%s %s', tally.n, tally.reason), ', ' ORDER BY tally.reason),
        bool_and(tally.reason LIKE 'duplicate-%' OR tally.reason = 'contradicting-fix'),
        bool_or(tally.reason NOT IN ('no-time', 'outside-period') AND (
            tally.reason = ANY (dbanon_internal.list_counted_reasons() || '{future-time,too-fast}'::text[]) OR tally.reason LIKE 'duplicate-%'))
    INTO lost, counts, known, expected
    FROM (SELECT rej.reason, count(*) AS n FROM pg_temp.dbanon_rejected rej GROUP BY rej.reason) tally;
    -- Where what is new is looked for there may be nothing, but what was there must not be unusable.
    IF lost < rows_read OR (may_be_none AND (rows_read = 0 OR expected)) THEN
        RETURN;
    ELSIF known THEN
        RAISE EXCEPTION 'There is nothing to add. The dataset already has all rows of % (%).',
                dbanon_internal.format_quantity(rows_read, 'row'), counts
            USING ERRCODE = 'DA012', DETAIL = format('%s read.', dbanon_internal.format_quantity(rows_read, 'row was', 'rows were')),
                  HINT = 'If the source was loaded before, there is nothing to do.';
    END IF;
    RAISE EXCEPTION 'At least one row must be usable. Got %, none usable%.',
            dbanon_internal.format_quantity(rows_read, 'row'), coalesce(' (' || counts || ')', '')
        USING ERRCODE = 'DA012', DETAIL = format('%s read.', dbanon_internal.format_quantity(rows_read, 'row was', 'rows were')),
              HINT = coalesce(dbanon_internal.describe_first_cell(cells), remedy)
                  || CASE WHEN counts LIKE '%future-time%' THEN ' Load rows of the future with allow_future => true.' ELSE '' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_usable_rows IS
'Refuses a load of which nothing is left, and counts the reasons; where there may be nothing new, only one of which no row could be used.';

CREATE OR REPLACE FUNCTION dbanon_internal.demand_unswapped(rows_read bigint[], remedy text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    swapped bigint;
BEGIN
    SELECT tally.n INTO swapped
    FROM (SELECT rej.file, count(*) AS n FROM pg_temp.dbanon_rejected rej WHERE rej.reason = 'swapped-axes' GROUP BY rej.file) tally
    WHERE 2 * tally.n > rows_read[tally.file + 1] LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'x must be the longitude or easting and y the latitude or northing.'
            USING ERRCODE = 'DA011', DETAIL = format('%s them the other way round.', dbanon_internal.format_quantity(swapped, 'row has', 'rows have')), HINT = remedy;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.demand_unswapped IS 'Refuses a load of which most rows of a file have x and y the wrong way round.';

-- ---- records
--
-- A load is begun before its rows are written, which carry its number, and counted after that. Both functions run with the rights of their
-- owner, since no login writes dbanon.load: the record says what is stored, and not what a login claims.

CREATE OR REPLACE FUNCTION dbanon_internal.find_loaded_table(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE kind WHEN 'trajectories' THEN 'trajectory' WHEN 'requests' THEN 'request' WHEN 'quasi-identifiers' THEN 'quasi_identifier'
        WHEN 'sites' THEN 'site' WHEN 'pois' THEN 'poi' WHEN 'cells' THEN 'cell' WHEN 'stations' THEN 'cell' END
$$;
COMMENT ON FUNCTION dbanon_internal.find_loaded_table IS 'The table that loads of a kind are stored in; NULL for what is no kind.';

CREATE OR REPLACE FUNCTION dbanon_internal.begin_record(
    dataset_id bigint, kind text, sources text[], units_per_s double precision DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text;
    latest bigint;
    drawn bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM ONLY dbanon.dataset dat WHERE dat.dataset_id = begin_record.dataset_id AND dat.dropped_at IS NULL) THEN
        RAISE EXCEPTION 'The dataset to load into must exist. There is none of number %.', coalesce(dataset_id::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'Looked in dbanon.dataset.', HINT = 'List the datasets: SELECT * FROM dbanon.datasets.';
    ELSIF dbanon_internal.find_loaded_table(kind) IS NULL OR coalesce(cardinality(sources), 0) = 0
        OR EXISTS (SELECT FROM unnest(sources) ele (name) WHERE ele.name IS NULL) OR NOT units_per_s > 0 THEN
        RAISE EXCEPTION 'A load must have a kind and the names of its sources, and units above 0. Got another kind, a source without a name, or fewer units.'
            USING ERRCODE = 'DA011', DETAIL = 'Kinds are trajectories, requests, quasi-identifiers, sites, pois, cells and stations.',
                  HINT = 'Load with a function such as dbanon.import_trajectories.';
    END IF;
    FOR source IN SELECT ele.name FROM unnest(sources) WITH ORDINALITY ele (name, nth) ORDER BY ele.nth LOOP
        INSERT INTO dbanon.load (part_of, dataset_id, kind, source, rows_read, rows_kept, units_per_s)
            VALUES (drawn, begin_record.dataset_id, begin_record.kind, left(source, 1000), 0, 0, begin_record.units_per_s) RETURNING load_id INTO latest;
        drawn := coalesce(drawn, latest);
    END LOOP;
    RETURN drawn;
END
$$;
COMMENT ON FUNCTION dbanon_internal.begin_record IS
'Writes a row of dbanon.load for each source of a load, without counts and with at most 1,000 characters of its name, and returns the number of the
first, which rows of all of them carry. Raises an error if there is no such dataset or kind, if a source has no name, or if the units are not above
0.';

CREATE OR REPLACE FUNCTION dbanon_internal.count_record(
    drawn bigint, counted bigint[], without jsonb DEFAULT NULL, judged bigint[] DEFAULT '{}', newest timestamptz DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, left_out jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    first dbanon.load;
    relation text;
    stored numeric;
    kept numeric := 0;
BEGIN
    -- Of this transaction, whose time the record has, and not counted before.
    SELECT load.* INTO first FROM ONLY dbanon.load load
        WHERE load.load_id = drawn AND load.part_of IS NULL AND load.rows_read = 0 AND load.loaded_at = now() AND load.loaded_by = session_user;
    IF first.load_id IS NULL THEN
        RAISE EXCEPTION 'The load to count must be one that this transaction began. Load % is not.', coalesce(drawn::text, 'NULL')
            USING ERRCODE = 'DA001', DETAIL = 'A load is counted once, when its rows are stored.', HINT = 'Load again.';
    END IF;
    relation := dbanon_internal.find_loaded_table(first.kind);
    EXECUTE format('SELECT coalesce(sum(%s), 0) FROM ONLY dbanon.%I t WHERE t.dataset_id = $1 AND t.load_id = $2',
                   CASE relation WHEN 'trajectory' THEN '@postgis@.ST_NPoints(t.path)' ELSE '1' END, relation)
        INTO stored USING first.dataset_id, drawn;
    FOR load_id, rows_read, left_out IN
        SELECT nth.load_id, counted[nth.place], coalesce(without -> (nth.place - 1)::integer, '{}')
        FROM (SELECT load.load_id, row_number() OVER (ORDER BY load.load_id) AS place FROM ONLY dbanon.load load
              WHERE drawn IN (load.load_id, load.part_of)) nth ORDER BY nth.place
    LOOP
        SELECT coalesce(jsonb_object_agg(tally.reason, tally.n), '{}'),
            count_record.rows_read - coalesce(sum(tally.n), 0) - dbanon_internal.sum_counts(count_record.left_out) INTO quarantined, rows_kept
            FROM (SELECT qua.reason, count(*) AS n FROM ONLY dbanon.quarantine qua WHERE qua.load_id = count_record.load_id
                  GROUP BY qua.reason) tally;
        kept := CASE WHEN rows_kept >= 0 THEN kept + rows_kept END;
        EXIT WHEN kept IS NULL;
        UPDATE ONLY dbanon.load load SET rows_read = count_record.rows_read, rows_kept = count_record.rows_kept,
                quarantined = count_record.quarantined, left_out = count_record.left_out
            WHERE load.load_id = count_record.load_id;
        RETURN NEXT;
    END LOOP;
    -- Which of several sources a stored row is from, no row says: their sum is what is stored.
    IF kept IS DISTINCT FROM stored THEN
        RAISE EXCEPTION 'Each row of a load must be stored or in quarantine. % are stored and % are said to be.', stored, coalesce(kept::text, 'none')
            USING ERRCODE = 'DA012', DETAIL = format('Load %s is one of %s.', drawn, first.kind), HINT = 'Load again.';
    END IF;
    IF kept = 0 AND without IS NULL THEN  -- generated data may be of no requests
        DELETE FROM ONLY dbanon.load load WHERE load.load_id = drawn
            AND NOT EXISTS (SELECT FROM ONLY dbanon.quarantine qua WHERE qua.load_id = drawn);
    END IF;
    UPDATE ONLY dbanon.load load SET newest = least(count_record.newest, now()) WHERE load.load_id = drawn AND count_record.newest IS NOT NULL;
    IF judged <> '{}' THEN
        -- What was judged again is in this load's quarantine, if it is wrong still.
        WITH again AS (
            DELETE FROM ONLY dbanon.quarantine qua USING ONLY dbanon.load older
            WHERE qua.quarantine_id = ANY (judged) AND qua.load_id = older.load_id AND older.load_id < drawn
                AND older.dataset_id = first.dataset_id AND older.kind = first.kind
                AND older.source IN (SELECT load.source FROM ONLY dbanon.load load WHERE drawn IN (load.load_id, load.part_of))
            RETURNING qua.load_id, qua.reason
        ), counts AS (
            SELECT tally.load_id, jsonb_object_agg(tally.reason, tally.n) AS by_reason, sum(tally.n) AS rows
            FROM (SELECT again.load_id, again.reason, count(*) AS n FROM again GROUP BY again.load_id, again.reason) tally GROUP BY tally.load_id
        )
        UPDATE ONLY dbanon.load load
            SET quarantined = (SELECT coalesce(jsonb_object_agg(
                                   pair.key, pair.value::bigint - coalesce((counts.by_reason ->> pair.key)::bigint, 0)), '{}')
                               FROM jsonb_each_text(load.quarantined) pair
                               WHERE pair.value::bigint > coalesce((counts.by_reason ->> pair.key)::bigint, 0)),
                left_out = load.left_out || jsonb_build_object('read-again', coalesce((load.left_out ->> 'read-again')::bigint, 0) + counts.rows)
            FROM counts WHERE load.load_id = counts.load_id;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.count_record IS
'Counts what a load stored and left out into its rows of dbanon.load (without: of each source the counts by reason of what is in no quarantine),
and refuses it unless that is all the rows its sources are said to have; one of nothing leaves no record where without is NULL; the
quarantined rows of earlier loads that it judged again leave their quarantines. newest: the newest time stored that an honest clock said.';

CREATE OR REPLACE FUNCTION dbanon_internal.describe_losses(drawn bigint) RETURNS SETOF text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
    -- Of several sources, the one that lost the greatest share.
    SELECT format('%s of %s became %s. Usual causes: %s. To see some: SELECT line, content FROM dbanon.quarantine WHERE load_id = %s AND reason = %L LIMIT 10',
                  dbanon_internal.format_count(lost.n), dbanon_internal.format_quantity(lost.rows_read, 'row'), lost.reason,
                  coalesce(cau.cause, 'the source was loaded before, or has rows twice'), lost.load_id, lost.reason)
    FROM (
        SELECT DISTINCT ON (pair.key) load.load_id, load.rows_read, pair.key AS reason, pair.value::bigint AS n
        FROM dbanon.load load CROSS JOIN jsonb_each_text(load.quarantined) pair
        WHERE drawn IN (load.load_id, load.part_of) AND 20 * pair.value::bigint > load.rows_read
        ORDER BY pair.key, pair.value::numeric / load.rows_read DESC, load.load_id) lost
    LEFT JOIN (VALUES
        ('missing-subject', 'the column of people is another, or the source does not know them'), ('non-finite-position', 'devices had no reception'),
        ('subject-too-long', 'the column of people is another'), ('control-characters', 'the file is in another encoding, or cells hold line breaks'),
        ('missing-category', 'the column of categories is another'), ('too-fast', 'several people have one name, or the limit is in another unit'),
        ('unparsable-time', 'the column of times is another, or they are written in another way than ISO 8601'),
        ('non-finite-time', 'an open end is written as infinity'), ('outside-bbox', 'the box is in other units, or of another area'),
        ('time-out-of-range', 'some numbers are in another unit, such as milliseconds among seconds'),
        ('future-time', 'clocks are fast, or the zone is another'), ('far-time', 'clocks jumped, or the source has several periods'),
        ('other-reference-system', 'the source was put together of several. Reproject its geometries to one in a view, with ST_Transform'),
        ('missing-position', 'devices had no reception, or the columns of positions are others'), ('swapped-axes', 'some rows have latitude first'),
        ('unparsable-position', 'decimal commas, degrees with minutes, or a form of geometries that is not read here'),
        ('position-out-of-range', 'the reference system is another, or 91 and 181 stand for an unknown place'),
        ('far-position', 'devices without reception report 0, or the source has several areas'), ('not-a-polygon', 'the column of shapes is another'),
        ('contradicting-fix', 'several people have one name, or times lost their digits or seconds'),
        ('empty-request', 'the columns of requests are others'), ('duplicate-station', 'several antennas stand at one place'),
        ('invalid-polygon', 'polygons cross themselves. Repair them in a view, with ST_MakeValid'), ('outside-area', 'the area is of another place')) cau (reason, cause) USING (reason)
    ORDER BY lost.n DESC, lost.reason
$$;
COMMENT ON FUNCTION dbanon_internal.describe_losses IS
'Words for which reasons more than 5 percent of the rows of a source are in quarantine, with usual causes and the query that shows such rows.';

CREATE OR REPLACE FUNCTION dbanon_internal.write_load(drawn bigint, counted bigint[], newest timestamptz DEFAULT NULL)
RETURNS TABLE (load_id bigint, rows_read bigint, rows_kept bigint, quarantined jsonb, left_out jsonb)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    uncopied CONSTANT text[] := dbanon_internal.list_counted_reasons();
BEGIN
    INSERT INTO dbanon.quarantine (load_id, line, reason, content, at)
        SELECT load.load_id, rej.line, rej.reason, rej.content, CASE WHEN rej.t >= -62135596800 AND rej.t < 1e11 THEN to_timestamp(rej.t) END
        FROM (SELECT load.load_id, row_number() OVER (ORDER BY load.load_id) - 1 AS file FROM dbanon.load load
              WHERE drawn IN (load.load_id, load.part_of)) load
        JOIN pg_temp.dbanon_rejected rej ON rej.file = load.file AND rej.reason <> ALL (uncopied) ORDER BY load.file, rej.line;
    RETURN QUERY SELECT * FROM dbanon_internal.count_record(drawn, counted, (
        SELECT jsonb_agg(coalesce((SELECT jsonb_object_agg(tally.reason, tally.n)
                                   FROM (SELECT rej.reason, count(*) AS n FROM pg_temp.dbanon_rejected rej
                                         WHERE rej.file = src.file AND rej.reason = ANY (uncopied)
                                         GROUP BY rej.reason) tally), '{}') ORDER BY src.file)
        FROM generate_series(0, cardinality(counted) - 1) src (file)), ARRAY(SELECT DISTINCT bef.quarantine_id FROM pg_temp.dbanon_before bef), newest);
    PERFORM dbanon_internal.raise_notice(note.notice) FROM dbanon_internal.describe_losses(drawn) note (notice);
END
$$;
COMMENT ON FUNCTION dbanon_internal.write_load IS
'Writes to dbanon.quarantine what could not be used of a load''s sources, counts the load, and says which reasons took many rows.';

-- ---- places

CREATE OR REPLACE FUNCTION dbanon_internal.reproject(place @postgis@.geometry, target integer) RETURNS @postgis@.geometry
LANGUAGE plpgsql STABLE PARALLEL UNSAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    shifted @postgis@.geometry;
BEGIN
    -- PROJ either refuses a place that it cannot show, or returns one at infinity: both are null here.
    shifted := @postgis@.ST_Transform(place, target);
    RETURN CASE WHEN @postgis@.ST_XMin(@postgis@.Box3D(shifted)) > -1e12 AND @postgis@.ST_YMin(@postgis@.Box3D(shifted)) > -1e12
                 AND @postgis@.ST_XMax(@postgis@.Box3D(shifted)) < 1e12 AND @postgis@.ST_YMax(@postgis@.Box3D(shifted)) < 1e12
                THEN shifted END;
EXCEPTION WHEN internal_error THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION dbanon_internal.reproject IS 'Reprojects a geometry.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_middle_span(places double precision[], narrowest double precision, OUT low double precision,
    OUT high double precision)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    n integer := cardinality(places);
    -- 96 percent of many places, fewer of few, so that a single wild one is no part of the middle.
    cut integer := trunc(least(0.3::float8, 0.02::float8 + 1 / n::float8) * n);
    ordered double precision[] := ARRAY(SELECT u.place FROM unnest(places) u (place) ORDER BY u.place);
    margin double precision := greatest(3 * (ordered[n - cut] - ordered[cut + 1]), narrowest);
BEGIN
    low := ordered[cut + 1] - margin;
    high := ordered[n - cut] + margin;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_middle_span IS
'Finds what does not lie far outside the rest on one axis: the middle 96 percent of the places and three times its extent around
them.';

CREATE OR REPLACE FUNCTION dbanon_internal.find_trajectory_bounds(
    dataset_id bigint, OUT west double precision, OUT east double precision, OUT south double precision, OUT north double precision)
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most CONSTANT double precision := 100000;
    trajectories bigint;
    xs double precision[];
    ys double precision[];
BEGIN
    -- A sample of at most 100,000 trajectories decides, the same one each time.
    SELECT count(*) INTO trajectories FROM dbanon.trajectory tra WHERE tra.dataset_id = find_trajectory_bounds.dataset_id;
    WITH box AS (
        SELECT @postgis@.Box3D(coalesce(tra.shape, tra.path)) AS b
        FROM dbanon.trajectory tra TABLESAMPLE BERNOULLI (least(100, 100 * most / greatest(trajectories, 1))) REPEATABLE (1)
        WHERE tra.dataset_id = find_trajectory_bounds.dataset_id
    ), corner (x, y) AS (
        SELECT @postgis@.ST_XMin(b), @postgis@.ST_YMin(b) FROM box
        UNION ALL SELECT @postgis@.ST_XMax(b), @postgis@.ST_YMax(b) FROM box
    ), place AS (
        -- Places of 100 m are counted, not trajectories: many may begin at one.
        SELECT DISTINCT round(x / 100) * 100 AS x, round(y / 100) * 100 AS y FROM corner
    )
    SELECT array_agg(x), array_agg(y) INTO xs, ys FROM place;
    -- A dataset without trajectories has no bounds: nothing lies outside.
    west := '-Infinity';
    east := 'Infinity';
    south := '-Infinity';
    north := 'Infinity';
    IF xs IS NOT NULL THEN
        SELECT mid.low, mid.high INTO west, east FROM dbanon_internal.find_middle_span(xs, 1000) mid;
        SELECT mid.low, mid.high INTO south, north FROM dbanon_internal.find_middle_span(ys, 1000) mid;
    END IF;
END
$$;
COMMENT ON FUNCTION dbanon_internal.find_trajectory_bounds IS 'Finds what does not lie far outside where the trajectories of a dataset are.';
