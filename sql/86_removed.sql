-- Helpers that earlier versions had and this one does not, under their name at least: nothing calls them from here on.

DO $$
DECLARE
    removed text;
BEGIN
    -- This transaction has replaced every helper that there is, so one that an older transaction wrote is of an earlier version. All are
    -- dropped in one statement, since they may call one another.
    SELECT string_agg(pro.oid::regprocedure::text, ', ') INTO removed
        FROM pg_proc pro WHERE pro.pronamespace = 'dbanon_internal'::regnamespace AND age(pro.xmin) > 0;
    IF removed IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || removed;
    END IF;
END
$$;
