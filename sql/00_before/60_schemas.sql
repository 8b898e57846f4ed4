-- What the roles need outside of dbanon's schemas, these schemas, and what is in them already. All of it belongs to the admin role, which
-- is no superuser: so the SECURITY DEFINER functions do not run as one.

DO $$
DECLARE
    version CONSTANT integer := current_setting('server_version_num')::integer;
    database CONSTANT text := current_database();
    before text;
    one record;
    role text;
    statement text;
    given text[];
BEGIN
    IF NOT pg_has_role('@admin@', CASE WHEN version < 160000 THEN 'MEMBER' ELSE 'SET' END) THEN
        BEGIN
            GRANT @admin@ TO CURRENT_USER;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_temp.refuse_roles();
        END;
    END IF;
    FOR role IN SELECT our.role FROM pg_temp.list_roles('@prefix@') our LOOP
        IF NOT has_schema_privilege(role, @postgis_name@, 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA @postgis@ TO %I', role);
        END IF;
        IF role <> '@analyst@' AND NOT has_database_privilege(role, database, 'TEMPORARY') THEN
            EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO %I', database, role);
        END IF;
    END LOOP;

    -- Operators see what analysts see; and the admin ends the sessions of those who read a release that is withdrawn.
    FOR one IN SELECT * FROM (VALUES ('@analyst@', '@operator@'), ('pg_signal_backend', '@admin@')) gra (given, member) LOOP
        IF NOT pg_has_role(one.member, one.given, 'MEMBER') THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', one.given, one.member);
            EXCEPTION
                WHEN insufficient_privilege OR unique_violation THEN
                    NULL;  -- not every login may; or the upgrade of another database has just done it
                WHEN lock_not_available THEN PERFORM pg_temp.refuse_roles();
            END;
        END IF;
    END LOOP;

    -- Of a database upgraded before, one may be missing: a dump of some schemas, or an older program.
    FOREACH statement IN ARRAY ARRAY['dbanon', 'dbanon_internal', 'published', 'published_inner'] LOOP
        IF to_regnamespace(statement) IS NULL THEN
            EXECUTE format('CREATE SCHEMA %I AUTHORIZATION @admin@', statement);
        END IF;
    END LOOP;

    -- In a restored database another role owns them: that of the original, or the login that restored it.
    FOR one IN SELECT * FROM pg_temp.list_owners() own WHERE own.owner <> '@admin@' AND NOT own.follows LOOP
        EXECUTE format('ALTER %s %s OWNER TO @admin@', one.kind, one.name);
    END LOOP;

    -- Rights of the roles that the database had until now go to these.
    IF to_regclass('dbanon.installation') IS NOT NULL THEN
        SELECT ins.role_prefix INTO before FROM ONLY dbanon.installation ins;
        PERFORM set_config('dbanon.marked_by', ins.xmin::text, true) FROM ONLY dbanon.installation ins;
    END IF;
    IF before <> '@prefix@' THEN
        given := ARRAY(SELECT had.given FROM pg_temp.list_rights(before, '@prefix@') had);
        PERFORM pg_temp.revoke_rights(before);
        FOREACH statement IN ARRAY given LOOP
            EXECUTE statement;
        END LOOP;
    END IF;

    -- Where the rows of helpers stand now: 86_removed drops those that no later statement of this text writes.
    PERFORM set_config('dbanon.former_helpers', coalesce((
        SELECT string_agg(pro.oid || ' ' || pro.ctid::text, ';')
        FROM pg_proc pro WHERE pro.pronamespace IN ('dbanon_internal'::regnamespace, 'published_inner'::regnamespace)), ''), true);
END
$$;

SET LOCAL ROLE @admin@;
