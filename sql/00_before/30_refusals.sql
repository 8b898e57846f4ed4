-- What must hold before anything is changed.

-- A client may set a savepoint before each statement and go back to it after an error: then it would pass over every refusal below, and
-- these two functions are not of one subtransaction.
CREATE OR REPLACE FUNCTION pg_temp.is_whole() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(DISTINCT p.xmin::text) = 1 FROM pg_proc p
    WHERE p.oid IN ('pg_temp.refuse_use()'::regprocedure, 'pg_temp.is_whole()'::regprocedure)
$$;

DO $$
BEGIN
    IF NOT pg_temp.is_whole() THEN
        RAISE EXCEPTION 'dbanon must be installed in a transaction that an error ends. This client goes on after errors '
            '(of psql, ON_ERROR_ROLLBACK does that), and nothing was changed.'
            USING ERRCODE = 'DA023', HINT = 'Run psql -X -v ON_ERROR_STOP=1 -1 -f dbanon.sql.';
    END IF;
    PERFORM set_config('dbanon.whole', pg_current_xact_id()::text, true);
END
$$;

-- Only a client that goes on after a refusal gets here without that setting. Its session ends, since nothing below may run.
DO $$
BEGIN
    IF pg_catalog.current_setting('dbanon.whole', true) OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text THEN
        RETURN;
    END IF;
    PERFORM pg_catalog.set_config('role', 'none', true);
    PERFORM pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid());
END
$$;

DO $$
BEGIN
    PERFORM pg_temp.wait_for_turn();
END
$$;

-- The server says which one it is. That is kept for the record, since the admin role may be less than the login.
DO $$
BEGIN
    PERFORM set_config('dbanon.server_identifier', s.system_identifier::text, true) FROM pg_control_system() s;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR object_not_in_prerequisite_state THEN
    RAISE EXCEPTION 'The login that upgrades must be able to read which server this is, or a copy of the database would pass for its original. '
        'The server said: %. Nothing was changed.', SQLERRM
        USING ERRCODE = 'DA023', HINT = 'Have `GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC` run by a superuser in this database.';
END
$$;

-- The schemas are dbanon's own: nothing in them is read before the catalogs have shown who owns it.
DO $$
DECLARE
    strange record;
    schemas text;
BEGIN
    FOR strange IN SELECT * FROM pg_temp.list_owners() own WHERE NOT own.trusted LIMIT 1 LOOP
        RAISE EXCEPTION 'The schemas dbanon, dbanon_internal, published, published_inner must be dbanon''s own: functions of others there would run with the rights '
            'of the login that upgrades. Got % % of %. Nothing was changed.', strange.kind, strange.name, strange.owner
            USING ERRCODE = 'DA023', HINT = 'Remove it.';
    END LOOP;
    SELECT string_agg(nsp.nspname, ', ') INTO schemas FROM pg_namespace nsp WHERE nsp.nspname IN ('dbanon', 'dbanon_internal', 'published', 'published_inner');
    IF schemas IS NOT NULL AND NOT EXISTS (
        SELECT FROM pg_class cla WHERE cla.relnamespace = to_regnamespace('dbanon') AND cla.relkind = 'r'
            AND cla.relname IN ('installation', 'alembic_version')
    ) THEN
        RAISE EXCEPTION 'The schemas dbanon, dbanon_internal, published, published_inner must be dbanon''s own. Schema % is in this database already and was made '
            'by another program. Nothing was changed.', schemas
            USING ERRCODE = 'DA023', HINT = 'Rename it, or give dbanon another database.';
    END IF;
END
$$;

-- The revision is one that can be begun with, and the roles are those that the database has.
DO $$
DECLARE
    revision text;
    recorded text;
    since CONSTANT text := @since@;
BEGIN
    IF to_regclass('dbanon.alembic_version') IS NOT NULL THEN
        SELECT max(ver.version_num) INTO revision FROM ONLY dbanon.alembic_version ver;
    END IF;
    IF revision < '@oldest_revision@' THEN
        RAISE EXCEPTION 'Schema dbanon is at revision %, of a program before the first release, and cannot be upgraded.', revision
            USING ERRCODE = 'DA022', HINT = 'Delete all it holds, with `DROP SCHEMA published, dbanon_internal, dbanon CASCADE` or '
                                            '`dbanon db uninstall`. Then install dbanon and load the data again.';
    ELSIF revision IS NULL AND EXISTS (
        SELECT FROM pg_class cla WHERE cla.relnamespace = to_regnamespace('dbanon') AND cla.relkind = 'r' AND cla.relname <> 'alembic_version')
    THEN
        RAISE EXCEPTION 'Schema dbanon must have a revision or no tables. It has tables and none, as after a restore of a dump without data, or one '
            'that was cut short. Nothing was changed.'
            USING ERRCODE = 'DA022', HINT = 'Restore a whole dump into an empty database, or run `DROP SCHEMA IF EXISTS published, published_inner, '
                                            'dbanon_internal, dbanon CASCADE` if nothing in them is needed, and run it again.';
    ELSIF revision > '@head@' THEN
        RAISE EXCEPTION 'Schema dbanon is at revision % and this program knows those up to @head@.', revision
            USING ERRCODE = 'DA022', HINT = 'Install a newer dbanon.';
    ELSIF coalesce(revision, '') < since THEN
        RAISE EXCEPTION 'This script upgrades a database that is at revision % at least. Got %, and nothing was changed.', since,
            coalesce('one at ' || revision, 'one without dbanon')
            USING ERRCODE = 'DA022', HINT = 'Make the script with an earlier --from, or without it.';
    END IF;
    IF to_regclass('dbanon.installation') IS NOT NULL THEN
        SELECT ins.role_prefix INTO recorded FROM ONLY dbanon.installation ins;
    END IF;
    IF NOT @move_roles@ AND recorded <> '@prefix@' THEN
        RAISE EXCEPTION 'The script must be for the roles that this database has, %_*. It is for @prefix@_*, and nothing was changed.', recorded
            USING ERRCODE = 'DA021', HINT = format('Make it with --role-prefix %s. Or with --role-prefix @prefix@, to move all rights to these '
                'roles.', recorded);
    END IF;
END
$$;

-- PostGIS is where this text expects it, or can be put there.
DO $$
DECLARE
    place CONSTANT text := (SELECT nsp.nspname FROM pg_extension ext JOIN pg_namespace nsp ON nsp.oid = ext.extnamespace
                            WHERE ext.extname = 'postgis');
BEGIN
    IF place <> @postgis_name@ THEN
        RAISE EXCEPTION 'The script must be for the schema that PostGIS lives in, %. It is for %, and nothing was changed.',
            quote_ident(place), quote_ident(@postgis_name@)
            USING ERRCODE = 'DA023', HINT = format('Make it with --postgis-schema %L.', place);
    ELSIF place IS NULL AND NOT EXISTS (SELECT FROM pg_available_extensions ext WHERE ext.name = 'postgis') THEN
        RAISE EXCEPTION 'PostGIS must be installed on the server. Its extension was not found there.'
            USING ERRCODE = 'DA023', HINT = 'Install PostGIS on the server''s machine (on Debian: apt install postgresql-postgis).';
    END IF;
END
$$;

-- The login may make what is missing, and become the role that owns it all.
DO $$
DECLARE
    me CONSTANT pg_roles := (SELECT rol FROM pg_roles rol WHERE rol.rolname = current_user);
    version CONSTANT integer := current_setting('server_version_num')::integer;
    missing CONSTANT text := (SELECT string_agg(our.role, ', ') FROM pg_temp.list_roles('@prefix@') our
                              WHERE NOT EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = our.role));
    others CONSTANT text := CASE WHEN to_regclass('dbanon.installation') IS NULL THEN
        array_to_string(pg_temp.list_other_databases(ARRAY(SELECT our.role FROM pg_temp.list_roles('@prefix@') our)), ', ') END;
    strange text;
BEGIN
    SELECT our.role INTO strange FROM pg_temp.list_roles('@prefix@') our WHERE NOT pg_temp.is_plain(our.role) LIMIT 1;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'A role of dbanon''s must be its own: without login and attributes, with the comment of dbanon. Role % can log in, has '
            'attributes, or has another comment.', strange
            USING ERRCODE = 'DA021', HINT = format('Choose other names with --role-prefix, or, if it was made for this, have a superuser run '
                '`COMMENT ON ROLE %I IS %L`.', strange, (SELECT our.comment FROM pg_temp.list_roles('@prefix@') our WHERE our.role = strange));
    ELSIF me.rolsuper THEN
        RETURN;
    ELSIF missing IS NOT NULL AND NOT me.rolcreaterole THEN
        RAISE EXCEPTION 'The login that upgrades must be a superuser, or may create the roles that are missing: %. % may not, and nothing was '
            'changed.', missing, me.rolname
            USING ERRCODE = 'DA023', HINT = format('Run it as another login, or have a superuser run `ALTER ROLE %I CREATEROLE`.', me.rolname);
    ELSIF EXISTS (SELECT FROM pg_roles rol WHERE rol.rolname = '@admin@') AND NOT (
        -- From version 16 on, a role that makes another is its member, but may not become it; and who may make roles may not give all.
        pg_has_role('@admin@', CASE WHEN version < 160000 THEN 'MEMBER' ELSE 'SET' END)
        OR pg_has_role('@admin@', 'MEMBER WITH ADMIN OPTION') OR version < 160000 AND me.rolcreaterole
    ) THEN
        RAISE EXCEPTION 'The login that upgrades must be a superuser or a member of the admin role, @admin@. % is neither, and nothing was '
            'changed.%', me.rolname, coalesce(' These roles are those of database ' || others || '.', '')
            USING ERRCODE = 'DA023', HINT = CASE WHEN others IS NULL THEN 'Run `dbanon db upgrade`, or this script, as such a login.'
                ELSE 'Choose other names with --role-prefix NAME: members of @admin@ read and change all that is in the other database.' END;
    ELSIF NOT has_database_privilege(current_database(), 'CREATE')
        AND num_nulls(to_regnamespace('dbanon'), to_regnamespace('dbanon_internal'), to_regnamespace('published'),
            to_regnamespace('published_inner')) > 0
    THEN
        RAISE EXCEPTION 'The login that upgrades must be allowed to create schemas in database %. % is not, and nothing was changed.',
            current_database(), me.rolname
            USING ERRCODE = 'DA023', HINT = format('Run it as another login, or run `GRANT CREATE ON DATABASE %I TO %I` as the owner of the '
                                                   'database.', current_database(), me.rolname);
    END IF;
END
$$;
