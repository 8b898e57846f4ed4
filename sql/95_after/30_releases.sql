-- Releases of an earlier version get the points of interest of their cells, where the dataset has both as they were. The sums of keyed hashes
-- are carried on by differences: a release that was changed by hand stays one.
DO $$
DECLARE
    bare CONSTANT bigint[] := ARRAY(
        SELECT rel.release_id FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
        WHERE EXISTS (SELECT FROM ONLY dbanon.published_cell pub WHERE pub.release_id = rel.release_id AND pub.pois IS NULL)
            AND rel.pois_at IS NOT DISTINCT FROM dbanon_internal.find_pois_at(rel.release_id, run.dataset_id)
            AND NOT EXISTS (SELECT pub.shape FROM ONLY dbanon.published_cell pub WHERE pub.release_id = rel.release_id
                            EXCEPT SELECT dbanon_internal.hash_cell(cel.geom) FROM ONLY dbanon.cell cel WHERE cel.dataset_id = run.dataset_id));
BEGIN
    IF cardinality(bare) > 0 THEN
        ALTER TABLE dbanon.published_cell DISABLE TRIGGER guard_update;
        ALTER TABLE dbanon.release DISABLE TRIGGER guard_rows;
        UPDATE ONLY dbanon.release rel SET cells_sum = rel.cells_sum - dbanon_internal.compute_cells_sum(rel.release_id, run.dataset_id)
            FROM ONLY dbanon.run run WHERE rel.release_id = ANY (bare) AND run.run_id = rel.run_id;
        UPDATE ONLY dbanon.published_cell pub SET pois = mix.pois
            FROM ONLY dbanon.release rel JOIN ONLY dbanon.run run ON run.run_id = rel.run_id
            CROSS JOIN LATERAL dbanon_internal.list_cell_mixes(run.dataset_id) mix
            WHERE rel.release_id = ANY (bare) AND pub.release_id = rel.release_id AND pub.shape = mix.shape;
        UPDATE ONLY dbanon.release rel SET cells_sum = rel.cells_sum + dbanon_internal.compute_cells_sum(rel.release_id, run.dataset_id)
            FROM ONLY dbanon.run run WHERE rel.release_id = ANY (bare) AND run.run_id = rel.run_id;
        ALTER TABLE dbanon.published_cell ENABLE ALWAYS TRIGGER guard_update;
        ALTER TABLE dbanon.release ENABLE ALWAYS TRIGGER guard_rows;
    END IF;
END
$$;

-- What releases of earlier versions promise is stored with them; this version's words replace the descriptions of live ones. After the
-- methods, whose traits and texts are in them.

DO $$
BEGIN
    IF EXISTS (SELECT FROM dbanon.release rel WHERE rel.promise_hash IS NULL) THEN
        ALTER TABLE dbanon.release DISABLE TRIGGER guard_rows;
        UPDATE dbanon.release rel SET promise = NULL WHERE rel.promise_hash IS NULL;  -- a trigger fills it in
        ALTER TABLE dbanon.release ENABLE ALWAYS TRIGGER guard_rows;
    END IF;
    PERFORM dbanon_internal.describe_release(max(l.release_id)) FROM dbanon.release l
    WHERE l.withdrawn_at IS NULL AND to_regclass(format('published.%I', l.name)) IS NOT NULL GROUP BY l.name;
END
$$;
