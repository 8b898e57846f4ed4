-- What is asked more than once. These functions are the session's own, and go with the transaction or at its end.

-- Everything in dbanon's schemas with its owner, and every role that may create there. Trusted is an owner that a superuser may rely on;
-- what follows something else needs no owner of its own.
CREATE OR REPLACE FUNCTION pg_temp.owners() RETURNS TABLE (kind text, name text, owner name, trusted boolean, follows boolean)
LANGUAGE sql STABLE
AS $$
    WITH ours AS (
        SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace n WHERE n.nspname IN ('dbanon', 'dbanon_internal', 'published')
    ), thing (classid, objid, owner) AS (
        SELECT 'pg_namespace'::regclass, o.oid, o.nspowner FROM ours o
        UNION ALL SELECT 'pg_class'::regclass, c.oid, c.relowner FROM pg_class c JOIN ours o ON o.oid = c.relnamespace
            WHERE c.relkind NOT IN ('i', 'I', 't', 'c')
        UNION ALL SELECT 'pg_proc'::regclass, p.oid, p.proowner FROM pg_proc p JOIN ours o ON o.oid = p.pronamespace
        UNION ALL SELECT 'pg_type'::regclass, y.oid, y.typowner FROM pg_type y JOIN ours o ON o.oid = y.typnamespace
            LEFT JOIN pg_class c ON c.oid = y.typrelid WHERE y.typelem = 0 AND coalesce(c.relkind, 'c') = 'c'
        UNION ALL SELECT 'pg_operator'::regclass, x.oid, x.oprowner FROM pg_operator x JOIN ours o ON o.oid = x.oprnamespace
    )
    SELECT w.kind, w.name, coalesce(r.rolname, 'PUBLIC'), coalesce(@trusted@, false), w.follows
    FROM (
        SELECT i.type AS kind, i.identity AS name, t.owner, t.classid = 'pg_class'::regclass AND i.type = 'sequence' AS follows
        FROM thing t CROSS JOIN LATERAL pg_identify_object(t.classid, t.objid, 0) i
        UNION ALL
        -- The functions of triggers, which are called when their tables are written to.
        SELECT 'trigger', format('%I on %s, which calls %s', g.tgname, g.tgrelid::regclass, g.tgfoid::regprocedure), p.proowner, true
        FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN ours o ON o.oid = c.relnamespace
        JOIN pg_proc p ON p.oid = g.tgfoid
        WHERE NOT g.tgisinternal
        UNION ALL
        SELECT 'right to create in schema', quote_ident(o.nspname), x.grantee, true
        FROM ours o CROSS JOIN LATERAL aclexplode(o.nspacl) x
        WHERE x.privilege_type = 'CREATE'
    ) w
    LEFT JOIN pg_roles r ON r.oid = w.owner
$$;

-- The roles of a prefix, with the comments by which they are known.
CREATE OR REPLACE FUNCTION pg_temp.roles(prefix text) RETURNS TABLE (role text, comment text)
LANGUAGE sql IMMUTABLE
AS $$
    SELECT prefix || '_' || w.role, 'dbanon: ' || w.purpose
    FROM (VALUES
        @purposes@
    ) w (role, purpose)
$$;

-- Whether a role is one of dbanon's and nothing else; true of one that is not there.
CREATE OR REPLACE FUNCTION pg_temp.is_plain(role text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT coalesce(
        (SELECT NOT (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls)
             AND coalesce(shobj_description(r.oid, 'pg_authid') IN (SELECT o.comment FROM pg_temp.roles('') o), false)
         FROM pg_roles r WHERE r.rolname = is_plain.role), true)
$$;

-- The other databases of the server in which roles own something, or have a right.
CREATE OR REPLACE FUNCTION pg_temp.databases_of(roles text[]) RETURNS text[]
LANGUAGE sql STABLE
AS $$
    SELECT array_agg(DISTINCT d.datname::text ORDER BY d.datname::text)
    FROM pg_shdepend s JOIN pg_roles r ON r.oid = s.refobjid
    JOIN pg_database d ON d.oid = s.dbid OR s.classid = 'pg_database'::regclass AND d.oid = s.objid
    WHERE s.refclassid = 'pg_authid'::regclass AND r.rolname = ANY (roles) AND d.datname <> current_database()
$$;

-- A statement for each right that the roles of a prefix have in this database: that gives it to those of another, or takes it from them.
CREATE OR REPLACE FUNCTION pg_temp.rights(prefix text, other text) RETURNS TABLE (given text, taken text)
LANGUAGE sql STABLE
AS $$
    SELECT format('GRANT %s ON %s TO %I%s', w.what, w.thing, other || substr(w.role, length(prefix) + 1),
                  CASE WHEN w.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END),
        format('REVOKE %s ON %s FROM %I CASCADE', w.what, w.thing, w.role)
    FROM (
        SELECT concat(x.privilege_type, ' (' || quote_ident(o.part) || ')') AS what, format('%s %s', o.kind, o.name) AS thing,
            r.rolname::text AS role, x.is_grantable
        FROM (
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS name,
                NULL::name AS part, c.relacl AS acl
            FROM pg_class c WHERE c.relacl IS NOT NULL
            UNION ALL
            SELECT 'TABLE', a.attrelid::regclass::text, a.attname, a.attacl FROM pg_attribute a WHERE a.attacl IS NOT NULL
            UNION ALL
            SELECT 'ROUTINE', p.oid::regprocedure::text, NULL, p.proacl FROM pg_proc p WHERE p.proacl IS NOT NULL
            UNION ALL
            SELECT 'SCHEMA', quote_ident(n.nspname), NULL, n.nspacl FROM pg_namespace n WHERE n.nspacl IS NOT NULL
            UNION ALL
            SELECT 'DATABASE', quote_ident(d.datname), NULL, d.datacl FROM pg_database d WHERE d.datname = current_database()
        ) o
        CROSS JOIN LATERAL aclexplode(o.acl) x
        JOIN pg_roles r ON r.oid = x.grantee
        WHERE r.rolname IN (SELECT n.role FROM pg_temp.roles(prefix) n)
    ) w
$$;

CREATE OR REPLACE FUNCTION pg_temp.revoke_rights(prefix text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY(SELECT r.taken FROM pg_temp.rights(prefix, prefix) r) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

-- What shows every login something about private tables, or writes large objects. Locks show which backends work; counters are exact and
-- move with every statement; PostGIS's functions on statistics and indexes ask for no right on the table, and answer with its true extent
-- and with estimates for any box; large objects fill the disk and stay. Ours is what the login may take and give.
CREATE OR REPLACE FUNCTION pg_temp.public_things()
RETURNS TABLE (kind text, name text, privilege text, ours boolean, grantees text[])
LANGUAGE sql STABLE
AS $$
    SELECT o.kind, o.name, o.privilege, pg_has_role(o.owner, 'USAGE'),
        ARRAY(SELECT coalesce(r.rolname, 'PUBLIC')::text FROM aclexplode(o.acl) x LEFT JOIN pg_roles r ON r.oid = x.grantee
              WHERE x.privilege_type = o.privilege)
    FROM (
        SELECT 'TABLE' AS kind, c.oid::regclass::text AS name, 'SELECT' AS privilege, c.relowner AS owner,
            coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
        FROM pg_class c
        WHERE c.relnamespace = 'pg_catalog'::regnamespace
            AND (c.relname = 'pg_locks' OR c.relname ~
                 '^pg_stat(io|_xact)?_((all|sys|user)_(tables|indexes|sequences|functions)|database(_conflicts)?)$')
        UNION ALL
        SELECT 'FUNCTION', p.oid::regprocedure::text, 'EXECUTE', p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
        FROM pg_proc p
        WHERE (p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^pg_stat_get_(?!subscription)'
               AND oidvectortypes(p.proargtypes) = 'oid')
            OR p.oid = 'pg_lock_status()'::regprocedure
            OR (p.pronamespace = 'pg_catalog'::regnamespace
                AND p.proname IN ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite'))
            OR (p.pronamespace = (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'postgis') AND p.proname IN (
                '_postgis_stats', '_postgis_selectivity', '_postgis_join_selectivity', '_postgis_index_extent',
                'st_estimatedextent'))
    ) o
    ORDER BY o.kind DESC, o.name
$$;

-- Gives PUBLIC what was taken from it, and takes it from the roles that were given it instead. The recorded names are looked up among
-- those above, and no recorded text is run. Names that are gone are left out.
CREATE OR REPLACE FUNCTION pg_temp.give_back(prefix text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    changed record;
BEGIN
    IF EXISTS (SELECT FROM dbanon.changed_right w JOIN pg_temp.public_things() t ON t.name = w.object WHERE NOT t.ours) THEN
        RAISE EXCEPTION 'Rights that a superuser took from PUBLIC must be given back by one. This login is none, and nothing was changed.'
            USING ERRCODE = 'DA023', HINT = 'Run it again as a superuser.';
    END IF;
    FOR changed IN
        SELECT t.kind, t.name, t.privilege, w.grantee FROM dbanon.changed_right w JOIN pg_temp.public_things() t ON t.name = w.object
        ORDER BY w.object, w.grantee
    LOOP
        IF changed.grantee = 'PUBLIC' THEN
            EXECUTE format('GRANT %s ON %s %s TO PUBLIC', changed.privilege, changed.kind, changed.name);
        ELSE
            EXECUTE format('REVOKE %s ON %s %s FROM %I', changed.privilege, changed.kind, changed.name,
                           CASE changed.grantee WHEN 'pg_monitor' THEN 'pg_monitor' ELSE prefix || '_' || changed.grantee END);
        END IF;
    END LOOP;
    DELETE FROM dbanon.changed_right;
END
$$;

-- Locks out other upgrades and removals until the transaction ends. Any login can take the lock, so it is not waited for for ever.
CREATE OR REPLACE FUNCTION pg_temp.wait_for_turn() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(@upgrade_lock@);
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'Another upgrade of this database did not end within %, and nothing was changed. Its lock is held by %.',
        current_setting('lock_timeout'), coalesce((
            SELECT string_agg(format('%s (process %s)', s.usename, l.pid), ', ')
            FROM pg_locks l LEFT JOIN pg_stat_activity s ON s.pid = l.pid
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
                AND (l.classid::bigint << 32) | l.objid::bigint = @upgrade_lock@
                AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        ), 'a session that has just ended')
        USING ERRCODE = 'DA023', HINT = 'End that session, or run it again.';
END
$$;

-- Refuses because other sessions use dbanon's tables or views, and names these.
CREATE OR REPLACE FUNCTION pg_temp.refuse_use() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    RAISE EXCEPTION 'dbanon''s tables and views were in use for % by %. Nothing was changed.', current_setting('lock_timeout'), coalesce((
            SELECT string_agg(DISTINCT format('%s (process %s)', s.usename, s.pid), ', ')
            FROM pg_locks l JOIN pg_stat_activity s ON s.pid = l.pid JOIN pg_class c ON c.oid = l.relation
            JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname IN ('dbanon', 'dbanon_internal', 'published') AND l.pid <> pg_backend_pid()
        ), 'a session that has ended')
        USING ERRCODE = 'DA023', HINT = 'End that transaction and run it again.';
END
$$;
