-- Drops the helpers of an earlier version that have gone or have another name now. A program of that version is refused from here on.
-- What functions do is written after this, by their names alone: until now an old helper may have the name of a new one.

DO $$
DECLARE
    removed text;
    users text;
BEGIN
    -- To write a function moves its row, so a row that has not moved is of a helper that this version lacks. All are dropped in one
    -- statement, since they may call one another.
    SELECT string_agg(pro.oid::regprocedure::text, ', ' ORDER BY pro.oid) INTO removed
        FROM pg_proc pro
        WHERE pro.pronamespace IN ('dbanon_internal'::regnamespace, 'published_inner'::regnamespace) AND pro.prokind = 'f'
            AND pro.oid || ' ' || pro.ctid::text = ANY (string_to_array(current_setting('dbanon.former_helpers'), ';'))
            AND NOT EXISTS (SELECT FROM pg_depend dep WHERE dep.objid = pro.oid AND dep.classid = 'pg_proc'::regclass AND dep.deptype = 'e');
    IF removed IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || removed;
    END IF;
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS users = PG_EXCEPTION_DETAIL;
    RAISE EXCEPTION 'Functions of schemas dbanon_internal and published_inner must be used by dbanon alone. This version drops some that are used: %.', split_part(users, E'\n', 1)
        USING ERRCODE = 'DA023', DETAIL = format('They are: %s.', removed), HINT = 'Drop what uses them, and run it again. Use functions of schemas dbanon and published instead.';
END
$$;
