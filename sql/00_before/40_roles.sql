-- The four roles, which belong to the server and not to the database: so their names are chosen for each.

DO $$
DECLARE
    one record;
    ours CONSTANT text[] := ARRAY(SELECT o.role FROM pg_temp.roles('@prefix@') o);
    chosen boolean := false;
    used text;
    members text;
BEGIN
    FOR one IN SELECT * FROM pg_temp.roles('@prefix@') o WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = o.role) LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one.role);
            EXECUTE format('COMMENT ON ROLE %I IS %L', one.role, one.comment);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;  -- the upgrade of another database has just made it
        END;
    END LOOP;

    -- A copy (restored, cloned) has the record of its original, whose members would have their rights in it as well: it chooses again.
    IF to_regclass('dbanon.installation') IS NOT NULL THEN
        SELECT i.role_prefix = '@prefix@' AND i.database_oid = d.oid AND i.server_identifier::text = current_setting('dbanon.server_identifier') INTO chosen
        FROM ONLY dbanon.installation i, pg_database d WHERE d.datname = current_database();
    END IF;
    IF chosen OR @share_roles@ THEN
        RETURN;
    END IF;

    -- Of two first upgrades at once (of two databases) the second waits here for the first, and then sees its roles: both write the row of
    -- the admin role, which all databases share. A login that may not do that goes on.
    FOR i IN 1..10 LOOP
        BEGIN
            ALTER ROLE @admin@ NOLOGIN;
            EXIT;
        EXCEPTION
            WHEN insufficient_privilege THEN EXIT;
            WHEN internal_error THEN NULL;  -- "tuple concurrently updated": the other one has committed
        END;
    END LOOP;

    used := array_to_string(pg_temp.databases_of(ours), ', ');
    WITH RECURSIVE inside (role, member) AS (
        SELECT r.rolname, m.member FROM pg_roles r JOIN pg_auth_members m ON m.roleid = r.oid
        WHERE r.rolname = ANY (ours)
        UNION
        SELECT i.role, m.member
        FROM inside i JOIN pg_auth_members m ON m.roleid = i.member
        WHERE i.member::regrole::text <> ALL (ours)
    )
    SELECT string_agg(w.member, ', ' ORDER BY w.member) INTO members
    FROM (
        SELECT format('%s (%s)', r.rolname, string_agg(i.role, ', ' ORDER BY i.role)) AS member
        FROM inside i JOIN pg_roles r ON r.oid = i.member
        WHERE NOT r.rolsuper AND r.rolname <> ALL (ours || ARRAY[current_user, session_user]::text[])
        GROUP BY r.rolname
    ) w;
    IF used IS NOT NULL OR members IS NOT NULL THEN
        RAISE EXCEPTION 'The roles of a database must not let in logins that were granted them for another one. %. Members: %.',
            coalesce(format('Database %s of this server uses @prefix@_*', used), 'Roles @prefix@_* are on this server already'),
            coalesce(members, 'none yet')
            USING ERRCODE = 'DA021', HINT = 'Choose other names with --role-prefix NAME, or let the same logins in with --share-roles.';
    END IF;
END
$$;
