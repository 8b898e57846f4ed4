-- What a source holds: a table, a view, or a file that was copied into pg_temp.dbanon_file. Files are counted from 0, and a table is file 0.
--
-- A load reads it through the view pg_temp.dbanon_source, which has columns of known names and is its only statement that is made of texts. The
-- caller made it, so it reads with the rights of the caller, and what its columns call was looked up when it was made. A view may call functions of
-- others that name PostGIS's by the search path, which therefore leads there while rows are read. PostgreSQL looks up no name of the statement
-- that reads them by that path, because its expressions are functions that were bound when they were made (13_expressions).

CREATE OR REPLACE FUNCTION dbanon_internal.suggest_coordinates(types jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
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
LANGUAGE plpgsql STABLE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
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

CREATE OR REPLACE FUNCTION dbanon_internal.make_file(source_label text, cells integer, swap_remedy text DEFAULT NULL, check_remedy text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Two loads may be of one transaction.
    IF to_regclass('pg_temp.dbanon_file') IS NOT NULL THEN
        DROP TABLE pg_temp.dbanon_file;
    END IF;
    EXECUTE format('CREATE TEMP TABLE dbanon_file (line bigint, content jsonb, %s) ON COMMIT DROP', CASE WHEN cells IS NULL
        THEN 'label text, geom @postgis@.geometry'
        ELSE concat_ws(', ', 'subject text, "time" timestamptz, repeated boolean', (SELECT string_agg(format('cell_%s text', num), ', ' ORDER BY num)
                                                                  FROM generate_series(1, cells) num)) END);
    EXECUTE format('COMMENT ON TABLE pg_temp.dbanon_file IS %L', source_label);
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
    source regclass, qualified text, OUT is_file boolean, OUT source_label text, OUT line text, OUT content text, OUT swap_remedy text,
    OUT check_remedy text)
LANGUAGE sql STABLE PARALLEL SAFE STRICT SET search_path = pg_catalog, pg_temp AS $$
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
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    name text;
    missing text[] := '{}';
BEGIN
    -- Classes of what a view can do wrong; that the disk is full is none. A view may call functions of ours, and raise what they say; only of
    -- moving points and of texts the statement calls one itself.
    IF left(state, 2) NOT IN ('21', '22', '38', '39', '42', 'DA', 'P0', 'XX')
        OR split_part(context, E'\n', 1) ~ 'dbanon_internal\.(read_moving_instants|refuse_local_time)\(' THEN
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
              HINT = CASE WHEN missing <> '{}' THEN format('Name other columns than those that it lacks: %s.', array_to_string(missing, ', '))
                  ELSE 'Select all of it in psql to see why.' END;
END
$$;
COMMENT ON FUNCTION dbanon_internal.raise_reading_error IS
'Raises that the source, which may be a view of anything, cannot be read, if this SQLSTATE comes from it; otherwise does nothing.';

CREATE OR REPLACE FUNCTION dbanon_internal.show_source(query text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('pg_temp.dbanon_source') IS NOT NULL THEN
        DROP VIEW pg_temp.dbanon_source;
    END IF;
    EXECUTE 'CREATE TEMP VIEW dbanon_source AS ' || query;
END
$$;
COMMENT ON FUNCTION dbanon_internal.show_source IS 'Makes the view pg_temp.dbanon_source, through which a load reads and which its reader drops.';

CREATE OR REPLACE FUNCTION dbanon_internal.ask_source(query text, qualified text) RETURNS double precision
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
-- Rows come in the order of the table, which decides between contradicting fixes.
SET synchronize_seqscans = off AS $$
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
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
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
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
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
