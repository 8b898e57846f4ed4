-- The large tables of a run as they are read and hashed: some thousand rows at a time, column after column. What the server
-- hashes for a publication is what it sends to an attack, byte for byte, so both can say what the rows were (`compute_content_digest`).
-- The functions are single SELECTs without settings of their own, so that the planner inlines them.

CREATE OR REPLACE FUNCTION dbanon_internal.read_region_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, numbers bytea, shape_sizes bytea, shapes bytea, cells_sizes bytea, cells bytea, crowds bytea, subjects bytea,
    extra_sizes bytea, extras bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- Numbers with the same bits above the last 12 are a block. Those without any number are passed over.
    WITH RECURSIVE block (no) AS (
        SELECT pg_catalog.min(reg.region_no) >> 12 FROM ONLY dbanon.region reg WHERE reg.run_id = read_region_blocks.run_id
        UNION ALL
        SELECT (SELECT pg_catalog.min(reg.region_no) FROM ONLY dbanon.region reg
                WHERE reg.run_id = read_region_blocks.run_id AND reg.region_no > (block.no << 12) + 4095) >> 12
        FROM block
        WHERE block.no IS NOT NULL
    )
    SELECT block.no::bigint, piece.*
    FROM block
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int4send(item.region_no), ''),
            pg_catalog.string_agg(pg_catalog.int4send(pg_catalog.length(item.shape)), ''), pg_catalog.string_agg(item.shape, ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.length(item.cells), -1)), ''),
            coalesce(pg_catalog.string_agg(item.cells, ''), ''),
            pg_catalog.string_agg(pg_catalog.int4send(item.crowd), ''), pg_catalog.string_agg(pg_catalog.int4send(item.subjects), ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.octet_length(item.extra), -1)), ''),
            pg_catalog.convert_to(coalesce(pg_catalog.string_agg(item.extra, ''), ''), 'UTF8')
        FROM (SELECT reg.region_no, @postgis@.ST_AsEWKB(reg.region, 'NDR') AS shape, pg_catalog.array_send(reg.cells) AS cells,
                  reg.crowd, reg.subjects, reg.extra::text AS extra
              FROM ONLY dbanon.region reg
              WHERE reg.run_id = read_region_blocks.run_id AND reg.region_no BETWEEN block.no << 12 AND (block.no << 12) + 4095
              ORDER BY reg.region_no OFFSET 0) item
    ) piece
    WHERE block.no IS NOT NULL;
END;
COMMENT ON FUNCTION dbanon_internal.read_region_blocks IS
'The regions of a run by number, some thousand a row, or block: of each column the binary form of all values (extra: its text in UTF-8), with the
size of each, -1 where it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_membership_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, records bytea, trajectories bytea, period_sizes bytea, periods bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    WITH RECURSIVE block (no) AS (
        SELECT pg_catalog.min(mem.record_id) >> 10 FROM ONLY dbanon.membership mem WHERE mem.run_id = read_membership_blocks.run_id
        UNION ALL
        SELECT (SELECT pg_catalog.min(mem.record_id) FROM ONLY dbanon.membership mem
                WHERE mem.run_id = read_membership_blocks.run_id AND mem.record_id > (block.no << 10) + 1023) >> 10
        FROM block
        WHERE block.no IS NOT NULL
    )
    SELECT block.no, piece.*
    FROM block
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int8send(item.record_id), ''),
            pg_catalog.string_agg(pg_catalog.int8send(item.trajectory_id), ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.length(item.period), -1)), ''),
            coalesce(pg_catalog.string_agg(item.period, ''), '')
        FROM (SELECT mem.record_id, mem.trajectory_id, pg_catalog.range_send(mem.period) AS period
              FROM ONLY dbanon.membership mem
              WHERE mem.run_id = read_membership_blocks.run_id AND mem.record_id BETWEEN block.no << 10 AND (block.no << 10) + 1023
              ORDER BY mem.record_id, mem.trajectory_id, mem.period OFFSET 0) item
    ) piece
    WHERE block.no IS NOT NULL;
END;
COMMENT ON FUNCTION dbanon_internal.read_membership_blocks IS
'The members of a run by record, trajectory and period, those of a thousand records a row: of each column the binary form of all values,
with the size of each period, -1 where it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.read_name_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, trajectories bytea, name_sizes bytea, names bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT item.block, pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int8send(item.trajectory_id), ''),
        pg_catalog.string_agg(pg_catalog.int4send(pg_catalog.octet_length(item.subject)), ''),
        pg_catalog.convert_to(pg_catalog.string_agg(item.subject, ''), 'UTF8')
    FROM (SELECT tra.trajectory_id >> 16 AS block, tra.trajectory_id, tra.subject
          FROM (SELECT DISTINCT run.dataset_id, mem.trajectory_id FROM ONLY dbanon.run run JOIN ONLY dbanon.membership mem ON mem.run_id = run.run_id
                WHERE run.run_id = read_name_blocks.run_id) own
          -- From the first member on, in the order of an index.
          JOIN ONLY dbanon.trajectory tra ON tra.dataset_id = own.dataset_id AND tra.trajectory_id = own.trajectory_id
          WHERE tra.trajectory_id >= (SELECT pg_catalog.min(mem.trajectory_id) FROM ONLY dbanon.membership mem WHERE mem.run_id = read_name_blocks.run_id)
          ORDER BY 1, 2 OFFSET 0) item
    GROUP BY item.block;
END;
COMMENT ON FUNCTION dbanon_internal.read_name_blocks IS
'The trajectories of a run''s dataset that are members of the run, by id, those with the same id >> 16 a row: their ids, the sizes of the names
of their subjects, and these in UTF-8.';
