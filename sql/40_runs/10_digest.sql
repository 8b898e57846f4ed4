-- The digest that ties a verdict to exactly the rows it was given on, and to the people they are about.

CREATE OR REPLACE FUNCTION dbanon_internal.compute_table_digest(run_id bigint, relation text) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT COST 1000000 SET search_path = pg_catalog, pg_temp
-- The plan is made for a run of average size: after one run of millions of rows it would read them for every small one.
SET enable_seqscan = off
-- Names are merged: an index has them in the order of trajectories.
SET enable_nestloop = off SET enable_hashjoin = off SET enable_hashagg = off SET jit = off SET work_mem = '64MB' AS $$
BEGIN
    RETURN sha256(coalesce(CASE relation
        WHEN 'region' THEN (
            SELECT string_agg(sha256(int8send(block.block) || int8send(block.rows) || block.numbers || block.shape_sizes || block.shapes
                    || block.cells_sizes || block.cells
                                     || block.crowds || block.subjects || block.extra_sizes || block.extras), ''::bytea ORDER BY block.block)
            FROM dbanon_internal.read_region_blocks(compute_table_digest.run_id) block)
        WHEN 'membership' THEN (
            SELECT string_agg(sha256(int8send(block.block) || int8send(block.rows) || block.records || block.trajectories
                    || block.period_sizes || block.periods),
                              ''::bytea ORDER BY block.block)
            FROM dbanon_internal.read_membership_blocks(compute_table_digest.run_id) block)
        -- A trajectory that is renamed, or is gone, changes the digest.
        WHEN 'trajectory' THEN (
            SELECT string_agg(sha256(int8send(block.block) || int8send(block.rows) || block.trajectories || block.name_sizes || block.names),
                              ''::bytea ORDER BY block.block)
            FROM dbanon_internal.read_name_blocks(compute_table_digest.run_id) block)
        -- A record is its numbers of periods and regions.
        WHEN 'record' THEN (
            SELECT string_agg(sha256(record_send(ROW(rec.record_id, rec.periods, rec.regions))), ''::bytea ORDER BY rec.record_id)
            FROM ONLY dbanon.record rec WHERE rec.run_id = compute_table_digest.run_id)
        END, ''));
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_table_digest IS
'SHA-256 over the rows of a run in one of its large tables: its regions, its members, the trajectories that are members, or its records.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_large_digests(run_id bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET parallel_setup_cost = 0
SET parallel_tuple_cost = 0 AS $$
BEGIN
    IF (SELECT run.rows FROM ONLY dbanon.run run WHERE run.run_id = compute_large_digests.run_id) > 10000 THEN
        -- Each in a process of its own: a function in SQL, or an assignment, would start no parallel workers.
        RETURN (
            SELECT string_agg(part.digest, ''::bytea ORDER BY part.no)
            FROM (SELECT 3 AS no, dbanon_internal.compute_table_digest(compute_large_digests.run_id, 'trajectory') AS digest
                  UNION ALL SELECT 1, dbanon_internal.compute_table_digest(compute_large_digests.run_id, 'region')
                  UNION ALL SELECT 2, dbanon_internal.compute_table_digest(compute_large_digests.run_id, 'membership')
                  UNION ALL SELECT 4, dbanon_internal.compute_table_digest(compute_large_digests.run_id, 'record')) part);
    END IF;
    RETURN dbanon_internal.compute_table_digest(run_id, 'region') || dbanon_internal.compute_table_digest(run_id, 'membership')
        || dbanon_internal.compute_table_digest(run_id, 'trajectory') || dbanon_internal.compute_table_digest(run_id, 'record');
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_large_digests IS 'The digests of a run''s regions, members, names and records, one behind the other.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_content_digest(run_id bigint, large bytea DEFAULT NULL) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET work_mem = '64MB'
AS $$
BEGIN
    -- The tables as they are stored, in parts, because no value may be larger than 1 GB.
    RETURN sha256(CASE WHEN large IS NULL THEN dbanon_internal.compute_large_digests(run_id)
                       ELSE large || dbanon_internal.compute_table_digest(run_id, 'record') END
        || (SELECT sha256(coalesce(string_agg(sha256(record_send(ROW(per.period_no, per.period))), ''::bytea ORDER BY per.period_no), ''))
            FROM ONLY dbanon.period per WHERE per.run_id = compute_content_digest.run_id)
        -- Hiding sets, for the families that store them; for others the digest of no rows.
        || (SELECT sha256(coalesce(string_agg(int8send(rec.record_id) || rec.digest, ''::bytea ORDER BY rec.record_id), ''))
            FROM (SELECT hid.record_id, sha256(string_agg(
                             record_send(ROW(hid.period, hid.others)), ''::bytea ORDER BY hid.period, hid.others)) AS digest
                  FROM ONLY dbanon.hiding hid
                  WHERE hid.run_id = compute_content_digest.run_id
                  GROUP BY hid.record_id) rec)
        -- Likewise the atoms that regions are made of.
        || (SELECT sha256(coalesce(string_agg(record_send(ROW(atom.cell_id, atom.atom)), ''::bytea ORDER BY atom.cell_id), ''))
            FROM ONLY dbanon.atom atom WHERE atom.run_id = compute_content_digest.run_id));
END
$$;
COMMENT ON FUNCTION dbanon_internal.compute_content_digest IS
'SHA-256 over every region, period, record, member, hiding set and atom of a run, and the name of the subject that each member is in its dataset:
equal for the very same sets and regions of the same people; large: the digests of its regions, members and names, of a client that has read
their blocks, else they are read here.';

CREATE OR REPLACE FUNCTION dbanon_internal.compute_run_digest(run_id bigint, content bytea DEFAULT NULL) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp AS $$
    -- Binary send functions and UTF-8 text: nothing here depends on TimeZone, DateStyle, bytea_output or client_encoding.
    -- record_send frames every value with its type and length, so two different rows never look alike.
    SELECT sha256(
        record_send(ROW(
            convert_to('dbanon digest 2', 'UTF8'), convert_to(run.method, 'UTF8'), convert_to(run.algorithm, 'UTF8'),
            convert_to(run.params::text, 'UTF8'), convert_to(run.suppressed::text, 'UTF8'), convert_to(run.program_version, 'UTF8'),
            dat.dataset_id, dat.srid, dat.grid_m, dat.grid_s, dat.revision,
            -- How the method's rows are read: what a release makes of them, and who is taken for hidden with whom. No words.
            convert_to(met.region_type, 'UTF8'),
            convert_to((SELECT jsonb_agg(ele.value - 'comment' ORDER BY ele.ord)
                        FROM jsonb_array_elements(met.columns) WITH ORDINALITY ele (value, ord))::text, 'UTF8'),
            convert_to((met.traits - ARRAY['notices', 'totals', 'reasons', 'requires', 'proposed'])::text, 'UTF8'),
            dbanon_internal.stands_alone(run.method, run.algorithm)))
        || coalesce(int4send(dbanon_internal.find_window_s(run.method, run.algorithm, run.params)), '')
        || coalesce(compute_run_digest.content, dbanon_internal.compute_content_digest(run.run_id)))
    FROM ONLY dbanon.run run
    JOIN ONLY dbanon.dataset dat ON dat.dataset_id = run.dataset_id
    JOIN ONLY dbanon.method met ON met.name = run.method
    WHERE run.run_id = compute_run_digest.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.compute_run_digest IS
'SHA-256 over a run''s method and how rows of it are read, algorithm, parameters and suppressed counts, its dataset and the dataset''s grid and
revision now, every region, period, record, member, hiding set and atom, and the name of the subject that each member is in
that dataset, if it is there: equal digests mean that nothing the verdict rests on has changed, nor the people the rows are
about; content: as compute_content_digest gives it, of who has it, else it is made here.';

CREATE OR REPLACE FUNCTION dbanon_internal.add_surface(digest bytea, surface published_inner.surface) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE CALLED ON NULL INPUT SET search_path = pg_catalog, pg_temp
RETURN CASE WHEN surface IS NULL THEN digest ELSE sha256(digest || record_send(surface)) END;
COMMENT ON FUNCTION dbanon_internal.add_surface IS 'The digest of a run with that of the surface that was made of its rows.';
