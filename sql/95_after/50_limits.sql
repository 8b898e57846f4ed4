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
        SELECT rol.rolname, lim.name, lim.value, dense_rank() OVER (ORDER BY rol.rolname) AS place
        FROM pg_roles rol CROSS JOIN (VALUES ('statement_timeout', '5min'), ('temp_file_limit', '2GB')) lim (name, value)
        WHERE rol.rolcanlogin AND NOT rol.rolsuper
            AND EXISTS (
                SELECT FROM pg_roles via WHERE pg_has_role(rol.oid, via.oid, 'MEMBER') AND (via.rolname = '@analyst@' OR via.rolname IN (
                    SELECT unnest(rel.readers) FROM dbanon.release rel WHERE rel.withdrawn_at IS NULL)))
            AND NOT EXISTS (SELECT FROM pg_roles via WHERE pg_has_role(rol.oid, via.oid, 'MEMBER') AND via.rolname = ANY (ours))
            -- What holds for the login: what is set nearest to it, otherwise what the server starts sessions with.
            AND coalesce(
                (SELECT split_part(ele.setting, '=', 2)
                 FROM pg_db_role_setting drs CROSS JOIN unnest(drs.setconfig) ele (setting)
                 WHERE drs.setdatabase IN (0, (SELECT pgd.oid FROM pg_database pgd WHERE pgd.datname = current_database()))
                     AND drs.setrole IN (0, rol.oid) AND starts_with(ele.setting, lim.name || '=')
                 ORDER BY drs.setrole = 0, drs.setdatabase = 0 LIMIT 1),
                (SELECT pgs.reset_val FROM pg_settings pgs WHERE pgs.name = lim.name)) ~ '^(0|-1)[a-z]*$'
    )
    SELECT max(lacking.place), string_agg(
            format('`ALTER ROLE %I SET %s = %L`', lacking.rolname, lacking.name, lacking.value), ', ' ORDER BY lacking.place, lacking.name)
        FILTER (WHERE lacking.place <= named)
    INTO logins, statements FROM lacking;
    IF logins > 0 THEN
        RAISE NOTICE 'Some logins that read releases may compute for any time, or fill the disk with temporary files. A superuser can limit '
            'them (on a managed server set temp_file_limit for all): %.', statements || CASE WHEN logins > named
                THEN format(', and the same for %s', dbanon_internal.format_quantity(logins - named, 'more login')) ELSE '' END
            USING ERRCODE = 'DA018';
    END IF;
END
$$;
