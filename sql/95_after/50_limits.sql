-- Says how to limit the time and the temporary files of logins that only read releases. A role's settings hold for its own login and not
-- for its members, so the analysts' role can carry none.

DO $$
DECLARE
    ours CONSTANT text[] := ARRAY['@admin@', '@operator@', '@worker@'];
    named CONSTANT bigint := 3;
    logins bigint;
    statements text;
BEGIN
    WITH lacking AS (
        SELECT r.rolname, l.name, l.value, dense_rank() OVER (ORDER BY r.rolname) AS place
        FROM pg_roles r CROSS JOIN (VALUES ('statement_timeout', '5min'), ('temp_file_limit', '2GB')) l (name, value)
        WHERE r.rolcanlogin AND NOT r.rolsuper
            AND EXISTS (
                SELECT FROM pg_roles o WHERE pg_has_role(r.oid, o.oid, 'MEMBER') AND (o.rolname = '@analyst@' OR o.rolname IN (
                    SELECT unnest(e.readers) FROM dbanon.release e WHERE e.withdrawn_at IS NULL)))
            AND NOT EXISTS (SELECT FROM pg_roles o WHERE pg_has_role(r.oid, o.oid, 'MEMBER') AND o.rolname = ANY (ours))
            -- What holds for the login: what is set nearest to it, otherwise what the server starts sessions with.
            AND coalesce(
                (SELECT split_part(c.setting, '=', 2)
                 FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) c (setting)
                 WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
                     AND s.setrole IN (0, r.oid) AND starts_with(c.setting, l.name || '=')
                 ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1),
                (SELECT g.reset_val FROM pg_settings g WHERE g.name = l.name)) ~ '^(0|-1)[a-z]*$'
    )
    SELECT max(w.place), string_agg(format('`ALTER ROLE %I SET %s = %L`', w.rolname, w.name, w.value), ', ' ORDER BY w.place, w.name)
        FILTER (WHERE w.place <= named)
    INTO logins, statements FROM lacking w;
    IF logins > 0 THEN
        RAISE NOTICE 'Some logins that read releases may compute for any time, or fill the disk with temporary files. A superuser can limit '
            'them (on a managed server set temp_file_limit for all): %.', statements || CASE WHEN logins > named
                THEN format(', and the same for %s', dbanon_internal.counted(logins - named, 'more login')) ELSE '' END
            USING ERRCODE = 'DA018';
    END IF;
END
$$;
