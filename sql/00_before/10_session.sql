-- One transaction, and the settings that every statement below needs.

-- What another session commits while this one waits for its turn is seen.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL client_encoding = 'UTF8';
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
-- A name without a schema is one of pg_catalog's. Names of PostGIS's are written with its schema: 50_postgis refuses what other logins
-- have under such names there.
SET LOCAL search_path = pg_catalog, pg_temp;
-- The settings of the login are for its own queries.
SET LOCAL lock_timeout = '@lock_wait@';
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL jit = off;
-- A killed client keeps no lock for long, and its work is undone.
SET LOCAL client_connection_check_interval = '2s';
-- Some checks of the language would refuse what is right below.
SET LOCAL plpgsql.extra_errors = 'none';
SET LOCAL plpgsql.extra_warnings = 'none';
-- Not what is skipped because it is there.
SET LOCAL client_min_messages = warning;

DO $$
DECLARE
    version CONSTANT integer := pg_catalog.current_setting('server_version_num')::pg_catalog.int4;
BEGIN
    -- Outside of one transaction each setting above ended with its statement, and no name below may be looked up.
    IF pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.<>) 'pg_catalog, pg_temp'
        OR pg_catalog.current_setting('transaction_read_only')::pg_catalog.bool
    THEN
        RAISE EXCEPTION 'dbanon must be installed in one transaction that may write. This is not one, and nothing was changed.'
            USING ERRCODE = 'DA023', HINT = 'Run psql -X -v ON_ERROR_STOP=1 -1 -f dbanon.sql at the primary server, where default_transaction_read_only is off.';
    END IF;
    IF version < @oldest_server@ THEN
        RAISE EXCEPTION 'The server must be PostgreSQL % or later. Got version %.', @oldest_server@ / 10000, version / 10000
            USING ERRCODE = 'DA023', HINT = 'Move to a newer server.';
    END IF;
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'The encoding of the database must be UTF8, in which names of places and people are kept. Got %.',
            current_setting('server_encoding')
            USING ERRCODE = 'DA023', HINT = 'Create another database, with ENCODING ''UTF8'' TEMPLATE template0, and use that.';
    END IF;
    -- The owner of a database decides as which role sessions begin there: not those of a superuser.
    IF (SELECT rol.rolsuper FROM pg_roles rol WHERE rol.rolname = session_user) THEN
        SET LOCAL ROLE NONE;
    END IF;
    -- The last sections become this role again.
    PERFORM set_config('dbanon.began_as', current_setting('role'), true);
    IF NOT has_database_privilege(current_database(), 'TEMPORARY') THEN
        RAISE EXCEPTION 'The login that upgrades must be allowed to make temporary functions. % is not.', current_user
            USING ERRCODE = 'DA023', HINT = format('Run `GRANT TEMPORARY ON DATABASE %I TO %I` as the owner of the database.',
                                                   current_database(), current_user);
    END IF;
END
$$;
