-- The digest that ties a verdict to exactly the rows it was given on, and to the people they are about.

CREATE OR REPLACE FUNCTION dbanon_internal.table_content(run_id bigint, relation text) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT COST 1000000
SET search_path = pg_catalog, pg_temp
-- The plan is made for a run of average size: after one run of millions of rows it would read them for every small one.
SET enable_seqscan = off
-- Names are found by hashing.
SET enable_mergejoin = off
SET work_mem = '64MB'
AS $$
BEGIN
    RETURN sha256(coalesce(CASE relation
        WHEN 'region' THEN (
            SELECT string_agg(sha256(int8send(b.block) || int8send(b.rows) || b.numbers || b.shape_sizes || b.shapes || b.cells_sizes || b.cells
                                     || b.crowds || b.subjects || b.extra_sizes || b.extras), ''::bytea ORDER BY b.block)
            FROM dbanon_internal.region_blocks(table_content.run_id) b)
        WHEN 'membership' THEN (
            SELECT string_agg(sha256(int8send(b.block) || int8send(b.rows) || b.records || b.trajectories || b.period_sizes || b.periods),
                              ''::bytea ORDER BY b.block)
            FROM dbanon_internal.membership_blocks(table_content.run_id) b)
        -- A trajectory that is renamed, or is gone, changes the digest.
        WHEN 'trajectory' THEN (
            SELECT string_agg(sha256(int8send(b.block) || int8send(b.rows) || b.trajectories || b.name_sizes || b.names), ''::bytea ORDER BY b.block)
            FROM dbanon_internal.name_blocks(table_content.run_id) b)
        END, ''));
END
$$;
COMMENT ON FUNCTION dbanon_internal.table_content(bigint, text) IS
'SHA-256 over the blocks of a run in one of its large tables: its regions, its members, or the trajectories that are members.';

CREATE OR REPLACE FUNCTION dbanon_internal.large_content(run_id bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET parallel_setup_cost = 0
SET parallel_tuple_cost = 0
AS $$
BEGIN
    IF (SELECT r.rows FROM ONLY dbanon.run r WHERE r.run_id = large_content.run_id) > 10000 THEN
        -- Each in a process of its own: a function in SQL, or an assignment, would start no parallel workers.
        RETURN (
            SELECT string_agg(x.digest, ''::bytea ORDER BY x.no)
            FROM (SELECT 3 AS no, dbanon_internal.table_content(large_content.run_id, 'trajectory') AS digest
                  UNION ALL SELECT 1, dbanon_internal.table_content(large_content.run_id, 'region')
                  UNION ALL SELECT 2, dbanon_internal.table_content(large_content.run_id, 'membership')) x);
    END IF;
    RETURN dbanon_internal.table_content(run_id, 'region') || dbanon_internal.table_content(run_id, 'membership')
        || dbanon_internal.table_content(run_id, 'trajectory');
END
$$;
COMMENT ON FUNCTION dbanon_internal.large_content(bigint) IS
'The digests of a run''s regions, members and names, one behind the other.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_content(run_id bigint, large bytea DEFAULT NULL) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET work_mem = '64MB'
AS $$
BEGIN
    -- The tables as they are stored: each region and period once, each record as its numbers of them. In parts, because no
    -- value may be larger than 1 GB.
    RETURN sha256(coalesce(large, dbanon_internal.large_content(run_id))
        || (SELECT sha256(coalesce(string_agg(sha256(record_send(ROW(p.period_no, p.period))), ''::bytea ORDER BY p.period_no), ''))
            FROM ONLY dbanon.period p WHERE p.run_id = run_content.run_id)
        || (SELECT sha256(coalesce(string_agg(sha256(record_send(ROW(d.record_id, d.periods, d.regions))), ''::bytea
                                              ORDER BY d.record_id), ''))
            FROM ONLY dbanon.record d WHERE d.run_id = run_content.run_id)
        -- Hiding sets, for the families that store them; for others the digest of no rows.
        || (SELECT sha256(coalesce(string_agg(int8send(x.record_id) || x.digest, ''::bytea ORDER BY x.record_id), ''))
            FROM (SELECT h.record_id, sha256(string_agg(
                             record_send(ROW(h.period, h.others)), ''::bytea ORDER BY h.period, h.others)) AS digest
                  FROM ONLY dbanon.hiding h
                  WHERE h.run_id = run_content.run_id
                  GROUP BY h.record_id) x)
        -- Likewise the atoms that regions are made of.
        || (SELECT sha256(coalesce(string_agg(record_send(ROW(a.cell_id, a.atom)), ''::bytea ORDER BY a.cell_id), ''))
            FROM ONLY dbanon.atom a WHERE a.run_id = run_content.run_id));
END
$$;
COMMENT ON FUNCTION dbanon_internal.run_content(bigint, bytea) IS
'SHA-256 over every region, period, record, member, hiding set and atom of a run, and the name of the subject that each member is in its dataset:
equal for the very same sets and regions of the same people; large: the digests of its regions, members and names, of a client that has read
their blocks, else they are read here.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_digest(run_id bigint, content bytea DEFAULT NULL) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Binary send functions and UTF-8 text: nothing here depends on TimeZone, DateStyle, bytea_output or client_encoding.
    -- record_send frames every value with its type and length, so two different rows never look alike.
    SELECT sha256(
        record_send(ROW(
            convert_to('dbanon digest 2', 'UTF8'), convert_to(r.method, 'UTF8'), convert_to(r.algorithm, 'UTF8'),
            convert_to(r.params::text, 'UTF8'), convert_to(r.suppressed::text, 'UTF8'), convert_to(r.program_version, 'UTF8'),
            d.dataset_id, d.srid, d.grid_m, d.grid_s, d.revision,
            -- How the method's rows are read: what a release makes of them, and who is taken for hidden with whom. No words.
            convert_to(m.region_type, 'UTF8'),
            convert_to((SELECT jsonb_agg(k.value - 'comment' ORDER BY k.ord)
                        FROM jsonb_array_elements(m.columns) WITH ORDINALITY k (value, ord))::text, 'UTF8'),
            convert_to((m.traits - ARRAY['notices', 'totals', 'reasons'])::text, 'UTF8'), dbanon_internal.stands_alone(r.method, r.algorithm)))
        || coalesce(run_digest.content, dbanon_internal.run_content(r.run_id)))
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    JOIN ONLY dbanon.method m ON m.name = r.method
    WHERE r.run_id = run_digest.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.run_digest(bigint, bytea) IS
'SHA-256 over a run''s method and how rows of it are read, algorithm, parameters and suppressed counts, its dataset and the dataset''s grid and
revision now, every region, period, record, member, hiding set and atom, and the name of the subject that each member is in
that dataset, if it is there: equal digests mean that nothing the verdict rests on has changed, nor the people the rows are
about; content: as run_content gives it, of who has it, else it is made here.';
