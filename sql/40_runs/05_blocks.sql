-- The large tables of a run as they are read and hashed: some thousand rows at a time, column after column. What the server
-- hashes for a publication is what it sends to an attack, byte for byte, so both can say what the rows were (`run_content`).
-- The functions are single SELECTs without settings of their own, so that the planner inlines them.

CREATE OR REPLACE FUNCTION dbanon_internal.region_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, numbers bytea, shape_sizes bytea, shapes bytea, cells_sizes bytea, cells bytea, crowds bytea, subjects bytea,
    extra_sizes bytea, extras bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    -- Numbers with the same bits above the last 12 are a block. Those without any number are passed over.
    WITH RECURSIVE block (no) AS (
        SELECT pg_catalog.min(g.region_no) >> 12 FROM ONLY dbanon.region g WHERE g.run_id = region_blocks.run_id
        UNION ALL
        SELECT (SELECT pg_catalog.min(g.region_no) FROM ONLY dbanon.region g
                WHERE g.run_id = region_blocks.run_id AND g.region_no > (b.no << 12) + 4095) >> 12
        FROM block b
        WHERE b.no IS NOT NULL
    )
    SELECT b.no::bigint, piece.*
    FROM block b
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int4send(r.region_no), ''),
            pg_catalog.string_agg(pg_catalog.int4send(pg_catalog.length(r.shape)), ''), pg_catalog.string_agg(r.shape, ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.length(r.cells), -1)), ''),
            coalesce(pg_catalog.string_agg(r.cells, ''), ''),
            pg_catalog.string_agg(pg_catalog.int4send(r.crowd), ''), pg_catalog.string_agg(pg_catalog.int4send(r.subjects), ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.octet_length(r.extra), -1)), ''),
            pg_catalog.convert_to(coalesce(pg_catalog.string_agg(r.extra, ''), ''), 'UTF8')
        FROM (SELECT g.region_no, @postgis@.ST_AsEWKB(g.region, 'NDR') AS shape, pg_catalog.array_send(g.cells) AS cells,
                  g.crowd, g.subjects, g.extra::text AS extra
              FROM ONLY dbanon.region g
              WHERE g.run_id = region_blocks.run_id AND g.region_no BETWEEN b.no << 12 AND (b.no << 12) + 4095
              ORDER BY g.region_no OFFSET 0) r
    ) piece
    WHERE b.no IS NOT NULL;
END;
COMMENT ON FUNCTION dbanon_internal.region_blocks(bigint) IS
'The regions of a run by number, some thousand a row, or block: of each column the binary form of all values (extra: its text in UTF-8), with the
size of each, -1 where it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.membership_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, records bytea, trajectories bytea, period_sizes bytea, periods bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    WITH RECURSIVE block (no) AS (
        SELECT pg_catalog.min(m.record_id) >> 10 FROM ONLY dbanon.membership m WHERE m.run_id = membership_blocks.run_id
        UNION ALL
        SELECT (SELECT pg_catalog.min(m.record_id) FROM ONLY dbanon.membership m
                WHERE m.run_id = membership_blocks.run_id AND m.record_id > (b.no << 10) + 1023) >> 10
        FROM block b
        WHERE b.no IS NOT NULL
    )
    SELECT b.no, piece.*
    FROM block b
    CROSS JOIN LATERAL (
        SELECT pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int8send(r.record_id), ''),
            pg_catalog.string_agg(pg_catalog.int8send(r.trajectory_id), ''),
            pg_catalog.string_agg(pg_catalog.int4send(coalesce(pg_catalog.length(r.period), -1)), ''),
            coalesce(pg_catalog.string_agg(r.period, ''), '')
        FROM (SELECT m.record_id, m.trajectory_id, pg_catalog.range_send(m.period) AS period
              FROM ONLY dbanon.membership m
              WHERE m.run_id = membership_blocks.run_id AND m.record_id BETWEEN b.no << 10 AND (b.no << 10) + 1023
              ORDER BY m.record_id, m.trajectory_id, m.period OFFSET 0) r
    ) piece
    WHERE b.no IS NOT NULL;
END;
COMMENT ON FUNCTION dbanon_internal.membership_blocks(bigint) IS
'The members of a run by record, trajectory and period, those of a thousand records a row: of each column the binary form of all values,
with the size of each period, -1 where it is null.';

CREATE OR REPLACE FUNCTION dbanon_internal.name_blocks(run_id bigint) RETURNS TABLE (
    block bigint, rows bigint, trajectories bytea, name_sizes bytea, names bytea)
LANGUAGE sql STABLE PARALLEL SAFE CALLED ON NULL INPUT
BEGIN ATOMIC
    SELECT n.block, pg_catalog.count(*), pg_catalog.string_agg(pg_catalog.int8send(n.trajectory_id), ''),
        pg_catalog.string_agg(pg_catalog.int4send(pg_catalog.octet_length(n.subject)), ''),
        pg_catalog.convert_to(pg_catalog.string_agg(n.subject, ''), 'UTF8')
    FROM (SELECT t.trajectory_id >> 16 AS block, t.trajectory_id, t.subject
          FROM ONLY dbanon.trajectory t
          WHERE t.dataset_id = (SELECT r.dataset_id FROM ONLY dbanon.run r WHERE r.run_id = name_blocks.run_id)
              AND EXISTS (SELECT FROM ONLY dbanon.membership m WHERE m.run_id = name_blocks.run_id AND m.trajectory_id = t.trajectory_id)
          ORDER BY 1, 2 OFFSET 0) n
    GROUP BY n.block;
END;
COMMENT ON FUNCTION dbanon_internal.name_blocks(bigint) IS
'The trajectories of a run''s dataset that are members of the run, by id, those with the same id >> 16 a row: their ids, the sizes of the names
of their subjects, and these in UTF-8.';
