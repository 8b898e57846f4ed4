-- Drops the helpers of an earlier version that have gone or have another name now. Nothing calls them any more.

DO $$
DECLARE
    removed text;
BEGIN
    -- This transaction has written every helper of this version, so what an older transaction wrote is of an earlier one. All are
    -- dropped in one statement, since they may call one another.
    SELECT string_agg(pro.oid::regprocedure::text, ', ') INTO removed
        FROM pg_proc pro WHERE pro.pronamespace = 'dbanon_internal'::regnamespace AND age(pro.xmin) > 0;
    IF removed IS NOT NULL THEN
        EXECUTE 'DROP FUNCTION ' || removed;
    END IF;
END
$$;
