-- What releases of earlier versions promise is stored with them; this version's words replace the descriptions of live ones. After the
-- methods, whose traits and texts are in them.

DO $$
BEGIN
    IF EXISTS (SELECT FROM dbanon.release rel WHERE rel.promise IS NULL) THEN
        ALTER TABLE dbanon.release DISABLE TRIGGER guard_rows;
        UPDATE dbanon.release rel SET promise = NULL WHERE rel.promise IS NULL;  -- a trigger fills it in
        ALTER TABLE dbanon.release ENABLE ALWAYS TRIGGER guard_rows;
    END IF;
    PERFORM dbanon_internal.describe_release(max(l.release_id)) FROM dbanon.release l
    WHERE l.withdrawn_at IS NULL AND to_regclass(format('published.%I', l.name)) IS NOT NULL GROUP BY l.name;
END
$$;
