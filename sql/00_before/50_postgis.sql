-- PostGIS, in a schema in which no other login can put a function beside its own.

CREATE OR REPLACE FUNCTION pg_temp.demand_closed(schema text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    everybody text;
    others text;
    owner text;
BEGIN
    SELECT string_agg(w.role, ', ' ORDER BY w.role), string_agg(w.role, ', ' ORDER BY w.role) FILTER (WHERE NOT w.owns),
        string_agg(w.role, ', ') FILTER (WHERE w.owns)
    INTO everybody, others, owner
    FROM (
        SELECT coalesce(quote_ident(r.rolname), 'PUBLIC') AS role, coalesce(r.oid = n.nspowner, false) AS owns
        FROM pg_namespace n JOIN pg_database d ON d.datname = current_database()
        CROSS JOIN LATERAL (
            SELECT x.grantee FROM aclexplode(n.nspacl) x WHERE x.privilege_type = 'CREATE' UNION SELECT n.nspowner) g
        LEFT JOIN pg_roles r ON r.oid = g.grantee
        WHERE n.nspname = demand_closed.schema AND (r.oid IS NULL OR NOT r.rolsuper AND r.oid <> d.datdba
            AND r.rolname NOT IN ('pg_database_owner', '@admin@'))
    ) w;
    IF everybody IS NOT NULL THEN
        RAISE EXCEPTION 'Only superusers, the database''s owner and @admin@ may create in the schema of PostGIS, or other logins could shadow its '
            'functions. In % % may as well.', quote_ident(schema), everybody
            USING ERRCODE = 'DA023', HINT = format('Run %s.', concat_ws(' and ',
                CASE WHEN owner IS NOT NULL THEN format('`ALTER SCHEMA %I OWNER TO pg_database_owner`', schema) END,
                CASE WHEN others IS NOT NULL THEN format('`REVOKE CREATE ON SCHEMA %I FROM %s`', schema, others) END));
    END IF;
END
$$;

DO $$
BEGIN
    -- Before it is created as well: what runs then may not find a function of others.
    PERFORM pg_temp.demand_closed(@postgis_name@);
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'postgis') THEN
        BEGIN
            CREATE EXTENSION postgis SCHEMA @postgis@;
        EXCEPTION WHEN insufficient_privilege OR invalid_schema_name THEN
            RAISE EXCEPTION 'Extension postgis must be in the database. This login may not create it, or there is no schema %.',
                quote_ident(@postgis_name@)
                USING ERRCODE = 'DA023', HINT = 'Run `CREATE EXTENSION postgis` in this database as a superuser, or as the administrator of a managed server.';
        END;
        PERFORM pg_temp.demand_closed(@postgis_name@);
    END IF;
END
$$;
