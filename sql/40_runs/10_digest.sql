-- The digest that ties a verdict to exactly the rows it was given on, and to the people they are about.

CREATE OR REPLACE FUNCTION dbanon_internal.run_content(run_id bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
-- The plan is made for a run of average size: after one run of millions of rows it would read them for every small one.
SET enable_seqscan = off
SET enable_nestloop = off
-- Parallel workers share one hash table of names, and hash the regions; sorted names each of them would have to read all of.
SET enable_mergejoin = off
SET parallel_setup_cost = 0
SET parallel_tuple_cost = 0
-- What workers share lies in /dev/shm, of which a container may have little. More would not be faster.
SET work_mem = '32MB'
SET hash_mem_multiplier = 1
AS $$
DECLARE
    dataset CONSTANT bigint := (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = run_content.run_id);
BEGIN
    -- Returned as an expression: a function in SQL, or SELECT INTO, would start no parallel workers.
    RETURN sha256(
        -- The tables as they are stored: each region and period once, each record as its numbers of them. Row by row, because no
        -- value may be larger than 1 GB.
        (SELECT sha256(coalesce(string_agg(x.digest, ''::bytea ORDER BY x.region_no), ''))
            FROM (SELECT g.region_no, sha256(record_send(ROW(
                      g.region_no, @postgis@.ST_AsEWKB(g.region, 'NDR'), g.cells, g.crowd, g.subjects, convert_to(g.extra::text, 'UTF8')
                      ))) AS digest
                  FROM ONLY dbanon.region g WHERE g.run_id = run_content.run_id
                  ORDER BY g.region_no) x)
        || (SELECT sha256(coalesce(string_agg(sha256(record_send(ROW(p.period_no, p.period))), ''::bytea ORDER BY p.period_no), ''))
            FROM ONLY dbanon.period p WHERE p.run_id = run_content.run_id)
        || (SELECT sha256(coalesce(string_agg(sha256(record_send(ROW(d.record_id, d.periods, d.regions))), ''::bytea
                                              ORDER BY d.record_id), ''))
            FROM ONLY dbanon.record d WHERE d.run_id = run_content.run_id)
        -- Members with the names of their subjects: a trajectory that is renamed, or is gone, changes the digest.
        || (SELECT sha256(coalesce(string_agg(int8send(x.record_id) || x.digest, ''::bytea ORDER BY x.record_id), ''))
            FROM (SELECT m.record_id, sha256(string_agg(
                             record_send(ROW(m.trajectory_id, m.period, convert_to(t.subject, 'UTF8'))), ''::bytea
                             ORDER BY m.trajectory_id, m.period)) AS digest
                  FROM ONLY dbanon.membership m
                  LEFT JOIN ONLY dbanon.trajectory t ON t.trajectory_id = m.trajectory_id AND t.dataset_id = dataset
                  WHERE m.run_id = run_content.run_id
                  GROUP BY m.record_id) x)
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
COMMENT ON FUNCTION dbanon_internal.run_content(bigint) IS
'SHA-256 over every region, period, record, member, hiding set and atom of a run, and the name of the subject that each member is in its dataset:
equal for the very same sets and regions of the same people.';

CREATE OR REPLACE FUNCTION dbanon_internal.run_digest(run_id bigint) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
    -- Binary send functions and UTF-8 text: nothing here depends on TimeZone, DateStyle, bytea_output or client_encoding.
    -- record_send frames every value with its type and length, so two different rows never look alike.
    SELECT sha256(
        record_send(ROW(
            convert_to('dbanon digest 1', 'UTF8'), convert_to(r.method, 'UTF8'), convert_to(r.algorithm, 'UTF8'),
            convert_to(r.params::text, 'UTF8'), convert_to(r.suppressed::text, 'UTF8'), convert_to(r.program_version, 'UTF8'),
            d.dataset_id, d.srid, d.grid_m, d.grid_s, d.revision,
            -- How the method's rows are read: what a release makes of them, and who is taken for hidden with whom. No words.
            convert_to(m.region_type, 'UTF8'),
            convert_to((SELECT jsonb_agg(k.value - 'comment' ORDER BY k.ord)
                        FROM jsonb_array_elements(m.columns) WITH ORDINALITY k (value, ord))::text, 'UTF8'),
            convert_to((m.traits - ARRAY['notices', 'totals', 'reasons'])::text, 'UTF8'), dbanon_internal.stands_alone(r.method, r.algorithm)))
        || dbanon_internal.run_content(r.run_id))
    FROM ONLY dbanon.run r
    JOIN ONLY dbanon.dataset d ON d.dataset_id = r.dataset_id
    JOIN ONLY dbanon.method m ON m.name = r.method
    WHERE r.run_id = run_digest.run_id
$$;
COMMENT ON FUNCTION dbanon_internal.run_digest(bigint) IS
'SHA-256 over a run''s method and how rows of it are read, algorithm, parameters and suppressed counts, its dataset and the dataset''s grid and
revision now, every region, period, record, member, hiding set and atom, and the name of the subject that each member is in
that dataset, if it is there: equal digests mean that nothing the verdict rests on has changed, nor the people the rows are
about.';
